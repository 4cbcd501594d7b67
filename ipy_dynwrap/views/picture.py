"""All that the views without a widget show, taken at one moment."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TYPE_CHECKING

from ipy_dynwrap.events import GraphBreak

if TYPE_CHECKING:
    from ipy_dynwrap.events import Event
    from ipy_dynwrap.explanation import Recompilation
    from ipy_dynwrap.snapshot import CacheInfo, CellRun, EntryDetails

__all__ = ["Picture", "breaks", "taken"]


@dataclass(frozen=True, slots=True)
class Picture:
    """The cache, and what led to it.

    Parameters
    ----------
    cache
        The wrappers.
    runs
        The timeline, oldest first.
    recompilations
        What compiled again, oldest first.
    details
        Of entries, by their numbers; those that are not kept are missing.
    breaks
        The graph breaks, oldest first.
    """

    cache: CacheInfo
    runs: tuple[CellRun, ...] = ()
    recompilations: tuple[Recompilation, ...] = ()
    details: Mapping[int, EntryDetails] = field(default_factory=lambda: MappingProxyType({}))
    breaks: tuple[GraphBreak, ...] = ()


def taken(*, details: bool = False) -> Picture:
    """Return the picture of now.

    Parameters
    ----------
    details
        Whether the details of entries are looked up, which takes a while.
    """
    from ipy_dynwrap import cache_info, state, timeline
    from ipy_dynwrap.explanation import recompilations

    cache = cache_info()
    numbers = [entry.number for wrapper in cache.wrappers for entry in wrapper.entries] if details else []
    events = state.log.since()
    again = recompilations(events, cache.wrappers)
    return Picture(cache, timeline(), again, MappingProxyType(_details(numbers)), breaks(events))


def breaks(events: Iterable[Event]) -> tuple[GraphBreak, ...]:
    """Return the graph breaks among `events`."""
    return tuple(event for event in events if isinstance(event, GraphBreak))


def _details(numbers: list[int]) -> dict[int, EntryDetails]:
    from ipy_dynwrap import details

    found = {}
    for number in numbers:
        with suppress(LookupError):  # it is not kept, or not any more
            found[number] = details(number)
    return found
