"""What is kept of each cache entry for whoever asks for its details: references and plain values, nothing in words yet.

Torch is not imported with it, and nothing here takes a lock: a view asks from its own thread, while another compiles.
"""

from __future__ import annotations

import functools
import itertools
import weakref
from dataclasses import dataclass
from types import CodeType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .dynamo import Break
    from .naming import Naming
    from .traces import Trace

__all__ = ["LISTING_LIMIT", "Record", "Switch", "cut", "keep", "kept", "switch"]

LISTING_LIMIT = 200_000
"""How many characters of one text are kept."""


def cut(text: str) -> str:
    """Return as much of `text` as is kept of one listing."""
    if len(text) <= LISTING_LIMIT:
        return text
    kept = text[:LISTING_LIMIT].rpartition("\n")[0] or text[:LISTING_LIMIT]
    return f"{kept}\n# ... {len(text) - len(kept):,} more characters are not kept"


@dataclass(slots=True)
class Switch:
    """What is recorded.

    Parameters
    ----------
    on
        Whether anything is.
    limit
        How many bytes are kept, about. When there is more, the details of the oldest entries are dropped.
    """

    on: bool = True
    limit: int = 50_000_000


switch = Switch()


@dataclass(frozen=True, slots=True, eq=False)
class Record:
    """What is kept of one entry. It keeps no code object alive, for an entry ends when torch drops it.

    Parameters
    ----------
    number, compile_id
        As in `snapshot.EntryInfo`.
    trace
        What torch has told.
    naming
        How the names in the frame read in the user's words.
    breaks
        The graph breaks that it met.
    compiled, own
        The compiled code object, and the user's own; the latter is None if it is not plain Python.
    file, line
        Where the user's own begins.
    """

    number: int
    compile_id: str
    trace: Trace
    naming: Naming
    breaks: tuple[Break, ...]
    compiled: weakref.ref[CodeType]
    own: weakref.ref[CodeType] | None
    file: str
    line: int


_numbers = itertools.count(1)
_records: dict[int, Record] = {}
# The last numbers that were given, and of those whose details had to make room.
_given = _crowded_out = 0


def keep(
    compile_id: str,
    trace: Trace,
    naming: Naming,
    *,
    breaks: tuple[Break, ...],
    compiled: CodeType,
    own: CodeType | None,
) -> int:
    """Keep what was recorded of a new entry; return the number of the entry. The parameters are as in `Record`."""
    global _given, _crowded_out  # noqa: PLW0603 - the module is the one store of the process
    number = _given = next(_numbers)
    _records[number] = Record(
        number=number,
        compile_id=compile_id,
        trace=trace,
        naming=naming,
        breaks=breaks,
        compiled=weakref.ref(compiled, functools.partial(_forget, _records, number)),
        own=None if own is None else weakref.ref(own),
        file="" if own is None else own.co_filename,
        line=1 if own is None else own.co_firstlineno,
    )
    records = list(_records.values())
    taken = sum(record.trace.size for record in records)
    for record in records:
        if taken <= switch.limit:
            break
        taken -= record.trace.size
        _records.pop(record.number, None)
        _crowded_out = max(_crowded_out, record.number)
    return number


def _forget(records: dict[int, Record], number: int, _: object) -> None:
    records.pop(number, None)


def kept(number: int) -> Record:
    """Return what is kept of an entry.

    Raises
    ------
    LookupError
        If nothing is. It says why.
    """
    record = _records.get(number)
    if record is not None:
        return record
    if number == 0:
        raise LookupError("nothing was recorded of this entry: recording was off when it was compiled")
    if not 0 < number <= _given:
        raise LookupError(f"there has been no entry {number}")
    if number <= _crowded_out:
        raise LookupError(f"the details of entry {number} have made room for those of newer ones")
    raise LookupError(f"torch has dropped entry {number}: it was reset, or what it was compiled for is gone")
