"""`would_hit` says before a call what it then does, and changes nothing."""

from __future__ import annotations

import contextlib
import copy

import pytest
import torch
import torch._dynamo
from families import FAMILIES
from hypothesis import given, settings
from hypothesis import strategies as st

import ipy_dynwrap
from ipy_dynwrap import state
from ipy_dynwrap.events import CompileFinished, EagerCall

INPUTS = [torch.ones(2, 3), torch.ones(4, 3), torch.ones(1, 3), torch.ones(2, 3, requires_grad=True)]
calls_of = {
    name: st.lists(st.tuples(family, st.sampled_from(INPUTS), st.booleans(), st.booleans()), min_size=1, max_size=5)
    for name, family in FAMILIES.items()
    if name != "module with a graph break"  # the frames after it are looked at when they run
}


def seen():
    """Return all that a prediction may not change."""
    families = [family for each in state.cache._families.values() for family in each.values()]
    kept = [
        (family.fields, family.retired, family._table, family._found, family._memo._entries, family._used_up)
        for family in families
    ]
    return (
        ipy_dynwrap.cache_info(),
        state.log.written,
        [[copy.copy(part) for part in parts] for parts in kept],
        [{key: copy.copy(value) for key, (_, value) in family._shown._entries.items()} for family in families],
        torch._dynamo.convert_frame.FRAME_COUNTER,
    )


@pytest.mark.parametrize("name", calls_of)
@settings(max_examples=max(2, settings.default.max_examples // 2))
@given(data=st.data())
def test_a_prediction_is_what_the_call_then_does(name, data):
    ipy_dynwrap.reset()
    torch._dynamo.reset()
    routed = data.draw(st.booleans())
    for (target, *passed), x, grad, again in data.draw(calls_of[name]):
        called = target if routed else ipy_dynwrap.compile(target, backend="eager")
        region = ipy_dynwrap.region(backend="eager", include=("families", "makers"))
        with torch.set_grad_enabled(grad), region if routed else contextlib.nullcontext():
            for _ in range(1 + again):
                before = seen()
                predicted = ipy_dynwrap.would_hit(called, *passed, x)
                assert seen() == before
                called(*passed, x)
                events = state.log.since(before[1])
                assert predicted.hits != any(isinstance(each, CompileFinished | EagerCall) for each in events), (
                    predicted,
                    events,
                )
                wrappers = {wrapper.name: wrapper for wrapper in before[0].wrappers}
                if predicted.hits:
                    assert predicted.compile_id in {each.compile_id for each in wrappers[predicted.wrapper].entries}
                else:
                    assert predicted.reasons or not any(wrapper.entries for wrapper in wrappers.values())
