"""`compile`: a drop-in for `torch.compile` whose wrappers come from the cache."""

from __future__ import annotations

import functools
import inspect
import types
from collections.abc import Callable, Iterable
from typing import Any, TypeVar, overload

from . import dynamo
from .compiled_function import compiled_function
from .compiled_module import Compiled, Forward, compiled_module
from .handle import Handle
from .options import Options, OptionsError

__all__ = ["compile", "handle_of", "original"]

T = TypeVar("T", bound=Callable[..., Any])


@overload
def compile(  # noqa: A001 - the public name, as torch.compile's
    target: T, *, include: Iterable[str] = (), **torch_compile_options: Any
) -> T: ...


@overload
def compile(  # noqa: A001 - the same
    target: None = None, *, include: Iterable[str] = (), **torch_compile_options: Any
) -> Callable[[T], T]: ...


def compile(  # noqa: A001 - the same
    target: Any = None, *, include: Iterable[str] = (), **torch_compile_options: Any
) -> Any:
    """Compile a callable, as `torch.compile` does, with a wrapper from the cache.

    Parameters
    ----------
    target
        A module, function, method, class or other callable; None to get a decorator.
    include
        Names of further modules whose functions are compiled on their own where the target itself cannot be.
    **torch_compile_options
        As of `torch.compile`.

    Returns
    -------
    callable
        For a module, an object that behaves as the module does, its ``forward`` compiled, too; the module itself stays
        eager when it is called. For a class, the class, whose instances are compiled when they are called. For an
        ``async`` or a generator function, itself. Otherwise a function with the target's signature.

    Raises
    ------
    OptionsError
        For an option that cannot be obeyed, ``fullgraph`` for a generator function among them.
    """
    if dynamo.is_dynamo_tracing():
        return _as_it_is if target is None else target  # what calls it is being compiled, with all that it calls
    if target is None:
        return functools.partial(compile, include=include, **torch_compile_options)
    options = Options.of(**torch_compile_options)
    if options.disable:
        return target
    target = original(target)
    if dynamo.is_scripted(target):
        raise TypeError(f"{type(target).__name__} is TorchScript; compile the eager module that it was made from")
    if not callable(target):
        raise TypeError(f"compile takes a callable, not {type(target).__name__}")
    if inspect.iscoroutinefunction(target) or inspect.isasyncgenfunction(target):
        return target  # torch compiles no coroutine; traced through a wrapper it would run at once
    if inspect.isgeneratorfunction(target):
        if options.fullgraph:
            raise OptionsError(f"torch compiles no generator such as {target.__qualname__}; leave out fullgraph")
        return target  # the same; one without an end would never come back
    dynamo.check_settings()
    _keep_dynamo_out()
    handle = Handle(options, (include,) if isinstance(include, str) else tuple(include))
    if dynamo.is_module(target):
        return compiled_module(target, handle)
    if inspect.isclass(target):
        return _compiled_class(target, handle)
    return compiled_function(target, handle)


def _as_it_is(target: Any) -> Any:
    return target


def original(target: Any) -> Any:
    """Return what `target` was compiled from, by us or by `torch.compile`; `target` itself if it was not."""
    if isinstance(target, Compiled):
        return target._dynwrap_handle_and_original[1]  # noqa: SLF001 - ours
    return dynamo.innermost(target)


def handle_of(target: Any) -> Handle | None:
    """Return the handle through which `target` calls, if it is a result of `compile`."""
    if isinstance(target, Compiled):
        return target._dynwrap_handle_and_original[0]  # noqa: SLF001 - ours
    marks = getattr(target, "__dict__", {})
    # `functools.wraps` copies the marks of a compiled function to one that is not.
    own = isinstance(target, types.FunctionType) and marks.get("_torchdynamo_wrapper_id") == id(target)
    return marks.get("_dynwrap_handle") if own else None


@functools.cache
def _keep_dynamo_out() -> None:
    """Have Dynamo run our own frames as they are: it meets them where a function that `torch.compile` runs calls us."""
    for function in (compile, Handle.__call__, Compiled.__call__, Forward.__get__):
        dynamo.keep_out(function, traced_through=True)


# Classes


def _compiled_class(cls: Any, handle: Handle) -> Any:
    """Make the instances of `cls` compiled when they are called; `cls` itself is changed, as by `torch.compile`."""
    if not any("__call__" in vars(base) for base in cls.__mro__):
        if type(cls).__call__ is not type.__call__:
            return cls  # what a call of the class itself does is its metaclass's business, as for `torch.compile`
        raise TypeError(f"instances of {cls.__qualname__} are not callable")
    call = cls.__call__
    if isinstance(call, types.FunctionType) and call.__code__ is dynamo.MODULE_CALL:
        # All modules share this code object; a copy of it is what tells the classes apart.
        code = call.__code__.replace(co_name=cls.__name__)
        call = functools.wraps(call)(types.FunctionType(code, call.__globals__, cls.__name__))
        call.__qualname__ = f"{cls.__qualname__}.__call__"

    @functools.wraps(call)
    def compiled_call(self: Any, *args: Any, **kwargs: Any) -> Any:
        if dynamo.is_dynamo_tracing():
            return call(self, *args, **kwargs)
        return handle(call, (self, *args), kwargs)

    cls.__call__ = dynamo.keep_out(compiled_call, traced_through=True)
    return cls
