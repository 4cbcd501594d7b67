"""What a user reads about why something compiled again: the values that changed, in whichever wrapper it compiles."""

from __future__ import annotations

import copy
import re

import pytest
import torch
from torch import nn

import ipy_dynwrap
from ipy_dynwrap import state
from ipy_dynwrap.events import CompileFinished

X = torch.ones(2, 3)


class Net(nn.Module):
    def __init__(self, k=1, mode="a", inner=None):
        super().__init__()
        self.k = k
        self.mode = mode
        self.inner = inner if inner is not None else nn.Identity()

    def forward(self, x):
        return self.inner(x) * self.k + len(self.mode)


def reasons_of(calls):
    """Return the reason of each compilation of a number of calls, in order."""
    with ipy_dynwrap.region(backend="eager") as region:
        for target, *args in calls:
            target(*args)
    events = [event for event in state.log.since() if isinstance(event, CompileFinished)]
    said = [event.reasons[0] if event.reasons else None for event in events]
    assert region.report.recompiles == len(said) - said.count(None)
    entries = [entry for wrapper in ipy_dynwrap.cache_info().wrappers for entry in wrapper.entries]
    assert sorted(str(entry.reason) for entry in entries) == sorted(map(str, said))
    return said


def test_each_value_of_a_field_reads_alike():
    assert reasons_of((Net(k), X) for k in (1, 2, 3, 5)) == [None, "self.k 1 -> 2", "self.k 2 -> 3", "self.k 3 -> 5"]


def test_the_nearest_entry_is_the_one_that_is_named():
    calls = [(1, "a"), (2, "a"), (2, "b"), (1, "c"), (1, "b")]
    said = reasons_of((Net(k, mode), X) for k, mode in calls)
    assert said == [None, "self.k 1 -> 2", "self.mode 'a' -> 'b'", "self.mode 'a' -> 'c'", "self.k 2 -> 1"]


def test_fields_that_change_together_are_named_together():
    calls = [(Net(1), X), (Net(2), X), (Net(3, "bb"), X)]
    assert set(reasons_of(calls)[-1].split(", ")) == {"self.k 2 -> 3", "self.mode 'a' -> 'bb'"}


def test_of_a_module_that_is_another_one_its_parts_are_not_named():
    calls = [(Net(inner=inner), X) for inner in (nn.ReLU(), nn.Linear(3, 3), nn.Softmax(1))]
    assert reasons_of(calls) == [None, "self.inner: ReLU -> Linear", "self.inner: Linear -> Softmax"]


def test_a_size_of_a_parameter_is_named_in_a_new_wrapper():
    said = reasons_of((nn.Linear(3, size), X) for size in (4, 5, 6))
    changes = [f"self.weight.shape[0] {n} -> {n + 1}, self.bias.shape[0] {n} -> {n + 1}" for n in (4, 5)]
    assert said == [None, *changes]


def test_hooks_are_named():
    modules = [Net() for _ in range(3)]
    modules[1].register_forward_hook(lambda module, args, output: output + 1)
    modules[2].register_forward_hook(lambda module, args, output: output + 2)
    said = reasons_of((module, X) for module in modules)
    assert said == [None, "hook added to self", "hook added to self"]


MISSING = object()


class Optional(nn.Module):
    def __init__(self, value):
        super().__init__()
        self.value = value

    def forward(self, x):
        return x - 1 if self.value is MISSING else x + 1


def test_an_object_that_is_compared_is_named():
    said = reasons_of([(Optional(MISSING), X), (Optional(object()), X)])
    assert said == [None, f"self.value and {__name__}.MISSING are no longer the same object"]


def test_options_and_backend_count_as_compiled_again(counter, new_counter):
    net = Net()
    said = []
    for options in ({}, {"dynamic": True}, {"dynamic": True, "backend": new_counter()}):
        with ipy_dynwrap.region(**{"backend": counter, **options}) as region:
            net(X)
        said.append((region.report.recompiles, region.report.reasons))
    assert said == [
        (0, ()),
        (1, ("Net.forward: options differ: Counter, dynamic shapes",)),
        (1, ("Net.forward: backend object differs",)),
    ]


