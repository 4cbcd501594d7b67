"""Learned keys with torch: what the user sees of them, what they cost, and where they end."""

from __future__ import annotations

import gc
import itertools
import weakref

import pytest
import torch
import torch._dynamo
import torch._dynamo.config
from torch import nn

import ipy_dynwrap
from ipy_dynwrap import dynamo, state
from ipy_dynwrap.families import Family
from ipy_dynwrap.fields import Field

X = torch.linspace(-1, 1, 4)


class Scaled(nn.Module):
    def __init__(self, k=1, width=None):
        super().__init__()
        self.k = k
        if width is not None:
            self.linear = nn.Linear(4, width)

    def forward(self, x):
        return x * self.k


class Linear(Scaled):
    def forward(self, x):
        return self.linear(x)


class Around(nn.Module):
    def __init__(self, inner):
        super().__init__()
        self.inner = inner

    def forward(self, x):
        return self.inner(x) + 1


class AfterBreak(Around):
    def forward(self, x):
        torch._dynamo.graph_break()
        return self.inner(x) + 1


class Settings:
    def __init__(self, word):
        self.word = word


def over(value):
    def shift(x):
        return value(x) - 1

    return shift


def settle(settings, x):
    return x * len(settings.word)


def info():
    return ipy_dynwrap.cache_info()


def same(call, target, *args):
    expected = target(*args)
    assert torch.equal(call(target, *args), expected)


@pytest.fixture
def held(way, request):
    """Return `way` for targets that are compiled once and kept: a new `compile` is not bound to what an old one met."""

    def make(**options):
        call, kept = way(**options), {}
        if request.node.callspec.params["way"].__name__ == "via_region":
            return call
        return lambda target, *args: kept.setdefault(target, ipy_dynwrap.compile(target, **options))(*args)

    return make


# What the user sees


@pytest.mark.parametrize(
    ("targets", "names"),
    [
        (lambda: [Scaled(k) for k in (1, 2, 3)], {"self.k": "3"}),
        (lambda: [Linear(width=k) for k in (1, 2, 3)], {"size 0 of self.linear.weight": "3"}),
        (lambda: [Around(each) for each in (nn.ReLU(), nn.Tanh(), nn.GELU())], {"type of self.inner": "GELU"}),
        (lambda: [AfterBreak(Scaled(k)) for k in (1, 2, 3)], {"self.inner.k": "3"}),
        (lambda: [over(each) for each in (torch.sin, torch.cos, torch.tanh)], {"identity of value": "tanh"}),
    ],
    ids=["attribute", "size", "type", "after a graph break", "free variable"],
)
def test_keys_are_shown_in_the_users_words(way, targets, names):
    call, targets = way(backend="eager"), targets()
    for target in targets:
        same(call, target, X)
    first, *others = info().wrappers
    assert first.key == {}
    shown = dict(others[-1].key)
    assert {name: shown.get(name) for name in names} == names
    assert not any("0x" in text or "target" in text for text in (*shown, *shown.values()))


def test_keys_of_arguments_are_shown(way):
    call = way(backend="eager")
    for word in ("a", "bb", "ccc"):
        same(call, settle, Settings(word), X)
    assert dict(info().wrappers[-1].key) == {"settings.word": "'ccc'"}


def test_names_and_keys_are_the_same_from_run_to_run(way):
    def run():
        ipy_dynwrap.reset()
        torch._dynamo.reset()
        call = way(backend="eager")
        for target in [Scaled(k) for k in (1, 2, 3)] + [Linear(width=k) for k in (1, 2, 3)]:
            call(target, X)
        return [(wrapper.name, dict(wrapper.key)) for wrapper in info().wrappers]

    first = run()
    assert len({name for name, _ in first}) == len(first) == 4
    assert run() == first


# Nothing compiled is lost


def test_wrappers_are_filed_under_what_they_serve(way, counter):
    call = way(backend=counter)
    for rounds in range(3):
        for k in range(12):
            same(call, Scaled(k), X)
        assert counter.graphs == 12, rounds
    assert [wrapper.compiles for wrapper in info().wrappers] == [2, *[1] * 10]
    assert info().eager_calls == 0


def test_a_second_field_loses_nothing_of_the_first(way, counter):
    class Both(nn.Module):
        def __init__(self, k, mode):
            super().__init__()
            self.k, self.mode = k, mode

        def forward(self, x):
            return x * self.k + (1 if self.mode == "up" else -1)

    call, pairs = way(backend=counter), [(k, "up") for k in range(4)] + [(k, "down") for k in range(4)]
    targets = {pair: Both(*pair) for pair in pairs}
    for pair in pairs:
        same(call, targets[pair], X)
    assert counter.graphs == len(pairs)
    for pair in reversed(pairs):
        same(call, targets[pair], X)
        same(call, Both(*pair), X)
    assert counter.graphs == len(pairs)


