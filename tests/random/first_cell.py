"""The first cell of a random notebook: what there is to change and to call.

Each notebook runs the text of this file in a namespace of its own.
"""

import contextlib
import copy  # noqa: F401 - for later cells
import dataclasses
import enum
import functools
import random
import types  # noqa: F401 - for later cells
import typing

import torch
import torch.nn.functional as F  # noqa: N812 - as everyone calls it
from makers import after, traced
from torch import nn
from torch.nn.modules import module as nn_module  # noqa: F401 - for later cells
from torch.nn.utils import parametrize, prune  # noqa: F401 - for later cells

log, kept, handles, again = [], {}, {}, {}
SCALE, SHIFT, TABLE, WORDS, COUNT = 2, torch.full((4,), 0.5), {"gain": 1.5, "mode": "plain"}, ["up", "down"], 0


class Mode(enum.Enum):
    PLAIN = 1
    DOUBLE = 2


class Refused(Exception):  # noqa: N818 - a user's name
    pass


class Config:
    gain = 2.0

    def __init__(self, **settings):
        self.__dict__.update(settings)

    def scale(self, x):
        return x * self.gain


@dataclasses.dataclass
class Plan:
    gain: float = 2.0
    names: list = dataclasses.field(default_factory=lambda: ["a", "bb"])
    inner: object = None

    def act(self, x):
        for name in self.names:
            x = x + len(name)
        return x * self.gain


@dataclasses.dataclass(frozen=True)
class Fixed:
    gain: float = 2.0
    mode: Mode = Mode.PLAIN


class Pair(typing.NamedTuple):
    left: torch.Tensor
    right: torch.Tensor


class Slotted:
    __slots__ = ("by", "function")

    def __init__(self, by, function=None):
        self.by, self.function = by, function

    def __call__(self, x):
        return x * self.by if self.function is None else self.function(x) * self.by

    def __len__(self):
        return int(self.by)


def helper(x, gain=1.5, *, bias=0.25):
    return x * gain + bias + SCALE


def over(value):
    def shift(x):
        return x * value + 1

    def rebind(other):
        nonlocal value
        value = other

    shift.rebind = rebind
    return shift


class Base(nn.Module):
    factor = 1.5
    unread = 0

    def mix(self, x):
        return x * self.factor

    @staticmethod
    def squash(x):
        return x.tanh()

    @property
    def shift(self):
        return 0.125


class Leaf(Base):
    def __init__(self, k=1):
        super().__init__()
        self.linear = nn.Linear(4, 4)
        self.k, self.table, self.steps, self.act = k, {"bias": 0.5}, [1.0, 2.0], F.relu
        self.register_buffer("offset", torch.full((4,), 0.25))

    def forward(self, x, *, twice=False):
        x = self.mix(self.linear(x)) * self.k
        if self.offset is not None:
            x = x + self.offset
        for step in self.steps:
            x = x + step
        x = self.act(x + self.table["bias"]) + self.shift
        return self.squash(x) * 2 if twice or not self.training else x


class Counting(Leaf):
    calls = 0

    def forward(self, x):
        self.calls += 1
        log.append("counted")
        return super().forward(x)


class Broken(Leaf):
    def forward(self, x):
        x = self.linear(x)
        torch._dynamo.graph_break()
        return self.mix(x) * self.k


class Choosy(Leaf):
    def forward(self, x):
        return x * self.k if x.sum() > 0 else self.linear(x)


class Refusing(Leaf):
    def forward(self, x):
        x = self.linear(x)
        if self.k > 1:
            raise Refused(self.k)
        return x


class Normed(Base):
    def __init__(self):
        super().__init__()
        self.norm, self.drop = nn.BatchNorm1d(4), nn.Dropout(0.75)

    def forward(self, x):
        return self.norm(x) + self.drop(x)


class Moving(Base):
    """Changes its own buffers and attributes as it is called."""

    def __init__(self):
        super().__init__()
        self.register_buffer("mean", torch.zeros(4))
        self.register_buffer("count", torch.zeros((), dtype=torch.int64), persistent=False)
        self.seen, self.last = [], None

    def forward(self, x):
        with torch.no_grad():
            self.mean.mul_(0.5).add_(x.sum())
        self.count += 1
        self.last = x.shape[0]
        self.seen = [*self.seen[-2:], self.last]
        return x + self.mean * self.factor


class Noisy(Base):
    p = 0.5

    def forward(self, x):
        return F.dropout(x, self.p, self.training) + torch.rand_like(x)


class Tied(Base):
    """Uses one layer twice and one weight twice, and has tensors that are neither parameters nor buffers."""

    def __init__(self):
        super().__init__()
        self.layer = Leaf(2)
        self.again = self.layer
        self.stack = nn.Sequential(self.layer, nn.Tanh(), self.layer)
        self.encoder, self.decoder = nn.Linear(4, 4, bias=False), nn.Linear(4, 4)
        self.decoder.weight = self.encoder.weight
        self.gains = nn.ParameterList([nn.Parameter(torch.ones(4)), nn.Parameter(torch.full((4,), 2.0))])
        self.plain, self._width = torch.full((4,), 0.75), 1

    @property
    def width(self):
        return self._width

    @width.setter
    def width(self, value):
        self._width = value + 1

    @functools.cached_property
    def computed(self):
        return self.factor * 2

    def forward(self, x):
        x = self.again(self.stack(x)) * self.width + self.computed
        for gain in self.gains:
            x = x * gain
        return self.decoder(self.encoder(x)) + self.plain


