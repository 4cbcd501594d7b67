"""Families: how the key grows, and that nothing compiled is lost. Wrappers and entries are pretended."""

from __future__ import annotations

import gc
import weakref
from dataclasses import dataclass, field

import pytest

from ipy_dynwrap.cache import Entry, Wrapper
from ipy_dynwrap.families import Family
from ipy_dynwrap.fields import ABSENT, Field
from ipy_dynwrap.identities import ByIdentity

VALUE_LIMIT, WRAPPER_LIMIT = 3, 5

K, L, FIRST_ARGUMENT = Field("target.k", "value"), Field("target.l", "value"), Field("args[0].k", "value")


def template(target, *args, **kwargs):
    return target(*args, **kwargs)


class Target:
    def __init__(self, k=1, l=1):  # noqa: E741 - one letter as the other
        self.k = k
        self.l = l


class Slotted:
    """Cannot be referred to weakly."""

    __slots__ = ("k",)

    def __init__(self, k):
        self.k = k


@dataclass
class World:
    """A family with a compiler that is pretended: an entry is what it requires of fields."""

    made: list[tuple[str, bool]] = field(default_factory=list)
    entries: dict[Wrapper, list[dict[Field, object]]] = field(default_factory=dict)
    looked_for: int = 0
    compilations: int = 0
    spent: dict[Wrapper, str] = field(default_factory=dict)
    dropped: list[Wrapper] = field(default_factory=list)
    idle: bool = False
    cells: int = 0

    def __post_init__(self):
        self.family = Family(
            make=self.make,
            serves=self.serves,
            value_limit=lambda: VALUE_LIMIT,
            wrapper_limit=lambda: WRAPPER_LIMIT,
            spend=self.spend,
            words=lambda source: source.replace("target", "self"),
            drop=self.dropped.extend,
            is_idle=lambda wrapper: self.idle,
            cells=lambda: self.cells,
        )

    def make(self, purpose, apart):
        self.made.append((purpose, apart))
        wrapper = Wrapper(
            name=f"wrapper {len(self.made)}",
            kind="module",
            target="Net.forward",
            options="",
            code=template.__code__,
            function=template,
            limit=VALUE_LIMIT,
        )
        self.entries[wrapper] = []
        return wrapper

    def serves(self, wrapper, parameters):
        self.looked_for += 1
        return any(self.fits(entry, parameters) for entry in self.entries[wrapper])

    def fits(self, entry, parameters):
        return all(each.read(parameters) == value for each, value in entry.items())

    def spend(self, wrapper, why):
        self.spent[wrapper] = why
        wrapper.state, wrapper.last_reason = "at limit", why

    def call(self, target, *args, reads=(K,), deep=False, fresh_at_limit=False):
        """Call a target whose graph depends on the fields `reads`, as the engine does."""
        parameters = {"target": target, "args": args, "kwargs": {}}
        wrapper = None if fresh_at_limit else self.family.remembered(target)
        if wrapper is None or not self.serves(wrapper, parameters):
            wrapper = self.family.resolve(target, parameters, fresh_at_limit=fresh_at_limit)
        if not self.serves(wrapper, parameters) and wrapper not in self.spent:
            before = list(self.entries[wrapper])
            new = {each: each.read(parameters) for each in reads}
            self.entries[wrapper].append(new)
            alive = weakref.ref(template.__code__)
            wrapper.entries.append(Entry("", "", None, None, 0.0, graph=True, code=alive, source=alive))
            self.compilations += 1
            self.family.learn(wrapper, parameters, new, before, deep=deep)
        return wrapper


@pytest.fixture
def world():
    return World()


def test_a_family_starts_with_one_wrapper(world):
    wrapper = world.family.first()
    assert world.family.first() is wrapper
    assert world.family.wrappers == [wrapper]
    assert world.made == [("", False)]
    assert wrapper.key == {}
    assert world.family.receiver == "target"


def test_equal_targets_share_a_wrapper_and_an_entry(world):
    targets = [Target() for _ in range(10)]
    assert {world.call(target) for target in targets} == {world.family.first()}
    assert world.compilations == 1
    assert world.family.fields == ()


