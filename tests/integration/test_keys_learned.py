"""Learned keys with torch: what the user sees of them, what they cost, and where they end."""

from __future__ import annotations

import collections
import dataclasses
import enum
import functools
import gc
import itertools
import types
import weakref
from typing import NamedTuple

import pytest
import torch
import torch._dynamo
import torch._dynamo.config
from torch import nn
from torch._dynamo.testing import CompileCounter

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


# Every kind of guard that pins something


class Holder(nn.Module):
    def __init__(self, held, use):
        super().__init__()
        self.held, self.use = held, use

    def forward(self, x):
        return self.use(self.held, x)


class Colour(enum.Enum):
    RED, ORANGE, YELLOW, GREEN, BLUE, VIOLET = range(6)


class Whole(int):
    pass


class Row(list):
    pass


class Pair(NamedTuple):
    left: int
    right: int


@dataclasses.dataclass(frozen=True)
class Frozen:
    k: int


class Scale:
    def __init__(self, k):
        self.k = k

    def apply(self, x):
        return x * self.k


def scale(k, x):
    return x * k


def pointing(i):
    KEPT.append(Scale(i))
    return weakref.ref(KEPT[-1])


KEPT = []
LETTERS = "abcdef"
DTYPES = [torch.float32, torch.float64, torch.float16, torch.bfloat16, torch.int32, torch.bool]


def chosen(held, x):
    return x * sum(j for j in range(6) if j in held)


def lettered(held, x):
    return x * sum(j for j in range(6) if LETTERS[j] in held)


def first_key(held, x):
    return x * ord(next(iter(held)))


HELD = {
    "a long text": (lambda i: "# 'a\" text  # " * 500 + LETTERS[i], lambda held, x: x * ord(held[-1])),
    "a text that looks like a comment": (lambda i: "a  # " + LETTERS[i], lambda held, x: x * ord(held[-1])),
    "a complex number": (lambda i: complex(i, 1), lambda held, x: x * held),
    "nan or a number": (lambda i: float(i or "nan"), lambda held, x: x * held),
    "bytes": (lambda i: LETTERS[i].encode(), lambda held, x: x * held[0]),
    "a tuple": (lambda i: (1, (i, None)), lambda held, x: x * held[1][0]),
    "a list": (lambda i: [[1], [i]], lambda held, x: x * held[1][0]),
    "a set": (lambda i: {i, "a"}, lambda held, x: x * len(held | {"b"})),
    "a set's members": (lambda i: {i}, chosen),
    "a frozen set's members": (lambda i: frozenset({i}), chosen),
    "a set of functions": (
        lambda i: {(torch.sin, torch.cos, torch.exp, torch.tanh)[i % 4]},
        lambda held, x: next(iter(held))(x),
    ),
    "a range": (lambda i: range(i + 1), lambda held, x: x * len(held)),
    "a slice": (lambda i: slice(0, 4, i + 1), lambda held, x: x[held]),
    "a size": (lambda i: torch.Size([1, i]), lambda held, x: x * held[1]),
    "a dtype": (lambda i: DTYPES[i], lambda held, x: x.to(held)),
    "a device": (lambda i: torch.device("meta", i), lambda held, x: x * held.index),
    "an enum": (lambda i: list(Colour)[i], lambda held, x: x * held.value),
    "a subclass of int": (Whole, lambda held, x: x * held),
    "a subclass of list": (lambda i: Row([1, i]), lambda held, x: x * held[1]),
    "a named tuple": (lambda i: Pair(1, i), lambda held, x: x * held.right),
    "a dataclass": (Frozen, lambda held, x: x * held.k),
    "a deque": (lambda i: collections.deque([i]), lambda held, x: x * held[0]),
    "an item of a dictionary": (lambda i: {"k": {"j": i}}, lambda held, x: x * held["k"]["j"]),
    "an item of a Counter": (lambda i: collections.Counter(k=i), lambda held, x: x * held["k"]),
    "the first key of a dictionary": (lambda i: {LETTERS[i]: 1}, first_key),
    "the first key of an OrderedDict": (lambda i: collections.OrderedDict({LETTERS[i]: 1}), first_key),
    "a tuple as a key": (lambda i: {(1, i): 1}, lambda held, x: x * next(iter(held))[1]),
    "whether a dictionary has a key": (lambda i: {LETTERS[i]: 1}, lettered),
    "the keys of a mapping proxy": (lambda i: types.MappingProxyType({LETTERS[i]: 1}), lettered),
    "a view of keys": (lambda i: {LETTERS[i]: 1}.keys(), first_key),
    "whether there is an attribute": (
        lambda i: types.SimpleNamespace(**{LETTERS[i]: 1}),
        lambda held, x: x * sum(j for j in range(6) if getattr(held, LETTERS[j], None) is not None),
    ),
    "a weak reference": (pointing, lambda held, x: x * held().k),
    "a bound method": (lambda i: Scale(i).apply, lambda held, x: held(x)),
    "a method type": (lambda i: types.MethodType(scale, i), lambda held, x: held(x)),
    "a partial": (lambda i: functools.partial(scale, i), lambda held, x: held(x)),
    "a tensor's dtype": (lambda i: torch.ones(4).to(DTYPES[i]), lambda held, x: x * held),
    "a tensor's rank": (lambda i: torch.ones((1,) * i), lambda held, x: x * held.dim()),
}

