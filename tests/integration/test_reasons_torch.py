"""Each kind of guard is broken on purpose, and the words for it are compared: torch's texts are no stable interface."""

from __future__ import annotations

import collections
import contextlib
import functools
import itertools
import sys
import types
from typing import TYPE_CHECKING, Any

import pytest
import torch
from torch import nn
from torch._dynamo.testing import CompileCounter
from torch.overrides import BaseTorchFunctionMode

from ipy_dynwrap.dynamo import Compiler, Frame, Outcome
from ipy_dynwrap.options import Options
from ipy_dynwrap.reasons import Naming, describe, reader
from ipy_dynwrap.wrappers import generate, parameters

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

# Dynamo looks at .grad of what a graph break hands over, which warns.
pytestmark = pytest.mark.filterwarnings("ignore:The .grad attribute of a Tensor that is not a leaf")


class Recorder:
    """Puts into words why a call compiled, as the engine does."""

    def __init__(self) -> None:
        self.said: list[str] = []
        self.naming = Naming.plain()
        self.code: types.CodeType | None = None

    def started(self, frame: Frame, compile_id: str, raw_reasons: Callable[[], list[str]]) -> None:
        naming = self.naming if frame.code is self.code else Naming.plain()
        state = {"grad_mode": torch.is_grad_enabled()}
        read = reader(frame.f_locals, frame.f_globals, state)
        self.said += [describe(raw, naming, read) for raw in raw_reasons()[:1]]

    def watching(self) -> contextlib.AbstractContextManager[object]:
        return contextlib.nullcontext()

    def tells_the_user(self) -> bool:
        return False

    def finished(self, outcome: Outcome, error: BaseException | None) -> bool:
        return False


class Why:
    """Calls a wrapper, and returns why the call compiled: in words, or None if it did not."""

    def __init__(self, kind: str, example: Any, **options: Any) -> None:
        self._recorder = Recorder()
        self._kind = kind
        own = isinstance(example, types.FunctionType)
        function = generate("example#1", "example", parameters(example.__code__) if own else None)
        self._recorder.code = function.__code__
        self._call = Compiler(Options.of(backend="eager", **options), self._recorder)(function)

    def __call__(self, target: Any, *args: Any, **kwargs: Any) -> str | None:
        self._recorder.naming = Naming.of(self._kind, target)
        self._recorder.said.clear()
        self._call(target, *args, **kwargs)
        return "; ".join(self._recorder.said) or None


@pytest.fixture(autouse=True)
def _fresh() -> Iterator[None]:
    torch._dynamo.reset()
    with torch._dynamo.config.patch(skip_nnmodule_hook_guards=False):
        yield
    torch._dynamo.reset()


def ones(*shape: int, **kwargs: Any) -> torch.Tensor:
    return torch.ones(*shape or (4, 4), **kwargs)


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.l = nn.Linear(4, 4)
        self.drop = nn.Dropout()
        self.seq = nn.Sequential(nn.Linear(4, 4), nn.ReLU())
        self.register_buffer("shift", torch.ones(4))
        self.k: Any = 2
        self.rate = 0.5
        self.config = {"a": 1}
        self.sizes = [1, 2]
        self.act = torch.relu

    def forward(self, x: torch.Tensor, y: Any = None, *more: torch.Tensor, scale: Any = 1) -> torch.Tensor:
        x = self.seq(self.drop(self.l(x))) + self.shift + len(self.sizes) * self.config["a"]
        x = x + len(self.k) if isinstance(self.k, str) else x * self.k
        x = self.act(x) * self.rate
        return (x if y is None else x + y) * scale + len(more)


class Renamed(Net): ...


def halve(x: torch.Tensor) -> torch.Tensor:
    return x / 2


def _hook(module: nn.Module, args: Any, output: torch.Tensor) -> torch.Tensor:
    return output + 1


