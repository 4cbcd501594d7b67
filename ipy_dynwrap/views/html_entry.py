"""One cache entry in HTML without script: its guards in words, its inputs, phases and listings."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING

from . import words
from .html_parts import LEFT, RIGHT, escaped, faint, fold, grid

if TYPE_CHECKING:
    from ipy_dynwrap.snapshot import EntryDetails, GuardInfo, Listing

__all__ = ["details"]

_GUARD_HEADS = (("what it requires", LEFT), ("asked for by", LEFT), ("what is checked", LEFT))
_INPUT_HEADS = (("input", LEFT), ("what it is", LEFT))
_PHASE_HEADS = (("phase", LEFT), ("took", RIGHT))
_PRE = "margin: 4px 0; padding: 6px; overflow-x: auto; background: rgba(128, 128, 128, 0.1); line-height: 1.35"
_MARK = "background: rgba(224, 160, 48, 0.3)"


def details(found: EntryDetails, title: str) -> str:
    """Return what is kept of an entry, behind `title`."""
    parts = [f"<div>the compiler's cache on disk: {found.disk_cache}</div>"] if found.disk_cache is not None else []
    if found.guards:
        label = f"Guards ({len(found.guards):,})"
        parts.append(fold(label, grid(_GUARD_HEADS, map(_guard, found.guards))))
    if found.inputs:
        rows = ((f"<code>{escaped(name)}</code>", escaped(what)) for name, what in found.inputs.items())
        parts.append(fold(f"Inputs ({len(found.inputs):,})", grid(_INPUT_HEADS, rows, wide=False)))
    if found.phases:
        rows = ((escaped(name), words.duration(seconds)) for name, seconds in found.phases)
        parts.append(fold("Compilation", grid(_PHASE_HEADS, rows, wide=False)))
    parts += [fold(words.printable(each.title), _listing(each)) for each in found.listings]
    content = "".join(parts) or "<div>nothing is kept of it</div>"
    return fold(title, f'<div style="padding-left: 1.2em">{content}</div>')


def _guard(guard: GuardInfo) -> tuple[str, str, str]:
    checks = "<br>".join(map(escaped, guard.code))
    return (
        escaped(guard.words),
        escaped(guard.asked_by),
        f"<code>{checks}</code> {faint(escaped(guard.kind))}",
    )


def _listing(listing: Listing) -> str:
    lines = listing.text.splitlines()
    width = len(str(listing.first_line + len(lines)))
    shown = []
    for number, line in enumerate(lines, listing.first_line):
        text = (
            f"{faint(f'{number:{width}}')}  {escape(''.join(c if c.isprintable() else ' ' for c in line.expandtabs()))}"
        )
        if (why := listing.marks.get(number)) is not None:
            text = f'<span style="{_MARK}">{text}   ◂ {escaped(why)}</span>'
        shown.append(text)
    content = "\n".join(shown)
    return f'<pre style="{_PRE}">{content}</pre>'
