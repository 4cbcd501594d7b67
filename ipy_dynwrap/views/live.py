"""A line that says what is being compiled, why and for how long; gone when it is done.

The subscriber runs on the thread that compiles and only takes a note. A daemon thread draws: it runs in a copy of the
cell's context, because ipykernel finds the cell that an output belongs to in context variables.
"""

from __future__ import annotations

import contextvars
import shutil
import sys
import threading
import time
import uuid
from contextlib import contextmanager
from html import escape
from typing import TYPE_CHECKING, Protocol

from . import words
from .feed import Compiling

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from IPython.core.displaypub import DisplayPublisher

    from ipy_dynwrap.events import Event, Log

__all__ = ["live_line"]

# Most compilations are over before a line could be read.
_PATIENCE_SECONDS = 0.5
_PERIOD_SECONDS = 0.5
# A front end that does not take messages any more must not hold up the cell.
_JOIN_SECONDS = 2.0


class Screen(Protocol):
    """Where the line is drawn."""

    def show(self, text: str) -> None:
        """Draw `text` in the place of what was drawn before."""

    def clear(self) -> None:
        """Leave nothing behind."""


class CellScreen:
    """The output of a notebook's cell: one display that is updated, and empty in the end."""

    def __init__(self, publisher: DisplayPublisher) -> None:
        # Kept from the start, so that a `capture_output()` inside the cell does not capture the line.
        self._publisher = publisher
        self._transient = {"display_id": f"ipy_dynwrap-{uuid.uuid4().hex}"}
        self._begun = False
        self._empty = True

    def show(self, text: str) -> None:
        """Draw `text`."""
        html = escape(words.arrow(text))
        self._publish(text, f'<span style="opacity: 0.75">{html}</span>')

    def clear(self) -> None:
        """Empty the display. Jupyter has no message that takes one output away, but front ends draw none of this."""
        if not self._empty:
            # Without any data nbconvert warns.
            self._publish("", "")

    def _publish(self, text: str, html: str) -> None:
        update, self._begun, self._empty = self._begun, True, not text
        data = {"text/plain": text, "text/html": html}
        self._publisher.publish(data, transient=self._transient, update=update)


class TerminalScreen:
    """The last line of a terminal."""

    def __init__(self) -> None:
        self._shown = False

    def show(self, text: str) -> None:
        """Draw `text`, cut to the terminal's width: a line that wraps cannot be taken back."""
        width = shutil.get_terminal_size().columns - 1
        sys.stderr.write(f"\r\x1b[2K{text[:width]}")
        sys.stderr.flush()
        self._shown = True

    def clear(self) -> None:
        """Wipe the line."""
        if self._shown:
            sys.stderr.write("\r\x1b[2K")
            sys.stderr.flush()
            self._shown = False


def screen() -> Screen | None:
    """Return the screen for this process; None where nobody looks on (a script, a pipe, output that is captured)."""
    if "IPython" not in sys.modules:
        return None
    from IPython import get_ipython
    from IPython.core.displaypub import CapturingDisplayPublisher

    shell = get_ipython()
    # Captured updates would be shown one by one when the capture is shown.
    if shell is None or isinstance(shell.display_pub, CapturingDisplayPublisher):
        return None
    if getattr(shell, "kernel", None) is not None:
        return CellScreen(shell.display_pub)
    return TerminalScreen() if sys.stderr.isatty() else None


class LiveLine:
    """Draws on `screen` what `log` says is being compiled."""

    def __init__(self, log: Log, screen: Screen) -> None:
        self._log = log
        self._screen = screen
        self._compiling = Compiling()
        self._news = threading.Event()
        self._closed = False
        self._unsubscribe: Callable[[], None] = lambda: None
        context = contextvars.copy_context()
        self._thread = threading.Thread(
            target=context.run, args=(self._draw,), name="ipy_dynwrap live line", daemon=True
        )

    def open(self) -> None:
        """Begin to listen."""
        self._thread.start()
        self._unsubscribe = self._log.subscribe(self._note)

    def close(self) -> None:
        """Stop listening, and leave the screen as it was."""
        self._unsubscribe()
        self._closed = True
        self._news.set()
        self._thread.join(_JOIN_SECONDS)
        self._screen.clear()

    def _note(self, event: Event) -> None:
        if self._compiling.note(event):
            self._news.set()

    def _draw(self) -> None:
        wait: float | None = None
        while True:
            self._news.wait(wait)
            self._news.clear()
            if self._closed:
                return
            wait = self._step(time.monotonic())

    def _step(self, now: float) -> float | None:
        """Draw once; return how long to wait for the next time, in seconds, None for until there is news."""
        running = self._compiling.now()
        if not running:
            self._screen.clear()
            return None
        event, since = running[0]
        if (early := _PATIENCE_SECONDS - (now - since)) > 0:
            return early
        text = f"{words.compiling(event)} · {now - since:.1f} s"
        if others := len(running) - 1:
            text += f" · and {others} more"
        self._screen.show(text)
        return _PERIOD_SECONDS


@contextmanager
def live_line(log: Log | None = None) -> Iterator[None]:
    """Show what compiles for longer than half a second, while the block runs.

    Parameters
    ----------
    log
        The records to follow; the process's own by default.
    """
    place = screen()
    if place is None:
        yield
        return
    if log is None:
        from ipy_dynwrap import state

        log = state.log
    line = LiveLine(log, place)
    line.open()
    try:
        yield
    finally:
        line.close()
