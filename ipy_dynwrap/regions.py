"""A region: the stretch of a program in which calls are routed to their wrappers. It owns the hook and the cleanup."""

from __future__ import annotations

import contextlib
import contextvars
import os
import sys
import threading
import time
import weakref
from collections.abc import Iterable, Iterator, Mapping
from types import FunctionType, TracebackType
from typing import TYPE_CHECKING, Any

from . import _native, cell_runs, dynamo, engine, state
from .cache import Totals
from .events import CompileFinished, EagerCall, Event, GraphBreak, Notice
from .notices import Breakpoints, ignored_options
from .options import Options
from .routing import Policy, target_of
from .snapshot import Report
from .tracebacks import strip

if TYPE_CHECKING:
    from typing_extensions import Self

__all__ = ["Region", "RegionError", "current", "region"]

_current: contextvars.ContextVar[Region | None] = contextvars.ContextVar("ipy_dynwrap.region", default=None)
_open: weakref.WeakSet[Region] = weakref.WeakSet()


class RegionError(RuntimeError):
    """A region that cannot be entered; the message is one sentence."""


def current() -> Region | None:
    """Return the region that is open in this thread and context, or None."""
    found = _current.get()
    return found if found is not None and found.open else None


def any_open() -> bool:
    """Tell whether a region is open anywhere in the process."""
    return any(each.open for each in tuple(_open))


def region(*, include: Iterable[str] = (), exclude: Iterable[str] = (), **torch_compile_options: Any) -> Region:
    """Compile what a with-block calls: ``%%compile`` for scripts.

    Parameters
    ----------
    include
        Names of further modules whose functions are routed, as those of the calling module and of ``__main__`` are.
    exclude
        Names of functions and classes that are not routed.
    **torch_compile_options
        As of `torch.compile`.

    Returns
    -------
    Region
        A context manager, to be entered once.

    Raises
    ------
    OptionsError
        For an option that cannot be obeyed.

    Examples
    --------
    >>> with ipy_dynwrap.region(backend="inductor") as r:  # doctest: +SKIP
    ...     loss = loss_fn(model(x), y)
    >>> r.report.compiles  # doctest: +SKIP
    2
    """
    caller = sys._getframe(1).f_globals.get("__name__")  # noqa: SLF001 - documented, if not for every Python
    own = (caller,) if isinstance(caller, str) else ()
    made = Region(Options.of(**torch_compile_options), include=(*_names(include), *own), exclude=_names(exclude))
    made.checked -= {*own}  # it is where the code is, imported or not
    return made


def _names(names: Iterable[str]) -> tuple[str, ...]:
    return (names,) if isinstance(names, str) else tuple(names)


