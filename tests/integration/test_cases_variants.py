"""Public reports about variants of one target: backends, sizes, modes, counters; test_cases.py has the table."""

from __future__ import annotations

import itertools

import pytest
import torch
import torch._dynamo
from torch import nn

import ipy_dynwrap
from ipy_dynwrap.events import EagerCall

X = torch.linspace(-2, 2, 8)


# 12: https://github.com/pytorch/pytorch/issues/168373


class Sine(nn.Module):
    def forward(self, x):
        return torch.sin(x)


class EqualBackend:
    """Backends that say that they are equal."""

    def __init__(self, graphs):
        self.graphs = graphs

    def __eq__(self, other):
        return isinstance(other, EqualBackend)

    def __hash__(self):
        return 1

    def __call__(self, graph, inputs):
        self.graphs.append(graph)
        return graph.forward


def test_12_a_backend_that_is_made_anew_is_named_as_the_reason(way, new_counter):
    backends = [new_counter() for _ in range(12)]
    for _ in range(2):
        for backend in backends:
            torch.testing.assert_close(way(backend=backend)(Sine(), X), torch.sin(X))
    assert [(backend.graphs, backend.runs) for backend in backends] == [(1, 2)] * 12
    info = ipy_dynwrap.cache_info()
    assert info.eager_calls == 0
    assert [wrapper.last_reason for wrapper in info.wrappers] == [None] + ["backend object differs"] * 11


def test_12_backends_that_are_equal_share(way):
    graphs = []
    for _ in range(12):
        torch.testing.assert_close(way(backend=EqualBackend(graphs))(Sine(), X), torch.sin(X))
    assert len(graphs) == 1


def test_12_a_notebook_is_told_that_the_backend_differs(shell):
    shell("import torch\nnet = torch.nn.Tanh()\nx = torch.ones(2)")
    for _ in range(2):
        assert shell("def mine(graph, inputs):\n    return graph.forward").success
        assert shell("%%compile --backend mine\nassert torch.equal(net(x), x.tanh())").success
    shell("%dynwrap why net")
    assert "for the first time (cell 3" in shell.text
    assert "because backend object differs (cell 5" in shell.text


# 13: https://github.com/pytorch/pytorch/issues/172747, https://github.com/pytorch/pytorch/pull/173512


def scaled(k):
    def scale(x):
        return x * k

    return scale


class Weighted(nn.Module):
    def __init__(self, n):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(n))

    def forward(self, x):
        return x * self.weight


class DynamicInputs:
    """A backend that notes for each graph whether it has a symbolic size."""

    def __init__(self):
        self.seen = []

    def __call__(self, graph, example_inputs):
        sizes = [size for each in example_inputs for size in (each, *getattr(each, "shape", ()))]
        self.seen.append(any(isinstance(size, torch.SymInt) for size in sizes))
        return graph.forward


@pytest.mark.parametrize(
    "targets",
    [
        lambda: (scaled(2.0), scaled(3.0)),
        lambda: (Weighted(4), Weighted(6)),
        lambda: (lambda x: x * 2.0, lambda x: x * 3.0),
    ],
    ids=["closures of one factory", "modules", "functions"],
)
def test_13_targets_of_one_size_each_stay_static(way, targets):
    backend = DynamicInputs()
    call = way(backend=backend)
    for _ in range(2):
        for target, size in zip(targets(), (4, 6), strict=True):
            torch.testing.assert_close(call(target, torch.ones(size)), target(torch.ones(size)))
    assert backend.seen == [False, False]


@pytest.mark.parametrize(
    ("targets", "reason"),
    [
        (lambda: (scaled(2.0), scaled(3.0)), "k 2.0 -> 3.0"),
        (lambda: (Weighted(4), Weighted(6)), "self.weight.shape[0] 4 -> 6"),
    ],
    ids=["closures of one factory", "modules"],
)
def test_13_the_reason_names_the_target_that_differs(way, counter, targets, reason):
    for target, size in zip(targets(), (4, 6), strict=True):
        way(backend=counter)(target, torch.ones(size))
    info = ipy_dynwrap.cache_info()
    assert [entry.reason for wrapper in info.wrappers for entry in wrapper.entries] == [None, reason]
    assert reason in str(ipy_dynwrap.explain())


# 15: https://github.com/pytorch/pytorch/issues/141589, 128319


def test_15_modes_are_compiled_once_each_with_a_reason(way, counter):
    trained, frozen = (nn.Sequential(nn.Linear(4, 4), nn.Dropout(0.1)) for _ in range(2))
    frozen.requires_grad_(False)
    call = way(backend=counter)
    for _ in range(2):
        for module, training, grad in itertools.product((trained, frozen), (True, False), (True, False)):
            with torch.set_grad_enabled(grad):
                call(module.train(training), torch.ones(2, 4))
    info = ipy_dynwrap.cache_info()
    assert (counter.graphs, counter.runs, info.eager_calls) == (8, 16, 0)
    [reasons] = [[entry.reason for entry in wrapper.entries] for wrapper in info.wrappers]
    training, grad = "self[1].training True -> False", "grad mode on -> off"
    frozen = "self[0].weight.requires_grad True -> False, self[0].bias.requires_grad True -> False"
    assert reasons == [None, grad, training, grad, frozen, grad, training, grad]
    assert info.recompiles == 7


class Counting(nn.Module):
    def __init__(self):
        super().__init__()
        self.calls = 0

    def forward(self, x):
        self.calls += 1
        return x * self.calls


class Decaying(nn.Module):
    def __init__(self):
        super().__init__()
        self.rate = 1.0

    def forward(self, x):
        self.rate *= 0.5
        return x * self.rate


def test_15_a_counter_in_a_module_ends_with_advice(way, counter):
    from ipy_dynwrap import state

    written = state.log.written
    module, eager = Counting(), Counting()
    call = way(backend=counter)
    for _ in range(20):
        torch.testing.assert_close(call(module, torch.ones(3)), eager(torch.ones(3)))
    assert module.calls == eager.calls
    assert counter.graphs <= torch._dynamo.config.recompile_limit
    if counter.runs < 20:
        told = {event.reason for event in state.log.since(written) if isinstance(event, EagerCall)}
        assert any("self.calls" in reason and "a tensor or a buffer" in reason for reason in told)


def test_15_a_schedule_in_a_module_becomes_dynamic(way, counter):
    module, eager = Decaying(), Decaying()
    call = way(backend=counter)
    for _ in range(20):
        torch.testing.assert_close(call(module, torch.ones(3)), eager(torch.ones(3)))
    assert module.rate == eager.rate
    assert (counter.graphs, counter.runs) == (2, 20)
