"""What is defined again with the same content stays compiled: in cells, scripts and modules."""

from __future__ import annotations

import gc
import inspect
import os
import re
import sys
import traceback
import weakref
from collections import Counter

import pytest
import torch
from notebook_cells import CELLS, EDITS, REORDERED

import ipy_dynwrap
from ipy_dynwrap import definitions, state
from ipy_dynwrap.events import CompileFinished


def compiled_since(written):
    """Count the compilations by target."""
    events = state.log.since(written)
    return Counter(
        event.target for event in events if isinstance(event, CompileFinished) and event.outcome == "compiled"
    )


class Notebook:
    """Runs cells; the last one of a pass is compiled."""

    def __init__(self, shell):
        self.shell = shell
        self.names = shell.ip.user_ns

    def __call__(self, *cells):
        for cell in cells:
            self.shell(cell).raise_error()

    def compiles(self, *cells):
        """Run cells, the last one compiled, and count the compilations by target."""
        written = state.log.written
        self(*cells[:-1], f"%%compile\n{cells[-1]}")
        return compiled_since(written)

    def found(self):
        """What became of each name that was defined again: True, or why it was not kept."""
        return {each.name: each.kept or each.reason for each in definitions.of_shell(self.shell.ip).found()}


@pytest.fixture
def notebook(shell):
    return Notebook(shell)


def commented(cell):
    """Put a comment and a blank line above each statement that may have them."""
    return "# again\n\n" + re.sub(r"(?m)^(\s*)(return|self\.|state\.|loss)", r"\n\1# why not\n\1\2", cell)


SECOND = {
    "unchanged": CELLS,
    "commented": tuple(map(commented, CELLS)),
    "reordered": tuple(CELLS[at] for at in REORDERED),
}


@pytest.mark.parametrize("second", SECOND.values(), ids=SECOND)
def test_a_notebook_that_runs_twice_compiles_once(notebook, second):
    assert notebook.compiles(*CELLS).total() == 4
    losses = notebook.names["losses"]
    assert not notebook.compiles(*second)
    assert notebook.names["losses"] == losses
    assert set(notebook.found().values()) == {True}
    notebook(*second)
    torch.testing.assert_close(notebook.names["losses"], losses)


@pytest.mark.parametrize("edit", EDITS.values(), ids=EDITS)
def test_an_edit_compiles_its_users_once_and_is_seen(notebook, edit):
    at, old, new, users = edit
    edited = [cell.replace(old, new) if number == at else cell for number, cell in enumerate(CELLS)]
    assert edited[at] != CELLS[at]
    notebook.compiles(*CELLS)
    assert notebook.compiles(*edited) == dict.fromkeys(users, 1)
    losses = notebook.names["losses"]
    notebook(*edited)
    torch.testing.assert_close(notebook.names["losses"], losses)
    assert ipy_dynwrap.cache_info().eager_calls == 0


NET = """
class Net(torch.nn.Module):
    {attributes}
    def __init__(self):
        super().__init__()
        self.linear = torch.nn.Linear(1, 1)

    def forward(self, x):
        return helper(self.linear(x))
"""
PLAIN = NET.format(attributes="")
HELPER = "def helper(x):\n    return x + 1\n"
RUN = "y = Net()(x)"
SETUP = "import abc, dataclasses, functools, inspect, torch\nx = torch.ones(1, 1)"


@pytest.fixture
def begun(notebook):
    """A notebook in which something has compiled."""
    notebook(SETUP, "def first(x):\n    return x")
    notebook.compiles("first(x)")
    return notebook


def test_a_class_and_its_use_in_one_cell_compile_once(notebook):
    notebook(SETUP, HELPER)
    assert notebook.compiles(PLAIN + RUN) == {"Net.forward": 1}
    first = notebook.names["Net"]
    assert not notebook.compiles(PLAIN + RUN)
    assert not notebook.compiles("# above\n" + PLAIN + RUN)
    assert notebook.names["Net"] is first


def test_before_anything_is_compiled_all_is_left_alone(notebook):
    notebook(SETUP, HELPER, PLAIN)
    before = notebook.names["Net"], notebook.names["helper"].__code__
    notebook(HELPER, PLAIN)
    assert (notebook.names["Net"] is before[0], notebook.names["helper"].__code__ is before[1]) == (False, False)
    assert notebook.found() == {}


