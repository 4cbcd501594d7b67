"""From the guards of a new entry to key fields of its family."""

from __future__ import annotations

import ast
import inspect
import re
import weakref
from collections.abc import Mapping
from dataclasses import dataclass
from types import CodeType
from typing import Any

from . import dynamo, persist
from .cache import Wrapper
from .families import Family, Requirements
from .fields import ABSENT, Field, is_plain, requirements
from .naming import function_behind, parse

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
        The code object that it belongs to: the wrapper's, or that of a frame after a graph break. It is what keeps the
        entry, and so it is held weakly.
    required
        What it requires of each field that it pins.
    """

    source: weakref.ref[CodeType]
    required: Requirements

    def is_for(self, parameters: Mapping[str, object]) -> bool:
        """Tell whether a call with these parameters meets all that is required of its target and its objects."""
        return all(value is ABSENT or field.read(parameters) == value for field, value in self.required.items())


class Compilation:
    """One compilation for a call, from the side of what is learned.

    Torch compiles a size as dynamic once two calls of one code object differed in it. Here that is so for the calls of
    a whole family, so that a family needs no more compilations than one function that is given the target would. But
    the first time that only the target is another one, with a shape of its own, says nothing about sizes that change
    (pytorch issue 172747).

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
        # The first wrapper's record is the family's; a frame after a graph break has one for all wrappers anyway.
        self._of_family = self._shapes.of(family.first().code) if self._is_own else self._shapes
        self._code = family.first().code if self._is_own else frame.code
        self._set_aside: dict[str, Any] | None = None
        self._profile = self._profile_kept() if persist.kept() is not None else None

    @property
    def _earlier(self) -> list[Compiled]:
        return [each for _, each in self._family.compiled.items() if each.source() is self._frame.code]

    def prepare(self) -> None:
        """Let torch compare the shapes of this call with those that the family has seen."""
        if self._profile is not None:
            self._profile.recall()
        if self._frame.code is not self._code:
            self._shapes.add(self._of_family.seen())
        if not self._family.excused.get(self._code) and self._is_for_another_target():
            self._set_aside = self._of_family.seen()
            self._shapes.forget_sizes()

    def _profile_kept(self) -> persist.Profile:
        first, code, closure = self._family.first(), self._frame.code, self._frame.closure
        if not self._is_own:
            return persist.Profile(self._of_family, (first.options,), code, closure)
        function, _ = function_behind(first.kind, self._parameters[self._family.receiver])
        names = (first.kind, first.target, first.options)
        own = (function.__code__, function.__closure__ or ()) if function is not None else (None, ())
        return persist.Profile(self._of_family, names, *own)

    def _is_for_another_target(self) -> bool:
        earlier = self._earlier
        if not earlier:
            return self._is_own and bool(self._family.compiled.items())
        return not any(each.is_for(self._parameters) for each in earlier)

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
        new = Compiled(weakref.ref(self._frame.code), self._place(guards))
        self._family.compiled.set(code, new)
        others = [each.required for each in earlier]
        return self._family.learn(self._wrapper, self._parameters, new.required, others, deep=not self._is_own)

    def finish(self) -> None:
        """Give what torch has seen of this call to the family."""
        seen = self._shapes.seen()
        if self._profile is not None:
            self._profile.note(seen)
        changed = False if self._set_aside is None else self._of_family.add(self._set_aside)
        if self._frame.code is not self._code:
            changed = self._of_family.add(seen) or changed
        if changed and self._set_aside is not None:
            self._family.excused.set(self._code, True)


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
