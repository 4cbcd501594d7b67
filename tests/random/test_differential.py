"""A notebook that compiles gives what one that never compiles gives, after whatever steps."""

from __future__ import annotations

import steps
from hypothesis.stateful import RuleBasedStateMachine, rule
from machine import Twins

CELLS = [
    "attributes",
    "backward_hooks",
    "functions",
    "global_hooks",
    "hooks",
    "methods_of_children",
    "methods_of_root",
    "modes",
    "submodules",
    "tensors",
]


class Notebooks(RuleBasedStateMachine):
    """Random cells and calls in two notebooks, one of which compiles."""

    def __init__(self):
        super().__init__()
        self.twins = Twins()

    def teardown(self):
        self.twins.close()

    @rule(call=steps.calls)
    def call(self, call):
        self.twins(call)


def add_rules(kind):
    """Add a rule that runs a cell of one kind, and one that makes the same call before and after it."""

    def change(self, cell):
        self.twins(cell)

    def change_between_calls(self, call, cell):
        self.twins(call, cell, call)

    cells = getattr(steps, kind)
    setattr(Notebooks, f"change_{kind}", rule(cell=cells)(change))
    setattr(Notebooks, f"change_{kind}_between_calls", rule(call=steps.calls, cell=cells)(change_between_calls))


for kind in CELLS:
    add_rules(kind)

TestNotebooks = Notebooks.TestCase
