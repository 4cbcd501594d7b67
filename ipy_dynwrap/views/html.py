"""The views in HTML without script: for saved notebooks, nbconvert, GitHub, and a page of its own.

Styles are attributes of the elements: what shows a notebook often drops `<style>`, and never lets a page's style
leak into another's. Colours are translucent or inherited, so that light and dark pages both work.
"""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING

from ipy_dynwrap.guard_kinds import UNKEYED

from . import html_entry, html_lists, text, words
from .html_parts import GREY, LEFT, RIGHT, TABLE, cells, escaped, faint, fold, grid, head
from .picture import Picture

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from ipy_dynwrap.snapshot import CacheInfo, EntryDetails, EntryInfo, WrapperInfo

__all__ = ["page", "report", "table"]

# The details belong to the row above them.
_JOINED = f"border-bottom: 1px solid {GREY}; text-align: left; padding: 0 0 6px 1.2em"
# What unfolds scrolls by itself: it may not stretch the table around it.
_NO_WIDER = "width: 0; min-width: 100%"
_MEMBER = "padding-left: 1.2em"
_STATE_COLOURS = {"compiled": "#2e9e5b", "at limit": "#d64545", "eager": "#c98a1b", "skipped": "#c98a1b"}
# Browsers take long over pages that are larger; a JSON file has everything.
_DETAILS_BYTES = 10_000_000
# Of a picture in a notebook, and of one in a page of its own.
_FEW, _MANY = 20, 1_000

