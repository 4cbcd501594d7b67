"""One call of a target through its wrapper: find the wrapper, call it, and keep count of what happened."""

from __future__ import annotations

import functools
import threading
import time
import types
import weakref
from collections.abc import Callable, Mapping
from typing import Any

from . import _native, dynamo, state
from .cache import Entry, Wrapper
from .events import CompileFinished, CompileStarted, EagerCall, GraphBreak, Place
from .keys import Family, blind_global_hooks, family_of, own_code
from .options import Options
from .reasons import Naming, describe, reader
from .wrappers import generate, stable_name

__all__ = ["Space", "space"]


class _Call:
    """A call that is running on this thread."""

    __slots__ = ("compiled", "eager_on_error", "naming", "own_code", "pending", "reason", "wrapper")

    def __init__(self, wrapper: Wrapper, naming: Naming, own_code: types.CodeType | None, eager_on_error: bool) -> None:
        self.wrapper = wrapper
        # The code that the wrapper calls: torch may compile the wrapper and yet skip this.
        self.own_code = own_code
        self.naming = naming
        self.eager_on_error = eager_on_error
        self.compiled = False
        self.reason: str | None = None
        # Compilations nest (a backend may compile): the innermost is the last.
        self.pending: list[tuple[CompileStarted, types.CodeType, float]] = []


class _Calls(threading.local):
    """The calls of a thread, outermost first: the observer's way from a compilation to the wrapper that asked for it."""

    def __init__(self) -> None:
        self.stack: list[_Call] = []


class _Recorder:
    """Turns Dynamo's compilations into records, and books them on the wrapper that runs."""

    def __init__(self, calls: _Calls) -> None:
        self._calls = calls

    def started(self, frame: dynamo.Frame, compile_id: str, raw_reasons: list[str]) -> None:
        if not self._calls.stack:
            return
        call = self._calls.stack[-1]
        wrapper = call.wrapper
        naming = call.naming if frame.code is wrapper.code else Naming.plain()
        read = reader(frame.f_locals, frame.f_globals)
        event = CompileStarted(
            wrapper=wrapper.name,
            target=wrapper.target,
            frame=frame.code.co_name,
            compile_id=compile_id,
            reasons=tuple(describe(raw, naming, read) for raw in raw_reasons),
            place=state.place_of_caller(),
        )
        call.pending.append((event, frame.code, time.perf_counter()))
        state.log.write(event)

    def finished(self, outcome: dynamo.Outcome, error: BaseException | None) -> bool:
        if not self._calls.stack or not self._calls.stack[-1].pending:
            return False
        call = self._calls.stack[-1]
        started, source, begun = call.pending.pop()
        seconds = time.perf_counter() - begun
        self._book(call, started, source, outcome, seconds)
        state.log.write(
            CompileFinished(
                wrapper=started.wrapper,
                target=started.target,
                frame=started.frame,
                compile_id=started.compile_id,
                reasons=started.reasons,
                place=started.place,
                seconds=seconds,
                outcome=outcome.state,
                detail=outcome.detail,
            )
        )
        for each in outcome.breaks:
            place = Place(None, each.line, each.file) if each.file else None
            state.log.write(GraphBreak(started.wrapper, started.target, each.reason, place))
        return call.eager_on_error and error is not None and dynamo.may_run_eager(error)

    def _book(
        self, call: _Call, started: CompileStarted, source: types.CodeType, outcome: dynamo.Outcome, seconds: float
    ) -> None:
        wrapper = call.wrapper
        reason = "; ".join(started.reasons[:1]) or None
        wrapper.compile_seconds += seconds
        wrapper.graph_breaks += len(outcome.breaks)
        if outcome.code is not None:
            graph = outcome.state == "compiled"
            _native.track(outcome.code)
            call.compiled = True
            if graph:
                wrapper.compiles += 1
                wrapper.recompiles += reason is not None
                wrapper.state = "compiled"
            wrapper.last_reason = reason or wrapper.last_reason
            wrapper.entries.append(
                Entry(
                    compile_id=started.compile_id,
                    frame=started.frame,
                    reason=reason,
                    place=started.place,
                    seconds=seconds,
                    graph=graph,
                    code=weakref.ref(outcome.code),
                    source=weakref.ref(source),
                )
            )
            return
        if outcome.state == "skipped" and source is call.own_code and not any(each.graph for each in wrapper.entries):
            wrapper.state = "skipped"
        call.reason = outcome.detail if outcome.state != "at limit" else _at_limit(wrapper, reason)
        wrapper.last_reason = call.reason
        if outcome.state == "at limit" and source is wrapper.code:
            wrapper.state = "at limit"


