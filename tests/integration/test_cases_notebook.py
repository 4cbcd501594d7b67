"""Public reports about notebooks: definitions that change or are run again, and what is said.

test_cases.py has the table. ``notebook`` runs cells in which ``compiled(f)`` is compiled: by `ipy_dynwrap.compile`, or,
where it is `f` itself, by the cell's ``%%compile``.
"""

from __future__ import annotations

import builtins
import functools
import gc
import linecache
import types
import weakref

import pytest
import torch
from torch import nn

import ipy_dynwrap
from ipy_dynwrap import regions, state
from ipy_dynwrap.events import GraphBreak


class Notebook:
    """Runs cells that compile on `counter`."""

    def __init__(self, shell, counter, by_cell):
        self.shell = shell
        self.magic = "%%compile --backend counter{}\n" if by_cell else ""
        options = {"backend": counter}
        compiled = (lambda target, **_: target) if by_cell else functools.partial(ipy_dynwrap.compile, **options)
        shell.ip.push({"torch": torch, "counter": counter, "compiled": compiled})

    def __call__(self, cell, options=""):
        """Run a cell that compiles; fail if it raises."""
        self.raising(cell, options).raise_error()

    def raising(self, cell, options=""):
        result = self.shell(self.magic.format(options) + cell)
        # The number of the cell, and how many lines of it stand above `cell`.
        self.number, self.above = result.execution_count, self.magic.count("\n")
        return result

    def plainly(self, cell):
        """Run a cell that compiles nothing."""
        self.shell(cell).raise_error()

    def __getitem__(self, name):
        return self.shell.ip.user_ns[name]


@pytest.fixture(params=[False, True], ids=["compile", "cell"])
def notebook(request, shell, counter):
    return Notebook(shell, counter, request.param)


# 26: https://github.com/pytorch/pytorch/issues/176851, 108898, 98928, 124717


class Settings:
    gain = 1.0


FACTOR = 2.0


def helper(x):
    return x + 1


class Shifted(nn.Module):
    scale = 1.0

    def shift(self, x):
        return x

    def forward(self, x):
        return self.shift(x) * self.scale


def all_of_them(x):
    return helper(x) * Settings.gain * FACTOR


def test_26_edits_of_what_a_function_reads_are_seen(way, monkeypatch):
    call = way(backend="eager")
    x = torch.ones(1)
    assert call(all_of_them, x).item() == 4.0
    monkeypatch.setattr(Settings, "gain", 10.0)
    assert call(all_of_them, x).item() == 40.0
    monkeypatch.setitem(globals(), "helper", lambda x: x + 3)
    assert call(all_of_them, x).item() == 80.0
    monkeypatch.setitem(globals(), "FACTOR", 1.0)
    assert call(all_of_them, x).item() == 40.0


def test_26_edits_of_the_class_of_a_module_are_seen(way, monkeypatch):
    call, module = way(backend="eager"), Shifted()
    assert call(module, torch.ones(1)).item() == 1.0
    monkeypatch.setattr(Shifted, "scale", 5.0)
    assert call(module, torch.ones(1)).item() == 5.0
    monkeypatch.setattr(Shifted, "shift", lambda self, x: x + 3)
    assert call(module, torch.ones(1)).item() == 20.0


def edit_a_namespace(call, module):
    """Edit what a function reads in a namespace that is not the one of the module of its name."""
    namespace = {"__name__": module}
    exec("FACTOR = 2.0\ndef helper(x): return x + 1\ndef function(x): return helper(x) * FACTOR", namespace)
    function, x = namespace["function"], torch.ones(1)
    assert call(function, x).item() == 4.0
    namespace["FACTOR"] = 5.0
    assert call(function, x).item() == 10.0
    exec("def helper(x): return x + 9", namespace)
    assert call(function, x).item() == 50.0


@pytest.mark.parametrize("module", [__name__, "__main__"])
def test_26_edits_of_a_namespace_that_is_no_modules_are_seen(way, counter, module):
    edit_a_namespace(way(backend=counter), module)
    assert counter.runs == 3


