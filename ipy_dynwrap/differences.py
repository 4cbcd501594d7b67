"""What tells a call from the entries that do not fit it: from the one that it differs from least, and in which fields.

Torch names for each entry the first guard that fails, and asks no other wrapper's entries. A user who has called a
module with three values of an attribute wants to hear of the attribute each time, in whichever wrapper it compiles.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Hashable, Iterable, Mapping
from types import CodeType

from . import blindspots, dynamo
from .families import Family
from .fields import ABSENT, Field, requirements
from .learning import Compiled
from .reasons import Naming, describe, line
from .sources import presence, steps

__all__ = ["Differences", "compile_id_of"]

_ID = re.compile(r"\s*(?:!?\d+/)?\[?(\d+/\d+)")
_LOCAL = re.compile(r"\bL\['(\w+)'\]")
_IN_WORDS = {"rank": "ndim", "dtype": "dtype", "device": "device", "requires_grad": "requires_grad"}
# Of fields of one object, one of these says enough.
_FIRST = ("type", "identity", "value", "length", "keys", "rank", "size", "stride")
_MOST = 3
_ROOM = 90  # of the characters that `line` leaves
_FAR = 50


def compile_id_of(raw: str) -> str:
    """Return torch's id of the entry that one of its reasons is about; empty if it names none."""
    found = _ID.match(raw)
    return found[1] if found is not None else ""


class Differences:
    """Compares one call with the entries of its family.

    Parameters
    ----------
    family, parameters
        The call: the parameters of a wrapper's frame, by name.
    naming, read, where
        For the words (`reasons.describe`).
    """

    def __init__(
        self,
        family: Family,
        parameters: Mapping[str, object],
        naming: Naming,
        read: Callable[[str], object],
        where: Callable[[CodeType], str],
    ) -> None:
        self._family, self._parameters = family, parameters
        self._naming, self._read, self._where = naming, read, where
        self._values: dict[Field, Hashable] = {}

    def in_words(self, raw: Iterable[str], source: CodeType, own: bool) -> tuple[str, ...]:
        """Return why each entry of a code object did not fit, the one that differs least first.

        Parameters
        ----------
        raw
            What torch says, the latest entry first.
        source
            The code object.
        own
            Whether it is a wrapper's, whose variables are the parameters.
        """
        entries = {
            entry.compile_id: code
            for wrapper in self._family.wrappers
            for entry in wrapper.entries
            if entry.source() is source and (code := entry.code()) is not None
        }
        found = [(self._distance(code := entries.get(compile_id_of(text)), text), code, text) for text in raw]
        found.sort(key=lambda each: each[0])
        return tuple(dict.fromkeys(self._said(code, text, source if own else None) for _, code, text in found))

    def from_family(self, source: CodeType | None) -> str | None:
        """Return what tells the call from the nearest entry of another wrapper; None if there is none.

        Parameters
        ----------
        source
            The code object of the call's own wrapper; None if it has none yet.
        """
        codes = {id(wrapper.code) for wrapper in self._family.wrappers if wrapper.code is not source}
        nearest: tuple[int, CodeType, CodeType] | None = None
        for code, compiled in self._family.compiled.items():
            other = compiled.source()
            if other is None or id(other) not in codes:
                continue
            distance = _weight(self._changed(compiled))
            if nearest is None or distance <= nearest[0]:  # of two the later one
                nearest = distance, code, other
        if nearest is None:
            return None
        _, code, other = nearest
        if dynamo.has_entry_for(other, self._parameters):
            return self._of_key(source, other)
        raw = next((text for each, text in dynamo.misses(other, self._parameters) if each is code), None)
        return None if raw is None else self._said(code, raw, other)

    def _of_key(self, source: CodeType | None, other: CodeType) -> str | None:
        """Say in which fields two wrappers differ. What these chose is read in a frame after a graph break only."""
        keys = {id(wrapper.code): wrapper.key for wrapper in self._family.wrappers}
        now, before = keys.get(id(source), {}), keys.get(id(other), {})
        changed = [name for name, value in now.items() if before.get(name) != value][:_MOST]
        said = [
            f"{name} {before[name]} -> {now[name]}" if name in before else f"{name} is {now[name]} here"
            for name in changed
        ]
        return ", ".join(said) or None

    def _changed(self, compiled: Compiled) -> list[Field]:
        """Return the fields that an entry pins to other values than the call has."""
        values, changed = self._values, []
        for field, value in compiled.required.items():
            if value is ABSENT:
                continue
            if field not in values:
                values[field] = field.read(self._parameters)
            if values[field] != value:
                changed.append(field)
        return changed

    def _distance(self, code: CodeType | None, raw: str) -> tuple[bool, int, bool]:
        """Return how far an entry is from the call, to sort by.

        One whose object is gone can tell no more. One that differs in torch's global state comes last of its like:
        torch looks at that first, and then at nothing else.
        """
        compiled = self._family.compiled.get(code) if code is not None else None
        distance = _weight(self._changed(compiled)) if isinstance(compiled, Compiled) else 1
        return " got deallocated" in raw, distance, "GLOBAL_STATE" in raw

    def _said(self, code: CodeType | None, raw: str, source: CodeType | None) -> str:
        """Put into words what tells the call from an entry.

        Parameters
        ----------
        code
            The compiled code of the entry.
        raw
            What torch says of it.
        source
            The wrapper's code that the entry belongs to; None if it is another frame's.
        """
        if code is None or source is None:
            return self._describe(raw)
        compiled = self._family.compiled.get(code)
        fields = _telling(self._changed(compiled)) if compiled is not None else []
        if not fields or (len(fields) == 1 and any(field == fields[0] for field, _ in requirements(raw))):
            return self._describe(raw)
        guards = dynamo.guards_of(source, code)
        texts = [_LOCAL.sub(r"\1", text) for text in dynamo.guard_texts(guards)] if guards is not None else []
        said = dict.fromkeys(filter(None, (self._field(field, compiled.required[field], texts) for field in fields)))
        return line(_listed(list(said))) if said else self._describe(raw)

    def _describe(self, raw: str) -> str:
        return blindspots.said(raw) or describe(raw, self._naming, self._read, self._where)

    def _field(self, field: Field, before: Hashable, texts: list[str]) -> str | None:
        """Say of one field what it was and is."""
        name, aspect = self._naming.words(field.source), field.aspect.partition(" ")
        if aspect[0] in ("attribute", "has"):
            member = ast.literal_eval(aspect[2])
            owner = f"{name}.{member}" if aspect[0] == "attribute" else f"{name}[{member!r}]"
            return f"{owner} is {'gone' if before is True else 'there now'}"
        if aspect[0] in _IN_WORDS or aspect[0] in ("size", "stride"):
            member = {"size": f"shape[{aspect[2]}]", "stride": f"stride({aspect[2]})"}.get(aspect[0])
            words = [str(value).removeprefix("torch.") for value in (before, self._values[field])]
            return f"{name}.{member or _IN_WORDS[aspect[0]]} {words[0]} -> {words[1]}"
        for text in texts:
            # There may be thousands, and to parse one takes long.
            if field.source in text and any(pinned == field for pinned, _ in requirements(text)):
                return self._describe(text)
        return None


