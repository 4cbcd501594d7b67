"""What is routed, with which arguments, and what becomes of the answer."""

from __future__ import annotations

import sys

import pytest

from ipy_dynwrap import _native
from ipy_dynwrap._native import BARRIER, DECLINE, DECLINE_ALL, ROUTE, ROUTE_CARRIER


def every_kind(a, b=2, /, c=3, *rest, d, e=5, **more):
    return a, b, c, rest, d, e, more


CALLS = [
    ((1,), {"d": 4}),
    ((1, 20), {"d": 4, "c": 30}),
    ((1, 2, 3, 4, 5), {"d": 6}),
    ((1,), {"d": 4, "e": 50, "z": 7, "y": 8}),
    ((1,), {"d": 4, "a": "a keyword with the name of a positional-only parameter", "b": 9}),
]


@pytest.mark.parametrize(("args", "kwargs"), CALLS)
def test_route_gets_arguments_that_make_the_same_call(region, args, kwargs):
    expected = every_kind(*args, **kwargs)
    with region(every_kind=ROUTE) as record:
        answer = every_kind(*args, **kwargs)
    assert answer == expected
    [(function, positional, named)] = record.calls
    assert function.__code__ is every_kind.__code__
    assert every_kind(*positional, **named) == expected


def test_defaults_are_filled_in_and_kinds_kept_apart(region):
    with region(every_kind=ROUTE) as record:
        every_kind(1, d=4, z=7)
    [(_, args, kwargs)] = record.calls
    assert args == (1, 2, 3)
    assert kwargs == {"d": 4, "e": 5, "z": 7}


def test_routed_keywords_are_a_copy(region):
    def answer(function, args, kwargs):
        kwargs.clear()
        return _native.DECLINE

    with region(answer, every_kind=ROUTE):
        assert every_kind(1, d=4, z=7)[-1] == {"z": 7}


def test_arguments_that_are_cells(region):
    def outer(a, *rest, b, **more):
        return lambda: (a, rest, b, more)

    with region(outer=ROUTE) as record:
        answer = outer(1, 2, b=3, c=4)
    assert answer() == (1, (2,), 3, {"c": 4})
    assert record.calls[0][1:] == ((1, 2), {"b": 3, "c": 4})


def test_closures_and_methods(region):
    hidden = 10

    class Adder:
        def add(self, x):
            return x + hidden

    adder = Adder()
    with region(add=ROUTE) as record:
        assert adder.add(1) == 11
    [(function, args, kwargs)] = record.calls
    assert function.__closure__[0].cell_contents == 10
    assert args == (adder, 1)
    assert kwargs == {}


def test_the_answer_replaces_the_call(region):
    ran = []

    def f(x):
        ran.append(x)

    with region(lambda *_: "instead", f=ROUTE):
        assert f(1) == "instead"
    assert ran == []


def test_only_the_outermost_call_is_routed(region):
    def inner(x):
        return x + 1

    def outer(x):
        return inner(inner(x))

    with region(outer=ROUTE, inner=ROUTE) as record:
        assert outer(1) == 3
        assert inner(1) == 2
    assert [function.__name__ for function, _, _ in record.calls] == ["outer", "inner"]


def test_what_a_passing_call_makes_is_routed(region):
    def inner(x):
        return x + 1

    def outer(x):
        return inner(inner(x))

    with region(inner=ROUTE) as record:
        assert outer(1) == 3
    assert [args for _, args, _ in record.calls] == [(1,), (2,)]


def test_decline_runs_the_frame_and_goes_on_watching(region):
    def inner(x):
        return x + 1

    def outer(x):
        return inner(x)

    def answer(function, args, kwargs):
        return DECLINE if function.__name__ == "outer" else "routed"

    with region(answer, outer=ROUTE, inner=ROUTE) as record:
        assert outer(1) == "routed"
    assert [function.__name__ for function, _, _ in record.calls] == ["outer", "inner"]


def test_decline_all_runs_the_frame_as_a_barrier(region):
    def inner(x):
        return x + 1

    def outer(x):
        return inner(x)

    with region(lambda *_: DECLINE_ALL, outer=ROUTE, inner=ROUTE) as record:
        assert outer(1) == 2
        assert outer(1) == 2
    assert [function.__name__ for function, _, _ in record.calls] == ["outer", "outer"]


