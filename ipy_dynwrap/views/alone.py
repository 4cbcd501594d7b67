"""What `torch.compile` alone would have made of the calls of a family."""

from __future__ import annotations

import keyword
import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ipy_dynwrap.snapshot import EntryInfo, WrapperInfo

__all__ = ["own_entries", "said"]


def own_entries(wrapper: WrapperInfo) -> list[EntryInfo]:
    """Return the entries of the wrapper's own frame; the frames after a graph break run within those."""
    name = re.sub(r"\W", "_", wrapper.name.rpartition("#")[0])
    if not name.isidentifier() or keyword.iskeyword(name):
        name = f"_{name}"
    # After a break a function's own frame has the same name, but another number; the wrapper's compiled first.
    frames = [each.compile_id.partition("/")[0] for each in wrapper.entries if each.frame == name]
    return [each for each in wrapper.entries if each.frame == name and each.compile_id.partition("/")[0] == frames[0]]


def said(wrappers: Iterable[WrapperInfo]) -> str:
    """Say what one code object for a whole family would hold; empty if that is no more than one entry."""
    family = list(wrappers)
    entries, limit = sum(len(own_entries(each)) for each in family), family[0].limit
    if entries < 2:
        return ""
    eager = max(0, entries - limit)
    text = f"torch.compile alone would keep {entries:,} entries on one code object with a limit of {limit:,}"
    return f"{text}: {entries - eager:,} compiled, {eager:,} eager" if eager else text
