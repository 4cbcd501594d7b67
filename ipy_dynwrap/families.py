"""A family: what is called alike, and the key that is learned for it from guards.

A family starts with one wrapper. When two entries require different values of one field (`fields`), calls that differ
in it can never share an entry, and the field becomes part of the key: from then on its value chooses the wrapper. The
wrapper that was there keeps its entries and goes on serving the values that they were compiled for.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence

from .cache import Wrapper
from .fields import ABSENT, Field
from .identities import ByIdentity

__all__ = ["Family"]

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
    drop
        Gives up wrappers that the family has no use for any more.
    is_idle
        Tells whether a wrapper may be dropped although it has entries: whether it has not been of use for a while.
    cells
        Gives how many cells have run.
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
        drop: Callable[[list[Wrapper]], None],
        is_idle: Callable[[Wrapper], bool],
        cells: Callable[[], int],
        origin: str | None = None,
    ) -> None:
        self._make = make
        self._serves = serves
        self._value_limit = value_limit
        self._wrapper_limit = wrapper_limit
        self._spend = spend
        self._words = words
        self._drop = drop
        self._is_idle = is_idle
        self._cells = cells
        self.origin = origin
        # Whether the user wants nothing of it compiled, and the module and name that are skipped then.
        self.skipped = False
        self.definition: tuple[str, str] | None = None
        # Threads may call a family at once: what chooses, makes and files wrappers is done by one at a time.
        self._lock = threading.RLock()
        self.wrappers: list[Wrapper] = []
        self.fields: tuple[Field, ...] = ()
        self.retired: dict[Field, str] = {}
        # What each entry was compiled for (`learning.Compiled`), by its compiled code object.
        self.compiled = ByIdentity()
        # The code objects for which another target's other shape was once not taken for a shape that changes.
        self.excused = ByIdentity()
        self._deep: set[Field] = set()
        self._table: _Table = {}
        # Where an entry was found that does not read the fields: found again by looking, so it may be forgotten.
        self._found: _Table = {}
        # What was compiled under fields that are retired, and those fields; the latest first.
        self._past: list[tuple[tuple[Field, ...], _Table]] = []
        # Values of the fields that are left, for which a retired one has cost as many compilations as torch allows.
        self._used_up: set[tuple[Hashable, ...]] = set()
        self._spent: Wrapper | None = None
        self._memo = ByIdentity()
        # Of each object, the values that its fields have shown, and the fields that keep changing on it.
        self._shown = ByIdentity()
        self._restless = ByIdentity()
        # Who came to which wrapper, for as long as they live; whether somebody came who cannot be watched.
        self._users = ByIdentity()
        self._unseen = False

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
            with self._lock:
                if not self.wrappers:
                    first = self._make("", False)
                    first.family = first.name
                    self.wrappers.append(first)
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
        with self._lock:
            return self._resolve(target, parameters, fresh_at_limit)

    def _resolve(self, target: object, parameters: Parameters, fresh_at_limit: bool) -> Wrapper:
        values = self._values(parameters)
        restless = self._restless_fields(parameters, values)
        if restless:
            values = self._values(parameters)  # a field may just have been retired
        wrapper = self._under_retired_fields(parameters) or self._table.get(values) or self._found.get(values)
        if wrapper is None:
            wrapper = self._find(parameters, values, [field for field in restless if field in self.fields])
        if wrapper.state == "at limit" and wrapper is not self._spent:
            if apart := self._told_apart(wrapper, parameters):
                self._set_apart(apart, wrapper, parameters)
                return self._resolve(target, parameters, fresh_at_limit)
            if fresh_at_limit and not self.retired and self._has_room():
                wrapper = self._table[values] = self._add(parameters)
        if self.is_of_target:
            self._memo.set(target, wrapper)
        if not self._users.set(target, wrapper):
            self._unseen = True
        return wrapper

    def foreseen(self, parameters: Parameters, *, fresh_at_limit: bool = False) -> Wrapper | None:
        """Return the wrapper that `resolve` would, and change nothing; None if that would be a new one."""
        with self._lock:
            values = self._values(parameters)
            wrapper = self._under_retired_fields(parameters) or self._table.get(values) or self._found.get(values)
            if wrapper is None and not self.fields and not self.retired:
                wrapper = self.first()
            if wrapper is None and not self._deep:
                wrapper = next((each for each in self.wrappers if self._serves(each, parameters)), None)
            if wrapper is None and values in self._used_up:
                wrapper = self._spent
            if wrapper is None or wrapper.state != "at limit" or wrapper is self._spent:
                return wrapper
            is_new = (fresh_at_limit and not self.retired) or bool(self._told_apart(wrapper, parameters))
            return None if is_new else wrapper

    def _under_retired_fields(self, parameters: Parameters) -> Wrapper | None:
        """Return the wrapper that the call had while a field that is retired now was part of the key."""
        for fields, table in self._past:
            if (wrapper := table.get(tuple(field.read(parameters) for field in fields))) is not None:
                return wrapper
        return None

    def _find(self, parameters: Parameters, values: tuple[Hashable, ...], restless: list[Field]) -> Wrapper:
        first = self.first()
        if not self.fields and not self.retired:
            self._table[values] = first
            return first
        # An entry that never reads a field fits whatever the field's value is; only guards can tell. After a graph
        # break they cannot: the wrapper's own entry fits, and the frames after it do not.
        if not self._deep:
            for wrapper in self.wrappers:
                if self._serves(wrapper, parameters):
                    if not self.retired:  # else the values do not tell calls apart that need different wrappers
                        self._keep_found(values, wrapper)
                    return wrapper
        if restless or values in self._used_up:
            # As many compilations as torch allows have been made for it.
            return self._spend_one(restless or list(self.retired))
        if not self._has_room():
            return first
        wrapper = self._table[values] = self._add(parameters)
        return wrapper

    def _told_apart(self, wrapper: Wrapper, parameters: Parameters) -> Requirements:
        """Return what all entries of a wrapper require of this call, and it does not meet, with what they require.

        At its limit a wrapper compiles no more, whatever has used the limit up. But a call that can never fit one of
        its entries (the model is in another mode, a hook is gone) need not go by that.
        """
        entries = [each.required for _, each in self.compiled.items() if each.source() is wrapper.code]
        if not entries:
            return {}
        return {
            field: value
            for field, value in entries[0].items()
            if value is not ABSENT
            and field not in self.fields
            and field not in self.retired
            and all(other.get(field, ABSENT) == value for other in entries[1:])
            and field.read(parameters) not in (value, ABSENT)
        }

    def _set_apart(self, required: Requirements, wrapper: Wrapper, parameters: Parameters) -> None:
        """Make fields part of the key of which one wrapper's entries require something that a call does not have."""
        for field, value in required.items():
            self._shown_by(field.holder(parameters), field).update((value, field.read(parameters)))
        self._add_fields(tuple(required), wrapper, [required])

    def _keep_found(self, values: tuple[Hashable, ...], wrapper: Wrapper) -> None:
        if len(self._found) >= _FOUND_LIMIT:
            self._found.clear()
        self._found[values] = wrapper

    def _has_room(self) -> bool:
        """Tell whether the family may have one wrapper more; let go those that nobody can come to, if it must."""
        if len(self.wrappers) < self._wrapper_limit():
            return True
        users = {id(wrapper) for _, wrapper in self._users.items()}
        gone = [
            wrapper
            for wrapper in self.wrappers[1:]
            if wrapper is not self._spent
            and id(wrapper) not in users
            and (not wrapper.live_entries() or (self.is_of_target and not self._unseen and self._is_idle(wrapper)))
        ]
        if gone:
            lost = {id(wrapper) for wrapper in gone}
            self.wrappers = [wrapper for wrapper in self.wrappers if id(wrapper) not in lost]
            for table in (self._table, self._found, *(table for _, table in self._past)):
                for values in [values for values, wrapper in table.items() if id(wrapper) in lost]:
                    del table[values]
            self._drop(gone)
        return bool(gone)

    def _spend_one(self, fields: Sequence[Field]) -> Wrapper:
        """Return the wrapper that compiles nothing, for calls that have nothing to be told apart by."""
        for field in fields:
            # One dictionary for all the family's wrappers.
            self.first().retired[self._name(field)] = self._cause()
        if self._spent is None:
            # Not apart: torch lets an isolated wrapper compile whatever it was told.
            self._spent = self._made({self._name(field): "keeps changing" for field in fields}, apart=False)
            self._spend(self._spent, f"{self._name(fields[0])} {self._cause()}")
        return self._spent

    def _add(self, parameters: Parameters) -> Wrapper:
        return self._made({self._name(field): field.said(parameters) for field in self.fields}, apart=True)

    def _made(self, key: dict[str, str], *, apart: bool) -> Wrapper:
        wrapper = self._make(repr(key), apart)
        wrapper.key, wrapper.retired, wrapper.family = key, self.first().retired, self.first().name
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
        with self._lock:
            return self._learn(wrapper, parameters, new, list(others), deep=deep)

    def _learn(
        self, wrapper: Wrapper, parameters: Parameters, new: Requirements, others: list[Requirements], *, deep: bool
    ) -> tuple[Field, ...]:
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
            known = self._shown_by(field.holder(parameters), field)
            known.update(each[field] for each in (new, *others) if field in each)
        if deep:
            self._deep |= set(learned)
        self._add_fields(learned, wrapper, (new, *others))
        self._table[self._values(parameters)] = wrapper
        return learned

    def _add_fields(self, learned: tuple[Field, ...], wrapper: Wrapper, entries: Iterable[Requirements]) -> None:
        """Add fields to the key. Nothing that is compiled is lost: each wrapper is filed under what it serves."""
        before, served = {**self._found, **self._table}, self._memo.items()
        keys = [values for values, known in before.items() if known is wrapper]
        self.fields += learned
        self._table, self._found, self._used_up = {}, {}, set()
        self._memo.clear()
        for required in entries:
            more = tuple(required.get(field, ABSENT) for field in learned)
            if ABSENT not in more:
                self._table.update({(*values, *more): wrapper for values in keys})
        if self.is_of_target:
            for each, known in served:
                self._table.setdefault(self._values({self.receiver: each}), known)

    def _values(self, parameters: Parameters) -> tuple[Hashable, ...]:
        return tuple(field.read(parameters) for field in self.fields)

    def _restless_fields(self, parameters: Parameters, values: tuple[Hashable, ...]) -> list[Field]:
        """Take note of an object's values; return the fields that keep changing on one, such as a step counter.

        One object may count its steps while others of its class hold still. Where two do, all are taken to.
        """
        restless: list[Field] = []
        for field, value in zip(self.fields, values, strict=True):
            if value is ABSENT or (holder := field.holder(parameters)) is None:
                continue
            known = self._shown_by(holder, field)
            if len(known) <= self._value_limit():
                known.add(value)
            if len(known) > self._value_limit():
                restless.append(field)
                self._restless.setdefault(holder, set()).add(field)
        for field in restless:
            if sum(field in fields for _, fields in self._restless.items()) > 1:
                self._retire(field)
        return restless

    def _shown_by(self, holder: object, field: Field) -> set[Hashable]:
        """Return the values that a field has shown on an object, for more to be added."""
        shown: dict[Field, tuple[int, set[Hashable]]] = self._shown.setdefault(holder, {})
        now = self._cells() if field.aspect in ("identity", "type") else 0
        cell, known = shown.get(field, (now, set()))
        if cell != now:
            known = set()  # a function or class that a cell defines again is another one: an edit, no counting
        shown[field] = now, known
        return known

    def _cause(self) -> str:
        return f"took more than {self._value_limit()} values on one object"

    def _retire(self, field: Field) -> None:
        self.retired[field] = f"{self._name(field)} {self._cause()}"
        self._past.insert(0, (self.fields, self._table))
        index = self.fields.index(field)
        self._used_up = {values[:index] + values[index + 1 :] for values in (*self._table, *self._used_up)}
        self.fields = self.fields[:index] + self.fields[index + 1 :]
        self._deep.discard(field)
        self._table, self._found = {}, {}
        self._memo.clear()


_Table = dict[tuple[Hashable, ...], Wrapper]
_FOUND_LIMIT = 4096
