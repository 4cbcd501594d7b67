"""The table of guard kinds: each kind once, keyed by aspects that fields have, or with a reason."""

from __future__ import annotations

from ipy_dynwrap.fields import _ASPECTS
from ipy_dynwrap.guard_kinds import KINDS, UNKEYED


def test_each_kind_is_keyed_or_has_a_reason():
    assert [kind.what for kind in KINDS if (kind.aspect is None) == (kind.reason is None)] == []


def test_no_kind_is_there_twice():
    names = [name for kind in KINDS for name in kind.torch]
    assert len(set(names)) == len(names)
    assert len({kind.what for kind in KINDS}) == len(KINDS)


def test_aspects_are_those_of_fields():
    aspects = {aspect for kind in KINDS if kind.aspect is not None for aspect in kind.aspect.split(", ")}
    assert aspects == set(_ASPECTS)


def test_what_is_not_keyed_is_told_in_words():
    assert [what for what, why in UNKEYED if not what or not why or what.isupper()] == []
