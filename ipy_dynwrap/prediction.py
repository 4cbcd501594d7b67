"""What a call would do, without making it: whether an entry serves it, or why none does."""

from __future__ import annotations

import functools
import importlib
import inspect
import types
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from . import _native, dynamo, engine, origins, skips, state
from .cache import Wrapper
from .compiled import handle_of, original
from .differences import Differences
from .families import Family
from .keys import Kin, is_suspended, kin_of
from .learning import bind
from .naming import Naming, reader
from .options import Options
from .regions import current
from .routing import target_of

__all__ = ["Prediction", "would_hit"]


@dataclass(frozen=True, slots=True)
class Prediction:
    """The answer of `would_hit`.

    Parameters
    ----------
    hits
        Whether the call would run an entry that is there.
    wrapper
        The name of the wrapper that it would come to (`WrapperInfo.name`); empty if that would be a new one.
    compile_id
        Torch's id of the entry that would run; None if it is none.
    reasons
        Why no entry serves it, the most telling first.
    target
        What is called, in the user's words.
    eager
        Whether it would run eager instead of compiling.
    """

    hits: bool
    wrapper: str
    compile_id: str | None
    reasons: tuple[str, ...]
    target: str
    eager: bool = False

    def __str__(self) -> str:
        if self.hits:
            return f"{self.target} would run entry {self.compile_id} of {self.wrapper}"
        why = self.reasons[0] if self.reasons else "nothing is compiled yet"
        more = f" (and {len(self.reasons) - 1} more)" if len(self.reasons) > 1 else ""
        return f"{self.target} would {'run eager' if self.eager else 'compile'}: {why}{more}"

    def _repr_pretty_(self, printer: object, cycle: bool) -> None:  # noqa: ARG002 - IPython's protocol
        printer.text(str(self))  # type: ignore[attr-defined]


def would_hit(target: Any, /, *args: Any, **kwargs: Any) -> Prediction:
    """Tell whether a call would run what is compiled, or why it would not. Nothing is run, compiled or changed.

    Parameters
    ----------
    target
        What is called: the result of `compile`, or a module, function, method, partial or other callable; or its name
        in the notebook (``"net"``, ``"net.encode"``).
    *args, **kwargs
        The call.

    Returns
    -------
    Prediction
        For torch's state as it is now (grad mode, autocast), and under the options of the `compile` or, for what a
        region would route, of the region that is open or that called it last. What comes after a graph break is not
        looked at.

    Raises
    ------
    TypeError
        If the call does not fit the target's parameters.
    LookupError
        If nothing of that name is known.
    """
    if isinstance(target, str):
        target = _named(target)
    with dynamo.callback_off():
        question = _Question(target, args, kwargs)
        # Torch's guards are functions, too, some of which a region would route.
        return question.answer() if current() is None else _native.watch(question.answer, ())


def _named(name: str) -> Any:
    first, *rest = name.split(".")
    try:
        found = vars(importlib.import_module("__main__"))[first]
        for each in rest:
            found = getattr(found, each)
    except (KeyError, AttributeError):
        raise LookupError(f"nothing is called {name!r} in the notebook; give the callable itself") from None
    return found