def test_a_value_that_two_entries_require_becomes_a_field(world):
    one, two = Target(1), Target(2)
    first = world.call(one)
    assert world.family.fields == ()
    assert world.call(two) is first
    assert world.family.fields == (K,)
    # From here on the value chooses the wrapper; that of the known ones is the one that they had.
    assert world.call(one) is world.call(two) is first
    third = world.call(Target(3))
    assert third is not first
    assert third.key == {"self.k": "3"}
    assert world.made == [("", False), ("{'self.k': '3'}", True)]
    assert world.compilations == 3


def test_fields_other_than_values_are_named_by_what_they_are(world):
    kind = Field("target.k", "type")
    for k in (1, "a", 2.5):
        world.call(Target(k), reads=(kind,))
    assert world.family.wrappers[-1].key == {"type of self.k": "float"}


def test_every_value_is_compiled_once(world):
    targets = [Target(k % WRAPPER_LIMIT) for k in range(40)]
    for _ in range(3):
        for target in targets:
            world.call(target)
    assert world.compilations == WRAPPER_LIMIT


def test_what_only_one_entry_requires_is_no_field(world):
    world.call(Target(1), reads=(K,))
    world.call(Target(2), reads=(L,))
    assert world.family.fields == ()


def test_what_is_required_alike_is_no_field(world):
    world.call(Target(1, 7), reads=(K, L))
    world.call(Target(2, 7), reads=(K, L))
    assert world.family.fields == (K,)


def test_what_the_call_itself_does_not_show_is_no_field(world):
    first = world.family.first()
    parameters = {"target": Target(5), "args": (), "kwargs": {}}
    assert world.family.learn(first, parameters, {K: ("int", 2)}, [{K: ("int", 1)}], deep=False) == ()
    assert world.family.learn(first, parameters, {K: ABSENT}, [{K: ("int", 1)}], deep=False) == ()
    assert world.family.fields == ()


def test_what_is_learned_is_returned(world):
    parameters = {"target": Target(2, 4), "args": (), "kwargs": {}}
    new, old = {K: ("int", 2), L: ("int", 4)}, {K: ("int", 1), L: ("int", 3)}
    learned = world.family.learn(world.family.first(), parameters, new, [old], deep=False)
    assert set(learned) == {K, L}
    assert world.family.learn(world.family.first(), parameters, new, [old], deep=False) == ()


def test_a_field_is_learned_next_to_another(world):
    def served(k, l):  # noqa: E741
        return world.call(Target(k, l), reads=(K, L))

    wrappers = {(k, l): served(k, l) for k, l in [(1, 1), (2, 1), (3, 1), (3, 2), (1, 1), (4, 4)]}  # noqa: E741
    assert world.family.fields == (K, L)
    assert world.compilations == 5
    assert {pair: served(*pair) for pair in wrappers} == wrappers
    assert world.compilations == 5


def test_nothing_compiled_is_lost_when_a_field_is_learned(world):
    kept = [Target(k) for k in (1, 2, 3, 4)]
    before = {target: world.call(target) for target in kept}
    compilations = world.compilations
    # Entries of other objects that nothing keeps are found again by their values.
    world.call(Target(3, 9), reads=(K, L))
    world.call(Target(3, 8), reads=(K, L))
    more = world.compilations - compilations
    for target, wrapper in before.items():
        assert world.call(target) is wrapper
    assert world.compilations == compilations + more


def test_a_new_value_is_served_by_a_wrapper_that_has_an_entry_for_it(world):
    world.call(Target(1, 1), reads=(K, L))
    world.call(Target(2, 1), reads=(K, L))
    # An entry that depends on nothing.
    world.entries[world.family.first()].append({L: ("int", 7)})
    assert world.call(Target(50, 7)) is world.family.first()
    assert world.compilations == 2


def test_after_a_graph_break_the_wrappers_own_entries_say_nothing(world):
    world.call(Target(1), deep=True)
    world.call(Target(2), deep=True)
    world.entries[world.family.first()].append({})
    fresh = world.call(Target(3), deep=True)
    assert fresh is not world.family.first()


