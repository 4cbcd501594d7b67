"""Which calls are alike."""

from __future__ import annotations

import functools

import pytest

torch = pytest.importorskip("torch")

from ipy_dynwrap.keys import kin_of, own_code, qualified_name  # noqa: E402 (torch may be missing)


class Net(torch.nn.Module):
    def forward(self, x):
        return x


class Callable:
    def __call__(self, x):
        return x

    def method(self, x):
        return x

    @classmethod
    def of_the_class(cls, x):
        return x


def function(x):
    return x


def closure(over):
    def inside(x):
        return over, x

    return inside


@pytest.mark.parametrize(
    ("target", "kind", "name", "anchor"),
    [
        (Net(), "module", "Net", Net),
        (torch.nn.ReLU(), "module", "ReLU", torch.nn.ReLU),
        (function, "function", "function", function.__code__),
        (Callable().method, "method", "Callable.method", Callable.method.__code__),
        (Callable.of_the_class, "method", "Callable.of_the_class", Callable.of_the_class.__func__.__code__),
        (Callable(), "callable", "Callable", Callable),
        (torch.sin, "function", "sin", torch.sin),
        (torch.Tensor.add, "function", "add", torch.Tensor.add),
        (functools.partial(function, 1), "callable", "partial(function)", function.__code__),
        (functools.partial(functools.partial(Net())), "callable", "partial(Net)", Net),
    ],
)
def test_kin(target, kind, name, anchor):
    kin = kin_of(target)
    assert (kin.kind, kin.name.rsplit(".", 1)[-1]) == (kind, name.rsplit(".", 1)[-1])
    assert kin.anchor is anchor


def test_equal_targets_are_alike():
    assert kin_of(Net()) == kin_of(Net())
    assert kin_of(closure(1)) == kin_of(closure(2))
    assert kin_of(functools.partial(function, 1)) == kin_of(functools.partial(function, 2))
    assert kin_of(function) != kin_of(functools.partial(function))
    assert kin_of(Callable().method) == kin_of(Callable().method)


def test_own_code():
    assert own_code(Net()) is Net.forward.__code__
    assert own_code(function) is function.__code__
    assert own_code(Callable()) is Callable.__call__.__code__
    assert own_code(torch.sin) is None


def test_qualified_names_are_the_users():
    def inside(): ...

    assert qualified_name(inside) == "inside"
    assert qualified_name(Callable.method) == "Callable.method"
    assert qualified_name(functools.partial(function)) == "partial"


def test_a_torch_function_is_called_by_its_name():
    assert kin_of(torch.sin).name == "torch.sin"
    assert kin_of(torch.Tensor.sin).name == "torch.Tensor.sin"
    assert kin_of(len).name == "len"