CHANGES: dict[str, tuple[Callable[[Net], object], str]] = {
    "int": (lambda net: setattr(net, "k", 3), "self.k 2 -> 3"),
    "str": (lambda net: setattr(net, "k", "ab"), "self.k 2 -> 'ab'"),
    "float": (lambda net: setattr(net, "rate", 0.25), "self.rate 0.5 -> 0.25"),
    "item": (lambda net: net.config.update(a=2), "self.config['a'] 1 -> 2"),
    "length": (lambda net: net.sizes.append(3), "len(self.sizes) 2 -> 3"),
    "builtin": (lambda net: setattr(net, "act", torch.sin), "self.act is another built-in function, now sin"),
    "function": (lambda net: setattr(net, "act", halve), "self.act: built-in function -> function"),
    "became module": (lambda net: (delattr(net, "act"), setattr(net, "act", nn.ReLU())), "self.act is now a ReLU"),
    "training": (lambda net: net.drop.eval(), "self.drop.training True -> False"),
    "hook": (lambda net: net.l.register_forward_hook(_hook), "hook added to self.l"),
    "pre-hook": (lambda net: net.register_forward_pre_hook(lambda *args: None), "pre-hook added to self"),
    "backward hook": (
        lambda net: net.l.register_full_backward_hook(lambda *args: None),
        "backward hook added to self.l",
    ),
    "child's type": (lambda net: net.seq.__setitem__(1, nn.GELU()), "self.seq[1]: ReLU -> GELU"),
    "children": (lambda net: net.seq.append(nn.ReLU()), "number of modules in self.seq 2 -> 3"),
    "no bias": (lambda net: setattr(net.l, "bias", None), "self.l.bias: Parameter -> None"),
    "buffer's size": (lambda net: setattr(net, "shift", ones(1)), "self.shift.shape[0] 4 -> 1"),
    "buffer's dtype": (lambda net: setattr(net, "shift", ones(4).double()), "self.shift.dtype float32 -> float64"),
    "frozen": (lambda net: net.l.weight.requires_grad_(False), "self.l.weight.requires_grad True -> False"),
    "forward": (lambda net: setattr(net.l, "forward", halve), "self.l.forward was set on the object"),
}


@pytest.mark.parametrize("name", CHANGES)
def test_change_of_a_module(name: str) -> None:
    change, words = CHANGES[name]
    why, net = Why("module", Net()), Net()
    assert why(net, ones()) is None
    change(net)
    assert why(net, ones()) == words


def test_hook_is_removed_and_replaced() -> None:
    why, net = Why("module", Net()), Net()
    handle = net.l.register_forward_hook(_hook)
    why(net, ones())
    handle.remove()
    net.l.register_forward_hook(lambda module, args, output: output + 2)
    assert why(net, ones()) == "hook of self.l was replaced"
    net.l._forward_hooks.clear()
    assert why(net, ones()) == "hook removed from self.l"


CALLS: dict[str, tuple[Callable[[], tuple[Any, ...]], str]] = {
    "size": (lambda: (ones(5, 4),), "x.shape[0] 4 -> 5"),
    "size one": (lambda: (ones(1, 4),), "x.shape[0] 4 -> 1"),
    "rank": (lambda: (ones(4),), "x.ndim 2 -> 1"),
    "stride": (lambda: (ones(4, 8)[:, ::2],), "x.stride(0) 4 -> 8"),
    "requires_grad": (lambda: (ones(requires_grad=True),), "x.requires_grad False -> True"),
    "parameter": (lambda: (nn.Parameter(ones()),), "x: Tensor -> Parameter"),
    "count": (lambda: (ones(), 1), "number of arguments 1 -> 2"),
}


@pytest.mark.parametrize("name", CALLS)
def test_change_of_a_modules_arguments(name: str) -> None:
    make, words = CALLS[name]
    why, net = Why("module", Net()), Net()
    assert why(net, ones()) is None
    assert why(net, *make()) == words


def test_keywords_of_a_module() -> None:
    why, net = Why("module", Net()), Net()
    why(net, ones())
    assert why(net, ones(), y=ones()) == "keyword arguments none -> y"
    assert why(net, ones(), scale=2) == "keyword y is no longer passed"
    assert why(net, ones(), scale=2, y=1) == "keyword arguments changed, now scale, y"


