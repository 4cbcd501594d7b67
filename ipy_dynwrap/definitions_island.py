"""Whether anybody refers to what a definition made: if nobody does, nobody notices that something else takes its place.

The answer comes from reference counts. The references that the objects have among themselves are counted, and compared
with how many each one has in all.
"""

from __future__ import annotations

import gc
import sys
import types
from collections import Counter
from collections.abc import Iterable, Sequence
from types import FunctionType
from typing import Any

__all__ = ["held_from_outside", "references_of_decorating"]

# What is followed beside the objects themselves: the containers in which they hold each other.
_CONTAINERS = (dict, tuple, FunctionType, types.CellType, types.MappingProxyType)


def held_from_outside(objects: Sequence[Any], known: Iterable[Any] = (), slack: int = 0) -> list[Any]:
    """Return those of `objects` that something other than themselves refers to: none of an island.

    Parameters
    ----------
    objects
        What would be lost, in a list of its own. No variable of the caller's may hold one of them.
    known
        Containers beside them whose references are known of.
    slack
        How many references to the first object are known of beside those.
    """
    counts = _outer_references(objects, known)
    return [each for number, each in enumerate(objects) if counts[number] > (slack if number == 0 else 0)]


def _outer_references(objects: Sequence[Any], known: Iterable[Any]) -> list[int]:
    members = _members(objects, known)
    inner = Counter(id(found) for each in members for found in gc.get_referents(each))
    # Objects are held by the caller's list, by `members`, by `counted` and by the loop. A new object that is held by as
    # many shows how much that comes to in this version of Python.
    probe = object()
    members.append(probe)
    counted = [*objects, probe]
    counts = [sys.getrefcount(each) - inner[id(each)] for each in counted]
    base = counts.pop()  # its variable stands for the caller's list
    return [count - base for count in counts]


def references_of_decorating() -> int:
    """Return how many references to a class there are while its decorator runs, and holds it in a list.

    That differs with the version of Python, and where a frame hook is on: the caller then keeps its arguments.
    """
    counts: list[int] = []

    def decorator(*box: Any) -> None:
        made = list(box)
        del box
        counts.extend(_outer_references(list(made), (*vars(made[0]).values(),)))

    @decorator
    class _Probe:
        pass

    return counts[0]


def _members(objects: Sequence[Any], known: Iterable[Any]) -> list[Any]:
    """Return the objects, and the containers through which they hold each other, each once."""
    members = {id(each): each for each in (*objects, *known)}
    waiting = list(objects)
    while waiting:
        each = waiting.pop()
        # A function's globals are not its own.
        others = (each.__globals__, getattr(each, "__builtins__", None)) if isinstance(each, FunctionType) else ()
        for found in gc.get_referents(each):
            if (
                id(found) not in members
                and isinstance(found, _CONTAINERS)
                and not any(found is other for other in others)
            ):
                members[id(found)] = found
                waiting.append(found)
    return list(members.values())
