"""Which calls are alike: the family of a target.

Guards decide whether a cache entry is right; a family only decides in which caches to look. So a family that is too
wide costs compilations, and never a wrong answer, except where torch does not guard: what it is blind to belongs to the
family itself (the functions named ``blind_*``, each with the report that it answers).
"""

from __future__ import annotations

import functools
import types
from collections.abc import Hashable
from dataclasses import dataclass
from typing import Any

from . import dynamo

__all__ = ["Kin", "Same", "blind_global_hooks", "kin_of", "own_code", "qualified_name"]


class Same:
    """An object as part of a key, by identity. It is kept alive, so that its id cannot pass to another one."""

    __slots__ = ("value",)

    def __init__(self, value: object) -> None:
        self.value = value

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Same) and other.value is self.value

    def __hash__(self) -> int:
        return id(self.value)


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
    """Return the family of a callable.

    Parameters
    ----------
    target
        A module, function, bound method, `functools.partial`, built-in function, or any other callable.
    """
    import torch.nn

    if isinstance(target, torch.nn.Module):
        return Kin("module", qualified_name(type(target)), type(target))
    if isinstance(target, types.FunctionType):
        return Kin("function", qualified_name(target), target.__code__, blind_closure(target))
    if isinstance(target, types.MethodType) and isinstance(target.__func__, types.FunctionType):
        function = target.__func__
        return Kin("method", qualified_name(function), function.__code__, blind_closure(function))
    if isinstance(target, functools.partial):
        inner = kin_of(target.func)
        return Kin("callable", f"partial({inner.name})", inner.anchor, ("partial", inner.kind, inner.rest))
    if isinstance(target, types.BuiltinFunctionType | types.BuiltinMethodType | types.MethodDescriptorType):
        return Kin("function", qualified_name(target), target)
    return Kin("callable", qualified_name(type(target)), type(target))


def own_code(target: Any) -> types.CodeType | None:
    """Return the code object that a call of `target` comes to; None if it is not plain Python."""
    import torch.nn

    if isinstance(target, torch.nn.Module):
        target = type(target).forward
    elif not isinstance(target, types.FunctionType):
        target = getattr(type(target), "__call__", None)  # noqa: B004 - the function is wanted, not whether it is there
    return target.__code__ if isinstance(target, types.FunctionType) else None


def qualified_name(target: Any) -> str:
    """Return what the user calls `target`: its qualified name without ``<locals>``."""
    name = getattr(target, "__qualname__", None) or getattr(target, "__name__", None) or type(target).__qualname__
    return str(name).rsplit("<locals>.", 1)[-1]


def blind_closure(function: types.FunctionType) -> Hashable:
    """Return the C callables and descriptors in the closure of `function`: Dynamo puts no guard on them.

    Two closures of one factory over ``Tensor.__sub__`` and ``Tensor.__mul__`` would share an entry, silently (pytorch
    issue 197811).
    """
    if function.__closure__ is None:
        return ()
    found = []
    for name, cell in zip(function.__code__.co_freevars, function.__closure__, strict=True):
        try:
            value = cell.cell_contents
        except ValueError:  # an empty cell
            continue
        if isinstance(value, _UNGUARDED):
            found.append((name, Same(value)))
    return tuple(found)


_UNGUARDED = (
    types.BuiltinFunctionType,
    types.MethodDescriptorType,
    types.WrapperDescriptorType,
    types.MethodWrapperType,
    types.GetSetDescriptorType,
    types.ClassMethodDescriptorType,
)


def blind_global_hooks() -> Hashable:
    """Return the hooks that all modules have: Dynamo inlines them without a guard (pytorch issue 149502)."""
    return tuple(Same(hook) for hook in dynamo.global_hooks())
