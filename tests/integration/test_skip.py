"""What the user skips runs eager, is no loss, and stays so when it is defined again."""

from __future__ import annotations

import functools

import pytest
import torch
from torch import nn

import ipy_dynwrap

X = torch.ones(2, 3)


class Net(nn.Module):
    def __init__(self, k=2):
        super().__init__()
        self.k = k
        self.inner = nn.Linear(3, 3)

    def forward(self, x):
        return self.inner(x) * self.k

    def encode(self, x):
        return x + self.k


class Applied:
    def __call__(self, x):
        return double(x)


def double(x):
    return x * 2


@pytest.fixture(autouse=True)
def _skip_nothing():
    yield
    ipy_dynwrap.reset()


NET = Net()
SKIPPED = {
    "module": (NET, NET),
    "another instance": (Net(3), NET),
    "class": (Net, NET),
    "function": (double, double),
    "method": (NET.encode, NET.encode),
    "callable": (Applied(), Applied()),
    "partial": (functools.partial(double), functools.partial(double)),
    "lambda": ((each := lambda x: x + 1), each),
}


@pytest.mark.parametrize("when", ["before its first call", "afterwards"])
@pytest.mark.parametrize("what", SKIPPED)
def test_calls_run_eager_until_it_is_reset(way, counter, what, when):
    skipped, called = SKIPPED[what]
    call = way(backend=counter)
    if when == "afterwards":
        call(called, X)
    graphs, runs = counter.graphs, counter.runs
    ipy_dynwrap.skip(skipped)
    torch.testing.assert_close(call(called, X), called(X))
    assert ipy_dynwrap.would_hit(called, X).reasons == ("skipped by the user",)
    assert (counter.graphs, counter.runs) == (graphs, runs)
    info = ipy_dynwrap.cache_info()
    [wrapper] = info.wrappers
    assert (wrapper.state, wrapper.last_reason) == ("skipped", "skipped by the user")
    assert (info.calls - graphs, info.eager_calls, wrapper.skipped_calls, info.skipped_calls) == (1, 0, 1, 1)
    ipy_dynwrap.reset(skipped)
    call(called, X)
    assert counter.graphs == graphs + 1
    [wrapper] = ipy_dynwrap.cache_info().wrappers
    assert wrapper.state == "compiled"


def test_an_error_of_what_is_skipped_is_its_own(way, counter):
    ipy_dynwrap.skip(double)
    with pytest.raises(TypeError, match="unsupported operand"):
        way(backend=counter)(double, {"x": X})


def test_a_name_will_do(counter):
    with ipy_dynwrap.region(backend=counter) as region:
        Net()(X)
        ipy_dynwrap.skip("Net")
        Net(5)(X)
    assert (counter.graphs, region.report.skipped_calls, region.report.notices) == (1, 1, ())
    ipy_dynwrap.reset("Net")
    with ipy_dynwrap.region(backend=counter):
        Net(5)(X)
    assert counter.graphs == 2
    with pytest.raises(LookupError, match="no wrapper is called 'Other'"):
        ipy_dynwrap.skip("Other")


def test_other_options_are_skipped_too(counter, new_counter):
    other = new_counter()
    ipy_dynwrap.compile(NET, backend=counter)(X)
    ipy_dynwrap.skip(NET)
    ipy_dynwrap.compile(NET, backend=other)(X)
    assert (counter.graphs, other.graphs) == (1, 0)


def test_a_cell_that_defines_it_again_does_not_bring_it_back(shell):
    shell("import ipy_dynwrap, torch\nx = torch.ones(3)")
    define = "class Net(torch.nn.Module):\n    def forward(self, x): return x + {}\nnet = Net()"
    shell(define.format(1))
    shell("ipy_dynwrap.skip(net)")
    shell(define.format(2))
    shell("%%compile\nassert net(x)[0] == 3")
    assert "0 eager" in shell.text
    assert "compiled" not in shell.text
    shell("ipy_dynwrap.reset(net)")
    shell("%%compile\nassert net(x)[0] == 3")
    assert "compiled 1 graph" in shell.text


class Around(nn.Module):
    def __init__(self, inner):
        super().__init__()
        self.inner = inner

    def forward(self, x):
        x = x + 1
        torch._dynamo.graph_break()
        return self.inner(x)


def test_what_compiled_code_calls_after_a_graph_break_is_skipped_too(counter):
    ipy_dynwrap.skip(NET)
    around = Around(NET)
    torch.testing.assert_close(ipy_dynwrap.compile(around, backend=counter)(X), around(X))
    assert all(
        wrapper.compiles == 0 for wrapper in ipy_dynwrap.cache_info().wrappers if wrapper.target == "Net.forward"
    )
