"""What happened, as typed records: compilations, graph breaks, calls that ran eager.

The part of the program that runs compiled code writes records; views read them. A record holds plain values only
(no module, tensor, frame or guard), so reading one from another thread is always safe.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field

__all__ = ["CompileFinished", "CompileStarted", "EagerCall", "Event", "GraphBreak", "Log", "Notice", "Place"]


@dataclass(frozen=True, slots=True)
class Place:
    """Where the user's own code asked for something.

    Parameters
    ----------
    cell
        The execution count of the notebook cell (``3`` for ``In [3]``); None outside a notebook.
    line
        The line in that cell, or in `file` outside a notebook, counted from 1.
    file
        The file name as Python knows it.
    """

    cell: int | None
    line: int
    file: str

    def __str__(self) -> str:
        if self.cell is not None:
            return f"cell {self.cell}, line {self.line}"
        return f"{self.file.rsplit('/', 1)[-1]}:{self.line}"


@dataclass(frozen=True, slots=True)
class Event:
    """The fields that every record has.

    Parameters
    ----------
    wrapper
        The unique name of the wrapper (`WrapperInfo.name`).
    target
        What the user calls it: ``"Net.forward"``, ``"loss_fn"``.
    at
        `time.time` of the record, in seconds.
    """

    wrapper: str
    target: str
    at: float = field(default_factory=time.time, kw_only=True)


@dataclass(frozen=True, slots=True)
class CompileStarted(Event):
    """TorchDynamo found no entry for a frame, and compiles one.

    Parameters
    ----------
    frame
        The name of the frame's code; not the target's own after a graph break.
    compile_id
        Torch's id of the entry to come, ``"0/1"``: frame 0, its second entry. Ids start again after a reset.
    reasons
        Why each existing entry did not fit, in words (`reasons.describe`), the most telling first; empty for a first
        compilation.
    place
        The user's line that made the call.
    """

    frame: str
    compile_id: str
    reasons: tuple[str, ...]
    place: Place | None


@dataclass(frozen=True, slots=True)
class CompileFinished(Event):
    """The end of the compilation that the last `CompileStarted` of this wrapper began.

    Parameters
    ----------
    compile_id, frame, reasons, place
        As in `CompileStarted`.
    seconds
        Wall time, tracing and backend together, in seconds.
    outcome
        ``"compiled"`` (a graph), ``"no graph"`` (an entry that only calls on), ``"at limit"`` (torch's
        `recompile_limit` is used up), ``"skipped"`` (torch does not compile this frame), ``"put off"`` (something that
        is on now stands in the way, such as a dispatch mode) or ``"failed"``.
    detail
        The cause, for the last four; otherwise empty.
    """

    frame: str
    compile_id: str
    reasons: tuple[str, ...]
    place: Place | None
    seconds: float
    outcome: str
    detail: str = ""


@dataclass(frozen=True, slots=True)
class GraphBreak(Event):
    """One graph became two.

    Parameters
    ----------
    reason
        Torch's first line about it.
    place
        The line of the user's code that broke the graph.
    """

    reason: str
    place: Place | None


@dataclass(frozen=True, slots=True)
class EagerCall(Event):
    """A routed call that ran no compiled code.

    Parameters
    ----------
    reason
        Why, in words.
    place
        The user's line that made the call.
    """

    reason: str
    place: Place | None


@dataclass(frozen=True, slots=True)
class Notice(Event):
    """Something that the user should know although nothing failed.

    Parameters
    ----------
    text
        It, in words.
    place
        The line of the user's code that it is about.
    """

    text: str
    place: Place | None


class Log:
    """The last records, and who wants to hear of new ones.

    Parameters
    ----------
    size
        How many records are kept.

    Notes
    -----
    Every method may be called from any thread. A subscriber is called on the thread that compiles, while the user
    waits: it should only take note.
    """

    def __init__(self, size: int = 10_000) -> None:
        self._records: deque[Event] = deque(maxlen=size)
        self._subscribers: tuple[Callable[[Event], None], ...] = ()
        self._lock = threading.Lock()
        self._written = 0

    def write(self, event: Event) -> None:
        """Keep `event` and tell the subscribers. A subscriber that raises is dropped: a view may not stop a call."""
        with self._lock:
            self._records.append(event)
            self._written += 1
            subscribers = self._subscribers
        for subscriber in subscribers:
            try:
                subscriber(event)
            except Exception:  # noqa: BLE001, PERF203 - whatever it is, the next one is told
                self.unsubscribe(subscriber)

    @property
    def written(self) -> int:
        """How many records were ever written: a cheap sign that something is new."""
        return self._written

    def since(self, written: int = 0) -> tuple[Event, ...]:
        """Return the records that were written after `written` of them had been, oldest first."""
        with self._lock:
            fresh = min(self._written - written, len(self._records))
            return tuple(self._records)[len(self._records) - fresh :] if fresh > 0 else ()

    def subscribe(self, subscriber: Callable[[Event], None]) -> Callable[[], None]:
        """Call `subscriber` with each new record; the function that is returned ends that."""
        with self._lock:
            self._subscribers = (*self._subscribers, subscriber)
        return lambda: self.unsubscribe(subscriber)

    def unsubscribe(self, subscriber: Callable[[Event], None]) -> None:
        """Stop calling `subscriber`. Nothing happens if it is not subscribed."""
        with self._lock:
            self._subscribers = tuple(known for known in self._subscribers if known != subscriber)

    def clear(self) -> None:
        """Forget all records; the subscribers stay."""
        with self._lock:
            self._records.clear()
