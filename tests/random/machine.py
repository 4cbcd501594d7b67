"""Twin notebooks: the same cells run in both, the calls are compiled in one of them, and everything is compared.

A step is a cell (text that changes something) or a `Call`. Both are plain text, so a failing program reads as the
notebook that it is, and is kept as a test in tests/integration/test_mismatches.py.
"""

from __future__ import annotations

import contextlib
import enum
import gc
import itertools
import linecache
import sys
import types
from dataclasses import dataclass

import torch
import torch._dynamo
from torch import nn
from torch.nn.modules import module as nn_module

import ipy_dynwrap

SETUP = """
import enum, functools, types
import torch
import torch.nn as nn
import torch.nn.functional as F

log, kept, handles = [], {}, {}
SCALE, SHIFT, TABLE, WORDS = 2, torch.full((4,), 0.5), {"gain": 1.5, "mode": "plain"}, ["up", "down"]


class Mode(enum.Enum):
    PLAIN = 1
    DOUBLE = 2


class Config:
    gain = 2.0

    def __init__(self, **settings):
        self.__dict__.update(settings)

    def scale(self, x):
        return x * self.gain


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


def after(function):
    def run(x):
        return function(x) - 1

    return run


def traced(function):
    @functools.wraps(function)
    def shim(*args, **kwargs):
        return function(*args, **kwargs)

    return shim


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


class Normed(Base):
    def __init__(self):
        super().__init__()
        self.norm, self.drop = nn.BatchNorm1d(4), nn.Dropout(1.0)

    def forward(self, x):
        return self.norm(x) + self.drop(x)


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


def apply(module, x, **settings):
    return module(x, **settings) * SCALE + SHIFT


def configured(config, x):
    x = config.scale(x)
    return x * 2 if getattr(config, "mode", None) is Mode.DOUBLE else x + config.shift


def total(parts):
    parts = list(parts.values()) if isinstance(parts, dict) else parts
    return sum(part.sum() for part in parts) * len(WORDS)


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


root, leaf, other, mod = Root(), Leaf(3), Root(), nn.Linear(4, 4)
shift, run, shim = over(3), after(helper), traced(helper)
part, strategy = functools.partial(helper, gain=3.0), Strategy(torch.sin)
config = Config(gain=1.5, shift=0.5)
"""


def plain_compile(target, **_):
    return target


class Notebook:
    """A namespace in which cells run; it is a module that can be imported, as Dynamo needs it."""

    def __init__(self, name, how_to_compile):
        self.module = types.ModuleType(name)
        self.names = self.module.__dict__
        self.names["compiled"] = how_to_compile
        self.hooks_of_all = [dict(hooks) for hooks in global_hooks()]
        self.cells = 0
        sys.modules[name] = self.module
        torch.manual_seed(0)
        self.run(SETUP)

    def run(self, text: str) -> object:
        """Run a cell; return the value of its last line, if that is an expression."""
        self.cells += 1
        file = f"<{self.module.__name__} {self.cells}>"
        linecache.cache[file] = (len(text), None, text.splitlines(keepends=True), file)
        with self.its_global_hooks():
            try:
                return eval(compile(text, file, "eval"), self.names)  # noqa: S307 - a cell of our own
            except SyntaxError:
                exec(compile(text, file, "exec"), self.names)
        return None

    @contextlib.contextmanager
    def its_global_hooks(self):
        """Put this notebook's hooks for all modules in place: there is one set of them in the process."""
        for now, own in zip(global_hooks(), self.hooks_of_all, strict=True):
            now.clear()
            now.update(own)
        try:
            yield
        finally:
            self.hooks_of_all = [dict(hooks) for hooks in global_hooks()]
            for hooks in global_hooks():
                hooks.clear()

    def forget(self):
        del sys.modules[self.module.__name__]


def global_hooks():
    return (
        nn_module._global_forward_pre_hooks,
        nn_module._global_forward_hooks,
        nn_module._global_forward_hooks_with_kwargs,
        nn_module._global_forward_hooks_always_called,
        nn_module._global_backward_pre_hooks,
        nn_module._global_backward_hooks,
    )


@dataclass(frozen=True)
class Call:
    """A call that is made in both notebooks.

    Parameters
    ----------
    target, args
        Text: ``"root"`` and ``"x, scale=2"``.
    way
        ``"region"``, ``"compile"`` (anew), ``"kept"`` (compiled once, when it was first called so), or ``"torch"``
        (`torch.compile`, to tell whose mistake it is).
    shape, dtype, grad
        Of the input ``x``; ``y`` is another one like it. `grad` is ``"input"`` (x requires grad), ``"plain"``,
        ``"no_grad"``, ``"inference"`` or ``"autocast"``.
    backend
        The backend's name.
    """

    target: str
    args: str = "x"
    way: str = "region"
    shape: tuple[int, ...] = (2, 4)
    dtype: torch.dtype = torch.float32
    grad: str = "plain"
    backend: str = "eager"


