"""Modules that compiled code calls where its graph broke: each has the family that it has outside."""

from __future__ import annotations

import gc
import itertools
import weakref

import pytest
import torch
from torch import nn
from torch._dynamo.bytecode_transformation import _cached_cleaned_instructions
from torch.utils.checkpoint import checkpoint

import ipy_dynwrap
from ipy_dynwrap import state

X = torch.linspace(-1, 1, 4)


class Broken(nn.Module):
    def __init__(self, j):
        super().__init__()
        self.j = j

    def forward(self, x):
        x = x + self.j
        torch._dynamo.graph_break()
        return x * self.j


class Around(nn.Module):
    def __init__(self, k, inner):
        super().__init__()
        self.k = k
        self.inner = inner

    def forward(self, x):
        return self.inner(x * self.k) + self.k


class Nested(nn.Module):
    def __init__(self, k, inner=None):
        super().__init__()
        self.k = k
        self.inner = inner

    def forward(self, x):
        x = x * self.k
        torch._dynamo.graph_break()
        return (x if self.inner is None else self.inner(x)) + self.k


class TwoParts(nn.Module):
    def __init__(self, k, j):
        super().__init__()
        self.k = k
        self.j = j

    def part(self, x):
        x = x + self.j
        torch._dynamo.graph_break()
        return x * self.j

    def forward(self, x):
        return self.part(x * self.k) + self.k


class TwoPartsOfFunctions(TwoParts):
    def part(self, x):
        x = self.j(x)
        torch._dynamo.graph_break()
        return self.j(x) * 2


def methods(size):
    return [TwoParts(k, j) for k, j in itertools.product(range(2, 2 + size), range(100, 100 + size))]


def grid(size):
    return [Around(k, Broken(j)) for k, j in itertools.product(range(2, 2 + size), range(100, 100 + size))]


def recursive(size):
    return [Nested(i, Nested(100 + i, Nested(200 + i))) for i in range(1, 1 + size)]


def same(call, target, *args):
    expected = target(*args)
    assert torch.equal(call(target, *args), expected)


def needed_by_torch(targets, counter, monkeypatch):
    """Count torch's own compilations where nothing limits them."""
    with torch._dynamo.config.patch(
        recompile_limit=10_000, accumulated_recompile_limit=10_000, skip_nnmodule_hook_guards=False
    ):
        for each in targets:
            torch.compile(each, backend=counter)(X)
    return counter.graphs


@pytest.mark.parametrize("targets", [grid, recursive, methods])
@pytest.mark.parametrize("size", [3, 10])
def test_as_many_compilations_as_torch_needs_without_a_limit(way, new_counter, monkeypatch, targets, size):
    needed = needed_by_torch(targets(size), new_counter(), monkeypatch)
    torch.compiler.reset()
    counter = new_counter()
    call = way(backend=counter)
    for each in targets(size):
        same(call, each, X)
    assert counter.graphs == needed
    assert ipy_dynwrap.cache_info().eager_calls == 0


def entries_of(code):
    """Return torch's cache entries of a code object in the regions of all wrappers."""
    regions = {-1, *(wrapper.function._isolate_recompiles_id for wrapper in state.cache)}
    return [
        entry for region in regions for entry in torch._C._dynamo.eval_frame._get_cache_entries_for_region(code, region)
    ]


def test_what_wrappers_share_goes_with_the_object_that_it_was_compiled_for(way, counter):
    functions = [eval(f"lambda x: x * {n}") for n in (2.5, 3.5, 4.5)]  # noqa: S307 - each has code of its own
    call = way(backend=counter)
    for k, j in itertools.product((2, 3, 4), functions):
        same(call, TwoPartsOfFunctions(k, j), X)
    assert counter.graphs == 2 * 3 + 2 * 3
    code = TwoPartsOfFunctions.part.__code__
    living = [entry for entry in entries_of(code) if entry.guard_manager.cache_entry is not None]
    assert len({id(entry.code) for entry in living}) < len(living)  # some share
    codes = [weakref.ref(each.__code__) for each in functions]
    del functions, j
    _cached_cleaned_instructions.cache_clear()  # torch keeps some code for a while
    gc.collect()
    assert [each() for each in codes] == [None] * 3
    assert not [entry for entry in entries_of(code) if getattr(entry.guard_manager, "cache_entry", None) is not None]
    other = eval("lambda x: x * 5.5")  # noqa: S307
    for k in (2, 3, 4):
        same(call, TwoPartsOfFunctions(k, other), X)