def test_26_edits_of_a_namespace_of_a_module_that_is_gone_are_seen(counter):
    edit_a_namespace(lambda function, x: ipy_dynwrap.compile(function, backend=counter)(x), "no_such_module")
    assert counter.runs == 3


def test_26_a_file_that_was_run_keeps_globals_of_its_own(notebook, counter, tmp_path):
    (tmp_path / "script.py").write_text("FACTOR = 2.0\ndef function(x):\n    return x * FACTOR\n")
    notebook.plainly(f"%run {tmp_path / 'script.py'}")
    notebook.plainly("import torch\nFACTOR = 7.0\nrun, x = compiled(function), torch.ones(1)")
    for _ in range(2):
        notebook("y = run(x).item()")
        assert notebook["y"] == 2.0
        notebook.plainly("assert function(x).item() == 2.0")
    notebook.plainly("function.__globals__['FACTOR'] = 3.0")
    notebook("y = run(x).item()")
    assert notebook["y"] == 3.0
    assert counter.runs == 3


READ = """
class Settings:
    gain = 1.0

FACTOR = 2.0

def helper(x):
    return x + 1

class Net(torch.nn.Module):
    scale = 1.0
    def shift(self, x):
        return x
    def forward(self, x):
        return self.shift(x) * self.scale

def function(x):
    return helper(x) * Settings.gain * FACTOR

net = Net()
run, run_net = compiled(function), compiled(net)
x = torch.ones(1)
"""
EDITS = [
    "Settings.gain = 10.0",
    "def helper(x):\n    return x + 9",
    "FACTOR = 7.0",
    "Net.scale = 5.0",
    "Net.shift = lambda self, x: x + 3",
]


@pytest.mark.parametrize("edits", [*([edit] for edit in EDITS), EDITS], ids=[*EDITS, "one after the other"])
def test_26_edits_in_cells_are_seen(notebook, counter, edits):
    notebook.plainly(READ)
    for edit in ["pass", *edits]:
        notebook.plainly(edit)
        for _ in range(2):
            runs = counter.runs
            notebook("answers = run(x), run_net(x)")
            assert counter.runs == runs + 2
            notebook.plainly("assert answers == (function(x), net(x)), answers")


# 27: https://github.com/pytorch/pytorch/issues/105554, 104095, 119225

NET = """
class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = torch.nn.Linear(2, 2)
    def forward(self, x):
        return self.linear(x)

net = Net()
x = torch.ones(1, 2)
y = compiled(net)(x)
"""


def run_again(notebook):
    for _ in range(12):
        notebook(NET)
        notebook.plainly("assert torch.equal(y, net(x))")


def test_27_an_unchanged_cell_never_runs_eager(notebook, counter):
    run_again(notebook)
    assert counter.runs == 12
    assert ipy_dynwrap.cache_info().eager_calls == 0


def test_27_an_unchanged_cell_compiles_once(notebook, counter):
    run_again(notebook)
    assert counter.graphs == 1


def test_27_a_class_that_was_defined_again_is_freed(notebook):
    notebook(NET)
    first = weakref.ref(notebook["Net"])
    notebook(NET.replace("self.linear(x)", "self.linear(x) + 1"))
    gc.collect()
    assert first() is None


def run_again_under_a_function(notebook):
    notebook("def outer(x, net):\n    return net(x) + 1\nrun = compiled(outer)")
    for _ in range(12):
        notebook(
            "class Net(torch.nn.Module):\n"
            "    def forward(self, x):\n"
            "        return x * 2\n"
            "net, x = Net(), torch.ones(2)\n"
            "y = run(x, net)"
        )
        notebook.plainly("assert torch.equal(y, outer(x, net))")


def test_27_a_function_takes_a_class_that_is_run_again_without_running_eager(notebook, counter):
    run_again_under_a_function(notebook)
    assert counter.runs == 12
    assert ipy_dynwrap.cache_info().eager_calls == 0


def test_27_a_function_that_takes_a_class_that_is_run_again_compiles_once(notebook, counter):
    run_again_under_a_function(notebook)
    assert counter.graphs == 1


