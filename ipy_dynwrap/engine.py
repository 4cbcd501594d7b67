"""One call of a target through its wrapper: find the wrapper, call it, and keep count of what happened."""

from __future__ import annotations

import functools
import threading
import time
import types
import weakref
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field, replace
from typing import Any

from . import _native, blindspots, dynamo, origins, recording, skips, state
from .cache import Entry, Totals, Wrapper
from .differences import Differences
from .dynamo import callback_now
from .events import CompileFinished, CompileStarted, EagerCall, GraphBreak, Notice
from .families import Family
from .identities import ByIdentity
from .interrupts import deliver, owed
from .keys import Kin, is_suspended, kin_of, own_code
from .learning import Compilation, bind
from .naming import function_behind
from .options import Options
from .reasons import Naming, graph_break, is_edit, reader
from .traces import Trace
from .wrappers import generate, parameters, stable_name

__all__ = ["Space", "forget_all", "order_of", "space", "tally"]


@dataclass(slots=True, eq=False)
class _Call:
    """A call that is running on this thread.

    Parameters
    ----------
    space, family, wrapper, naming
        Where it went, and how the names in the wrapper's frame read in the user's words.
    target, args, kwargs
        The call.
    eager_on_error
        Whether a frame that cannot be compiled runs eager.
    is_inner
        Whether it was made inside of another one, of compiled code.
    settled
        Whether the wrapper was just chosen by the key, so that a miss means a compilation and not another wrapper.
    compiled
        Whether it has made an entry.
    reason
        Why something of it was not compiled.
    pending
        Its compilations that have begun. They nest (a backend may compile): the innermost is the last.
    """

    space: Space
    family: Family
    wrapper: Wrapper
    naming: Naming
    target: Any
    args: tuple[Any, ...]
    kwargs: Mapping[str, Any]
    eager_on_error: bool
    is_inner: bool
    settled: bool = False
    compiled: bool = False
    reason: str | None = None
    pending: list[_Pending] = field(default_factory=list)

    def parameters(self) -> dict[str, object]:
        """Return the parameters of the wrapper's frame."""
        return bind(self.wrapper.code, self.target, self.args, self.kwargs)


@dataclass(slots=True)
class _Pending:
    """A compilation that has begun."""

    event: CompileStarted
    learning: Compilation
    source: types.CodeType
    begun: float
    again: bool
    trace: Trace | None


class _Calls(threading.local):
    """The calls of a thread, outermost first: the way from a compilation to the wrapper that asked for it."""

    def __init__(self) -> None:
        self.stack: list[_Call] = []
        # Who counts what this thread does, beside the wrappers, and what each was told.
        self.tallies: list[Totals] = []
        self.told: dict[int, set[tuple[str, str]]] = {}

    def counted(self, wrapper: Wrapper) -> tuple[Wrapper | Totals, ...]:
        """Return all that counts what `wrapper` does."""
        return (wrapper, *self.tallies)

    def is_news(self, name: str, reason: str) -> bool:
        """Tell whether one of those who count has not been told; a call that stays eager is told of once a region."""
        news = [told for told in self.told.values() if (name, reason) not in told]
        for told in news:
            told.add((name, reason))
        return bool(news) or not self.told