CLASS = """
class Net(torch.nn.Module):
    def forward(self, x):
        return x * {0} + helper(x)
net = Net()
"""
HELPER = "def helper(x):\n    return x + {0}"


def test_what_a_cell_defined_again_is_named_with_the_cell(shell):
    shell("import torch\nx = torch.ones(2)")
    shell(HELPER.format(1))
    shell(CLASS.format(1))
    shell("%%compile\nnet(x)")
    assert "again" not in shell.text
    shell(HELPER.format(2))
    shell("%%compile\nnet(x)")
    # Where torch has dropped the entry with the old code, its reason may name what cannot be looked up any more.
    assert re.search(r"\(1 again: Net.forward: helper (was defined again in cell 5|is gone)\)", shell.text)
    shell(CLASS.format(2))
    shell("%%compile\nnet(x)")
    assert "(1 again: Net.forward: Net was defined again in cell 7)" in shell.text


def test_functions_without_a_name_are_not_said_to_be_defined_again(shell):
    shell("import torch\nx = torch.ones(2)")
    shell("%%compile\n(lambda x: x + 1)(x)\n(lambda x: x + 2)(x)")
    assert "compiled 2 graphs" in shell.text
    assert "again" not in shell.text


BREAKS = """
import torch, warnings
x = torch.ones(2, requires_grad=True)
def noisy(x):
    x = x + 1
    print("hello")
    return x * 2
class Hooked(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = torch.nn.ReLU()
        self.inner.register_full_backward_hook(lambda module, grads, outer: None)
    def forward(self, x):
        y = self.inner(x + 1)
        return y * 2
"""


@pytest.mark.parametrize(
    ("call", "notice"),
    [
        ("noisy(x)", "graph break in noisy at cell 1, line 5: Failed to trace builtin operator: `print`"),
        ("Hooked()(x)", "graph break in Hooked.forward at cell 1, line 13: Module-level backwards hooks require"),
        (
            "torch.nn.Sequential(Hooked().inner)(x)",
            "graph break in Sequential.forward at cell 2, line 2: Module-level backwards hooks require",
        ),
    ],
)
def test_a_graph_break_names_its_cause_and_the_users_line(shell, call, notice):
    shell(BREAKS)
    shell(f"%%compile\n{call}")
    assert f"! {notice}" in shell.text


def test_a_value_that_is_read_after_a_graph_break_only_is_named_for_a_wrapper_of_its_own(way):
    class Broken(Net):
        def forward(self, x):
            torch._dynamo.graph_break()
            return x * self.k

    call = way(backend="eager")
    for k in (2, 3, 4, 5):
        call(Broken(k), X)
    wrappers = [each for each in ipy_dynwrap.cache_info().wrappers if each.key]
    own = [entry.reason for each in wrappers for entry in each.entries if not entry.graph]
    assert own == ["self.k is 4 here", "self.k 4 -> 5"]


def test_keywords_in_another_order_are_the_reason(way):
    def f(x, **more):
        return x + len(more)

    call = way(backend="eager")
    call(f, X, a=1, b=2)
    call(f, X, b=2, a=1)
    reasons = [entry.reason for wrapper in ipy_dynwrap.cache_info().wrappers for entry in wrapper.entries]
    assert reasons == [None, "keywords are passed in another order"]


def test_a_reason_of_many_changes_is_cut_between_them():
    model = nn.Sequential(*(nn.Linear(3, 3) for _ in range(4)))
    said = reasons_of([(model, X), (copy.deepcopy(model).double(), X.double())])[1]
    assert said.startswith("self[0].weight.dtype float32 -> float64")
    assert " more" in said
    assert "..." not in said
