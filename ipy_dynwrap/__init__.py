"""`%%compile` for notebooks: compiled cells that answer as eager does, and show why they compiled.

Nothing here imports torch: ``%load_ext ipy_dynwrap`` is quick, and the first compiled call pays for torch.
"""

from __future__ import annotations

from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .compiled import compile  # noqa: A004 - the public name, as torch.compile's
    from .extension import load_ipython_extension, unload_ipython_extension
    from .inspector import inspector
    from .public import cache_info, explain, reset
    from .regions import region

__all__ = [
    "__version__",
    "cache_info",
    "compile",
    "explain",
    "inspector",
    "load_ipython_extension",
    "region",
    "reset",
    "unload_ipython_extension",
]

try:
    __version__ = version(__name__)
except PackageNotFoundError:  # a source tree that is not installed
    __version__ = "0"

_WHERE = {
    "cache_info": "public",
    "compile": "compiled",
    "explain": "public",
    "inspector": "inspector",
    "load_ipython_extension": "extension",
    "region": "regions",
    "reset": "public",
    "unload_ipython_extension": "extension",
}


def __getattr__(name: str) -> Any:
    if name not in _WHERE:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = globals()[name] = getattr(import_module(f".{_WHERE[name]}", __name__), name)
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