def test_the_setting_turns_it_off(begun):
    begun("%config DynWrap.intern = False", HELPER, PLAIN)
    assert begun.compiles(RUN) == {"Net.forward": 1}
    assert begun.compiles(HELPER, PLAIN, RUN) == {"Net.forward": 1}


def test_nothing_is_kept_under_a_tracer(begun):
    begun(HELPER, PLAIN)
    former, before = begun.names["Net"], sys.gettrace()
    sys.settrace(lambda *_: None)
    try:
        begun(PLAIN)
    finally:
        sys.settrace(before)
    assert begun.names["Net"] is not former


# What a class holds, and why it is not kept with that; True if it is.
ATTRIBUTES = {
    "factor = 2.0; shape = (1, (2.0, None)); kind = torch.float32": True,
    "device = torch.device('cpu'); where = torch.nn.functional": True,
    "size: int = 3; names: tuple[str, ...] | None = ()": True,
    "@property\n    def a(self):\n        return 1\n    @a.setter\n    def a(self, value):\n        pass": True,
    "@classmethod\n    def make(cls):\n        return cls()\n    @staticmethod\n    def one():\n        return 1": True,
    "@functools.cached_property\n    def gain(self):\n        return 1": True,
    "@torch.no_grad()\n    def sample(self):\n        return 1": True,
    "halve = functools.partialmethod(max, 1)": True,
    "class Part:\n        size = 1\n        class Piece:\n            pass": True,
    "def __eq__(self, other):\n        return self is other": True,
    "__slots__ = ('a', 'b')": True,
    "items = []": "items: [] is not known to be immutable",
    "pattern = object()": "object is not known to be immutable",
    "weight = torch.zeros(1)": "is not known to be immutable",
    "class Part(abc.ABC):\n        pass": "Part: Net.Part is a new class",
    "def __init_subclass__(cls):\n        pass": "Net is told of its subclasses",
}


@pytest.mark.parametrize("attributes", ATTRIBUTES)
def test_a_class_is_kept_with_what_is_immutable(begun, attributes):
    cell = NET.format(attributes=attributes)
    begun(HELPER, cell)
    former = begun.names["Net"]
    begun(cell)
    right = ATTRIBUTES[attributes]
    assert begun.found()["Net"] == right or (isinstance(right, str) and right in begun.found()["Net"])
    assert (begun.names["Net"] is former) == (right is True)


CHANGED = {
    "a constant's type": ("return 1", "return 1.0"),
    "a constant that is equal": ("return 1", "return True"),
    "a name": ("return 1", "return one"),
    "a default": ("self, k=2", "self, k=2.0"),
    "a parameter": ("self, k=2", "self, j=2"),
    "an annotation": ("k=2", "k: int = 2"),
    "an inner function": ("+ 1\n", "+ -0.0\n"),
    "a docstring": ("'''Say.'''", "'''Tell.'''"),
    "a base": ("(object)", "(list)"),
    "an attribute": ("size = 0.0", "size = -0.0"),
    "a decorator": ("    def f", "    @staticmethod\n    def f"),
    "an exception that is caught": ("KeyError", "IndexError"),
}
CLASS = """
class Thing(object):
    '''Say.'''
    size = 0.0
    def f(self, k=2):
        try:
            return 1
        except KeyError:
            return lambda x: x + 1
"""


@pytest.mark.parametrize("change", CHANGED.values(), ids=CHANGED)
def test_a_class_that_differs_is_new(begun, change):
    begun(CLASS)
    former = begun.names["Thing"]
    begun(CLASS)
    assert begun.names["Thing"] is former
    begun(CLASS.replace(*change).replace("+ -0.0", "+ 2"))
    assert begun.names["Thing"] is not former
    assert isinstance(begun.found()["Thing"], str)


HELD = {
    "by a registry": "kept = []\ndef register(cls):\n    kept.append(cls)\n    return cls\n@register\n",
    "by one of methods": "kept = []\ndef register(cls):\n    kept.append(cls.f)\n    return cls\n@register\n",
    "by an instance": "def made(cls):\n    global one\n    one = cls()\n    return cls\n@made\n",
}


@pytest.mark.parametrize("above", HELD.values(), ids=HELD)
def test_a_class_that_something_refers_to_is_new(begun, above):
    cell = above + CLASS.strip()
    begun(cell)
    former = begun.names["Thing"]
    begun(cell)
    assert begun.names["Thing"] is not former
    assert begun.found()["Thing"].startswith("something refers to the new ")


