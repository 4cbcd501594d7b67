"""Tracebacks as the user would have seen them in eager: without the frames between a call and what it runs."""

from __future__ import annotations

import re
from types import TracebackType

from . import dynamo, state

__all__ = ["strip"]

# A frame as Python prints it: its place, then the lines that are indented further.
_FRAME = re.compile(r'^ *File "(?P<file>[^"\n]+)", line (?P<line>\d+)(?P<rest>.*\n(?:    .*\n?)*)', re.MULTILINE)


def strip(error: BaseException) -> BaseException:
    """Take this package's frames, and those that carry out compiled code, out of the traceback of `error`.

    An error of torch's own about compilation keeps torch's frames: they are its subject. The stack of the user's code
    that torch writes into the message is put as IPython puts it.
    """
    keep_torch = dynamo.is_about_compiling(error)
    if keep_torch and error.args and isinstance(error.args[0], str):
        error.args = (_FRAME.sub(_in_users_words, error.args[0]), *error.args[1:])
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


def _in_users_words(frame: re.Match[str]) -> str:
    file, line = frame["file"], int(frame["line"])
    if state.is_ours(file):
        return ""
    place = state.place_of(file, line)
    return frame[0] if place.cell is None else f"  Cell In[{place.cell}], line {place.line}{frame['rest']}"