def test_what_wrappers_share_serves_after_one_of_them_is_reset(way, counter):
    call = way(backend=counter)
    models = methods(3)
    for each in models:
        same(call, each, X)
    ipy_dynwrap.reset(TwoParts)
    before = counter.graphs
    for each in models:
        same(call, each, X)
    assert counter.graphs == 2 * before


def test_a_module_shares_what_was_compiled_for_it_outside(way, counter):
    inner = Broken(3)
    call = way(backend=counter)
    same(call, inner, X)
    before = counter.graphs
    same(call, Around(2, inner), X)
    assert counter.graphs == before + 2  # the two halves of Around
    same(call, Around(2, Broken(3)), X)
    assert counter.graphs == before + 2


def test_layers_of_a_loop_that_torch_gives_up_have_wrappers_of_their_own(way, counter):
    """Torch compiles `forward` of each layer on its own then, twelve sizes in the one cache of that code object."""

    class Stack(nn.Module):
        def __init__(self):
            super().__init__()
            self.layers = nn.ModuleList(nn.Linear(n, n + 1) for n in range(1, 13))

        def forward(self, x):
            for layer in self.layers:
                x = layer(x)
                torch._dynamo.graph_break()
            return x

    same(way(backend=counter), Stack(), torch.ones(2, 1))
    assert counter.graphs == 12
    assert ipy_dynwrap.cache_info().eager_calls == 0


def test_hooks_of_an_inner_module_fire_as_in_eager(way):
    fired = []
    model = Around(2, Broken(3))
    call = way(backend="eager")
    same(call, model, X)
    handle = model.inner.register_forward_hook(lambda module, args, out: fired.append(1) or out * 2)
    expected = model(X)
    assert torch.equal(call(model, X), expected)
    handle.remove()
    same(call, model, X)
    assert fired == [1, 1]


def test_an_inner_call_is_counted_apart(way):
    call = way(backend="eager")
    for _ in range(3):
        same(call, Around(2, Broken(3)), X)
    info = ipy_dynwrap.cache_info()
    [inner] = [each for each in info.wrappers if each.target == "Broken.forward"]
    assert (info.calls, info.hits, inner.calls, inner.inner_calls) == (3, 2, 0, 3)


def test_a_compilation_of_an_inner_module_makes_the_outer_call_no_hit(way):
    call = way(backend="eager")
    model = Around(2, Broken(3))
    same(call, model, X)
    model.inner.j = 5
    same(call, model, X)
    assert ipy_dynwrap.cache_info().hits == 0


def test_a_checkpoint_inside_runs_as_in_eager(way):
    class Checkpointed(Around):
        def forward(self, x):
            torch._dynamo.graph_break()
            return checkpoint(self.inner, x, use_reentrant=False) * self.k

    def run(call):
        torch.manual_seed(0)
        model = Checkpointed(2, nn.Sequential(nn.Linear(4, 4), nn.Dropout(0.5), Broken(3)))
        x = X.clone().requires_grad_()
        call(model, x).sum().backward()
        return x.grad, model.inner[0].weight.grad

    expected = run(lambda target, *args: target(*args))
    got = run(way(backend="aot_eager"))
    assert all(torch.equal(a, b) for a, b in zip(expected, got, strict=True))


def test_what_the_user_compiled_inside_keeps_its_own_backend(way, new_counter):
    ours, his = new_counter(), new_counter()
    inner = Broken(3)
    model = Around(2, torch.compile(inner, backend=his))

    class Outer(Around):
        def forward(self, x):
            torch._dynamo.graph_break()
            return self.inner(x)

    call = way(backend=ours)
    same(call, Outer(1, model), X)
    assert his.graphs + ours.graphs > 0
    assert {each.target for each in ipy_dynwrap.cache_info().wrappers} <= {"Outer.forward", "Around.forward"}


def test_what_is_marked_as_not_to_be_compiled_stays_eager(way, counter):
    class Disabled(nn.Module):
        @torch.compiler.disable
        def forward(self, x):
            assert not torch.compiler.is_compiling()
            return nn.Linear(4, 4)(x) * 0 + Broken(2)(x)

    call = way(backend=counter)
    same(call, Around(2, Disabled()), X)
    info = ipy_dynwrap.cache_info()
    assert info.eager_calls == 0
    assert counter.graphs == 2  # the two halves of Around


def test_an_error_inside_reaches_the_user(way):
    class Failing(nn.Module):
        def forward(self, x):
            torch._dynamo.graph_break()
            raise ValueError("mine")

    call = way(backend="eager")
    for _ in range(2):
        with pytest.raises(ValueError, match="mine"):
            call(Around(2, Failing()), X)
    same(call, Around(2, Broken(3)), X)