def _listed(said: list[str]) -> str:
    """Return as many of the texts as one line has room for, and how many more there are."""
    shown = said[:1]
    for each in said[1:_MOST]:
        if len(", ".join((*shown, each))) > _ROOM:
            break
        shown.append(each)
    more = len(said) - len(shown)
    return ", ".join(shown) + (f" and {more} more" if more > 0 else "")


def _weight(changed: list[Field]) -> int:
    """Return how much it is that changed: an object of another type is further away than one of another value."""
    if len(changed) > _FAR:
        return len(changed) * 2
    return sum(2 if field.aspect in ("type", "identity") else 1 for field in _telling(changed))


def _telling(changed: list[Field]) -> list[Field]:
    """Return of the fields that changed those that say all: not what is in an object that is another one."""
    fields = set(changed)
    roots = {field.source for field in fields if field.aspect.partition(" ")[0] not in ("attribute", "has")}
    telling = []
    for field in changed:
        if any(ast.unparse(step) in roots for step in steps(field.source)[1:]):
            continue
        kind, owner = field.aspect.partition(" ")[0], presence(field.source)
        if owner is not None and Field(*owner) in fields:
            continue
        if kind in ("attribute", "has") and field.source in roots:
            continue
        if kind in _FIRST and any(
            Field(field.source, each) in fields or (each == "size" and kind == "stride" and _has(fields, field, each))
            for each in _FIRST[: _FIRST.index(kind)]
        ):
            continue
        telling.append(field)
    return telling


def _has(fields: set[Field], of: Field, aspect: str) -> bool:
    return any(each.source == of.source and each.aspect.startswith(aspect) for each in fields)