def test_a_class_with_a_base_that_is_told_of_it_is_new(begun):
    begun("class Base:\n    known = []\n    def __init_subclass__(cls):\n        cls.known.append(cls.__name__)")
    for _ in range(2):
        begun("class Part(Base):\n    pass")
    assert begun.found()["Part"] == "Base is told of its subclasses"
    assert begun.names["Base"].known == ["Part", "Part"]


def test_a_class_whose_state_changed_is_new(begun):
    cell = "class Counted:\n    made = 0\n    def __init__(self):\n        Counted.made += 1"
    begun(cell, "Counted()")
    begun(cell)
    assert begun.names["Counted"].made == 0
    assert begun.found()["Counted"] == "made: 1 -> 0"


def test_a_class_with_a_patched_method_is_new(begun):
    begun(CLASS, "Thing.f = lambda self: 5", CLASS)
    assert begun.names["Thing"]().f() == 1


def test_a_class_that_is_defined_twice_in_one_cell_is_two(begun):
    cell = "class A:\n    x = 1\nB = A\nclass A:\n    x = 1\n"
    for _ in range(3):
        begun(cell)
        assert begun.names["A"] is not begun.names["B"]


def test_functions_that_count_in_a_closure_are_their_own(begun):
    cell = (
        "def counted(f):\n    n = 0\n    def inner(self):\n        nonlocal n\n        n += 1\n        return n\n"
        "    return inner\nclass Thing:\n    @counted\n    def f(self):\n        pass\nthing = Thing()\n"
    )
    begun(cell, "old = thing", cell, "seen = old.f(), thing.f(), old.f()")
    assert begun.names["seen"] == (1, 1, 2)
    assert begun.found()["Thing"] == "f: it sets n, which it closes over"


@pytest.mark.parametrize("function", ["def f(x, k=1):\n    return x * k", "f = lambda x, k=1: x * k"])
def test_a_function_has_its_own_defaults_and_attributes(begun, function):
    begun(function, "f.mark = 1\nold = f", function.replace("k=1", "k=2"), "f.mark = 2")
    old, new = begun.names["old"], begun.names["f"]
    assert old is not new
    assert old.__code__ is new.__code__
    assert (old(3), old.mark, new(3), new.mark) == (3, 1, 6, 2)


def test_two_lambdas_alike_are_two(begun):
    for _ in range(2):
        begun("one = lambda x: x + 1", "two = lambda x: x + 1", "three, four = [lambda x: x + 1,\nlambda x: x + 1]")
    codes = [begun.names[name].__code__ for name in ("one", "two", "three", "four")]
    assert len(set(map(id, codes))) == 4


def test_a_lambda_that_is_passed_on_compiles_once(begun):
    begun("def apply(f, x):\n    return f(x) + 1")
    cell = "y = apply(lambda x: x * 2, x)"
    assert begun.compiles(cell) == {"apply": 1}
    gc.collect()
    assert not begun.compiles(cell)
    assert begun.compiles(cell.replace("2", "3")) == {"apply": 1}
    assert begun.names["y"].item() == 4


RAISING = "def broken(x):\n    y = x + 1\n    raise ValueError(y)\n"


def test_source_and_traceback_are_those_of_the_new_cell(begun):
    begun(RAISING, "old = broken")
    text = RAISING.replace("    raise", "    # now it is too late\n    raise")
    result = begun.shell("# above\n\n" + text)
    broken = begun.names["broken"]
    assert broken.__code__ is begun.names["old"].__code__
    assert inspect.getsource(broken) == text
    with pytest.raises(ValueError, match="2") as caught:
        broken(1)
    frame = traceback.extract_tb(caught.value.__traceback__)[-1]
    assert (frame.lineno, frame.line) == (6, "raise ValueError(y)")
    begun.shell("broken(1)")
    assert (
        f"Input In [{result.execution_count}]" in begun.shell.text
        or f"In[{result.execution_count}]" in begun.shell.text
    )


def test_old_instances_are_instances_of_what_is_kept(begun):
    begun(HELPER, PLAIN, "old = Net()", PLAIN)
    assert isinstance(begun.names["old"], begun.names["Net"])


