"""`would_hit` for each kind of target; tests/random/test_prediction.py compares it with what calls then do."""

from __future__ import annotations

import functools

import pytest
import torch
from torch import nn

import ipy_dynwrap
from ipy_dynwrap import would_hit

X = torch.ones(2, 3)


class Net(nn.Module):
    def __init__(self, k=2):
        super().__init__()
        self.k = k

    def forward(self, x):
        return x * self.k

    def encode(self, x, by=2, *, plus=1):
        return x * by + plus + self.k


class Applied:
    def __call__(self, x, by=2):
        return x * by


def double(x, by=2):
    return x * by


TARGETS = {
    "module": Net(),
    "function": double,
    "method": Net().encode,
    "partial": functools.partial(double, by=3),
    "partial of a module": functools.partial(Net()),
    "callable": Applied(),
}


@pytest.mark.parametrize("what", TARGETS)
@pytest.mark.parametrize("routed", [False, True], ids=["compile", "region"])
def test_each_kind_of_target(what, routed):
    target = TARGETS[what] if routed else ipy_dynwrap.compile(TARGETS[what], backend="eager")
    with ipy_dynwrap.region(backend="eager") as region:
        first = would_hit(target, X)
        target(X)
        second = would_hit(target, X)
        target(X)
    assert (first.hits, first.wrapper, first.compile_id, first.reasons) == (False, "", None, ())
    [wrapper] = ipy_dynwrap.cache_info().wrappers
    assert (second.hits, second.wrapper, second.reasons) == (True, wrapper.name, ())
    assert second.compile_id == wrapper.entries[0].compile_id
    assert wrapper.hits == region.report.hits == 1


def test_arguments_are_bound_as_the_call_binds_them():
    encode = ipy_dynwrap.compile(Net().encode, backend="eager")
    encode(X)
    assert would_hit(encode, X, 2).hits
    assert would_hit(encode, by=2, plus=1, x=X).hits
    assert would_hit(encode, X, 0).reasons == ("by 2 -> 0",)
    with pytest.raises(TypeError, match="'x'"):
        would_hit(encode)


def test_the_state_of_torch_counts():
    net = ipy_dynwrap.compile(Net(), backend="eager")
    net(X)
    with torch.no_grad():
        assert would_hit(net, X).reasons == ("grad mode on -> off",)
        net(X)
        assert would_hit(net, X).hits
    with torch.autocast("cpu"):
        assert not would_hit(net, X).hits
    with torch.compiler.set_stance("force_eager"):
        prediction = would_hit(net, X)
        assert (prediction.hits, prediction.eager) == (False, True)
    assert would_hit(net, X).hits


def test_a_new_value_of_a_key_is_told_before_it_has_a_wrapper():
    for k in (2, 3):
        ipy_dynwrap.compile(Net(k), backend="eager")(X)
    prediction = would_hit(Net(4), X)
    assert (prediction.wrapper, prediction.reasons) == ("", ("self.k 3 -> 4",))
    assert str(prediction) == "Net.forward would compile: self.k 3 -> 4"


def test_options_count():
    ipy_dynwrap.compile(Net(), backend="eager")(X)
    other = ipy_dynwrap.compile(Net(), backend="eager", dynamic=True)
    assert would_hit(other, X).reasons == ("options differ: eager, dynamic shapes",)
    with ipy_dynwrap.region(backend="eager"):
        assert would_hit(Net(), X).hits
    with ipy_dynwrap.region(backend="aot_eager"):
        assert would_hit(Net(), X).reasons == ("options differ: aot_eager",)


@pytest.mark.parametrize(
    ("target", "reason"),
    [
        (torch.compile(Net(), backend="eager"), "marked as not to be compiled"),
        (torch.compiler.disable(double), "marked as not to be compiled"),
        (nn.LazyLinear(3), "no shapes yet"),
    ],
)
def test_what_runs_eager_says_so(target, reason):
    prediction = would_hit(target, X)
    assert prediction.eager
    assert reason in str(prediction)


def test_at_the_limit_a_call_runs_eager():
    compiled = ipy_dynwrap.compile(double, backend="eager", recompile_limit=1)
    compiled(X)
    compiled(X.double())
    prediction = would_hit(compiled, X.double())
    assert prediction.eager
    assert prediction.reasons[0].startswith("recompile_limit (1) reached")
    assert prediction.reasons[1:] == ("x.dtype float32 -> float64",)
    assert would_hit(compiled, X).hits


def test_names_are_those_of_the_notebook(shell):
    shell("import ipy_dynwrap, torch\nclass Net(torch.nn.Linear):\n    def half(self, x): return x / 2\n")
    shell("net, x = Net(3, 3), torch.ones(2, 3)")
    shell("%%compile\nnet(x); net.half(x)")
    shell("print(ipy_dynwrap.would_hit('net', x).hits, ipy_dynwrap.would_hit('net.half', x).hits)")
    assert "True True" in shell.text
    shell("ipy_dynwrap.would_hit('net', x.double())")
    assert "Net.forward would compile: input.dtype float32 -> float64" in shell.text
    shell("ipy_dynwrap.would_hit('other', x)")
    assert "nothing is called 'other' in the notebook" in shell.text
