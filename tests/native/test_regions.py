"""Where a region is on: its thread and context, nested, left from elsewhere."""

from __future__ import annotations

import asyncio
import contextvars
import gc
import threading
import weakref

import pytest

from ipy_dynwrap import _native
from ipy_dynwrap._native import ROUTE


def f():
    return "eager"


def instead(*_):
    return "routed"


def in_thread(function):
    answers = []
    thread = threading.Thread(target=lambda: answers.append(function()))
    thread.start()
    thread.join()
    return answers[0]


def test_off_before_and_after(region):
    assert f() == "eager"
    with region(instead, f=ROUTE):
        assert _native.installed()
        assert f() == "routed"
    assert not _native.installed()
    assert f() == "eager"


def test_leave_is_idempotent(region, carrier):
    opened = _native.enter(lambda *_: 0, instead, carrier, 1)
    assert opened.open
    _native.leave(opened)
    _native.leave(opened)
    assert not opened.open


def test_another_thread_is_not_routed(region):
    with region(instead, f=ROUTE):
        assert in_thread(f) == "eager"
        assert in_thread(lambda: contextvars.copy_context().run(f)) == "eager"
        copied = contextvars.copy_context()
        assert in_thread(lambda: copied.run(f)) == "eager"
        assert f() == "routed"


def test_to_thread_is_not_routed(region):
    async def main():
        with region(instead, f=ROUTE):
            return await asyncio.to_thread(f), f()

    assert asyncio.run(main()) == ("eager", "routed")


def test_another_context_of_the_thread_is_not_routed(region):
    elsewhere = contextvars.Context()
    before = contextvars.copy_context()
    with region(instead, f=ROUTE):
        assert elsewhere.run(f) == "eager"
        assert before.run(f) == "eager"
        assert f() == "routed"


def test_a_task_that_was_there_before_is_not_routed(region):
    async def main():
        turn = asyncio.Event()

        async def bystander():
            await turn.wait()
            return f()

        task = asyncio.create_task(bystander())
        await asyncio.sleep(0)
        with region(instead, f=ROUTE):
            turn.set()
            return await task, f()

    assert asyncio.run(main()) == ("eager", "routed")


def test_a_task_of_the_region_is_routed_until_the_region_is_left(region):
    async def main():
        turn = asyncio.Event()

        async def child():
            first = f()
            await turn.wait()
            return first, f()

        with region(instead, f=ROUTE):
            task = asyncio.create_task(child())
            await asyncio.sleep(0)
        turn.set()
        return await task

    assert asyncio.run(main()) == ("routed", "eager")


def test_a_region_is_left_after_awaits_with_other_tasks_between(region):
    async def inside(answer):
        with region(lambda *_: answer, f=ROUTE):
            first = f()
            await asyncio.sleep(0)
            return first, f()

    async def outside():
        await asyncio.sleep(0)
        return f()

    async def main():
        return await asyncio.gather(inside("one"), outside(), inside("two"), outside())

    assert asyncio.run(main()) == [("one", "one"), "eager", ("two", "two"), "eager"]


def test_a_copied_context_of_a_region_that_was_left_is_off(region):
    with region(instead, f=ROUTE):
        copied = contextvars.copy_context()
        assert copied.run(f) == "routed"
    with region(lambda *_: "other", f=ROUTE):
        assert copied.run(f) == "eager"


def test_leave_from_another_context_and_thread(region, carrier):
    for leave_elsewhere in (contextvars.Context().run, contextvars.copy_context().run):
        opened = _native.enter(lambda code, _: ROUTE if code is f.__code__ else 0, instead, carrier, 20)
        assert f() == "routed"
        leave_elsewhere(_native.leave, opened)
        assert not _native.installed()
        assert f() == "eager"
    opened = _native.enter(lambda code, _: ROUTE if code is f.__code__ else 0, instead, carrier, 20)
    in_thread(lambda: _native.leave(opened))
    assert f() == "eager"


def test_nested_regions(region):
    with region(lambda *_: "outer", f=ROUTE):
        assert f() == "outer"
        with region(lambda *_: "inner", f=ROUTE):
            assert f() == "inner"
        assert f() == "outer"
    assert f() == "eager"


def test_nested_regions_that_are_left_in_the_order_of_entering(carrier):
    def enter(answer, policy):
        return _native.enter(lambda code, _: ROUTE if code is f.__code__ else 0, lambda *_: answer, carrier, policy)

    outer = enter("outer", 30)
    inner = enter("inner", 31)
    _native.leave(outer)
    assert f() == "inner"
    _native.leave(inner)
    assert f() == "eager"
    assert not _native.installed()


def test_the_context_is_as_before(region):
    def names():
        return [variable.name for variable in contextvars.copy_context()]

    def look():
        with region(), region():
            assert names() == ["ipy_dynwrap.region"]
        assert names() == []

    contextvars.Context().run(look)


def test_regions_in_two_threads(region):
    barrier = threading.Barrier(2)
    answers = {}

    def work(name):
        with region(lambda *_: name, f=ROUTE):
            barrier.wait()
            answers[name] = {f() for _ in range(1000)}
            barrier.wait()

    threads = [threading.Thread(target=work, args=(name,)) for name in ("one", "two")]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert answers == {"one": {"one"}, "two": {"two"}}


def test_leaving_frees_what_the_region_held(carrier):
    class Route:
        def __call__(self, *args):
            return None

    route = Route()
    gone = weakref.ref(route)
    opened = _native.enter(lambda *_: 0, route, carrier, 40)
    copied = contextvars.copy_context()
    _native.leave(opened)
    del route
    assert gone() is None
    assert len(copied) > 0


def test_a_region_that_nobody_left_is_off_when_it_is_collected(carrier):
    contextvars.Context().run(lambda: _native.enter(lambda *_: 0, instead, carrier, 50)) and None
    gc.collect()
    assert not _native.installed()


def test_a_region_cannot_be_made_by_hand():
    with pytest.raises(TypeError):
        _native.Region()


def test_the_context_of_another_thread():
    variable = contextvars.ContextVar("variable", default="unset")
    ready, done = threading.Event(), threading.Event()

    def work():
        variable.set("theirs")
        ready.set()
        done.wait()

    thread = threading.Thread(target=work)
    thread.start()
    ready.wait()
    try:
        context = _native.thread_context(thread.ident)
        assert context is not None
        assert context.copy()[variable] == "theirs"
        assert variable.get() == "unset"
    finally:
        done.set()
        thread.join()
    del context
    assert _native.thread_context(1) is None
