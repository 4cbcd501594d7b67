"""Keeps the widgets up to date: one thread, a few updates a second while there is something new, none otherwise.

New is: a record in the log, a cell that runs (its hits write no record), a cell that has just ended. The thread reads
locked snapshots only, never guards or anything else of torch's.
"""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING, Any

from ipy_dynwrap.events import CompileFinished, CompileStarted, Event, Log

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["Compiling", "Feed"]

_PERIOD_SECONDS = 0.3


class Compiling:
    """What is being compiled now, as the log tells it.

    The compiling threads take no lock: single operations on a dictionary are atomic.
    """

    def __init__(self) -> None:
        self._running: dict[tuple[str, str, str], tuple[CompileStarted, float]] = {}

    def note(self, event: Event) -> bool:
        """Take note of `event`; return whether it concerns a compilation."""
        if isinstance(event, CompileStarted):
            self._running[event.wrapper, event.frame, event.compile_id] = (event, time.monotonic())
        elif isinstance(event, CompileFinished):
            # At the limit torch finishes without having started.
            self._running.pop((event.wrapper, event.frame, event.compile_id), None)
        else:
            return False
        return True

    def clear(self) -> None:
        """Forget all: an interrupt ends a compilation without a record."""
        self._running.clear()

    def now(self) -> list[tuple[CompileStarted, float]]:
        """Return each compilation with the `time.monotonic` of its start, the longest first."""
        return list(self._running.values())


class Feed:
    """Calls its listeners when there may be something new.

    Parameters
    ----------
    log
        The records to follow.
    """

    def __init__(self, log: Log) -> None:
        self.compiling = Compiling()
        self._log = log
        self._listeners: tuple[Callable[[], None], ...] = ()
        self._lock = threading.Lock()
        self._news = threading.Event()
        self._stopped = threading.Event()
        self._unsubscribe: Callable[[], None] = lambda: None
        self._cell_runs = False
        self._shell: Any = None

    def add(self, listener: Callable[[], None]) -> None:
        """Call `listener` from now on, on the feed's thread. One that raises is dropped."""
        with self._lock:
            if listener in self._listeners:
                return
            self._listeners = (*self._listeners, listener)
            if len(self._listeners) == 1:
                self._start()
        self._news.set()

    def remove(self, listener: Callable[[], None]) -> None:
        """Do not call `listener` any more; the thread ends with the last one."""
        with self._lock:
            if listener not in self._listeners:
                return
            self._listeners = tuple(known for known in self._listeners if known != listener)
            if not self._listeners:
                self._stop()

    def _start(self) -> None:
        self._stopped = threading.Event()
        self._unsubscribe = self._log.subscribe(self._note)
        if (shell := _shell()) is not None:
            self._shell = shell
            # The cell that makes the first widget runs already.
            self._cell_runs = True
            shell.events.register("pre_run_cell", self._cell_begins)
            shell.events.register("post_run_cell", self._cell_ends)
        threading.Thread(target=self._run, args=(self._stopped,), name="ipy_dynwrap feed", daemon=True).start()

    def _stop(self) -> None:
        self._unsubscribe()
        if self._shell is not None:
            self._shell.events.unregister("pre_run_cell", self._cell_begins)
            self._shell.events.unregister("post_run_cell", self._cell_ends)
            self._shell = None
        self._cell_runs = False
        self.compiling.clear()
        self._stopped.set()
        self._news.set()

    def _note(self, event: Event) -> None:
        self.compiling.note(event)
        self._news.set()

    def _cell_begins(self, *_: object) -> None:
        self._cell_runs = True
        self._news.set()

    def _cell_ends(self, *_: object) -> None:
        self._cell_runs = False
        self.compiling.clear()
        self._news.set()

    def _run(self, stopped: threading.Event) -> None:
        while not stopped.is_set():
            self._news.wait(_PERIOD_SECONDS if self._cell_runs else None)
            self._news.clear()
            for listener in self._listeners:
                self._tell(listener)
            # What comes meanwhile is told in one go.
            stopped.wait(_PERIOD_SECONDS)

    def _tell(self, listener: Callable[[], None]) -> None:
        try:
            listener()
        except Exception:  # noqa: BLE001 - a view that fails may not stop the others
            self.remove(listener)


def _shell() -> Any:
    try:
        from IPython import get_ipython
    except ImportError:
        return None
    return get_ipython()
