"""What torch's guards do not look at: after every change the answer is eager's, and nothing compiles without need."""

from __future__ import annotations

import collections
import enum
import functools
import gc
import importlib
import os
import sys
import types
import weakref
from dataclasses import dataclass, field
from operator import is_
from typing import TYPE_CHECKING, Any

import pytest
import torch
import torch._dynamo
from torch import nn
from torch.nn.modules import module as torch_module

import ipy_dynwrap
from ipy_dynwrap import state

if TYPE_CHECKING:
    from collections.abc import Callable

X = torch.linspace(-1, 1, 4)


def outcome(function, *args):
    """Return what a call gives: a tensor's values, or the type of its error."""
    try:
        result = function(*args)
    except Exception as error:  # noqa: BLE001 - whatever eager raises is what is wanted
        return type(error)
    return result.tolist() if isinstance(result, torch.Tensor) else result


@dataclass
class Scene:
    """A target, and the edits that happen between its calls."""

    target: Callable[..., Any]
    edits: list[Callable[[], object]]
    keep: list[object] = field(default_factory=list)


def plays(scene, call):
    """Compare with eager before the first edit and after each; each time twice, so that what was cached answers too."""
    for edit in (lambda: None, *scene.edits):
        edit()
        expected = outcome(scene.target, X)
        assert [outcome(call, scene.target, X) for _ in range(2)] == [expected, expected]


def entries_of(code):
    return torch._C._dynamo.eval_frame._debug_get_cache_entry_list(code)


def setting(owner, name, *values):
    return [functools.partial(setattr, owner, name, value) for value in values]


# Methods of classes


def classes():
    """Return new classes for one scene: a child module, what holds it, and an object with a method of each kind."""

    class Mixin:
        def mixed(self, x):
            return x + 5

    class Meta(type):
        offset = 6

        def made(cls, x):
            return x + cls.offset

    class Base(nn.Module):
        def helper(self, x):
            return x + 1

    class Child(Mixin, Base):
        def forward(self, x):
            return self.mixed(self.helper(x)) * 2

    class Root(nn.Module):
        broken = False

        def __init__(self):
            super().__init__()
            self.child = Child()

        def finish(self, x):
            return x - 3

        def forward(self, x):
            if self.broken:
                torch._dynamo.graph_break()
            return self.finish(self.child(x))

    class Broken(Root):
        broken = True

    class Thing(metaclass=Meta):
        factor = 3

        def __init__(self, k=2):
            self.k = k

        def method(self, x):
            return x * self.k

        @staticmethod
        def static(x):
            return x + 1

        @classmethod
        def of_the_class(cls, x):
            return x + cls.factor

        @property
        def computed(self):
            return self.k + 1

        @functools.cached_property
        def remembered(self):
            return self.k + 2

        def __call__(self, x):
            return self.of_the_class(self.static(self.method(x))) * self.computed

    return types.SimpleNamespace(**{each.__name__: each for each in (Mixin, Meta, Base, Child, Root, Broken, Thing)})


def times(k):
    return lambda self, x: x * k


@pytest.mark.parametrize(
    ("broken", "by_function"),
    [(False, False), (True, False), (True, True)],
    ids=["module", "module with a graph break", "function over a graph break"],
)
@pytest.mark.parametrize(
    ("owner", "name"),
    [
        ("Child", "forward"),
        ("Child", "helper"),
        ("Child", "mixed"),
        ("Base", "helper"),
        ("Mixin", "mixed"),
        ("Root", "forward"),
        ("Root", "finish"),
        ("Child", "__call__"),
    ],
    ids=lambda each: each,
)
def test_a_method_of_a_class_is_replaced(way, owner, name, by_function, broken):
    here = classes()
    net = (here.Broken if broken else here.Root)()
    target = (lambda x: net(x) + 1) if by_function else net
    edits = setting(getattr(here, owner), name, times(7), lambda self, x: x - 9)
    plays(Scene(target, edits), way(backend="eager"))


@pytest.mark.parametrize("name", ["forward", "helper", "mixed"])
def test_a_method_of_a_class_is_taken_away(way, name):
    here = classes()

    class Last(here.Child):
        def forward(self, x):
            return x

        helper = mixed = times(4)

    net = here.Root()
    net.child = Last()
    plays(Scene(net, [functools.partial(delattr, Last, name)]), way(backend="eager"))


@pytest.mark.parametrize("where", ["root", "child"])
@pytest.mark.parametrize("name", ["forward", "helper", "finish"])
def test_a_method_is_replaced_on_an_instance(way, where, name):
    net = classes().Root()
    owner = net if where == "root" else net.child
    edits = [*setting(owner, name, lambda x: x * 7, lambda x: x * 8), functools.partial(delattr, owner, name)]
    plays(Scene(net, edits), way(backend="eager"))


@pytest.mark.parametrize(
    ("name", "values"),
    [
        ("method", [times(7), times(8)]),
        ("static", [staticmethod(lambda x: x * 7), staticmethod(lambda x: x * 8)]),
        ("of_the_class", [classmethod(times(7)), classmethod(times(8)), times(9)]),
        ("computed", [property(lambda self: 7), property(lambda self: self.k * 8), 9]),
        ("factor", [7, 8, 7]),
        ("__call__", [times(7), times(8)]),
    ],
    ids=lambda each: each if isinstance(each, str) else "",
)
@pytest.mark.parametrize("by_function", [False, True], ids=["callable", "function"])
def test_what_a_class_defines_is_replaced(way, name, values, by_function):
    here = classes()
    thing = here.Thing()
    target = (lambda x: thing(x) + 1) if by_function else thing
    plays(Scene(target, setting(here.Thing, name, *values)), way(backend="eager"))


@pytest.mark.parametrize(
    ("read", "edits"),
    [
        (lambda thing, x: x + type(thing).offset, lambda here: setting(here.Meta, "offset", 60, 61)),
        (lambda thing, x: type(thing).made(x), lambda here: setting(here.Meta, "made", times(7), times(8))),
        (lambda thing, x: type(thing).made(x), lambda here: setting(here.Meta, "offset", 60, 61)),
    ],
    ids=["an attribute", "a method", "an attribute that a method reads"],
)
def test_what_a_metaclass_defines_is_replaced(way, read, edits):
    here = classes()
    thing = here.Thing()

    def target(x):
        return read(thing, x)

    plays(Scene(target, edits(here)), way(backend="eager"))