def test_known_targets_are_not_looked_at_again(world, monkeypatch):
    targets = [Target(k) for k in (1, 2, 3)]
    for _ in range(2):
        for target in targets:
            world.call(target)
    monkeypatch.setattr(Field, "read", lambda *_: pytest.fail("a field was read"))
    assert len({world.family.remembered(target) for target in targets}) == 2


def test_a_target_is_looked_at_again_when_told(world):
    target = Target(1)
    world.call(target)
    assert world.family.remembered(target) is world.family.first()
    world.family.forget(target)
    assert world.family.remembered(target) is None
    world.family.forget(target)


def test_targets_with_fields_in_arguments_are_not_remembered(world):
    target = Target()
    for k in (1, 2, 3):
        world.call(target, Target(k), reads=(FIRST_ARGUMENT,))
    assert world.family.fields == (FIRST_ARGUMENT,)
    assert not world.family.is_of_target
    assert world.family.remembered(target) is None
    assert world.compilations == 3


def test_arguments_choose_the_wrapper(world):
    target, settings = Target(), [Target(k) for k in (1, 2, 3)]
    wrappers = [world.call(target, each, reads=(FIRST_ARGUMENT,)) for each in settings]
    assert [world.call(target, each, reads=(FIRST_ARGUMENT,)) for each in settings] == wrappers
    assert wrappers[0] is wrappers[1] is not wrappers[2]
    assert world.compilations == 3


def test_a_large_family_is_looked_up_in_a_dictionary(world):
    targets = [Target(k) for k in range(WRAPPER_LIMIT)]
    for _ in range(2):
        for target in targets:
            world.call(target)
    world.looked_for = 0
    for target in targets:
        world.family.resolve(target, {"target": target, "args": (), "kwargs": {}})
    assert world.looked_for == 0


def count(world, target, start=0, **options):
    """Call a target whose `k` is another one each time, more often than it may be."""
    for k in range(start, start + VALUE_LIMIT + 3):
        target.k = k
        wrapper = world.call(target, **options)
    return wrapper


CAUSE = f"took more than {VALUE_LIMIT} values on one object"


def test_an_object_whose_field_keeps_changing_compiles_no_more(world):
    spent = count(world, Target())
    assert world.spent == {spent: f"self.k {CAUSE}"}
    assert spent.key == {"self.k": "keeps changing"}
    assert world.compilations <= VALUE_LIMIT
    assert world.family.first().retired == {"self.k": CAUSE}


def test_other_objects_keep_the_field(world):
    count(world, Target())
    compilations = world.compilations
    for k in (100, 101, 100, 101):
        world.call(Target(k))
    assert world.family.fields == (K,)
    assert world.compilations == compilations + 2


def test_a_field_that_keeps_changing_on_two_objects_is_retired(world):
    count(world, one := Target())
    count(world, other := Target())
    assert world.family.fields == ()
    assert world.family.retired == {K: f"self.k {CAUSE}"}
    # A value that a remembered wrapper serves is not noted, so the second object may show one more.
    assert world.compilations <= VALUE_LIMIT + 1
    for target in (one, other, Target(200)):
        assert world.call(target) in world.spent
    assert len(world.spent) == 1
    # It is not learned again.
    parameters = {"target": one, "args": (), "kwargs": {}}
    assert world.family.learn(world.family.first(), parameters, {K: K.read(parameters)}, [{K: 1}], deep=False) == ()


def test_what_was_compiled_before_a_field_is_retired_still_serves(world):
    steady = [Target(100 + k) for k in range(3)]
    before = {target: world.call(target) for target in steady}
    assert len(set(before.values())) == 2
    counters = [Target(), Target()]
    for counter in counters:
        count(world, counter)
    assert list(world.family.retired) == [K]
    compilations = world.compilations
    for _ in range(2):
        for target, wrapper in before.items():
            assert world.call(target) is wrapper
    assert world.compilations == compilations
    # Also on the objects that it was compiled for.
    for k in range(VALUE_LIMIT):
        counters[0].k = k
        assert world.call(counters[0]) not in world.spent
    assert world.compilations == compilations


