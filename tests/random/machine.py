"""Twin notebooks: the same cells run in both, the calls are compiled in one of them, and everything is compared.

A step is a cell (text that changes something) or a `Call`. Both are plain text, so a failing program reads as the
notebook that it is, and is kept as a test in tests/integration/test_mismatches.py.
"""

from __future__ import annotations

import builtins
import contextlib
import functools
import gc
import itertools
import linecache
import random
import re
import sys
import types
import warnings
from dataclasses import dataclass
from pathlib import Path

import torch
import torch._dynamo
from comparison import copied, difference, gradient, scalar, state
from torch import nn
from torch.nn.modules import module as nn_module

import ipy_dynwrap

FIRST_CELL = Path(__file__).with_name("first_cell.py").read_text()


def plain_compile(target=None, **_):
    return (lambda target: target) if target is None else target


class Notebook:
    """A namespace in which cells run; it is a module that can be imported, as Dynamo needs it."""

    def __init__(self, name, how_to_compile):
        self.module = types.ModuleType(name)
        self.names = self.module.__dict__
        self.names["compiled"] = functools.partial(how_to_compile, backend="eager")
        self.hooks_of_all = [dict(hooks) for hooks in global_hooks()]
        self.cells = 0
        # Of the last step:
        self.modes = {}
        self.gradients = []
        sys.modules[name] = self.module
        torch.manual_seed(0)
        random.seed(0)
        self.run(FIRST_CELL)

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
        Of the input ``x``; ``y`` is another one like it. `grad` is ``"input"`` (x requires grad), ``"plain"``, or a
        key of `MODES`, in which the call is made.
    layout
        Of an input of two dimensions: ``"contiguous"``, ``"transposed"``, ``"sliced"`` (every other column) or
        ``"expanded"`` (equal rows).
    backend, dynamic
        Options to compile with.
    """

    target: str
    args: str = "x"
    way: str = "region"
    shape: tuple[int, ...] = (2, 4)
    dtype: torch.dtype = torch.float32
    grad: str = "plain"
    backend: str = "eager"
    layout: str = "contiguous"
    dynamic: bool | None = None

    @property
    def options(self) -> dict[str, object]:
        return {"backend": self.backend, "dynamic": self.dynamic}

    @property
    def coarse(self) -> float:
        """How much gradients may differ, as a part of the largest number in one.

        Autocast keeps a cast of a weight for all its uses, so eager sums up the gradients of these in bfloat16. A graph
        of AOTAutograd casts the weight for each use, also under plain `torch.compile`, and sums them up in float32.
        """
        casts = self.grad in ("autocast", "half") or self.target == "within"
        return 4 * torch.finfo(torch.bfloat16).eps if casts and self.backend != "eager" else 0.0


def laid_out(layout: str, shape: tuple[int, ...], generator: torch.Generator) -> torch.Tensor:
    """Return random numbers of a shape, with strides that are of a kind."""
    if len(shape) != 2:
        return torch.rand(shape, generator=generator).sub(0.25)
    rows, columns = shape
    if layout == "transposed":
        return torch.rand(columns, rows, generator=generator).sub(0.25).t()
    if layout == "sliced":
        return torch.rand(rows, columns * 2, generator=generator).sub(0.25)[:, ::2]
    if layout == "expanded":
        return torch.rand(1, columns, generator=generator).sub(0.25).expand(rows, columns)
    return torch.rand(shape, generator=generator).sub(0.25)


@contextlib.contextmanager
def float64_by_default():
    torch.set_default_dtype(torch.float64)
    try:
        yield
    finally:
        torch.set_default_dtype(torch.float32)


MODES = {
    "no_grad": torch.no_grad,
    "inference": torch.inference_mode,
    "autocast": lambda: torch.autocast("cpu", torch.bfloat16),
    "half": lambda: torch.autocast("cpu", torch.float16),
    "default float64": float64_by_default,
}


_numbers = itertools.count(1)


class Twins:
    """A notebook that compiles and one that does not.

    Parameters
    ----------
    torch_alone
        Whether `torch.compile` takes the place of the project, to tell whose mistake it is.
    """

    taken = 0  # steps, by all of them

    def __init__(self, *, torch_alone: bool = False):
        self.torch_alone = torch_alone
        ipy_dynwrap.reset()
        torch._dynamo.reset()
        self.steps = []
        self._begin()

    def _begin(self):
        number = next(_numbers)
        compile_by = torch.compile if self.torch_alone else ipy_dynwrap.compile
        self.eager = Notebook(f"notebook_eager_{number}", plain_compile)
        self.compiled = Notebook(f"notebook_compiled_{number}", compile_by)

    def _end(self):
        self.eager.forget()
        self.compiled.forget()

    def close(self):
        self._end()
        ipy_dynwrap.reset()
        torch._dynamo.reset()
        gc.collect()

    def __call__(self, *steps):
        """Take steps: cells, and calls, after each of which the notebooks must agree."""
        for step in steps:
            self.steps.append(step)
            Twins.taken += 1
            both = (self.eager, self.compiled)
            outcomes = [self._outcome(notebook, step) for notebook in both]
            coarse = step.coarse if isinstance(step, Call) else 0.0
            found = (
                difference(*outcomes, "outcome")
                or difference(*(notebook.gradients for notebook in both), "gradients", coarse)
                or difference(*(notebook.modes for notebook in both), "modes")
            )
            if found is None:
                found = difference(*(state(notebook.names) for notebook in both), "state")
                if found is not None and isinstance(outcomes[0], RuntimeError):
                    # Torch writes down what a function changes after its graph has run. Where the graph raises, that is
                    # lost, and from there on the notebooks differ. What is compiled stays.
                    self._end()
                    self._begin()
                    found = None
            if found is not None:
                raise AssertionError(f"{found}\n{self.script()}")

    def script(self) -> str:
        return "check(\n" + "".join(f"    {step!r},\n" for step in self.steps) + ")"

    def _outcome(self, notebook: Notebook, step: str | Call) -> object:
        notebook.gradients = []
        try:
            with warnings.catch_warnings():
                # Where warnings are errors, Dynamo fails on its own, such as that about `.grad` of what is no leaf.
                warnings.simplefilter("ignore")
                return self._take(notebook, step)
        except Exception as error:  # noqa: BLE001 - an error is an outcome, to be compared
            return error
        finally:
            notebook.modes = {"grad": torch.is_grad_enabled(), "autocast": torch.is_autocast_enabled("cpu")}
            torch.set_grad_enabled(True)
            torch.set_autocast_enabled("cpu", False)

    def _take(self, notebook: Notebook, step: str | Call) -> object:
        torch.manual_seed(len(self.steps))
        random.seed(len(self.steps))
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
            names[name] = laid_out(call.layout, call.shape, generator).to(call.dtype)
            names[name].requires_grad_(call.grad == "input" and call.dtype.is_floating_point)
        target, options = call.target, f"**{call.options!r}"
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
                region = ipy_dynwrap.region(include=[notebook.module.__name__, "makers"], **call.options)
        cell = f"({target})({call.args})"
        hook_guards = torch._dynamo.config.patch(skip_nnmodule_hook_guards=not self.torch_alone)
        with hook_guards, MODES.get(call.grad, contextlib.nullcontext)():
            try:
                with region:
                    out = notebook.run(cell)
                    loss = scalar(out)
                    if loss is not None and loss.requires_grad:
                        with notebook.its_global_hooks():
                            loss.backward()
            except torch._dynamo.exc.TorchDynamoException as error:
                # Torch says early that a call is wrong: nothing of it has run. Eager would have run a part.
                with contextlib.suppress(Exception):
                    notebook.run(f"({call.target})({call.args})")
                raise _said(error) from error
        parameters = [parameter for module in _modules(names) for parameter in module.parameters()]
        gradients = [gradient(each) for each in [names["x"], names["y"], *parameters]]
        notebook.gradients = copied(gradients)
        for module in _modules(names):
            module.zero_grad()
        inputs = [names["x"], names["y"]]
        draws = torch.rand(()).item(), random.random()  # noqa: S311 - no secret
        same_objects = [out is each for each in inputs]
        return copied(out), copied(inputs), same_objects, draws, list(names["log"])


def _said(error: Exception) -> Exception:
    """Return the error that eager would have raised, if Dynamo wraps one."""
    if isinstance(error, torch._dynamo.exc.TorchRuntimeError):
        said = re.search(r": got (\w+)\(", str(error))
        return getattr(builtins, said[1] if said else "", RuntimeError)(str(error))
    if isinstance(error, torch._dynamo.exc.InternalTorchDynamoError) and "RecursionError" in str(error):
        return RecursionError(str(error))  # Dynamo runs out of stack where it follows what calls itself
    if isinstance(error, torch._dynamo.exc.BackendCompilerFailed):
        return error.inner_exception
    return error


def _modules(names: dict) -> list[nn.Module]:
    return [value for value in names.values() if isinstance(value, nn.Module)]