def test_several_shapes_share_the_wrapper_of_a_key(way, counter):
    call = way(backend=counter)
    for n, k in itertools.product((2, 3, 4, 5), (1, 2, 3)):
        same(call, Scaled(k), torch.ones(n))
    assert len(info().wrappers) == 2
    # A first size and an automatic one for each.
    assert counter.graphs == 6


@pytest.mark.parametrize("broken", [False, True], ids=["whole", "after a graph break"])
def test_targets_are_freed(way, broken):
    call = way(backend="eager")
    make = (lambda k: AfterBreak(Scaled(k))) if broken else Scaled
    targets = [make(k) for k in range(5)]
    for target in targets * 2:
        same(call, target, X)
    references = [weakref.ref(target) for target in targets]
    del targets, target
    gc.collect()
    assert [reference() for reference in references if reference() is not None] == []
    same(call, make(3), X)
    assert info().eager_calls == 0


def test_arguments_that_a_key_looks_at_are_freed(way):
    call, settings = way(backend="eager"), [Settings("a" * n) for n in range(5)]
    for each in settings * 2:
        same(call, settle, each, X)
    references = [weakref.ref(each) for each in settings]
    del settings, each
    gc.collect()
    assert [reference() for reference in references if reference() is not None] == []


# What it costs


@pytest.fixture
def costs(monkeypatch):
    """Count guard checks over whole wrappers, fields that are read, and look-ups."""
    counts = dict.fromkeys(("checks", "reads", "resolved"), 0)

    def counted(name, function):
        def count(*args, **kwargs):
            counts[name] += 1
            return function(*args, **kwargs)

        return count

    monkeypatch.setattr(dynamo, "has_entry_for", counted("checks", dynamo.has_entry_for))
    monkeypatch.setattr(Field, "read", counted("reads", Field.read))
    monkeypatch.setattr(Family, "resolve", counted("resolved", Family.resolve))
    return counts


def family_of(anchor):
    (families,) = [each for key, each in state.cache._families.items() if key.ref() is anchor]
    (family,) = families.values()
    return family


@pytest.mark.parametrize("size", [3, 1_000])
def test_a_large_family_costs_no_more_to_look_up(held, counter, costs, size):
    call = held(backend=counter)
    for k in range(3):
        same(call, Scaled(k), X)
    family = family_of(Scaled)
    # Wrappers that were compiled for other values. Compiling a thousand would take minutes.
    for k in range(3, size):
        wrapper = family._make(f"k = {k}", True)
        family.wrappers.append(wrapper)
        family._table[(("int", k),)] = wrapper
    known, fresh = Scaled(2), Scaled(2)
    call(known, X)
    costs.update(dict.fromkeys(costs, 0))
    call(known, X)
    assert costs == {"checks": 0, "reads": 0, "resolved": 0}
    call(fresh, X)
    assert costs == {"checks": 0, "reads": 1, "resolved": 1}
    assert counter.graphs == 3


def test_equal_targets_cost_one_look_each(held, costs):
    call, targets = held(backend="eager"), [Scaled(7) for _ in range(20)]
    for _ in range(3):
        for target in targets:
            call(target, X)
    assert costs["resolved"] == len(targets)
    assert costs["reads"] == 0


# What changes on one object


class Stepping(nn.Module):
    """Counts its calls in an attribute that its graph depends on."""

    def __init__(self):
        super().__init__()
        self.step = 0
        self.seen = []
        self.word = ""

    def forward(self, x):
        return x * self.step + len(self.seen) + len(self.word)


def counting(module):
    module.step += 1


def growing(module):
    module.seen.append(1.5)


def spelling(module):
    module.word += "a"


@pytest.mark.parametrize("change", [counting, growing, spelling])
@pytest.mark.parametrize("limit", [8, 3])
def test_what_changes_at_every_call_is_compiled_within_the_limit(held, counter, change, limit):
    module, call = Stepping(), held(backend=counter)
    with torch._dynamo.config.patch(recompile_limit=limit):
        for _ in range(3 * limit):
            change(module)
            same(call, module, X)
    assert counter.graphs <= limit
    assert info().eager_calls >= limit
    wrapper = max(info().wrappers, key=lambda each: each.eager_calls)
    assert wrapper.state == "at limit"
    assert "on one object" in wrapper.last_reason
    assert "a tensor or a buffer would not be compiled for each" in wrapper.last_reason


def test_what_changes_in_an_argument_is_compiled_within_the_limit(held, counter):
    settings, call = Settings(""), held(backend=counter)
    limit = torch._dynamo.config.recompile_limit
    for _ in range(3 * limit):
        settings.word += "a"
        same(call, settle, settings, X)
    assert counter.graphs <= limit
    assert max(info().wrappers, key=lambda each: each.eager_calls).state == "at limit"


