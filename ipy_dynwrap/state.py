"""What the process has one of: the log, the wrapper cache, and who knows where the user's code stands.

Torch is not imported with it: the notebook layer is loaded with this, long before anything compiles.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import CodeType, FrameType

from .cache import WrapperCache
from .events import Log, Place

__all__ = ["cache", "is_ours", "log", "place_of", "place_of_caller", "places", "session", "where"]


def _stats(code: CodeType) -> tuple[int, int]:
    from . import _native

    return _native.stats(code)


def _drop(code: CodeType) -> None:
    from . import dynamo

    dynamo.reset_code(code)


class Session:
    """The notebook's progress: how many cells have run under the extension; 0 in a script."""

    def __init__(self) -> None:
        self.cells = 0


log = Log()
session = Session()
cache = WrapperCache(stats=_stats, drop=_drop)

# Asked for a file and a line, in order; the first that knows the file answers. The notebook layer adds one for cells.
places: list[Callable[[str, int], Place | None]] = []

_HERE = __file__.rsplit("/", 1)[0] + "/"


def is_ours(file: str) -> bool:
    """Tell whether a file name is this package's, or that of a generated wrapper."""
    return file.startswith((_HERE, "<ipy_dynwrap"))


def place_of(file: str, line: int) -> Place:
    """Return the place of a line: in its cell, if it is in one."""
    return next((place for find in places if (place := find(file, line)) is not None), Place(None, line, file))


def where(code: CodeType) -> str:
    """Say where code was written: ``" in cell 7"``, ``" at script.py:12"``."""
    place = place_of(code.co_filename, code.co_firstlineno)
    return f" in cell {place.cell}" if place.cell is not None else f" at {place}"


def place_of_caller() -> Place | None:
    """Return the user's line that led here: the innermost one in a cell, else the innermost outside torch and us."""
    from . import dynamo

    frame: FrameType | None = sys._getframe(1)  # noqa: SLF001 - documented, if not for every Python
    outside: Place | None = None
    while frame is not None:
        place = place_of(frame.f_code.co_filename, frame.f_lineno)
        if place.cell is not None:
            return place
        if outside is None and not is_ours(place.file) and not dynamo.is_torchs(place.file):
            outside = place
        frame = frame.f_back
    return outside