class _Recorder:
    """Turns Dynamo's compilations into records, and books them on the wrapper that runs."""

    def __init__(self, calls: _Calls) -> None:
        self._calls = calls
        # Of each code object, by the cell that compiled it last: how many entries were gone when that began.
        self._gone = ByIdentity()
        # Of each compiled code object, the code that it was compiled from, and the facts of its entry.
        self._facts = ByIdentity()

    def started(self, frame: dynamo.Frame, compile_id: str, raw_reasons: Callable[[], list[str]]) -> int:
        if not self._calls.stack:
            return 0
        call = self._calls.stack[-1]
        wrapper = call.wrapper
        own = frame.code is wrapper.code
        if own and (call.family.fields or call.family.retired) and not call.settled:
            call.settled = True
            right = call.family.resolve(call.target, frame.f_locals)
            if right is not wrapper:
                raise _Rerouted(right)
        parameters = call.parameters()
        reasons = _reasons(call, frame, parameters, raw_reasons())
        event = CompileStarted(
            wrapper=wrapper.name,
            target=wrapper.target,
            frame=frame.code.co_name,
            compile_id=compile_id,
            reasons=reasons,
            place=state.place_of_caller(),
        )
        learning = Compilation(call.family, wrapper, parameters, frame)
        learning.prepare()
        trace = Trace() if recording.switch.on else None
        pending = _Pending(event, learning, frame.code, time.perf_counter(), again=bool(reasons), trace=trace)
        call.pending.append(pending)
        state.log.write(event)
        return self._uncounted(frame.code, wrapper.limit)

    def _uncounted(self, code: types.CodeType, limit: int) -> int:
        """Return how many entries of `code` shall not count for its limits: those that an edit has made useless.

        That is what was gone when this cell first compiled it. What goes while the cell runs counts, as torch has it:
        a step that makes, say, a class each time would compile for ever.
        """
        cell, gone = self._gone.get(code) or (None, 0)
        if cell != state.session.cells:
            gone = dynamo.entries_gone(code, limit) + self._past(code) if state.session.cells else 0
            self._gone.set(code, (state.session.cells, gone))
        return gone

    def _past(self, code: types.CodeType) -> int:
        return sum(facts.are_past() for _, (source, facts) in self._facts.items() if source() is code)

    def watching(self) -> AbstractContextManager[None]:
        pending = self._calls.stack[-1].pending if self._calls.stack else None
        trace = pending[-1].trace if pending else None
        return nullcontext() if trace is None else trace.watching()

    def tells_the_user(self) -> bool:
        return bool(self._calls.stack) and self._calls.stack[-1].eager_on_error

    def finished(self, outcome: dynamo.Outcome, error: BaseException | None) -> bool:
        if not self._calls.stack or not self._calls.stack[-1].pending:
            return False
        call = self._calls.stack[-1]
        pending = call.pending.pop()
        started, seconds = pending.event, time.perf_counter() - pending.begun
        pending.learning.finish()
        self._book(call, pending, outcome, seconds)
        if outcome.guards is not None:
            facts = blindspots.Facts(outcome.classes)
            dynamo.add_guard(outcome.guards, facts, facts.text)
            if outcome.code is not None:
                self._facts.set(outcome.code, (weakref.ref(pending.source), facts))
                pending.learning.learn(outcome.code, outcome.guards)
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
            place = state.place_of(each.file, each.line) if each.file else started.place
            state.log.write(GraphBreak(started.wrapper, started.target, graph_break(each.text), place))
        if outcome.code is not None:
            for function, file, line in outcome.asked:
                place = state.place_of(file, line)
                text = f"{function} asks at {place} whether it is compiled, and is: what it does otherwise does not run"
                state.log.write(Notice(started.wrapper, started.target, text, place))
        return call.eager_on_error and error is not None and dynamo.may_run_eager(error)

    def _book(self, call: _Call, pending: _Pending, outcome: dynamo.Outcome, seconds: float) -> None:
        wrapper, started, source = call.wrapper, pending.event, pending.source
        graph = outcome.state == "compiled"
        reason = "; ".join(started.reasons[:1]) or None
        # A break in a function that was to be inlined is met once for the caller and once for the function.
        breaks = {(each.file, each.line) for each in outcome.breaks} - wrapper.broken_at
        wrapper.broken_at |= breaks
        for each in self._calls.counted(wrapper):
            each.compile_seconds += seconds
            each.graph_breaks += len(breaks)
            each.compiles += graph
            each.recompiles += graph and pending.again
        if outcome.code is not None:
            _native.track(outcome.code)
            for running in self._calls.stack:
                running.compiled = True
            if graph:
                wrapper.state = "compiled"
                origins.add(call.target)
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
                    number=_keep(call, pending, outcome.code, outcome.breaks),
                )
            )
            return
        if (
            outcome.state == "skipped"
            and source is own_code(call.target)
            and not any(each.graph for each in wrapper.entries)
        ):
            wrapper.state = "skipped"
        call.reason = outcome.detail if outcome.state != "at limit" else _at_limit(wrapper, reason)
        wrapper.last_reason = call.reason
        if outcome.state == "at limit" and source is wrapper.code:
            wrapper.state = "at limit"


