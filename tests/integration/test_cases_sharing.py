"""Public reports about what shares a compilation and what does not; test_cases.py has the table."""

from __future__ import annotations

import functools
import operator

import pytest
import torch
from torch import nn

import ipy_dynwrap

KINDS = [
    nn.ReLU,
    nn.GELU,
    nn.SiLU,
    nn.Tanh,
    nn.Sigmoid,
    nn.ELU,
    nn.SELU,
    nn.CELU,
    nn.Softplus,
    nn.Softsign,
    nn.Mish,
    nn.Hardtanh,
]
FUNCTIONS = [
    torch.sin,
    torch.cos,
    torch.tan,
    torch.exp,
    torch.neg,
    torch.abs,
    torch.tanh,
    torch.sigmoid,
    torch.relu,
    torch.floor,
    torch.ceil,
    torch.round,
]
X = torch.linspace(-2, 2, 8)


class Around(nn.Module):
    def __init__(self, inner):
        super().__init__()
        self.inner = inner

    def forward(self, x):
        return self.inner(x) * 2


@pytest.fixture(params=[False, True], ids=["breaks allowed", "fullgraph"])
def fullgraph(request):
    return request.param


@pytest.fixture(params=[{}, {"isolate_recompiles": True}], ids=["together", "isolated"])
def isolation(request):
    """Return torch's option for a cache of each compilation's own, or none; what is right is the same."""
    return request.param


def all_right(call, targets, *args, rounds=2):
    """Call each target, `rounds` times over, and compare with eager."""
    for _ in range(rounds):
        for target in targets:
            torch.testing.assert_close(call(target, *args), target(*args))


# 01: https://github.com/pytorch/pytorch/pull/124881, 163503


def test_01_kinds_of_stock_layers_have_caches_of_their_own(way, counter, fullgraph):
    all_right(way(backend=counter, fullgraph=fullgraph), [kind() for kind in KINDS], X)
    assert (counter.graphs, counter.runs) == (12, 24)
    info = ipy_dynwrap.cache_info()
    assert (len(info.wrappers), info.compiles, info.eager_calls) == (12, 12, 0)
    assert len({wrapper.name for wrapper in info.wrappers}) == 12
    assert {wrapper.target for wrapper in info.wrappers} == {f"{kind.__name__}.forward" for kind in KINDS}


def test_01_wrappers_have_code_objects_of_their_own(way):
    from ipy_dynwrap import state

    for kind in KINDS:
        way(backend="eager")(kind(), X)
    assert len({id(wrapper.code) for wrapper in state.cache}) == 12
    assert len({(wrapper.code.co_filename, wrapper.code.co_name) for wrapper in state.cache}) == 12


# 02: https://github.com/pytorch/pytorch/issues/124269, https://github.com/pytorch/pytorch/pull/181531


@pytest.fixture(params=[{}, {"__name__": __name__}], ids=["an empty namespace", "a module's namespace"])
def generated(request):
    """Return what makes a function ``made(x, k=...)`` from the expression that it returns."""

    def make(expression):
        namespace = {"torch": torch, **request.param}
        exec(f"def made(x, k=1):\n    return {expression}\n", namespace)
        return namespace["made"]

    return make


def test_02_generated_functions_compile_once_each(way, counter, fullgraph, generated):
    functions = [generated(f"torch.mul(x, {number})") for number in range(20)]
    all_right(way(backend=counter, fullgraph=fullgraph), functions, X)
    assert (counter.graphs, counter.runs) == (20, 40)


def test_02_partials_of_generated_functions_compile_once_each(way, counter, fullgraph, generated):
    partials = [functools.partial(generated(f"torch.mul(x, k) + {number}"), k=number + 2) for number in range(12)]
    all_right(way(backend=counter, fullgraph=fullgraph), partials, X)
    assert (counter.graphs, counter.runs) == (12, 24)


def test_02_the_same_text_generated_again_is_compiled_at_most_again(way, counter, generated):
    all_right(way(backend=counter), [generated("x - 3") for _ in range(12)], X)
    assert counter.graphs <= 12
    assert counter.runs == 24


# 03: https://github.com/pytorch/pytorch/issues/171593, https://github.com/pytorch/pytorch/pull/171598


class Picking(nn.Module):
    def __init__(self, key):
        super().__init__()
        self.key = key

    def forward(self, table):
        return table[self.key] * 2


@pytest.mark.parametrize(("values", "compilations"), [(12, 12), (1, 1)], ids=["different", "equal"])
def test_03_instances_that_differ_in_a_string(way, counter, values, compilations, isolation):
    table = {f"key {number}": torch.full((2,), float(number)) for number in range(12)}
    all_right(way(backend=counter, **isolation), [Picking(f"key {number % values}") for number in range(12)], table)
    assert (counter.graphs, counter.runs) == (compilations, 24)
    assert ipy_dynwrap.cache_info().eager_calls == 0


