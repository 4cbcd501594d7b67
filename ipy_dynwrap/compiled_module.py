"""A compiled module that *is* the module to the rest of the world.

It is an instance of a subclass made for the purpose, and its ``__dict__`` is the module's own: attributes, parameters
and hooks set on either are seen by both, ``state_dict`` has the module's keys, and `isinstance` holds. Only the call
differs.
"""

from __future__ import annotations

import abc
import copy
import types
import weakref
from typing import Any

from . import dynamo
from .compiled_function import compiled_function
from .handle import Handle
from .keys import is_suspended

__all__ = ["Compiled", "Forward", "compiled_module"]


class Forward:
    """``compile(module).forward`` is ``compile(module.forward)``: as in eager, it fires no hooks of the module.

    The class's ``forward`` stays the module's: libraries ask it for its signature, and `super` goes past this.
    """

    def __get__(self, made: Compiled | None, cls: type[Compiled]) -> Any:
        if made is None:
            return cls._dynwrap_class.forward  # type: ignore[attr-defined]
        if dynamo.is_dynamo_tracing():
            # Bound to what is being traced: Dynamo would take the module for a second object with a state of its own.
            return vars(made)["forward"] if "forward" in vars(made) else super(Compiled, made).forward  # type: ignore[misc]
        handle, module = made._dynwrap_handle_and_original  # noqa: SLF001 - ours
        forward = dynamo.innermost(module.forward)
        return forward if is_suspended(getattr(forward, "__func__", forward)) else compiled_function(forward, handle)

    def __set__(self, made: Any, value: object) -> None:
        vars(made)["forward"] = value

    def __delete__(self, made: Any) -> None:
        if "forward" not in vars(made):
            raise AttributeError("forward")
        del vars(made)["forward"]


class Compiled:
    """Mixed into the class of a compiled module, before the module's own."""

    __slots__ = ()
    _dynwrap_handle_and_original: tuple[Handle, Any]
    _dynwrap_class: type
    forward = Forward()

    def __init_subclass__(cls, **kwargs: Any) -> None:
        """Do not ask the module's class: it did not define this subclass, and may keep a register of those it did."""

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Call the module, compiled."""
        if dynamo.is_dynamo_tracing():
            return super().__call__(*args, **kwargs)  # type: ignore[misc]
        handle, module = self._dynwrap_handle_and_original
        result = handle(module, args, kwargs)
        if type(module) is not self._dynwrap_class:  # a lazy module has become what it stood for
            _set_class(self, _type_for(type(module)))
        return result

    @property
    def __class__(self) -> type:
        """The module's class, to who asks by name; who sets it (a parametrization) sets the module's."""
        if dynamo.is_tracing():
            return type(self)  # Dynamo looks attributes up in this and takes their sources from the real one
        return type(self._dynwrap_handle_and_original[1])

    @__class__.setter
    def __class__(self, cls: type) -> None:
        self._dynwrap_handle_and_original[1].__class__ = cls
        _set_class(self, _type_for(cls))

    def __copy__(self) -> Any:
        handle, module = self._dynwrap_handle_and_original
        return compiled_module(copy.copy(module), handle)

    def __deepcopy__(self, memo: dict[int, Any]) -> Any:
        handle, module = self._dynwrap_handle_and_original
        made = memo[id(self)] = compiled_module(copy.deepcopy(module, memo), handle)
        return made

    def __reduce_ex__(self, protocol: Any) -> Any:
        handle, module = self._dynwrap_handle_and_original
        return _rebuild, (module, handle.include, dict(handle.options.given))


def _set_class(made: object, cls: type) -> None:
    vars(object)["__class__"].__set__(made, cls)


def _rebuild(module: Any, include: tuple[str, ...], given: dict[str, Any]) -> Any:
    """Compile an unpickled module as the one that was pickled had been."""
    from .compiled import compile  # noqa: A004 - the public name

    return compile(module, include=include, **given)


class _WithSlot(Compiled):
    # Here and not in each class that is made, so that those of a lazy module and of what it becomes are laid out alike.
    __slots__ = ("_dynwrap_handle_and_original",)


# The subclass refers to the class, so it must not be the value of an entry that the class keeps alive.
_types: weakref.WeakKeyDictionary[type, weakref.ref[type]] = weakref.WeakKeyDictionary()


def _type_for(cls: type) -> type:
    known = _types.get(cls)
    made = known() if known is not None else None
    if made is None:
        slots = _slots_of_the_module(cls)
        namespace: dict[str, Any] = {
            # Two bases with slots cannot be laid out together.
            "__slots__": ("_dynwrap_handle_and_original",) if slots else (),
            "__module__": cls.__module__,
            "__qualname__": cls.__qualname__,
            "__doc__": cls.__doc__,
            "_dynwrap_class": cls,
            **slots,
        }
        if hasattr(cls, "__del__"):
            namespace["__del__"] = _outlived
        # Not by the metaclass itself, which would take this for a class of the user's.
        maker = abc.ABCMeta if issubclass(type(cls), abc.ABCMeta) else type
        bases = (Compiled if slots else _WithSlot, cls)
        made = maker.__new__(type(cls), cls.__name__, bases, namespace)
        _types[cls] = weakref.ref(made)
    return made


def _outlived(self: object) -> None:
    """End in place of the module, which lives on."""


def _slots_of_the_module(cls: type) -> dict[str, property]:
    """Return properties that reach the module's own slots: what is in them is not in the shared ``__dict__``."""

    def reach(slot: types.MemberDescriptorType) -> property:
        def get(self: Any) -> Any:
            return slot.__get__(self._dynwrap_handle_and_original[1])

        def put(self: Any, value: Any) -> None:
            slot.__set__(self._dynwrap_handle_and_original[1], value)

        def delete(self: Any) -> None:
            slot.__delete__(self._dynwrap_handle_and_original[1])

        return property(get, put, delete)

    return {
        name: reach(slot)
        for base in reversed(cls.__mro__)
        for name, slot in vars(base).items()
        if isinstance(slot, types.MemberDescriptorType)
    }


def compiled_module(module: Any, handle: Handle) -> Any:
    """Return the compiled form of `module`, which calls it through `handle`."""
    made: Any = object.__new__(_type_for(type(module)))
    object.__setattr__(made, "__dict__", module.__dict__)
    object.__setattr__(made, "_dynwrap_handle_and_original", (handle, module))
    return made