def test_what_a_metaclass_answers_for_is_replaced(way):
    class Meta(type):
        def __getattr__(cls, name):
            return 2

    class Answered(metaclass=Meta):
        pass

    def target(x):
        return x * Answered.whatever

    plays(Scene(target, setting(Meta, "__getattr__", lambda cls, name: 7, lambda cls, name: 8)), way(backend="eager"))


def partial_method():
    class Owner(nn.Module):
        go = functools.partialmethod(lambda self, x, k: x * k, k=2)

        def forward(self, x):
            return self.go(x)

    values = [functools.partialmethod(lambda self, x, k: x - k, k=k) for k in (3, 4)]
    return Scene(nn.Sequential(Owner()), setting(Owner, "go", *values))


def own_descriptor():
    class Descriptor:
        def __init__(self, k):
            self.k = k

        def __get__(self, instance, owner=None):
            return lambda x: x * self.k

    class Owner(nn.Module):
        go = Descriptor(2)

        def forward(self, x):
            return self.go(x)

    edits = [
        *setting(Owner, "go", Descriptor(3)),
        *setting(vars(Owner)["go"], "k", 3, 4),
        *setting(Descriptor, "__get__", lambda self, instance, owner=None: lambda x: x * 77),
    ]
    return Scene(nn.Sequential(Owner()), edits)


def method_of_super():
    class Above(nn.Module):
        def go(self, x):
            return x * 2

    class Below(Above):
        def go(self, x):
            return super().go(x) + 1

        def forward(self, x):
            return self.go(x)

    edits = [
        *setting(Above.go, "__code__", (lambda self, x: x - 5).__code__),
        *setting(Above, "go", times(3), times(4)),
    ]
    return Scene(nn.Sequential(Below()), edits)


def object_made_inside():
    class Helper:
        def __init__(self):
            self.k = 2

        def go(self, x):
            return x * self.k

    def start(self):
        self.k = 3

    edits = [*setting(Helper, "__init__", start), *setting(Helper, "go", times(7), times(8))]
    return Scene(lambda x: Helper().go(x), edits)


def decorated_method():
    def inner(self, x):
        return x * 2

    @functools.wraps(inner)
    def outer(*args):
        return inner(*args)

    class Owner(nn.Module):
        go = outer

        def forward(self, x):
            return self.go(x)

    def other(self, x):
        return x * 3

    return Scene(nn.Sequential(Owner()), setting(inner, "__code__", other.__code__))


def operators_of_an_object():
    class Owner:
        def __mul__(self, x):
            return x * 2

        def __getitem__(self, key):
            return 3

        def __len__(self):
            return 4

        def __contains__(self, key):
            return True

    owner = Owner()
    edits = [
        *setting(Owner, "__mul__", times(7)),
        *setting(Owner, "__getitem__", lambda self, key: 8),
        *setting(Owner, "__len__", lambda self: 9),
        *setting(Owner, "__contains__", lambda self, key: False),
    ]
    return Scene(lambda x: (owner * x) * owner[0] + len(owner) + (1 if 3 in owner else 100), edits)


@pytest.mark.parametrize(
    "make",
    [
        partial_method,
        own_descriptor,
        method_of_super,
        object_made_inside,
        decorated_method,
        operators_of_an_object,
    ],
    ids=lambda make: make.__name__.replace("_", " "),
)
def test_methods_by_other_ways_are_replaced(way, make):
    plays(make(), way(backend="eager"))


def test_a_cached_property_is_replaced(way):
    here = classes()

    def target(x):
        return x * here.Thing().remembered

    def replace(k):
        new = functools.cached_property(lambda self: self.k * k)
        new.__set_name__(here.Thing, "remembered")
        here.Thing.remembered = new

    plays(Scene(target, [functools.partial(replace, 7), functools.partial(replace, 8)]), way(backend="eager"))


def test_a_cached_property_that_an_instance_has_cached_stays(way, counter):
    here = classes()
    thing = here.Thing()
    assert thing.remembered == 4

    def target(x):
        return x * thing.remembered

    def replace():
        here.Thing.remembered = functools.cached_property(lambda self: 70)
        here.Thing.remembered.__set_name__(here.Thing, "remembered")

    plays(Scene(target, [replace, lambda: delattr(thing, "remembered")]), way(backend=counter))


@pytest.mark.parametrize("broken", [False, True], ids=["whole", "after a graph break"])
def test_a_method_that_is_put_back_is_not_compiled_again(way, new_counter, broken):
    here, counter = classes(), new_counter()
    net, first = (here.Broken if broken else here.Root)(), here.Child.helper
    call, other = way(backend=counter), times(7)
    call(net, X)
    here.Child.helper = other
    call(net, X)
    compiled = counter.graphs
    for method in (first, other, first, other):
        here.Child.helper = method
        assert outcome(call, net, X) == outcome(net, X)
    assert counter.graphs == compiled


def test_an_unrelated_class_attribute_that_changes_at_every_call_compiles_nothing(way, counter):
    here = classes()
    here.Child.calls = 0
    net, call = here.Root(), way(backend=counter)
    for _ in range(20):
        here.Child.calls += 1
        assert outcome(call, net, X) == outcome(net, X)
    assert counter.graphs == 1


def test_a_new_method_that_nothing_calls_answers_as_eager(way):
    here = classes()
    plays(Scene(here.Root(), setting(here.Child, "unused", times(1), times(2))), way(backend="eager"))


def test_a_class_gets_other_bases(way):
    here = classes()

    class Other(nn.Module):
        def helper(self, x):
            return x * 9

    net = here.Root()
    edit = functools.partial(setattr, here.Child, "__bases__", (here.Mixin, Other))
    plays(Scene(net, [edit]), way(backend="eager"))


def test_an_object_gets_another_class(way):
    here = classes()

    class Other(here.Child):
        def forward(self, x):
            return x * 9

    net = here.Root()
    plays(Scene(net, setting(net.child, "__class__", Other, here.Child)), way(backend="eager"))


# Functions that stay the same object


@pytest.mark.parametrize("by_function", [False, True], ids=["module", "function"])
@pytest.mark.parametrize(
    ("name", "values"),
    [
        ("__code__", [times(7).__code__, times(8).__code__]),
        ("__defaults__", [(7,), (8,)]),
        ("__kwdefaults__", [{"j": 7}, {"j": 8}]),
    ],
    ids=["code", "defaults", "keyword-only defaults"],
)
def test_a_part_of_a_method_is_replaced_in_place(way, name, values, by_function):
    here = classes()
    # Code with a free variable only fits a function with as many.
    k = 3

    def helper(self, x, i=1, *, j=2):
        return x * k + i * j

    here.Child.helper = helper
    net = here.Root()
    target = (lambda x: net(x) + 1) if by_function else net
    if name == "__code__":
        helper.__defaults__ = helper.__kwdefaults__ = None
        here.Child.helper = helper = times(2)
    plays(Scene(target, setting(helper, name, *values)), way(backend="eager"))


