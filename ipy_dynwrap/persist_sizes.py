"""Which sizes change, kept on disk for the next kernel: by the content of the code, never by its place.

Torch keeps what it knows of sizes by file name, first line and name of the code. A kernel names the files of its cells
after its process, so none of that is found again, and a line says nothing about what stands there now. Here it is kept
by what the code does. What is kept only says which sizes are to be compiled as dynamic from the start: guards decide
about every call, so that what is out of date costs speed and no answer.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import re
import sys
import uuid
from pathlib import Path
from types import CellType, CodeType, FunctionType
from typing import Any, NamedTuple, TypeAlias

__all__ = ["Answers", "Sizes", "Store", "content"]

Part: TypeAlias = "bool | list[bool | None] | None"
Sizes: TypeAlias = "dict[str, list[Part]]"
"""By guard source, what of the value, the sizes and the strides there changes: True for what does."""

_CODE = (
    *("co_argcount", "co_posonlyargcount", "co_kwonlyargcount", "co_flags", "co_varnames"),
    *("co_names", "co_freevars", "co_cellvars", "co_code", "co_exceptiontable"),
)

# Torch names the rest of a function after a graph break by the line: it moves, and what is done there does not.
_RESUMED = re.compile(r"^(.*\btorch_dynamo_resume_in_.*)_at_\d+$")


def content(code: CodeType, closure: tuple[CellType, ...] = ()) -> str:
    """Return a text that is the same, in every process, for code that does the same: all but where it stands.

    Parameters
    ----------
    code
        The code.
    closure
        The cells of its function. Functions in them count by their code.
    """
    names = code.co_name, getattr(code, "co_qualname", "")
    parts = [_RESUMED.sub(r"\1", each) for each in names]
    parts += [repr(getattr(code, name, None)) for name in _CODE]
    parts += map(_constant, code.co_consts)
    for cell in closure:
        with contextlib.suppress(ValueError):  # an empty one
            if isinstance(inner := cell.cell_contents, FunctionType):
                parts.append(content(inner.__code__))
    return hashlib.blake2s("\0".join(parts).encode(errors="surrogatepass")).hexdigest()


def _constant(value: Any) -> str:
    if isinstance(value, CodeType):
        return content(value)
    if isinstance(value, tuple):
        return f"({', '.join(map(_constant, value))})"
    if isinstance(value, frozenset):
        return f"{{{', '.join(sorted(map(_constant, value)))}}}"  # its own order is another in every process
    return repr(value)


class Answers(NamedTuple):
    """How often a cache on disk had what it was asked for, had it not, and could not be asked."""

    hits: int = 0
    misses: int = 0
    bypassed: int = 0

    def minus(self, before: Answers) -> Answers:
        """Return what came since; torch's counts may have been set back in between."""
        return Answers(*(max(0, now - then) for now, then in zip(self, before, strict=True)))

    def words(self) -> str:
        """Return it in words: ``"2 hits, 1 miss"``."""
        names = (("hit", "hits"), ("miss", "misses"), ("not cacheable", "not cacheable"))
        counts = zip(self, names, strict=True)
        return ", ".join(f"{count} {name[count > 1]}" for count, name in counts if count) or "not asked"


class Store:
    """A directory with a small file for each code.

    Parameters
    ----------
    directory
        The directory; it need not exist.
    purpose
        Whose knowledge it is: that of one notebook says nothing about another.
    """

    def __init__(self, directory: Path, purpose: str) -> None:
        self._directory, self._purpose = directory, purpose

    def read(self, key: tuple[str, ...]) -> Sizes:
        """Return what is known of a code; what cannot be read is not known."""
        try:
            found = json.loads(self._file(key).read_text(encoding="utf-8"))
        except (OSError, ValueError):
            return {}
        return found if _is_well_formed(found) else {}

    def add(self, key: tuple[str, ...], sizes: Sizes) -> None:
        """Add to what is known of a code. Another kernel reads either the old file or the new one, each whole.

        Raises
        ------
        OSError
            If it cannot be written.
        """
        known = self.read(key)
        both = {**known, **{source: _join(known.get(source), parts) for source, parts in sizes.items()}}
        if both == known:
            return
        self._directory.mkdir(parents=True, exist_ok=True)
        file = self._file(key)
        # Not by `tempfile`: in a shared directory others shall read it, too.
        whole = file.with_name(f"{uuid.uuid4().hex}.tmp")
        try:
            whole.write_text(json.dumps(both), encoding="utf-8")
            whole.replace(file)
        finally:
            whole.unlink(missing_ok=True)

    def _file(self, key: tuple[str, ...]) -> Path:
        text = "\0".join((self._purpose, sys.implementation.cache_tag or "", *key))
        return self._directory / f"{hashlib.blake2s(text.encode(errors='surrogatepass')).hexdigest()}.json"


def _join(known: list[Part] | None, new: list[Part]) -> list[Part]:
    return new if known is None else list(map(_join_part, known, new))


def _join_part(known: Part, new: Part) -> Part:
    if isinstance(known, list) and isinstance(new, list):
        return [(each or other) for each, other in zip(known, new, strict=True)] if len(known) == len(new) else True
    return True if True in (known, new) else known or new


def _is_well_formed(found: Any) -> bool:
    return isinstance(found, dict) and all(
        isinstance(parts, list) and len(parts) == 3 and all(map(_is_part, parts)) for parts in found.values()
    )


def _is_part(part: Any) -> bool:
    return part in (True, None) or (isinstance(part, list) and all(each in (True, None) for each in part))
