"""What is said under a cell although nothing failed; each only where it is true."""

from __future__ import annotations

import bdb
import importlib.util
import logging
import sys
import types
from pathlib import Path

import pytest
import torch
from torch import nn

import ipy_dynwrap
from ipy_dynwrap.dynamo import has_cuda_graphs

X = torch.ones(2, 3)
HERE = Path(__file__).name


def line_of(text):
    return next(number for number, line in enumerate(Path(__file__).read_text().splitlines(), 1) if text in line)


def notices_of(target, *args, **options):
    """Return what a region says whose only call is this one."""
    with ipy_dynwrap.region(**{"backend": "eager", **options}) as region:
        target(*args)
    return region.report.notices


class Net(nn.Module):
    def forward(self, x):
        if torch.compiler.is_compiling():
            return x * 2
        return x * 3  # the branch that does not run


def watched(module, args, output):
    if not torch.compiler.is_compiling():  # the question of the hook
        module.seen = output
    return output + 1


def stepwise(x):
    y = x + 1
    return y * 2  # where somebody stops in a function


class Around(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = Stepwise()

    def forward(self, x):
        return self.inner(x) * 2


class Stepwise(nn.Module):
    def forward(self, x):
        return stepwise(x) - 1  # where somebody stops in a module


def test_code_that_asks_whether_it_is_compiled_is_named_once():
    line = line_of("if torch.compiler.is_compiling():")
    net = Net()
    with ipy_dynwrap.region(backend="eager") as region:
        for size in (2, 3, 4):
            net(torch.ones(size, 3))
    said = f"forward asks at {HERE}:{line} whether it is compiled, and is: what it does otherwise does not run"
    assert region.report.notices == (f"Net.forward: {said}",)
    assert notices_of(net, X) == ()
    assert "asks at" in str(ipy_dynwrap.explain(net))


def test_a_hook_that_is_compiled_away_is_named():
    layer = nn.Linear(3, 3)
    layer.register_forward_hook(watched)
    [notice] = notices_of(layer, X)
    assert notice.startswith(f"Linear.forward: watched asks at {HERE}:{line_of('# the question of the hook')} whether")
    assert not hasattr(layer, "seen")


def test_nothing_is_said_of_libraries_that_ask():
    assert notices_of(nn.TransformerEncoderLayer(4, 2, 8, batch_first=True).eval(), torch.ones(1, 2, 4)) == ()


class Debugger(bdb.Bdb):
    """Goes on wherever it stops."""

    def __init__(self):
        super().__init__()
        self.stops = []

    def user_line(self, frame):
        self.stops.append(frame.f_lineno)
        self.set_continue()


@pytest.fixture
def debugger():
    before, debugger = sys.gettrace(), Debugger()
    yield debugger
    debugger.clear_all_breaks()
    sys.settrace(before)


@pytest.mark.parametrize(
    ("make", "mark", "name"),
    [
        (lambda: stepwise, "# where somebody stops in a function", "stepwise"),
        (Stepwise, "# where somebody stops in a module", "Stepwise"),
        (Around, "# where somebody stops in a module", "Around"),
    ],
    ids=["function", "module", "module inside"],
)
def test_a_breakpoint_that_compiled_code_does_not_reach_is_named(monkeypatch, make, mark, name):
    # Debugpy's way of keeping them; to trace a compilation by a debugger of Python's takes long.
    line = line_of(mark)
    pydevd = types.SimpleNamespace(get_global_debugger=lambda: types.SimpleNamespace(breakpoints={__file__: {line: 0}}))
    monkeypatch.setitem(sys.modules, "pydevd", pydevd)
    target = make()
    notice = (
        f"the breakpoint at {HERE}:{line} does not stop in compiled code; "
        f"--exclude {name}, or ipy_dynwrap.skip, runs {name} as it is"
    )
    assert notices_of(target, X) == (notice,)
    assert notices_of(target, X) == (notice,)
    assert notices_of(double, X) == ()
    ipy_dynwrap.skip(target)
    assert notices_of(target, X) == ()
    monkeypatch.delitem(sys.modules, "pydevd")
    ipy_dynwrap.reset(target)
    assert notices_of(target, X) == ()


def double(x):
    return x * 2


def test_what_is_said_of_breakpoints_is_true(debugger):
    line = line_of("# where somebody stops in a function")
    assert notices_of(stepwise, X) == ()
    debugger.set_break(__file__, line)
    [notice] = debugger.runcall(notices_of, stepwise, X)
    assert notice.startswith(f"the breakpoint at {HERE}:{line} does not stop in compiled code")
    assert line not in debugger.stops
    debugger.runcall(stepwise, X)
    assert line in debugger.stops


def test_debugpy_keeps_its_breakpoints_where_they_are_looked_for():
    found = importlib.util.find_spec("debugpy")
    if found is None:
        pytest.skip("debugpy is not installed")
    source = (Path(found.origin).parent / "_vendored/pydevd/pydevd.py").read_text()
    assert "self.breakpoints = {}" in source
    assert (
        "def get_global_debugger" in source or "import get_global_debugger" in source or "get_global_debugger" in source
    )


def stopping(x):
    y = x + 1
    breakpoint()  # noqa: T100 - on purpose
    return y * 2


def test_a_call_of_breakpoint_breaks_the_graph_and_stops(monkeypatch):
    stopped = []
    monkeypatch.setattr(sys, "breakpointhook", lambda: stopped.append(True))
    [notice] = notices_of(stopping, X)
    assert notice.startswith(f"graph break in stopping at {HERE}:{line_of('    breakpoint()')}: ")
    assert notice.endswith("`breakpoint`")
    assert stopped == [True]


@pytest.mark.parametrize("backend", ["eager", "aot_eager", "aot_eager_decomp_partition"])
def test_options_that_a_backend_ignores_are_named(caplog, backend):
    with caplog.at_level(logging.WARNING, logger="torch._dynamo"):
        found = notices_of(double, X, backend=backend, options={"max_autotune": True})
    assert found == (f"options do nothing under backend {backend!r}: max_autotune",)
    assert "ignoring extra kwargs" in caplog.text
    assert notices_of(double, X, backend=backend, options={"max_autotune": True}) == ()
    assert notices_of(double, X, backend=backend) == ()


@pytest.mark.skipif(has_cuda_graphs(), reason="there is a GPU")
def test_a_mode_that_needs_a_gpu_is_named():
    with ipy_dynwrap.region(mode="reduce-overhead") as region:
        torch.testing.assert_close(double(X), X * 2)
    assert region.report.notices == (
        "mode 'reduce-overhead' does nothing here: it uses CUDA graphs, and there is no GPU",
    )
    assert notices_of(double, X, backend="inductor") == ()


def test_torch_that_is_switched_off_says_so_and_is_no_lasting_loss(monkeypatch):
    with torch._dynamo.config.patch(disable=True):
        [notice] = notices_of(double, X)
    assert notice == "double ran eager: torch._dynamo.config.disable (TORCHDYNAMO_DISABLE) is set"
    assert notices_of(double, X) == ()
    assert ipy_dynwrap.cache_info().compiles == 1
