"""What one call of `compile` was asked for, and how it calls a target."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from typing import Any

from . import _native, engine
from .options import Options
from .tracebacks import strip

__all__ = ["Handle"]


class Handle:
    """Calls targets under the options of one `compile`.

    Parameters
    ----------
    options
        The compile options.
    include
        The modules whose functions are compiled on their own where a target itself cannot be.
    """

    def __init__(self, options: Options, include: tuple[str, ...]) -> None:
        self.options = options
        self.include = include
        self._space = engine.space(options)
        self._called = False

    @property
    def is_fresh(self) -> bool:
        """Whether nothing has been called through it yet."""
        return not self._called

    def __call__(self, target: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
        """Call `target`, compiled."""
        if self.include and self._space.is_skipped(target):
            return self._in_region(target, args, kwargs)
        # A limit that an earlier `compile` has used up is not this one's: it starts with a wrapper of its own.
        fresh, self._called = not self._called, True
        try:
            return self._space.call(target, args, kwargs, watch=_native.watch, fresh_at_limit=fresh)
        except BaseException as error:
            strip(error)
            raise

    def _in_region(self, target: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
        from .regions import Region, current

        with Region(self.options, include=self.include) if current() is None else contextlib.nullcontext():
            return target(*args, **kwargs)
