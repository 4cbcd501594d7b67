"""Tracebacks as the user would have seen them in eager: without the frames between a call and what it runs."""

from __future__ import annotations

from types import TracebackType

from . import dynamo, state

__all__ = ["strip"]


def strip(error: BaseException) -> BaseException:
    """Take this package's frames, and those that carry out compiled code, out of the traceback of `error`.

    An error of torch's own about compilation keeps torch's frames: they are its subject.
    """
    keep_torch = dynamo.is_about_compiling(error)
    kept: list[TracebackType] = []
    trace = error.__traceback__
    while trace is not None:
        file = trace.tb_frame.f_code.co_filename
        if not state.is_ours(file) and (keep_torch or not dynamo.is_compiled_internals(file)):
            kept.append(trace)
        trace = trace.tb_next
    rebuilt: TracebackType | None = None
    for each in reversed(kept):
        rebuilt = TracebackType(rebuilt, each.tb_frame, each.tb_lasti, each.tb_lineno)
    return error.with_traceback(rebuilt)
