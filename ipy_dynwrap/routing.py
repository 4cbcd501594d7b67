"""What is routed: the outermost call of a module, or of a function of the notebook's own that receives a tensor."""

from __future__ import annotations

import functools
import itertools
import sys
from types import CodeType, FunctionType
from typing import Any

from . import _native, dynamo
from .keys import SUSPENDED
from .state import is_ours

__all__ = ["Policy"]

_numbers = itertools.count(1)


class Policy:
    """Decides once per code object whether its calls are routed. Made by `Policy.of`.

    Parameters
    ----------
    modules
        The names of the modules whose functions count as the notebook's own, packages with all that is in them.
    exclude
        Names of functions, methods and classes that are not routed; ``"Net.encode"`` and ``"encode"`` both work.
    """

    def __init__(self, modules: frozenset[str], exclude: frozenset[str]) -> None:
        self.modules = modules
        self.exclude = exclude
        # The hook keeps a code object's verdict together with the number of the policy that gave it.
        self.number = next(_numbers)
        # Names that were met: those of `exclude` that nothing has are misspelt, or not called.
        self.met: set[str] = set()

    @staticmethod
    @functools.lru_cache(maxsize=256)
    def of(modules: frozenset[str], exclude: frozenset[str]) -> Policy:
        """Return the one policy for these names."""
        return Policy(modules, exclude)

    def decide(self, code: CodeType, function: FunctionType) -> int:
        """Return the verdict for a code object that the hook has not met (a constant of `_native`)."""
        if code is dynamo.MODULE_CALL:
            return _native.ROUTE
        if code in dynamo.barrier_codes():
            return _native.BARRIER
        if is_ours(code.co_filename):
            return _native.PASS  # a result of `compile`, with options of its own
        name = code.co_name
        if name.startswith("<") and name != "<lambda>":
            return _native.PASS  # a comprehension, a class body, a module
        if name.startswith("__") and name.endswith("__") and name != "__call__":
            return _native.PASS  # Python's own protocol: __init__, __getitem__ of a dataset, __torch_function__
        if not self._is_own(code, function) or self.excludes(function.__qualname__):
            return _native.PASS
        if dynamo.is_left_alone(function) or dynamo.is_generated(code):
            return _native.PASS
        if code.co_flags & SUSPENDED:
            return _native.PASS  # it runs later, if at all, and piece by piece
        if "backward" in code.co_names:
            return _native.PASS  # a training step or loop: what it calls is compiled, as in a cell
        return _native.ROUTE_CARRIER

    def _is_own(self, code: CodeType, function: FunctionType) -> bool:
        module = function.__globals__.get("__name__")
        if getattr(sys.modules.get(str(module)), "__dict__", None) is not function.__globals__:
            # A script that `%run` ran: its namespace has lost its name, what it defined has not.
            module = function.__module__
        if module is None:
            return code.co_filename == "<string>"  # exec'd by hand into an empty namespace
        return isinstance(module, str) and any(
            module == known or module.startswith(f"{known}.") for known in self.modules
        )

    def excludes(self, qualified_name: str) -> bool:
        """Tell whether the user excluded this name, or a class that it belongs to."""
        if not self.exclude:
            return False
        parts = qualified_name.rsplit("<locals>.", 1)[-1].split(".")
        names = {".".join(parts[i : i + n]) for n in (1, 2) for i in range(len(parts))}
        met = names & self.exclude
        self.met |= met
        return bool(met)


def target_of(function: FunctionType, args: tuple[Any, ...]) -> tuple[Any, tuple[Any, ...]] | None:
    """Return what is called, and with which arguments, when `function` is called with `args`; None to let it pass.

    A module's ``__call__`` and a callable object's are calls of the object.
    """
    code = function.__code__
    if code is dynamo.MODULE_CALL:
        module = args[0]
        # A class that puts something before Module.__call__ has already run that: to call the module would repeat it.
        return (module, args[1:]) if dynamo.is_called_plainly(module) else None
    if code.co_name == "__call__" and args and getattr(type(args[0]), "__call__", None) is function:  # noqa: B004
        return args[0], args[1:]
    return function, args