def test_a_field_that_keeps_changing_in_an_argument_compiles_no_more(world):
    settings = Target()
    for k in range(VALUE_LIMIT + 3):
        settings.k = k
        wrapper = world.call(Target(), settings, reads=(FIRST_ARGUMENT,))
    assert wrapper in world.spent
    assert world.compilations <= VALUE_LIMIT


FUNCTION = Field("target.k", "identity")


def test_what_each_cell_defines_again_is_not_taken_to_change(world):
    kept = [object() for _ in range(2 * VALUE_LIMIT)]
    target = Target()
    for each in kept:
        target.k = each
        world.cells += 1
        assert world.call(target, reads=(FUNCTION,)) not in world.spent
    # In one cell it is.
    for _ in range(VALUE_LIMIT + 1):
        kept.append(object())
        target.k = kept[-1]
        wrapper = world.call(target, reads=(FUNCTION,))
    assert wrapper in world.spent


def test_an_argument_that_is_not_there_has_no_field(world):
    second = Field("args[1].k", "value")
    for k in (1, 2, 3):
        world.call(Target(), Target(), Target(k), reads=(second,))
    assert world.family.fields == (second,)
    world.call(Target(), reads=(K,))


def test_a_field_that_changes_on_many_objects_stays(world):
    for k in range(WRAPPER_LIMIT):
        for _ in range(2):
            world.call(Target(k))
    assert world.family.fields == (K,)
    assert world.family.retired == {}


def test_a_field_that_goes_to_and_fro_stays(world):
    target = Target(0)
    for k in range(5 * VALUE_LIMIT):
        target.k = k % VALUE_LIMIT
        world.call(target)
    assert world.family.fields == (K,)
    assert world.compilations == VALUE_LIMIT


def test_all_wrappers_name_what_was_retired(world):
    for k in range(2):
        world.call(Target(k))
    count(world, Target(), 100)
    assert len(world.family.wrappers) > 1
    assert all(wrapper.retired == {"self.k": CAUSE} for wrapper in world.family.wrappers)


def test_the_other_fields_stay_when_one_is_retired(world):
    for l in (1, 2, 3):  # noqa: E741
        world.call(Target(0, l), reads=(K, L))
    counters = [Target(0, 1), Target(0, 1)]
    for counter in counters:
        count(world, counter, reads=(K, L))
    assert world.family.fields == (L,)
    assert list(world.family.retired) == [K]
    # What has cost its share compiles no more, and what has not does.
    compilations = world.compilations
    assert world.call(counters[0], reads=(K, L)) in world.spent
    assert world.compilations == compilations
    assert world.call(Target(0, 4), reads=(K, L)) not in world.spent
    assert world.compilations == compilations + 1


def test_values_of_what_stays_are_kept_apart_when_a_field_is_retired(world):
    steady = [Target(k, l) for k in (50, 51) for l in (1, 2)]  # noqa: E741
    for target in steady:
        world.call(target, reads=(K, L))
    counters = [Target(0, 1), Target(0, 1)]
    for counter in counters:
        count(world, counter, reads=(K, L))
    assert list(world.family.retired) == [K]
    compilations = world.compilations
    for target in steady:
        assert world.call(target, reads=(K, L)) not in world.spent
    assert world.compilations == compilations


def test_there_are_no_more_wrappers_than_the_limit(world):
    for k in range(4 * WRAPPER_LIMIT):
        world.call(Target(k))
    assert len(world.family.wrappers) == WRAPPER_LIMIT
    # What is left over goes to the first one.
    assert world.call(Target(100)) is world.family.first()


def test_what_nobody_can_come_to_makes_room(world):
    kept = [Target(k) for k in range(3)]
    for target in (*kept, *kept):
        world.call(target)
    for k in range(100, 100 + 2 * WRAPPER_LIMIT):
        world.call(Target(k))
    assert world.dropped == []
    world.idle = True
    wrapper = world.call(Target(1000))
    assert wrapper in world.family.wrappers[1:]
    assert len(world.dropped) > 1
    assert not set(world.dropped) & set(world.family.wrappers)
    compilations = world.compilations
    for target in kept:
        world.call(target)
    assert world.compilations == compilations


