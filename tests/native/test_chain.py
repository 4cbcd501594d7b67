"""Other users of PEP 523 in the same process, before and after ours, in and out of order."""

from __future__ import annotations

import pytest

from ipy_dynwrap import _native
from ipy_dynwrap._native import ROUTE


def f():
    return "eager"


def instead(*_):
    return "routed"


@pytest.fixture
def plain():
    """Return the address of the evaluator that is there when nobody's is."""
    return _native.evaluator()


def test_the_evaluator_is_put_back(region, plain):
    with region():
        assert _native.evaluator() != plain
    assert _native.evaluator() == plain
    _native.watch(f, ())
    assert _native.evaluator() == plain


def test_one_that_was_there_before_goes_on_seeing_frames(region, other):
    other.switch_on()
    try:
        f()
        assert other.frames_seen() == 1
        with region(instead, f=ROUTE):
            assert f() == "routed"
            other.frames_seen()
            max([1], key=lambda x: x)
            assert other.frames_seen() > 0
        assert _native.evaluator() == other.address()
    finally:
        other.switch_off()


def test_one_that_comes_later_and_leaves_first(region, other):
    with region(instead, f=ROUTE):
        other.switch_on()
        other.frames_seen()
        assert _native.installed()
        assert f() == "routed"
        assert other.frames_seen() > 0
        other.switch_off()
        assert _native.installed()
        assert f() == "routed"


def test_one_that_comes_later_and_leaves_last(region, other, plain):
    with region(instead, f=ROUTE):
        other.switch_on()
        assert f() == "routed"
    # Ours is beneath the other one: still in the chain, and passes everything.
    assert _native.evaluator() == other.address()
    assert _native.installed()
    assert f() == "eager"
    other.switch_off()  # puts ours back
    assert f() == "eager"  # which sees that it is on top for nothing
    assert _native.evaluator() == plain


def test_a_region_under_one_that_stayed(region, other, plain):
    with region(instead, f=ROUTE):
        other.switch_on()
    with region(instead, f=ROUTE):
        assert _native.evaluator() == other.address(), "ours is in the chain already"
        assert f() == "routed"
    other.switch_off()
    assert f() == "eager"
    assert _native.evaluator() == plain


def test_one_that_leaves_inside_and_takes_ours_along(region, other, plain):
    other.switch_on()
    with region(instead, f=ROUTE):
        assert f() == "routed"
        other.switch_off()  # puts back what was there before it, and so drops ours
        assert not _native.installed()
        assert f() == "eager"
        with region(instead, f=ROUTE):
            assert f() == "routed"
    assert _native.evaluator() == plain


def test_a_circle_of_evaluators_ends(region, other, plain):
    def deeper(n):
        return 0 if n == 0 else 1 + deeper(n - 1)

    other.switch_on()
    with region(instead, f=ROUTE):
        other.switch_on()  # above ours, which chains to it: what it found is ours now
        other.frames_seen()
        assert f() == "routed"
        assert deeper(50) == 50
        assert list(x * 2 for x in range(3)) == [0, 2, 4]  # noqa: C400 (a generator's frame is wanted)
        assert other.frames_seen() > 50
        other.switch_off()
    assert _native.evaluator() in (plain, other.address())
    other.switch_off()
    assert f() == "eager"


def test_a_declined_call_in_a_circle_is_routed_once(region, other):
    other.switch_on()
    with region(lambda *_: _native.DECLINE, f=ROUTE) as record:
        other.switch_on()
        assert f() == "eager"
        assert len(record.calls) == 1
        other.switch_off()
    other.switch_off()


def test_watch_beneath_another(other):
    def counted():
        return 1

    _native.track(counted.__code__)

    def inside():
        other.switch_on()
        try:
            top = _native.evaluator()
            assert _native.watch(counted, ()) == 1
            assert _native.evaluator() == top
        finally:
            other.switch_off()

    _native.watch(inside, ())
    assert _native.stats(counted.__code__)[0] == 1
