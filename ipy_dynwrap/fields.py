"""Key fields: what a guard pins on the target, or on an object that the call passes, as a part of a family's key.

A guard's own text says what it pins: ``L['target'].k == 2``. That is a field (the source ``target.k``, read as a value)
and what one entry requires of it (``2``). When two entries of one wrapper require different things of one field, the
field tells calls apart that can never share an entry.

A field is only ever read to choose a wrapper. A wrong reading costs a compilation; the guards decide what is right.
"""

from __future__ import annotations

import ast
import functools
import re
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

from .naming import parse
from .showing import shown
from .sources import builtin, has_attribute, look_up, mro, presence, step, steps
from .values import is_plain, is_special, value_of, written

__all__ = ["ABSENT", "Field", "is_plain", "requirements"]

_LOCAL = re.compile(r"\bL\['(\w+)'\]")
_TENSOR_CHECK = re.compile(
    r"check_tensor\((?P<source>.+?), \w+, DispatchKeySet\((?P<keys>[^)]*)\), (?P<dtype>torch\.\w+), "
    r"device=(?P<device>\w+), requires_grad=(?P<grad>\w+), size=\[(?P<size>[^\]]*)\], stride=\[(?P<stride>[^\]]*)\]"
)
_TENSOR_FAILURE = re.compile(
    r"tensor '(?P<source>.+?)' (?:(?P<what>size|stride) mismatch at index (?P<index>\d+)|(?P<other>\w+) mismatch)"
)
_IDENTITY = re.compile(
    # Of a key of a dictionary with one underscore less, and without the type.
    r"_{2,3}check_(?P<check>type_id|obj_id|fake_script_type)\((?P<source>.+), (?P<id>\d+)\)(?:, type=|\s|$)",
    re.DOTALL,
)
# ``x == 'text'``, with nothing but a comment behind it.
_TEXT = re.compile(
    r"(?P<source>\S{1,400}?) == (?P<literal>b?(?:'(?:[^'\\]|\\.)*'|\"(?:[^\"\\]|\\.)*\"))\s*(?:#|\(HINT|$)"
)


class _Absent:
    def __repr__(self) -> str:
        return "absent"


ABSENT = _Absent()
"""Stands for the value of a field that a target does not have."""


@dataclass(frozen=True, slots=True)
class Field:
    """One part of a family's key.

    Parameters
    ----------
    source
        A guard source over the parameters of the wrapper, ``"target.k"`` or ``"module._parameters['weight']"``.
    aspect
        What of it is compared: ``"value"``, ``"type"``, ``"identity"``, ``"length"``, ``"dtype"``, ``"device"``,
        ``"requires_grad"``, ``"rank"``, ``"size 0"``, ``"stride 1"``, ``"keys"``, ``"has 'key'"`` or
        ``"attribute 'name'"``.
    """

    source: str
    aspect: str

    def read(self, parameters: Mapping[str, object]) -> Hashable:
        """Return what the parameters of a call have here; `ABSENT` if they do not, never an error."""
        try:
            return _ASPECTS[self.aspect.split(" ")[0]](self.at(parameters), self.aspect)
        except Exception:  # noqa: BLE001 - what cannot be read is absent
            return ABSENT

    def said(self, parameters: Mapping[str, object]) -> str:
        """Return the value in words, the same from run to run."""
        value = self.read(parameters)
        if value is ABSENT:
            return "absent"
        if self.aspect == "type":
            return type(self.at(parameters)).__qualname__
        if self.aspect in ("identity", "value"):
            return shown(self.at(parameters))
        if self.aspect == "keys":
            return shown(list(dict.keys(self.at(parameters))))
        return str(value)

    def at(self, parameters: Mapping[str, object]) -> Any:
        """Return the object at the source; an error where the parameters have none."""
        return look_up(self.source)(parameters)

    def holder(self, parameters: Mapping[str, object]) -> object:
        """Return the object that the call passes and that this is a field of; None where there is none."""
        for node in reversed(steps(self.source)):
            if not isinstance(node, ast.Call):
                found = step(node)(parameters)
                if not issubclass(type(found), list | tuple | dict):
                    return found
        return None

    @property
    def root(self) -> str:
        """The parameter that the source begins with."""
        first = steps(self.source)[-1]
        return first.id if isinstance(first, ast.Name) else ""


