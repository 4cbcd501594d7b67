"""Hypothesis strategies for targets of one family, and what they are called with before the input."""

from __future__ import annotations

import functools

import torch
import torch._dynamo
from hypothesis import strategies as st
from makers import Applied, Settings, after, over, run_module, run_with, traced, written
from torch import nn


class Cell(nn.Module):
    """Reads `kind`, `gain`, `names`, `settings.word` and `inner`; not `unread` and not `settings.unread`."""

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


class Tied(nn.Module):
    """Has one layer in two places."""

    def __init__(self, gain, inner):
        super().__init__()
        self.first = Cell(gain=gain)
        self.parts = nn.ModuleDict({"inner": inner, "again": self.first})

    def forward(self, x):
        for part in self.parts.values():
            x = part(x)
        return self.first(x)


class Buffered(nn.Module):
    def __init__(self, size, dtype, by):
        super().__init__()
        self.register_buffer("offset", torch.ones(size, dtype=dtype))
        self.by = by

    def forward(self, x):
        return x + self.offset * self.by


def minus(x):
    return x - 1


def scaled(x, by=2, *, plus=0.5):
    return x * by + plus


def listed(values):
    return lambda x: sum((x * value for value in values), x)


def run_both(first, second, x):
    return first(x) - second(x)


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
        "pre with kwargs": lambda module, args, kwargs: ((args[0] - value,), kwargs),
        "backward": lambda module, grads, outer: tuple(None if grad is None else grad * value for grad in grads),
        "object": Hook(value),
    }


def hooked(module, hooks):
    for where, how, value in hooks:
        owner, hook = module.linear if where == "linear" else module, by(value)[how]
        if how.startswith("pre"):
            owner.register_forward_pre_hook(hook, with_kwargs=how == "pre with kwargs")
        elif how == "backward":
            owner.register_full_backward_hook(hook)
        else:
            owner.register_forward_hook(hook, with_kwargs=how == "with kwargs", always_call=how == "always")
    return module


pick = st.sampled_from
INTS = st.integers(2, 6)
FUNCTIONS = pick([torch.sin, torch.cos, minus, scaled])
INNERS = pick([nn.Identity, nn.ReLU, nn.Tanh, nn.Sigmoid]).map(lambda kind: kind())
WORDS = pick(["w", "ww", "www"])
CELLS = {
    "kind": pick("abc"),
    "gain": INTS,
    "names": st.lists(pick(["p", "qq"]), max_size=3).map(tuple),
    "word": WORDS,
    "unread": INTS,
    "width": st.integers(1, 4),
    "inner": INNERS | st.none(),
}
KINDS_OF_HOOK = pick(list(by(1)))
HOOKS = st.lists(st.tuples(pick(["linear", "root"]), KINDS_OF_HOOK, INTS), max_size=2)


def some(kind, /, **of):
    """Return a strategy for instances of `kind`, most of whose arguments keep their defaults."""
    return st.fixed_dictionaries({}, optional=of).map(lambda given: kind(**given))


cells = some(Cell, **CELLS)
square = some(Cell, **{name: values for name, values in CELLS.items() if name != "width"})
applied = st.builds(Applied, FUNCTIONS, WORDS, INTS)
FAMILIES = {
    "module": st.tuples(cells),
    "module with hooks": st.tuples(st.builds(hooked, some(Cell, gain=INTS), HOOKS)),
    "module with a graph break": st.tuples(some(Broken, gain=INTS, unread=INTS)),
    "nested module": st.tuples(st.builds(Cell, inner=cells)),
    "one layer twice": st.tuples(st.builds(Tied, INTS, INNERS)),
    "buffer": st.tuples(st.builds(Buffered, pick([1, 3]), pick([torch.float32, torch.float64]), INTS)),
    "container": st.tuples(st.lists(INNERS | square, min_size=1, max_size=3).map(lambda parts: nn.Sequential(*parts))),
    "method": st.tuples(cells.map(lambda cell: cell.encode)),
    "closure over an int": st.tuples(INTS.map(over)),
    "closure over a float": st.tuples(st.floats(0, 1).map(over)),
    "closure over a function": st.tuples(pick([minus, scaled]).map(after) | INTS.map(over).map(after)),
    "closure over a module": st.tuples(cells.map(after)),
    "closure over a list": st.tuples(st.lists(INTS, max_size=3).map(listed)),
    "decorated function": st.tuples(pick([written(2), written(3), minus, scaled]).map(traced)),
    "partial": st.tuples(st.builds(functools.partial, st.just(scaled), by=INTS | st.floats(0, 1))),
    "partial of a module": st.tuples(st.builds(functools.partial, st.just(run_module), cells)),
    "callable object": st.tuples(applied),
    "method of an object": st.tuples(applied.map(lambda each: each.act)),
    "module that is passed": st.tuples(st.just(run_module), cells),
    "two modules that are passed": st.tuples(st.just(run_both), some(Cell, gain=INTS), some(Cell, kind=pick("ab"))),
    "function that is passed": st.tuples(st.just(run_module), pick([minus, scaled]) | INTS.map(over)),
    "settings that are passed": st.tuples(
        st.just(run_with), st.builds(Settings, word=WORDS, kind=pick("ab"), unread=INTS)
    ),
}
