"""The verdicts about code objects, and what a call is a call of."""

from __future__ import annotations

import functools

import pytest

torch = pytest.importorskip("torch")

from ipy_dynwrap import _native, dynamo  # noqa: E402 (torch may be missing)
from ipy_dynwrap.routing import Policy, target_of  # noqa: E402


def policy(*modules, exclude=()):
    return Policy.of(frozenset(modules or (__name__,)), frozenset(exclude))


def verdict(function, **options):
    return policy(**options).decide(function.__code__, function)


def function(x):
    return x


class Net(torch.nn.Module):
    def forward(self, x):
        return x

    def encode(self, x):
        return x


class OwnCall(Net):
    def __call__(self, x):
        return super().__call__(x) + 1


class Callable:
    def __call__(self, x):
        return x

    def __getitem__(self, index):
        return index


def written(name, module=None, file="<string>"):
    namespace = {} if module is None else {"__name__": module}
    exec(compile(f"def {name}(x): return x", file, "exec"), namespace)
    return namespace[name]


@pytest.mark.parametrize(
    ("each", "expected"),
    [
        (torch.nn.Module.__call__, _native.ROUTE),
        (function, _native.ROUTE_CARRIER),
        (lambda x: x, _native.ROUTE_CARRIER),
        (Net.encode, _native.ROUTE_CARRIER),
        (Callable.__call__, _native.ROUTE_CARRIER),
        (Callable.__getitem__, _native.PASS),
        (Net.__init__, _native.PASS),
        (torch.nn.functional.gelu if hasattr(torch.nn.functional.gelu, "__code__") else functools.wraps, _native.PASS),
        (torch.utils.checkpoint.checkpoint, _native.BARRIER),
        (torch.compiler.disable(function), _native.BARRIER),
        (torch.compile(function, backend="eager"), _native.BARRIER),
        (torch.export.export, _native.BARRIER),
    ],
)
def test_verdicts(each, expected):
    assert verdict(each) == expected


@pytest.mark.parametrize(
    ("module", "expected"),
    [
        ("pack", _native.ROUTE_CARRIER),
        ("pack.inner", _native.ROUTE_CARRIER),
        ("package", _native.PASS),
        ("other.pack", _native.PASS),
        (None, _native.ROUTE_CARRIER),
    ],
)
def test_modules_count_with_all_that_is_in_them(module, expected):
    each = written("f", module)
    assert policy("pack").decide(each.__code__, each) == expected


def test_a_function_without_a_module_from_a_file_is_nobodys():
    each = written("f", None, "/somewhere/f.py")
    assert policy("pack").decide(each.__code__, each) == _native.PASS


@pytest.mark.parametrize(
    ("name", "excluded"),
    [
        ("encode", True),
        ("Net", True),
        ("Net.encode", True),
        ("make.<locals>.Net.encode", False),
        ("forward", False),
        ("Other.encode", False),
        ("encod", False),
    ],
)
def test_exclusion_by_name_class_or_both(name, excluded):
    assert policy(exclude=[name]).excludes(Net.encode.__qualname__) == excluded
    inside = f"test.<locals>.{Net.encode.__qualname__}"
    assert policy(exclude=[name]).excludes(inside) == excluded


def test_an_excluded_function_passes():
    assert verdict(function, exclude=["function"]) == _native.PASS
    assert verdict(Net.encode, exclude=["Net"]) == _native.PASS


def test_equal_policies_are_one_and_others_have_other_numbers():
    assert policy("a") is policy("a")
    assert policy("a").number != policy("b").number
    assert policy("a").number != policy("a", exclude=["f"]).number


def test_a_call_of_a_module_is_a_call_of_the_object():
    net, own, thing = Net(), OwnCall(), Callable()
    call = torch.nn.Module.__call__
    assert target_of(call, (net, 1)) == (net, (1,))
    assert target_of(call, (own, 1)) is None
    assert target_of(OwnCall.__call__, (own, 1)) == (own, (1,))
    assert target_of(Callable.__call__, (thing, 1)) == (thing, (1,))
    assert target_of(function, (1, 2)) == (function, (1, 2))
    assert target_of(Net.encode, (net, 1)) == (Net.encode, (net, 1))


def test_callbacks_of_torch_are_known_by_their_context():
    class Square(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            seen.append(dynamo.is_called_by_autograd((ctx, x)))
            return x * x

        @staticmethod
        def backward(ctx, grad):
            return grad

    seen = []
    Square.apply(torch.ones(1))
    assert seen == [True]
    assert not dynamo.is_called_by_autograd((torch.ones(1),))
    assert not dynamo.is_called_by_autograd(())


def test_barriers_are_code_objects_that_pass_on_to_the_users_code():
    assert dynamo.MODULE_CALL not in dynamo.barrier_codes()
    assert function.__code__ not in dynamo.barrier_codes()