Requirement: TypeAlias = tuple[Field, Hashable]


def _value(value: object, _: str) -> Hashable:
    return value_of(value)


def _of_tensor(value: Any, read: Callable[[Any], Hashable]) -> Hashable:
    """Return what `read` finds in a tensor. Nothing else is asked for what only tensors have, and no subclass."""
    if not any(base.__name__ == "Tensor" and base.__module__ == "torch" for base in mro(type(value))):
        raise TypeError(type(value).__name__)
    from . import dynamo

    with dynamo.subclasses_unasked():
        return read(value)


def _named(aspect: str) -> Any:
    """Return what an aspect such as ``"has 'k'"`` names."""
    return ast.literal_eval(aspect.partition(" ")[2])


def _keys(value: Any, _: str) -> Hashable:
    return "set", frozenset(map(value_of, dict.keys(value)))


_ASPECTS: dict[str, Callable[[Any, str], Hashable]] = {
    "value": _value,
    # Ids may pass to another object when the first one is gone. Torch drops an entry whose object is gone, so what such
    # an id leads to is an empty wrapper at worst.
    "type": lambda value, _: id(type(value)),
    "identity": lambda value, _: id(value),
    "length": lambda value, _: builtin(value, "__len__")(),
    "dtype": lambda value, _: _of_tensor(value, lambda tensor: str(tensor.dtype)),
    "device": lambda value, _: _of_tensor(value, lambda tensor: str(tensor.device)),
    "requires_grad": lambda value, _: _of_tensor(value, lambda tensor: bool(tensor.requires_grad)),
    "rank": lambda value, _: _of_tensor(value, lambda tensor: tensor.dim()),
    "size": lambda value, aspect: _of_tensor(value, lambda tensor: int(tensor.shape[int(aspect[5:])])),
    "stride": lambda value, aspect: _of_tensor(value, lambda tensor: int(tensor.stride()[int(aspect[7:])])),
    "has": lambda value, aspect: builtin(value, "__contains__")(_named(aspect)),
    "attribute": lambda value, aspect: has_attribute(value, _named(aspect)),
    "keys": _keys,
}


def requirements(text: str) -> Iterator[tuple[Field, Hashable]]:
    """Yield each field that a guard pins, with what it requires of it.

    Parameters
    ----------
    text
        A guard in torch's words, from a guard tree or a recompilation reason; comment and hints may follow.

    Notes
    -----
    A failed guard's reason gives the same fields as the guard's own text. What is no field, and why, is in
    `guard_kinds`.
    """
    text = _LOCAL.sub(r"\1", re.sub(r"^\s*\d+/\d+: ", "", text))
    if (match := _IDENTITY.match(text)) is not None:
        found: Iterable[Requirement] = _identity(match)
    elif (match := _TENSOR_CHECK.match(text)) is not None:
        found = _tensor(match)
    elif (match := _TENSOR_FAILURE.match(text)) is not None:
        found = _tensor_failure(match)
    elif (match := _TEXT.match(text)) is not None:
        # Of any length, and with anything in it: a prompt, a program.
        found = _pinned(match["source"], "value", lambda: value_of(ast.literal_eval(match["literal"])))
    else:
        # A comment may follow, which Python's own parser tells from what is written in a string.
        found = _comparison(parse(text.partition("\n")[0]))
    for field, value in found:
        yield field, value
        if (seen := presence(field.source)) is not None and value is not ABSENT:
            yield Field(*seen), True


def _pinned(source: ast.expr | str, aspect: str, value: Callable[[], Hashable]) -> Iterator[Requirement]:
    source = source if isinstance(source, str) else ast.unparse(source)
    try:
        look_up(source)
        yield Field(source, aspect), value()
    except (ValueError, SyntaxError):
        return


def _identity(match: re.Match[str]) -> Iterator[Requirement]:
    aspect = "identity" if match["check"] == "obj_id" else "type"
    return _pinned(match["source"], aspect, lambda: int(match["id"]))