MODES = {
    "no_grad": torch.no_grad,
    "inference": torch.inference_mode,
    "autocast": lambda: torch.autocast("cpu", torch.bfloat16),
}


_numbers = itertools.count(1)


class Twins:
    """A notebook that compiles and one that does not.

    Parameters
    ----------
    torch_alone
        Whether `torch.compile` takes the place of the project, to tell whose mistake it is.
    """

    def __init__(self, *, torch_alone: bool = False):
        self.torch_alone = torch_alone
        ipy_dynwrap.reset()
        torch._dynamo.reset()
        self.steps = []
        self.over = False
        number = next(_numbers)
        self.eager = Notebook(f"notebook_eager_{number}", plain_compile)
        self.compiled = Notebook(f"notebook_compiled_{number}", torch.compile if torch_alone else ipy_dynwrap.compile)

    def close(self):
        self.eager.forget()
        self.compiled.forget()
        ipy_dynwrap.reset()
        torch._dynamo.reset()
        gc.collect()

    def __call__(self, *steps):
        """Take steps: cells, and calls, after each of which the notebooks must agree."""
        for step in steps:
            self.steps.append(step)
            both = (self.eager, self.compiled)
            outcomes = [self._outcome(notebook, step) for notebook in both]
            if self.over:
                continue
            difference = _difference(*outcomes, "outcome")
            if difference is None:
                difference = _difference(*map(state, both), "state")
                # Torch writes down what a function changes after its graph has run. Where the graph raises, that is
                # lost, and from there on the notebooks differ.
                self.over = difference is not None and isinstance(outcomes[0], RuntimeError)
                difference = None if self.over else difference
            if difference is not None:
                raise AssertionError(f"{difference}\n{self.script()}")

    def script(self) -> str:
        return "check(\n" + "".join(f"    {step!r},\n" for step in self.steps) + ")"

    def _outcome(self, notebook: Notebook, step: str | Call) -> object:
        try:
            return self._take(notebook, step)
        except Exception as error:  # noqa: BLE001 - an error is an outcome, to be compared
            return error

    def _take(self, notebook: Notebook, step: str | Call) -> object:
        torch.manual_seed(len(self.steps))
        if isinstance(step, Call):
            return self._call(notebook, step)
        notebook.run(step)
        return None

    def _call(self, notebook: Notebook, call: Call) -> object:
        names = notebook.names
        names["log"].clear()
        generator = torch.Generator().manual_seed(1)
        # Other numbers each time would be as good; the same ones keep a program's steps independent of each other.
        for name in "xy":
            names[name] = torch.rand(call.shape, generator=generator, dtype=torch.float32).to(call.dtype) - 0.25
            names[name].requires_grad_(call.grad == "input" and call.dtype.is_floating_point)
        target, options = call.target, f"backend={call.backend!r}"
        region = contextlib.nullcontext()
        if call.way in ("compile", "kept"):
            target = f"compiled({target}, {options})"
        if call.way == "kept":
            if call.target not in names["kept"]:
                names["kept"][call.target] = notebook.run(target)
            target = f"kept[{call.target!r}]"
        if call.way == "region" and notebook is self.compiled:
            if self.torch_alone:
                target = f"compiled({target}, {options})"
            else:
                region = ipy_dynwrap.region(include=[notebook.module.__name__], backend=call.backend)
        cell = f"({target})({call.args})"
        hook_guards = torch._dynamo.config.patch(skip_nnmodule_hook_guards=not self.torch_alone)
        with hook_guards, MODES.get(call.grad, contextlib.nullcontext)():
            try:
                with region:
                    out = notebook.run(cell)
                    loss = _scalar(out)
                    if loss is not None and loss.requires_grad:
                        with notebook.its_global_hooks():
                            loss.backward()
            except torch._dynamo.exc.TorchDynamoException as error:
                # Torch says early that a call is wrong: nothing of it has run. Eager would have run a part.
                with contextlib.suppress(Exception):
                    notebook.run(f"({call.target})({call.args})")
                raise _said(error) from error
        gradients = [names[name].grad for name in "xy"] + [
            parameter.grad for module in _modules(names) for parameter in module.parameters()
        ]
        gradients = [None if each is None else each.clone() for each in gradients]
        for module in _modules(names):
            module.zero_grad()
        return _copied(out), gradients, list(names["log"])


