"""A notebook that compiles gives what one that never compiles gives, after whatever steps."""

from __future__ import annotations

import definition_steps
import hook_steps
import state_steps
from call_steps import calls
from hypothesis.stateful import RuleBasedStateMachine, rule
from machine import Twins

CELLS = {
    "again": definition_steps.again,
    "attributes": state_steps.attributes,
    "backward_hooks": hook_steps.backward_hooks,
    "functions": definition_steps.functions,
    "global_hooks": hook_steps.global_hooks,
    "hooks": hook_steps.hooks,
    "methods_of_children": definition_steps.methods_of_children,
    "methods_of_root": definition_steps.methods_of_root,
    "modes": state_steps.modes,
    "submodules": state_steps.submodules,
    "tensors": state_steps.tensors,
}


class Notebooks(RuleBasedStateMachine):
    """Random cells and calls in two notebooks, one of which compiles."""

    def __init__(self):
        super().__init__()
        self.twins = Twins()

    def teardown(self):
        self.twins.close()

    @rule(call=calls)
    def call(self, call):
        self.twins(call)


def add_rules(kind, cells):
    """Add a rule that runs a cell of one kind, and one that makes the same call before and after it."""

    def change(self, cell):
        self.twins(cell)

    def change_between_calls(self, call, cell):
        self.twins(call, cell, call)

    setattr(Notebooks, f"change_{kind}", rule(cell=cells)(change))
    setattr(Notebooks, f"change_{kind}_between_calls", rule(call=calls, cell=cells)(change_between_calls))


for kind, cells in CELLS.items():
    add_rules(kind, cells)

TestNotebooks = Notebooks.TestCase