def test_other_modules_of_one_wrapper() -> None:
    why = Why("module", Net())
    why(Net(), ones())
    assert why(Renamed(), ones()) == "self: Net -> Renamed"


def test_device_layout_and_conjugation() -> None:
    def double(x: torch.Tensor) -> torch.Tensor:
        return x * 2

    why = Why("function", double)
    why(double, ones())
    assert why(double, ones(device="meta")) == "x.device cpu -> meta"
    torch._dynamo.reset()
    why(double, ones())
    assert why(double, ones().to_sparse()) == "x.layout strided -> sparse_coo"
    torch._dynamo.reset()
    why(double, ones(dtype=torch.complex64))
    assert why(double, ones(dtype=torch.complex64).conj()) == "x is now conjugated"
    torch._dynamo.reset()
    with torch.inference_mode():
        inference = ones()
    why(double, ones())
    assert why(double, inference) == "x is now without autograd (inference mode)"


STATES: dict[str, tuple[Callable[[], contextlib.AbstractContextManager[object]], str]] = {
    "no_grad": (torch.no_grad, "grad mode on -> off"),
    "inference": (torch.inference_mode, "grad mode on -> off"),
    "autocast": (lambda: torch.autocast("cpu", torch.bfloat16), "autocast(cpu) changed"),
    "function mode": (BaseTorchFunctionMode, "torch function modes or the default device changed"),
    "default device": (lambda: torch.device("cpu"), "torch function modes or the default device changed"),
    "torch function": (torch._C.DisableTorchFunctionSubclass, "__torch_function__ changed"),
}


@pytest.mark.parametrize("name", STATES)
def test_change_of_global_state(name: str) -> None:
    enter, words = STATES[name]
    why, net = Why("module", Net()), Net()
    why(net, ones())
    with enter():
        said = why(net, ones())
    assert said is not None
    assert words in said.split(", ")


