"""No more compilations than torch itself needs when nothing limits it, for random targets of one family.

The oracle is one `torch.compile`d function that is given the target: torch's own guards then decide what is shared.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass, field

import pytest
import torch
import torch._dynamo
from hypothesis import event, given, settings
from hypothesis import strategies as st
from torch import nn

import ipy_dynwrap

UNLIMITED = {"recompile_limit": 10_000, "accumulated_recompile_limit": 10_000, "skip_nnmodule_hook_guards": False}


class Settings:
    def __init__(self, **given):
        self.__dict__.update(given)


class Cell(nn.Module):
    """Reads `kind`, `gain`, `names`, `settings.word` and `extra`; not `unread` and not `settings.unread`."""

    def __init__(self, *, kind="a", gain=2, names=("p",), word="w", unread=0, width=3, inner=None):
        super().__init__()
        self.linear = nn.Linear(3, width)
        self.kind = kind
        self.gain = gain
        self.names = names
        self.unread = unread
        self.settings = Settings(word=word, unread=unread)
        self.inner = inner if inner is not None else nn.Identity()

    def forward(self, x):
        x = self.inner(self.linear(x)) * self.gain
        if self.kind == "a":
            x = x + len(self.settings.word)
        for name in self.names:
            x = x - len(name)
        return x.tanh() if self.training else x

    def encode(self, x):
        return self.linear(x) * self.gain


class Broken(Cell):
    def forward(self, x):
        x = self.linear(x)
        torch._dynamo.graph_break()
        return x * self.gain


class Applied:
    def __init__(self, function, word, unread):
        self.function = function
        self.word = word
        self.unread = unread

    def __call__(self, x):
        return self.function(x) * len(self.word)

    def act(self, x):
        return self.function(x) + len(self.word)


def minus(x):
    return x - 1


def scaled(x, by=2, *, plus=0.5):
    return x * by + plus


def over(value):
    def shift(x):
        return x * value + 1

    return shift


def after(function):
    def run(x):
        return function(x) - 1

    return run


def run_module(module, x):
    return module(x) + 1


def run_settings(settings, x):
    return x * len(settings.word) + (1 if settings.kind == "a" else 2)


class Hook:
    def __init__(self, value):
        self.value = value

    def __call__(self, module, args, output):
        return output + self.value


def by(value):
    """Return functions that close over `value`, for each kind of hook."""
    return {
        "forward": lambda module, args, output: output * value,
        "with kwargs": lambda module, args, kwargs, output: output - value,
        "always": lambda module, args, output: output + value,
        "pre": lambda module, args: (args[0] * value,),
        "object": Hook(value),
    }


def hooked(module, hooks):
    for where, how, value in hooks:
        owner, hook = module.linear if where == "linear" else module, by(value)[how]
        if how == "pre":
            owner.register_forward_pre_hook(hook)
        else:
            owner.register_forward_hook(hook, with_kwargs=how == "with kwargs", always_call=how == "always")
    return module


pick = st.sampled_from
INTS = st.integers(2, 6)
FUNCTIONS = pick([torch.sin, torch.cos, minus, scaled])
INNERS = pick([nn.Identity, nn.ReLU, nn.Tanh, nn.Sigmoid]).map(lambda kind: kind())
CELLS = {
    "kind": pick("abc"),
    "gain": INTS,
    "names": st.lists(pick(["p", "qq"]), max_size=3).map(tuple),
    "word": pick(["w", "ww", "www"]),
    "unread": INTS,
    "width": st.integers(1, 4),
    "inner": INNERS | st.none(),
}
HOOKS = st.lists(
    st.tuples(pick(["linear", "root"]), pick(["forward", "object", "with kwargs", "always", "pre"]), INTS), max_size=2
)


def some(kind, /, **of):
    """Return a strategy for instances of `kind`, most of whose arguments keep their defaults."""
    return st.fixed_dictionaries({}, optional=of).map(lambda given: kind(**given))


cells = some(Cell, **CELLS)
square = some(Cell, **{name: values for name, values in CELLS.items() if name != "width"})
FAMILIES = {
    "module": st.tuples(cells),
    "module with hooks": st.tuples(st.builds(hooked, some(Cell, gain=INTS), HOOKS)),
    "module with a graph break": st.tuples(some(Broken, gain=INTS, unread=INTS)),
    "nested module": st.tuples(st.builds(Cell, inner=cells)),
    "container": st.tuples(st.lists(INNERS | square, min_size=1, max_size=3).map(lambda parts: nn.Sequential(*parts))),
    "method": st.tuples(cells.map(lambda cell: cell.encode)),
    "closure over an int": st.tuples(INTS.map(over)),
    "closure over a function": st.tuples(pick([minus, scaled]).map(after) | INTS.map(over).map(after)),
    "closure over a module": st.tuples(cells.map(after)),
    "partial": st.tuples(st.builds(functools.partial, st.just(scaled), by=INTS | st.floats(0, 1))),
    "partial of a module": st.tuples(st.builds(functools.partial, st.just(run_module), cells)),
    "callable object": st.tuples(st.builds(Applied, FUNCTIONS, pick(["w", "ww"]), INTS)),
    "method of an object": st.tuples(st.builds(Applied, FUNCTIONS, pick(["w", "ww"]), INTS).map(lambda c: c.act)),
    "module that is passed": st.tuples(st.just(run_module), cells),
    "settings that are passed": st.tuples(
        st.just(run_settings), st.builds(Settings, word=pick(["w", "ww", "www"]), kind=pick("ab"), unread=INTS)
    ),
}


@dataclass
class Outcome:
    """What a sequence of calls cost, and where it was wrong."""

    compilations: int = 0
    wrong: list[int] = field(default_factory=list)


def run(sequence, call: Callable, counter) -> Outcome:
    """Call each target of `sequence`, with its first argument if it has one, in a mode, with an input."""
    torch._dynamo.reset()
    ipy_dynwrap.reset()
    outcome = Outcome()
    for number, ((target, *args), training, grad, rows) in enumerate(sequence):
        for module in (target, *args):
            if isinstance(module, nn.Module):
                module.train(training)
        x = torch.linspace(-1, 1, 3 * rows).reshape(rows, 3)
        with torch.set_grad_enabled(grad):
            expected = target(*args, x)
            got = call(target, *args, x)
        if not torch.allclose(got, expected, atol=1e-5):
            outcome.wrong.append(number)
    outcome.compilations = counter.graphs
    return outcome


def call_by_torch(counter):
    @functools.partial(torch.compile, backend=counter)
    def call(target, *args):
        return target(*args)

    return call


def call_compiled(counter):
    return lambda target, *args: ipy_dynwrap.compile(target, backend=counter)(*args)


def call_in_region(counter):
    def call(target, *args):
        with ipy_dynwrap.region(backend=counter, include=__name__):
            return target(*args)

    return call


@pytest.mark.parametrize("family", FAMILIES)
@settings(max_examples=settings.default.max_examples // 2)
@given(data=st.data())
def test_no_more_compilations_than_torch_without_limits(new_counter, family, data):
    way = data.draw(pick([call_compiled, call_in_region]), label="way")
    targets = data.draw(st.lists(FAMILIES[family], min_size=2, max_size=8), label="targets")
    shapes = data.draw(st.booleans(), label="shapes change")
    modes = st.tuples(pick([True, True, False]), pick([True, True, False]), pick([2, 2, 4] if shapes else [2]))
    picks = data.draw(st.lists(st.tuples(pick(range(len(targets))), modes), min_size=4, max_size=16), label="calls")
    sequence = [(targets[index], *mode) for index, mode in picks]
    with torch._dynamo.config.patch(**UNLIMITED):
        alone, ours = new_counter(), new_counter()
        oracle = run(sequence, call_by_torch(alone), alone)
        outcome = run(sequence, way(ours), ours)
    assert not outcome.wrong
    excess = outcome.compilations - oracle.compilations
    event(f"{family}: {excess:+d}{' where shapes change' if shapes else ''}")
    # What torch has learned of changing shapes is kept per code object, on purpose: each wrapper sees a change itself.
    allowed = max(1, len(ipy_dynwrap.cache_info().wrappers)) if shapes else 1
    # An oracle that is wrong has shared what may not be shared.
    assert oracle.wrong or excess <= allowed
