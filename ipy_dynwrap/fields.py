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
from collections import deque
from collections.abc import Callable, Hashable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from .naming import attribute, item, parse
from .showing import shown

__all__ = ["ABSENT", "Field", "is_plain", "requirements"]

_LOCAL = re.compile(r"\bL\['(\w+)'\]")
_TENSOR_CHECK = re.compile(
    r"check_tensor\((?P<source>.+?), \w+, DispatchKeySet\((?P<keys>[^)]*)\), (?P<dtype>torch\.\w+), "
    r"device=(?P<device>\w+), requires_grad=(?P<grad>\w+), size=\[(?P<size>[^\]]*)\], stride=\[(?P<stride>[^\]]*)\]"
)
_TENSOR_FAILURE = re.compile(
    r"tensor '(?P<source>.+?)' (?:(?P<what>size|stride) mismatch at index (?P<index>\d+)|(?P<other>\w+) mismatch)"
)
_IDENTITY = re.compile(r"___check_(?P<check>type_id|obj_id)\((?P<source>.+), (?P<id>\d+)\), type=", re.DOTALL)


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
        What of it is compared: ``"value"``, ``"type"``, ``"identity"``, ``"length"``, ``"dtype"``, ``"requires_grad"``,
        ``"rank"``, ``"size 0"``, ``"stride 1"`` or ``"has 'name'"``.
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
        return str(value)

    def at(self, parameters: Mapping[str, object]) -> Any:
        """Return the object at the source; an error where the parameters have none."""
        return _look_up(self.source)(parameters)

    def holder(self, parameters: Mapping[str, object]) -> object:
        """Return the object that the call passes and that this is a field of; None where there is none."""
        for step in reversed(_steps(self.source)):
            if not isinstance(step, ast.Call):
                found = _step(step)(parameters)
                if not issubclass(type(found), list | tuple | dict):
                    return found
        return None

    @property
    def root(self) -> str:
        """The parameter that the source begins with."""
        first = _steps(self.source)[-1]
        return first.id if isinstance(first, ast.Name) else ""


@functools.lru_cache(maxsize=4096)
def _steps(source: str) -> tuple[ast.expr, ...]:
    """Return a source and what each of its steps leads on from; the parameter that it begins with comes last."""
    steps, node = [], parse(source)
    while node is not None:
        steps.append(node)
        match node:
            case ast.Attribute(value=inner) | ast.Subscript(value=inner) | ast.Call(args=[ast.Call(args=[inner])]):
                node = inner
            case ast.Call(args=[inner]):
                node = inner
            case _:
                node = None
    return tuple(steps)


_LookUp = Callable[[Mapping[str, object]], Any]


@functools.lru_cache(maxsize=4096)
def _look_up(source: str) -> _LookUp:
    """Return a function that follows a source through the parameters of a call.

    Nothing of the user's runs on the way: no property, no ``__getattr__``, no item method of a subclass.
    """
    node = parse(source)
    if node is None:
        raise ValueError(source)
    return _step(node)


def _step(node: ast.expr) -> _LookUp:
    match node:
        case ast.Name(id=name):
            return lambda parameters: parameters[name]
        case ast.Attribute(value=inner, attr=name):
            owner = _step(inner)
            return lambda parameters: _attribute(owner(parameters), name)
        case ast.Subscript(value=inner, slice=ast.Constant(value=key)):
            owner = _step(inner)
            return lambda parameters: item(owner(parameters), key)
        case ast.Subscript(value=inner, slice=index):
            owner, position = _step(inner), _step(index)
            return lambda parameters: item(owner(parameters), position(parameters))
        case ast.Call(
            func=ast.Name(id="list"), args=[ast.Call(func=ast.Attribute(attr="keys" | "values" as view), args=[inner])]
        ):
            owner = _step(inner)
            listed = dict.keys if view == "keys" else dict.values
            return lambda parameters: list(listed(owner(parameters)))
        case ast.Call(func=ast.Name(id="type"), args=[inner]):
            owner = _step(inner)
            return lambda parameters: type(owner(parameters))
    raise ValueError(ast.unparse(node))


def _attribute(owner: Any, name: str) -> object:
    own = vars(owner) if issubclass(type(owner), type) else _own(owner)
    return own[name] if own is not None and name in own else attribute(owner, name)


def _own(owner: object) -> Mapping[str, object] | None:
    try:
        return object.__getattribute__(owner, "__dict__")  # type: ignore[no-any-return]
    except AttributeError:
        return None


def _value(value: object, _: str) -> Hashable:
    # 1, 1.0 and True are equal and hash alike, but guards tell them apart.
    if is_plain(value):
        return type(value).__name__, value
    # torch.float32, torch.device("cpu"): guards are written with their repr.
    return ("text", repr(value)) if type(value).__module__ == "torch" else ("a", type(value).__qualname__)


def _builtin(value: object, method: str) -> Callable[..., Any]:
    """Return a method of a container, the built-in type's own."""
    for kind in (dict, list, tuple, set, frozenset, deque, str, range):
        if issubclass(type(value), kind):
            return functools.partial(getattr(kind, method), value)
    raise TypeError(type(value).__name__)