class Region:
    """A context manager in which calls are routed. Use `region`, or ``%%compile``.

    Parameters
    ----------
    options
        The compile options.
    include, exclude
        As in `region`.
    stance
        A stance for the region (`torch.compiler.set_stance`).
    """

    def __init__(
        self, options: Options, include: Iterable[str] = (), exclude: Iterable[str] = (), stance: str | None = None
    ) -> None:
        self._options = options
        self._include, self._exclude = tuple(include), tuple(exclude)
        self._policy = Policy.of(
            frozenset({"__main__", *self._include}), frozenset(name.removesuffix(".forward") for name in self._exclude)
        )
        self.checked = frozenset((*self._include, *self._exclude))
        """Names that the user is told of if nothing has them."""
        self._stance = dynamo.set_stance(stance) if stance is not None else None
        self._space = engine.space(options)
        self._cleanup: contextlib.ExitStack | None = None
        self._report: Report | None = None
        self._notes = _Notes()
        self._breakpoints: Breakpoints | None = None
        self._counts = Totals()
        self._begun = time.perf_counter()
        self._run: cell_runs.Run | None = None
        self._failed = False

    def __repr__(self) -> str:
        if self.open:
            state = "open"
        elif self._report is None:
            state = "not entered yet"
        else:
            state = f"left, calls={self._report.calls}, compiles={self._report.compiles}"
        return f"<ipy_dynwrap.region ({self._options.label}): {state}>"

    @property
    def open(self) -> bool:
        """Whether the region is entered and not left."""
        return self._cleanup is not None

    @property
    def options(self) -> Options:
        """The compile options."""
        return self._options

    @property
    def report(self) -> Report:
        """What happened in the region, so far if it is open."""
        if self._report is not None:
            return self._report
        done = self._counts
        return Report(
            calls=done.calls,
            hits=done.hits,
            failed_calls=done.failed_calls,
            skipped_calls=done.skipped_calls,
            compiles=done.compiles,
            recompiles=done.recompiles,
            eager_calls=done.eager_calls,
            graph_breaks=done.graph_breaks,
            compile_seconds=done.compile_seconds,
            seconds=time.perf_counter() - self._begun,
            reasons=tuple(self._notes.reasons),
            notices=self._notices(),
        )

    def _notices(self) -> tuple[str, ...]:
        ignored = ignored_options(self._options) if self._counts.compiles else ()
        return (*ignored, *self._notes.notices)

    def __enter__(self) -> Self:
        with dynamo.callback_off():
            self._enter()
        return self

    def _enter(self) -> None:
        if self.open or self._report is not None:
            raise RegionError("a region is entered once; make a new one")
        if current() is not None:
            raise RegionError("a compile region is already open here; leave it before you enter another")
        if (why := _native.unavailable_reason()) is not None:
            raise RegionError(f"no compile region here: {why}; ipy_dynwrap.compile still works")
        with contextlib.ExitStack() as cleanup:
            self._begun = time.perf_counter()
            self._counts, end = engine.tally()
            cleanup.callback(end)
            self._notes = _Notes()
            self._breakpoints = Breakpoints() or None
            cleanup.callback(state.log.subscribe(self._notes))
            if self._stance is not None:
                cleanup.enter_context(self._stance)
            token = _current.set(self)
            cleanup.callback(_reset, token)
            if not self._options.disable:
                import torch

                handle = _native.enter(self._policy.decide, self._route, torch.Tensor, self._policy.number)
                cleanup.callback(_native.leave, handle)
            self._run = None if cell_runs.in_cell() else cell_runs.Run()
            self._cleanup = cleanup.pop_all()
        _open.add(self)

    def __exit__(
        self,
        kind: type[BaseException] | None = None,
        error: BaseException | None = None,
        trace: TracebackType | None = None,
    ) -> None:
        self._failed = error is not None
        self.close()

    def close(self) -> None:
        """Leave the region; nothing happens if it is not open."""
        with dynamo.callback_off():
            cleanup, self._cleanup = self._cleanup, None
            if cleanup is not None:
                _open.discard(self)
                try:
                    cleanup.close()
                finally:
                    if not self._failed:
                        self._notes.notices.update(dict.fromkeys(self._idle_names()))
                    self._report = self.report
                    if self._report.compiles:
                        dynamo.forget_instructions()
                    if self._run is not None:
                        self._run.end(failed=self._failed, report=self._report)

    def _idle_names(self) -> Iterator[str]:
        for name in self._include:
            if name in self.checked and name not in sys.modules:
                yield f"nothing was included from {name}: no module of that name is imported"
        for name in self._exclude:
            if name in self.checked and name.removesuffix(".forward") not in self._policy.met:
                yield f"nothing was excluded as {name}: no call of that name would be compiled on its own"

    def abandon(self) -> None:
        """Count as left, without undoing anything: a child process has the hook off already."""
        self._cleanup = None

    def _route(self, function: FunctionType, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
        """Run one outermost call, for the frame hook."""
        found = target_of(function, args)
        if found is None:
            return _native.DECLINE
        target, rest = found
        if dynamo.is_left_alone(target) or dynamo.is_tracing():
            return _native.DECLINE_ALL
        excluded = target is not function and self._policy.excludes(type(target).__qualname__)
        if excluded or dynamo.is_called_by_autograd(args):
            return _native.DECLINE
        if self._space.is_skipped(target):
            return _native.DECLINE if self._space.pass_over(target) else _native.DECLINE_ALL
        eager = self._counts.eager_calls
        try:
            result = self._space.call(target, rest, kwargs, eager_on_error=True)
        except BaseException as error:
            strip(error)
            raise
        if self._breakpoints and self._counts.eager_calls == eager:
            self._notes.notices.update(dict.fromkeys(self._breakpoints.missed_by(target)))
        return result


def _reset(token: contextvars.Token[Region | None]) -> None:
    try:
        _current.reset(token)
    except ValueError:
        # Left in another context than it was entered in (a task that was cancelled, a generator that was closed). What
        # the other context still names is closed, and `current` sees that.
        _current.set(None)


# A region may be entered, and calls routed, while Dynamo looks at the code around it. Entering and leaving take its
# callback off themselves, for which it has to be there.
dynamo.keep_out(region)
dynamo.keep_out(Region._route)  # noqa: SLF001 - this module's own
for _each in (Region.__enter__, Region.__exit__, Region.close):
    dynamo.keep_out(_each, callees=False)


class _Notes:
    """What the user should hear about at the end, each once: of what his own thread did."""

    def __init__(self) -> None:
        self._thread = threading.get_ident()
        self.reasons: dict[str, None] = {}
        self.notices: dict[str, None] = {}

    def __call__(self, event: Event) -> None:
        if threading.get_ident() != self._thread:
            return
        match event:
            case CompileFinished(outcome="compiled", reasons=(first, *_)):
                self.reasons[f"{event.target}: {first}"] = None
            case EagerCall():
                self.notices[f"{event.target} ran eager: {event.reason}"] = None
            case Notice():
                self.notices[f"{event.target}: {event.text}"] = None
            case GraphBreak():
                where = f" at {event.place}" if event.place else ""
                self.notices[f"graph break in {event.target}{where}: {event.reason}"] = None


def _after_fork() -> None:
    """In a child process nothing is routed: a DataLoader's worker runs what eager would."""
    _native.after_fork()
    for each in tuple(_open):
        each.abandon()
    _open.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