class Root(Base):
    def __init__(self):
        super().__init__()
        self.first = Leaf()
        self.blocks = nn.ModuleList([Leaf(2), nn.Identity()])
        self.heads = nn.ModuleDict({"a": nn.Linear(4, 4), "b": nn.Tanh()})
        self.config = Config(head="a", mode=Mode.PLAIN, shift=0.5)

    def forward(self, x, scale=None, *, head=None):
        x = self.first(x)
        for block in self.blocks:
            x = block(x)
        x = self.heads[head or self.config.head](x)
        if scale is not None:
            x = x * scale
        if self.config.mode is Mode.DOUBLE:
            x = x * 2
        return self.mix(x) + self.config.shift

    def encode(self, x):
        return helper(self.first(x)) * TABLE["gain"]

    def between(self, x, *, low=0, high=2):
        return x.clamp(low, high)

    @torch.no_grad()
    def frozen(self, x):
        return self.first(x)

    @classmethod
    def scaled(cls, x):
        return x * cls.factor


class Strategy:
    power = 2

    def __init__(self, function, module=None):
        self.function, self.module = function, module

    def __call__(self, x):
        x = self.function(x) * self.power
        return x if self.module is None else self.module(x)

    def act(self, x, n=1):
        return self.function(x) + n

    halved = functools.partialmethod(act, n=0.5)

    @compiled(backend="eager")  # noqa: F821 - each notebook's own
    def fast(self, x, n=2):
        return self.function(x) * n


class Cubed(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x**3

    @staticmethod
    def backward(ctx, grad):
        return grad * 3 * ctx.saved_tensors[0] ** 2


class Doubled(nn.Module):
    def forward(self, weight):
        return weight * 2


def apply(module, x, **settings):
    return module(x, **settings) * SCALE + SHIFT


def configured(config, x):
    x = config.scale(x)
    return x * 2 if getattr(config, "mode", None) is Mode.DOUBLE else x + config.shift


def planned(plan, x):
    x = x * plan.gain
    if getattr(plan, "inner", None) is not None:
        x = plan.inner(x)
    return x - 1 if getattr(plan, "mode", Mode.DOUBLE) is Mode.PLAIN else x


def total(parts):
    parts = list(parts.values()) if isinstance(parts, dict) else parts
    return sum(part.sum() for part in parts) * len(WORDS)


def ordered(x, **more):
    for name, value in more.items():
        x = x * len(name) + value
    return x


def spread(x, /, k=1, *rest, flag=False):
    x = x * k
    for each in rest:
        x = x + each
    return -x if flag else x


def split(x):
    return Pair(x * 2, x + 1)


def joined(pair):
    return {"sum": pair.left + pair.right, "left": pair.left}


def portions(x, n):
    for i in range(n):
        yield x * i


def gathered(x, n=3):
    return sum(portions(x, n)) + max(len(word) for word in [*WORDS, ""])


def changed(x, into):
    into.append(x.shape[0])
    with torch.no_grad():
        y.add_(1)  # noqa: F821 - each call sets the inputs x and y
    return x * len(into)


@contextlib.contextmanager
def logged(word):
    log.append(f"in {word}")
    yield len(word)
    log.append(f"out {word}")


def cubed(x):
    with logged(TABLE["mode"]) as factor:
        return Cubed.apply(x) * factor


def itself(x):
    return x


def bump(x):
    global COUNT  # noqa: PLW0603 - a user does this
    COUNT += 1
    log.append("bump")
    return x * COUNT


def noise(x):
    return x + torch.rand(x.shape[-1]) + random.random()  # noqa: S311 - no secret


def careful(function, x):
    try:
        return function(x)
    except (Refused, ValueError) as error:
        log.append(str(error))
        return x - 1


def within(x):
    with torch.no_grad():
        first = leaf(x)
    with torch.autocast("cpu", torch.bfloat16):
        return mod(x) + first


@compiled(backend="eager")  # noqa: F821 - each notebook's own
def decorated(x, n=2, *, plus=0.5):
    return helper(x) * n + plus


def switched(x, on):
    with torch.set_grad_enabled(on):
        first = leaf(x)
    return mod(x) * 2 + first


def disabling(x, on=False):
    x = x * SCALE
    torch.set_grad_enabled(on)
    return x + 1


@torch.inference_mode()
def inferred(x):
    return leaf(x) * 2


def uncast(x):
    with torch.autocast("cpu", enabled=False):
        return mod(x) * x


def tapped(x):
    x = x * SCALE
    if x.requires_grad:
        x.register_hook(lambda grad: grad * SCALE)
    return x + 1


def picky(x):
    if TABLE["mode"] == "bad":
        raise ValueError("bad mode")
    log.append(TABLE["mode"])
    return x * TABLE["gain"] if TABLE["mode"] == "plain" else helper(x)


def count(module, args, output=None):
    log.append(f"count {type(module).__name__}")


class Hook:
    def __init__(self, name, value):
        self.name, self.value = name, value

    def __call__(self, module, args, output=None):
        log.append(f"{self.name} {self.value}")
        return None if output is None else output * self.value


shelf = {"h1": count, "h2": Hook("h2", 2), "h3": lambda *args: None}
root, leaf, other, mod, tied = Root(), Leaf(3), Root(), nn.Linear(4, 4), Tied()
shift, run, shim = over(3), after(helper), traced(helper)
part, strategy = functools.partial(helper, gain=3.0), Strategy(torch.sin)
config, plan, fixed, slotted = Config(gain=1.5, shift=0.5), Plan(), Fixed(), Slotted(2)
