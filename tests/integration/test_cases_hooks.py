"""Public reports about hooks of modules; test_cases.py has the table."""

from __future__ import annotations

import pytest
import torch
from torch import nn
from torch.nn.modules.module import register_module_forward_pre_hook


class Around(nn.Module):
    """One inner module, and something to fuse it with."""

    def __init__(self, inner):
        super().__init__()
        self.inner = inner

    def forward(self, x):
        return self.inner(x) * 2


def add_fifty(module, args, output):
    return output + 50


# 16: https://github.com/pytorch/pytorch/issues/117758


@pytest.mark.parametrize("where", ["root", "inner"])
@pytest.mark.parametrize("through", ["module", "function"])
def test_16_a_hook_added_after_the_first_call_fires(way, counter, where, through):
    module = Around(nn.Linear(2, 2))

    def run(x):
        return module(x)

    target = module if through == "module" else run
    call = way(backend=counter)
    x = torch.ones(1, 2)
    plain = call(target, x)
    hooked = module if where == "root" else module.inner
    hooked.register_forward_hook(add_fifty)
    for _ in range(3):
        torch.testing.assert_close(call(target, x), plain + (50 if where == "root" else 100))
    assert (counter.graphs, counter.runs) == (2, 4)
    fired = []
    hooked.register_forward_hook(lambda hooked, args, output: fired.append(hooked))
    for _ in range(3):
        call(target, x)
    assert fired == [hooked] * 3


# 17: https://github.com/pytorch/pytorch/issues/117758, https://github.com/pytorch/pytorch/pull/98372


def test_17_a_hook_may_come_and_go(way, counter):
    module = Around(nn.Linear(2, 2))
    call = way(backend=counter)
    x = torch.ones(1, 2)
    plain = module(x)
    for _ in range(5):
        handle = module.inner.register_forward_hook(lambda hooked, args, output: output + 50)
        torch.testing.assert_close(call(module, x), plain + 100)
        handle.remove()
        torch.testing.assert_close(call(module, x), plain)
    assert (counter.graphs, counter.runs) == (2, 10)


# 18: https://github.com/pytorch/pytorch/issues/149502


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
@pytest.mark.parametrize("after_the_first_call", [False, True])
def test_18_a_global_hook_fires_once_per_module(way, backend, after_the_first_call):
    module = Around(nn.Identity())
    call = way(backend=backend)
    x = torch.zeros(1)
    fired = []

    def add(hooked, args):
        fired.append(type(hooked).__name__)
        return (args[0] + 1,)

    if after_the_first_call:
        call(module, x)
    handle = register_module_forward_pre_hook(add)
    try:
        expected = module(x)
        assert fired == ["Around", "Identity"]
        for _ in range(2):
            fired.clear()
            torch.testing.assert_close(call(module, x), expected)
            assert fired == ["Around", "Identity"]
    finally:
        handle.remove()
    torch.testing.assert_close(call(module, x), module(x))


# 19: https://github.com/pytorch/pytorch/issues/170110


class Factor(nn.Module):
    def forward(self, x, factor=1.0):
        return x * factor


class Doubling(nn.Module):
    def __init__(self):
        super().__init__()
        self.factor = Factor()

    def forward(self, x):
        return self.factor(x, factor=2.0)


def five_times(module, args, kwargs):
    return args, {**kwargs, "factor": 5.0}


def one_more(module, args, kwargs, output):
    return output + 1


@pytest.mark.parametrize(("mixed", "compilations"), [(False, 1), (True, 4)])
def test_19_hooks_with_keywords_on_equal_layers(way, counter, mixed, compilations):
    layers = [Doubling() for _ in range(12)]
    for number, layer in enumerate(layers):
        if not mixed or number % 2:
            layer.factor.register_forward_pre_hook(five_times, with_kwargs=True)
        if not mixed or number % 3:
            layer.factor.register_forward_hook(one_more, with_kwargs=True)
    call = way(backend=counter)
    x = torch.ones(1)
    assert [call(layer, x).item() for layer in layers] == [layer(x).item() for layer in layers]
    assert (counter.graphs, counter.runs) == (compilations, 12)


# 20: https://github.com/pytorch/pytorch/issues/115750, 117265, 133303


def three_times(module, grad_input, grad_output):
    return tuple(None if grad is None else grad * 3 for grad in grad_input)


def three_times_before(module, grad_output):
    return tuple(grad * 3 for grad in grad_output)


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
@pytest.mark.parametrize("after_the_first_call", [False, True])
@pytest.mark.parametrize("kind", ["hook", "pre-hook"])
def test_20_backward_hooks_change_the_gradient(way, kind, after_the_first_call, backend):
    module = Around(nn.Linear(2, 2, bias=False))
    call = way(backend=backend)

    def gradient(run):
        x = torch.ones(1, 2, requires_grad=True)
        run(x).sum().backward()
        return x.grad

    plain = gradient(module)
    if after_the_first_call:
        torch.testing.assert_close(gradient(lambda x: call(module, x)), plain)
    if kind == "hook":
        handle = module.inner.register_full_backward_hook(three_times)
    else:
        handle = module.inner.register_full_backward_pre_hook(three_times_before)
    for _ in range(2):
        torch.testing.assert_close(gradient(lambda x: call(module, x)), plain * 3)
    torch.testing.assert_close(gradient(module), plain * 3)
    handle.remove()
    torch.testing.assert_close(gradient(lambda x: call(module, x)), plain)


# 22: https://github.com/pytorch/pytorch/issues/117584


def test_22_a_hook_of_the_root_is_in_the_graph(way, counter):
    module = Around(nn.Identity())
    module.register_forward_pre_hook(lambda hooked, args: (args[0] + 1,))
    assert way(backend=counter, fullgraph=True)(module, torch.ones(1)).item() == 4.0
    assert (counter.graphs, counter.operations) == (1, 2)


# 25: https://github.com/pytorch/pytorch/issues/117758 meets https://github.com/pytorch/pytorch/pull/124881


@pytest.mark.parametrize("options", [{}, {"isolate_recompiles": True}], ids=str)
@pytest.mark.parametrize("order", [(0, 1), (1, 0)], ids=["plain first", "hooked first"])
def test_25_a_hooked_instance_is_not_equal_to_a_plain_one(way, counter, order, options):
    modules = [Around(nn.Identity()), Around(nn.Identity()), Around(nn.Identity())]
    for hooked in modules[1:]:
        hooked.inner.register_forward_hook(add_fifty)
    call = way(backend=counter, **options)
    for index in (*order, *order, 2):
        assert call(modules[index], torch.ones(1)).item() == (102.0 if index else 2.0)
    assert (counter.graphs, counter.runs) == (2, 5)
