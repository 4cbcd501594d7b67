"""What the user does not want compiled: by name where it has one, so that a cell that is run again changes nothing."""

from __future__ import annotations

import functools
import types
from collections.abc import Iterable
from typing import Any

from .families import Family
from .identities import ByIdentity
from .keys import Kin, kin_of

__all__ = ["REASON", "add", "clear", "discard", "holds"]

REASON = "skipped by the user"

_Name = tuple[str, str]
_names: set[_Name | None] = set()
_anchors = ByIdentity()


def holds(kin: Kin, target: Any) -> bool:
    """Tell whether calls of `target` are to be left alone."""
    name = name_of(target)
    return _anchors.get(kin.anchor) is not None or (name is not None and name in _names)


def add(families: Iterable[Family], target: Any = None) -> None:
    """Leave calls alone from now on.

    Parameters
    ----------
    families
        What was called already.
    target
        What is called: a class for its instances; None if only a name is known.
    """
    for family in families:
        _names.add(family.definition)
        mark(family)
    if target is not None:
        _names.add(name_of(target))
        _anchors.set(_anchor(target), True)


def discard(families: Iterable[Family], target: Any = None) -> None:
    """Let calls be compiled again; the parameters are those of `add`."""
    for family in families:
        _names.discard(family.definition)
        family.skipped = False
    if target is not None:
        _names.discard(name_of(target))
        _anchors.pop(_anchor(target))


def clear() -> None:
    """Let everything be compiled again."""
    _names.clear()
    _anchors.clear()


def mark(family: Family) -> None:
    """Let a family's wrappers say that they are left alone."""
    family.skipped = True
    for wrapper in {id(each): each for each in (family.first(), *family.wrappers)}.values():
        wrapper.state, wrapper.last_reason = "skipped", REASON


def name_of(target: Any) -> _Name | None:
    """Return the name under which a target is defined, the class's for an instance; None if it has none."""
    while isinstance(target, functools.partial):
        target = target.func
    target = target.__func__ if isinstance(target, types.MethodType) else target
    named = target if isinstance(target, types.FunctionType | type) else type(target)
    return None if named.__name__ == "<lambda>" else (str(named.__module__), named.__qualname__)


def _anchor(target: Any) -> object:
    return target if isinstance(target, type) else kin_of(target).anchor