def test_what_has_no_entry_any_more_makes_room(world):
    for k in range(2 * WRAPPER_LIMIT):
        world.call(Target(k))
    for wrapper in world.family.wrappers[1:3]:
        wrapper.entries, world.entries[wrapper] = [], []
    for k in range(1000, 1003):
        world.call(Target(k))
    assert len(world.dropped) == 2
    assert len(world.family.wrappers) == WRAPPER_LIMIT


def test_targets_that_cannot_be_watched_keep_their_wrappers(world):
    for k in range(2 * WRAPPER_LIMIT):
        world.call(Slotted(k))
    world.idle = True
    world.call(Slotted(1000))
    assert world.dropped == []


def test_a_wrapper_that_is_full_is_left_to_those_who_have_it(world):
    target = Target(1)
    first = world.call(target)
    first.state = "at limit"
    assert world.call(target, fresh_at_limit=True) is not first
    assert world.made[-1][1] is True
    for _ in range(2 * WRAPPER_LIMIT):
        world.family.wrappers[-1].state = "at limit"
        world.call(target, fresh_at_limit=True)
    assert len(world.family.wrappers) == WRAPPER_LIMIT


def test_targets_are_not_kept(world):
    targets = [Target(k) for k in (1, 2, 3)]
    for _ in range(2):
        for target in targets:
            world.call(target, Target(7), reads=(K, FIRST_ARGUMENT))
    references = [weakref.ref(target) for target in targets]
    del targets, target
    gc.collect()
    assert [reference() for reference in references] == [None] * 3
    assert world.call(Target(3)) is world.family.wrappers[-1]


def test_targets_without_weak_references_are_looked_at_each_time(world):
    target = Slotted(1)
    assert world.call(target) is world.family.first()
    assert world.family.remembered(target) is None
    target.k = 2
    world.call(target)
    assert world.call(target) is world.family.first()
    assert world.compilations == 2


def test_a_target_that_changes_among_known_values_compiles_nothing(world):
    target, other = Target(1), Target(2)
    world.call(target)
    world.call(other)
    for k in (1, 2) * 10:
        target.k = k
        world.call(target)
    assert world.compilations == 2


# A dictionary by identity


class Equal:
    def __eq__(self, other):
        return True

    def __hash__(self):
        return 1


def test_equal_keys_are_not_the_same():
    one, other = Equal(), Equal()
    table = ByIdentity()
    table.set(one, 1)
    assert table.get(one) == 1
    assert table.get(other) is None
    table.set(other, 2)
    assert [value for _, value in table.items()] == [1, 2]


def test_keys_end_with_their_objects():
    table = ByIdentity()
    one, other = Equal(), Equal()
    table.set(one, 1)
    table.set(other, 2)
    del one
    gc.collect()
    assert table.items() == [(other, 2)]
    assert len(table._entries) == 1


def test_an_address_that_is_used_again_is_another_key():
    table = ByIdentity()
    old = Equal()
    table.set(old, 1)
    _, value = table._entries.pop(id(old))
    new = Equal()
    # As if `new` had come to lie where `old` was, whose reference is dead by then.
    table._entries[id(new)] = weakref.ref(old), value
    assert table.get(new) is None
    table.pop(new)
    table.set(new, 2)
    assert table.get(new) == 2


def test_a_late_farewell_does_not_take_the_successor_away():
    table = ByIdentity()
    key = Equal()
    table.set(key, 1)
    stale = table._entries[id(key)][0]
    table.set(key, 2)
    stale.__callback__(stale)
    assert table.get(key) == 2


def test_keys_that_cannot_be_referred_to_weakly_are_not_kept():
    table = ByIdentity()
    table.set(5, 1)
    assert table.get(5) is None
    assert table.setdefault(5, "x") == "x"
    table.pop(5)
    assert table.items() == []


def test_default_values():
    table, key = ByIdentity(), Equal()
    first = table.setdefault(key, {})
    assert table.setdefault(key, {}) is first
    table.pop(key)
    assert table.get(key) is None
    table.set(key, 1)
    table.clear()
    assert table.items() == []