def test_nothing_inside_a_barrier_is_routed(region):
    def inner(x):
        return x + 1

    def fence(x):
        return inner(x)

    def failing_fence():
        raise ValueError

    with region(fence=BARRIER, failing_fence=BARRIER, inner=ROUTE) as record:
        assert fence(1) == 2
        with pytest.raises(ValueError, match=r"^$"):
            failing_fence()
        assert record.calls == []
        assert inner(1) == 2
    assert len(record.calls) == 1


def holders(value):
    yield (value,), {}
    yield (1, value), {}
    yield ([value],), {}
    yield ((1, (2, value)),), {}
    yield ({"k": [value]},), {}
    yield ([[[value]]],), {}
    yield (), {"named": value}
    yield (), {"other": [value]}
    yield (1, 2, 3, value), {}
    yield (1, 2, 3, [[[value]]]), {}


@pytest.mark.parametrize("index", range(len(list(holders(None)))))
def test_a_carrier_is_found_in_arguments_and_containers(region, carrier, index):
    def f(*rest, named=None, **more):
        return None

    class Special(carrier):
        pass

    args, kwargs = list(holders(Special()))[index]
    plain_args, plain_kwargs = list(holders(object()))[index]
    with region(f=ROUTE_CARRIER) as record:
        f(*plain_args, **plain_kwargs)
        assert record.calls == []
        f(*args, **kwargs)
    assert len(record.calls) == 1


def test_the_search_for_a_carrier_is_bounded(region, carrier):
    def f(x):
        return None

    endless = []
    endless.append(endless)
    with region(f=ROUTE_CARRIER) as record:
        f([[[[carrier()]]]])
        f([0] * 100_000 + [carrier()])
        f(endless)
        assert record.calls == []
        f([0] * 10 + [carrier()])
    assert len(record.calls) == 1


def test_the_search_for_a_carrier_runs_no_python(region, carrier):
    class Trap(list):
        def __iter__(self):
            raise AssertionError

        def __len__(self):
            raise AssertionError

        __class__ = property(__iter__)

    def f(x):
        return None

    with region(f=ROUTE_CARRIER) as record:
        f(Trap([1]))
        f(Trap([carrier()]))
    assert len(record.calls) == 1


def test_decide_is_asked_once_per_code_and_policy(region):
    def make():
        def f():
            return 1

        return f

    one, two = make(), make()
    with region(_policy=7, f=ROUTE) as record:
        one()
        two()
        one()
    assert [code for code, _ in record.asked].count(one.__code__) == 1
    with region(_policy=7, f=ROUTE) as record:
        one()
    assert one.__code__ not in [code for code, _ in record.asked]
    with region(_policy=8) as record:
        one()
    assert one.__code__ in [code for code, _ in record.asked]
    assert record.calls == []


@pytest.mark.skipif(sys.version_info < (3, 11), reason="3.10: an equal one is made")
def test_decide_and_route_get_the_function_itself(region):
    def f():
        return 1

    with region(f=ROUTE) as record:
        f()
    assert (f.__code__, f) in record.asked
    assert record.calls == [(f, (), {})]


def test_forget_makes_decide_asked_again(region):
    def f():
        return 1

    with region(_policy=9, f=ROUTE):
        f()
    _native.forget(f.__code__)
    with region(_policy=9, f=ROUTE) as record:
        f()
    assert f.__code__ in [code for code, _ in record.asked]


def test_enter_says_what_is_wrong_with_its_arguments():
    with pytest.raises(TypeError, match="decide and route have to be callable"):
        _native.enter(None, print, int, 1)
    with pytest.raises(TypeError, match="carrier has to be a type"):
        _native.enter(print, print, 3, 1)
    with pytest.raises(ValueError, match="policy has to be 0 or more"):
        _native.enter(print, print, int, -1)
    with pytest.raises(TypeError):
        _native.enter(print, print, int, "1")
    with pytest.raises(TypeError, match="leave takes what enter returned"):
        _native.leave(3)
    with pytest.raises(TypeError, match="a code object is needed"):
        _native.track(print)


def test_an_error_of_a_routed_call_has_no_frame_of_route():
    def fail(value):
        raise ValueError(value)

    def route(function, args, kwargs):
        return fail(args[0])

    region = _native.enter(lambda code, function: ROUTE if code is every_kind.__code__ else 0, route, object, 0)
    try:
        with pytest.raises(ValueError, match="1") as caught:
            every_kind(1, d=2)
    finally:
        _native.leave(region)
    names = [entry.name for entry in caught.traceback]
    assert names == ["test_an_error_of_a_routed_call_has_no_frame_of_route", "fail"]
