"""Values as parts of a key: from an object, and from the text in which a guard has it, to one and the same form.

Guards compare with ``==``; a key has to be hashed, must not run anything of the user's, and tells ``1`` from ``True``.
"""

from __future__ import annotations

import ast
import math
from collections.abc import Hashable

__all__ = ["is_plain", "is_special", "value_of", "written"]

_PLAIN = frozenset({type(None), type(...), bool, int, float, complex, str, bytes})
_DICT_KEYS: type = type(dict[str, int]().keys())
# Guards are written with the repr of these, and it is torch's own.
_TORCHS = frozenset({"dtype", "device", "layout", "memory_format", "Size"})
_NUMBERS = {"inf": math.inf, "nan": math.nan, "infj": complex(0, math.inf), "nanj": complex(0, math.nan)}


def is_plain(value: object) -> bool:
    """Tell whether a value that is passed stays an input, under torch's own limit, whatever is pinned on it."""
    # Asked of the type: `isinstance` would ask the value for its `__class__`.
    return issubclass(type(value), bool | int | float | complex | str | bytes | type(...) | None)


def value_of(value: object) -> Hashable:
    """Return the form of a value; what it cannot be told for counts by its type."""
    kind = type(value)
    if kind in _PLAIN:
        return _plain(value)
    # A subclass compares as its author wrote.
    if issubclass(kind, tuple | list) and kind in (tuple, list):
        return kind.__name__, tuple(map(value_of, value))  # type: ignore[call-overload]
    if kind in (set, frozenset, _DICT_KEYS):
        return kind.__name__, frozenset(map(value_of, value))  # type: ignore[call-overload]
    if isinstance(value, slice):
        return "slice", tuple(map(value_of, (value.start, value.stop, value.step)))
    if kind is range:
        return "range", value
    if kind.__module__ == "torch" and kind.__name__ in _TORCHS:
        return "text", repr(value)
    return "a", kind.__qualname__


def _plain(value: object) -> Hashable:
    # 1, 1.0 and True are equal and hash alike, but guards tell them apart. Nan is not even equal to itself.
    return type(value).__name__, value if value == value else "nan"  # noqa: PLR0124


def written(node: ast.expr) -> Hashable:
    """Return the form of the value that an expression in a guard's text stands for."""
    match node:
        case ast.Constant(value=value):
            return _plain(value)
        case ast.Name(id=name) if name in _NUMBERS:
            return _plain(_NUMBERS[name])
        case ast.UnaryOp(op=ast.USub(), operand=ast.Name(id=name)) if name in _NUMBERS:
            return _plain(-_NUMBERS[name])
        case ast.Tuple(elts=parts):
            return "tuple", tuple(map(written, parts))
        case ast.List(elts=parts):
            return "list", tuple(map(written, parts))
        case ast.Set(elts=parts):
            return "set", frozenset(map(written, parts))
        case ast.Call(func=ast.Name(id="set" | "frozenset" as name), args=[]):
            return name, frozenset()
        case ast.Call(
            func=ast.Name(id="frozenset" | "dict_keys" as name), args=[ast.Set(elts=parts) | ast.List(elts=parts)]
        ):
            return name, frozenset(map(written, parts))
        case ast.Call(func=ast.Name(id="slice"), args=parts):
            return "slice", tuple(map(written, parts))
    return _evaluated(node)


def is_special(node: ast.expr) -> bool:
    """Tell whether an expression is a number that is no finite one."""
    if isinstance(node, ast.UnaryOp):
        node = node.operand
    return isinstance(node, ast.Name) and node.id in _NUMBERS


def _evaluated(node: ast.expr) -> Hashable:
    try:
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "range":
            return "range", range(*map(ast.literal_eval, node.args))
        return value_of(ast.literal_eval(node))
    except (ValueError, TypeError):
        return "text", ast.unparse(node)
