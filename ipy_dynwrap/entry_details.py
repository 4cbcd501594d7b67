"""The details of an entry, put into words when somebody asks.

Only plain values, code objects and the texts of source files are read, so any thread may ask, also while another one
compiles.
"""

from __future__ import annotations

import ast
import dis
import linecache
from collections.abc import Iterator, Mapping
from functools import cache
from types import CodeType, MappingProxyType
from typing import TYPE_CHECKING

from . import state
from .guard_words import named, required
from .recording import Record, cut
from .snapshot import EntryDetails, GuardInfo, Listing

if TYPE_CHECKING:
    from .dynamo import Break

__all__ = ["details_of"]


def details_of(record: Record) -> EntryDetails:
    """Return the details of the entry that `record` was kept of."""
    trace, naming = record.trace, record.naming
    asked_by = cache(_asked_by)
    guards = tuple(
        GuardInfo(
            source=each.source,
            kind=each.kind,
            words=required(each, naming, trace.modes),
            code=tuple(dict.fromkeys([*(each.tensor or ())[:1], *each.code])),
            asked_by=asked_by(tuple((frame.filename, frame.lineno or 0) for frame in each.stack)),
            name=named(each.source, naming) if each.source else "",
        )
        for each in tuple(trace.guards)
    )
    inputs = {
        named(source, naming): what
        if isinstance(what, str)
        else f"{what.dtype}[{', '.join(what.shape)}] on {what.device}"
        for source, what in trace.inputs
    }
    made = (Listing(title, language, text) for title, language, text in tuple(trace.listings))
    return EntryDetails(
        number=record.number,
        compile_id=record.compile_id,
        guards=(*guards, _FACTS) if guards else (),
        inputs=MappingProxyType(inputs),
        listings=(*_sources(record), *made, *_bytecodes(record)),
        phases=tuple(_phases(tuple(trace.phases))),
        disk_cache=trace.disk_cache,
    )


# One guard more of each entry (`blindspots.py`).
_FACTS = GuardInfo(
    source="",
    kind="FACTS",
    words="the methods of the classes that it has looked into, and the hooks for all modules, stay the same",
)


def _asked_by(stack: tuple[tuple[str, int], ...]) -> str:
    """Say which line of the user's made torch ask: the innermost one in a cell, else the innermost."""
    from . import dynamo

    places = [
        (state.place_of(file, line), file, line)
        for file, line in reversed(stack)
        if not (dynamo.is_torchs(file) or state.is_ours(file))
    ]
    found = next((each for each in places if each[0].cell is not None), places[0] if places else None)
    if found is None:
        return ""
    place, file, line = found
    text = linecache.getline(file, line).strip()
    return f"{place}: {text}" if text else str(place)


# The user's source


def _sources(record: Record) -> Iterator[Listing]:
    """Yield the user's function, and the functions that it calls in which a graph broke."""
    functions = {(record.file, *_extent(record.file, record.line)): "your code"} if record.file else {}
    for each in record.breaks:
        if each.stack:
            file, line = each.stack[-1]
            first, last, name = *_extent(file, line), _name(file, line)
            functions.setdefault((file, first, last), f"your code, {name}" if name else "your code, around the break")
    for (file, first, last), title in functions.items():
        lines = linecache.getlines(file)[first - 1 : last]
        if not lines:
            continue
        shown_first = state.place_of(file, first).line
        yield Listing(
            title=title,
            language="python",
            text=cut("".join(lines)),
            first_line=shown_first,
            marks=MappingProxyType(_marks(record.breaks, file, first, last, shown_first)),
        )


def _marks(breaks: tuple[Break, ...], file: str, first: int, last: int, shown_first: int) -> Mapping[int, str]:
    marks: dict[int, str] = {}
    for each in breaks:
        inside = [line for at, line in each.stack if at == file and first <= line <= last]
        if inside:
            marks.setdefault(inside[-1] - first + shown_first, f"graph break: {each.reason}")
    return marks


_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)


def _function_at(file: str, line: int) -> ast.FunctionDef | ast.AsyncFunctionDef | None:
    try:
        tree = ast.parse("".join(linecache.getlines(file)))
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None
    around = [node for node in ast.walk(tree) if isinstance(node, _FUNCTIONS) and _first(node) <= line <= _last(node)]
    return min(around, key=lambda node: _last(node) - _first(node), default=None)


def _first(node: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    return min(each.lineno for each in (node, *node.decorator_list))


def _last(node: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    return node.end_lineno or node.lineno


def _extent(file: str, line: int) -> tuple[int, int]:
    """Return the first and last line of the function around a line; a line in none is alone, a lambda's for one."""
    function = _function_at(file, line)
    return (_first(function), _last(function)) if function is not None else (line, line)


def _name(file: str, line: int) -> str:
    function = _function_at(file, line)
    return function.name if function is not None else ""


# Bytecode


def _bytecodes(record: Record) -> Iterator[Listing]:
    for title, reference in (("bytecode of your code", record.own), ("bytecode", record.compiled)):
        code = reference() if reference is not None else None
        if code is not None:
            yield Listing(title, "text", cut(_disassembled(code)))


def _disassembled(code: CodeType) -> str:
    return dis.Bytecode(code).dis()


# Phases

# What torch calls its phases, by how the names begin; one that is not here is a part of the phase around it.
_PHASES = (
    ("dynamo", "tracing"),
    ("build_guards", "guards"),
    ("gc", "garbage collection"),
    ("backend_compile", "backend"),
    ("create_aot_dispatcher_function", "AOT autograd"),
    ("inductor_compile", "inductor"),
    ("compile_file", "compiling C++ or Triton"),
    ("async_compile.wait", "compiling C++ or Triton"),
    ("PyCodeCache.load_by_key_path", "compiling C++ or Triton"),
    ("backward", "backward pass, compiled later"),
)


def _phases(events: tuple[tuple[str, bool, int], ...]) -> Iterator[tuple[str, float]]:
    """Yield each phase with the seconds that were its own, in the order in which they began."""
    seconds: dict[str, float] = {}
    running: list[tuple[str, str]] = []
    since = 0
    for name, begins, now in events:
        if running:
            seconds[running[-1][1]] += (now - since) / 1e9
        since = now
        if begins:
            around = running[-1][1] if running else "tracing"
            phase = next((words for start, words in _PHASES if name.startswith(start)), around)
            running.append((name, phase))
            seconds.setdefault(phase, 0.0)
        else:
            # An end without its beginning, or an inner phase that never ended because something was raised.
            names = [each for each, _ in running]
            if name in names:
                del running[len(names) - 1 - names[::-1].index(name) :]
    yield from seconds.items()
