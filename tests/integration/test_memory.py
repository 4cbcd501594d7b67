"""What compiled code keeps alive: nothing of the user's."""

from __future__ import annotations

import gc
import weakref

import pytest
import torch
from torch import nn

import ipy_dynwrap
from ipy_dynwrap import state

X = torch.ones(2, 3)


class Net(nn.Module):
    def __init__(self, hooked=False):
        super().__init__()
        self.linear = nn.Linear(3, 3)
        if hooked:
            self.linear.register_forward_hook(lambda module, args, output: output + 1)

    def forward(self, x):
        return self.linear(x).relu()


def collect():
    for _ in range(3):
        gc.collect()


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
@pytest.mark.parametrize("hooked", [False, True])
def test_a_module_and_its_weights_are_freed(way, backend, hooked):
    module = Net(hooked)
    watched = [weakref.ref(module), weakref.ref(module.linear), weakref.ref(module.linear.weight)]
    call = way(backend=backend)
    call(module, X).sum().backward()
    with torch.no_grad():
        call(module, X[:1])
    del module
    collect()
    assert [each() for each in watched] == [None] * 3


def test_a_compiled_module_is_freed_with_its_module():
    compiled = ipy_dynwrap.compile(Net(), backend="eager")
    compiled(X)
    watched = [weakref.ref(compiled), weakref.ref(compiled.linear.weight)]
    del compiled
    collect()
    assert [each() for each in watched] == [None] * 2


def test_entries_of_a_class_end_with_the_class(way):
    def define():
        class Local(nn.Module):
            def __init__(self):
                super().__init__()
                self.linear = nn.Linear(3, 3)

            def forward(self, x):
                return self.linear(x)

        return Local

    local = define()
    way(backend="eager")(local(), X)
    assert [wrapper.target for wrapper in ipy_dynwrap.cache_info().wrappers] == ["Local.forward"]
    (wrapper,) = state.cache
    (entry,) = wrapper.entries
    held = weakref.ref(wrapper)
    gone = weakref.ref(local)
    del wrapper
    del local
    collect()
    assert gone() is None
    assert ipy_dynwrap.cache_info().wrappers == ()
    assert ipy_dynwrap.cache_info().compiles == 1
    assert held() is None
    assert entry.code() is None


def test_a_function_is_freed_with_what_it_closes_over(way):
    class Weight:
        factor = 3.0

    def define(weight):
        def f(x):
            return x * weight.factor

        return f

    weight = Weight()
    function = define(weight)
    watched = [weakref.ref(function), weakref.ref(weight)]
    way(backend="eager")(function, X)
    del function, weight
    collect()
    assert [each() for each in watched] == [None] * 2


def test_a_compiled_function_is_freed_with_its_function():
    class Owner:
        def method(self, x):
            return x + 1

    owner = Owner()
    compiled = ipy_dynwrap.compile(owner.method, backend="eager")
    compiled(X)
    watched = [weakref.ref(owner), weakref.ref(compiled), weakref.ref(Owner)]
    del owner, compiled, Owner
    collect()
    assert [each() for each in watched] == [None] * 3


def test_arguments_are_not_kept(way):
    def use(model, x):
        return model(x) * 2

    model, x = Net(), torch.ones(2, 3)
    watched = [weakref.ref(model), weakref.ref(x)]
    way(backend="eager")(use, model, x)
    del model, x
    collect()
    assert [each() for each in watched] == [None] * 2


def test_an_exception_does_not_keep_the_module(way):
    class Failing(Net):
        def forward(self, x):
            return super().forward(x) @ torch.ones(9, 9)

    module = Failing()
    watched = [weakref.ref(module), weakref.ref(module.linear.weight)]
    call = way(backend="eager")
    with pytest.raises(RuntimeError):
        call(module, X)
    del module
    collect()
    assert [each() for each in watched] == [None] * 2


def test_a_region_is_freed(counter):
    region = ipy_dynwrap.region(backend=counter)
    with region:
        Net()(X)
    watched = weakref.ref(region)
    del region
    collect()
    assert watched() is None


def test_reset_frees_compiled_code(way):
    module = Net()
    call = way(backend="eager")
    call(module, X)
    (entry,) = next(iter(state.cache)).entries
    ipy_dynwrap.reset()
    collect()
    assert entry.code() is None
    assert ipy_dynwrap.cache_info().wrappers == ()
    call(module, X)
    assert ipy_dynwrap.cache_info().compiles == 1


def test_wrappers_of_functions_that_are_gone_are_freed(way):
    """Torch keeps the code that it read last, 128 functions of it; no more than that stays of ours."""
    watched = []
    call = way(backend="eager")
    for number in range(160):
        scope = {"__name__": __name__}
        exec(f"def function(x):\n    return x + {number}", scope)
        call(scope["function"], X)
        watched += [weakref.ref(each.code) for each in state.cache.of(scope["function"].__code__)]
    del scope
    collect()
    assert len(watched) == 160
    assert sum(each() is None for each in watched) > 20


def test_a_compilation_leaves_no_cycle_that_only_the_collector_would_free(way):
    """Nor does torch.compile here: what an optimizer holds is freed with the last name of it."""
    layer = nn.Linear(3, 3)
    layer(X).sum().backward()
    optimizer = torch.optim.SGD(layer.parameters(), lr=0.1)
    watched = weakref.ref(optimizer)

    def step():
        optimizer.step()

    gc.disable()
    try:
        with torch._dynamo.config.patch(run_gc_after_compile=False):
            way(backend="eager")(step)
        optimizer = None
        assert watched() is None
    finally:
        gc.enable()
