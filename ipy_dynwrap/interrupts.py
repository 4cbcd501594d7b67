"""An interrupt (SIGINT) while something compiles: it waits for a moment at which torch survives it.

Raised in the midst of a compilation, a KeyboardInterrupt may leave torch's modes behind, may be swallowed in a callback
of a weak reference, and may end the process: C++ that may not throw calls Python. So an interrupt is held back until
the compilation is over, but not for longer than somebody waits who wants to stop: then it is raised at the next moment
that is not known to be deadly, and again if it was swallowed. What is compiled by then is kept: a compilation that ends
hands the interrupt on to the call that asked for it. That is for Python's own handler, which raises; a handler of the
user's own is left alone.
"""

from __future__ import annotations

import contextlib
import signal
import threading
import time
from collections.abc import Callable, Collection, Iterator
from types import CodeType, FrameType

__all__ = ["deliver", "held", "owed"]

# Most compilations are over by then.
PATIENCE_SECONDS = 1.0
_PERIOD_SECONDS = 0.05


class _Holder:
    """Stands in for the handler of SIGINT.

    Parameters
    ----------
    handler
        The handler that was there.
    deadly
        Code objects inside of which nothing may be raised.
    """

    def __init__(self, handler: _Handler, deadly: Collection[CodeType]) -> None:
        self._handler = handler
        self._deadly = deadly
        self._since: float | None = None
        self._over = threading.Event()
        self._ticker: threading.Thread | None = None

    def __call__(self, number: int, frame: FrameType | None) -> None:
        if self._ticker is None:
            self._since = time.monotonic()
            self._ticker = threading.Thread(target=self._tick, name="ipy_dynwrap interrupt", daemon=True)
            self._ticker.start()
            return
        is_late = self._since is not None and time.monotonic() - self._since > PATIENCE_SECONDS
        if is_late and not self._is_deadly(frame):
            self._since = time.monotonic()  # time to clean up, before it is taken for swallowed
            self._handler(number, frame)

    def _tick(self) -> None:
        """Ask again and again: only a signal stops what runs in the main thread now."""
        while not self._over.wait(_PERIOD_SECONDS):
            signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)

    def _is_deadly(self, frame: FrameType | None) -> bool:
        while frame is not None:
            if frame.f_code in self._deadly:
                return True
            frame = frame.f_back
        return False

    def end(self) -> bool:
        """Hold nothing back any more; tell whether there is an interrupt."""
        # What the ticker has sent is taken by this, not by who follows.
        self._since = None
        self._over.set()
        if self._ticker is not None:
            self._ticker.join()
        return self._ticker is not None


_Handler = Callable[[int, FrameType | None], object]
owed: list[_Handler] = []
"""The handler that is yet to hear of an interrupt, if there is one."""


def deliver() -> None:
    """Raise what came while something compiled, if there is anything."""
    # Handlers are called in the main thread.
    if owed and threading.current_thread() is threading.main_thread():
        owed.pop()(signal.SIGINT, None)


@contextlib.contextmanager
def held(deadly: Collection[CodeType]) -> Iterator[None]:
    """Hold an interrupt back within the block; `deliver` raises it then, if that has not happened before.

    Parameters
    ----------
    deadly
        Code objects inside of which nothing may be raised, however long the interrupt has waited.
    """
    deliver()  # of another compilation for the same call
    handler = signal.getsignal(signal.SIGINT)
    # Python handles signals in the main thread only. Who has a handler of his own is to be told at once, and once.
    is_main = threading.current_thread() is threading.main_thread()
    if not is_main or handler is not signal.default_int_handler:
        yield
        return
    holder = _Holder(handler, deadly)
    signal.signal(signal.SIGINT, holder)
    error: BaseException | None = None
    try:
        yield
    except BaseException as caught:
        error = caught
        raise
    finally:
        waiting = holder.end()
        # A backend may have set another one.
        if signal.getsignal(signal.SIGINT) is holder:
            signal.signal(signal.SIGINT, handler)
        if waiting and not isinstance(error, KeyboardInterrupt):
            owed[:] = [handler]
        if error is not None:
            deliver()