WITHOUT_TEXT = {
    "the number of modules": (
        lambda i: nn.ModuleList([nn.Sigmoid()] * i),
        lambda held, x: functools.reduce(lambda value, module: module(value), held, x) * 2,
    ),
    "the items of a dictionary": (
        lambda i: {LETTERS[j]: j for j in range(i)},
        lambda held, x: x * sum(value for _, value in held.items()),
    ),
    "names of keywords": (
        lambda i: functools.partial(lambda x, **more: first_key(more, x), **{LETTERS[i]: 1}),
        lambda held, x: held(x),
    ),
}


def unlimited(targets):
    """Return how many graphs torch makes where nothing limits it."""
    counter = CompileCounter()
    limits = {"recompile_limit": 10**6, "accumulated_recompile_limit": 10**6, "skip_nnmodule_hook_guards": False}
    with torch._dynamo.config.patch(**limits):
        call = torch.compile(lambda target, x: target(x), backend=counter)
        for target in targets:
            call(target, X)
    torch._dynamo.reset()
    return counter.frame_count


def counts_as_torch_does(make, use, counter):
    different = [Holder(make(i), use) for i in range(6)]
    equal = [Holder(make(5), use) for _ in range(6)]
    expected = unlimited(different), unlimited(equal)
    for targets, graphs in zip((different, equal), expected, strict=True):
        ipy_dynwrap.reset()
        torch._dynamo.reset()
        before = counter.graphs
        for target in targets * 2:
            # More targets than a wrapper may have entries. In a region, since a new `compile` is not bound to a limit
            # that an old one met.
            with (
                torch._dynamo.config.patch(recompile_limit=3),
                ipy_dynwrap.region(backend=counter, include=(__name__,)),
            ):
                answer = target(X)
            torch.testing.assert_close(answer, target(X), equal_nan=True)
        assert counter.graphs - before == graphs
        assert info().eager_calls == 0


@pytest.mark.parametrize("held", HELD)
def test_each_kind_of_guard_is_understood(held, counter):
    counts_as_torch_does(*HELD[held], counter)


@pytest.mark.parametrize("held", WITHOUT_TEXT)
def test_pins_without_a_text(held, counter):
    counts_as_torch_does(*WITHOUT_TEXT[held], counter)


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


def test_a_tensor_subclass_is_not_asked_for_the_key():
    """Its ``__torch_function__`` is the user's code, and eager asks it nothing of the sort."""
    asked = []

    class Asked(torch.Tensor):
        @classmethod
        def __torch_function__(cls, function, types, args=(), kwargs=None):
            asked.append(function.__name__)
            return super().__torch_function__(function, types, args, kwargs or {})

    tensor = torch.ones(2, 3).as_subclass(Asked)
    asked.clear()
    aspects = ("dtype", "device", "rank", "size 1", "stride 0")
    found = {aspect: Field("x", aspect).read({"x": tensor}) for aspect in aspects}
    assert found == {"dtype": "torch.float32", "device": "cpu", "rank": 2, "size 1": 3, "stride 0": 3}
    assert asked == []


def test_a_limit_that_is_used_up_is_not_that_of_a_target_that_differs_from_all_entries(way):
    """A hook whose closure grows uses the limit up; without the hook nothing that is compiled can ever fit."""
    model = Linear(1, width=4)
    seen = []
    hook = model.linear.register_forward_hook(lambda module, args, out: seen.append(len(seen)))
    call = way(backend="eager")
    for _ in range(12):
        call(model, X.expand(2, 4))
    assert ipy_dynwrap.cache_info().eager_calls > 0
    hook.remove()
    eager = ipy_dynwrap.cache_info().eager_calls
    for _ in range(3):
        same(call, model, X.expand(2, 4))
    same(call, model.eval(), X.expand(2, 4))
    same(call, model.double(), X.expand(2, 4).double())
    info = ipy_dynwrap.cache_info()
    assert info.eager_calls == eager
    assert info.wrappers[-1].key
