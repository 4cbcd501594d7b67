"""What `%dynwrap export` writes: a page to look at, or JSON for programs, which docs/export.md describes."""

from __future__ import annotations

import dataclasses
import json
import platform
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .guard_kinds import UNKEYED

if TYPE_CHECKING:
    from .views.picture import Picture

__all__ = ["FORMATS", "SCHEMA", "VERSION", "content", "document"]

FORMATS = ("html", "json")
VERSION = 1
"""Of the JSON: another number where something is named otherwise or means something else; the same for an addition."""
SCHEMA = Path(__file__).with_name("export.schema.json")


def content(form: str) -> str:
    """Return what a file of now contains.

    Parameters
    ----------
    form
        One of `FORMATS`.
    """
    from .views import html, picture

    now = picture.taken(details=True)
    # No line of the user's may keep the file from being written, half a surrogate pair for one.
    text = html.page(now) if form == "html" else json.dumps(document(now), indent=1, allow_nan=False)
    return text.encode("utf-8", "backslashreplace").decode("utf-8")


def document(picture: Picture) -> dict[str, Any]:
    """Return `picture` as JSON has it."""
    import ipy_dynwrap

    torch = sys.modules.get("torch")
    return {
        "format": "ipy_dynwrap",
        "version": VERSION,
        "at": time.time(),
        "versions": {
            "ipy_dynwrap": ipy_dynwrap.__version__,
            "python": platform.python_version(),
            "torch": None if torch is None else str(torch.__version__),
        },
        "cache": _plain(picture.cache),
        "recompilations": _plain(picture.recompilations),
        "timeline": _plain(picture.runs),
        "details": [_plain(each) for each in picture.details.values()],
        "unkeyed": [{"what": what, "why": why} for what, why in UNKEYED],
    }


def _plain(value: Any) -> Any:
    if dataclasses.is_dataclass(value):
        return {field.name: _plain(getattr(value, field.name)) for field in dataclasses.fields(value)}
    if isinstance(value, Mapping):
        return {str(name): _plain(each) for name, each in value.items()}
    if isinstance(value, tuple):
        return [_plain(each) for each in value]
    return value
