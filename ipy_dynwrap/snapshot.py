"""What the cache looks like at one moment: frozen values, safe to keep, compare and read from any thread."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

__all__ = ["CacheInfo", "CellRun", "EntryDetails", "EntryInfo", "GuardInfo", "Listing", "Report", "WrapperInfo"]


@dataclass(frozen=True, slots=True)
class EntryInfo:
    """One cache entry: guards, and the code that runs when they hold.

    Parameters
    ----------
    compile_id
        Torch's id, ``"0/1"``.
    hits
        Calls that ran this entry's code, the compiling call included.
    run_seconds
        Wall time inside this entry's code, in seconds; the entries it calls are included.
    reason
        Why the entries before it did not fit, in words; None for a first compilation.
    cell, line
        The cell (None outside a notebook) and line whose call compiled it.
    compile_seconds
        Wall time of its compilation, in seconds.
    frame
        The name of the frame's code; a resume function's after a graph break.
    graph
        False for an entry without tensor operations of its own, which only calls on.
    number
        Tells the entry from all others of the process, those before a reset included; 0 if its details are not kept.
    """

    compile_id: str
    hits: int
    run_seconds: float
    reason: str | None
    cell: int | None
    line: int | None
    compile_seconds: float = 0.0
    frame: str = ""
    graph: bool = True
    number: int = 0


@dataclass(frozen=True, slots=True)
class WrapperInfo:
    """One wrapper: a generated function with a code object, and so a cache, of its own.

    Parameters
    ----------
    name
        Unique, and the same from run to run.
    kind
        ``"module"``, ``"function"``, ``"method"`` or ``"callable"``.
    target
        The qualified name of what is called.
    key
        The key fields of the family and the values that lead here.
    entries
        The entries, oldest first, those of frames after a graph break included.
    calls
        Calls that came here.
    compiles
        Compilations that made a graph.
    eager_calls
        Calls of `calls` that ran no compiled code.
    limit
        Torch's `recompile_limit` for this wrapper.
    state
        ``"compiled"``, ``"at limit"``, ``"eager"`` (nothing compiled yet) or ``"skipped"`` (torch does not compile it).
    compile_seconds
        Wall time of its compilations, in seconds.
    last_reason
        Why it compiled again, or did not compile, the last time; None if it did neither.
    recompiles
        Compilations of `compiles` before which something was compiled for the target, or one of its family.
    graph_breaks
        Places at which a graph broke.
    options
        The compile options, in words.
    hits
        Calls that ran compiled code and compiled nothing.
    failed_calls
        Calls that raised.
    skipped_calls
        Calls that ran eager because the user wants it so (`skip`); they are no eager calls.
    retired
        The fields that were in the key and are in it no more, and why.
    family
        The name of the first wrapper of its family: wrappers of one family have it in common.
    inner_calls
        Calls that compiled code made of a module where its graph broke, inside of a call that is counted elsewhere.
    """

    name: str
    kind: str
    target: str
    key: Mapping[str, str]
    entries: tuple[EntryInfo, ...]
    calls: int
    compiles: int
    eager_calls: int
    limit: int
    state: str
    compile_seconds: float
    last_reason: str | None
    recompiles: int = 0
    graph_breaks: int = 0
    options: str = ""
    hits: int = 0
    failed_calls: int = 0
    retired: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    family: str = ""
    inner_calls: int = 0
    skipped_calls: int = 0

    @property
    def used(self) -> int:
        """The entries of the code object that has most: the limit is for each (the wrapper's, those after a break)."""
        frames = [entry.compile_id.partition("/")[0] for entry in self.entries]
        return max(map(frames.count, frames), default=0)


@dataclass(frozen=True, slots=True)
class CacheInfo:
    """All wrappers of now, with their sums.

    Parameters
    ----------
    wrappers
        In the order in which they were made.
    compiles, recompiles, eager_calls, graph_breaks
        Counts since the start, or since `reset`; wrappers that are gone are included.
    compile_seconds
        Wall time of all compilations, in seconds.
    calls, hits, failed_calls, skipped_calls
        All routed calls, those that ran compiled code and compiled nothing, those that raised, and those that the user
        wants eager.
    """

    wrappers: tuple[WrapperInfo, ...]
    compiles: int
    recompiles: int
    eager_calls: int
    graph_breaks: int
    compile_seconds: float
    calls: int = 0
    hits: int = 0
    failed_calls: int = 0
    skipped_calls: int = 0

    def rows(self) -> list[dict[str, str | int | float | None]]:
        """Return a flat row for each wrapper, for a table of one's own: ``pandas.DataFrame(info.rows())``.

        Returns
        -------
        list of dict
            The fields of `WrapperInfo` by their names, all with plain values: `key` and `retired` as text, `entries` as
            their number, `used` beside it, and `run_seconds`, the time within the entries.
        """
        return [_row(wrapper) for wrapper in self.wrappers]


def _row(wrapper: WrapperInfo) -> dict[str, str | int | float | None]:
    row = {name: getattr(wrapper, name) for name in WrapperInfo.__slots__}
    row["key"] = ", ".join(f"{field} = {value}" for field, value in wrapper.key.items())
    row["retired"] = ", ".join(f"{field} {why}" for field, why in wrapper.retired.items())
    row["entries"], row["used"] = len(wrapper.entries), wrapper.used
    # The frames after a graph break run within those of the first.
    frames = [entry.compile_id.partition("/")[0] for entry in wrapper.entries]
    own = (entry for entry, frame in zip(wrapper.entries, frames, strict=True) if frame == frames[0])
    row["run_seconds"] = sum(entry.run_seconds for entry in own)
    return row


@dataclass(frozen=True, slots=True)
class Report:
    """What happened between entering a region and leaving it.

    Parameters
    ----------
    calls, hits, failed_calls, skipped_calls, compiles, recompiles, eager_calls, graph_breaks
        Counts within the region, as in `WrapperInfo`.
    compile_seconds, seconds
        Wall time of its compilations, and of the whole region, in seconds.
    reasons
        Why something compiled again, in words, without repetition: ``"Net.forward: x.shape[0] 4 -> 5"``.
    notices
        What the user should know, in words, each once: a call that ran eager and why, a graph break with its line,
        code that asks whether it is compiled, a breakpoint that does not stop, an option that does nothing.
    """

    calls: int = 0
    hits: int = 0
    compiles: int = 0
    recompiles: int = 0
    eager_calls: int = 0
    graph_breaks: int = 0
    compile_seconds: float = 0.0
    seconds: float = 0.0
    reasons: tuple[str, ...] = ()
    notices: tuple[str, ...] = ()
    failed_calls: int = 0
    skipped_calls: int = 0


@dataclass(frozen=True, slots=True)
class CellRun:
    """One run of a cell, or one region outside of a notebook, in the order of the timeline.

    Parameters
    ----------
    cell
        The execution count; None outside of a notebook.
    at
        `time.time` when it began, in seconds.
    seconds
        Wall time from there to its end, in seconds.
    compile_seconds, run_seconds
        Of these, in compilations, and in compiled code without the compilations that it asked for.
    calls, hits, compiles, recompiles, eager_calls, graph_breaks
        Counts within it, as in `WrapperInfo`.
    compiled
        What compiled in it, each target once, in order.
    failed
        Whether it ended with an exception.
    """

    cell: int | None
    at: float
    seconds: float
    compile_seconds: float = 0.0
    run_seconds: float = 0.0
    calls: int = 0
    hits: int = 0
    compiles: int = 0
    recompiles: int = 0
    eager_calls: int = 0
    graph_breaks: int = 0
    compiled: tuple[str, ...] = ()
    failed: bool = False


@dataclass(frozen=True, slots=True)
class GuardInfo:
    """One guard of an entry.

    Parameters
    ----------
    source
        What it looks at, as torch names it: ``"L['x']"``; empty for a guard on torch's global state.
    kind
        Torch's name of it: ``"TENSOR_MATCH"``.
    words
        What it requires, in the user's words: ``"x: float32 of shape (4, 16) on cpu"``.
    code
        What is checked, in torch's form.
    asked_by
        The line of the user's code for which torch made it: ``"cell 3, line 5: return self.k * x"``; empty if unknown.
    name
        The source in the user's words: ``"self.k"``; empty for a guard on torch's global state.
    """

    source: str
    kind: str
    words: str
    code: tuple[str, ...] = ()
    asked_by: str = ""
    name: str = ""


@dataclass(frozen=True, slots=True)
class Listing:
    """One text that belongs to an entry.

    Parameters
    ----------
    title
        ``"FX graph"``, ``"AOT graph, forward"``, ``"generated code"``, ``"bytecode"``, ``"your code"``.
    language
        ``"python"``, ``"cpp"`` or ``"text"``, for highlighting.
    text
        It, at most as long as is kept; what is left out is said in its last line.
    first_line
        The number of its first line in the user's cell or file; 1 for what torch made.
    marks
        Lines to mark, by number, and why: where a graph broke, with torch's reason.
    """

    title: str
    language: str
    text: str
    first_line: int = 1
    marks: Mapping[int, str] = field(default_factory=lambda: MappingProxyType({}))


@dataclass(frozen=True, slots=True)
class EntryDetails:
    """What is kept of an entry beside its counts, and is put into words only when somebody asks.

    Parameters
    ----------
    number, compile_id
        As in `EntryInfo`.
    guards
        In the order in which torch made them.
    inputs
        The inputs of the graph and what they are: ``{"x": "float32[s0, 16] on cpu"}``.
    listings
        The user's code first, then what torch made of it, in the order of the compilation.
    phases
        The phases of the compilation with their wall time in seconds, in the order in which they began; those inside
        another one are not repeated in it.
    disk_cache
        ``"hit"`` or ``"miss"`` of the compiler's cache on disk; None if it was not asked.
    """

    number: int
    compile_id: str
    guards: tuple[GuardInfo, ...] = ()
    inputs: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    listings: tuple[Listing, ...] = ()
    phases: tuple[tuple[str, float], ...] = ()
    disk_cache: str | None = None