def test_versions_of_a_class_that_is_edited_go(begun):
    begun(HELPER)
    wrappers = len(ipy_dynwrap.cache_info().wrappers)
    classes = []
    for number in range(25):
        begun.compiles(PLAIN.replace("self.linear(x)", f"self.linear(x) + {number}"), RUN)
        classes.append(weakref.ref(begun.names["Net"]))
    gc.collect()
    assert [each() is not None for each in classes] == [False] * 24 + [True]
    assert len(ipy_dynwrap.cache_info().wrappers) == wrappers + 1


def test_versions_of_a_function_that_is_edited_go(begun):
    wrappers = len(ipy_dynwrap.cache_info().wrappers)
    for number in range(100):
        begun.compiles(f"def edited(x):\n    return x + {number}", "edited(torch.ones(2))")
    gc.collect()
    assert len(ipy_dynwrap.cache_info().wrappers) <= wrappers + 2


MODULE = """
import dataclasses
import torch

def helper(x):
    return x + 1

class Base(torch.nn.Module):
    def double(self, x):
        return x * 2

class Net(Base):
    class Part:
        size = 1
    def __init__(self):
        super().__init__()
        self.linear = torch.nn.Linear(1, 1)
    def forward(self, x):
        return helper(self.double(self.linear(x)))

@dataclasses.dataclass
class Config:
    width: int = 3
"""


class File:
    """A source file whose changes are seen whatever the resolution of the clock."""

    def __init__(self, path):
        self.path = path
        self.time = 1_600_000_000

    def write(self, text):
        self.time += 10
        self.path.write_text(text)
        os.utime(self.path, (self.time, self.time))


@pytest.fixture
def module(tmp_path, monkeypatch, begun):
    """The file of a module that the notebook has imported."""
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    file = File(tmp_path / "dynwrap_reloaded.py")
    file.write(MODULE)
    yield file
    sys.modules.pop("dynwrap_reloaded", None)


RELOADED = {"again": ("", ""), "commented": ("\n", "\n# so\n\n")}
COMPILED = "%%compile --include dynwrap_reloaded\nnet = m.Net()\ny = net(x)"


@pytest.mark.parametrize("before", [True, False], ids=["imported before", "imported after"])
@pytest.mark.parametrize("change", RELOADED.values(), ids=RELOADED)
def test_a_module_that_is_reloaded_compiles_nothing(begun, module, change, before):
    if before:
        begun("%unload_ext ipy_dynwrap", "import dynwrap_reloaded as m", "%load_ext ipy_dynwrap")
        begun("%config DynWrap.backend = 'eager'")
    begun("import importlib, dynwrap_reloaded as m", COMPILED)
    written, former = state.log.written, begun.names["m"].Net
    module.write(MODULE.replace(*change))
    begun("importlib.reload(m)", COMPILED)
    assert not compiled_since(written)
    assert begun.names["m"].Net is former
    assert inspect.getsource(former.forward).startswith("    def forward")
    module.write(MODULE.replace("x + 1", "x + 2"))
    begun("importlib.reload(m)", COMPILED)
    assert compiled_since(written) == {"Net.forward": 1}
    begun("assert torch.equal(y, net(x))")


def test_classes_of_a_module_that_something_refers_to_are_new(begun, module):
    module.write(MODULE + "net = Net()\n")
    begun("import importlib, dynwrap_reloaded as m", "old = m.Net", "importlib.reload(m)")
    new = begun.names["m"]
    assert new.Net is not begun.names["old"]
    assert type(new.net) is new.Net
    assert issubclass(new.Net, new.Base)
    assert begun.found()["Net"] == "something refers to the new Net"


@pytest.fixture
def autoreload(ip):
    """The extension, which leaves traces when it is unloaded, before ours."""
    ip.run_line_magic("load_ext", "autoreload")


@pytest.mark.parametrize("options", ["", " --full"])
def test_autoreload_compiles_what_was_edited(autoreload, begun, module, options):
    begun(f"%autoreload 2{options}")
    try:
        begun("import dynwrap_reloaded as m", COMPILED)
        written = state.log.written
        module.write("# a comment\n" + MODULE)
        begun(COMPILED)
        assert not compiled_since(written)
        module.write("# a comment\n" + MODULE.replace("x + 1", "x + 2"))
        begun(COMPILED, "assert torch.equal(y, net(x))")
        assert compiled_since(written) == {"Net.forward": 1}
        module.write("# a comment\n" + MODULE.replace("x + 1", "x + 2").replace("x * 2", "x * 3"))
        begun(COMPILED, "assert torch.equal(y, net(x))")
        assert compiled_since(written) == {"Net.forward": 2}
    finally:
        begun("%autoreload 0")


