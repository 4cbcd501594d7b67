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
from .fields import ABSENT, Field, is_plain, requirements
from .naming import parse

__all__ = ["Compilation", "bind"]


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
class Compiled:
    """What is known of an entry of a family.

    Parameters
    ----------
    source
        The code object that it belongs to: the wrapper's, or that of a frame after a graph break.
    required
        What it requires of each field that it pins.
    shapes
        The sizes of its frame's arguments as torch had seen them by then.
    """

    source: CodeType
    required: Requirements
    shapes: Mapping[str, Any]

    def is_for(self, parameters: Mapping[str, object]) -> bool:
        """Tell whether a call with these parameters meets all that is required of its target and its objects."""
        return all(value is ABSENT or field.read(parameters) == value for field, value in self.required.items())


class Compilation:
    """One compilation for a call, from the side of what is learned.

    What the sizes of its arguments are compared with, to tell which of them change, are the entries for targets like
    this one. What has become dynamic for one wrapper is so for every other that the family adds.

    Parameters
    ----------
    family, wrapper, parameters
        The call.
    frame
        The frame that is compiled: the wrapper's, or one after a graph break.
    """

    def __init__(self, family: Family, wrapper: Wrapper, parameters: Mapping[str, object], frame: dynamo.Frame) -> None:
        self._family, self._wrapper, self._parameters, self._frame = family, wrapper, parameters, frame
        self._is_own = frame.code is wrapper.code
        self._place = _Placing(family.receiver, parameters, None if self._is_own else frame.f_locals)
        self._shapes = dynamo.Shapes(frame.code, frame.closure, self._place.of_target)

    @property
    def _earlier(self) -> list[Compiled]:
        return [each for _, each in self._family.compiled.items() if each.source is self._frame.code]

    def prepare(self) -> None:
        """Let the shapes of this call be compared with those of its like only."""
        if earlier := self._earlier:
            self._shapes.compare_with(each.shapes for each in earlier if each.is_for(self._parameters))
        elif (first := self._shapes_of_first()) is not None:
            self._shapes.learn(first.seen())

    def learn(self, code: CodeType, guards: Any) -> tuple[Field, ...]:
        """Let the family learn from the new entry; return the new fields.

        Parameters
        ----------
        code
            The compiled code object.
        guards
            The guards of the entry.
        """
        earlier = self._earlier
        new = Compiled(self._frame.code, self._place(guards), self._shapes.seen())
        self._family.compiled.set(code, new)
        if (first := self._shapes_of_first()) is not None:
            first.learn(new.shapes)
        others = [each.required for each in earlier]
        return self._family.learn(self._wrapper, self._parameters, new.required, others, deep=not self._is_own)

    def _shapes_of_first(self) -> dynamo.Shapes | None:
        """Return what is known of the arguments by the wrapper that the family started with, if it is another one."""
        first = self._family.first()
        return None if not self._is_own or first is self._wrapper else self._shapes.of(first.code)


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

    @property
    def of_target(self) -> frozenset[str]:
        """The variables of the frame that hold the target, or a module in it."""
        if self._roots is None:
            return frozenset((self._receiver,))
        return frozenset(name for name, place in self._roots.items() if Field(place, "").root == self._receiver)

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
