"""What definitions consist of, compared: code, functions and classes, by content and not by identity.

A difference is said in words, or is None. What is not known to be the same is different: the worst that comes of it is
a compilation.
"""

from __future__ import annotations

import dataclasses
import dis
import functools
import reprlib
import types
import typing
from collections.abc import Iterator, Mapping
from types import CodeType, FunctionType
from typing import Any

from .showing import shown

__all__ = ["Comparison", "code_difference", "inner_codes"]

# All that a code object consists of, but for where it stands, its constants, and what follows from the rest.
_CODE = {
    "co_code": "what it does",
    "co_exceptiontable": "what it does",
    "co_argcount": "its parameters",
    "co_posonlyargcount": "its parameters",
    "co_kwonlyargcount": "its parameters",
    "co_varnames": "the names of its variables",
    "co_names": "the names that it uses",
    "co_freevars": "what it closes over",
    "co_cellvars": "what is closed over",
    "co_flags": "its flags",
    "co_name": "its name",
    "co_qualname": "its name",
}
_CONSTANTS = (bool, int, float, complex, str, bytes, type(None), type(Ellipsis))
_ALIASES = (types.GenericAlias, types.UnionType, type(typing.List[int]), type(typing.Optional[int]))  # noqa: UP006, UP045
_GENERATED = (
    *("__init__", "__repr__", "__eq__", "__lt__", "__le__", "__gt__", "__ge__", "__hash__", "__replace__"),
    *("__setattr__", "__delattr__", "__getstate__", "__setstate__"),
)
_DATACLASS_FILES = ("<string>", dataclasses.__file__, reprlib.__file__)


def inner_codes(code: CodeType) -> Iterator[CodeType]:
    """Yield the code objects among the constants of `code`: the functions, classes and comprehensions in it."""
    return (constant for constant in code.co_consts if isinstance(constant, CodeType))


def code_difference(old: CodeType, new: CodeType) -> str | None:
    """Return in words how two code objects differ in what they do; None if they differ at most in where they stand."""
    for name, words in _CODE.items():
        if getattr(old, name, None) != getattr(new, name, None):
            return f"{words} changed"
    if len(old.co_consts) != len(new.co_consts):
        return "its constants changed"
    for before, now in zip(old.co_consts, new.co_consts, strict=True):
        if isinstance(before, CodeType) and isinstance(now, CodeType):
            if (inner := code_difference(before, now)) is not None:
                return f"{now.co_name}: {inner}"
        elif _constant(before) != _constant(now):
            return f"{shown(before)} -> {shown(now)}"
    return None


def _constant(value: Any) -> object:
    """Return a constant in a form that is equal only for what is the same: 1 is not 1.0, True or, as -0.0, 0.0."""
    if isinstance(value, tuple):
        return (tuple, *map(_constant, value))
    if isinstance(value, frozenset):
        return (frozenset, frozenset(map(_constant, value)))
    if isinstance(value, slice | range):
        return (type(value), _constant(value.start), _constant(value.stop), _constant(value.step))
    if isinstance(value, float | complex):
        return (type(value), repr(value))
    return (type(value), value)


