"""Completion in the lines of `%%compile`, `%compile` and `%dynwrap`."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable
from types import ModuleType
from typing import TYPE_CHECKING, cast

from IPython.core.completer import SimpleCompletion, context_matcher

from . import arguments, state
from .magics import COMMANDS

if TYPE_CHECKING:
    from IPython.core.completer import CompletionContext, SimpleMatcherResult
    from IPython.core.interactiveshell import InteractiveShell

__all__ = ["matcher"]

# What there is of each while torch is not imported, which nobody wants to wait for at a key.
BACKENDS = ("aot_eager", "eager", "inductor")
MODES = ("default", "max-autotune", "max-autotune-no-cudagraphs", "reduce-overhead")
STANCES = (
    "aot_eager_then_compile",
    "default",
    "eager_on_recompile",
    "eager_then_compile",
    "fail_on_recompile",
    "force_eager",
)


def matcher(shell: InteractiveShell) -> Callable[[CompletionContext], SimpleMatcherResult]:
    """Return a matcher for the completer of `shell`."""

    @context_matcher(identifier="ipy_dynwrap")  # type: ignore[untyped-decorator]
    def match(context: CompletionContext) -> SimpleMatcherResult:
        before = context.text_until_cursor[: len(context.text_until_cursor) - len(context.token)]
        found = sorted({each for each in _candidates(before, shell) if each.startswith(context.token)})
        # Names of variables are of no use where an option or a command stands.
        result = {"completions": [SimpleCompletion(each, type="magic") for each in found], "suppress": bool(found)}
        return cast("SimpleMatcherResult", result)

    function: Callable[[CompletionContext], SimpleMatcherResult] = match
    return function


def _candidates(before: str, shell: InteractiveShell) -> Iterable[str]:
    """Return what may stand after `before`, the part of the line that is complete."""
    magic, _, rest = before.lstrip().partition(" ")
    given = rest.replace("=", " ").split()
    match magic, given:
        case "%dynwrap", []:
            return COMMANDS
        case "%dynwrap", ["why" | "reset" | "skip"]:
            return {*_compiled(), *_callables(shell)}
        case "%%compile" | "%compile", [*_, last] if last.removeprefix("--") in arguments.VALUED and last[:2] == "--":
            return _values(last.removeprefix("--"), shell)
        # The options of `%compile` stand before its statement.
        case ("%%compile", _) | ("%compile", _) if magic == "%%compile" or not arguments.split(rest)[1]:
            return _options()
    return ()


def _options() -> list[str]:
    switches = [f"--{prefix}{name}" for name in arguments.SWITCHES for prefix in ("", "no-")]
    return [*(f"--{name}" for name in arguments.VALUED), *switches, "--help"]


def _values(option: str, shell: InteractiveShell) -> Iterable[str]:
    dynamo = sys.modules.get("ipy_dynwrap.dynamo")
    match option:
        case "backend":
            return BACKENDS if dynamo is None else dynamo.backends()
        case "mode":
            return MODES if dynamo is None else dynamo.modes()
        case "stance":
            return STANCES
        case "include":
            return {each.__name__ for each in dict(shell.user_ns).values() if isinstance(each, ModuleType)}
    return {*_compiled(), *_callables(shell)}  # exclude


def _compiled() -> Iterable[str]:
    """Return the names of what has been called compiled."""
    return {wrapper.target.removesuffix(".forward") for wrapper in state.cache}


def _callables(shell: InteractiveShell) -> Iterable[str]:
    """Return the names that the notebook has given to callables: functions, classes and models."""
    return {
        name
        for name, value in dict(shell.user_ns).items()
        if callable(value) and not name.startswith("_") and name not in shell.user_ns_hidden
    }