def test_a_script_that_is_run_again_in_the_notebooks_namespace_compiles_nothing(begun, tmp_path):
    text = f"# -*- coding: utf-8 -*-\n'''A script.'''\nimport torch\n{HELPER}{PLAIN}net = Net()\n"
    file = File(tmp_path / "script.py")
    file.write(text)
    cell = f"%run -i {file.path}"
    assert begun.compiles(cell, "y = net(x)") == {"Net.forward": 1}
    assert not begun.compiles(cell, "y = net(x)")
    file.write("# another comment\n" + text)
    assert not begun.compiles(cell, "y = net(x)")
    assert inspect.getsource(begun.names["helper"]) == HELPER
    file.write(text.replace("x + 1", "x + 2"))
    assert begun.compiles(cell, "y = net(x)") == {"Net.forward": 1}
    begun("assert torch.equal(y, net(x))")


def test_a_script_does_not_get_the_future_imports_of_the_notebook(begun, tmp_path):
    (tmp_path / "script.py").write_text("def f(x: int):\n    pass\nseen = f.__annotations__\n")
    begun("from __future__ import annotations", f"%run {tmp_path / 'script.py'}")
    assert begun.names["seen"] == {"x": int}


def test_magics_that_compile_a_cell_themselves_keep_it_too(begun):
    cell = "%%time\n" + PLAIN
    begun(HELPER, cell)
    former = begun.names["Net"]
    begun(cell)
    assert begun.names["Net"] is former


# Torch takes what it put into a namespace out again when the code goes; the namespace may have been cleared by then.
cleared = pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")


@cleared
def test_a_script_has_a_namespace_of_its_own_in_each_run(begun, tmp_path):
    """What torch compiles for frames after a graph break lies in the namespace that the code had first."""
    script = tmp_path / "script.py"
    script.write_text("def f(x):\n    x = x + 1\n    print(end='')\n    return x * 2\n")
    for _ in range(3):
        begun.shell.ip.run_line_magic("run", str(script))
        begun("%%compile\nresult = f(torch.ones(2))")
        assert begun.names["result"].tolist() == [4.0, 4.0]


@cleared
def test_a_module_that_is_imported_anew_has_a_namespace_of_its_own(begun, tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(str(tmp_path))
    (tmp_path / "imported_anew.py").write_text("def f(x):\n    x = x + 1\n    print(end='')\n    return x * 2\n")
    for _ in range(3):
        sys.modules.pop("imported_anew", None)
        begun("import imported_anew", "%%compile --include imported_anew\nresult = imported_anew.f(torch.ones(2))")
        assert begun.names["result"].tolist() == [4.0, 4.0]
    del sys.modules["imported_anew"]


REGISTERED = """
import collections.abc
import weakref

registry = weakref.WeakSet()

def register(cls):
    registry.add(cls)
    return cls

@register
class Known:
    pass
"""


def test_a_class_that_is_registered_weakly_is_new(begun):
    begun(HELPER, REGISTERED, REGISTERED)
    assert begun.names["Known"] in begun.names["registry"]
    begun("class Collection:\n    pass", "@collections.abc.Set.register\nclass Collection:\n    pass")
    assert issubclass(begun.names["Collection"], begun.names["collections"].abc.Set)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("range(0, 3, 2)", "range(0, 4, 2)"),
        ("slice(0, 1)", "slice(0, True)"),
        ("list[1]", "list[True]"),
        ("int | str", "str | int"),
        ("dict[str, 0.0]", "dict[str, -0.0]"),
    ],
)
def test_an_edit_between_what_python_calls_equal_is_seen(begun, before, after):
    begun(HELPER, f"class Holder:\n    held = {before}", f"class Holder:\n    held = {after}")
    assert repr(begun.names["Holder"].held) == repr(eval(after))  # noqa: S307


def test_a_class_that_was_not_needed_is_no_subclass_any_more(begun):
    begun(HELPER, "class Base:\n    pass", "class Plug(Base):\n    pass", "class Plug(Base):\n    pass")
    assert begun.names["Base"].__subclasses__() == [begun.names["Plug"]]
