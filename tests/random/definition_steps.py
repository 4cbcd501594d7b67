"""Cells that define functions and methods again, or change what they hold."""

from __future__ import annotations

import ast

from hypothesis import strategies as st
from machine import FIRST_CELL
from words import FUNCTIONS, LEAVES, NUMBERS, ROOTS, SMALL, VALUES, pick, text

_BODY = pick(["x * <n>", "x + <n>", "x * gain + <n>", "helper(x) * <n>", "torch.sin(x) - <n>", "x * SCALE + <n>"])
_METHOD = pick(["x * <n>", "x + self.factor + <n>", "self.squash(x) * <n>", "x.sin() + <n>"])
_FORWARD_BODY = pick(["x * <n>", "self.mix(x) + <n>", "self.linear(x) * <n>", "self.first(x) + <n>"])


def _definitions(text):
    """Return the text of each function and class that `text` defines, with its decorators."""
    lines = text.splitlines()
    found = [each for each in ast.parse(text).body if isinstance(each, ast.FunctionDef | ast.ClassDef)]
    first = [min([each, *each.decorator_list], key=lambda part: part.lineno).lineno for each in found]
    return ["\n".join(lines[start - 1 : each.end_lineno]) for start, each in zip(first, found, strict=True)]


# What a user does most: to run a cell again of which nothing changed.
again = pick(_definitions(FIRST_CELL))
functions = st.one_of(
    text("def helper(x, gain=1.<n>, *, bias=0.25):\n    return x * gain + bias", n=SMALL),
    text("def helper(x, gain=1.5, *, bias=0.25):\n    return x * gain + bias + SCALE"),
    text("def helper(x, **more):\n    return x + <n>", n=SMALL),
    text("helper.__code__ = (lambda x, gain=0, *, bias=0: x * gain - <n>).__code__", n=SMALL),
    text("helper.__defaults__ = (<value>,)", value=NUMBERS),
    text("helper.__kwdefaults__ = {'bias': <value>}", value=NUMBERS),
    text("def picky(x):\n    log.append('p<n>')\n    return x * <n>", n=SMALL),
    text("shift.rebind(<value>)", value=NUMBERS),
    text("shift = over(<value>)", value=NUMBERS),
    text("shift.__closure__[0].cell_contents = <value>", value=NUMBERS),
    text("run.__closure__[0].cell_contents = <f>", f=pick(FUNCTIONS)),
    text("shim.__closure__[0].cell_contents = <f>", f=pick(FUNCTIONS)),
    text("del run.__closure__[0].cell_contents"),
    text("run = after(<f>)", f=pick([*FUNCTIONS, "root", "tied", "strategy.act", "torch.cos", "Root.scaled"])),
    text("<name> = compiled(<name>, backend='eager')", name=pick(["run", "shim", "leaf", "mod", "tied.layer"])),
    text("<name> = compiled(<name>)", name=pick(["apply", "strategy.act", "tied.stack", "total", "configured"])),
    text("@compiled\ndef decorated(x, n=<n>):\n    return x * n", n=SMALL),
    text("@compiled(dynamic=<d>)\ndef decorated(x, **more):\n    return x + <n>", d=pick([True, False, None]), n=SMALL),
    text("helper.scale = <value>", value=VALUES),
    text("shim = traced(<f>)", f=pick(["helper", "picky", "over(3)", "lambda x: x * 4", "run"])),
    text(
        "part = functools.partial(<f>)",
        f=pick(
            ["helper", "helper, gain=2.0", "helper, bias=3", "over(2)", "apply, leaf", "configured, config", "shift"]
        ),
    ),
    text(
        "part = functools.partial(<f>, <k>)",
        f=pick(["helper", "spread", "ordered"]),
        k=pick(["gain=2.0", "k=3", "b=1"]),
    ),
    text("part.keywords['gain'] = <value>", value=NUMBERS),
    text("part = functools.partial(part, bias=<value>)", value=NUMBERS),
    text("def spread(x, /, k=<n>, *rest, flag=True):\n    return x * k + len(rest)", n=SMALL),
    text("spread.__kwdefaults__['flag'] = <flag>", flag=st.booleans()),
    text("spread.__defaults__ = <value>", value=pick(["(2,)", "(0.5,)", "(torch.tensor(3.0),)", "None"])),
    text("def portions(x, n):\n    for i in range(n):\n        yield x + i * <n>", n=SMALL),
    text("def split(x):\n    return Pair(x * <n>, x.sum())", n=SMALL),
    text("def noise(x):\n    return x * random.randint(1, <n>) + torch.randn(x.shape[-1])", n=SMALL),
    text("strategy = Strategy(<f>)", f=pick(["helper", "shift", "lambda x: x - 1", "torch.cos"])),
    text("SCALE = <value>", value=NUMBERS),
    text("TABLE['gain'] = <value>", value=NUMBERS),
    text("TABLE['mode'] = <value>", value=pick(["'plain'", "'bad'", "'helped'"])),
    text("WORDS.<change>", change=pick(["append('x')", "pop()", "clear()"])),
)
methods_of_root = st.one_of(
    text(
        "def forward(self, x, scale=None, *, head=None):\n    return " + "self.first(x) * <n>\nRoot.forward = forward",
        n=SMALL,
    ),
    text("def encode(self, x):\n    return self.first(x) + <n>\nRoot.encode = encode", n=SMALL),
    text("def __call__(self, x):\n    return self.function(x) + <n>\nStrategy.__call__ = __call__", n=SMALL),
    text("def act(self, x, n=1):\n    return self.function(x) * n * <n>\nStrategy.act = act", n=SMALL),
    text("Cubed.backward = staticmethod(lambda ctx, grad: grad * <n>)", n=SMALL),
    text("Cubed.forward = staticmethod(lambda ctx, x: ctx.save_for_backward(x) or x * <n>)", n=SMALL),
    text("Root.scaled = classmethod(lambda cls, x: x - <n>)", n=SMALL),
    text("def scale(self, x):\n    return x + <n>\nConfig.scale = scale", n=SMALL),
    text("<leaf>.mix = lambda x: x - <n>", leaf=LEAVES | ROOTS, n=SMALL),
    text("<leaf>.mix = types.MethodType(lambda self, x: x - self.factor * <n>, <leaf>)", leaf=LEAVES, n=SMALL),
    text("<leaf>.forward = lambda x, **more: x * <n>", leaf=LEAVES | ROOTS, n=SMALL),
    text("strategy.act = lambda x, n=1: x * <n>", n=SMALL),
    text("Strategy.act.__defaults__ = (<value>,)", value=NUMBERS),
    text("Strategy.fast = compiled(lambda self, x, n=1: self.function(x) - n * <n>, backend='eager')", n=SMALL),
    text("Root.encode = compiled(Root.encode, backend='eager')"),
    text("Strategy.halved = functools.partialmethod(Strategy.act, n=<value>)", value=NUMBERS),
    text("Root.between.__kwdefaults__['high'] = <n>", n=SMALL),
    text("Root.frozen = lambda self, x: self.first(x) * <n>", n=SMALL),
    text("def act(self, x):\n    return x * self.gain - <n>\nPlan.act = act", n=SMALL),
    text("Slotted.__call__ = lambda self, x: x - self.by * <n>", n=SMALL),
    text("Config.scale.__code__ = (lambda self, x: x * self.gain + <n>).__code__", n=SMALL),
    text("Strategy.__call__.__code__ = (lambda self, x: self.function(x) + <n>).__code__", n=SMALL),
)
methods_of_children = st.one_of(
    text("def forward(self, x, **more):\n    return self.linear(x) * <n>\nLeaf.forward = forward", n=SMALL),
    text(
        "def mix(self, x):\n    return x - self.factor * <n>\n<class>.mix = mix",
        n=SMALL,
        **{"class": pick(["Base", "Leaf", "Root", "Broken"])},
    ),
    text("Choosy.forward = compiled(Choosy.forward, backend='eager')"),
    text("Base.squash = staticmethod(lambda x: x * <n>)", n=SMALL),
    text("Base.shift = property(lambda self: 0.<n>)", n=SMALL),
    text("Base.shift = 0.<n>", n=SMALL),
    text("del Leaf.mix"),
    text("Leaf.forward.__kwdefaults__ = {'twice': <flag>}", flag=st.booleans()),
    text("Base.squash = classmethod(lambda cls, x: x * cls.factor + <n>)", n=SMALL),
    text("<class>.forward = Leaf.forward", **{"class": pick(["Counting", "Choosy", "Refusing"])}),
    text("def forward(self, x):\n    return x + self.count * <n>\nMoving.forward = forward", n=SMALL),
    text("Tied.computed = property(lambda self: <n>)", n=SMALL),
    text("Tied.width = <n>", n=SMALL),
    text("Doubled.forward = lambda self, weight: weight + <n>", n=SMALL),
    text("class Leaf(Leaf):\n    def mix(self, x):\n        return x + <n>\nleaf.__class__ = Leaf", n=SMALL),
    text("Leaf.forward.__code__ = (lambda self, x, *, twice=False: self.linear(x) + <n>).__code__", n=SMALL),
    text("Base.mix.__code__ = (lambda self, x: x + <n>).__code__", n=SMALL),
)
