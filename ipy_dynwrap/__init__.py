"""`%%compile` for notebooks: compiled cells that answer as eager does, and show why they compiled.

Nothing here imports torch: ``%load_ext ipy_dynwrap`` is quick, and the first compiled call pays for torch.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    __version__: str
    from .compiled import compile  # noqa: A004 - the public name, as torch.compile's
    from .extension import load_ipython_extension, unload_ipython_extension
    from .prediction import would_hit
    from .public import cache_info, details, explain, reset, skip, timeline
    from .regions import region
    from .views import inspector

__all__ = [
    "__version__",
    "cache_info",
    "compile",
    "details",
    "explain",
    "inspector",
    "load_ipython_extension",
    "region",
    "reset",
    "skip",
    "timeline",
    "unload_ipython_extension",
    "would_hit",
]

_WHERE = {
    "cache_info": "public",
    "compile": "compiled",
    "details": "public",
    "explain": "public",
    "inspector": "views",
    "load_ipython_extension": "extension",
    "region": "regions",
    "reset": "public",
    "skip": "public",
    "timeline": "public",
    "unload_ipython_extension": "extension",
    "would_hit": "prediction",
}


def __getattr__(name: str) -> Any:
    if name == "__version__":
        return _version()
    if name not in _WHERE:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = globals()[name] = getattr(import_module(f".{_WHERE[name]}", __name__), name)
    return value


def _version() -> str:
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version(__name__)
    except PackageNotFoundError:  # a source tree that is not installed
        return "0"


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