@pytest.mark.parametrize("kind", [staticmethod, classmethod, property])
def test_code_inside_of_a_descriptor_is_replaced_in_place(way, kind):
    here = classes()
    name = {staticmethod: "static", classmethod: "of_the_class", property: "computed"}[kind]
    descriptor = vars(here.Thing)[name]
    function = descriptor.fget if kind is property else descriptor.__func__
    new = {
        staticmethod: lambda x: x * 70,
        classmethod: lambda cls, x: x * 70 + cls.factor,
        property: lambda self: self.k * 70,
    }[kind]
    plays(Scene(here.Thing(), setting(function, "__code__", new.__code__)), way(backend="eager"))


def test_a_closure_of_a_method_changes(way):
    here = classes()
    k = 3

    def helper(self, x):
        return x * k

    def change(value):
        nonlocal k
        k = value

    here.Child.helper = helper
    net = here.Root()
    plays(Scene(net, [functools.partial(change, 7), functools.partial(change, 8)]), way(backend="eager"))


def run(x):
    return helper_of_this_module(x) + 1


def helper_of_this_module(x):
    return x * 2


@pytest.mark.parametrize("where", ["code of the target", "code of a global", "a global", "defaults of a global"])
def test_functions_change(way, where, monkeypatch):
    target = types.FunctionType(run.__code__, globals(), "run")
    helper = types.FunctionType(helper_of_this_module.__code__, globals(), "helper")
    monkeypatch.setitem(globals(), "helper_of_this_module", helper)
    edits = {
        "code of the target": setting(target, "__code__", (lambda x: x * 7).__code__, (lambda x: x * 8).__code__),
        "code of a global": setting(helper, "__code__", (lambda x: x * 7).__code__, (lambda x: x * 8).__code__),
        "a global": [
            functools.partial(globals().__setitem__, "helper_of_this_module", new)
            for new in (lambda x: x * 7, lambda x: x * 8)
        ],
        "defaults of a global": [
            functools.partial(setattr, helper, "__code__", (lambda x, k=7: x * k).__code__),
            *setting(helper, "__defaults__", (7,), (8,)),
        ],
    }[where]
    plays(Scene(target, edits), way(backend="eager"))


# What is implemented in C


ADD, MUL, SUB = torch.Tensor.__add__, torch.Tensor.__mul__, torch.Tensor.__sub__
OPERATOR = ADD


class Holder:
    def __init__(self, operator):
        self.operator = operator

    def __call__(self, x):
        return self.operator(x, x)


class Slotted:
    __slots__ = ("operator",)


class HolderModule(nn.Module):
    def __init__(self, operator):
        super().__init__()
        self.operator = operator

    def forward(self, x):
        return self.operator(x, x)


def attribute_of_an_object():
    holder = Holder(ADD)
    return Scene(lambda x: holder.operator(x, x), setting(holder, "operator", MUL, SUB, ADD))


def attribute_of_the_target():
    holder = Holder(ADD)
    return Scene(holder, setting(holder, "operator", MUL, SUB, ADD))


def attribute_of_a_module():
    module = HolderModule(ADD)
    return Scene(module, setting(module, "operator", MUL, SUB, ADD))


def attribute_of_an_inner_module():
    module = nn.Sequential(HolderModule(ADD))
    return Scene(module, setting(module[0], "operator", MUL, SUB, ADD))


def slot():
    slotted = Slotted()
    slotted.operator = ADD
    return Scene(lambda x: slotted.operator(x, x), setting(slotted, "operator", MUL, SUB, ADD))


def attribute_of_a_class():
    class Owner:
        operator = staticmethod(ADD)

    values = [staticmethod(each) for each in (MUL, SUB, ADD)]
    return Scene(lambda x: Owner.operator(x, x), setting(Owner, "operator", *values))


def method_of_a_class():
    class Owner(nn.Module):
        operator = ADD

        def forward(self, x):
            return type(self).operator(x, x)

    return Scene(Owner(), setting(Owner, "operator", MUL, SUB, ADD))


def element_of_a_list():
    operators = [ADD]
    return Scene(
        lambda x: operators[0](x, x), [functools.partial(operators.__setitem__, 0, each) for each in (MUL, SUB, ADD)]
    )


def element_of_a_tuple():
    holder = types.SimpleNamespace(operators=(ADD, ADD))
    return Scene(lambda x: holder.operators[1](x, x), setting(holder, "operators", (ADD, MUL), (ADD, SUB), (ADD, ADD)))


def value_of_a_dict():
    operators = {"go": ADD}
    return Scene(
        lambda x: operators["go"](x, x),
        [functools.partial(operators.__setitem__, "go", each) for each in (MUL, SUB, ADD)],
    )


def global_variable():
    def target(x):
        return OPERATOR(x, x)

    def put(operator):
        globals()["OPERATOR"] = operator

    return Scene(target, [functools.partial(put, each) for each in (MUL, SUB, ADD)])


def default():
    def target(x, operator=ADD):
        return operator(x, x)

    return Scene(target, setting(target, "__defaults__", (MUL,), (SUB,), (ADD,)))


def keyword_only_default():
    def target(x, *, operator=ADD):
        return operator(x, x)

    return Scene(
        target, [functools.partial(target.__kwdefaults__.__setitem__, "operator", each) for each in (MUL, SUB, ADD)]
    )


def default_of_what_is_called():
    def inner(x, operator=ADD):
        return operator(x, x)

    return Scene(lambda x: inner(x) + 1, setting(inner, "__defaults__", (MUL,), (SUB,), (ADD,)))


def free_variable():
    operator = ADD

    def target(x):
        return operator(x, x)

    def put(other):
        nonlocal operator
        operator = other

    return Scene(target, [functools.partial(put, each) for each in (MUL, SUB, ADD)])


def free_variable_of_what_is_called():
    operator = ADD

    def inner(x):
        return operator(x, x)

    def put(other):
        nonlocal operator
        operator = other

    return Scene(lambda x: inner(x) + 1, [functools.partial(put, each) for each in (MUL, SUB, ADD)])


def attribute_of_a_python_module():
    module = types.ModuleType("operators")
    module.operator = ADD
    return Scene(lambda x: module.operator(x, x), setting(module, "operator", MUL, SUB, ADD))