def _keep(call: _Call, pending: _Pending, code: types.CodeType, breaks: tuple[dynamo.Break, ...]) -> int:
    """Keep the details of a new entry for those who ask; return its number."""
    if pending.trace is None:
        return 0
    naming = Naming.plain()
    own: types.CodeType | None = pending.source
    if pending.source is call.wrapper.code:
        naming = call.naming
        function, _ = function_behind(naming.kind, call.target)
        own = function.__code__ if function is not None else None
    return recording.keep(pending.event.compile_id, pending.trace, naming, breaks=breaks, compiled=code, own=own)


def _reasons(call: _Call, frame: dynamo.Frame, parameters: Mapping[str, object], raw: list[str]) -> tuple[str, ...]:
    """Return why nothing that is compiled fits, the most telling reason first; empty if nothing was compiled before."""
    own = frame.code is call.wrapper.code
    naming = call.naming if own else Naming.plain()
    read = reader(frame.f_locals, frame.f_globals, dynamo.global_state())
    differences = Differences(call.family, parameters, naming, read, state.where)
    if raw:
        return differences.in_words(raw, frame.code, own)
    if not own:
        return ()
    reason = differences.from_family(frame.code) or call.family.origin
    return (reason,) if reason else ()


def _at_limit(wrapper: Wrapper, reason: str | None) -> str:
    why = f"recompile_limit ({wrapper.limit}) reached" + (f", last by {reason}" if reason else "")
    if reason is not None and is_edit(reason):
        return f"{why}; `%dynwrap reset {wrapper.target}` lets it compile again"
    return f"{why}; pass what changes as a tensor, or raise torch._dynamo.config.recompile_limit"


def tally() -> tuple[Totals, Callable[[], None]]:
    """Count what this thread does from now on; the function that is returned ends that, on whatever thread."""
    tallies, told, counts = _calls.tallies, _calls.told, Totals()
    tallies.append(counts)
    told[id(counts)] = set()

    def end() -> None:
        tallies[:] = [each for each in tallies if each is not counts]
        told.pop(id(counts), None)

    return counts, end


_calls = _Calls()
_recorder = _Recorder(_calls)


class _Rerouted(Exception):  # noqa: N818 - not an error: a change of plan
    """Raised out of a compilation that should not begin: another wrapper is the right one for this call."""

    def __init__(self, wrapper: Wrapper) -> None:
        super().__init__(wrapper.name)
        self.wrapper = wrapper