class _Question:
    """One call, as the engine would be given it."""

    def __init__(self, target: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> None:
        handle = handle_of(target)
        self._fresh = handle is not None and handle.is_fresh
        self._left_alone = handle is None and dynamo.is_left_alone(target)
        self.target, self.args, self.kwargs = _as_called(original(target), args, dict(kwargs), routed=handle is None)
        self.kin: Kin = kin_of(self.target)
        self.order = engine.order_of(self.target, self.kwargs)
        region = current()
        self._options = handle.options if handle is not None else region.options if region is not None else None

    def _family(self) -> tuple[Family, Options] | None:
        """Return the family of the call, and its options; the last one that was called where no options are given."""
        found: tuple[Family, Options] | None = None
        for key, family in state.cache.families_of(self.kin.anchor).items():
            kind, rest, order, options = key
            alike = (kind, rest, order) == (self.kin.kind, self.kin.rest, self.order) and family.wrappers
            if alike and (self._options is None or options == self._options):
                found = family, options
        return found

    def answer(self) -> Prediction:
        if self._left_alone:
            return self._eager("it is compiled by torch.compile, or marked as not to be compiled")
        if is_suspended(self.target):
            return self._eager("a call of it only makes a generator or a coroutine")
        if dynamo.is_uninitialized(self.target):
            return self._eager("its first call runs eager: its parameters have no shapes yet")
        if skips.holds(self.kin, self.target):
            return self._eager(skips.REASON)
        if (found := self._family()) is None:
            reason = origins.of(self.kin, self.target, self._options)
            return self._miss(None, (reason,) if reason is not None else ())
        family, _ = found
        first = family.first()
        if first.state == "skipped":
            return self._eager(first.last_reason or "torch skips it", first)
        parameters = bind(first.code, self.target, self.args, self.kwargs)
        if (cause := dynamo.forced_eager()) is not None:
            return self._eager(cause, first)
        return self._ask(family, parameters)

    def _ask(self, family: Family, parameters: dict[str, object]) -> Prediction:
        wrapper: Wrapper | None = None
        for wrapper in self._ways(family, parameters):
            code = dynamo.entry_for(wrapper.code, parameters)
            if code is not None:
                ids = (entry.compile_id for entry in wrapper.entries if entry.code() is code)
                return Prediction(True, wrapper.name, next(ids, None), (), wrapper.target)
        scope = dynamo.innermost((wrapper or family.first()).function).__globals__
        naming = Naming.of(self.kin.kind, self.target)
        read = reader(parameters, scope, dynamo.global_state())
        differences = Differences(family, parameters, naming, read, state.where)
        reasons: tuple[str, ...] = ()
        if wrapper is not None:
            raw = [text for _, text in dynamo.misses(wrapper.code, parameters)]
            reasons = differences.in_words(raw, wrapper.code, own=True)
        if not reasons:
            reason = differences.from_family(wrapper.code if wrapper is not None else None) or family.origin
            reasons = (reason,) if reason is not None else ()
        if wrapper is not None and wrapper.state == "at limit":
            return self._eager(wrapper.last_reason or "recompile_limit reached", wrapper, reasons)
        return self._miss(wrapper, reasons)

    def _ways(self, family: Family, parameters: dict[str, object]) -> Iterator[Wrapper]:
        """Yield the wrappers that the call comes to, one after the other until an entry serves it."""
        remembered = None if self._fresh else family.remembered(self.target)
        if remembered is not None:
            yield remembered
            if not (family.fields or family.retired):
                return
        chosen = family.foreseen(parameters, fresh_at_limit=self._fresh)
        if chosen is not None and chosen is not remembered:
            yield chosen

    def _eager(self, reason: str, wrapper: Wrapper | None = None, more: tuple[str, ...] = ()) -> Prediction:
        return self._miss(wrapper, (reason, *more), eager=True)

    def _miss(self, wrapper: Wrapper | None, reasons: tuple[str, ...], *, eager: bool = False) -> Prediction:
        name = f"{self.kin.name}.forward" if self.kin.kind == "module" else self.kin.name
        return Prediction(False, wrapper.name if wrapper is not None else "", None, reasons, name, eager)


def _as_called(
    target: Any, args: tuple[Any, ...], kwargs: dict[str, Any], *, routed: bool
) -> tuple[Any, tuple[Any, ...], dict[str, Any]]:
    """Return target and arguments as the engine is given them: those of a function bound to its parameters.

    A region sees the frame that a call comes to, `compile` the callable that it was given.
    """
    if routed:
        while isinstance(target, functools.partial):
            target, args, kwargs = target.func, (*target.args, *args), {**target.keywords, **kwargs}
        call = getattr(type(target), "__call__", None)  # noqa: B004 - the function is wanted, not whether it is there
        if isinstance(call, types.FunctionType) and not dynamo.is_module(target):
            args, kwargs = _bound(call, (target, *args), kwargs)
            found = target_of(call, args)
            return (*found, kwargs) if found is not None else (target, args[1:], kwargs)
    if isinstance(target, types.MethodType) and isinstance(target.__func__, types.FunctionType):
        target, args = target.__func__, (target.__self__, *args)
    if isinstance(target, types.FunctionType):
        args, kwargs = _bound(target, args, kwargs)
    return target, args, kwargs


def _bound(
    function: types.FunctionType, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Return the arguments by position and those by keyword only, as the function's frame will have them."""
    # A function of its own: what a decorator says of the signature does not count.
    plain = types.FunctionType(function.__code__, {}, function.__name__, function.__defaults__, function.__closure__)
    plain.__kwdefaults__ = function.__kwdefaults__
    bound = inspect.signature(plain).bind(*args, **kwargs)
    bound.apply_defaults()
    return bound.args, bound.kwargs
