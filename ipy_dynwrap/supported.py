"""Which torch this works with. Read before anything of torch's private API is."""

from __future__ import annotations

import contextlib
import functools
import importlib
import re
import signal
import threading
from collections.abc import Iterator
from types import FrameType

__all__ = ["MINIMUM", "UnsupportedTorchError", "interrupts_held", "load", "require"]

MINIMUM = (2, 13)
"""The first release with caches per region (``isolate_recompiles``)."""


class UnsupportedTorchError(ImportError):
    """Torch is missing or too old; the message is one sentence."""


@contextlib.contextmanager
def interrupts_held() -> Iterator[None]:
    """Hold an interrupt back until the end: an import that it stops half-way leaves torch broken for good."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    held: list[tuple[int, FrameType | None]] = []
    former = signal.getsignal(signal.SIGINT)
    if not callable(former):
        yield
        return
    signal.signal(signal.SIGINT, lambda number, frame: held.append((number, frame)))
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, former)
    if held:
        former(*held[0])


def load(*names: str) -> None:
    """Import modules of torch's that take a while."""
    with interrupts_held():
        for name in names:
            importlib.import_module(name)


@functools.cache
def require() -> None:
    """Import torch, and raise `UnsupportedTorchError` unless it is there and new enough."""
    needed = f"ipy_dynwrap needs torch>={'.'.join(map(str, MINIMUM))}"
    try:
        load("torch")
        import torch
    except ImportError as error:
        raise UnsupportedTorchError(f"{needed}, which is not installed ({error})") from error
    found = tuple(int(part) for part in re.findall(r"\d+", torch.__version__)[:2])
    if found < MINIMUM:
        raise UnsupportedTorchError(f"{needed}, and this is torch {torch.__version__}")
    load("torch._dynamo.convert_frame", "torch.utils.data", "torch.utils.checkpoint")