# 04: https://github.com/pytorch/pytorch/issues/167504


def test_04_a_shell_around_modules_of_many_types(way, counter, fullgraph, isolation):
    all_right(way(backend=counter, fullgraph=fullgraph, **isolation), [Around(kind()) for kind in KINDS], X)
    assert (counter.graphs, counter.runs) == (12, 24)


# 05: https://github.com/pytorch/pytorch/pull/124881, https://github.com/pytorch/pytorch/issues/125652


@pytest.mark.parametrize("make", [lambda: Around(nn.Linear(4, 4)), lambda: nn.Linear(4, 4)], ids=["own", "stock"])
def test_05_equal_instances_share_one_compilation(way, counter, make, isolation):
    all_right(way(backend=counter, **isolation), [make() for _ in range(20)], torch.rand(2, 4), rounds=1)
    assert (counter.graphs, counter.runs) == (1, 20)


# 06: https://github.com/pytorch/pytorch/issues/197811


def applied(method):
    def apply(a, b):
        return method(a, b)

    return apply


@pytest.mark.parametrize(
    "methods",
    [
        (torch.Tensor.__sub__, torch.Tensor.__mul__),
        (torch.Tensor.sub, torch.Tensor.mul),
        (torch.sub, torch.mul),
        (operator.sub, operator.mul),
    ],
    ids=["special methods", "methods", "torch functions", "operators"],
)
def test_06_closures_over_callables_in_c_are_told_apart(way, counter, methods, isolation):
    call = way(backend=counter, **isolation)
    a, b = torch.tensor(6.0), torch.tensor(3.0)
    for _ in range(2):
        assert [call(applied(method), a, b).item() for method in methods] == [3.0, 18.0]
    assert counter.graphs == 2


# 07: https://github.com/pytorch/pytorch/pull/124881, https://github.com/pytorch/pytorch/issues/93782, 172747


def over(function):
    """Return a closure over `function`, and what binds the variable anew."""

    def closure(x):
        return function(x) + 1

    def bind(other):
        nonlocal function
        function = other

    return closure, bind


@pytest.mark.parametrize(("values", "compilations"), [(12, 12), (1, 1)], ids=["different", "equal"])
def test_07_closures_of_one_factory(way, counter, values, compilations, isolation):
    closures = [over(FUNCTIONS[number % values])[0] for number in range(12)]
    all_right(way(backend=counter, **isolation), closures, X)
    assert (counter.graphs, counter.runs) == (compilations, 24)


def test_07_a_variable_that_is_bound_to_a_former_value_compiles_nothing(way, counter):
    closure, bind = over(torch.sin)
    call = way(backend=counter)
    for function in (torch.sin, torch.cos) * 3:
        bind(function)
        torch.testing.assert_close(call(closure, X), function(X) + 1)
    assert (counter.graphs, counter.runs) == (2, 6)


def test_07_one_compiled_closure_follows_its_variable(counter):
    closure, bind = over(torch.sin)
    compiled = ipy_dynwrap.compile(closure, backend=counter)
    for function in (torch.sin, torch.cos) * 3:
        bind(function)
        torch.testing.assert_close(compiled(X), function(X) + 1)
    assert (counter.graphs, counter.runs) == (2, 6)


# 08: https://github.com/patrick-kidger/jaxtyping/issues/384, https://github.com/pytorch/pytorch/pull/163503


def checked(function):
    @functools.wraps(function)
    def check(*args, **kwargs):
        return function(*args, **kwargs)

    return check


def test_08_functions_under_one_decorator_compile_once_each(way, counter, isolation, generated):
    functions = [checked(generated(f"x + {number}")) for number in range(12)]
    all_right(way(backend=counter, **isolation), functions, X)
    assert (counter.graphs, counter.runs) == (12, 24)


# 09: https://github.com/pytorch/pytorch/pull/108846, https://github.com/pytorch/pytorch/issues/139374, 169010


def applying(x, function):
    return function(x)


def shifted(x, k):
    return x - k


@pytest.mark.parametrize(("values", "compilations"), [(12, 12), (1, 1)], ids=["different", "equal"])
def test_09_partials_and_an_unrelated_one_afterwards(way, counter, values, compilations):
    call = way(backend=counter)
    all_right(call, [functools.partial(applying, function=FUNCTIONS[number % values]) for number in range(12)], X)
    assert (counter.graphs, counter.runs) == (compilations, 24)
    all_right(call, [functools.partial(shifted, k=1.5)], X)
    assert (counter.graphs, counter.runs) == (compilations + 1, 26)
