"""The wrapper cache: families, their wrappers, and what each wrapper's entries have done.

It knows neither torch nor IPython: what compiles, what counts runs and what a family is come from outside. All counts
are plain numbers, so that a snapshot is taken under the lock in no time, from any thread.
"""

from __future__ import annotations

import sys
import threading
import weakref
from collections.abc import Callable, Hashable, Iterable, Iterator
from dataclasses import dataclass, field
from types import CodeType, MappingProxyType
from typing import Any, Protocol, TypeVar

from .events import Place
from .snapshot import CacheInfo, EntryInfo, WrapperInfo

__all__ = ["Entry", "Totals", "Wrapper", "WrapperCache"]


@dataclass(slots=True)
class Entry:
    """One cache entry of a wrapper, or of a frame that it reaches after a graph break.

    Parameters
    ----------
    compile_id, frame, reason, place, seconds, graph
        As in `snapshot.EntryInfo`.
    code
        The compiled code object. A dead one means that torch has dropped the entry.
    source
        The code object that the entry belongs to.
    number
        As in `snapshot.EntryInfo`.
    """

    compile_id: str
    frame: str
    reason: str | None
    place: Place | None
    seconds: float
    graph: bool
    code: weakref.ref[CodeType]
    source: weakref.ref[CodeType]
    number: int = 0


@dataclass(eq=False)
class Wrapper:
    """A generated function, compiled, with its counts."""

    name: str
    kind: str
    target: str
    options: str
    code: CodeType
    function: Callable[..., Any]
    limit: int
    calls: int = 0
    hits: int = 0
    eager_calls: int = 0
    failed_calls: int = 0
    skipped_calls: int = 0
    compiles: int = 0
    recompiles: int = 0
    graph_breaks: int = 0
    compile_seconds: float = 0.0
    state: str = "eager"
    last_reason: str | None = None
    entries: list[Entry] = field(default_factory=list)
    key: dict[str, str] = field(default_factory=dict)
    retired: dict[str, str] = field(default_factory=dict)
    inner_calls: int = 0
    family: str = ""  # the name of its family's first wrapper
    cell: int = 0  # how many cells had run when it was last called
    broken_at: set[tuple[str, int]] = field(default_factory=set)

    def live_entries(self) -> list[Entry]:
        """Return the entries that torch still has, oldest first; the others are forgotten."""
        self.entries = [entry for entry in self.entries if entry.code() is not None]
        return self.entries


@dataclass(slots=True)
class Totals:
    """Counts over several wrappers, named as a wrapper's own."""

    calls: int = 0
    hits: int = 0
    eager_calls: int = 0
    failed_calls: int = 0
    skipped_calls: int = 0
    compiles: int = 0
    recompiles: int = 0
    graph_breaks: int = 0
    compile_seconds: float = 0.0

    def plus(self, wrapper: Wrapper) -> Totals:
        """Add the counts of `wrapper`."""
        return Totals(*(getattr(self, name) + getattr(wrapper, name) for name in self.__slots__))


class _Anchor:
    """A weak key by identity: code objects compare by content, types and callables by what their authors wrote."""

    __slots__ = ("__weakref__", "_hash", "ref")

    def __init__(self, anchor: object, gone: Callable[[_Anchor], None]) -> None:
        self._hash = id(anchor)
        me = weakref.ref(self)

        def forget(_: object, finalizing: Callable[[], bool] = sys.is_finalizing) -> None:
            # At the end of the interpreter there is nothing left to account for, or to do it with.
            if not finalizing() and (key := me()) is not None:
                gone(key)

        self.ref: Callable[[], object]
        try:
            self.ref = weakref.ref(anchor, forget)
        except TypeError:  # a method descriptor, for one; such objects live as long as their class
            self.ref = lambda: anchor

    def __hash__(self) -> int:
        return self._hash

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        if not isinstance(other, _Anchor):
            return NotImplemented
        mine = self.ref()
        return mine is not None and other.ref() is mine


class _Lookup:
    """An `_Anchor`'s equal for one look into the dictionary, without a weak reference of its own."""

    __slots__ = ("_anchor",)

    def __init__(self, anchor: object) -> None:
        self._anchor = anchor

    def __hash__(self) -> int:
        return id(self._anchor)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Anchor) and other.ref() is self._anchor


class _HasWrappers(Protocol):
    wrappers: list[Wrapper]


Group = TypeVar("Group", bound=_HasWrappers)


