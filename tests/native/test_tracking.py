"""Counts and times of tracked code."""

from __future__ import annotations

import threading
import time

import pytest

from ipy_dynwrap import _native
from ipy_dynwrap._native import ROUTE


def test_runs_are_counted_where_the_evaluator_sees_them(region):
    def f(x):
        return x

    f(0)
    _native.track(f.__code__)
    f(0)  # nobody looks
    assert _native.stats(f.__code__) == (0, 0)
    before = _native.runs()
    assert _native.watch(f, (1,)) == 1
    with region(f=ROUTE) as record:
        assert f(2) == 2
    assert record.calls == [], "tracked code is not routed"
    runs, nanoseconds = _native.stats(f.__code__)
    assert runs == 2
    assert nanoseconds > 0
    assert _native.runs() - before == 2


def test_untracked_code_has_no_counts():
    def f():
        return 1

    before = _native.runs()
    _native.watch(f, ())
    assert _native.stats(f.__code__) == (0, 0)
    assert _native.runs() == before


def test_time_includes_nested_runs():
    def inner():
        time.sleep(0.01)

    def outer():
        inner()

    _native.track(inner.__code__)
    _native.track(outer.__code__)
    _native.watch(outer, ())
    (_, inner_time), (_, outer_time) = _native.stats(inner.__code__), _native.stats(outer.__code__)
    assert 10_000_000 <= inner_time <= outer_time


def test_a_run_that_raises_counts():
    def f():
        raise KeyError

    _native.track(f.__code__)
    with pytest.raises(KeyError):
        _native.watch(f, ())
    assert _native.stats(f.__code__)[0] == 1


def test_generators_are_not_counted():
    def numbers():
        yield 1

    _native.track(numbers.__code__)
    assert _native.watch(lambda: list(numbers()), ()) == [1]
    assert _native.stats(numbers.__code__)[0] == 0


def test_forget_ends_tracking_even_in_the_middle_of_a_run():
    def f():
        _native.forget(f.__code__)

    _native.track(f.__code__)
    _native.watch(f, ())
    _native.watch(f, ())
    assert _native.stats(f.__code__)[0] == 0


def test_runs_belong_to_the_thread():
    def f():
        return 1

    _native.track(f.__code__)
    before = _native.runs()
    theirs = []
    thread = threading.Thread(target=lambda: (_native.watch(f, ()), theirs.append(_native.runs())))
    thread.start()
    thread.join()
    assert theirs == [1]
    assert _native.runs() == before
    assert _native.stats(f.__code__)[0] == 1


def test_watch_passes_arguments_and_answer_and_routes_nothing(region):
    def f(*args, **kwargs):
        return args, kwargs

    with region(f=ROUTE) as record:
        assert _native.watch(f, (1,), {"a": 2}) == ((1,), {"a": 2})
        assert _native.watch(f, (), None) == ((), {})
        assert record.calls == []
        f()
        assert len(record.calls) == 1
