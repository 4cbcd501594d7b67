"""Classes that are defined again: which old one belongs to which new one, and whether it can stand for it."""

from __future__ import annotations

import weakref
from collections.abc import Mapping
from typing import Any, TypeGuard

from .definitions_content import Comparison
from .definitions_island import held_from_outside

__all__ = ["classes_in", "drop_pairs", "is_key", "paired", "place_class", "why_not"]


# What refers weakly to a class that nobody has registered: its bases, all by one reference.
_WEAK_REFERENCES = weakref.getweakrefcount(type("_", (), {}))


def why_not(pairs: Mapping[type, type], slack: int = 0, *known: Any) -> tuple[str, str] | None:
    """Return which of the new classes an old one cannot stand for, and why in words; None if they all can.

    Parameters
    ----------
    pairs
        The old classes by the new ones.
    slack
        How many other references there are to the first of the new ones.
    known
        Containers whose references are known of.
    """
    comparison = Comparison(pairs)
    for new, old in pairs.items():
        if (reason := comparison.classes(old, new)) is not None:
            return new.__qualname__, reason
        if weakref.getweakrefcount(new) > _WEAK_REFERENCES:
            return new.__qualname__, f"something refers to the new {new.__name__}"
    del new
    if held := held_from_outside(list(comparison.fresh.values()), (pairs, comparison.fresh, *known), slack):
        what = getattr(held[0], "__name__", type(held[0]).__name__)
        return comparison.owners[id(held[0])], f"something refers to the new {what}"
    return None


def place_class(old: type, new: type) -> None:
    """Make an old class stand where a new one does, if this Python keeps that in the class."""
    if (line := vars(new).get("__firstlineno__")) is not None:
        type.__setattr__(old, "__firstlineno__", line)


def classes_in(namespace: Mapping[str, Any]) -> dict[str, type]:
    """Return the classes that a module defines, by name."""
    module = namespace.get("__name__")
    return {
        name: value
        for name, value in namespace.items()
        if issubclass(type(value), type) and value.__module__ == module and value.__qualname__ == name
    }


def paired(former: dict[str, type], namespace: Mapping[str, Any]) -> dict[type, type]:
    """Return the old classes by the new ones of the same name, those in other classes included."""
    pairs: dict[type, type] = {}
    waiting = [(former[name], new) for name, new in classes_in(namespace).items() if name in former]
    while waiting:
        old, new = waiting.pop()
        if old is not new and new not in pairs:
            pairs[new] = old
            for name, value in vars(new).items():
                before = vars(old).get(name)
                if _is_inner(value, new) and _is_inner(before, new):
                    waiting.append((before, value))
    return pairs


def _is_inner(value: Any, outer: type) -> TypeGuard[type]:
    return issubclass(type(value), type) and value.__qualname__.startswith(f"{outer.__qualname__}.")


def is_key(value: Any, pairs: Mapping[type, type]) -> bool:
    """Tell whether a value is one of the new classes."""
    return issubclass(type(value), type) and value in pairs


def drop_pairs(pairs: dict[type, type], name: str) -> None:
    """Give up the new class of a name, and those in it."""
    for new in [new for new in pairs if new.__qualname__.partition(".")[0] == name]:
        del pairs[new]
