"""What the code of a cell under `%%compile` calls while it runs: the region around it, and the value that it shows."""

from __future__ import annotations

import functools
import linecache
import sys
import sysconfig
import threading
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import fields
from itertools import chain
from pathlib import Path
from types import FrameType, TracebackType
from typing import TYPE_CHECKING, Any

from IPython.core.getipython import get_ipython

from . import arguments, state
from .events import CompileFinished
from .snapshot import Report

if TYPE_CHECKING:
    from IPython.core.interactiveshell import ExecutionResult, InteractiveShell

__all__ = ["CompiledBlock", "compiled", "keep", "show_idleness", "show_summary", "take"]


class _ThisThread(threading.local):
    """What one statement leaves for a later one, or for the cell's end. Kernels with subshells run cells in threads."""

    def __init__(self) -> None:
        self.value: Any = None
        self.reports: list[Report] = []
        self.idle = False  # there was nothing to compile


_here = _ThisThread()


def keep(value: object) -> None:
    """Hand the value of the last expression on to `take`; nothing of the cell runs between the two."""
    _here.value = value


def take() -> object:
    """Return the value of the last expression, for IPython to display, and forget it."""
    value, _here.value = _here.value, None
    return value


def compiled(options: str) -> CompiledBlock:
    """Return the context manager around the statements of a cell.

    Raises
    ------
    CellError
        As `arguments.request`.
    """
    shell: InteractiveShell | None = get_ipython()
    if shell is None:
        raise arguments.CellError("%%compile works in IPython only; in a script use ipy_dynwrap.region")
    _quote_as_written(sys._getframe(1).f_code.co_filename, options)  # noqa: SLF001 - documented, if not for every Python
    return CompiledBlock(arguments.request(options, shell))


# What `cell` puts in the place of the line.
_MARKERS = ("get_ipython().run_cell_magic('compile', ", "u'%%compile ", 'u"%%compile ')


def _quote_as_written(file: str, options: str) -> None:
    """Let a traceback that quotes the cell show ``%%compile``, in a comment: what parses the cell is to go on."""
    if (kept := linecache.cache.get(file)) is None or len(kept) < 3:  # a lazy one has two parts
        return
    lines = kept[2]
    for at, line in enumerate(lines):
        if line.startswith(_MARKERS):
            lines[at] = f"# %%compile {options}".rstrip() + "\n"
            return


class CompiledBlock:
    """A region around a cell's statements, with the views of it.

    Parameters
    ----------
    request
        What the ``%%compile`` line asks for.
    """

    def __init__(self, request: arguments.Request) -> None:
        self._request = request
        self._cleanup = ExitStack()
        self._written = state.log.written

    def __enter__(self) -> None:
        from .regions import RegionError
        from .views import live_line

        with ExitStack() as cleanup:
            cleanup.enter_context(live_line())
            try:
                cleanup.enter_context(self._request.region)
            except RegionError as problem:
                raise arguments.CellError(f"%%compile: {problem}") from None
            self._cleanup = cleanup.pop_all()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            # The error of the cell is not passed on: it would get frames from here into its traceback.
            self._cleanup.close()
            if trace is not None and isinstance(error, KeyboardInterrupt) and self._was_compiling():
                _cut_below_user(trace)
        except BaseException:
            take()  # nobody else will
            raise
        finally:
            # Once more, for an interrupt that came while it was being left.
            self._request.region.close()
        if not self._request.quiet:
            _here.reports.append(self._request.region.report)

    def _was_compiling(self) -> bool:
        """Tell whether an interrupt met a compilation."""
        return any(
            isinstance(event, CompileFinished) and event.detail.startswith(KeyboardInterrupt.__name__)
            for event in state.log.since(self._written)
        )


def _cut_below_user(trace: TracebackType) -> None:
    """End a traceback at the last line that is no library's: where the compiler was is no place of the program."""
    users, at = trace, trace.tb_next
    while at is not None:
        if _is_users(at.tb_frame):
            users = at
        at = at.tb_next
    users.tb_next = None


def _is_users(frame: FrameType) -> bool:
    file = frame.f_code.co_filename
    # A file name that is not absolute is a cell's in a terminal, or Cython's, or one of code that was made up.
    return state.place_of(file, frame.f_lineno).cell is not None or (
        Path(file).is_absolute() and not file.startswith(_libraries())
    )


@functools.cache
def _libraries() -> tuple[str, ...]:
    paths = sysconfig.get_paths()
    return tuple(paths[name] for name in ("stdlib", "platstdlib", "purelib", "platlib"))


def show_summary() -> None:
    """Show what happened in the regions of the cell that has ended; for IPython's event ``post_execute``."""
    reports, _here.reports = _here.reports, []
    state.session.cells += 1
    # Each cell comes here, a silent one too, whose end nobody hears of: what it left is not the next one's.
    _here.idle = False
    if reports:
        from .views import show_report

        total = _total(reports)
        _here.idle = not (total.calls or total.notices)
        show_report(total)


def show_idleness(result: ExecutionResult) -> None:
    """Say that there was nothing to compile in the cell that has ended; for IPython's event ``post_run_cell``."""
    idle, _here.idle = _here.idle, False
    if idle and result.success:
        from .views import show_nothing

        show_nothing()


def _total(reports: Sequence[Report]) -> Report:
    """Add up the reports of one cell: `%compile` may stand in a loop."""
    columns: dict[str, Any] = {}
    for field in fields(Report):
        values = [getattr(each, field.name) for each in reports]
        words = isinstance(values[0], tuple)
        columns[field.name] = tuple(dict.fromkeys(chain.from_iterable(values))) if words else sum(values)
    return Report(**columns)
