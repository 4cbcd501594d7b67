"""The timeline: what each run of a cell, or each region in a script, took, and how much of it was compilation.

Nothing is done per call: a run is the difference between the counts before and after it.
"""

from __future__ import annotations

import threading
import time
import weakref
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from . import state
from .cache import Entry, Totals
from .events import CompileFinished
from .snapshot import CellRun

if TYPE_CHECKING:
    from IPython.core.interactiveshell import ExecutionInfo, ExecutionResult

    from .snapshot import Report

__all__ = ["Run", "abandon_cells", "cell_begins", "cell_ends", "in_cell", "recorded", "reset"]

_KEPT = 1_000

_runs: deque[CellRun] = deque(maxlen=_KEPT)
_running: weakref.WeakSet[Run] = weakref.WeakSet()
_lock = threading.Lock()


class _Thread(threading.local):
    def __init__(self) -> None:
        self.cells: list[Run] = []  # that run on it, outermost first: a cell may run another one


_here = _Thread()


class Run:
    """A run that goes on; it begins as it is made."""

    def __init__(self) -> None:
        self._at = time.time()
        self._begun = time.perf_counter()
        self.restart_counts()
        with _lock:
            _running.add(self)

    def restart_counts(self) -> None:
        """Count from here on: at the beginning, and when everything was reset."""
        self._written = state.log.written
        self._before = state.cache.totals()
        self._spent = _spent()

    def end(self, *, cell: int | None = None, failed: bool, report: Report | None = None) -> None:
        """Add the run to the timeline.

        Parameters
        ----------
        cell, failed
            As in `CellRun`.
        report
            Where the counts are, if they are not those of the whole process.
        """
        seconds = time.perf_counter() - self._begun
        finished = [each for each in state.log.since(self._written) if isinstance(each, CompileFinished)]
        totals, before = report or state.cache.totals(), self._before
        counts = {
            name: getattr(totals, name) - (0 if report else getattr(before, name))
            for name in Totals.__slots__
            if name not in ("failed_calls", "skipped_calls")
        }
        run = CellRun(
            cell=cell,
            at=self._at,
            seconds=seconds,
            run_seconds=_run_seconds(self._spent, finished),
            compiled=tuple(dict.fromkeys(each.target for each in finished if each.outcome == "compiled")),
            failed=failed,
            **counts,
        )
        with _lock:
            _runs.append(run)
            _running.discard(self)


@dataclass(frozen=True, slots=True)
class _Spent:
    """What an entry has taken so far. It is kept with its number: else another one might get the same."""

    entry: Entry
    wrapper: str
    nanoseconds: int


def _spent() -> dict[int, _Spent]:
    """Return what each entry that the frame of a wrapper itself runs has taken; all others run within those."""
    spent = {}
    for wrapper in state.cache:
        for entry in tuple(wrapper.entries):
            code = entry.code()
            if code is not None and entry.source() is wrapper.code:
                from . import _native  # it is loaded already

                spent[id(entry)] = _Spent(entry, wrapper.name, _native.stats(code)[1])
    return spent


def _run_seconds(before: dict[int, _Spent], finished: Sequence[CompileFinished]) -> float:
    """Return the time in compiled code; what a graph broke at is compiled in it, and is left out."""
    now = _spent()
    taken: dict[str, int] = {}
    for number, each in now.items():
        earlier = before[number].nanoseconds if number in before else 0
        taken[each.wrapper] = taken.get(each.wrapper, 0) + each.nanoseconds - earlier
    own = {(each.wrapper, each.entry.compile_id, each.entry.frame) for each in now.values()}
    inner: dict[str, float] = {}
    for event in finished:
        if (event.wrapper, event.compile_id, event.frame) not in own:
            inner[event.wrapper] = inner.get(event.wrapper, 0.0) + event.seconds
    return sum(max(0.0, nanoseconds / 1e9 - inner.get(name, 0.0)) for name, nanoseconds in taken.items())


def cell_begins(_: ExecutionInfo) -> None:
    """Begin a run, for IPython's event ``pre_run_cell``."""
    _here.cells.append(Run())


def cell_ends(result: ExecutionResult) -> None:
    """End it, for IPython's event ``post_run_cell``."""
    info = result.info
    # An empty cell ends without having begun, and so does the one that loads the extension.
    if _here.cells and info is not None and info.raw_cell.strip():
        # Only a cell that is kept in the history has the number as its own.
        cell = result.execution_count if info.store_history else None
        _here.cells.pop().end(cell=cell, failed=not result.success)


def abandon_cells() -> None:
    """Let go of the cells that run on this thread: nobody hears of their ends any more."""
    _here.cells.clear()


def in_cell() -> bool:
    """Tell whether a cell that is recorded runs on this thread."""
    return bool(_here.cells)


def recorded() -> tuple[CellRun, ...]:
    """Return the last runs, in the order in which they ended."""
    with _lock:
        return tuple(_runs)


def reset() -> None:
    """Forget all runs; those that go on count from here."""
    with _lock:
        _runs.clear()
        running = tuple(_running)
    for each in running:
        each.restart_counts()