def edit_a_helper(notebook):
    notebook("def helper(x):\n    return x + 1\ndef outer(x):\n    return helper(x)\nrun = compiled(outer)")
    for number in range(13):
        notebook(f"def helper(x):\n    return x + {number}\ny = run(torch.ones(1)).item()")
        assert notebook["y"] == number + 1


def test_27_an_edited_helper_is_seen(notebook, counter):
    edit_a_helper(notebook)
    assert counter.graphs == counter.runs


def test_27_an_edited_helper_never_runs_eager(notebook, counter):
    """A version that is gone takes no place under `recompile_limit`."""
    edit_a_helper(notebook)
    assert counter.runs == 13


FIRST = """
class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.k = torch.nn.Linear(1, 1)
        self.fn = torch.sin
    def forward(self, x):
        return self.fn(self.k(x))
net, x = Net(), torch.ones(1, 1)
run = compiled(net)
"""
EDITED = {
    "a method": "def forward(self, x):\n    return self.fn(self.k(x)) + {}\nNet.forward = forward",
    "a function that is kept": "def helper(x):\n    return x + {}\nnet.fn = helper",
    "a hook": (
        "def hook(module, args, output):\n    return output + {}\n"
        "if 'handle' in globals():\n    handle.remove()\n"
        "handle = net.k.register_forward_hook(hook)"
    ),
}


@pytest.mark.parametrize("edit", EDITED.values(), ids=EDITED)
def test_27_what_each_cell_edits_never_runs_eager(notebook, counter, edit):
    notebook.plainly(FIRST)
    for number in range(12):
        notebook.plainly(edit.format(number))
        notebook("y = run(x)")
        notebook.plainly("assert torch.equal(y, net(x))")
    assert counter.runs == 12


def test_27_what_a_cell_makes_anew_at_each_step_stays_under_the_limit(notebook, counter):
    """It would compile for ever: what is gone counts in the cell that compiled it."""
    notebook.plainly("def outer(x):\n    return helper(x) + 1\nrun = compiled(outer)\nx = torch.ones(1)")
    notebook(
        "for step in range(20):\n"
        "    exec(f'def helper(x):\\n    return x + {step}', globals())\n"
        "    y = run(x).item()\n"
        "    assert y == step + 2"
    )
    assert counter.graphs == 8


# 28: https://github.com/pytorch/pytorch/issues/111328, 119225, https://github.com/pytorch/torchdynamo/issues/186


def test_28_classes_of_a_cell_that_use_each_other_compile(notebook, counter):
    notebook(
        "class Scale(torch.nn.Module):\n"
        "    def __init__(self, factor):\n"
        "        super().__init__()\n"
        "        self.factor = factor\n"
        "    def forward(self, x):\n"
        "        return x * self.factor\n"
        "class Linear(torch.nn.Linear):\n"
        "    def forward(self, *args, **kwargs):\n"
        "        return Scale(2.0)(super().forward(*args, **kwargs))\n"
        "net, x = Linear(2, 2), torch.ones(1, 2)\n"
        "y = compiled(net)(x)"
    )
    notebook.plainly("assert torch.equal(y, net(x))")
    assert (counter.graphs, counter.runs) == (1, 1)


def test_28_a_class_that_exec_made_compiles(way, counter):
    namespace = {"nn": nn, "__name__": __name__}
    exec("class Gone(nn.Module):\n    def forward(self, x):\n        return super().__call__ and x + 1\n", namespace)
    assert way(backend=counter, fullgraph=True)(namespace["Gone"](), torch.ones(1)).item() == 2.0
    assert counter.runs == 1


def test_28_a_function_that_was_stored_without_its_source_compiles(way, counter):
    code = compile("def stored(x):\n    return x + 1\n", "/no/such/file.py", "exec").co_consts[0]
    stored = types.FunctionType(code, {"__name__": __name__, "__builtins__": builtins})
    assert way(backend=counter, fullgraph=True)(stored, torch.ones(1)).item() == 2.0
    assert counter.runs == 1


