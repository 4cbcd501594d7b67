"""`compile`: a drop-in for `torch.compile` whose wrappers come from the cache.

A compiled module *is* the module to the rest of the world. It is an instance of a subclass made for the purpose, and
its ``__dict__`` is the module's own: attributes, parameters and hooks set on either are seen by both, ``state_dict``
has the module's keys, and `isinstance` holds. Only the call differs.
"""

from __future__ import annotations

import builtins
import contextlib
import copy
import functools
import inspect
import types
import weakref
from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeVar, overload

from . import _native, dynamo, engine
from .options import Options
from .wrappers import parameters

__all__ = ["compile", "original"]

T = TypeVar("T", bound=Callable[..., Any])


@overload
def compile(target: T, *, include: Iterable[str] = (), **torch_compile_options: Any) -> T: ...


@overload
def compile(
    target: None = None, *, include: Iterable[str] = (), **torch_compile_options: Any
) -> Callable[[T], T]: ...


def compile(target: Any = None, *, include: Iterable[str] = (), **torch_compile_options: Any) -> Any:
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
        class, the class, whose instances are compiled when they are called. Otherwise a function with the target's
        signature.

    Raises
    ------
    OptionsError
        For an option that cannot be obeyed.
    """
    if target is None:
        return functools.partial(compile, include=include, **torch_compile_options)
    options = Options.of(**torch_compile_options)
    if options.disable:
        return target
    target = original(target)
    handle = _Handle(options, (include,) if isinstance(include, str) else tuple(include))
    if dynamo.is_scripted(target):
        raise TypeError(f"{type(target).__name__} is TorchScript; compile the eager module that it was made from")
    if dynamo.is_module(target):
        return _compiled_module(target, handle)
    if inspect.isclass(target):
        return _compiled_class(target, handle)
    if not callable(target):
        raise TypeError(f"compile takes a callable, not {type(target).__name__}")
    return _compiled_function(target, handle)


def original(target: Any) -> Any:
    """Return what `target` was compiled from, by us or by `torch.compile`; `target` itself if it was not."""
    if isinstance(target, _Compiled):
        return target._dynwrap_handle_and_original[1]
    return getattr(target, "_dynwrap_original", None) or dynamo.innermost(target)


class _Handle:
    """What one call of `compile` was asked for."""

    def __init__(self, options: Options, include: tuple[str, ...]) -> None:
        self.options = options
        self.include = include
        self._space = engine.space(options)
        self._called = False

    def __call__(self, target: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
        """Call `target`, compiled."""
        if self.include and self._space.is_skipped(target):
            return self._in_region(target, args, kwargs)
        # A limit that an earlier `compile` has used up is not this one's: it starts with a wrapper of its own.
        fresh, self._called = not self._called, True
        return self._space.call(target, args, kwargs, watch=_native.watch, fresh_at_limit=fresh)

    def _in_region(self, target: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
        from .regions import Region, current

        with Region(self.options, include=self.include) if current() is None else contextlib.nullcontext():
            return target(*args, **kwargs)


# Modules


class _Compiled:
    """Mixed into the class of a compiled module, before the module's own."""

    __slots__ = ()
    _dynwrap_handle_and_original: tuple[_Handle, Any]

    def __init_subclass__(cls, **kwargs: Any) -> None:
        """Do not ask the module's class: it did not define this subclass, and may keep a register of those it did."""

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if dynamo.is_dynamo_tracing():
            return super().__call__(*args, **kwargs)  # type: ignore[misc]
        handle, module = self._dynwrap_handle_and_original
        result = handle(module, args, kwargs)
        if type(module) is not type(self).__mro__[2]:  # a lazy module has become what it stood for
            object.__setattr__(self, "__class__", _compiled_type(type(module)))
        return result

    def __copy__(self) -> Any:
        handle, module = self._dynwrap_handle_and_original
        return _compiled_module(copy.copy(module), handle)

    def __deepcopy__(self, memo: dict[int, Any]) -> Any:
        handle, module = self._dynwrap_handle_and_original
        made = memo[id(self)] = _compiled_module(copy.deepcopy(module, memo), handle)
        return made

    def __reduce_ex__(self, protocol: Any) -> Any:
        handle, module = self._dynwrap_handle_and_original
        return _rebuild, (module, handle.include, dict(handle.options.given))


def _rebuild(module: Any, include: tuple[str, ...], given: dict[str, Any]) -> Any:
    """Compile an unpickled module as the one that was pickled had been."""
    return compile(module, include=include, **given)


