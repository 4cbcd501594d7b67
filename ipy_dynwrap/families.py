"""A family: what is called alike, and the key that is learned for it from guards.

A family starts with one wrapper. When two entries require different values of one field (`fields`), calls that differ
in it can never share an entry, and the field becomes part of the key: from then on its value chooses the wrapper. The
wrapper that was there keeps its entries and goes on serving the values that they were compiled for.
"""

from __future__ import annotations

import contextlib
import weakref
from collections.abc import Callable, Hashable, Iterable, Mapping
from typing import Any

from .cache import Wrapper
from .fields import ABSENT, Field

__all__ = ["ByIdentity", "Family"]

Parameters = Mapping[str, object]
Requirements = dict[Field, Hashable]


class Family:
    """The wrappers of what is called alike, chosen by the values of the learned fields.

    Parameters
    ----------
    make
        Makes a wrapper. It is told what it is for, as text, and whether it shall keep the frames after a graph break
        apart from other wrappers'.
    serves
        Tells whether an existing wrapper has an entry for the call with these parameters.
    value_limit
        Gives how many values of one field one and the same target may show before the field is no key.
    wrapper_limit
        Gives how many wrappers there may be; a call that would need more goes to the first one.
    spend
        Lets a wrapper compile no more, for a reason.
    words
        Puts a guard source into the user's words.
    origin
        Why there is a family beside another one of the same target, in words.
    """

    def __init__(
        self,
        *,
        make: Callable[[str, bool], Wrapper],
        serves: Callable[[Wrapper, Parameters], bool],
        value_limit: Callable[[], int],
        wrapper_limit: Callable[[], int],
        spend: Callable[[Wrapper, str], None],
        words: Callable[[str], str],
        origin: str | None = None,
    ) -> None:
        self._make = make
        self._serves = serves
        self._value_limit = value_limit
        self._wrapper_limit = wrapper_limit
        self._spend = spend
        self._words = words
        self.origin = origin
        self.wrappers: list[Wrapper] = []
        self.fields: tuple[Field, ...] = ()
        self.retired: dict[Field, str] = {}
        # What each entry was compiled for (`learning.Compiled`), by its compiled code object.
        self.compiled = ByIdentity()
        self._deep: set[Field] = set()
        self._table: dict[tuple[Hashable, ...], Wrapper] = {}
        self._past: tuple[tuple[Field, ...], dict[tuple[Hashable, ...], Wrapper]] = ((), {})
        self._memo = ByIdentity()
        self._shown = ByIdentity()

    @property
    def is_of_target(self) -> bool:
        """Whether the target alone decides, so that its wrapper can be remembered with it."""
        return all(field.root == self.receiver for field in self.fields)

    @property
    def receiver(self) -> str:
        """The parameter of the wrappers that holds the target."""
        return self.first().code.co_varnames[0]

    def first(self) -> Wrapper:
        """Return the wrapper that the family started with."""
        if not self.wrappers:
            self.wrappers.append(self._make("", False))
        return self.wrappers[0]

    def remembered(self, target: object) -> Wrapper | None:
        """Return the wrapper that `target` came to the last time; it is looked at again only on a miss."""
        found = self._memo.get(target)
        return found if isinstance(found, Wrapper) else None

    def forget(self, target: object) -> None:
        """Look at `target` again at its next call."""
        self._memo.pop(target)

    def resolve(self, target: object, parameters: Parameters, *, fresh_at_limit: bool = False) -> Wrapper:
        """Return the wrapper for a call.

        Parameters
        ----------
        target
            What is called.
        parameters
            The parameters of the wrapper, by name.
        fresh_at_limit
            Whether a wrapper that has used up its limit is left to those who have it, and a new one is opened.
        """
        values = self._read(parameters)
        if not self.fields and self.retired:
            # No key any more; but what was compiled under the last one still serves.
            fields, table = self._past
            return table.get(tuple(field.read(parameters) for field in fields), self.first())
        wrapper = self._table.get(values)
        if wrapper is None:
            wrapper = self._table[values] = self._find(parameters)
        fresh = fresh_at_limit and not self.retired and len(self.wrappers) < self._wrapper_limit()
        if fresh and wrapper.state == "at limit":
            wrapper = self._table[values] = self._add(parameters)
        if self.is_of_target:
            self._memo.set(target, wrapper)
        return wrapper

    def _read(self, parameters: Parameters) -> tuple[Hashable, ...]:
        values = self._values(parameters)
        return self._values(parameters) if self.fields and self._moves(parameters, values) else values

    def _find(self, parameters: Parameters) -> Wrapper:
        first = self.first()
        if not self.fields:
            return first
        # An entry that never reads a field fits whatever the field's value is; only guards can tell. After a graph
        # break they cannot: the wrapper's own entry fits, and the frames after it do not.
        if not self._deep:
            for wrapper in self.wrappers:
                if self._serves(wrapper, parameters):
                    return wrapper
        if len(self.wrappers) >= self._wrapper_limit():
            return first
        return self._add(parameters)

    def _add(self, parameters: Parameters) -> Wrapper:
        key = {self._name(field): field.said(parameters) for field in self.fields}
        wrapper = self._make(repr(key), True)
        wrapper.key, wrapper.retired = key, self.first().retired
        self.wrappers.append(wrapper)
        return wrapper

    def _name(self, field: Field) -> str:
        source = self._words(field.source)
        return source if field.aspect == "value" else f"{field.aspect} of {source}"

    def learn(
        self,
        wrapper: Wrapper,
        parameters: Parameters,
        new: Requirements,
        others: Iterable[Requirements],
        *,
        deep: bool,
    ) -> tuple[Field, ...]:
        """Look for fields that tell a new entry from those before it.

        Parameters
        ----------
        wrapper, parameters
            The call that compiled it.
        new
            What the new entry requires of each field that it pins.
        others
            The same of each entry before it.
        deep
            Whether the entries belong to a frame after a graph break.

        Returns
        -------
        tuple of Field
            The fields that were learned.
        """
        others = list(others)
        learned = tuple(
            field
            for field, value in new.items()
            if field not in self.fields
            and field not in self.retired
            and value is not ABSENT
            and any(other.get(field, value) != value for other in others)
            and field.read(parameters) == value
        )
        if not learned:
            return ()
        for field in learned:
            # They may all have been this object's.
            shown: dict[Field, set[Hashable]] = self._shown.setdefault(field.holder(parameters), {})
            shown.setdefault(field, set()).update(each[field] for each in (new, *others) if field in each)
        before, served = self._table, self._memo.items()
        keys = [values for values, known in before.items() if known is wrapper]
        self.fields += learned
        if deep:
            self._deep |= set(learned)
        self._table = {}
        self._memo.clear()
        # Nothing that is compiled is lost: each wrapper is filed under the values that it serves.
        for required in (new, *others):
            more = tuple(required.get(field, ABSENT) for field in learned)
            if ABSENT not in more:
                self._table.update({(*values, *more): wrapper for values in keys})
        if self.is_of_target:
            for each, known in served:
                self._table.setdefault(self._values({self.receiver: each}), known)
        self._table[self._values(parameters)] = wrapper
        return learned

    def _values(self, parameters: Parameters) -> tuple[Hashable, ...]:
        return tuple(field.read(parameters) for field in self.fields)

    def _moves(self, parameters: Parameters, values: tuple[Hashable, ...]) -> bool:
        """Take note of an object's values; retire a field that keeps changing on one, such as a step counter."""
        restless = []
        for field, value in zip(self.fields, values, strict=True):
            if value is ABSENT:
                continue
            shown: dict[Field, set[Hashable]] = self._shown.setdefault(field.holder(parameters), {})
            known = shown.setdefault(field, set())
            known.add(value)
            if len(known) > self._value_limit():
                restless.append(field)
        for field in restless:
            self._retire(field)
        return bool(restless)

    def _retire(self, field: Field) -> None:
        index = self.fields.index(field)
        self._past = self.fields, self._table
        self.fields = self.fields[:index] + self.fields[index + 1 :]
        self._deep.discard(field)
        cause = f"took more than {self._value_limit()} values on one object"
        self.retired[field] = why = f"{self._name(field)} {cause}"
        self.first().retired[self._name(field)] = cause  # one dictionary for all the family's wrappers
        # As many compilations as torch allows have been made for it. What it shares from here on makes none.
        self._spend(self.first(), why)
        self._table = (
            {} if not self.fields else {values[:index] + values[index + 1 :]: self.first() for values in self._table}
        )
        self._memo.clear()


