"""Which frames pass, and what a routed function sees of the stack."""

from __future__ import annotations

import asyncio
import sys
import traceback

import pytest

from ipy_dynwrap import _native
from ipy_dynwrap._native import PASS, ROUTE


@pytest.fixture
def route_all(carrier):
    """Route all that may be routed; returns the names of what was."""
    names = []

    def route(function, args, kwargs):
        names.append(function.__name__)
        return _native.DECLINE

    opened = _native.enter(lambda _code, _function: ROUTE, route, carrier, 5_000_000)
    yield names
    _native.leave(opened)


def test_generators_pass(route_all):
    def numbers():
        received = yield 1
        try:
            yield received
        except KeyError:
            yield "thrown"

    generator = numbers()
    assert next(generator) == 1
    assert generator.send(2) == 2
    assert generator.throw(KeyError) == "thrown"
    generator.close()
    assert sum(i for i in range(3)) == 3
    assert "numbers" not in route_all
    assert "<genexpr>" not in route_all


def test_coroutines_and_async_generators_pass(route_all):
    async def ticks():
        for i in range(2):
            await asyncio.sleep(0)
            yield i

    async def main():
        return [tick async for tick in ticks()]

    assert asyncio.run(main()) == [0, 1]
    assert not {"ticks", "main"} & set(route_all)


def test_class_bodies_and_module_code_pass(route_all):
    class Made:
        value = tuple([i for i in range(2)])  # noqa: C416 (a comprehension is a function up to 3.11)

    names = {}
    exec("x = 1\ndef inner(): return x\ny = inner()", names)
    assert Made.value == (0, 1)
    assert names["y"] == 1
    assert "inner" in route_all
    assert not {"Made", "<module>"} & set(route_all)


def test_exec_of_the_code_of_a_function_passes(route_all):
    def f():
        return None

    exec(f.__code__)
    assert "f" not in route_all
    f()
    assert "f" in route_all


def test_a_routed_function_sees_route_as_its_caller(region):
    def caller():
        frame = sys._getframe(1)
        return frame.f_code.co_name, [line.name for line in traceback.extract_stack()][-1]

    with region(caller=ROUTE):
        name, last = caller()
    assert name == "run"
    assert last == "caller"


def test_tracing_sees_the_lines_of_a_routed_function(region):
    def traced(x):
        y = x + 1
        return y * 2

    events = []

    def trace(frame, event, _arg):
        if frame.f_code is traced.__code__:
            events.append((event, frame.f_lineno - traced.__code__.co_firstlineno))
        return trace

    with region(traced=ROUTE) as record:
        before = sys.gettrace()
        sys.settrace(trace)
        try:
            assert traced(1) == 4
        finally:
            sys.settrace(before)
    assert len(record.calls) == 1
    assert [event for event in events if event[0] == "line"] == [("line", 1), ("line", 2)]


def test_tracing_does_not_see_decide(region):
    def traced(x):
        return x

    names = []

    def trace(frame, _event, _arg):
        names.append(frame.f_code.co_name)

    with region() as record:
        before = sys.gettrace()
        sys.settrace(trace)
        try:
            traced(1)
        finally:
            sys.settrace(before)
    assert traced.__code__ in [code for code, _ in record.asked]
    assert names == ["traced"]


def test_frames_and_locals_of_what_passes_are_right(region):
    def inner():
        here = "here"
        return sys._getframe(0).f_locals["here"], sys._getframe(1).f_locals["there"], here

    def outer():
        there = "there"
        return inner(), there

    with region(inner=PASS):
        assert outer() == (("here", "there", "here"), "there")
