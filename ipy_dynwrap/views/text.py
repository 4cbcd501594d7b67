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
    from collections.abc import Callable, Sequence

    from ipy_dynwrap.events import GraphBreak
    from ipy_dynwrap.explanation import Recompilation
    from ipy_dynwrap.snapshot import CacheInfo, CellRun, EntryInfo, WrapperInfo

    from .picture import Picture

__all__ = [
    "EMPTY",
    "UNKEYED_TITLE",
    "breaks",
    "entries",
    "entry_name",
    "plain",
    "render",
    "short",
    "show",
    "table",
    "timeline",
    "why",
]

UNKEYED_TITLE = "Not part of a key"
EMPTY = "Nothing has been compiled yet. Put %%compile at the top of a cell, and run it."

# A row that takes many lines hides the others.
_CELL_LENGTH = 150
# Of the timeline; a terminal scrolls.
_RUNS = 30
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
    left = len(info.wrappers) if limit is None else limit
    shown = [column for column in _COLUMNS if column.compact or not compact]
    for column in shown:
        # Names and reasons may wrap; figures that wrap cannot be read.
        result.add_column(column.title, justify=column.justify, no_wrap=not column.wraps, overflow="fold")
    for title, wrappers in words.families(info.wrappers):
        if left <= 0:
            break
        if len(wrappers) > 1:
            result.add_row(Text(words.cut(title, _CELL_LENGTH)))
        for wrapper in wrappers[:left]:
            # A wrapper that is alone in its family has the family's name.
            name = f"  {words.member(wrapper)}" if len(wrappers) > 1 else _alone(title, wrapper)
            result.add_row(*(column.cell(wrapper, name) for column in shown))
        left -= len(wrappers)
    return result


def _alone(title: str, wrapper: WrapperInfo) -> str:
    return f"{title} [{words.key(wrapper)}]" if wrapper.key else title


class _Column(NamedTuple):
    title: str
    value: Callable[[WrapperInfo], str]
    justify: Literal["left", "right"] = "right"
    compact: bool = True
    wraps: bool = False

    def cell(self, wrapper: WrapperInfo, name: str) -> Text:
        # `Text`, not `str`: rich reads markup in strings, and these are the user's.
        style = _STATE_STYLES.get(wrapper.state, "") if self.title == "state" else ""
        value = name if self.title == "target" else self.value(wrapper)
        return Text(words.cut(words.printable(value), _CELL_LENGTH), style)


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
    for title in ("entry", "runs", "run time", "compile time", "asked for in", "reason"):
        numeric = title in {"runs", "run time", "compile time"}
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


def why(found: Sequence[Recompilation], wrappers: Sequence[WrapperInfo]) -> Table:
    """Return the recompilations as a table, the newest first; what is alike in all but time has one row."""
    labels = {wrapper.name: words.label(wrapper) for wrapper in wrappers}
    alike: dict[tuple[str, str, str], Recompilation] = {}
    for each in reversed(found):
        alike.setdefault((str(each.place or ""), each.wrapper, each.reason), each)
    result = Table(box=None, header_style="dim bold", pad_edge=False)
    for title in ("where", "what", "why, and what one can do"):
        result.add_column(title, overflow="fold")
    for (place, name, reason), each in alike.items():
        said = Text(words.cut(words.printable(reason)))
        if each.advice:
            said.append(f"\n{words.printable(each.advice)}", "italic")
        label = labels.get(name, words.printable(each.target))
        result.add_row(Text(words.printable(place)), Text(words.cut(label, _CELL_LENGTH)), said)
    return result


def breaks(found: Sequence[GraphBreak]) -> Table:
    """Return the graph breaks that differ as a table, the newest first."""
    result = Table(box=None, header_style="dim bold", pad_edge=False)
    for title in ("where", "what", "why"):
        result.add_column(title, overflow="fold")
    for row in dict.fromkeys(words.graph_break(each) for each in reversed(found)):
        result.add_row(*map(Text, row))
    return result


def timeline(runs: Sequence[CellRun]) -> Table:
    """Return the runs as a table, the newest first."""
    result = Table(box=None, header_style="dim bold", pad_edge=False)
    for title in ("cell", "took", "compiling", "compiled code", "what happened"):
        result.add_column(title, justify="left" if title in {"cell", "what happened"} else "right", overflow="fold")
    for run in reversed(runs):
        result.add_row(
            Text("script" if run.cell is None else f"In [{run.cell}]"),
            Text(words.duration(run.seconds)),
            Text(words.duration(run.compile_seconds) if run.compile_seconds else ""),
            Text(words.duration(run.run_seconds) if run.run_seconds else ""),
            Text(words.cut(words.run(run), _CELL_LENGTH), "red" if run.failed else ""),
        )
    return result


def render(picture: Picture) -> RenderableType:
    """Return all of `picture`: the sums, the wrappers with their keys and entries, the reasons, the last cells."""
    info = picture.cache
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
    lists = [("Why it compiled again", why(picture.recompilations, info.wrappers))] if picture.recompilations else []
    if picture.breaks:
        lists.append(("Graph breaks", breaks(picture.breaks)))
    if picture.runs:
        lists.append(("Timeline", timeline(picture.runs[-_RUNS:])))
    for heading, content in (*lists, (UNKEYED_TITLE, _unkeyed())):
        parts += [Text(), Text(heading, "bold"), Padding(content, (0, 0, 0, 2))]
    return Group(*parts)


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


def show(renderable: RenderableType) -> None:
    """Print `renderable` in a terminal, in its colours."""
    Console().print(renderable)


def short(info: CacheInfo, limit: int = 50) -> str:
    """Return the sums and the table of the first `limit` wrappers in plain characters."""
    if not info.wrappers:
        return EMPTY
    more = len(info.wrappers) - limit
    parts: list[RenderableType] = [Text(words.sums(info)), Text(), table(info, limit)]
    if more > 0:
        parts += [Text(), Text(f"and {words.count(more, 'more wrapper')}")]
    return plain(Group(*parts))
