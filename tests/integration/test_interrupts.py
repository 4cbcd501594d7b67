"""An interrupt while something compiles: nothing is lost, nothing is left behind, and the process lives."""

from __future__ import annotations

import asyncio
import signal
import threading
import time

import pytest
import torch
from functorch.compile import make_boxed_func
from torch import nn
from torch._dynamo.backends.common import aot_autograd

import ipy_dynwrap
from ipy_dynwrap import interrupts

X = torch.linspace(-1, 1, 4)


@pytest.fixture(autouse=True)
def own_handler():
    """Give each test Python's own handler, and see that it is there in the end."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    signal.signal(signal.SIGINT, before)


@pytest.fixture
def impatient(monkeypatch):
    monkeypatch.setattr(interrupts, "PATIENCE_SECONDS", 0.0)


def wait(seconds=20):
    """Run Python until an interrupt is raised."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        pass
    pytest.fail("nothing was raised")


def test_what_was_being_compiled_is_kept(way):
    ran = []

    def backend(graph, inputs):
        signal.raise_signal(signal.SIGINT)
        ran.append(1)
        return graph.forward

    model = nn.Linear(4, 2)
    call = way(backend=backend)
    with pytest.raises(KeyboardInterrupt):
        call(model, X)
    assert torch.equal(call(model, X), model(X))
    assert ran == [1]


def test_a_long_compilation_is_stopped(way, impatient):
    def backend(graph, inputs):
        signal.raise_signal(signal.SIGINT)
        wait()

    call = way(backend=backend)
    with pytest.raises(KeyboardInterrupt) as caught:
        call(nn.Linear(4, 2), X)
    assert caught.value.__context__ is None
    model = nn.Linear(4, 2)
    assert torch.equal(way(backend="eager")(model, X), model(X))


def test_an_interrupt_while_a_backward_pass_is_traced_leaves_no_mode_behind(impatient):
    def backend(graph, inputs):
        torch.set_anomaly_enabled(True)
        signal.raise_signal(signal.SIGINT)
        wait()

    with pytest.raises(KeyboardInterrupt):
        ipy_dynwrap.compile(nn.Linear(4, 2), backend=backend)(X)
    assert not torch.is_anomaly_enabled()


def test_an_interrupt_while_a_backward_pass_is_compiled_late():
    """AOTAutograd compiles it at its first run, outside of any call that is routed."""
    asked = []

    def compile_graph(graph, inputs):
        asked.append(signal.getsignal(signal.SIGINT))
        if len(asked) == 2:
            signal.raise_signal(signal.SIGINT)
            asked.append("and went on")
        return make_boxed_func(graph.forward)

    backend = aot_autograd(fw_compiler=compile_graph, bw_compiler=compile_graph)
    out = ipy_dynwrap.compile(nn.Linear(4, 2), backend=backend)(X.clone().requires_grad_()).sum()
    if len(asked) == 2:
        pytest.fail("torch compiles the backward pass at once")
    with pytest.raises(KeyboardInterrupt):
        out.backward()
    assert asked[2] == "and went on"


def interrupted(block, deadly=()):
    """Run `block` with interrupts held back, and one at its beginning."""
    with interrupts.held(deadly):
        signal.raise_signal(signal.SIGINT)
        block()
    interrupts.deliver()


def test_nothing_is_raised_where_that_is_deadly(impatient):
    reached = []

    def deadly():
        end = time.monotonic() + 0.3
        while time.monotonic() < end:
            pass
        reached.append("the end")

    def block():
        deadly()
        wait()

    with pytest.raises(KeyboardInterrupt):
        interrupted(block, {deadly.__code__})
    assert reached == ["the end"]


def test_what_is_swallowed_is_raised_again(impatient):
    swallowed = []

    def swallow():
        try:
            wait()
        except KeyboardInterrupt:
            swallowed.append(1)

    def block():
        swallow()
        swallow()
        wait()

    with pytest.raises(KeyboardInterrupt):
        interrupted(block)
    assert swallowed == [1, 1]


def test_an_interrupt_comes_once():
    def block():
        time.sleep(0.2)
        signal.raise_signal(signal.SIGINT)

    with pytest.raises(KeyboardInterrupt):
        interrupted(block)
    time.sleep(0.2)


def test_an_error_of_the_block_gives_way_to_the_interrupt_and_is_its_context():
    def block():
        raise ValueError("mine")

    with pytest.raises(KeyboardInterrupt) as caught:
        interrupted(block)
    assert isinstance(caught.value.__context__, ValueError)


def test_a_handler_of_the_users_own_is_told_at_once_and_once():
    told = []
    signal.signal(signal.SIGINT, lambda number, frame: told.append(number))
    try:
        interrupted(lambda: told.append("then the block"))
        time.sleep(0.2)
        assert told == [signal.SIGINT, "then the block"]
    finally:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def test_a_task_is_cancelled_as_in_eager(way):
    """The handler of `asyncio.run` cancels the task at the first signal, and raises at the second."""
    cleaned = []

    def backend(graph, inputs):
        signal.raise_signal(signal.SIGINT)
        time.sleep(0.2)
        return graph.forward

    async def main():
        try:
            way(backend=backend)(nn.Linear(4, 2), X)
            await asyncio.sleep(10)
        except asyncio.CancelledError:
            cleaned.append("up")
            raise

    with pytest.raises(KeyboardInterrupt):
        asyncio.run(main())
    assert cleaned == ["up"]


def test_a_handler_that_is_set_inside_stays():
    def mine(number, frame):
        pass

    with interrupts.held(()):
        signal.signal(signal.SIGINT, mine)
    assert signal.getsignal(signal.SIGINT) is mine
    signal.signal(signal.SIGINT, signal.default_int_handler)


def test_blocks_nest():
    done = []

    def block():
        with interrupts.held(()):
            signal.raise_signal(signal.SIGINT)
        done.append("inner")

    with pytest.raises(KeyboardInterrupt):
        interrupted(block)
    assert done == ["inner"]


def test_the_next_compilation_of_the_same_call_does_not_begin():
    begun = []
    with interrupts.held(()):
        signal.raise_signal(signal.SIGINT)
    with pytest.raises(KeyboardInterrupt), interrupts.held(()):
        begun.append(1)
    assert begun == []


def test_a_graph_that_fails_after_an_interrupt_gives_way_to_it(way):
    def backend(graph, inputs):
        signal.raise_signal(signal.SIGINT)

        def fail(*args):
            raise ValueError("mine")

        return fail

    with pytest.raises(KeyboardInterrupt):
        way(backend=backend)(nn.Linear(4, 2), X)
    interrupts.deliver()  # nothing is left of it


@pytest.mark.parametrize("handler", [signal.SIG_IGN, signal.SIG_DFL])
def test_a_handler_that_is_not_pythons_stays(handler):
    signal.signal(signal.SIGINT, handler)
    try:
        with interrupts.held(()):
            assert signal.getsignal(signal.SIGINT) is handler
    finally:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def test_another_thread_changes_nothing():
    seen = []

    def work():
        with interrupts.held(()):
            seen.append(signal.getsignal(signal.SIGINT))

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert seen == [signal.default_int_handler]