def test_what_was_compiled_before_a_field_is_retired_still_serves(held, counter):
    call = held(backend=counter)
    steady = [Stepping() for _ in range(4)]
    for step, module in enumerate(steady):
        module.step = 100 + step
        same(call, module, X)
    restless = Stepping()
    for _ in range(3 * torch._dynamo.config.recompile_limit):
        restless.step += 1
        same(call, restless, X)
    graphs, runs = counter.graphs, counter.runs
    for module in steady:
        same(call, module, X)
    assert counter.graphs == graphs
    assert counter.runs == runs + len(steady)


def test_an_attribute_that_goes_to_and_fro_compiles_once_for_each_value(way, counter):
    module, call = Scaled(2), way(backend=counter)
    for k in (2, 3, 2, 3, 2, 2, 3) * 3:
        module.k = k
        same(call, module, X)
    assert counter.graphs == 2
    assert info().eager_calls == 0


def test_modes_that_go_to_and_fro_compile_once_each(way, counter):
    module, call = nn.Sequential(nn.Linear(4, 4), nn.Dropout(0.0)), way(backend=counter)
    for training in (True, False) * 5:
        module.train(training)
        torch.testing.assert_close(call(module, X), module(X))
    assert counter.graphs == 2


# Nothing of the user's runs


def test_a_property_of_the_target_is_not_touched(way):
    ran = []

    class Watchful(nn.Module):
        def __init__(self, k):
            super().__init__()
            self.k = k

        @property
        def expensive(self):
            ran.append(self.k)
            return self.k

        def forward(self, x):
            return x * self.k

    call = way(backend="eager")
    for k in (1, 2, 3) * 2:
        same(call, Watchful(k), X)
    assert ran == []


def test_a_property_runs_as_often_as_in_eager(way):
    class Counted(nn.Module):
        def __init__(self, k):
            super().__init__()
            self.k = k
            self.runs = 0

        @property
        def value(self):
            self.runs += 1
            return self.k

        def forward(self, x):
            return x * self.value

    call = way(backend="eager")
    for k in (1, 2, 3) * 2:
        module, twin = Counted(k), Counted(k)
        assert torch.equal(call(module, X), twin(X))
        assert module.runs == twin.runs


def test_a_field_that_becomes_a_property_is_not_touched(way):
    """The key knows `self.k` as an attribute; another class of the family's targets computes it."""
    ran = []

    class Computing(Settings):
        def __init__(self):
            pass

        @property
        def word(self):
            ran.append(1)
            return "four"

    call = way(backend="eager")
    for word in ("a", "bb", "ccc"):
        same(call, settle, Settings(word), X)
    eager = settle(Computing(), X)
    ran.clear()
    assert torch.equal(call(settle, Computing(), X), eager)
    assert len(ran) <= 1


# Options


class Backend:
    """Equal to its like, as a backend with settings of its own may be."""

    def __init__(self, graphs):
        self.graphs = graphs

    def __eq__(self, other):
        return isinstance(other, Backend)

    def __hash__(self):
        return 1

    def __call__(self, graph, inputs):
        self.graphs.append(graph)
        return graph.forward


def test_fullgraph_after_a_plain_compile_is_obeyed(way, counter):
    broken = AfterBreak(Scaled(2))
    same(way(backend=counter), broken, X)
    graphs = counter.graphs
    with pytest.raises(torch._dynamo.exc.Unsupported):
        way(backend=counter, fullgraph=True)(broken, X)
    same(way(backend=counter), broken, X)
    assert counter.graphs == graphs


@pytest.mark.parametrize(
    "options", [{"dynamic": True}, {"dynamic": False}, {"fullgraph": True}, {"recompile_limit": 3}], ids=str
)
def test_each_option_set_has_wrappers_of_its_own(way, counter, options):
    module = Scaled(2)
    same(way(backend=counter), module, X)
    for _ in range(2):
        same(way(backend=counter, **options), module, X)
        same(way(backend=counter), module, X)
    assert counter.graphs == 2
    assert len(info().wrappers) == 2
    assert info().wrappers[1].last_reason.startswith("options differ")


def test_a_fresh_equal_backend_object_is_shared_or_named(way):
    graphs, module = [], Scaled(2)
    kept = [Backend(graphs), Backend(graphs)]
    for backend in kept:
        same(way(backend=backend), module, X)
    if len(graphs) == 2:
        assert info().wrappers[1].last_reason == "backend object differs"
    else:
        assert len(graphs) == len(info().wrappers) == 1


def test_a_fresh_backend_object_is_named_as_the_reason(way, new_counter):
    module, kept = Scaled(2), [new_counter(), new_counter()]
    for backend in kept:
        same(way(backend=backend), module, X)
    assert [backend.graphs for backend in kept] == [1, 1]
    assert [wrapper.last_reason for wrapper in info().wrappers] == [None, "backend object differs"]
