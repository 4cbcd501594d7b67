"""Which torch this works with. Read before anything of torch's private API is."""

from __future__ import annotations

import functools
import re

__all__ = ["MINIMUM", "UnsupportedTorchError", "require"]

MINIMUM = (2, 13)
"""The first release with caches per region (``isolate_recompiles``)."""


class UnsupportedTorchError(ImportError):
    """Torch is missing or too old; the message is one sentence."""


@functools.cache
def require() -> None:
    """Import torch, and raise `UnsupportedTorchError` unless it is there and new enough."""
    needed = f"ipy_dynwrap needs torch>={'.'.join(map(str, MINIMUM))}"
    try:
        import torch
    except ImportError as error:
        raise UnsupportedTorchError(f"{needed}, which is not installed ({error})") from error
    found = tuple(int(part) for part in re.findall(r"\d+", torch.__version__)[:2])
    if found < MINIMUM:
        raise UnsupportedTorchError(f"{needed}, and this is torch {torch.__version__}")