# The subclass refers to the class, so it must not be the value of an entry that the class keeps alive.
_types: weakref.WeakKeyDictionary[type, weakref.ref[type]] = weakref.WeakKeyDictionary()


def _compiled_type(cls: type) -> type:
    known = _types.get(cls)
    made = known() if known is not None else None
    if made is None:
        namespace = {
            "__slots__": ("_dynwrap_handle_and_original",),
            "__module__": cls.__module__,
            "__qualname__": cls.__qualname__,
            "__doc__": cls.__doc__,
        }
        # type.__new__, so that a metaclass of the user's does not take this for a class of the user's.
        made = type.__new__(type(cls), cls.__name__, (_Compiled, cls), namespace)
        _types[cls] = weakref.ref(made)
    return made


def _compiled_module(module: Any, handle: _Handle) -> Any:
    made = object.__new__(_compiled_type(type(module)))
    object.__setattr__(made, "__dict__", module.__dict__)
    object.__setattr__(made, "_dynwrap_handle_and_original", (handle, module))
    return made


# Functions, and what is called like one


class _Unset:
    """Stands for an argument that was not given: the function's own default holds, as it is at the call."""

    def __repr__(self) -> str:
        return "..."


_UNSET = _Unset()


def _compiled_function(target: Any, handle: _Handle) -> Any:
    """Return a function with the signature of `target` that calls it compiled."""
    function, prefix = target, ()
    if isinstance(target, types.MethodType) and isinstance(target.__func__, types.FunctionType):
        function, prefix = target.__func__, (target.__self__,)
    if not isinstance(function, types.FunctionType):

        def call_any(*args: Any, **kwargs: Any) -> Any:
            return handle(target, args, kwargs)

        made: Any = call_any
    else:
        made = _with_signature_of(function, prefix, handle)
    functools.update_wrapper(made, target)
    made._dynwrap_original = target
    dynamo.mark_compiled(made, target)
    return made


def _with_signature_of(function: types.FunctionType, prefix: tuple[Any, ...], handle: _Handle) -> Any:
    """Return a function with the parameters of `function`, so that Python itself binds the arguments."""
    code = function.__code__
    with_default = set(code.co_varnames[: code.co_argcount][code.co_argcount - len(function.__defaults__ or ()) :])
    with_default |= set(function.__kwdefaults__ or ())
    own = parameters(code, skip=len(prefix), default=dict.fromkeys(with_default, "_unset"))

    def call(args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        if any(each is _UNSET for each in args) or any(each is _UNSET for each in kwargs.values()):
            args, kwargs = _with_defaults(function, len(prefix), args, kwargs)
        return handle(function, (*prefix, *args), kwargs)

    namespace: dict[str, Any] = {"_call": call, "_unset": _UNSET, "__name__": "ipy_dynwrap.generated"}
    positional = "".join(f"{name}, " for name in own.positional)
    keywords = ", ".join([*(f"{name!r}: {name}" for name in own.keyword_only), *own.rest])
    source = f"def bound({own.declared}):\n    return _call(({positional}), {{{keywords}}})\n"
    exec(builtins.compile(source, "<ipy_dynwrap signature>", "exec"), namespace)
    return namespace["bound"]


def _with_defaults(
    function: types.FunctionType, skip: int, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Put the defaults that `function` has now where no argument was given."""
    count, defaults = function.__code__.co_argcount - skip, function.__defaults__ or ()
    filled = list(args)
    for index, value in enumerate(args[:count]):
        if value is _UNSET:
            filled[index] = defaults[index - count]
    own = function.__kwdefaults__ or {}
    return tuple(filled), {name: own[name] if value is _UNSET else value for name, value in kwargs.items()}


# Classes


def _compiled_class(cls: Any, handle: _Handle) -> Any:
    """Make the instances of `cls` compiled when they are called; `cls` itself is changed, as by `torch.compile`."""
    call = cls.__call__
    if isinstance(call, types.FunctionType) and call.__code__ is dynamo.module_call_code():
        # All modules share this code object; a copy of it is what tells the classes apart.
        code = call.__code__.replace(co_name=cls.__name__, co_qualname=f"{cls.__qualname__}.__call__")
        call = functools.wraps(call)(types.FunctionType(code, call.__globals__, cls.__name__))
        call.__qualname__ = f"{cls.__qualname__}.__call__"

    @functools.wraps(call)
    def compiled_call(self: Any, *args: Any, **kwargs: Any) -> Any:
        if dynamo.is_dynamo_tracing():
            return call(self, *args, **kwargs)
        return handle(call, (self, *args), kwargs)

    cls.__call__ = compiled_call
    return cls
