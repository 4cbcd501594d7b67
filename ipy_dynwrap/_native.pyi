"""The frame hook: a PEP 523 evaluator that hands chosen calls to Python, and counts runs of chosen code.

Built from ``csrc/frame_hook.c`` (the hook), ``csrc/facts.c`` (facts about classes and functions), ``csrc/places.c``
(where code stands) and ``csrc/binding.cpp`` (conversion); the contracts are in the headers.
"""

from collections.abc import Callable, Iterable, Mapping
from contextvars import Context
from types import CodeType, FunctionType
from typing import Any, Final, TypeVar, final
from weakref import ref

_T = TypeVar("_T")

PASS: Final[int]
"""The code runs as it is; what it calls may be routed."""
ROUTE: Final[int]
"""Each call of the code is routed."""
ROUTE_CARRIER: Final[int]
"""Routed is a call that receives an instance of the carrier type, directly or in lists, tuples and dict values."""
BARRIER: Final[int]
"""The code runs as it is, and nothing that it calls is routed."""

DECLINE: Final[object]
"""Returned by `route`: run the frame as it is, and go on watching."""
DECLINE_ALL: Final[object]
"""Returned by `route`: run the frame as a barrier."""

@final
class Region:
    """What `enter` returns and `leave` takes."""

    @property
    def open(self) -> bool: ...

def unavailable_reason() -> str | None:
    """Why the hook cannot work here, in one sentence without a full stop; None if it can."""

def enter(
    decide: Callable[[CodeType, FunctionType], int],
    route: Callable[[FunctionType, tuple[Any, ...], dict[str, Any]], object],
    carrier: type,
    policy: int,
) -> Region:
    """Switch a region on for this thread and context, and for contexts copied from it, on this thread.

    Parameters
    ----------
    decide
        Gives the verdict about a code object; asked once per code object and `policy`. If it raises, the error is
        written as unraisable and the code passes; what is no `Exception` (``KeyboardInterrupt``) becomes the call's.
    route
        Called with function, positional and keyword arguments instead of running a frame. No region routes on this
        thread meanwhile.
    carrier
        The type that `ROUTE_CARRIER` looks for.
    policy
        A number of 0 or more, the same only where `decide` would answer the same.

    Raises
    ------
    RuntimeError
        Where the hook cannot work; the message is `unavailable_reason`'s.
    """

def leave(region: Region) -> None:
    """Switch a region off, from any thread and context; nothing happens if it is off already."""

def route_inner(
    route: Callable[[FunctionType, tuple[Any, ...], dict[str, Any]], object],
    code: CodeType,
    barriers: Iterable[CodeType],
) -> None:
    """Route calls of `code` inside of routed calls and watches, in any thread, from now on.

    Parameters
    ----------
    route
        As in `enter`. It replaces that of an earlier call.
    code
        The code object whose calls are routed.
    barriers
        Code objects inside of whose calls nothing is.
    """

def watch(callable: Callable[..., _T], args: tuple[Any, ...], kwargs: Mapping[str, Any] | None = None) -> _T:  # noqa: A002 (the name is the field's)
    """Call with the evaluator in place, so that tracked code is counted, and no region routing."""

def track(code: CodeType) -> None:
    """Count and time the runs of this code object from now on, in all threads. It is not routed any more."""

def stats(code: CodeType) -> tuple[int, int]:
    """Return runs and nanoseconds of a tracked code object, nested runs included."""

def runs() -> int:
    """Return how many runs of tracked code this thread has begun."""

def forget(code: CodeType) -> None:
    """Drop verdict and counts of a code object, and track it no longer."""

def installed() -> bool:
    """Whether our evaluator is in the interpreter's chain of evaluators."""

def evaluator() -> int:
    """Return the address of the interpreter's present evaluator."""

def after_fork() -> None:
    """Leave all regions and restore the evaluator. Runs by itself in a forked child and before the interpreter ends."""

def thread_context(thread_id: int) -> Context | None:
    """Return the current context of the thread with this identifier, or None. Copy it: the thread goes on."""

def versions(references: tuple[ref[type], ...]) -> bytes:
    """Return the version tags of classes, which change when an attribute of the class or of a base is set."""

def parts(references: tuple[ref[FunctionType], ...]) -> tuple[object, ...]:
    """Return code, defaults and keyword-only defaults of functions, side by side."""

def same_parts(references: tuple[ref[FunctionType], ...], parts: tuple[object, ...]) -> bool:
    """Tell whether the functions still have the very same parts."""

def move(code: CodeType, like: CodeType) -> bytes | None:
    """Make a code object stand in the file and the lines of another one with the same instructions.

    Returns
    -------
    bytes or None
        The former line table; keep it as long as `code` lives, for tracers may point into it. None where nothing can be
        done and nothing was changed.
    """
