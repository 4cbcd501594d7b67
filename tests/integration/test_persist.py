"""A notebook in a second process: what it loads, what it knows, and that its answers are those of eager."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import pytest

# A notebook's cells, in a shell of a process of their own. The files of the cells are named after the process.
RUNNER = """
import json, os, sys, tempfile
from IPython.core import compilerop
from IPython.core.interactiveshell import InteractiveShell
from traitlets.config import Config

compilerop.code_name = lambda source, number=0: f"/tmp/ipykernel_{os.getpid()}/{hash(source)}.py"
asked = json.load(sys.stdin)
shell = InteractiveShell.instance(config=Config(asked["config"]))
for cell in ["%load_ext ipy_dynwrap", *asked["cells"]]:
    assert shell.run_cell(cell, store_history=True).success, cell
import torch, ipy_dynwrap
from ipy_dynwrap import persist
answers = [each.tolist() for each in shell.user_ns.get("answers", [])]
kept = persist.kept()
compiled = [(each.sizes, *map(list, (each.aot, each.graphs))) for each in kept.compiled] if kept else []
info = ipy_dynwrap.cache_info()
print("\\n" + json.dumps([answers, compiled, info.compiles, info.eager_calls, persist.report()]))
"""


def run(*cells, home, **config):
    asked = json.dumps({"cells": list(cells), "config": {"DynWrap": config}})
    environment = {name: value for name, value in os.environ.items() if name != "TORCHINDUCTOR_CACHE_DIR"}
    environment |= {"IPYTHONDIR": str(home / "ipython"), "XDG_CACHE_HOME": str(home / "cache")}
    done = subprocess.run(
        [sys.executable, "-c", RUNNER], input=asked, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return json.loads(done.stdout.splitlines()[-1])


MODEL = """
import torch
from torch import nn
torch.manual_seed(0)
scale = 2.0
def helper(x):
    return x + 1
def closing(n):
    def inner(x):
        return x * n
    return inner
times = closing(3)
class Net(nn.Module):
    k = 5
    def __init__(self):
        super().__init__()
        self.inner = nn.Linear(4, 4)
    def forward(self, x):
        return times(helper(self.inner(x))) * scale + self.k
net = Net()
"""
CALLS = """
answers = []
for n in (3, 5):
    x = torch.full((n, 4), 0.5, requires_grad=True)
    y = net(x)
    y.sum().backward()
    answers += [y.detach(), x.grad]
"""
EDITS = {
    "helper": ("x + 1", "x - 1"),
    "closure": ("closing(3)", "closing(4)"),
    "inner function": ("x * n", "x / n"),
    "global": ("scale = 2.0", "scale = 7.0"),
    "class": ("k = 5", "k = 6"),
    "method": ("+ self.k", "- self.k"),
}
BREAKING = """
import torch
def step(x):
    y = x + 1
    torch._dynamo.graph_break()
    return y * 2
"""


def test_sizes_are_known_in_the_next_process_also_after_a_graph_break(tmp_path):
    calls = "%%compile --backend eager\nanswers = [step(torch.ones(n, 2)) for n in (3, 5, 7)]"
    first = run(BREAKING, calls, home=tmp_path, persist=str(tmp_path / "kept"))
    moved = f"# another comment\n\n{BREAKING}"
    second = run("unrelated = 1", moved, calls, home=tmp_path, persist=str(tmp_path / "kept"))
    edited = run(BREAKING.replace("x + 1", "x + 3"), calls, home=tmp_path, persist=str(tmp_path / "kept"))
    assert first[0] == second[0]
    assert edited[0] == [[[8.0, 8.0]] * n for n in (3, 5, 7)]
    assert [sizes for sizes, *_ in second[1]] == [True] * len(second[1])
    assert len(second[1]) * 2 == len(first[1])
    assert second[2] < first[2]
    # The edited code is not known; what runs after the break is the same as before.
    assert edited[1][0][0] is False
    assert not any(each[3] for each in (first, second, edited))


def test_a_fixed_size_is_compiled_as_one_in_the_next_process(tmp_path):
    calls = "%%compile --backend eager\nanswers = [step(torch.ones(3, 2))]"
    for _ in range(2):
        found = run(BREAKING, calls, home=tmp_path, persist=str(tmp_path / "kept"))
        assert {sizes for sizes, *_ in found[1]} == {False}
    assert not (tmp_path / "kept" / "ipy_dynwrap").exists()


def test_inductor_is_warm_in_the_next_process_and_every_edit_is_seen(tmp_path):
    kept = str(tmp_path / "kept")
    first = run(f"%dynwrap persist {kept}", MODEL, f"%%compile\n{CALLS}", home=tmp_path)
    second = run(f"%dynwrap persist {kept}", MODEL, f"%%compile\n{CALLS}", home=tmp_path)
    assert first[0] == second[0]
    assert second[2] < first[2]
    # Nothing that torch could have loaded was made again, backward passes included.
    assert all(aot[1:] == [0, 0] and graphs[1:] == [0, 0] for _, aot, graphs in second[1])
    assert sum(aot[0] for _, aot, _ in second[1]) == second[2]
    assert "miss" not in second[4]
    check_edit("helper", kept, tmp_path)


@pytest.mark.random
@pytest.mark.parametrize("what", [each for each in EDITS if each != "helper"])
def test_the_answer_is_that_of_eager_after_every_edit(tmp_path, what):
    kept = str(tmp_path / "kept")
    run(f"%dynwrap persist {kept}", MODEL, f"%%compile\n{CALLS}", home=tmp_path)
    check_edit(what, kept, tmp_path)


def check_edit(what, kept, home):
    edited = MODEL.replace(*EDITS[what])
    assert edited != MODEL
    eager = run(edited, CALLS, home=home)
    compiled = run(f"%dynwrap persist {kept}", edited, f"%%compile\n{CALLS}", home=home)
    assert compiled[2] > 0
    for left, right in zip(eager[0], compiled[0], strict=True):
        for ours, theirs in zip(left, right, strict=True):
            assert ours == pytest.approx(theirs, rel=1e-5)


def test_the_magic_says_what_it_does_and_unloading_ends_it(tmp_path):
    cells = ["%dynwrap persist", f"%dynwrap persist {tmp_path / 'other'}", "%unload_ext ipy_dynwrap"]
    found = run(*cells, "import os; assert 'TORCHINDUCTOR_CACHE_DIR' not in os.environ", home=tmp_path)
    assert found[4].startswith("nothing is kept")
    assert (tmp_path / "cache" / "ipy_dynwrap").is_dir()
    assert (tmp_path / "other").is_dir()


def test_two_kernels_at_once_share_a_directory(tmp_path):
    calls = "%%compile --backend eager\nanswers = [step(torch.ones(n, 2)) for n in (3, 5, 7)]"
    with ThreadPoolExecutor(2) as pool:
        both = [pool.submit(run, BREAKING, calls, home=tmp_path, persist=str(tmp_path / "kept")) for _ in range(2)]
    found = [each.result() for each in both]
    assert found[0][0] == found[1][0]
    third = run(BREAKING, calls, home=tmp_path, persist=str(tmp_path / "kept"))
    assert {sizes for sizes, *_ in third[1]} == {True}
    assert all(file.suffix == ".json" for file in (tmp_path / "kept" / "ipy_dynwrap").iterdir())