def _at_limit(wrapper: Wrapper, reason: str | None) -> str:
    return f"recompile_limit ({wrapper.limit}) reached" + (f"; last: {reason}" if reason else "")


_calls = _Calls()
_recorder = _Recorder(_calls)


class Space:
    """All that is compiled under one option set.

    Parameters
    ----------
    options
        The option set.
    """

    def __init__(self, options: Options) -> None:
        self.options = options
        self._compile = dynamo.Compiler(options, _recorder)
        self._memo: weakref.WeakKeyDictionary[Any, tuple[Wrapper, Naming]] = weakref.WeakKeyDictionary()

    def forget(self) -> None:
        """Look every target up again: the cache was cleared."""
        self._memo.clear()

    def wrapper(self, target: Any, *, fresh_at_limit: bool = False) -> tuple[Wrapper, Naming]:
        """Return the wrapper for `target` (`keys.family_of`), and how its frame's names read in the user's words."""
        import torch.nn

        hooks = dynamo.global_hooks()
        # What a family looks at is fixed for a module's type and for a function without a closure.
        key = type(target) if isinstance(target, torch.nn.Module) else target
        plain = not hooks and (key is not target or getattr(target, "__closure__", target) is None)
        if plain and not fresh_at_limit and (known := self._memo.get(key)) is not None:
            return known
        family = family_of(target)
        wrapper = state.cache.wrapper(
            family.anchor,
            (family.kind, family.rest, blind_global_hooks() if hooks else (), self.options),
            functools.partial(self._make, family, target),
            fresh_at_limit=fresh_at_limit,
        )
        found = wrapper, Naming.of(family.kind, target)
        if plain:
            self._memo[key] = found
        return found

    def is_skipped(self, target: Any) -> bool:
        """Tell whether torch does not compile `target` itself: what it calls may then be compiled on its own."""
        return self.wrapper(target)[0].state == "skipped"

    def _make(self, family: Family, target: Any, taken: set[str]) -> Wrapper:
        own = isinstance(target, types.FunctionType)
        content = getattr(target, "__module__", None) or type(target).__module__
        unique = stable_name(family.kind, family.name, self.options.label, str(content), taken)
        function = generate(unique, family.name, target.__code__ if own else None)
        return Wrapper(
            name=unique,
            kind=family.kind,
            target=f"{family.name}.forward" if family.kind == "module" else family.name,
            options=self.options.label,
            code=function.__code__,
            function=self._compile(function),
            limit=dynamo.recompile_limit(self.options),
        )

    def call(
        self,
        target: Any,
        args: tuple[Any, ...],
        kwargs: Mapping[str, Any],
        *,
        eager_on_error: bool = False,
        watch: Callable[..., Any] | None = None,
        fresh_at_limit: bool = False,
    ) -> Any:
        """Call `target` through its wrapper.

        Parameters
        ----------
        target, args, kwargs
            The call. For a function, `args` are its positional parameters, and `kwargs` its keyword-only ones.
        eager_on_error
            Whether a frame that cannot be compiled runs eager, as in a region, instead of raising.
        watch
            Calls a function with the frame hook on, for a call from outside of a region.
        fresh_at_limit
            See `cache.WrapperCache.wrapper`.
        """
        wrapper, naming = self.wrapper(target, fresh_at_limit=fresh_at_limit)
        call = _Call(wrapper, naming, own_code(target), eager_on_error)
        stack = _calls.stack
        stack.append(call)
        wrapper.calls += 1
        runs = _native.runs()
        try:
            if watch is None:
                return wrapper.function(target, *args, **kwargs)
            return watch(wrapper.function, (target, *args), kwargs)
        finally:
            stack.pop()
            if _native.runs() == runs:
                wrapper.eager_calls += 1
                self._say_eager(call)
            elif not call.compiled:
                wrapper.hits += 1

    def _say_eager(self, call: _Call) -> None:
        wrapper = call.wrapper
        if call.reason is not None:
            reason = call.reason
        elif wrapper.state == "at limit":
            reason = wrapper.last_reason or "recompile_limit reached"
        else:
            reason = dynamo.eager_cause() or "torch ran it without compiling"
        state.log.write(EagerCall(wrapper.name, wrapper.target, reason, state.place_of_caller()))


_spaces: dict[Options, Space] = {}
_spaces_lock = threading.Lock()


def space(options: Options) -> Space:
    """Return the one space of an option set."""
    with _spaces_lock:
        return _spaces.setdefault(options, Space(options)) if options not in _spaces else _spaces[options]


def forget_all() -> None:
    """Make every space look its targets up again."""
    with _spaces_lock:
        for each in _spaces.values():
            each.forget()