@pytest.mark.parametrize(
    "make",
    [
        attribute_of_an_object,
        attribute_of_the_target,
        attribute_of_a_module,
        attribute_of_an_inner_module,
        slot,
        attribute_of_a_class,
        method_of_a_class,
        element_of_a_list,
        element_of_a_tuple,
        value_of_a_dict,
        global_variable,
        default,
        keyword_only_default,
        default_of_what_is_called,
        free_variable,
        free_variable_of_what_is_called,
        attribute_of_a_python_module,
    ],
    ids=lambda make: make.__name__.replace("_", " "),
)
def test_a_c_descriptor_changes(way, counter, make):
    scene, call = make(), way(backend=counter)
    plays(scene, call)
    # The last one is the first one again. Torch itself runs a method of a class that is implemented in C eager.
    assert counter.graphs == (0 if make is method_of_a_class else 3)


def closing_over(operator):
    return lambda x: operator(x, x)


def nested(operator):
    inner = closing_over(operator)
    return lambda x: inner(x) + 1


def applied(operator, x):
    return operator(x, x)


def applied_by_name(x, *, operator):
    return operator(x, x)


@pytest.mark.parametrize(
    "make",
    [
        closing_over,
        nested,
        lambda operator: functools.partial(applied, operator),
        lambda operator: functools.partial(applied_by_name, operator=operator),
        lambda operator: functools.partial(applied, functools.partial(operator)),
        Holder,
        HolderModule,
        lambda operator: nn.Sequential(HolderModule(operator)),
        lambda operator: Holder(operator).__call__,
    ],
    ids=[
        "closure",
        "nested closure",
        "partial",
        "partial by name",
        "partial of a partial",
        "callable",
        "module",
        "inner module",
        "method",
    ],
)
def test_c_callables_tell_targets_apart(way, counter, make):
    operators = [ADD, MUL, SUB, torch.add, torch.mul, torch.Tensor.add, torch.Tensor.mul]
    call = way(backend=counter)
    for _ in range(2):
        for operator in operators:
            target = make(operator)
            assert outcome(call, target, X) == outcome(target, X)
    assert counter.graphs == len(operators)


@pytest.mark.parametrize("operators", [[ADD, MUL, SUB], [torch.add, torch.mul], [torch.Tensor.add, torch.Tensor.mul]])
def test_c_callables_are_arguments(way, counter, operators):
    call = way(backend=counter)

    def target(x, operator):
        return operator(x, x)

    for _ in range(2):
        for operator in operators:
            assert outcome(call, target, X, operator) == outcome(target, X, operator)
    assert counter.graphs == len(operators)


@pytest.mark.filterwarnings("ignore:Dynamo does not know how to trace the builtin")
def test_bound_methods_of_tensors_in_closures(way):
    def over(method):
        return lambda x: method(x) + 1

    y = X + 3
    call = way(backend="eager")
    for method in (y.__mul__, y.__sub__, y.mul, (X * 7).__mul__):
        target = over(method)
        assert outcome(call, target, X) == outcome(target, X)


class Tagged(torch.Tensor):
    """Its operations go through Python, where torch binds ``Tensor.grad.__get__`` anew each time."""

    @classmethod
    def __torch_function__(cls, function, types, args=(), kwargs=None):
        return super().__torch_function__(function, types, args, kwargs or {})


def test_method_wrappers_that_are_bound_anew(way, counter):
    tagged, call = torch.ones(4).as_subclass(Tagged), way(backend=counter)

    def target(x):
        return (x * tagged).sum()

    for _ in range(3):
        assert torch.equal(call(target, X), target(X))
    assert counter.graphs == 1


# Other state that a graph has in it


class Colour(enum.Enum):
    RED = 2
    BLUE = 3


def attribute(first, *values, use):
    class Reading(nn.Module):
        def __init__(self):
            super().__init__()
            self.value = first

        def forward(self, x):
            return use(self.value, x)

    def make():
        module = Reading()
        return Scene(module, setting(module, "value", *values))

    return make


def appended():
    module = nn.Sequential(nn.Identity(), nn.Identity())
    return Scene(module, [lambda: module.append(nn.ReLU()), lambda: module.__delitem__(0)])


def replaced_child():
    module = nn.Sequential(nn.Tanh(), nn.Identity())
    return Scene(module, [lambda: module.__setitem__(0, nn.ReLU()), lambda: module.__setitem__(1, nn.Tanh())])