def _tensor_like(value: Any) -> Any:
    """Return `value` if it is a tensor: nothing else is asked for what only tensors have."""
    if any(base.__module__ == "torch" and base.__name__ == "Tensor" for base in type(value).__mro__):
        return value
    raise TypeError(type(value).__name__)


_ASPECTS: dict[str, Callable[[Any, str], Hashable]] = {
    "value": _value,
    # Ids may pass to another object when the first one is gone. Torch drops an entry whose object is gone, so what such
    # an id leads to is an empty wrapper at worst.
    "type": lambda value, _: id(type(value)),
    "identity": lambda value, _: id(value),
    "length": lambda value, _: _builtin(value, "__len__")(),
    "dtype": lambda value, _: str(_tensor_like(value).dtype),
    "requires_grad": lambda value, _: bool(_tensor_like(value).requires_grad),
    "rank": lambda value, _: _tensor_like(value).dim(),
    "size": lambda value, aspect: int(_tensor_like(value).shape[int(aspect[5:])]),
    "stride": lambda value, aspect: int(_tensor_like(value).stride()[int(aspect[7:])]),
    "has": lambda value, aspect: _builtin(value, "__contains__")(ast.literal_eval(aspect.partition(" ")[2])),
}


def is_plain(value: object) -> bool:
    """Tell whether a value that is passed stays an input, under torch's own limit, whatever is pinned on it."""
    # Asked of the type: `isinstance` would ask the value for its `__class__`.
    return issubclass(type(value), bool | int | float | complex | str | bytes | type(...) | None)


def requirements(text: str) -> Iterator[tuple[Field, Hashable]]:
    """Yield each field that a guard pins, with what it requires of it.

    Parameters
    ----------
    text
        A guard in torch's words, from a guard tree or a recompilation reason; comment and hints may follow.

    Notes
    -----
    A failed guard's reason gives the same fields as the guard's own text. Guards over relations (symbolic shapes,
    aliasing), over torch's global state, and those that only say what an object is not, are not fields.
    """
    text = _LOCAL.sub(r"\1", re.sub(r"^\s*\d+/\d+: ", "", text))
    if (match := _IDENTITY.match(text)) is not None:
        if (source := _source(match["source"])) is not None:
            yield Field(source, "type" if match["check"] == "type_id" else "identity"), int(match["id"])
    elif (match := _TENSOR_CHECK.match(text)) is not None:
        yield from _tensor(match)
    elif (match := _TENSOR_FAILURE.match(text)) is not None:
        if (source := _source(match["source"])) is not None:
            what = f"{match['what']} {match['index']}" if match["what"] else str(match["other"])
            if what.split(" ")[0] in _ASPECTS:
                yield Field(source, what), ABSENT
    else:
        yield from _comparison(text)


def _source(text: str) -> str | None:
    try:
        _look_up(text)
    except ValueError:
        return None
    return text


def _tensor(match: re.Match[str]) -> Iterator[tuple[Field, Hashable]]:
    if (source := _source(match["source"])) is None:
        return
    yield Field(source, "dtype"), match["dtype"]
    yield Field(source, "requires_grad"), match["grad"] == "True"
    for what in ("size", "stride"):
        numbers = [each.strip() for each in match[what].split(",") if each.strip()]
        if what == "size":
            yield Field(source, "rank"), len(numbers)
        for index, number in enumerate(numbers):
            if number.isdigit():  # None where the dimension is dynamic
                yield Field(source, f"{what} {index}"), int(number)


def _comparison(text: str) -> Iterator[tuple[Field, Hashable]]:
    """Yield from guards that are Python expressions, such as ``x == 2``, ``len(x) == 2``, ``not x``, ``'k' in x``."""
    node = parse(re.split(r"\s{2,}#|\n", text, maxsplit=1)[0])
    match node:
        case ast.UnaryOp(op=ast.Not(), operand=operand):
            if (source := _source(ast.unparse(operand))) is not None:
                yield Field(source, "length"), 0
        case ast.Compare(left=ast.Call(func=ast.Name(id="len"), args=[inner]), ops=[ast.Eq()], comparators=[right]):
            if (source := _source(ast.unparse(inner))) is not None and isinstance(right, ast.Constant):
                yield Field(source, "length"), right.value
        case ast.Compare(left=ast.Constant(value=key), ops=[ast.In() | ast.NotIn() as op], comparators=[right]):
            if (source := _source(ast.unparse(right))) is not None:
                yield Field(source, f"has {key!r}"), isinstance(op, ast.In)
        case ast.Compare(left=left, ops=[ast.Eq() | ast.Is()], comparators=[right]):
            if (source := _source(ast.unparse(left))) is not None:
                try:
                    yield Field(source, "value"), _value(ast.literal_eval(right), "")
                except ValueError:
                    yield Field(source, "value"), ("text", ast.unparse(right))
        case ast.Compare(left=left, ops=[ast.NotEq() | ast.IsNot()]):
            # It pins nothing, but where it fails another entry may pin the value.
            if (source := _source(ast.unparse(left))) is not None:
                yield Field(source, "value"), ABSENT
        case _:
            return
