"""What running Dynamo's own tests with `compile` in place of `torch.compile` brought to light."""

from __future__ import annotations

import itertools
import types

import pytest
import torch

import ipy_dynwrap
from ipy_dynwrap.options import OptionsError


class Counting:
    def upwards(self, x):
        for i in itertools.count():
            yield x + i


def upwards(x):
    for i in itertools.count():
        yield x + i


@pytest.mark.parametrize("generator", [upwards, Counting().upwards], ids=["function", "method"])
def test_a_generator_runs_only_as_far_as_it_is_asked(generator):
    made = ipy_dynwrap.compile(generator, backend="eager")(torch.ones(2))
    assert isinstance(made, types.GeneratorType)
    assert [each[0].item() for each in itertools.islice(made, 3)] == [1, 2, 3]


def test_a_generator_is_refused_under_fullgraph():
    with pytest.raises(OptionsError, match="no generator such as upwards; leave out fullgraph"):
        ipy_dynwrap.compile(upwards, backend="eager", fullgraph=True)


@pytest.mark.parametrize("compiler", [torch.compile, ipy_dynwrap.compile])
def test_compiling_inside_of_what_is_compiled(compiler):
    def doubled(x):
        return x * 2

    def plainly(x):
        return ipy_dynwrap.compile(doubled, backend="eager")(x)

    def by_decorator(x):
        return ipy_dynwrap.compile(backend="eager")(doubled)(x)

    for function in (plainly, by_decorator):
        compiled = compiler(function, backend="eager", fullgraph=True)
        assert compiled(torch.ones(2)).tolist() == [2, 2]


class One:
    def __init__(self, x):
        self.x = x + 1


class Two:
    def __init__(self, x):
        self.x = x + 2


class OneTensor(torch.Tensor):
    pass


class Base(torch.nn.Module):
    def forward(self, x):
        return x + 1


class Derived(Base):
    def forward(self, x):
        return super().forward(x) * 2


def over(kind, cls):
    """Return a function that closes over a class, and what puts another one into its cell."""
    held = cls

    def by_call(x):
        return held(5).x + x

    def by_another(x):
        return by_call(x)

    def by_type(x):
        return x + isinstance(x, held)

    def put(other):
        nonlocal held
        held = other

    return {"called": by_call, "called by another": by_another, "asked for": by_type}[kind], put


@pytest.mark.parametrize("kind", ["called", "called by another", "asked for"])
def test_a_class_in_a_closure_is_replaced(way, counter, kind):
    """Torch has no guard on it where the function is inlined."""
    one, two = (One, Two) if kind != "asked for" else (OneTensor, torch.Tensor)
    function, put = over(kind, one)
    call = way(backend=counter)
    x = torch.zeros(2)
    for cls in (one, two, one, two):
        put(cls)
        torch.testing.assert_close(call(function, x), function(x))
    assert counter.graphs == 2


def test_the_class_that_super_refers_to_is_one_and_the_same(way, counter):
    call = way(backend=counter)
    for module in (Derived(), Derived()):
        torch.testing.assert_close(call(module, torch.zeros(2)), torch.full((2,), 2.0))
    assert counter.graphs == 1


def test_what_is_disabled_but_not_what_it_calls_runs_as_it_is(way):
    seen = []

    @torch.compiler.disable(recursive=False)
    def inner(x):
        seen.append(torch.compiler.is_compiling())
        return x + 1

    def outer(x):
        return inner(x) * 2

    call = way(backend="eager")
    for _ in range(3):
        torch.testing.assert_close(call(outer, torch.ones(2)), torch.full((2,), 4.0))
    assert seen == [False] * 3


def test_a_class_whose_metaclass_calls_is_given_back():
    class Meta(type):
        def __call__(cls, x):
            return x * cls.k

    class Scaled(metaclass=Meta):
        k = 2

    compiled = ipy_dynwrap.compile(Scaled, backend="eager")
    assert compiled is Scaled
    torch.testing.assert_close(compiled(torch.ones(2)), torch.full((2,), 2.0))