def custom_backward():
    class Double(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2

        @staticmethod
        def backward(ctx, gradient):
            return gradient

    values = [staticmethod(lambda ctx, x: x * 5), staticmethod(lambda ctx, x: x * 6)]
    return Scene(lambda x: Double.apply(x) + 1, setting(Double, "forward", *values))


def class_constant():
    class Constants:
        k = 1

    return Scene(lambda x: x * Constants.k, setting(Constants, "k", 5, 6))


def function_of_a_python_module():
    module = types.ModuleType("functions")
    module.function = lambda x: x + 1
    return Scene(lambda x: module.function(x) + 1, setting(module, "function", lambda x: x * 4, lambda x: x * 5))


@pytest.mark.parametrize(
    "make",
    [
        attribute(Colour.RED, Colour.BLUE, Colour.RED, use=lambda value, x: x * value.value),
        attribute(torch.float32, torch.float64, use=lambda value, x: x.to(value).sin()),
        attribute((1, 2), (1, 3), [1, 3], use=lambda value, x: x * value[1] + isinstance(value, list)),
        attribute({"k": 2}, {"k": 3}, {}, use=lambda value, x: x * value.get("k", 9)),
        attribute({1, 2}, {1, 3}, use=lambda value, x: x * (2 if 2 in value else 5)),
        attribute(None, 2, None, use=lambda value, x: x if value is None else x * value),
        attribute(1, True, 1.0, use=lambda value, x: x + (1 if value is True else 2) * value),
        attribute("sum", "mean", use=lambda value, x: getattr(x, value)()),
        attribute(slice(0, 2), slice(1, 2), use=lambda value, x: x[value]),
        attribute(range(2), range(3), use=lambda value, x: x * sum(value)),
        attribute(torch.nn.functional.relu, torch.tanh, use=lambda value, x: value(x)),
        appended,
        replaced_child,
        custom_backward,
        class_constant,
        function_of_a_python_module,
    ],
    ids=[
        "enum",
        "dtype",
        "tuple or list",
        "dict",
        "set",
        "None",
        "equal numbers",
        "string",
        "slice",
        "range",
        "function",
        "appended",
        "replaced child",
        "autograd function",
        "class constant",
        "Python module",
    ],
)
def test_other_state_changes(way, make):
    plays(make(), way(backend="eager"))


# What is not there


class Empty:
    pass


class EmptyModule(nn.Module):
    pass


class Lenient:
    def __getattr__(self, name):
        if name == "gain":
            return 2
        raise AttributeError(name)


class LenientModule(nn.Module):
    def __getattr__(self, name):
        return 2 if name == "gain" else super().__getattr__(name)


class LenientMeta(type):
    def __getattr__(cls, name):
        if name == "gain":
            return 2
        raise AttributeError(name)


def empty_function():
    return lambda: None


def empty_python_module():
    return types.ModuleType("empty")


def tried(owner, x):
    try:
        return x * owner.gain
    except AttributeError:
        return x * 3


def subscripted(owner, x):
    try:
        return x * owner.__dict__["gain"]
    except KeyError:
        return x * 3


def read(owner, x):
    return x * owner.gain


OWNERS = [Empty, EmptyModule, types.SimpleNamespace, empty_function, empty_python_module]
LENIENT = [Lenient, LenientModule, lambda: LenientMeta("Class", (), {})]
READINGS = {
    "getattr": lambda owner, x: x * getattr(owner, "gain", 3),
    "hasattr": lambda owner, x: x * (2 if hasattr(owner, "gain") else 3),
    "subscript": subscripted,
    "in __dict__": lambda owner, x: x * (2 if "gain" in owner.__dict__ else 3),
    "not in vars": lambda owner, x: x * (2 if "gain" not in vars(owner) else 3),
    "get": lambda owner, x: x * (owner.__dict__.get("gain") or 5),
    "len": lambda owner, x: x * len(owner.__dict__),
    "bool": lambda owner, x: x * (2 if vars(owner) else 3),
    "keys": lambda owner, x: x * len(vars(owner).keys()),
    "list": lambda owner, x: x * len(list(vars(owner))),
    "loop": lambda owner, x: x * sum(1 for _ in owner.__dict__),
}


def name_of(make):
    return make.__name__


@pytest.mark.parametrize(
    ("make", "use"),
    [
        *[(make, tried) for make in OWNERS],
        *[(make, read) for make in LENIENT],
        *[(make, use) for make in OWNERS for use in READINGS.values()],
    ],
    ids=[
        *[f"{make.__name__}, tried" for make in OWNERS],
        *[f"{make.__name__}, read" for make in LENIENT],
        *[f"{make.__name__}, {name}" for make in OWNERS for name in READINGS],
    ],
)
def test_an_attribute_that_was_not_there_is_set(way, make, use):
    owner = make()
    edits = [*setting(owner, "gain", 9), functools.partial(delattr, owner, "gain")]
    plays(Scene(lambda x: use(owner, x) + 1, [*edits, *edits]), way(backend="eager"))


@pytest.mark.parametrize("base", [Empty, EmptyModule, Lenient, LenientModule], ids=name_of)
@pytest.mark.parametrize("level", [0, 1])
@pytest.mark.parametrize("by_class", [False, True], ids=["object", "class"])
def test_an_attribute_that_was_not_there_is_set_on_the_class(way, base, level, by_class):
    class Above(base):
        pass

    class Below(Above):
        pass

    owner = Below if by_class else Below()
    edits = [*setting(Below.__mro__[level], "gain", 9), functools.partial(delattr, Below.__mro__[level], "gain")]
    plays(Scene(lambda x: tried(owner, x) + 1, edits), way(backend="eager"))


def test_a_child_that_was_not_there_is_added(way):
    module = EmptyModule()
    edits = [
        functools.partial(module.register_buffer, "gain", torch.tensor(3.0)),
        functools.partial(delattr, module, "gain"),
        functools.partial(module.register_parameter, "gain", nn.Parameter(torch.tensor(4.0))),
    ]
    plays(Scene(lambda x: tried(module, x).detach(), edits), way(backend="eager"))


def test_a_key_that_was_not_in_a_dictionary_is_set(way):
    table = {"other": 1}

    def target(x):
        try:
            return x * table["gain"]
        except KeyError:
            return x * 3

    edits = [functools.partial(table.__setitem__, "gain", 9), functools.partial(table.pop, "gain")]
    plays(Scene(target, [*edits, *edits]), way(backend="eager"))


def test_objects_with_and_without_an_attribute_are_told_apart(way, counter):
    call = way(backend=counter)
    plain, with_gain = Holding(Empty(), tried), Holding(Empty(), tried)
    with_gain.value.gain = 9
    for target in (plain, with_gain) * 3:
        assert outcome(call, target, X) == outcome(target, X)
    assert counter.graphs == 2


def test_order_of_an_instance_dictionary(way):
    owner = Empty()
    owner.a, owner.b = 1, 2

    def set_again():
        del owner.a
        owner.a = 1

    def target(x):
        for value in vars(owner).values():
            x = x * 2 + value
        return x

    plays(Scene(target, [set_again]), way(backend="eager"))


def folded(x, values):
    for value in values:
        x = x * 2 + len(str(value))
    return x


def as_arguments(*names):
    return names


def as_keywords(**values):
    return values.values()


ORDERS = {
    "values": lambda table, x: folded(x, table.values()),
    "items": lambda table, x: folded(x, [value for _, value in table.items()]),
    "keys": lambda table, x: folded(x, table.keys()),
    "loop": lambda table, x: folded(x, table),
    "list": lambda table, x: folded(x, list(table)),
    "unpacked": lambda table, x: folded(x, [*table, "end"]),
    "argument": lambda table, x: folded(x, as_arguments(*table)),
    "keywords": lambda table, x: folded(x, as_keywords(**table)),
    "merged": lambda table, x: folded(x, {**table}.values()),
    "updated": lambda table, x: folded(x, functools.reduce(lambda old, new: old.update(new) or old, [{}, table])),
    "copy": lambda table, x: folded(x, table.copy()),
    "dict": lambda table, x: folded(x, dict(table)),
    "join": lambda table, x: x * 2 if ",".join(table).startswith("a") else x + 1,
    "next": lambda table, x: x * len(next(iter(table))),
    "reversed": lambda table, x: folded(x, reversed(table)),
}


def again(table):
    table["a"] = table.pop("a")


@pytest.mark.parametrize("kind", [dict, collections.OrderedDict])
@pytest.mark.parametrize("name", ORDERS)
def test_the_order_of_a_dictionary_changes(way, kind, name):
    table, use = kind(a=10, bbb=2000), ORDERS[name]
    edits = [functools.partial(again, table), functools.partial(table.__setitem__, "cc", 300)]
    if kind is collections.OrderedDict:
        edits += [functools.partial(table.move_to_end, "a", last=False), functools.partial(table.move_to_end, "a")]
    plays(Scene(lambda x: use(table, x) + 1, [*edits, functools.partial(table.pop, "bbb")]), way(backend="eager"))


def test_an_ordered_dictionary_that_is_only_looked_up_may_be_reordered(way, counter):
    table, call = collections.OrderedDict(a=1, b=2), way(backend=counter)

    def target(x):
        return x * table["a"] + table.get("c", 3)

    for _ in range(4):
        table.move_to_end(next(iter(table)))
        assert outcome(call, target, X) == outcome(target, X)
    assert counter.graphs == 1


@pytest.mark.parametrize("maxlen", [None, 3])
def test_what_a_queue_holds_changes(way, maxlen):
    queues = [collections.deque([1, 2, 4], maxlen) for _ in range(2)]
    call, steps = way(backend="eager"), iter((*"ab", *"ab"))

    def using(queue):
        def target(x):
            queue.append(3)
            return folded(x, queue) + (queue.maxlen or 9)

        return target

    targets = [using(queue) for queue in queues]
    for step in steps:
        assert outcome(call, targets[0], X) == outcome(targets[1], X)
        assert queues[0] == queues[1]
        for queue in queues:
            queue.rotate(1) if step == "a" else queue.pop()


def test_queues_of_other_lengths_are_told_apart(way):
    call = way(backend="eager")
    holding = [
        Holding(collections.deque([1, 2], maxlen), lambda queue, x: x * (queue.maxlen or 9)) for maxlen in (3, None, 4)
    ]
    for target in holding * 2:
        assert outcome(call, target, X) == outcome(target, X)


@pytest.mark.parametrize(
    "use",
    [
        lambda x, n: x * 2 if 5 in (1, n) else x * 3,
        lambda x, n: x * 2 if 5 not in [1, n] else x * 3,
        lambda x, n: x * 2 if 5.0 in (1, n) else x * 3,
        lambda x, n: x * 2 if n in (1, 5) else x * 3,
        lambda x, n: x * 2 if 5 in {"k": n}.values() else x * 3,
    ],
)
def test_a_constant_among_numbers_that_change(way, counter, use):
    call = way(backend=counter)
    for n in (2, 3, 4, 5, 6, 5, 7):
        assert outcome(call, use, X, n) == outcome(use, X, n)
    assert counter.graphs <= 3


@pytest.mark.parametrize("name", ["__len__", "__bool__"])
def test_an_object_becomes_false(way, name):
    class Thing:
        pass

    thing = Thing()
    edits = [
        *setting(Thing, name, lambda self: 0 if name == "__len__" else False),
        functools.partial(delattr, Thing, name),
    ]
    plays(Scene(lambda x: x * 2 if thing else x * 3, [*edits, *edits]), way(backend="eager"))


@pytest.mark.parametrize(
    "read",
    [
        lambda: os.environ.get("A_TEST", "3"),
        lambda: os.getenv("A_TEST", "3"),
        lambda: os.environ["A_TEST"] if "A_TEST" in os.environ else "3",  # noqa: SIM401 - one of three ways
        lambda: os.environ.copy().get("A_TEST", "3"),
        lambda: {**os.environ}.get("A_TEST", "3"),
    ],
)
def test_an_environment_variable_changes(way, monkeypatch, read):
    edits = [
        functools.partial(monkeypatch.setenv, "A_TEST", "5"),
        functools.partial(monkeypatch.setenv, "A_TEST", "7"),
        functools.partial(monkeypatch.delenv, "A_TEST"),
    ]
    monkeypatch.delenv("A_TEST", raising=False)
    plays(Scene(lambda x: x * float(read()), [*edits, *edits]), way(backend="eager"))


def test_an_unrelated_environment_variable_compiles_nothing(way, monkeypatch, counter):
    call = way(backend=counter)

    def target(x):
        return x * float(os.environ.get("A_TEST", "3")) + float(os.getenv("A_TEST", "3"))

    for number in range(3):
        monkeypatch.setenv(f"ANOTHER_{number}", "1")
        assert outcome(call, target, X) == outcome(target, X)
    assert counter.graphs == 1


@pytest.mark.parametrize("edit", ["set", "set on the class"])
def test_the_reason_is_said_for_what_was_not_there(way, edit):
    call = way(backend="eager")
    holder = Holding(type("Owner", (Empty,), {})(), tried)
    call(holder, X)
    owner = holder.value if edit == "set" else type(holder.value)
    owner.gain = 9
    call(holder, X)
    (wrapper,) = ipy_dynwrap.cache_info().wrappers
    said = {"set": "self.value.gain was set on the object", "set on the class": "gain was set on a class"}
    assert wrapper.last_reason == said[edit]


# Which of two objects it is


class Sentinel:
    """Compared by identity, and hashed by it."""


def another(x):
    return x


MISSING, SENTINEL, TENSOR, LIST = object(), Sentinel(), torch.linspace(-1, 1, 4), []
FUNCTION = types.FunctionType(another.__code__, globals())


class Holding:
    def __init__(self, value, use):
        self.value, self.use = value, use

    def __call__(self, x):
        return self.use(self.value, x)


class HoldingModule(nn.Module):
    def __init__(self, value, use):
        super().__init__()
        self.value, self.use = value, use

    def forward(self, x):
        return self.use(self.value, x)


SENTINELS = {
    "is, of plain objects": (object, MISSING, lambda value, x: x * 2 if value is MISSING else x + 1),
    "is not": (Sentinel, SENTINEL, lambda value, x: x * 2 if value is not SENTINEL else x + 1),
    "is, the other way round": (Sentinel, SENTINEL, lambda value, x: x * 2 if SENTINEL is value else x + 1),
    "==": (Sentinel, SENTINEL, lambda value, x: x * 2 if value == SENTINEL else x + 1),
    "!=": (Sentinel, SENTINEL, lambda value, x: x * 2 if value != SENTINEL else x + 1),
    "in a tuple": (Sentinel, SENTINEL, lambda value, x: x * 2 if value in (1, SENTINEL) else x + 1),
    "in a list": (Sentinel, SENTINEL, lambda value, x: x * 2 if value not in [SENTINEL, 1] else x + 1),
    "count": (Sentinel, SENTINEL, lambda value, x: x * [SENTINEL, 5].count(value)),
    "operator.is_": (Sentinel, SENTINEL, lambda value, x: x * 2 if is_(value, SENTINEL) else x + 1),
    "lists": (list, LIST, lambda value, x: x * 2 if value is LIST else x + 1),
    "tensors": (TENSOR.clone, TENSOR, lambda value, x: x * 2 if value is TENSOR else x + 1),
    "tensors, not": (TENSOR.clone, TENSOR, lambda value, x: x * 2 if value is not TENSOR else x + 1),
    "functions of the same code": (
        lambda: types.FunctionType(another.__code__, globals()),
        FUNCTION,
        lambda value, x: x * 2 if value is FUNCTION else x + 1,
    ),
}


@pytest.mark.parametrize("first", ["the sentinel", "another"])
@pytest.mark.parametrize("holding", [Holding, HoldingModule])
@pytest.mark.parametrize("name", SENTINELS)
def test_a_sentinel_is_told_from_other_objects(way, counter, name, holding, first):
    make, sentinel, use = SENTINELS[name]
    values = [sentinel, make(), make()] if first == "the sentinel" else [make(), sentinel, make()]
    call = way(backend=counter)
    for _ in range(2):
        for value in values:
            target = holding(value, use)
            assert outcome(call, target, X) == outcome(target, X)
    assert counter.graphs == 2


def test_a_default_that_is_a_sentinel(way, counter):
    def target(x, factor=MISSING):
        return x * 2 if factor is MISSING else x * 3

    call, other = way(backend=counter), object()
    for args in ((X,), (X, other), (X, MISSING), (X, object()), (X,)):
        assert outcome(call, target, *args) == outcome(target, *args)
    assert counter.graphs == 2


def test_two_attributes_that_are_one_object_or_two(way):
    holder = types.SimpleNamespace(one=SENTINEL, other=Sentinel())

    def target(x):
        return x * 2 if holder.one is holder.other else x * 3

    edits = setting(holder, "other", SENTINEL, Sentinel(), SENTINEL)
    plays(Scene(target, [*edits, *setting(holder, "one", Sentinel())]), way(backend="eager"))


def test_a_global_sentinel_is_another_one_now(way, monkeypatch):
    holder = types.SimpleNamespace(value=MISSING)

    def target(x):
        return x * 2 if holder.value is MISSING else x * 3

    edits = [functools.partial(globals().__setitem__, "MISSING", value) for value in (object(), MISSING)]
    monkeypatch.setitem(globals(), "MISSING", MISSING)
    plays(Scene(target, edits), way(backend="eager"))


def test_comparing_keeps_no_object(way):
    call, use = way(backend="eager"), SENTINELS["is, of plain objects"][2]
    holder = Holding(Sentinel(), lambda value, x: x * 2 if value is SENTINEL else use(value, x))
    reference = weakref.ref(holder.value)
    call(holder, X)
    holder.value = Sentinel()
    gc.collect()
    assert reference() is None
    assert outcome(call, holder, X) == outcome(holder, X)


def test_what_is_noted_is_of_one_compilation(way):
    """A backend that compiles looks at other objects by the same names."""
    holder = types.SimpleNamespace(value=MISSING, other=SENTINEL)

    def inner(x, a):
        return x * 2 if a is SENTINEL and holder.value is MISSING else x

    def backend(graph, inputs):
        ipy_dynwrap.compile(inner, backend="eager")(X, SENTINEL)
        return graph.forward

    def target(x, a):
        x = x + 1
        return x * 2 if a is MISSING else x * 3

    call = way(backend=backend)
    for value in (MISSING, SENTINEL, MISSING):
        assert outcome(call, target, X, value) == outcome(target, X, value)


def relations(wrapper):
    """Return the texts of the guards that are evaluated once all others hold."""
    roots = [entry.guard_manager.root for entry in entries_of(wrapper.code)]
    guards = [guard for root in roots for guard in root.get_epilogue_lambda_guards()]
    return [text.partition("  #")[0].strip() for guard in guards for text in guard.verbose_code_parts()]


def test_what_no_user_compares_is_not_guarded(way):
    call = way(backend="eager")
    call(classes().Root(), X)
    call(Holding(SENTINEL, SENTINELS["=="][2]), X)
    call(Holding(3, lambda value, x: x * 2 if value is None else x * value), X)
    texts = {wrapper.target: relations(wrapper) for wrapper in state.cache}
    assert texts == {
        "Root.forward": [],
        "Holding": [f"(L['target'].value is G['__import_{__name__.replace('.', '_dot_')}'].SENTINEL) == True"],
    }


# Hooks of all modules


def forward_hook():
    return torch_module.register_module_forward_hook(lambda module, args, output: output * 3)


def forward_pre_hook():
    return torch_module.register_module_forward_pre_hook(lambda module, args: (args[0] + 1,))


def always_called_hook():
    return torch_module.register_module_forward_hook(lambda module, args, output: output - 4, always_call=True)


def backward_hook():
    return torch_module.register_module_full_backward_hook(lambda module, grads_in, grads_out: (grads_in[0] * 3,))


def backward_pre_hook():
    return torch_module.register_module_full_backward_pre_hook(lambda module, grads: (grads[0] * 5,))


def gradient(function, x):
    """Return the answer and the gradient that a call leads to."""
    x = x.clone().requires_grad_()
    result = function(x)
    result.sum().backward()
    return result.tolist(), x.grad.tolist()


class Two(nn.Module):
    def __init__(self, broken):
        super().__init__()
        self.first, self.second = nn.Tanh(), nn.Tanh()
        self.broken = broken

    def forward(self, x):
        x = self.first(x)
        if self.broken:
            torch._dynamo.graph_break()
        return self.second(x) * 2


@pytest.mark.parametrize(
    ("backend", "broken", "by_function"),
    [("eager", False, False), ("eager", True, False), ("eager", False, True), ("aot_eager", True, True)],
    ids=["eager", "with a graph break", "function", "aot_eager, with a graph break, function"],
)
@pytest.mark.parametrize(
    "register", [forward_hook, forward_pre_hook, always_called_hook, backward_hook, backward_pre_hook]
)
def test_hooks_of_all_modules_come_and_go(way, backend, broken, by_function, register):
    module = Two(broken)
    target = (lambda x: module(x) + 1) if by_function else module
    call = way(backend=backend)
    handles = []
    try:
        for step in ("none", "added", "second", "first gone", "gone", "again"):
            if step in ("added", "second", "again"):
                handles.append(register())
            elif step == "first gone":
                handles.pop(0).remove()
            elif step == "gone":
                handles.pop().remove()
            expected = gradient(target, X)
            got = [gradient(functools.partial(call, target), X) for _ in range(2)]
            assert got == [expected, expected], step
    finally:
        for handle in handles:
            handle.remove()


def test_without_hooks_of_all_modules_again_nothing_is_compiled(way, counter):
    module, call = Two(broken=False), way(backend=counter)

    def hook(module, args, output):
        return output * 3

    call(module, X)
    for _ in range(3):
        handle = torch_module.register_module_forward_hook(hook)
        try:
            assert outcome(call, module, X) == outcome(module, X)
        finally:
            handle.remove()
        assert outcome(call, module, X) == outcome(module, X)
    # Torch tells one registration of a hook from the next.
    assert counter.graphs == 4


# Reloading


SOURCE = """
import torch
from torch import nn

SCALE = {scale}

def scaled(x, by={scale}):
    return x * by

class Part(nn.Module):
    factor = {scale}

    def helper(self, x):
        return x + {scale}

    @staticmethod
    def static(x):
        return x - {scale}

    @property
    def computed(self):
        return {scale}

    def forward(self, x):
        return self.static(self.helper(x)) * self.computed + self.factor

class Whole(nn.Module):
    def __init__(self):
        super().__init__()
        self.part = Part()

    def forward(self, x):
        return scaled(self.part(x)) + SCALE
"""


@pytest.fixture
def edited(tmp_path, monkeypatch):
    """Return what writes the source of a Python module that is edited while it is in use; its name is `edited`."""
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    written = 0

    def write(scale):
        nonlocal written
        path = tmp_path / "edited_model.py"
        path.write_text(SOURCE.format(scale=scale))
        written += 1
        # Edits within one tick of the file system's clock would look like none.
        os.utime(path, (1_000_000_000 + written, 1_000_000_000 + written))
        importlib.invalidate_caches()

    write(2)
    yield write
    sys.modules.pop("edited_model", None)


@pytest.fixture
def autoreload(ip):
    """Switch autoreload on, before a shell looks at what there is."""
    ip.run_line_magic("load_ext", "autoreload")
    ip.run_line_magic("autoreload", "2")
    yield
    ip.run_line_magic("autoreload", "off")
    ip.run_line_magic("unload_ext", "autoreload")


@pytest.mark.parametrize("by_function", [False, True], ids=["module", "function"])
def test_autoreload_updates_what_is_compiled(autoreload, ip, way, edited, by_function):
    assert ip.run_cell("import edited_model").success
    net = ip.user_ns["edited_model"].Whole()
    target = (lambda x: net(x) + 1) if by_function else net
    call, answers = way(backend="eager"), []
    for scale in (2, 3, 5, 2):
        edited(scale)
        # IPython reloads before a cell.
        assert ip.run_cell("None").success
        expected = outcome(target, X)
        assert [outcome(call, target, X) for _ in range(2)] == [expected, expected]
        answers.append(expected)
    assert answers[0] == answers[3]
    assert len({tuple(each) for each in answers}) == 3


def test_autoreload_in_a_notebook_with_regions(autoreload, shell, edited):
    shell("import torch, edited_model\nx = torch.linspace(-1, 1, 4)\nnet = edited_model.Whole()")
    for scale in (2, 3, 5):
        edited(scale)
        assert shell("%%compile --quiet\ncompiled = net(x)").success
        assert shell("eager = net(x)\nassert torch.equal(compiled, eager)").success
    assert ipy_dynwrap.cache_info().compiles == 3


def test_a_class_that_a_cell_defines_again_under_old_instances(shell):
    assert shell("import torch\nfrom torch import nn\nx = torch.linspace(-1, 1, 4)").success
    define = "class Part(nn.Module):\n    def forward(self, x):\n        return x * {}\n"
    assert shell(define.format(2) + "net = nn.Sequential(Part())").success
    for scale in (2, 3, 4):
        assert shell(define.format(scale) + "type(net[0]).forward = Part.forward").success
        assert shell("%%compile --quiet\ncompiled = net(x)").success
        assert shell(f"assert torch.equal(compiled, x * {scale})").success


# Memory


def test_old_versions_of_a_method_end(way):
    here = classes()
    net, call = here.Root(), way(backend="eager")
    versions = weakref.WeakSet()
    for k in range(50):
        here.Child.helper = times(k)
        versions.add(here.Child.helper)
        assert outcome(call, net, X) == outcome(net, X)
    ipy_dynwrap.reset()
    gc.collect()
    assert list(versions) == [here.Child.helper]


def test_compiled_code_of_old_versions_of_a_method_ends_with_reset(way):
    here = classes()
    net, call = here.Root(), way(backend="eager")
    for k in range(50):
        here.Child.helper = times(k)
        assert outcome(call, net, X) == outcome(net, X)
    entries = [weakref.ref(entry.code()) for wrapper in state.cache for entry in wrapper.live_entries()]
    assert entries
    ipy_dynwrap.reset()
    gc.collect()
    assert [entry() for entry in entries if entry() is not None] == []
    assert outcome(call, net, X) == outcome(net, X)


# What is said


@pytest.mark.parametrize(
    ("edit", "said"),
    [
        (lambda here: setattr(here.Child, "helper", times(7)), "a method of Child was replaced"),
        (lambda here: setattr(here.Base.helper, "__code__", times(7).__code__), "the code or a default of a method"),
    ],
    ids=["replaced", "in place"],
)
def test_the_reason_is_said(way, edit, said):
    here = classes()
    k = 1
    here.Base.helper = lambda self, x: x * k
    net, call = here.Root(), way(backend="eager")
    call(net, X)
    edit(here)
    call(net, X)
    (wrapper,) = ipy_dynwrap.cache_info().wrappers
    assert said in wrapper.last_reason


def test_the_reason_is_said_for_the_order_of_a_dictionary(way):
    table, call = collections.OrderedDict(a=1, b=2), way(backend="eager")

    def target(x):
        return folded(x, table.values())

    call(target, X)
    table.move_to_end("a")
    call(target, X)
    (wrapper,) = ipy_dynwrap.cache_info().wrappers
    assert wrapper.last_reason == "the order of an OrderedDict changed"


def test_the_reason_is_said_for_a_sentinel(way):
    call, use = way(backend="eager"), SENTINELS["=="][2]
    call(Holding(SENTINEL, use), X)
    call(Holding(Sentinel(), use), X)
    (wrapper,) = ipy_dynwrap.cache_info().wrappers
    assert wrapper.last_reason == f"self.value and {__name__}.SENTINEL are no longer the same object"


def test_the_reason_is_said_for_hooks_of_all_modules(way):
    net, call = Two(broken=False), way(backend="eager")
    call(net, X)
    handle = forward_hook()
    try:
        call(net, X)
    finally:
        handle.remove()
    (wrapper,) = ipy_dynwrap.cache_info().wrappers
    assert wrapper.last_reason == "hooks of all modules changed"
