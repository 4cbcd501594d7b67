"""As many compilations as targets that really differ: not one more, none eager, and no wrong answer."""

from __future__ import annotations

import functools

import pytest
import torch
import torch._dynamo
from makers import WAYS, Applied, Settings, after, over, run_module, run_with, traced, written
from torch import nn

FEW, MANY = 12, 200


class Scaled(nn.Module):
    def __init__(self, scale, unread=0):
        super().__init__()
        self.linear = nn.Linear(3, 3)
        self.scale = scale
        self.unread = unread

    def forward(self, x):
        return self.linear(x) * self.scale


class ScaledAfterBreak(Scaled):
    graphs = 2

    def forward(self, x):
        x = self.linear(x)
        torch._dynamo.graph_break()
        return x * self.scale


class Around(nn.Module):
    def __init__(self, inner):
        super().__init__()
        self.inner = inner

    def forward(self, x):
        return self.inner(x) - 1


def kind(i):
    """Return an instance of a module class of its own."""

    def forward(self, x):
        return torch.tanh(x) * i

    return type(f"Kind{i}", (nn.Module,), {"forward": forward})()


def sized(i):
    return nn.Linear(3, 1 + i)


def between(operator):
    def run(x):
        return operator(x, x + 2)

    return run


def hooked(i):
    layer = nn.Linear(3, 3)
    layer.register_forward_hook(lambda module, args, output: output * (i + 2))
    return layer


def sometimes_hooked(i):
    module = Around(nn.Identity())
    if i % 2:
        module.inner.register_forward_hook(lambda module, args, output: output + 20)
    return module


OPERATORS = [torch.Tensor.__add__, torch.Tensor.__sub__, torch.Tensor.__mul__, torch.Tensor.__truediv__]
UNARY = [
    "sin",
    "cos",
    "tan",
    "exp",
    "log1p",
    "sqrt",
    "abs",
    "neg",
    "sigmoid",
    "tanh",
    "relu",
    "sinh",
    "cosh",
    "asinh",
    "atan",
    "erf",
    "expm1",
    "floor",
    "ceil",
    "round",
]
X = torch.rand(2, 3, generator=torch.Generator().manual_seed(0)) + 0.5


def row(make, right, what):
    """Return a row: how the i-th target, or the target with its arguments, is made, and what n of them must cost."""
    few = pytest.param(make, FEW, right(FEW), id=f"{what}-{FEW}")
    many = pytest.param(make, MANY, right(MANY), id=f"{what}-{MANY}", marks=pytest.mark.random)
    return few, many


ROWS = [
    *row(kind, lambda n: n, "class of the module"),
    *row(sized, lambda n: n, "size of a parameter"),
    *row(lambda i: Scaled(1.5), lambda n: 1, "nothing"),
    *row(lambda i: Scaled(i + 2), lambda n: n, "int attribute"),
    *row(lambda i: Scaled(i + 0.5), lambda n: 2, "float attribute"),
    *row(lambda i: Scaled(2, unread=i), lambda n: 1, "attribute that is not read"),
    *row(lambda i: Around(kind(i)), lambda n: n, "class of the inner module"),
    *row(over, lambda n: 2, "int in the closure"),
    *row(lambda i: after(written(i)), lambda n: n, "function in the closure"),
    *row(lambda i: between(OPERATORS[i % 4]), lambda n: 4, "descriptor in the closure"),
    *row(lambda i: after(Scaled(i + 2)), lambda n: n, "module in the closure"),
    *row(lambda i: traced(written(i)), lambda n: n, "function under a decorator"),
    *row(lambda i: functools.partial(written(i)), lambda n: n, "function of a partial"),
    *row(lambda i: Applied(written(i)), lambda n: n, "function of a callable object"),
    *row(lambda i: Applied(written(i)).act, lambda n: n, "function of a method's object"),
    *row(hooked, lambda n: n, "int in a hook's closure"),
    *row(sometimes_hooked, lambda n: 2, "whether it has a hook"),
    *row(lambda i: (run_module, (Scaled(i + 2), X)), lambda n: n, "module that is passed"),
    *row(lambda i: (run_module, (Scaled(2, unread=i), X)), lambda n: 1, "attribute not read of a passed module"),
    *row(
        lambda i: (run_with, (Settings(word="a" * i, kind="a", unread=-i), X)), lambda n: n, "settings that are passed"
    ),
    *row(lambda i: ScaledAfterBreak(i + 2), lambda n: n + 1, "attribute read after a graph break"),
    *row(lambda i: ScaledAfterBreak(2, unread=i), lambda n: 2, "attribute not read and a graph break"),
]


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize(("make", "n", "right"), ROWS)
def test_as_many_compilations_as_needed(way, counter, make, n, right):
    torch.manual_seed(0)
    calls = [made if isinstance(made := make(i), tuple) else (made, (X,)) for i in range(n)]
    assert figures(calls, WAYS[way](__name__, backend=counter), counter) == (right, 0, [])


def test_each_function_of_torch_compiles_once(counter):
    call = WAYS["compile"](__name__, backend=counter)
    assert figures([(getattr(torch, name), (X,)) for name in UNARY], call, counter) == (len(UNARY), 0, [])


def figures(calls, call, counter):
    """Make each call twice; return the compilations, the graphs that ran eager, and the targets that answered wrong."""
    expected = [target(*args) for target, args in calls]
    wrong = []
    for _ in range(2):
        for i, (target, args) in enumerate(calls):
            if not torch.allclose(call(target, *args), expected[i]):
                wrong.append(i)
    graphs = getattr(calls[0][0], "graphs", 1)
    return counter.graphs, 2 * len(calls) * graphs - counter.runs, wrong
