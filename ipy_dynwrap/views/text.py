"""The views in plain text: tables for a terminal, and the `text/plain` that accompanies every richer view."""

from __future__ import annotations

import io
import shutil
import sys
from typing import TYPE_CHECKING, Literal, NamedTuple

from rich.console import Console, ConsoleOptions, Group, RenderableType, RenderResult
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from ipy_dynwrap.guard_kinds import UNKEYED

from . import words

if TYPE_CHECKING:
    from collections.abc import Callable

    from ipy_dynwrap.snapshot import CacheInfo, EntryInfo, WrapperInfo

__all__ = ["EMPTY", "UNKEYED_TITLE", "entries", "entry_name", "plain", "render", "short", "table"]

UNKEYED_TITLE = "Not part of a key"
EMPTY = "Nothing has been compiled yet. Put %%compile at the top of a cell, and run it."

# A row that takes many lines hides the others.
_CELL_LENGTH = 150
# All columns need about this many characters.
_WIDE = 110

_STATE_STYLES = {"compiled": "green", "at limit": "bold red", "eager": "yellow", "skipped": "yellow"}


def table(info: CacheInfo, limit: int | None = None, compact: bool = False) -> Table:
    """Return the wrappers of `info` as a table.

    Parameters
    ----------
    info
        What to show.
    limit
        How many wrappers at most; all of them by default.
    compact
        Only the columns that fit 80 characters.
    """
    result = Table(box=None, header_style="bold", pad_edge=False)
    shown = [column for column in _COLUMNS if column.compact or not compact]
    for column in shown:
        # Names and reasons may wrap; figures that wrap cannot be read.
        result.add_column(column.title, justify=column.justify, no_wrap=not column.wraps, overflow="fold")
    for wrapper in info.wrappers[:limit]:
        result.add_row(*(column.cell(wrapper) for column in shown))
    return result


class _Column(NamedTuple):
    title: str
    value: Callable[[WrapperInfo], str]
    justify: Literal["left", "right"] = "right"
    compact: bool = True
    wraps: bool = False

    def cell(self, wrapper: WrapperInfo) -> Text:
        # `Text`, not `str`: rich reads markup in strings, and these are the user's.
        style = _STATE_STYLES.get(wrapper.state, "") if self.title == "state" else ""
        return Text(words.cut(words.printable(self.value(wrapper)), _CELL_LENGTH), style)


_COLUMNS = (
    _Column("target", words.label, "left", wraps=True),
    _Column("kind", lambda wrapper: wrapper.kind, "left", compact=False),
    _Column("state", lambda wrapper: wrapper.state, "left"),
    _Column("entries", lambda wrapper: f"{wrapper.used} of {wrapper.limit}"),
    _Column("calls", lambda wrapper: f"{wrapper.calls:,}"),
    _Column("hits", words.hits, compact=False),
    _Column("eager", lambda wrapper: f"{wrapper.eager_calls:,}"),
    _Column("compiles", lambda wrapper: f"{wrapper.compiles:,}"),
    _Column("again", lambda wrapper: f"{wrapper.recompiles:,}", compact=False),
    _Column("compile time", lambda wrapper: words.duration(wrapper.compile_seconds)),
    _Column("last reason", lambda wrapper: wrapper.last_reason or "", "left", compact=False, wraps=True),
)


class _FittingTable:
    """The table that fits the console which prints it."""

    def __init__(self, info: CacheInfo) -> None:
        self._info = info

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        yield table(self._info, compact=options.max_width < _WIDE)


def entries(wrapper: WrapperInfo) -> Table:
    """Return the entries of `wrapper` as a table."""
    result = Table(box=None, header_style="dim bold", pad_edge=False)
    for title in ("entry", "hits", "run time", "compile time", "asked for in", "reason"):
        numeric = title in {"hits", "run time", "compile time"}
        result.add_column(title, justify="right" if numeric else "left", overflow="fold")
    for entry in wrapper.entries:
        result.add_row(
            Text(entry_name(entry)),
            Text(f"{entry.hits:,}"),
            Text(words.duration(entry.run_seconds)),
            Text(words.duration(entry.compile_seconds)),
            Text(words.place(entry)),
            Text(words.cut(words.printable(entry.reason or "first compilation"))),
        )
    return result


def entry_name(entry: EntryInfo) -> str:
    """Return the id of `entry`, with what makes it unlike the others."""
    return entry.compile_id if entry.graph else f"{entry.compile_id} (no graph)"


def render(info: CacheInfo) -> RenderableType:
    """Return all that `info` holds: the sums, and each wrapper with its key fields and entries; and what is no key."""
    if not info.wrappers:
        return Text(EMPTY)
    parts: list[RenderableType] = [Text(words.sums(info), "bold"), Text(), _FittingTable(info)]
    for wrapper in info.wrappers:
        title = Text(words.printable(wrapper.target), "bold")
        title.append(f"  {words.printable(wrapper.name)}", "dim")
        if wrapper.options:
            title.append(f"  {words.printable(wrapper.options)}", "dim")
        parts += [Text(), title]
        if wrapper.key:
            fields = (f"{words.printable(field)} = {words.printable(value)}" for field, value in wrapper.key.items())
            parts.append(Padding(Text("key: " + ", ".join(fields)), (0, 0, 0, 2)))
        for line in words.retired(wrapper):
            parts.append(Padding(Text(f"no key: {words.printable(line)}"), (0, 0, 0, 2)))
        if wrapper.entries:
            parts.append(Padding(entries(wrapper), (0, 0, 0, 2)))
    return Group(*parts, Text(), Text(UNKEYED_TITLE, "bold"), Padding(_unkeyed(), (0, 0, 0, 2)))


def _unkeyed() -> Table:
    result = Table(box=None, show_header=False, pad_edge=False)
    for what, why in UNKEYED:
        result.add_row(Text(what), Text(why, "dim"))
    return result


def plain(renderable: RenderableType, width: int | None = None) -> str:
    """Return what `renderable` looks like in plain characters, `width` columns at most: the terminal's, or 140."""
    if width is None:
        width = shutil.get_terminal_size().columns if sys.stdout.isatty() else 140
    out = io.StringIO()
    # Not a terminal, no colours, and no width from the environment: the text is stored in notebooks.
    console = Console(file=out, width=width, color_system=None, force_terminal=False, force_jupyter=False)
    console.print(renderable)
    return "\n".join(line.rstrip() for line in out.getvalue().splitlines())


def short(info: CacheInfo, limit: int = 50) -> str:
    """Return the sums and the table of the first `limit` wrappers in plain characters."""
    if not info.wrappers:
        return EMPTY
    more = len(info.wrappers) - limit
    parts: list[RenderableType] = [Text(words.sums(info)), Text(), table(info, limit)]
    if more > 0:
        parts += [Text(), Text(f"and {words.count(more, 'more wrapper')}")]
    return plain(Group(*parts))
