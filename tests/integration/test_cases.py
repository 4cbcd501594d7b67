"""Public reports about `torch.compile`, each as it reads in this project: right answers, and no compilation too many.

The table says which they are and through what each is told. The tests stand in the files beside this one, and begin
with the number: ``test_07_...`` is of case 7. The reports are linked above them.
"""

from __future__ import annotations

import ast
from collections import defaultdict
from pathlib import Path

import pytest

BOTH = {"compile", "region"}
ALL = {"compile", "region", "cell"}

# The number: (what was reported, through what it must be right).
CASES = {
    # test_cases_sharing.py
    1: ("stock layers of all kinds share one cache", BOTH),
    2: ("functions made with exec, and partials of them, collide", BOTH),
    3: ("instances that differ in a string run eager after eight", BOTH),
    4: ("a shell around modules of many types, fullgraph, raises", BOTH),
    5: ("isolated equal instances compile each", BOTH),
    6: ("closures over methods of tensors run each other's graph", BOTH),
    7: ("closures of one factory run eager after eight; a cell is bound anew", BOTH),
    8: ("functions under one decorator run eager after eight", BOTH),
    9: ("partials run eager after eight, unrelated ones too", BOTH),
    # test_cases_variants.py
    12: ("a backend that is made anew for each call compiles anew", ALL),
    13: ("closures share which sizes are dynamic", BOTH),
    15: ("modes, and counters in modules, use up the limit", BOTH),
    # test_cases_hooks.py
    16: ("a hook that is added after the first call is ignored", BOTH),
    17: ("a hook that is added again is ignored", BOTH),
    18: ("a hook of all modules fires once more than in eager", BOTH),
    19: ("hooks with keywords on equal layers run each other's graph", BOTH),
    20: ("backward hooks that are added after the first call are ignored", BOTH),
    22: ("a pre-hook of the root is a graph of its own", BOTH),
    25: ("a hooked instance runs the graph of a plain one", BOTH),
    # test_cases_notebook.py
    26: ("an edited class, helper or global is not seen", ALL),
    27: ("a cell that is run again compiles again", {"compile", "cell"}),
    28: ("no source in a notebook; reports do not name the cell", ALL),
    46: ("a block or a cell cannot be compiled", {"region", "cell"}),
    # test_cases_standin.py
    31: ("options of one compilation hold for another", BOTH),
    32: ("the limit that is set in one thread does not hold in others", BOTH),
    37: ("keys of a state dict get a prefix", BOTH),
    38: ("type and signature are lost", BOTH),
    41: ("what vmap calls runs eager, and nobody says so", ALL),
    44: ("one function cannot be reset alone", ALL),
    47: ("of two evaluators of frames one is lost", BOTH),
}

# What a parameter of a test says about the way that it goes; conftest.py and the test files have the fixtures.
FIXTURES = {"way": BOTH, "shell": {"cell"}, "notebook": {"compile", "cell"}}


def ways_of(test: ast.FunctionDef) -> set[str]:
    """Return through what a test calls its targets."""
    ways = set().union(*(FIXTURES.get(each.arg, ()) for each in test.args.args))
    for node in ast.walk(test):
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "ipy_dynwrap":
            ways |= {node.attr} & BOTH
    return ways


@pytest.fixture(scope="module")
def tested() -> dict[int, set[str]]:
    """Return for each number through what its tests go."""
    found = defaultdict(set)
    for file in Path(__file__).parent.glob("test_cases_*.py"):
        for node in ast.parse(file.read_text()).body:
            if isinstance(node, ast.FunctionDef) and node.name.startswith("test_"):
                found[int(node.name.split("_")[1])] |= ways_of(node)
    return found


def test_the_table_has_all_thirty():
    assert len(CASES) == 30


@pytest.mark.parametrize("case", CASES)
def test_each_case_is_tested_in_every_way(case, tested):
    _, ways = CASES[case]
    assert ways <= tested[case]


def test_each_test_is_of_a_case(tested):
    assert set(tested) <= set(CASES)
