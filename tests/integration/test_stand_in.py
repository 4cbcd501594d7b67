"""What running Dynamo's own tests with `compile` in place of `torch.compile` brought to light."""

from __future__ import annotations

import copy
import functools
import inspect
import itertools
import pickle
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


class Scaled(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = torch.nn.Linear(2, 2)

    def forward(self, x, gain=1.0):
        return self.linear(x) * gain

    def through_self(self, x):
        return self.forward(x, gain=3.0)


class ScaledTwice(Scaled):
    def forward(self, x, gain=1.0):
        return super().forward(x, gain) * 2


X = torch.ones(2, 2)


@pytest.mark.parametrize("cls", [Scaled, ScaledTwice])
def test_forward_of_a_compiled_module_is_compiled(counter, cls):
    module = cls()
    compiled = ipy_dynwrap.compile(module, backend=counter)
    for _ in range(2):
        torch.testing.assert_close(compiled.forward(X, gain=2.0), module.forward(X, gain=2.0))
    assert (counter.graphs, counter.runs) == (1, 2)
    torch.testing.assert_close(compiled.through_self(X), module.through_self(X))
    assert counter.runs == 3
    assert type(compiled).forward is compiled.__class__.forward is cls.forward
    assert inspect.signature(compiled.forward) == inspect.signature(module.forward)
    assert list(compiled.state_dict()) == ["linear.weight", "linear.bias"]


def test_forward_fires_no_hooks_as_in_eager(counter):
    module = Scaled()
    module.register_forward_hook(lambda module, args, output: output + 1)
    compiled = ipy_dynwrap.compile(module, backend=counter)
    torch.testing.assert_close(compiled.forward(X), module.forward(X))
    torch.testing.assert_close(compiled(X), module(X))
    assert counter.runs == 2


@pytest.mark.parametrize("outside", [torch.compile, ipy_dynwrap.compile])
def test_forward_of_a_compiled_module_inside_of_what_is_compiled(counter, outside):
    module = ScaledTwice()
    compiled = ipy_dynwrap.compile(module, backend=counter)
    forward = compiled.forward

    def call(x):
        return compiled.forward(x, gain=2.0) + forward(x) + compiled(x)

    expected = module(X, gain=2.0) + module(X) * 2
    torch.testing.assert_close(outside(call, backend=counter, fullgraph=True)(X), expected)
    assert (counter.graphs, counter.runs) == (1, 1)


def test_forward_can_be_replaced_around_itself(counter):
    """As libraries do that move the inputs of a model to where its weights are."""
    module = Scaled()
    expected = module(X * 2) + 1
    compiled = ipy_dynwrap.compile(module, backend=counter)
    inner = compiled.forward

    def around(x):
        return inner(x * 2) + 1

    compiled.forward = around
    assert vars(module)["forward"] is around
    for call in (compiled, compiled.forward, module):
        torch.testing.assert_close(call(X), expected)
    assert counter.runs == 3
    del compiled.forward
    torch.testing.assert_close(compiled.forward(X * 2) + 1, expected)
    assert "forward" not in vars(module)
    with pytest.raises(AttributeError, match="forward"):
        del compiled.forward


def through_pickle(compiled):
    return pickle.loads(pickle.dumps(compiled))  # noqa: S301 (made in the line itself)


@pytest.mark.parametrize("copied", [copy.copy, copy.deepcopy, through_pickle])
def test_forward_of_a_copy_is_compiled(counter, copied):
    module = Scaled()
    torch._dynamo.register_backend(counter, name="of_copies")
    try:
        copied(ipy_dynwrap.compile(module, backend="of_copies")).forward(X)
    finally:
        torch._dynamo.backends.registry._COMPILER_FNS.pop("of_copies")
    assert counter.runs == 1


def test_forward_with_other_parameters(counter):
    compiled = ipy_dynwrap.compile(Scaled(), backend=counter)
    zeros = {name: torch.zeros_like(value) for name, value in compiled.state_dict().items()}
    assert torch.func.functional_call(compiled, zeros, (X,)).abs().sum() == 0
    assert compiled.forward(X).abs().sum() > 0


def test_a_forward_that_is_a_generator_is_given_back():
    class Steps(torch.nn.Module):
        def forward(self, x):
            yield x + 1

    module = Steps()
    assert ipy_dynwrap.compile(module, backend="eager").forward == module.forward


@functools.lru_cache
def cached(x):
    """Add one."""
    return x + 1


def test_the_name_of_a_cached_function(way, counter):
    """Dynamo reads the function behind the cache; what the cache object has besides is not looked at."""
    call = way(backend=counter)

    def named(x):
        return x * len(cached.__name__) + len(cached.__doc__)

    for _ in range(2):
        torch.testing.assert_close(call(named, X), named(X))
    assert (counter.graphs, counter.runs) == (1, 2)


def forks_thrice(x, *flags):
    for flag in flags:
        if flag:
            x = x + 1
        x = x * 2
    return x


def test_nested_graph_breaks_change_no_count(counter, new_counter):
    """A wrapper inlines its target: a break of the target's is no nested one, as it is not under torch.compile."""
    calls = list(itertools.product([torch.tensor(True), torch.tensor(False)], repeat=3))
    expected = new_counter()
    with torch._dynamo.config.patch(nested_graph_breaks=True):
        for compiled in (
            torch.compile(forks_thrice, backend=expected),
            ipy_dynwrap.compile(forks_thrice, backend=counter),
        ):
            for flags in calls:
                torch.testing.assert_close(compiled(X, *flags), forks_thrice(X, *flags))
            torch._dynamo.reset()
    assert counter.graphs == expected.graphs


def test_settings_that_contradict_each_other_are_refused_at_once():
    with (
        torch._dynamo.config.patch(suppress_errors=True, fail_on_recompile_limit_hit=True),
        pytest.raises(AssertionError, match="fail_on_recompile_limit_hit"),
    ):
        ipy_dynwrap.compile(cached, backend="eager")
