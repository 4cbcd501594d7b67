"""No more compilations than torch itself needs when nothing limits it, for random targets of one family.

The oracle is one `torch.compile`d function that is given the target: torch's own guards then decide what is shared.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from dataclasses import dataclass, field

import pytest
import torch
import torch._dynamo
from families import FAMILIES, pick
from hypothesis import event, given, settings
from hypothesis import strategies as st
from makers import WAYS
from torch import nn

import ipy_dynwrap

UNLIMITED = {"recompile_limit": 10_000, "accumulated_recompile_limit": 10_000, "skip_nnmodule_hook_guards": False}
CONFIGS = pick(
    [
        {},
        {},
        {"specialize_int": True},
        {"specialize_float": True},
        {"allow_unspec_int_on_nn_module": True},
        {"assume_static_by_default": False},
        {"automatic_dynamic_shapes": False},
        {"force_parameter_static_shapes": False},
    ]
)
OPTIONS = pick([{}, {}, {}, {"dynamic": True}, {"dynamic": False}, {"isolate_recompiles": False}])
MODES = {
    "plain": contextlib.nullcontext,
    "no_grad": torch.no_grad,
    "inference": torch.inference_mode,
    "autocast": lambda: torch.autocast("cpu", torch.bfloat16),
}


@dataclass
class Outcome:
    """What a sequence of calls cost, and where it was wrong."""

    compilations: int = 0
    runs: int = 0
    wrong: list[int] = field(default_factory=list)


def run(sequence, call: Callable, counter) -> Outcome:
    """Call each target of `sequence`, with its first arguments if it has some, in a mode, with an input."""
    torch._dynamo.reset()
    ipy_dynwrap.reset()
    outcome = Outcome()
    for number, ((target, *args), training, mode, rows) in enumerate(sequence):
        for module in (target, *args):
            if isinstance(module, nn.Module):
                module.train(training)
        x = torch.linspace(-1, 1, 3 * rows).reshape(rows, 3)
        with MODES[mode]():
            expected = target(*args, x)
            got = call(target, *args, x)
        if not torch.allclose(got, expected, atol=1e-5):
            outcome.wrong.append(number)
    outcome.compilations, outcome.runs = counter.graphs, counter.runs
    return outcome


def by_torch(**options):
    @torch.compile(**options)
    def call(target, *args):
        return target(*args)

    return call


@pytest.mark.parametrize("family", FAMILIES)
@settings(max_examples=settings.default.max_examples // 2)
@given(data=st.data())
def test_no_more_compilations_than_torch_without_limits(new_counter, family, data):
    way = WAYS[data.draw(pick(list(WAYS)), label="way")]
    targets = data.draw(st.lists(FAMILIES[family], min_size=2, max_size=8), label="targets")
    shapes = data.draw(st.booleans(), label="shapes change")
    modes = st.tuples(pick([True, True, False]), pick(["plain", "plain", *MODES]), pick([2, 2, 4] if shapes else [2]))
    picks = data.draw(st.lists(st.tuples(pick(range(len(targets))), modes), min_size=4, max_size=16), label="calls")
    config, options = data.draw(CONFIGS, label="config"), data.draw(OPTIONS, label="options")
    sequence = [(targets[index], *mode) for index, mode in picks]
    with torch._dynamo.config.patch({**UNLIMITED, **config}):
        alone, ours = new_counter(), new_counter()
        oracle = run(sequence, by_torch(backend=alone, **options), alone)
        outcome = run(sequence, way("families", backend=ours, **options), ours)
    assert not outcome.wrong
    excess = outcome.compilations - oracle.compilations
    event(f"{family}: {excess:+d}{' where shapes change' if shapes else ''}")
    # Once in a family, another target's other shape is not taken for a shape that changes.
    families = {(each.kind, each.target) for each in ipy_dynwrap.cache_info().wrappers}
    # An oracle that is wrong has shared what may not be shared, and one that ran fewer graphs has left a frame alone
    # in which it once found nothing to compile.
    fair = not oracle.wrong and oracle.runs >= outcome.runs
    assert not fair or excess <= len(families)
