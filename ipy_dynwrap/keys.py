"""Which calls are alike: the kin of a target.

Guards decide whether a cache entry is right; kinship only decides in which caches to look. One that is too wide costs
compilations, and never a wrong answer.
"""

from __future__ import annotations

import functools
import inspect
import types
from collections.abc import Hashable
from dataclasses import dataclass
from typing import Any

from . import dynamo

__all__ = ["SUSPENDED", "Kin", "is_suspended", "kin_of", "own_code", "qualified_name"]


@dataclass(frozen=True, slots=True)
class Kin:
    """What is called alike.

    Parameters
    ----------
    kind
        ``"module"``, ``"function"``, ``"method"`` or ``"callable"``.
    name
        The qualified name in the user's words.
    anchor
        The object whose life the family shares: a module's type, a function's code, a callable's type. Held weakly.
    rest
        What else tells families apart.
    """

    kind: str
    name: str
    anchor: object
    rest: Hashable = ()


def kin_of(target: Any) -> Kin:
    """Return the kin of a callable.

    Parameters
    ----------
    target
        A module, function, bound method, `functools.partial`, built-in function, or any other callable.
    """
    if dynamo.is_module(target):
        return Kin("module", qualified_name(type(target)), type(target))
    if isinstance(target, types.FunctionType):
        return Kin("function", qualified_name(target), target.__code__)
    if isinstance(target, types.MethodType) and isinstance(target.__func__, types.FunctionType):
        function = target.__func__
        return Kin("method", qualified_name(function), function.__code__)
    if isinstance(target, functools.partial):
        inner = kin_of(target.func)
        return Kin("callable", f"partial({inner.name})", inner.anchor, ("partial", inner.kind, inner.rest))
    if isinstance(target, types.BuiltinFunctionType | types.MethodDescriptorType):
        return Kin("function", dynamo.name_of_function(target) or qualified_name(target), target)
    return Kin("callable", qualified_name(type(target)), type(target))


def own_code(target: Any) -> types.CodeType | None:
    """Return the code object that a call of `target` comes to; None if it is not plain Python."""
    if dynamo.is_module(target):
        target = type(target).forward
    elif not isinstance(target, types.FunctionType):
        target = getattr(type(target), "__call__", None)  # noqa: B004 - the function is wanted, not whether it is there
    return target.__code__ if isinstance(target, types.FunctionType) else None


def is_suspended(target: Any) -> bool:
    """Tell whether a call of `target` runs nothing yet: it makes a generator or a coroutine, which runs later.

    Torch compiles no such function; where another function calls it, it runs it to its end.
    """
    code = target.forward.__code__ if _has_own_forward(target) else own_code(target)
    return code is not None and bool(code.co_flags & SUSPENDED)


SUSPENDED = inspect.CO_GENERATOR | inspect.CO_COROUTINE | inspect.CO_ASYNC_GENERATOR


def _has_own_forward(target: Any) -> bool:
    return dynamo.is_module(target) and isinstance(vars(target).get("forward"), types.FunctionType)


def qualified_name(target: Any) -> str:
    """Return what the user calls `target`: its qualified name without ``<locals>``."""
    name = getattr(target, "__qualname__", None) or getattr(target, "__name__", None) or type(target).__qualname__
    return str(name).rsplit("<locals>.", 1)[-1]
