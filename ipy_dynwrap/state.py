"""What the process has one of: the log, the wrapper cache, and who knows where the user's code stands."""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import CodeType, FrameType

from . import dynamo
from .cache import WrapperCache
from .events import Log, Place

__all__ = ["cache", "is_ours", "log", "place_of_caller", "places"]


def _stats(code: CodeType) -> tuple[int, int]:
    from . import _native

    return _native.stats(code)


log = Log()
cache = WrapperCache(stats=_stats, drop=dynamo.reset_code)

# Asked in order; the first that knows the frame answers. The notebook layer adds one for cells.
places: list[Callable[[FrameType], Place | None]] = []

_HERE = __file__.rsplit("/", 1)[0] + "/"


def is_ours(file: str) -> bool:
    """Tell whether a file name is this package's, or that of a generated wrapper."""
    return file.startswith((_HERE, "<ipy_dynwrap"))


def place_of_caller() -> Place | None:
    """Return the user's line that led here: the innermost one in a cell, else the innermost outside torch and us."""
    frame: FrameType | None = sys._getframe(1)  # noqa: SLF001 - documented, if not for every Python
    outside: FrameType | None = None
    while frame is not None:
        for find in places:
            if (place := find(frame)) is not None:
                return place
        file = frame.f_code.co_filename
        if outside is None and not is_ours(file) and not dynamo.is_torchs(file):
            outside = frame
        frame = frame.f_back
    if outside is None:
        return None
    return Place(None, outside.f_lineno, outside.f_code.co_filename)