class ByIdentity:
    """A dictionary with weak keys that are compared by identity; what cannot be referred to weakly is not kept."""

    def __init__(self) -> None:
        self._entries: dict[int, tuple[weakref.ref[Any], Any]] = {}

    def get(self, key: object) -> Any:
        """Return the value of `key`, or None."""
        entry = self._entries.get(id(key))
        return entry[1] if entry is not None and entry[0]() is key else None

    def set(self, key: object, value: Any) -> None:
        """Give `key` a value; nothing happens if it cannot be referred to weakly."""
        entries, number = self._entries, id(key)

        def gone(reference: weakref.ref[Any]) -> None:
            if (entry := entries.get(number)) is not None and entry[0] is reference:
                del entries[number]

        with contextlib.suppress(TypeError):
            entries[number] = weakref.ref(key, gone), value

    def setdefault(self, key: object, value: Any) -> Any:
        """Return the value of `key`; the first time, give it `value`."""
        found = self.get(key)
        if found is None:
            self.set(key, value)
            return value
        return found

    def items(self) -> list[tuple[Any, Any]]:
        """Return the living keys with their values."""
        pairs = [(reference(), value) for reference, value in self._entries.values()]
        return [(key, value) for key, value in pairs if key is not None]

    def pop(self, key: object) -> None:
        """Forget `key`; nothing happens if it is not there."""
        if self.get(key) is not None:
            del self._entries[id(key)]

    def clear(self) -> None:
        """Forget all keys."""
        self._entries.clear()
