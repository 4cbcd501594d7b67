"""A compiled function: one with the signature of what it compiles, which it calls through its handle."""

from __future__ import annotations

import builtins
import functools
import itertools
import types
from collections.abc import Mapping
from typing import Any

from . import dynamo
from .handle import Handle
from .wrappers import parameters

__all__ = ["compiled_function"]


class _Unset:
    """Stands for an argument that was not given: the function's own default holds, as it is at the call."""

    def __repr__(self) -> str:
        return "..."


_UNSET = _Unset()


def compiled_function(target: Any, handle: Handle) -> Any:
    """Return a function with the signature of `target` that calls it compiled."""
    function = target
    prefix: tuple[Any, ...] = ()
    if isinstance(target, types.MethodType) and isinstance(target.__func__, types.FunctionType):
        function, prefix = target.__func__, (target.__self__,)
    if not isinstance(function, types.FunctionType):

        def call_any(*args: Any, **kwargs: Any) -> Any:
            if dynamo.is_dynamo_tracing():
                return target(*args, **kwargs)
            return handle(target, args, kwargs)

        made: Any = dynamo.keep_out(call_any, traced_through=True)
    else:
        made = _with_signature_of(function, prefix, handle)
    functools.update_wrapper(made, target)
    dynamo.mark_compiled(made, target)
    made._dynwrap_handle = handle  # noqa: SLF001 - ours
    return made


def _with_signature_of(function: types.FunctionType, prefix: tuple[Any, ...], handle: Handle) -> Any:
    """Return a function with the parameters of `function`, so that Python itself binds the arguments."""
    code = function.__code__
    names = code.co_varnames
    call_name, unset = itertools.islice((name for i in itertools.count() if (name := f"_{i}") not in names), 2)
    with_default = set(names[: code.co_argcount][code.co_argcount - len(function.__defaults__ or ()) :])
    with_default |= set(function.__kwdefaults__ or ())
    own = parameters(code, skip=len(prefix), default=dict.fromkeys(with_default, unset))

    def call(args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        if any(each is _UNSET for each in args) or any(each is _UNSET for each in kwargs.values()):
            args, kwargs = _with_defaults(function, prefix, args, kwargs)
        if dynamo.is_dynamo_tracing():
            return function(*prefix, *args, **kwargs)
        return handle(function, (*prefix, *args), kwargs)

    positional = "".join(f"{name}, " for name in own.positional)
    keywords = ", ".join([*(f"{name!r}: {name}" for name in own.keyword_only), *own.rest])
    # Free variables, not globals: where Dynamo looks through this, it looks globals up in the module of that name.
    source = (
        f"def make({call_name}, {unset}):\n"
        f"    def bound({own.declared}):\n"
        f"        return {call_name}(({positional}), {{{keywords}}})\n"
        f"    return bound\n"
    )
    namespace: dict[str, Any] = {"__name__": "ipy_dynwrap.generated"}
    exec(_compiled_source(source), namespace)  # noqa: S102 - made above, of names
    bound = namespace["make"](dynamo.keep_out(call, traced_through=True), _UNSET)
    return dynamo.keep_out(bound, traced_through=True)


@functools.lru_cache(maxsize=256)
def _compiled_source(source: str) -> types.CodeType:
    """Compile the source of a signature; a compiled module makes one each time that it is asked for its ``forward``."""
    return builtins.compile(source, "<ipy_dynwrap signature>", "exec")


def _with_defaults(
    function: types.FunctionType, prefix: tuple[Any, ...], args: tuple[Any, ...], kwargs: dict[str, Any]
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Put the defaults that `function` has now where no argument was given."""
    names = function.__code__.co_varnames[len(prefix) : function.__code__.co_argcount]
    defaults = function.__defaults__ or ()
    by_name = dict(zip(names[len(names) - len(defaults) :], defaults, strict=False))

    def filled(name: str, value: Any, defaults: Mapping[str, Any]) -> Any:
        if value is not _UNSET:
            return value
        if name not in defaults:
            raise TypeError(f"{function.__qualname__}() missing the argument {name!r}, which has no default any more")
        return defaults[name]

    positional = [filled(name, value, by_name) for name, value in zip(names, args, strict=False)]
    # A name that is only positional may also be a keyword of ``**kwargs``: the two are kept apart.
    keywords = {name: filled(name, value, function.__kwdefaults__ or {}) for name, value in kwargs.items()}
    return (*positional, *args[len(names) :]), keywords