class Comparison:
    """Compares what a definition made with what it made before.

    Parameters
    ----------
    pairs
        New classes and the old ones that would stand for them: where a new one refers to itself or to another new one,
        the old one is the same.

    Attributes
    ----------
    fresh
        By their numbers, the new objects with an identity whose old counterparts are other objects. They would be lost.
    owners
        By the same numbers, the qualified names of the classes that they belong to.
    """

    def __init__(self, pairs: Mapping[type, type]) -> None:
        self._pairs = pairs
        self._met: set[tuple[int, int]] = set()
        self.fresh: dict[int, Any] = {}
        self.owners: dict[int, str] = {}
        self._owner = ""

    def classes(self, old: type, new: type) -> str | None:
        """Return in words why the old class cannot stand for the new one; None if its content is the same."""
        self._owner = new.__qualname__
        if type(old) is not type or type(new) is not type:
            return f"its metaclass is {type(new).__qualname__}"
        for name in ("__name__", "__qualname__", "__module__"):
            if getattr(old, name) != getattr(new, name):
                return "its name changed"
        if len(old.__bases__) != len(new.__bases__) or any(map(self._differ, old.__bases__, new.__bases__)):
            return "its bases changed"
        if (base := _watching_base(new)) is not None:
            return f"{base.__qualname__} is told of its subclasses"
        self._note(new)
        before, now = _members(old), _members(new)
        if list(before) != list(now):
            changed = next(iter(before.keys() ^ now.keys()), None)
            return f"{changed} was added or removed" if changed is not None else "the order of its attributes changed"
        generated = "__dataclass_fields__" in now
        for name, value in now.items():
            if generated and _is_generated(name, value) and _is_generated(name, before[name]):
                # What these close over is made from the fields, which are compared.
                self._note(value)
                why = code_difference(before[name].__code__, value.__code__)
            else:
                why = self._member(name, before[name], value)
            if why is not None:
                return f"{name}: {why}"
        return None

    def _note(self, new: Any) -> None:
        self.fresh[id(new)] = new
        self.owners[id(new)] = self._owner

    def _differ(self, old: type, new: type) -> bool:
        return old is not new and self._pairs.get(new) is not old

    def _member(self, name: str, old: Any, new: Any) -> str | None:
        if name in ("__annotations__", "__dataclass_fields__", "__slots__") and type(old) is type(new):
            # These are read, and nobody changes them.
            if isinstance(new, dict):
                return self._items(old, new)
            if isinstance(new, list):
                return self.values(tuple(old), tuple(new))
        if name == "__static_attributes__" and isinstance(old, tuple) and isinstance(new, tuple):
            return None if set(old) == set(new) else "changed"
        return self.values(old, new)

    def _items(self, old: Mapping[Any, Any], new: Mapping[Any, Any]) -> str | None:
        if list(old) != list(new):
            return "changed"
        return next((why for key in new if (why := self.values(old[key], new[key])) is not None), None)

    def values(self, old: Any, new: Any) -> str | None:
        """Return in words how what a name stood for differs from what it stands for now."""
        if old is new or (id(old), id(new)) in self._met:
            return None
        kind = type(new)
        if type(old) is not kind:
            if isinstance(old, type) and isinstance(new, type) and self._pairs.get(new) is old:
                return None
            return f"{shown(old)} -> {shown(new)}"
        if kind in _CONSTANTS:
            return None if _constant(old) == _constant(new) else f"{shown(old)} -> {shown(new)}"
        if isinstance(new, type):
            return None if self._pairs.get(new) is old else f"{new.__qualname__} is a new class"
        self._met.add((id(old), id(new)))
        return self._objects(kind, old, new)

    def _objects(self, kind: type, old: Any, new: Any) -> str | None:
        if kind is tuple:
            if len(old) != len(new):
                return "changed"
            return next((why for pair in zip(old, new, strict=True) if (why := self.values(*pair)) is not None), None)
        if kind is FunctionType:
            return self.functions(old, new)
        if kind is frozenset or (kind.__module__, kind.__name__) in (("torch", "device"), ("torch", "Size")):
            return None if _constant(old) == _constant(new) else "changed"
        if kind is slice or kind is range:
            return None if _constant(old) == _constant(new) else "changed"
        if kind in _ALIASES:
            return None if old == new and repr(old) == repr(new) else "changed"
        if kind in (types.GetSetDescriptorType, types.MemberDescriptorType):
            self._note(new)
            return None if old.__name__ == new.__name__ else "changed"
        if kind in _PARTS:
            self._note(new)
            return next((w for n in _PARTS[kind] if (w := self.values(_part(old, n), _part(new, n))) is not None), None)
        if kind is types.MappingProxyType:
            return self._items(old, new)
        if kind.__module__ == "torch.autograd.grad_mode":  # what `@torch.no_grad()` and the like close over
            self._note(new)
            return self._items(vars(old), vars(new))
        if kind is _DATACLASS_PARAMS:
            return None if repr(old) == repr(new) else "changed"
        return f"{shown(new)} is not known to be immutable"

    def functions(self, old: FunctionType, new: FunctionType) -> str | None:
        """Return in words how two functions differ in what they are and do."""
        self._note(new)
        if (why := code_difference(old.__code__, new.__code__)) is not None:
            return why
        if old.__globals__ is not new.__globals__:
            return "its globals are others"
        for name in ("__name__", "__qualname__", "__module__", "__doc__", "__defaults__", "__type_params__"):
            if (why := self.values(getattr(old, name, None), getattr(new, name, None))) is not None:
                return why if name == "__defaults__" else f"its {name} changed"
        # Where annotations are evaluated late, the function that does so is compared: to ask for them would run it.
        annotations = "__annotate__" if hasattr(new, "__annotate__") else "__annotations__"
        for name in ("__kwdefaults__", annotations, "__dict__"):
            before, now = getattr(old, name), getattr(new, name)
            both = isinstance(before, dict) and isinstance(now, dict)
            if (why := self._items(before, now) if both else self.values(before, now)) is not None:
                return f"its {name}: {why}"
        return self._closures(old, new)

    def _closures(self, old: FunctionType, new: FunctionType) -> str | None:
        rebound = None
        for name, before, now in zip(
            new.__code__.co_freevars, old.__closure__ or (), new.__closure__ or (), strict=True
        ):
            if before is now:
                continue
            rebound = rebound if rebound is not None else _rebound(new.__code__)
            if name in rebound:
                return f"it sets {name}, which it closes over"
            self._note(now)
            try:
                why = self.values(before.cell_contents, now.cell_contents)
            except ValueError:  # an empty cell
                why = "changed"
            if why is not None:
                return f"{name}, which it closes over: {why}"
        return None


