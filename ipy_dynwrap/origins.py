"""Why a family has nothing compiled yet, although what it is for was compiled before: other options, or an edit."""

from __future__ import annotations

import types
from typing import Any

from . import skips, state
from .keys import Kin, kin_of
from .options import Options
from .reasons import class_place

__all__ = ["add", "clear", "of"]

_Name = tuple[str, str, str]
# What was ever compiled, by what it is called: a new object of that name is the old one, defined again.
_compiled: set[_Name | None] = set()


def of(kin: Kin, target: Any, options: Options | None) -> str | None:
    """Say why a new family of `target` compiles what was compiled before; None if nothing was.

    Parameters
    ----------
    kin, target
        What is called.
    options
        The family's compile options; None for any others than those that are known.
    """
    others = {
        compiled_with
        for (kind, rest, _, compiled_with), family in state.cache.families_of(kin.anchor).items()
        if (kind, rest) == (kin.kind, kin.rest) and any(wrapper.compiles for wrapper in family.wrappers)
    }
    if options in others:
        return "keywords are passed in another order"
    if options is not None and options.label in {each.label for each in others}:
        return "backend object differs"
    if others:
        return f"options differ: {options.label if options is not None else 'others'}"
    if state.cache.of(kin.anchor):
        return None  # called in another way, as it is or in a partial
    name = _name(kin, target)
    return f"{kin.name} was defined again{_place(kin.anchor)}" if name is not None and name in _compiled else None


def add(target: Any) -> None:
    """Take note that `target` was compiled."""
    _compiled.add(_name(kin_of(target), target))


def clear() -> None:
    """Forget all that was compiled."""
    _compiled.clear()


def _name(kin: Kin, target: Any) -> _Name | None:
    """Return what a definition that is run again has in common with what it replaces; None if it has no name."""
    name = skips.name_of(target)
    return None if name is None else (kin.kind, *name)


def _place(anchor: object) -> str:
    if isinstance(anchor, type):
        return class_place(anchor, state.where)
    return state.where(anchor) if isinstance(anchor, types.CodeType) else ""