class WrapperCache:
    """All wrappers of the process.

    Parameters
    ----------
    stats
        Gives for a compiled code object its runs and the nanoseconds that they took.
    drop
        Drops the cache entries of a code object.
    """

    def __init__(self, stats: Callable[[CodeType], tuple[int, int]], drop: Callable[[CodeType], None]) -> None:
        self._stats = stats
        self._drop = drop
        # The keys are anchors; `_Lookup` finds them.
        self._families: dict[Any, dict[Hashable, Any]] = {}
        self._names: set[str] = set()
        self._gone = Totals()
        self._lock = threading.RLock()

    def family(self, anchor: object, rest: Hashable, make: Callable[[], Group]) -> Group:
        """Return a family; the first time, make it.

        Parameters
        ----------
        anchor
            The object whose life the family shares, by identity; held weakly.
        rest
            What else tells families apart, options included.
        make
            Makes the family.
        """
        with self._lock:
            families = self._families.get(_Lookup(anchor))
            if families is None:
                families = self._families[_Anchor(anchor, self._forget)] = {}
            family = families.get(rest)
            if family is None:
                family = families[rest] = make()
            return family

    def named(self, name: Callable[[set[str]], str]) -> str:
        """Return a name that `name` chooses, given those that are taken, and take it."""
        with self._lock:
            chosen = name(self._names)
            self._names.add(chosen)
            return chosen

    def _forget(self, key: _Anchor) -> None:
        for family in self._families.pop(key, {}).values():
            self.drop(family.wrappers)

    def drop(self, wrappers: Iterable[Wrapper]) -> None:
        """Let go of wrappers that their family has given up. What they counted stays in the totals."""
        with self._lock:
            for wrapper in wrappers:
                self._gone = self._gone.plus(wrapper)
                self._names.discard(wrapper.name)

    def families(self) -> list[Any]:
        """Return all families."""
        with self._lock:
            return [family for families in self._families.values() for family in families.values()]

    def __iter__(self) -> Iterator[Wrapper]:
        with self._lock:
            return iter([wrapper for family in self.families() for wrapper in family.wrappers])

    def families_of(self, anchor: object) -> dict[Any, Any]:
        """Return the families of `anchor`, by what else tells them apart."""
        with self._lock:
            return dict(self._families.get(_Lookup(anchor), {}))

    def of(self, anchor: object) -> list[Wrapper]:
        """Return the wrappers that the families of `anchor` have, under whatever options."""
        with self._lock:
            return [each for family in self._families.get(_Lookup(anchor), {}).values() for each in family.wrappers]

    def totals(self) -> Totals:
        """Return the counts over all wrappers since the start or the last `clear`."""
        with self._lock:
            totals = self._gone
            for wrapper in self:
                totals = totals.plus(wrapper)
            return totals

    def info(self) -> CacheInfo:
        """Return a snapshot of now."""
        with self._lock:
            totals = self.totals()
            wrappers = tuple(map(self._wrapper_info, self))
        return CacheInfo(wrappers=wrappers, **{name: getattr(totals, name) for name in Totals.__slots__})

    def _wrapper_info(self, wrapper: Wrapper) -> WrapperInfo:
        copied = ("key", "retired", "entries")
        return WrapperInfo(
            key=MappingProxyType(dict(wrapper.key)),
            retired=MappingProxyType(dict(wrapper.retired)),
            entries=tuple(map(self._entry_info, wrapper.live_entries())),
            **{name: getattr(wrapper, name) for name in WrapperInfo.__slots__ if name not in copied},
        )

    def _entry_info(self, entry: Entry) -> EntryInfo:
        code = entry.code()
        runs, nanoseconds = self._stats(code) if code is not None else (0, 0)
        return EntryInfo(
            compile_id=entry.compile_id,
            hits=runs,
            run_seconds=nanoseconds / 1e9,
            reason=entry.reason,
            cell=entry.place.cell if entry.place else None,
            line=entry.place.line if entry.place else None,
            compile_seconds=entry.seconds,
            frame=entry.frame,
            graph=entry.graph,
            number=entry.number,
        )

    def reset(self, wrappers: list[Wrapper]) -> None:
        """Drop the entries of `wrappers`; the wrappers stay, and compile again when they are called."""
        with self._lock:
            for wrapper in wrappers:
                sources = {source for entry in wrapper.entries if (source := entry.source()) is not None}
                for code in {wrapper.code, *sources}:
                    self._drop(code)
                wrapper.entries, wrapper.broken_at = [], set()
                wrapper.state, wrapper.last_reason = "eager", None

    def clear(self) -> None:
        """Drop all entries and all counts."""
        with self._lock:
            self.reset(list(self))
            self._families.clear()
            self._names.clear()
            self._gone = Totals()