def _tensor(match: re.Match[str]) -> Iterator[Requirement]:
    source = match["source"]
    yield from _pinned(source, "dtype", lambda: match["dtype"])
    yield from _pinned(source, "device", lambda: _device(match["keys"], match["device"]))
    yield from _pinned(source, "requires_grad", lambda: match["grad"] == "True")
    for what in ("size", "stride"):
        numbers = [each.strip() for each in match[what].split(",") if each.strip()]
        if what == "size":
            yield from _pinned(source, "rank", numbers.__len__)
        for index, number in enumerate(numbers):
            if number.isdigit():  # None where the dimension is dynamic
                yield from _pinned(source, f"{what} {index}", functools.partial(int, number))


def _device(keys: str, index: str) -> str:
    """Return a device's name: the index is written down, and the first dispatch key is called as the type."""
    kind = keys.partition(",")[0].strip().lower()
    return kind if index == "None" else f"{kind}:{index}"


def _tensor_failure(match: re.Match[str]) -> Iterator[Requirement]:
    aspect = f"{match['what']} {match['index']}" if match["what"] else str(match["other"])
    return _pinned(match["source"], aspect, lambda: ABSENT) if aspect.split(" ")[0] in _ASPECTS else iter(())


def _comparison(node: ast.expr | None) -> Iterator[Requirement]:
    """Yield from guards that are Python expressions, such as ``x == 2``, ``len(x) == 2``, ``not x``, ``'k' in x``."""
    match node:
        case ast.UnaryOp(op=ast.Not(), operand=ast.Call() as call) if (there := _presence(call)) is not None:
            yield from _pinned(*there, lambda: False)
        case ast.UnaryOp(op=ast.Not(), operand=operand):
            yield from _pinned(operand, "length", lambda: 0)
        case ast.Call() if (there := _presence(node)) is not None:
            yield from _pinned(*there, lambda: True)
        case ast.Compare(
            left=ast.Call(func=ast.Name(id="len"), args=[inner]),
            ops=[ast.Eq()],
            comparators=[ast.Constant(value=length)],
        ):
            yield from _pinned(inner, "length", lambda: length)
        case ast.Compare(
            left=ast.Call(func=ast.Attribute(value=ast.Name(id="dict"), attr="keys"), args=[inner]),
            ops=[ast.Eq()],
            comparators=[right],
        ):
            yield from _pinned(inner, "keys", lambda: written(right))
        case ast.Compare(left=ast.Constant(value=key), ops=[ast.In() | ast.NotIn() as op], comparators=[right]):
            yield from _pinned(right, f"has {key!r}", lambda: isinstance(op, ast.In))
        case ast.Compare(left=left, ops=[ast.Eq() | ast.Is()], comparators=[right]):
            if is_special(right):
                # Torch never makes these dynamic. As a key, one would split what is dynamic beside it.
                return
            yield from _pinned(left, "value", lambda: written(right))
        case ast.Compare(left=left, ops=[ast.NotEq() | ast.IsNot()]):
            # It pins nothing, but where it fails another entry may pin the value.
            yield from _pinned(left, "value", lambda: ABSENT)
        case ast.Attribute() | ast.Subscript():
            # That a guard follows a source says that it is there, and no more.
            if (seen := presence(ast.unparse(node))) is not None:
                yield from _pinned(*seen, lambda: True)


def _presence(call: ast.Call) -> tuple[ast.expr, str] | None:
    """Return the owner and the aspect of ``hasattr(x, 'k')`` and of membership in a dictionary or a set."""
    match call:
        case ast.Call(func=ast.Name(id="hasattr"), args=[owner, ast.Constant(value=name)]):
            return owner, f"attribute {name!r}"
        case ast.Call(func=ast.Name(id="___dict_contains"), args=[ast.Constant(value=key), owner]):
            return owner, f"has {key!r}"
        case ast.Call(
            func=ast.Attribute(value=ast.Name(id="set"), attr="__contains__"), args=[owner, ast.Constant(value=key)]
        ):
            return owner, f"has {key!r}"
    return None
