"""Guard sources over the parameters of a wrapper, read without running anything of the user's.

No property, no ``__getattr__``, no method of a subclass of a container: what only they could say is not there.
"""

from __future__ import annotations

import ast
import functools
import types
import weakref
from collections import deque
from collections.abc import Callable, Mapping
from typing import Any

from .naming import attribute, item, parse

__all__ = [
    "PARTS",
    "builtin",
    "has_attribute",
    "is_static",
    "look_up",
    "mro",
    "namespace",
    "own_dict",
    "presence",
    "step",
    "steps",
]

LookUp = Callable[[Mapping[str, object]], Any]

# As the type itself has them: a metaclass may define its own, and reading those would run them.
mro = type.__dict__["__mro__"].__get__
namespace = type.__dict__["__dict__"].__get__
_flags = type.__dict__["__flags__"].__get__

_CONTAINERS = (dict, list, tuple, set, frozenset, deque, str, range)
# Of a module, what `__getattr__` finds in one of these is an attribute.
PARTS = ("_parameters", "_buffers", "_modules")
# The exact value of a subclass: the built-in type's own conversion.
_EXACT: dict[str, Callable[[Any], object]] = {"int": int.__int__, "float": float.__float__, "str": str.__str__}


@functools.lru_cache(maxsize=4096)
def steps(source: str) -> tuple[ast.expr, ...]:
    """Return a source and what each of its steps leads on from; the parameter that it begins with comes last."""
    found, node = [], parse(source)
    while node is not None:
        found.append(node)
        match node:
            case ast.Attribute(value=inner) | ast.Subscript(value=inner):
                node = inner
            case ast.Call(args=[ast.Call(func=ast.Attribute(attr="keys" | "values"), args=[inner])]):
                node = inner
            case ast.Call(args=[ast.Call(func=ast.Attribute(value=inner, attr="keys"), args=[])]):
                node = inner
            case ast.Call(args=[inner, *_]):
                node = inner
            case ast.Call(func=inner):
                node = inner
            case _:
                node = None
    return tuple(found)


@functools.lru_cache(maxsize=4096)
def look_up(source: str) -> LookUp:
    """Return a function that follows a source through the parameters of a call; a ValueError if it is no source."""
    node = parse(source)
    if node is None:
        raise ValueError(source)
    return step(node)


def step(node: ast.expr) -> LookUp:
    """Return a function that follows a parsed source through the parameters of a call."""
    match node:
        case ast.Name(id=name):
            return lambda parameters: parameters[name]
        case ast.Attribute(value=inner, attr=name):
            owner = step(inner)
            return lambda parameters: _attribute(owner(parameters), name)
        case ast.Subscript(value=inner, slice=ast.Constant(value=key)):
            owner = step(inner)
            return lambda parameters: _item(owner(parameters), key)
        case (
            ast.Subscript(value=inner, slice=index)
            | ast.Call(
                func=ast.Attribute(value=ast.Name(id="dict" | "list" | "tuple"), attr="__getitem__"),
                args=[inner, index],
            )
        ):
            owner, position = step(inner), _position(index)
            return lambda parameters: _item(owner(parameters), position(parameters))
        case ast.Call(func=ast.Name(id=name), args=[inner]):
            return _applied(name, inner)
        case ast.Call(func=ast.Name() | ast.Attribute() | ast.Subscript() as inner, args=[]):
            owner = step(inner)
            return lambda parameters: _referent(owner(parameters))
    raise ValueError(ast.unparse(node))


def _position(node: ast.expr) -> LookUp:
    if isinstance(node, ast.Constant):
        return lambda _: node.value
    return step(node)


def _applied(name: str, inner: ast.expr) -> LookUp:
    """Follow ``type(x)``, ``int(x)``, ``list(x)`` and ``list(dict.keys(x))``."""
    match name, inner:
        case "list", ast.Call(func=ast.Attribute(attr="keys" | "values" as view), args=[owned]):
            owner, listed = step(owned), dict.keys if view == "keys" else dict.values
            return lambda parameters: list(listed(owner(parameters)))
        case "list", ast.Call(func=ast.Attribute(value=owned, attr="keys"), args=[]):
            owner = step(owned)
            return lambda parameters: _keys(owner(parameters))
        case "list", _:
            owner = step(inner)
            return lambda parameters: list(builtin(owner(parameters), "__iter__", set, frozenset)())
        case "type", _:
            owner = step(inner)
            return lambda parameters: type(owner(parameters))
        case (("int" | "float" | "str"), _):
            owner, exact = step(inner), _EXACT[name]
            return lambda parameters: exact(owner(parameters))
    raise ValueError(f"{name}({ast.unparse(inner)})")


def _keys(owner: Any) -> list[object]:
    return list(owner) if type(owner) is types.MappingProxyType else list(dict.keys(owner))


def _referent(reference: Any) -> object:
    if type(reference) is not weakref.ref:
        raise TypeError(type(reference).__name__)
    return reference()


def _item(owner: Any, key: Any) -> object:
    return deque.__getitem__(owner, key) if issubclass(type(owner), deque) else item(owner, key)


def _attribute(owner: Any, name: str) -> object:
    own = namespace(owner) if issubclass(type(owner), type) else own_dict(owner)
    return own[name] if own is not None and name in own else attribute(owner, name)


def own_dict(owner: object) -> Mapping[str, Any] | None:
    """Return the ``__dict__`` of an object, if it has one."""
    try:
        return object.__getattribute__(owner, "__dict__")  # type: ignore[no-any-return]
    except AttributeError:
        return None


def is_static(cls: type) -> bool:
    """Tell whether the attributes of a class cannot be set."""
    return not _flags(cls) & (1 << 9)  # Py_TPFLAGS_HEAPTYPE


def has_attribute(owner: object, name: str) -> bool:
    """Tell whether an object has an attribute, as far as that can be seen without asking the object."""
    is_class = issubclass(type(owner), type)
    own = {} if is_class else own_dict(owner) or {}
    kinds = (type(owner), owner) if is_class else (type(owner),)
    return (
        name in own
        or any(name in own.get(part, ()) for part in PARTS)
        or any(name in namespace(base) for kind in kinds for base in mro(kind))
    )


def builtin(value: object, method: str, *kinds: type) -> Callable[..., Any]:
    """Return a method of a container, the built-in type's own."""
    for kind in kinds or _CONTAINERS:
        if issubclass(type(value), kind):
            return functools.partial(getattr(kind, method), value)
    raise TypeError(type(value).__name__)


@functools.lru_cache(maxsize=4096)
def presence(source: str) -> tuple[str, str] | None:
    """Return what a source that a guard follows says of its owner: the owner, and ``"attribute 'k'"`` or ``"has 'k'"``.

    Parameters
    ----------
    source
        A source; None is returned for one whose last step always succeeds.
    """
    match parse(source):
        case ast.Attribute(value=owner, attr=name):
            return ast.unparse(owner), f"attribute {name!r}"
        case ast.Subscript(value=ast.Attribute(value=owner, attr=part), slice=ast.Constant(value=str(name))) if (
            part in PARTS
        ):
            return ast.unparse(owner), f"attribute {name!r}"
        case ast.Subscript(value=owner, slice=ast.Constant(value=str(name))):
            return ast.unparse(owner), f"has {name!r}"
    return None