def test_28_a_class_of_a_file_that_was_run_and_is_gone_compiles(notebook, counter, tmp_path):
    file = tmp_path / "gone.py"
    file.write_text("class Gone(torch.nn.Module):\n    def forward(self, x):\n        return x + 1\n")
    notebook.plainly(f"%run -i {file}")
    file.unlink()
    linecache.clearcache()
    notebook("y = compiled(Gone())(torch.ones(1)).item()")
    assert notebook["y"] == 2.0
    assert counter.runs == 1


BREAKING = """def broken(x):
    y = x + 1
    print("seen")
    return y * 2
y = compiled(broken{})(torch.ones(1)).item()
"""


def test_28_a_graph_break_is_told_with_cell_and_line(notebook, counter):
    written = state.log.written
    notebook(BREAKING.format(""))
    assert notebook["y"] == 4.0
    assert counter.runs == 2
    places = {event.place for event in state.log.since(written) if isinstance(event, GraphBreak)}
    assert [(place.cell, place.line) for place in places] == [(notebook.number, notebook.above + 3)]
    said = (
        f"graph break at cell {notebook.number}, line {notebook.above + 3}: Failed to trace builtin operator: `print`"
    )
    assert said in str(ipy_dynwrap.explain("broken"))
    assert {each.cell for row in ipy_dynwrap.cache_info().wrappers for each in row.entries} == {notebook.number}


def test_28_the_line_under_a_cell_tells_where_the_graph_broke(shell):
    shell("import torch\ncompiled = lambda f: f")
    result = shell("%%compile\n" + BREAKING.format(""))
    assert f"graph break in broken at cell {result.execution_count}, line 4" in shell.text


def test_28_the_error_of_a_graph_break_names_cell_and_line(notebook):
    options = "" if notebook.magic else ", fullgraph=True"
    result = notebook.raising(BREAKING.format(options), options=" --fullgraph")
    error = result.error_in_exec
    assert isinstance(error, torch._dynamo.exc.Unsupported)
    assert f"cell in[{notebook.number}], line {notebook.above + 3}" in str(error).lower()
    assert "ipython-input" not in str(error)
    assert "ipy_dynwrap" not in str(error)


# 46: https://github.com/pytorch/pytorch/issues/123771, 106855


def twice(x):
    return x * 2


def test_46_a_block_compiles_and_its_glue_does_not(counter):
    module = nn.Linear(2, 2)
    x = torch.ones(1, 2)
    with ipy_dynwrap.region(backend=counter) as region:
        loose = x * 2 + 1
        y = twice(module(loose))
    torch.testing.assert_close(y, module(x * 2 + 1) * 2)
    assert (counter.graphs, counter.runs, region.report.calls) == (2, 2, 2)
    module(x)
    assert counter.runs == 2


def test_46_a_block_that_raises_leaves_nothing_on(counter):
    def block():
        with ipy_dynwrap.region(backend=counter):
            twice(torch.ones(2))
            raise KeyError

    with pytest.raises(KeyError):
        block()
    twice(torch.ones(2))
    assert counter.runs == 1
    with ipy_dynwrap.region(backend=counter):
        twice(torch.ones(2))
    assert (counter.graphs, counter.runs) == (1, 2)


@pytest.mark.parametrize("end", ["", "\nraise KeyError"], ids=["ends", "raises"])
def test_46_a_cell_compiles_and_leaves_nothing_on(shell, counter, end):
    shell.ip.push({"counter": counter})
    shell("import torch\ndef twice(x):\n    return x * 2\nnet, x = torch.nn.Linear(2, 2), torch.ones(1, 2)")
    cell = "loose = x * 2 + 1\ny = twice(net(loose))"
    result = shell(f"%%compile --backend counter\n{cell}{end}")
    assert isinstance(result.error_in_exec, KeyError if end else type(None))
    assert (counter.graphs, counter.runs) == (2, 2)
    assert not regions.any_open()
    shell("assert torch.equal(y, twice(net(loose)))").raise_error()
    assert counter.runs == 2
    assert shell(f"%%compile --backend counter\n{cell}").success
    assert (counter.graphs, counter.runs) == (2, 4)