_HEADS = (
    ("target", LEFT),
    ("state", LEFT),
    ("entries", RIGHT),
    ("calls", RIGHT),
    ("hits", RIGHT),
    ("eager", RIGHT),
    ("compiles", RIGHT),
    ("again", RIGHT),
    ("compile time", RIGHT),
    ("last reason", LEFT),
)
_ENTRY_HEADS = (
    ("entry", LEFT),
    ("runs", RIGHT),
    ("run time", RIGHT),
    ("compile time", RIGHT),
    ("asked for in", LEFT),
    ("reason", LEFT),
)
_UNKEYED_HEADS = (("what guards look at", LEFT), ("why it is no key", LEFT))


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
        The sums, a table of the wrappers by families, whose entries unfold, and what is no part of a key. Everything
        that comes from the user is escaped.
    """
    return report(Picture(info), size)


def report(picture: Picture, size: int | None = None) -> str:
    """Return all of `picture` as an HTML fragment: as `table`, with the recompilations and the timeline."""
    info, many = picture.cache, _MANY if size is None else _FEW
    if not info.wrappers:
        return f"<p>{escape(text.EMPTY)}</p>{html_lists.timeline(picture.runs, many)}"
    rows: list[str] = []
    shown = 0
    room = _Room(_DETAILS_BYTES)
    for row, wrappers in _rows(info, picture.details, room):
        if size is not None:
            size -= len(row.encode())
            if size < 0:
                break
        rows.append(row)
        shown += wrappers
    more = len(info.wrappers) - shown
    return "".join(
        [
            f'<p style="margin: 0 0 6px">{escape(words.sums(info))}</p>',
            f'<div style="overflow-x: auto"><table style="{TABLE}">{head(_HEADS)}<tbody>',
            *rows,
            "</tbody></table></div>",
            f"<p>and {words.count(more, 'more wrapper')}</p>" if more else "",
            html_lists.why(picture.recompilations, info.wrappers, many),
            html_lists.breaks(picture.breaks, many),
            html_lists.timeline(picture.runs, many),
            _unkeyed(),
        ]
    )


class _Room:
    """What is left of a number of bytes."""

    def __init__(self, size: int) -> None:
        self._left = size

    def fits(self, content: str) -> bool:
        """Tell whether `content` fits, and take its room if it does."""
        self._left -= len(content)
        return self._left >= 0


def _rows(info: CacheInfo, details: Mapping[int, EntryDetails], room: _Room) -> Iterator[tuple[str, int]]:
    """Yield the rows of the table, and how many wrappers each shows."""
    for title, wrappers in words.families(info.wrappers):
        if len(wrappers) == 1:
            yield _wrapper(wrappers[0], _title(title, wrappers[0]), details, room), 1
            continue
        yield _family(title, wrappers), 0
        for wrapper in wrappers:
            name = f"<code>{escaped(words.member(wrapper))}</code>"
            yield _wrapper(wrapper, f'<div style="{_MEMBER}">{name}</div>', details, room), 1


def _title(title: str, wrapper: WrapperInfo) -> str:
    key = f'<br><code style="opacity: 0.8">{escaped(words.key(wrapper))}</code>' if wrapper.key else ""
    return f"<b>{escaped(title)}</b> {faint(escaped(wrapper.kind))}{key}"


def _family(title: str, wrappers: Sequence[WrapperInfo]) -> str:
    fields = dict.fromkeys(field for wrapper in wrappers for field in wrapper.key)
    apart = f", told apart by {', '.join(fields)}" if fields else ""
    about = escaped(f"{wrappers[0].kind}, {words.count(len(wrappers), 'wrapper')}{apart}")
    sums = [sum(getattr(each, name) for each in wrappers) for name in ("calls", "hits", "eager_calls", "compiles")]
    values = [
        f"<b>{escaped(title)}</b> {faint(about)}",
        "",
        "",
        *(f"{number:,}" for number in sums),
        f"{sum(each.recompiles for each in wrappers):,}",
        words.duration(sum(each.compile_seconds for each in wrappers)),
        "",
    ]
    return f"<tr>{cells(values, _HEADS)}</tr>".replace(f"; border-bottom: 1px solid {GREY}", "")


def _wrapper(wrapper: WrapperInfo, title: str, details: Mapping[int, EntryDetails], room: _Room) -> str:
    colour = _STATE_COLOURS.get(wrapper.state, "inherit")
    values = [
        title,
        f'<span style="color: {colour}; white-space: nowrap">● {escaped(wrapper.state)}</span>',
        f"{wrapper.used} of {wrapper.limit}",
        f"{wrapper.calls:,}",
        words.hits(wrapper),
        f"{wrapper.eager_calls:,}",
        f"{wrapper.compiles:,}",
        f"{wrapper.recompiles:,}",
        words.duration(wrapper.compile_seconds),
        escaped(wrapper.last_reason or ""),
    ]
    row = f"<tr>{cells(values, _HEADS)}</tr>".replace(f"; border-bottom: 1px solid {GREY}", "")
    inside = f'<div style="{_NO_WIDER}">{_inside(wrapper, details, room)}</div>'
    return f'{row}<tr><td colspan="{len(_HEADS)}" style="{_JOINED}">{inside}</td></tr>'


def _inside(wrapper: WrapperInfo, details: Mapping[int, EntryDetails], room: _Room) -> str:
    facts = [("wrapper", wrapper.name), ("options", wrapper.options), *wrapper.key.items()]
    facts += [("no key", line) for line in words.retired(wrapper)]
    counts = {"graph breaks": wrapper.graph_breaks, "failed calls": wrapper.failed_calls}
    counts["calls from compiled code"] = wrapper.inner_calls
    facts += [(name, f"{number:,}") for name, number in counts.items() if number]
    lines = "".join(
        f"<div>{faint(escaped(name))} <code>{escaped(value)}</code></div>" for name, value in facts if value
    )
    if wrapper.entries:
        lines += grid(_ENTRY_HEADS, map(_entry, wrapper.entries))
    for entry in wrapper.entries:
        if (found := details.get(entry.number)) is not None:
            title = f"Inside of {text.entry_name(entry)}, {words.frame(entry.frame, wrapper.target)}"
            drawn = html_entry.details(found, words.printable(title))
            lines += drawn if room.fits(drawn) else f"<div>{escaped(title)}: too large for this page</div>"
    return fold(words.count(len(wrapper.entries), "entry"), lines)


def _entry(entry: EntryInfo) -> list[str]:
    return [
        escaped(text.entry_name(entry)),
        f"{entry.hits:,}",
        words.duration(entry.run_seconds),
        words.duration(entry.compile_seconds),
        escaped(words.place(entry)),
        escaped(entry.reason or "first compilation"),
    ]


def _unkeyed() -> str:
    return fold(text.UNKEYED_TITLE, grid(_UNKEYED_HEADS, ((escape(what), escape(why)) for what, why in UNKEYED)))


def page(picture: Picture, title: str = "ipy_dynwrap: compiled code of this session") -> str:
    """Return `picture` as a complete HTML page that needs nothing else."""
    return (
        '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width">\n<meta name="color-scheme" content="light dark">\n'
        f"<title>{escape(title)}</title>\n"
        "<style>body { font: 15px/1.5 system-ui, sans-serif; margin: 2em auto; max-width: 1200px; padding: 0 1em }"
        "</style>\n</head>\n<body>\n"
        f'<h1 style="font-size: 1.3em">{escape(title)}</h1>\n{report(picture)}\n</body>\n</html>\n'
    )
