"""From the guards of a new entry to key fields of its family."""

from __future__ import annotations

import ast
import inspect
import re
from collections.abc import Mapping
from dataclasses import dataclass
from types import CodeType
from typing import Any

from . import dynamo
from .cache import Wrapper
from .families import Family, Requirements
from .fields import Field, is_plain, requirements
from .naming import parse

__all__ = ["bind", "learn"]


def bind(code: CodeType, target: object, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> dict[str, object]:
    """Return the parameters of a wrapper's frame as a call will set them.

    Parameters
    ----------
    code
        The wrapper's code.
    target, args, kwargs
        The call; for a function, all its positional parameters and all its keyword-only ones.
    """
    names, given = code.co_varnames, (target, *args)
    bound: dict[str, object] = dict(zip(names[: code.co_argcount], given, strict=False))
    rest = code.co_argcount + code.co_kwonlyargcount
    by_name = names[code.co_argcount : rest]
    bound.update({name: kwargs[name] for name in by_name if name in kwargs})
    if code.co_flags & inspect.CO_VARARGS:
        bound[names[rest]] = given[code.co_argcount :]
        rest += 1
    if code.co_flags & inspect.CO_VARKEYWORDS:
        bound[names[rest]] = {name: value for name, value in kwargs.items() if name not in by_name}
    return bound


@dataclass(frozen=True, slots=True)
class NewEntry:
    """An entry that was just made.

    Parameters
    ----------
    source
        The code object that it belongs to: the wrapper's, or that of a frame after a graph break.
    f_locals
        The variables of the frame that was compiled.
    guards
        Its guards.
    """

    source: CodeType
    f_locals: Mapping[str, object]
    guards: Any


def learn(family: Family, wrapper: Wrapper, parameters: Mapping[str, object], entry: NewEntry) -> tuple[Field, ...]:
    """Let `family` learn from a new entry; return the new fields.

    Parameters
    ----------
    family, wrapper, parameters
        The call that compiled it.
    entry
        The entry.
    """
    earlier = [each for each in dynamo.guards_of(entry.source) if each is not entry.guards]
    if not earlier:
        return ()
    own = entry.source is wrapper.code
    place = _Placing(family.receiver, parameters, None if own else entry.f_locals)
    return family.learn(wrapper, parameters, place(entry.guards), [place(each) for each in earlier], deep=not own)


class _Placing:
    """Reads guards as requirements of fields over the parameters of a wrapper.

    Parameters
    ----------
    receiver
        The parameter that holds the target.
    parameters
        The parameters of the call.
    inner
        The variables of the frame that the guards are about, if it is not the wrapper's own.
    """

    def __init__(self, receiver: str, parameters: Mapping[str, object], inner: Mapping[str, object] | None) -> None:
        self._receiver = receiver
        self._parameters = parameters
        self._roots = None if inner is None else dict(self._found(inner))

    def __call__(self, guards: Any) -> Requirements:
        placed: Requirements = {}
        for text in dynamo.guard_texts(guards):
            for field, value in requirements(text):
                source = self._place(field)
                if source is not None:
                    placed[Field(source, field.aspect)] = value
        return placed

    def _place(self, field: Field) -> str | None:
        source, root = field.source, field.root
        if self._roots is not None:
            place = self._roots.get(root)
            if place is None:
                return None
            source = re.sub(rf"\b{root}\b", lambda _: place, source, count=1)
            root = Field(source, "").root
        return source if root == self._receiver or self._is_in_an_object(source) else None

    def _found(self, inner: Mapping[str, object]) -> Any:
        """Yield each variable of an inner frame whose object is the target, a module in it, or a parameter."""
        places = {id(value): name for name, value in self._parameters.items() if not is_plain(value)}
        target = self._parameters.get(self._receiver)
        if dynamo.is_module(target):
            for path, module in target.named_modules():  # type: ignore[attr-defined]
                steps = "".join(f"._modules[{step!r}]" for step in path.split(".")) if path else ""
                places[id(module)] = f"{self._receiver}{steps}"
        for name, value in inner.items():
            if id(value) in places:
                yield name, places[id(value)]

    def _is_in_an_object(self, source: str) -> bool:
        """Tell whether a source leads through an object that is passed, not only through containers and inputs."""
        node = parse(source)
        while node is not None:
            value = _value_at(ast.unparse(node), self._parameters)
            if not (is_plain(value) or dynamo.is_tensor(value) or isinstance(value, _CONTAINERS)):
                return True
            node = node.value if isinstance(node, ast.Attribute | ast.Subscript) else None
        return False


_CONTAINERS = (list, tuple, dict, set, frozenset)


def _value_at(source: str, parameters: Mapping[str, object]) -> object:
    try:
        return Field(source, "value").at(parameters)
    except Exception:  # noqa: BLE001 - what cannot be read is no object
        return None