def _said(error: Exception) -> Exception:
    """Return the error that eager would have raised, if Dynamo wraps one."""
    if isinstance(error, torch._dynamo.exc.TorchRuntimeError):
        return RuntimeError(str(error))
    return error


def _scalar(out: object) -> torch.Tensor | None:
    if isinstance(out, torch.Tensor):
        return out.sum() if out.is_floating_point() else None
    if isinstance(out, list | tuple):
        found = [each for each in map(_scalar, out) if each is not None]
        return sum(found) if found else None
    return None


def _copied(value: object) -> object:
    if isinstance(value, torch.Tensor):
        return value.detach().clone()
    if isinstance(value, list | tuple):
        return type(value)(map(_copied, value))
    return value


def _modules(names: dict) -> list[nn.Module]:
    return [value for value in names.values() if isinstance(value, nn.Module)]


PLAIN = (int, float, str, bool, type(None), complex)


def state(notebook: Notebook) -> dict[str, object]:
    """Return all plain values and tensors that can be reached from the names of a notebook, by path."""
    found: dict[str, object] = {}
    seen: dict[int, object] = {}  # kept alive, so that no id passes to another object

    def look(path, value):
        if isinstance(value, PLAIN):
            found[path] = value
            return
        if isinstance(value, enum.Enum) or id(value) in seen:
            return
        seen[id(value)] = value
        if isinstance(value, torch.Tensor):
            found[path] = value.detach().clone()
            found[f"{path}.requires_grad"] = value.requires_grad
            found[f"{path}.grad"] = value.grad
        elif isinstance(value, dict):
            own = [key for key in value if not str(key).startswith(("_torchdynamo", "_is_torch_compile"))]
            # The numbers of hooks are the process's.
            own = {index if isinstance(key, int) else key: value[key] for index, key in enumerate(own)}
            found[f"{path}.keys"] = list(map(str, own))
            for key, each in own.items():
                look(f"{path}[{key!r}]", each)
        elif isinstance(value, list | tuple):
            found[f"{path}.len"] = len(value)
            for index, each in enumerate(value):
                look(f"{path}[{index}]", each)
        elif type(value).__module__.startswith("notebook_") or isinstance(value, nn.Module):
            slots = {
                name: getattr(value, name) for name in getattr(type(value), "__slots__", ()) if hasattr(value, name)
            }
            look(f"{path}.__dict__", getattr(value, "__dict__", {}) | slots)

    own = {name: value for name, value in notebook.names.items() if not name.startswith("__") and name not in "xy"}
    for name, value in own.items():
        if not isinstance(value, type | types.ModuleType) and name not in ("kept", "handles"):
            look(name, value)
        elif isinstance(value, type):
            for attribute, each in vars(value).items():
                if isinstance(each, PLAIN) and attribute not in ("__module__", "__doc__", "__qualname__"):
                    found[f"{name}.{attribute}"] = each
    return found


def _difference(eager: object, compiled: object, where: str) -> str | None:
    """Say where two values differ; None if they do not."""
    said = f"{where}: compiled {compiled!r:.600}, eager {eager!r:.600}"
    if isinstance(eager, Exception) or isinstance(compiled, Exception):
        return None if type(eager) is type(compiled) else said
    if isinstance(eager, torch.Tensor) and isinstance(compiled, torch.Tensor):
        alike = (
            eager.shape == compiled.shape
            and eager.dtype == compiled.dtype
            and torch.allclose(eager, compiled, rtol=1e-4, atol=1e-5, equal_nan=True)
        )
        return None if alike else said
    if isinstance(eager, list | tuple) and isinstance(compiled, list | tuple):
        if len(eager) != len(compiled):
            return said
        pairs = enumerate(zip(eager, compiled, strict=True))
        return next((d for i, (a, b) in pairs if (d := _difference(a, b, f"{where}[{i}]")) is not None), None)
    if isinstance(eager, dict) and isinstance(compiled, dict):
        if eager.keys() != compiled.keys():
            return f"{where}: eager has {eager.keys() - compiled.keys()}, compiled has {compiled.keys() - eager.keys()}"
        return next((d for key in eager if (d := _difference(eager[key], compiled[key], key)) is not None), None)
    if isinstance(eager, PLAIN) or isinstance(compiled, PLAIN):
        same = type(eager) is type(compiled) and (eager == compiled or repr(eager) == repr(compiled) == "nan")
        return None if same else said
    return None if type(eager).__name__ == type(compiled).__name__ else said