@pytest.mark.parametrize(
    ("set_to", "value", "before", "words"),
    [
        (
            torch.use_deterministic_algorithms,
            True,
            torch.are_deterministic_algorithms_enabled,
            "deterministic algorithms changed",
        ),
        (torch.set_default_dtype, torch.float64, torch.get_default_dtype, "default dtype changed"),
        (
            torch.set_float32_matmul_precision,
            "high",
            torch.get_float32_matmul_precision,
            "float32 matmul precision changed",
        ),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_change_of_a_setting(set_to: Callable[[Any], None], value: Any, before: Callable[[], Any], words: str) -> None:
    why, old, x = Why("function", halve), before(), ones()
    why(halve, x)
    set_to(value)
    try:
        assert why(halve, x) == words
    finally:
        set_to(old)


def test_number_of_threads() -> None:
    why, net, old = Why("module", Net()), Net(), torch.get_num_threads()
    why(net, ones())
    torch.set_num_threads(old + 1)
    try:
        assert why(net, ones()) == "number of threads changed"
    finally:
        torch.set_num_threads(old)


def test_transform_around_a_call() -> None:
    why = Why("function", halve)
    why(halve, ones())
    said: list[str | None] = []

    def routed(x: torch.Tensor) -> torch.Tensor:
        said.append(why(halve, x))
        return x

    torch.func.vmap(routed)(ones())
    assert said == ["x is now inside a torch.func transform"]


def test_parameters_of_a_function() -> None:
    def scaled(x: Any, scale: Any = 2, *rest: Any, flag: Any, **options: Any) -> Any:
        x = x + 1 if flag else x
        x = x + len(scale) if isinstance(scale, str) else x * scale
        return sum([*rest, *options.values()], x)

    why, x = Why("function", scaled), ones()
    why(scaled, x, 2, flag=True)
    assert why(scaled, x, 2, flag=False) == "flag True -> False"
    assert why(scaled, x, 2.5, flag=False) == "scale 2 -> 2.5"
    assert why(scaled, x, 2.5, x + 1, flag=False) == "number of *rest 0 -> 1"
    assert why(scaled, x, "a", x + 1, flag=False) == "scale: float -> str"
    torch._dynamo.reset()
    why(scaled, x, "a", flag=None)
    assert why(scaled, x, "b", flag=None) == "scale 'a' -> 'b'"
    assert why(scaled, x, "b", flag=1) == "flag None -> 1"
    assert why(scaled, x, "b", flag=1, o=3) == "keyword arguments none -> o"
    assert why(scaled, x, "b", flag=1, p=3) == "keyword o is no longer passed"


def test_number_becomes_dynamic_and_nan() -> None:
    def times(x: Any, n: Any) -> Any:
        return x + n if n > 3 else x * n

    why, x = Why("function", times), ones()
    why(times, x, 1)
    assert why(times, x, 5) == "n 1 -> 5"
    assert why(times, x, 6) is None
    assert why(times, x, 2) == "n is 2, compiled for 4 <= n"


def test_float_becomes_dynamic_and_nan() -> None:
    def times(x: Any, n: Any) -> Any:
        return x * n

    why, x = Why("function", times), ones()
    why(times, x, 1.5)
    assert why(times, x, 2.5) == "n 1.5 -> 2.5"
    assert why(times, x, 2.75) is None
    assert why(times, x, float("nan")) == "n became nan"
    assert why(times, x, 7) == "n nan -> 7"


@pytest.mark.parametrize(
    ("first", "second", "words"),
    [
        ([1], [2], "value[0] 1 -> 2"),
        ([1], [1, 2], "len(value) 1 -> 2"),
        ([1], (1,), "value: list -> tuple"),
        ({"a": 1}, {"b": 1}, "keys of value changed"),
        ({"a": 1}, {"a": 1, "b": 2}, "len(value) 1 -> 2"),
        ({"a": 1}, collections.OrderedDict(a=1), "type of value changed, now OrderedDict"),
        ({1, 2}, {1}, "2 is no longer in value"),
        (torch.float32, torch.float64, "value float32 -> float64"),
        (int, float, "value: int -> float"),
        (1 + 2j, 2 + 2j, "value (1+2j) -> (2+2j)"),
        (b"a", b"b", "value b'a' -> b'b'"),
        (None, torch.ones(2, 3), "value None -> Tensor[2, 3]"),
        (torch.ones(2, 3), None, "value: Tensor -> None"),
        (slice(1, 2), slice(1, 3), "value.stop 2 -> 3"),
        (itertools.count(1), itertools.count(2), "iterator value stands elsewhere"),
        (nn.ReLU(), nn.GELU(), "value: ReLU -> GELU"),
    ],
    ids=lambda value: type(value).__name__,
)
def test_values_that_a_function_is_given(first: Any, second: Any, words: str) -> None:
    def use(value: Any) -> Any:
        x = ones()
        if isinstance(value, torch.Tensor):
            return value + 1
        if isinstance(value, nn.Module):
            return value(x)
        if isinstance(value, dict):
            return x + sum(value.values())
        if isinstance(value, list | tuple):
            return x + sum(value)
        if isinstance(value, set):
            return x + (2 in value)
        if isinstance(value, slice):
            return x[value]
        if isinstance(value, torch.dtype):
            return x.to(value)
        if isinstance(value, itertools.count):
            return x + next(value)
        return x + (value is int) + (value == b"a") if isinstance(value, type | bytes) else x * (value or 1)

    why = Why("function", use)
    why(use, first)
    assert why(use, second) == words


def test_aliasing_in_both_directions() -> None:
    def two(a: Any, b: Any) -> Any:
        return a + b

    why, x = Why("function", two), ones()
    why(two, x, x + 1)
    assert why(two, x, x) == "a and b are the same tensor"
    torch._dynamo.reset()
    why(two, x, x)
    assert why(two, x, x + 1) == "a and b are no longer the same object"


def test_dynamic_sizes() -> None:
    def parity(x: Any) -> Any:
        return x if x.shape[0] > 10 else x * 2 if x.shape[0] % 2 else x * 3

    why = Why("function", parity, dynamic=True)
    why(parity, ones(4, 4))
    assert (
        why(parity, ones(6, 4))
        == "x.shape[1] is 4, x.shape[0] is 6, compiled for x.shape[1] == x.shape[0] (equal in an earlier call)"
    )
    assert why(parity, ones(7, 4)) == "x.shape[0] is 7, compiled for x.shape[0] % 2 == 0"
    torch._dynamo.reset()
    x = ones(5, 4)
    why = Why("function", halve)
    why(halve, x)
    torch._dynamo.mark_dynamic(x, 0)
    assert why(halve, x) == "a tensor was marked with mark_dynamic or the like"


def test_closures_partials_and_globals(monkeypatch: pytest.MonkeyPatch) -> None:
    def factory(k: Any, f: Any = None) -> Any:
        def inner(x: Any) -> Any:
            return (f(x) if f else x) * k

        return inner

    x, first = ones(), factory(2)
    why = Why("function", first)
    why(first, x)
    assert why(factory(3), x) == "k 2 -> 3"
    assert why(factory(3, torch.sin), x) == "f None -> sin"
    assert why(factory(3, torch.cos), x) == "f is another built-in function, now cos"

    def times(x: Any, k: Any = 1) -> Any:
        return x * k

    partial = Why("callable", functools.partial(times, k=2))
    partial(functools.partial(times, k=2), x)
    assert partial(functools.partial(times, k=3), x) == "k 2 -> 3"

    module = types.ModuleType("notebook")
    exec("GK = 2\ndef helper(x): return x + 1\ndef use(x): return helper(x) * GK", module.__dict__)
    monkeypatch.setitem(sys.modules, "notebook", module)
    globals_ = Why("function", module.use)
    globals_(module.use, x)
    module.GK = 3  # type: ignore[attr-defined]
    said = globals_(module.use, x)
    assert said is not None
    assert said.endswith("GK 2 -> 3")
    exec("def helper(x): return x + 2", module.__dict__)
    said = globals_(module.use, x)
    assert said is not None
    assert said.endswith("helper was defined again")


def test_defaults_and_redefined_target() -> None:
    namespace: dict[str, Any] = {}
    exec("def f(x, k=2): return x * k", namespace)
    first = namespace["f"]
    why = Why("callable", first.__call__)
    why(first, ones())
    first.__defaults__ = (3,)
    assert why(first, ones()) in ("default of k 2 -> 3", "default of parameter 0 of self 2 -> 3")
    exec("def f(x, k=2): return x * k + 1", namespace)
    assert why(namespace["f"], ones()) == "self was defined again"


class Scale:
    def __init__(self, k: Any) -> None:
        self.k = k

    def __call__(self, x: Any) -> Any:
        return x * self.k

    def apply(self, x: Any) -> Any:
        return x * self.k


def test_callables_and_methods() -> None:
    why = Why("callable", Scale(1))
    why(Scale(1), ones())
    assert why(Scale(2), ones()) == "self.k 1 -> 2"
    why = Why("method", Scale(1).apply)
    why(Scale(1).apply, ones())
    assert why(Scale(2).apply, ones(4, 4)) == "self.k 1 -> 2"


class Broken(nn.Module):
    def __init__(self, k: int) -> None:
        super().__init__()
        self.l = nn.Linear(4, 4)
        self.k = k

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.l(x)
        torch._dynamo.graph_break()
        return x * self.k


def test_frame_after_a_graph_break_has_the_users_names() -> None:
    why = Why("module", Broken(1))
    why(Broken(1), ones())
    assert why(Broken(2), ones()) == "self.k 1 -> 2"


def test_backend() -> None:
    function = generate("example#1", "example")
    said = Recorder()
    for _ in range(2):
        Compiler(Options.of(backend=CompileCounter()), said)(function)(halve, ones())
    assert said.said == ["backend object differs"]