_DATACLASS_PARAMS = type(vars(dataclasses.dataclass(type("_", (), {})))["__dataclass_params__"])
# What is made anew by each run of a class body and holds nothing but these.
_PARTS: dict[type, tuple[str, ...]] = {
    classmethod: ("__func__",),
    staticmethod: ("__func__",),
    property: ("fget", "fset", "fdel", "__doc__"),
    functools.cached_property: ("func", "attrname", "__doc__"),
    functools.partialmethod: ("func", "args", "keywords"),
    types.MethodType: ("__func__", "__self__"),
    dataclasses.Field: tuple(name for name in dataclasses.Field.__slots__ if name != "__class__"),
}


def _part(value: Any, name: str) -> Any:
    found = getattr(value, name, None)
    return types.MappingProxyType(found) if isinstance(found, dict) else found


def _members(cls: type) -> dict[str, Any]:
    # The place where it stands is no part of its content.
    return {name: value for name, value in vars(cls).items() if name != "__firstlineno__"}


def _is_generated(name: str, value: Any) -> bool:
    """Tell whether a member of a dataclass is one of those that are generated from its fields."""
    return (
        name in _GENERATED
        and isinstance(value, FunctionType)
        and value.__code__.co_filename.startswith(_DATACLASS_FILES)
    )


def _watching_base(cls: type) -> type | None:
    """Return the class above `cls` that is told of each subclass, if there is one beside `typing.Generic`."""
    return next(
        (base for base in cls.__mro__[:-1] if base is not typing.Generic and "__init_subclass__" in vars(base)), None
    )


def _rebound(code: CodeType) -> frozenset[str]:
    """Return the variables that `code`, or a function in it, closes over and sets."""
    names = {instruction.argval for instruction in dis.get_instructions(code) if instruction.opname in _SETTING} & set(
        code.co_freevars
    )
    return frozenset(names).union(*(_rebound(inner) & set(code.co_freevars) for inner in inner_codes(code)))


_SETTING = ("STORE_DEREF", "DELETE_DEREF")
