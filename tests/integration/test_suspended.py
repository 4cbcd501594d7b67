"""Generators and coroutines: a call of one runs nothing yet, and nothing may run it before its time."""

from __future__ import annotations

import asyncio
import itertools
import types

import pytest
import torch
from torch import nn

import ipy_dynwrap


class Steps(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(2, 2)
        self.log = []

    def forward(self, x):
        for step in itertools.count():
            self.log.append(step)
            yield self.linear(x) + step


class Later(Steps):
    async def forward(self, x):
        self.log.append("ran")
        return self.linear(x)


class Stepwise:
    def __call__(self, x):
        yield from (x + step for step in itertools.count())


def steps(x):
    for step in itertools.count():
        yield x + step


async def later(x):
    return x + 1


async def steps_later(x):
    for step in itertools.count():
        yield x + step


def call_compiled(target, x):
    return ipy_dynwrap.compile(target, backend="eager")(x)


def call_in_region(target, x):
    with ipy_dynwrap.region(backend="eager", include=__name__):
        return target(x)


@pytest.fixture(params=[call_compiled, call_in_region], ids=["compile", "region"])
def call(request):
    return request.param


X = torch.ones(2)


def replaced():
    """Return a module with a `forward` of its own that is a generator."""
    module = nn.Linear(2, 2)
    module.forward = steps
    return module


@pytest.mark.parametrize(
    "make", [Steps, Stepwise, replaced, lambda: steps], ids=["module", "object", "own", "function"]
)
def test_a_generator_runs_when_it_is_asked(call, make):
    target = make()
    made = call(target, X)
    assert type(made) is types.GeneratorType
    expected = target(X)
    for _ in range(3):
        torch.testing.assert_close(next(made), next(expected))


def test_a_generator_runs_nothing_before_that(call):
    module = Steps()
    made = call(module, X)
    assert module.log == []
    next(made)
    assert module.log == [0]


@pytest.mark.parametrize("make", [Later, lambda: later], ids=["module", "function"])
def test_a_coroutine_runs_when_it_is_awaited(call, make):
    target = make()
    made = call(target, X)
    assert type(made) is types.CoroutineType
    assert not getattr(target, "log", [])
    torch.testing.assert_close(asyncio.run(made), asyncio.run(target(X)))


def test_an_asynchronous_generator_runs_when_it_is_asked(call):
    made = call(steps_later, X)
    assert type(made) is types.AsyncGeneratorType
    torch.testing.assert_close(asyncio.run(anext(made)), X)


def test_nothing_is_lost_and_so_nothing_is_told():
    module = Steps()
    with ipy_dynwrap.region(backend="eager") as region:
        module(X)
    assert (region.report.calls, region.report.eager_calls, region.report.notices) == (0, 0, ())


def test_what_it_calls_is_compiled_in_a_region():
    module = Steps()
    with ipy_dynwrap.region(backend="eager") as region:
        made = module(X)
        for _ in range(3):
            next(made)
    assert region.report.compiles == 1
    assert region.report.hits == 2


def test_a_frozenset_with_a_tensor_is_returned(call):
    """Dynamo rebuilds it by a name that the outermost code must have."""

    def collect(x):
        return x + 1, frozenset(["a", x])

    total, collected = call(collect, X)
    torch.testing.assert_close(total, X + 1)
    assert sorted(type(each).__name__ for each in collected) == ["Tensor", "str"]
