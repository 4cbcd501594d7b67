"""Values and texts, shortened to fit one line.

Only a ``__repr__`` of the language's own types, of torch's or of numpy's is run.
"""

from __future__ import annotations

import ast
import enum
import re
import types
from typing import Any

__all__ = ["line", "literal", "shown", "type_name"]

_VALUE = 40
_LINE = 100
_DIGITS = 10  # of a float that is shown as it is
_PLAIN = (type(None), bool, int, float, complex, str, bytes, range, slice, type(Ellipsis))
_CONTAINERS = (list, tuple, set, frozenset, dict)
_FUNCTIONS = (types.FunctionType, types.BuiltinFunctionType, types.MethodType, types.MethodDescriptorType)


def shorten(text: str, width: int) -> str:
    """Cut `text` in the middle where it is longer than `width`."""
    if len(text) <= width:
        return text
    tail = (width - 3) // 3
    return f"{text[: width - 3 - tail]}...{text[-tail:]}"


def line(text: str) -> str:
    """Return `text` as one line, for a list of reasons."""
    return shorten(" ".join(part.strip() for part in text.splitlines()).strip(), _LINE) or "unknown reason"


def type_name(text: str) -> tuple[str, str]:
    """Return a class's full and last name from its ``<class '...'>``."""
    match = re.search(r"<(?:class|enum) '([^']+)'>", text)
    full = match[1] if match else text.strip()
    last = full.rsplit(".", 1)[-1]
    return full, {"builtin_function_or_method": "built-in function", "NoneType": "None"}.get(last, last)


def shown(value: object) -> str:
    """Return a short text for a value; tensors, modules and large containers are shown by type. Never raises."""
    try:
        return shorten(_shown(value), _VALUE)
    except Exception:  # noqa: BLE001 - whatever a strange value does, there is a text for it
        return f"<{type(value).__name__}>"


def _shown(value: Any) -> str:
    kind = type(value)
    if kind is float and len(repr(value)) > _DIGITS:
        return f"{value:.6g}"
    if kind in _PLAIN:
        return repr(value)
    if kind in _CONTAINERS:
        text = _container(value)
        return text if text is not None else f"{kind.__name__} of {len(value)}"
    # Asked of the type: `isinstance` would ask the value for its `__class__`.
    if issubclass(kind, type):
        return str(value.__name__)
    if kind in _FUNCTIONS:
        return "a lambda" if value.__name__ == "<lambda>" else str(value.__name__)
    if issubclass(kind, types.ModuleType):
        return str(value.__name__)
    if issubclass(kind, enum.Enum):
        return f"{kind.__name__}.{value._name_}"
    if kind.__module__ == "torch" and kind.__name__ in ("dtype", "device", "layout", "memory_format", "Size"):
        return repr(value).replace("torch.", "")
    if kind.__module__ == "numpy" and kind.__name__ != "ndarray":
        return repr(value)
    if any(base.__module__ == "torch" and base.__name__ == "Tensor" for base in kind.__mro__):
        return f"{kind.__name__}{list(value.shape)}"
    article = "an" if kind.__name__[:1] in "AEIOU" else "a"
    return f"{article} {kind.__name__}"


def _container(value: Any) -> str | None:
    """Return the repr of a small container of plain values, otherwise None."""
    if len(value) > 8:
        return None
    items = [*value, *value.values()] if type(value) is dict else value
    if not all(type(item) in _PLAIN for item in items):
        return None
    text = repr(value)
    return text if len(text) <= _VALUE else None


def literal(text: str) -> str:
    """Return a value that torch has written down, as `shown` would write it."""
    try:
        return shown(ast.literal_eval(text))
    except (ValueError, SyntaxError, TypeError, MemoryError, RecursionError):
        return shorten(text.replace("torch.", ""), _VALUE)
