"""The views in HTML without script: for saved notebooks, nbconvert, GitHub, and a page of its own.

Styles are attributes of the elements: what shows a notebook often drops `<style>`, and never lets a page's style
leak into another's. Colours are translucent or inherited, so that light and dark pages both work.
"""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING

from ipy_dynwrap.guard_kinds import UNKEYED

from . import text, words

if TYPE_CHECKING:
    from ipy_dynwrap.snapshot import CacheInfo, EntryInfo, WrapperInfo

__all__ = ["page", "table"]

_GREY = "rgba(128, 128, 128, 0.35)"
# nbconvert's own style fixes the widths of columns, and they overlap then.
_TABLE = "border-collapse: collapse; font-size: 0.92em; table-layout: auto; width: 100%"
_LEFT = f"text-align: left; vertical-align: top; padding: 4px 10px 4px 0; border-bottom: 1px solid {_GREY}"
_RIGHT = _LEFT.replace("left", "right", 1) + "; white-space: nowrap"
# The details belong to the row above them.
_JOINED = f"border-bottom: 1px solid {_GREY}; text-align: left; padding: 0 0 6px 1.2em"
_STATE_COLOURS = {"compiled": "#2e9e5b", "at limit": "#d64545", "eager": "#c98a1b", "skipped": "#c98a1b"}

_HEADS = (
    ("target", _LEFT),
    ("state", _LEFT),
    ("entries", _RIGHT),
    ("calls", _RIGHT),
    ("hits", _RIGHT),
    ("eager", _RIGHT),
    ("compiles", _RIGHT),
    ("again", _RIGHT),
    ("compile time", _RIGHT),
    ("last reason", _LEFT),
)
_ENTRY_HEADS = (
    ("entry", _LEFT),
    ("hits", _RIGHT),
    ("run time", _RIGHT),
    ("compile time", _RIGHT),
    ("asked for in", _LEFT),
    ("reason", _LEFT),
)
_UNKEYED_HEADS = (("what guards look at", _LEFT), ("why it is no key", _LEFT))


def table(info: CacheInfo, size: int | None = None) -> str:
    """Return `info` as an HTML fragment.

    Parameters
    ----------
    info
        What to show.
    size
        About how many bytes the rows may take; what does not fit is counted. No limit by default.

    Returns
    -------
    str
        The sums, a table of the wrappers whose entries unfold, and what is no part of a key. Everything that comes from
        the user is escaped.
    """
    if not info.wrappers:
        return f"<p>{escape(text.EMPTY)}</p>"
    rows: list[str] = []
    for wrapper in info.wrappers:
        row = _wrapper(wrapper)
        if size is not None:
            size -= len(row.encode())
            if size < 0:
                break
        rows.append(row)
    more = len(info.wrappers) - len(rows)
    return "".join(
        [
            f'<p style="margin: 0 0 6px">{escape(words.sums(info))}</p>',
            f'<div style="overflow-x: auto"><table style="{_TABLE}">{_head(_HEADS)}<tbody>',
            *rows,
            "</tbody></table></div>",
            f"<p>and {words.count(more, 'more wrapper')}</p>" if more else "",
            _unkeyed(),
        ]
    )


def _unkeyed() -> str:
    rows = "".join(
        f'<tr><td style="{_LEFT}">{escape(what)}</td><td style="{_LEFT}">{escape(why)}</td></tr>'
        for what, why in UNKEYED
    )
    return _fold(text.UNKEYED_TITLE, f'<table style="{_TABLE}">{_head(_UNKEYED_HEADS)}<tbody>{rows}</tbody></table>')


def _fold(title: str, content: str) -> str:
    return f'<details><summary style="opacity: 0.65; cursor: pointer">{escape(title)}</summary>{content}</details>'


def page(info: CacheInfo, title: str = "ipy_dynwrap: compiled code of this session") -> str:
    """Return `info` as a complete HTML page that needs nothing else."""
    return (
        '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width">\n<meta name="color-scheme" content="light dark">\n'
        f"<title>{escape(title)}</title>\n"
        "<style>body { font: 15px/1.5 system-ui, sans-serif; margin: 2em auto; max-width: 1200px; padding: 0 1em }"
        "</style>\n</head>\n<body>\n"
        f'<h1 style="font-size: 1.3em">{escape(title)}</h1>\n{table(info)}\n</body>\n</html>\n'
    )


def _head(heads: tuple[tuple[str, str], ...]) -> str:
    cells = "".join(f'<th scope="col" style="{style}; white-space: nowrap">{title}</th>' for title, style in heads)
    return f"<thead><tr>{cells}</tr></thead>"


def _cells(values: list[str], heads: tuple[tuple[str, str], ...]) -> str:
    return "".join(f'<td style="{style}">{value}</td>' for value, (_, style) in zip(values, heads, strict=True))


def _wrapper(wrapper: WrapperInfo) -> str:
    colour = _STATE_COLOURS.get(wrapper.state, "inherit")
    values = [
        f'<b>{_text(wrapper.target)}</b> <span style="opacity: 0.65">{_text(wrapper.kind)}</span>'
        + (f'<br><code style="opacity: 0.8">{_text(words.key(wrapper))}</code>' if wrapper.key else ""),
        f'<span style="color: {colour}; white-space: nowrap">● {_text(wrapper.state)}</span>',
        f"{wrapper.used} of {wrapper.limit}",
        f"{wrapper.calls:,}",
        words.hits(wrapper),
        f"{wrapper.eager_calls:,}",
        f"{wrapper.compiles:,}",
        f"{wrapper.recompiles:,}",
        words.duration(wrapper.compile_seconds),
        _text(wrapper.last_reason or ""),
    ]
    row = f"<tr>{_cells(values, _HEADS)}</tr>".replace(f"; border-bottom: 1px solid {_GREY}", "")
    return f'{row}<tr><td colspan="{len(_HEADS)}" style="{_JOINED}">{_details(wrapper)}</td></tr>'


def _details(wrapper: WrapperInfo) -> str:
    facts = [("wrapper", wrapper.name), ("options", wrapper.options), *wrapper.key.items()]
    facts += [("no key", line) for line in words.retired(wrapper)]
    lines = "".join(
        f"<div><span style='opacity: 0.65'>{_text(name)}</span> <code>{_text(value)}</code></div>"
        for name, value in facts
        if value
    )
    if wrapper.entries:
        rows = "".join(f"<tr>{_cells(_entry(entry), _ENTRY_HEADS)}</tr>" for entry in wrapper.entries)
        lines += f'<table style="{_TABLE}; margin-top: 4px">{_head(_ENTRY_HEADS)}<tbody>{rows}</tbody></table>'
    label = words.count(len(wrapper.entries), "entry")
    return _fold(label, lines)


def _entry(entry: EntryInfo) -> list[str]:
    return [
        _text(text.entry_name(entry)),
        f"{entry.hits:,}",
        words.duration(entry.run_seconds),
        words.duration(entry.compile_seconds),
        _text(words.place(entry)),
        _text(entry.reason or "first compilation"),
    ]


def _text(value: str) -> str:
    return escape(words.arrow(words.cut(words.printable(value))))
