"""Which sizes become dynamic: those that change for one target, and then for all that its family compiles."""

from __future__ import annotations

import pytest
import torch
from torch import nn

import ipy_dynwrap


class Scaled(nn.Module):
    """Has a weight of a size of its own."""

    def __init__(self, size):
        super().__init__()
        self.weight = nn.Parameter(torch.arange(float(size)))

    def forward(self, x):
        return x * self.weight


class Broken(Scaled):
    def forward(self, x):
        x = x * self.weight
        torch._dynamo.graph_break()
        return x + self.weight


class Named:
    def __init__(self, name):
        self.name = name

    def __call__(self, x):
        return x + len(self.name)

    def act(self, x):
        return x - len(self.name)


def over(value):
    def scale(x):
        return x * value

    return scale


def after(name):
    def plus(x):
        return x + len(name)

    return plus


class Shapes:
    """A backend that notes of each graph whether something in it is symbolic."""

    def __init__(self):
        self.dynamic = []

    def __call__(self, graph, inputs):
        self.dynamic.append(
            any(isinstance(each, torch.SymInt | torch.SymFloat) for each in inputs)
            or any(isinstance(size, torch.SymInt) for each in inputs if torch.is_tensor(each) for size in each.shape)
        )
        return graph.forward


def call_compiled(backend, target, *args):
    return ipy_dynwrap.compile(target, backend=backend)(*args)


def call_in_region(backend, target, *args):
    with ipy_dynwrap.region(backend=backend, include=__name__):
        return target(*args)


@pytest.fixture(params=[call_compiled, call_in_region], ids=["compile", "region"])
def call(request):
    """Return what calls a target, compares it with eager and returns what was compiled so far."""
    backend = Shapes()

    def run(target, *args):
        torch.testing.assert_close(request.param(backend, target, *args), target(*args))
        return backend.dynamic

    return run


TARGETS = {
    "closures": lambda index: after("n" * index),
    "instances": Scaled,
    "instances with a graph break": Broken,
    "objects": lambda index: Named("n" * index),
    "methods": lambda index: Named("n" * index).act,
}


@pytest.mark.parametrize("make", TARGETS.values(), ids=TARGETS)
def test_two_targets_with_one_shape_each_are_compiled_for_it(call, make):
    """The shape of another target says nothing about a target's own (pytorch issue 172747)."""
    for size in (4, 6):
        compiled = call(make(size), torch.ones(size))
    assert not any(compiled)


def test_two_closures_over_numbers_are_compiled_for_their_shapes(call):
    """The number itself is then a variable of the second graph, which serves all numbers: a third shape is its own."""
    for value in (4.0, 6.0):
        compiled = call(over(value), torch.ones(int(value)))
    assert compiled == [False, False]
    for size in (3, 5, 7):
        compiled = call(over(size + 0.5), torch.ones(size))
    assert compiled == [False, False, True]


@pytest.mark.parametrize("rows", [(2, 4, 3), (2, 2, 4, 3, 2)])
def test_a_family_compiles_once_more_than_torch_does_at_most(call, rows):
    """With a third shape a size changes: what is compiled from there on serves every size."""
    targets = [Named("n" * index) for index in range(len(rows))]
    for target, size in zip(targets, rows, strict=True):
        call(target, torch.ones(size))
    for target in targets:
        for size in (2, 3, 4, 5):
            compiled = call(target, torch.ones(size))
    alone = Shapes()
    torch._dynamo.reset()
    together = torch.compile(lambda target, x: target(x), backend=alone)
    for target, size in zip(targets, rows, strict=True):
        together(target, torch.ones(size))
    for target in targets:
        for size in (2, 3, 4, 5):
            together(target, torch.ones(size))
    assert len(compiled) <= len(alone.dynamic) + 1


@pytest.mark.parametrize("make", TARGETS.values(), ids=TARGETS)
def test_each_target_still_sees_its_own_shapes_change(call, make):
    """The first shape of a target is compiled for itself; the second one for all that follow."""
    targets = [make(1), make(1)]
    x = torch.ones(1, 1)
    for target in targets:
        for rows in (2, 4, 6):
            compiled = call(target, x.expand(rows, 1).contiguous())
    graphs = 2 if make is TARGETS["instances with a graph break"] else 1
    assert compiled[: 2 * graphs] == [False] * graphs + [True] * graphs
    assert all(compiled[graphs:])


def hooked(index):
    layer = nn.Linear(3, 3)
    layer.register_forward_hook(lambda module, args, output: output * 2 if index < 0 else output + 1)
    layer.register_forward_pre_hook(HOOKS[index])
    return layer


def pre_hook(index):
    namespace = {}
    exec(f"def pre(module, args):\n    return (args[0] + {index},)\n", namespace)
    return namespace["pre"]


HOOKS = [pre_hook(index) for index in range(6)]
FAMILIES = {
    "layers with hooks of their own": (hooked, (3,)),
    "objects with text of their own": (lambda index: Named("n" * index), (3,)),
    "closures": (lambda index: after("n" * index), (3,)),
}


@pytest.mark.parametrize(("make", "rest"), FAMILIES.values(), ids=FAMILIES)
def test_what_changed_for_one_target_is_dynamic_for_those_that_follow(call, make, rest):
    """So a family compiles one graph more than it has targets, not twice as many as it has."""
    for index in range(6):
        target = make(index)
        for rows in (2, 4, 7):
            compiled = call(target, torch.ones(rows, *rest))
    assert compiled == [False] + [True] * 6


def test_numbers_that_changed_are_known_to_those_that_follow(call):
    """The arguments may be numbers, too."""

    class Repeated(Named):
        def __call__(self, x, times):
            return x * times + len(self.name)

    for index in range(4):
        target = Repeated("n" * index)
        for times in (2, 3, 5):
            compiled = call(target, torch.ones(2), times)
    assert compiled == [False] + [True] * 4


def test_a_shape_comes_back(call):
    """A target's first shape keeps the entry that was compiled for it, whatever other targets have had since."""
    one, other = Scaled(1), Scaled(2)
    call(one, torch.ones(2, 1))
    call(other, torch.ones(5, 2))
    call(one, torch.ones(3, 1))
    assert call(one, torch.ones(2, 1)) == [False, False, True]
    assert call(other, torch.ones(5, 2)) == [False, False, True]


def test_numbers_of_the_target_that_changed_are_known_to_those_that_follow(call):
    """The closure over a number is a variable of one graph for each text, not of two."""

    def over_both(number, text):
        def scale(x):
            return x * number + len(text)

        return scale

    for length in range(4):
        for number in range(3, 7):
            compiled = call(over_both(number, "n" * length), torch.ones(2))
    assert len(compiled) == 5