class Space:
    """All that is compiled under one option set.

    Parameters
    ----------
    options
        The option set.
    """

    def __init__(self, options: Options) -> None:
        _route_inner_calls()
        self.options = options
        self.compiler = dynamo.Compiler(options, _recorder)
        self._memo = ByIdentity()

    def forget(self) -> None:
        """Look every target up again: the cache was cleared."""
        self._memo.clear()

    def _family(self, target: Any, order: tuple[str, ...] = ()) -> tuple[Family, Naming]:
        """Return the family of `target`, and how the names in its wrappers' frames read in the user's words.

        Torch does not guard the order of a dictionary that is passed on by ``**``, and a call may depend on it: `order`
        is that of the keywords which go that way, where it is not the alphabet's.
        """
        # What kin_of looks at, of all targets but those that stand for another.
        key = target.__code__ if isinstance(target, types.FunctionType) else type(target)
        plain = not isinstance(target, types.BuiltinFunctionType | types.MethodType | functools.partial)
        memo: dict[tuple[str, ...], tuple[Family, Naming]] = self._memo.get(key) or {}
        if plain and (known := memo.get(order)) is not None:
            return known
        kin = kin_of(target)
        naming = Naming.of(kin.kind, target)
        family = state.cache.family(
            kin.anchor,
            (kin.kind, kin.rest, order, self.options),
            lambda: Family(
                make=self._maker(kin, target),
                serves=_serves,
                value_limit=functools.partial(dynamo.recompile_limit, self.options),
                wrapper_limit=dynamo.accumulated_recompile_limit,
                spend=_spend,
                words=naming.words,
                drop=state.cache.drop,
                is_idle=_is_idle,
                cells=lambda: state.session.cells,
                origin=origins.of(kin, target, self.options),
            ),
        )
        family.definition = skips.name_of(target)
        if not family.skipped and skips.holds(kin, target):
            skips.mark(family)
        found = family, naming
        if plain:
            memo[order] = found
            self._memo.set(key, memo)
        return found

    def is_skipped(self, target: Any) -> bool:
        """Tell whether torch does not compile `target` itself: what it calls may then be compiled on its own."""
        wrapper = self._family(target)[0].first()
        if wrapper.state == "eager" and is_suspended(target):
            wrapper.state, wrapper.last_reason = "skipped", "a call of it only makes a generator or a coroutine"
        return wrapper.state == "skipped"

    def is_unwanted(self, target: Any) -> bool:
        """Tell whether the user wants `target` not to be compiled."""
        return self._family(target)[0].skipped

    def pass_over(self, target: Any) -> bool:
        """Count a call of what is skipped as the eager call that it is; one that runs nothing yet is no loss.

        Returns
        -------
        bool
            Whether what it calls may be compiled.
        """
        if is_suspended(target):
            return True
        family, _ = self._family(target)
        wrapper = family.first()
        if family.skipped:
            self._count(wrapper, skipped=True)
            return False
        self._count(wrapper, eager=True)
        reason = f"torch skips it ({wrapper.last_reason})"
        if _calls.is_news(wrapper.name, reason):
            state.log.write(EagerCall(wrapper.name, wrapper.target, reason, state.place_of_caller()))
        return True

    def _maker(self, kin: Kin, target: Any) -> Callable[[str, bool], Wrapper]:
        """Return what makes the wrappers of a family. It holds names only: the family may not keep its anchor alive."""
        kind, name, module = kin.kind, kin.name, getattr(target, "__module__", None)
        own = parameters(target.__code__) if isinstance(target, types.FunctionType) else None

        def make(purpose: str, apart: bool) -> Wrapper:
            unique = state.cache.named(
                functools.partial(stable_name, kind, name, self.options.label, f"{module} {purpose}")
            )
            function = generate(unique, name, own)
            return Wrapper(
                name=unique,
                kind=kind,
                target=f"{name}.forward" if kind == "module" else name,
                options=self.options.label,
                code=function.__code__,
                function=self.compiler(function, isolate=apart),
                limit=dynamo.recompile_limit(self.options),
            )

        return make

    def call(
        self,
        target: Any,
        args: tuple[Any, ...],
        kwargs: Mapping[str, Any],
        *,
        eager_on_error: bool = False,
        watch: Callable[..., Any] | None = None,
        fresh_at_limit: bool = False,
        is_inner: bool = False,
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
            See `families.Family.resolve`.
        is_inner
            Whether compiled code calls it, inside of another call.
        """
        family, naming = self._family(target, order_of(target, kwargs) if len(kwargs) > 1 else ())
        if family.skipped:
            return self._as_it_is(family, target, args, kwargs)
        wrapper = None if fresh_at_limit else family.remembered(target)
        if wrapper is None:
            if dynamo.is_uninitialized(target):
                # Eager this once: what torch compiles before the shapes are known is of no use afterwards, and drawing
                # the first values of the parameters is the user's random state's business.
                return target(*args, **kwargs)
            if is_suspended(target):
                return target(*args, **kwargs)
            parameters = bind(family.first().code, target, args, kwargs)
            wrapper = family.resolve(target, parameters, fresh_at_limit=fresh_at_limit)
        call = _Call(self, family, wrapper, naming, target, args, kwargs, eager_on_error, is_inner)
        try:
            return self._run(call, watch)
        except _Rerouted as elsewhere:
            call = replace(call, wrapper=elsewhere.wrapper, settled=True)
        return self._run(call, watch)

    def _run(self, call: _Call, watch: Callable[..., Any] | None) -> Any:
        wrapper, stack, runs, modes = call.wrapper, _calls.stack, _native.runs(), dynamo.modes_on()
        stack.append(call)
        wrapper.cell = state.session.cells
        try:
            if watch is None:
                result = wrapper.function(call.target, *call.args, **call.kwargs)
            else:
                result = watch(wrapper.function, (call.target, *call.args), call.kwargs)
        except _Rerouted:
            stack.pop()
            raise
        except BaseException:
            stack.pop()
            dynamo.set_back(modes)
            self._count(wrapper, failed=True, is_inner=call.is_inner)
            deliver()
            raise
        stack.pop()
        eager = _native.runs() == runs
        self._count(wrapper, eager=eager, hit=not (eager or call.compiled), is_inner=call.is_inner)
        if eager:
            call.family.forget(call.target)
            self._say_eager(call)
        if owed:
            deliver()
        return result

    def _as_it_is(self, family: Family, target: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
        """Run a call of what the user wants eager, with all that it calls."""
        self._count(family.first(), skipped=True)
        with dynamo.callback_off():
            return _native.watch(target, args, kwargs)

    @staticmethod
    def _count(
        wrapper: Wrapper,
        *,
        eager: bool = False,
        hit: bool = False,
        failed: bool = False,
        skipped: bool = False,
        is_inner: bool = False,
    ) -> None:
        """Count a call. An inner one shows what its wrapper is good for; what the user calls is the outer one."""
        if is_inner:
            wrapper.inner_calls += 1
            return
        for each in _calls.counted(wrapper):
            each.calls += 1
            each.failed_calls += failed
            each.eager_calls += eager
            each.skipped_calls += skipped
            each.hits += hit

    def _say_eager(self, call: _Call) -> None:
        wrapper = call.wrapper
        if call.is_inner and wrapper.state != "at limit":
            return  # the outer call ran compiled code, and this part of it is where the graph broke
        if call.reason is not None:
            reason = call.reason
        elif wrapper.state == "at limit":
            reason = wrapper.last_reason or "recompile_limit reached"
        else:
            reason = dynamo.eager_cause() or "torch ran it without compiling"
        if _calls.is_news(wrapper.name, reason):
            state.log.write(EagerCall(wrapper.name, wrapper.target, reason, state.place_of_caller()))


def _inner_call(function: types.FunctionType, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:  # noqa: ARG001
    """Run a module's call that compiled code makes where its graph broke, for the frame hook.

    Torch would compile the module's `forward` on its own, in the one cache of its code object, and under every wrapper
    of the outer call again. It is a call like any other, and has a family.
    """
    stack = _calls.stack
    if not stack or callback_now() is not stack[-1].space.compiler.callback:
        return _native.DECLINE  # eager code, or what somebody else compiles
    return _compiled_inside(stack[-1], args[0], args[1:], kwargs)


def _compiled_inside(outer: _Call, target: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
    if (
        target is outer.target  # the wrapper's own call of it, after a graph break inside
        or not dynamo.is_called_plainly(target)
        or dynamo.is_left_alone(target)
        or dynamo.is_tracing()
        or dynamo.is_uninitialized(target)
        or is_suspended(target)
        or (outer.space.is_skipped(target) and not outer.space.is_unwanted(target))
    ):
        return _native.DECLINE
    return outer.space.call(target, args, kwargs, eager_on_error=outer.eager_on_error, is_inner=True)


@functools.cache
def _route_inner_calls() -> None:
    # No Python may run in the first before it knows whether Dynamo's callback is on, for that would trace it.
    dynamo.keep_out(_inner_call, callees=False)
    dynamo.keep_out(_compiled_inside)
    _native.route_inner(_inner_call, dynamo.MODULE_CALL, dynamo.inner_barrier_codes())


def order_of(target: Any, kwargs: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the order of the keywords that a call passes on by ``**``, where it is not the alphabet's."""
    own: tuple[str, ...] = ()
    if isinstance(target, types.FunctionType):
        code = target.__code__
        own = code.co_varnames[code.co_argcount : code.co_argcount + code.co_kwonlyargcount]
    order = tuple(name for name in kwargs if name not in own)
    return order if list(order) != sorted(order) else ()


def _spend(wrapper: Wrapper, why: str) -> None:
    dynamo.compile_no_more(wrapper.code)
    wrapper.state, wrapper.last_reason = "at limit", f"{why}; a tensor or a buffer would not be compiled for each"


def _is_idle(wrapper: Wrapper) -> bool:
    # A loop may make its targets anew at each step: they are gone, but come again.
    return wrapper.cell != state.session.cells


def _serves(wrapper: Wrapper, parameters: Mapping[str, object]) -> bool:
    return dynamo.has_entry_for(wrapper.code, parameters)


# A space lives as long as somebody compiles with its options, or has: its families hold it.
_spaces: weakref.WeakValueDictionary[Options, Space] = weakref.WeakValueDictionary()
_spaces_lock = threading.Lock()


def space(options: Options) -> Space:
    """Return the one space of an option set."""
    with _spaces_lock:
        found = _spaces.get(options)
        if found is None:
            found = _spaces[options] = Space(options)
        return found


def forget_all() -> None:
    """Make every space look its targets up again."""
    with _spaces_lock:
        for each in list(_spaces.values()):
            each.forget()
        origins.clear()
        skips.clear()
