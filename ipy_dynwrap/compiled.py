"""`compile`: a drop-in for `torch.compile` whose wrappers come from the cache."""

from __future__ import annotations

import builtins
import functools
import inspect
import itertools
import types
from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeVar, overload

from . import dynamo
from .compiled_module import Compiled, compiled_module
from .handle import Handle
from .options import Options, OptionsError
from .wrappers import parameters

__all__ = ["compile", "original"]

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
        For a module, an object that behaves as the module does; the module itself stays eager when it is called. For a
        class, the class, whose instances are compiled when they are called. For an ``async`` or a generator function,
        itself. Otherwise a function with the target's signature.

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
    _keep_dynamo_out()
    handle = Handle(options, (include,) if isinstance(include, str) else tuple(include))
    if dynamo.is_module(target):
        return compiled_module(target, handle)
    if inspect.isclass(target):
        return _compiled_class(target, handle)
    return _compiled_function(target, handle)


def _as_it_is(target: Any) -> Any:
    return target


def original(target: Any) -> Any:
    """Return what `target` was compiled from, by us or by `torch.compile`; `target` itself if it was not."""
    if isinstance(target, Compiled):
        return target._dynwrap_handle_and_original[1]  # noqa: SLF001 - ours
    return dynamo.innermost(target)


@functools.cache
def _keep_dynamo_out() -> None:
    """Have Dynamo run our own frames as they are: it meets them where a function that `torch.compile` runs calls us."""
    for function in (compile, Handle.__call__, Compiled.__call__):
        dynamo.keep_out(function, traced_through=True)


class _Unset:
    """Stands for an argument that was not given: the function's own default holds, as it is at the call."""

    def __repr__(self) -> str:
        return "..."


_UNSET = _Unset()


def _compiled_function(target: Any, handle: Handle) -> Any:
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
    exec(builtins.compile(source, "<ipy_dynwrap signature>", "exec"), namespace)  # noqa: S102 - made above, of names
    bound = namespace["make"](dynamo.keep_out(call, traced_through=True), _UNSET)
    return dynamo.keep_out(bound, traced_through=True)


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
