"""`ipy_dynwrap.compile`: the call forms of `torch.compile`, and modules that stay what they are to everybody else."""

from __future__ import annotations

import abc
import copy
import functools
import gc
import inspect
import io
import pickle
import types
import weakref
from typing import ClassVar

import pytest
import torch
from torch import nn

import ipy_dynwrap
from ipy_dynwrap import state
from ipy_dynwrap.options import OptionsError

X = torch.arange(6.0).reshape(2, 3)


def same(got, expected):
    torch.testing.assert_close(got, expected)


# Call forms


def double(x):
    """Twice as much."""
    return x * 2


class Multiplier:
    factor = 3

    def __call__(self, x):
        return x * self.factor

    def method(self, x, *, power=1):
        return (x * self.factor) ** power

    @classmethod
    def of_the_class(cls, x):
        return x * cls.factor

    @staticmethod
    def static(x):
        return x * 5


@pytest.mark.parametrize(
    "target",
    [
        double,
        lambda x: x + 7,
        Multiplier(),
        Multiplier().method,
        Multiplier().of_the_class,
        Multiplier.of_the_class,
        Multiplier.static,
        functools.partial(double),
        functools.partial(Multiplier().method, power=2),
        torch.sin,
        torch.Tensor.exp,
        torch.nn.functional.gelu,
        nn.Linear(3, 3),
        nn.Linear(3, 3).forward,
    ],
    ids=lambda target: getattr(target, "__qualname__", type(target).__name__),
)
def test_any_callable_is_compiled(counter, target):
    compiled = ipy_dynwrap.compile(target, backend=counter)
    for _ in range(2):
        same(compiled(X), target(X))
    assert (counter.graphs, counter.runs) == (1, 2)


def test_decorators_with_and_without_arguments(counter):
    @ipy_dynwrap.compile
    def plain(x):
        return x + 1

    assert inspect.signature(plain) == inspect.signature(double)

    @ipy_dynwrap.compile(backend=counter, fullgraph=True)
    def with_arguments(x):
        return x + 1

    @functools.partial(ipy_dynwrap.compile, backend=counter)
    def by_partial(x):
        return x + 2

    same(with_arguments(X), X + 1)
    same(by_partial(X), X + 2)
    assert counter.runs == 2


def test_decorated_methods(counter):
    compiled = ipy_dynwrap.compile(backend=counter)

    class Model:
        factor = 4

        @compiled
        def method(self, x):
            return x * self.factor

        @classmethod
        @compiled
        def of_the_class(cls, x):
            return x + cls.factor

        @staticmethod
        @compiled
        def static(x):
            return x - 1

    same(Model().method(X), X * 4)
    same(Model.of_the_class(X), X + 4)
    same(Model.static(X), X - 1)
    assert counter.runs == 3


def test_a_decorated_module_class_compiles_its_instances(counter):
    @ipy_dynwrap.compile(backend=counter)
    class Net(nn.Module):
        def __init__(self, size):
            super().__init__()
            self.linear = nn.Linear(size, size)

        def forward(self, x):
            return self.linear(x).relu()

    net = Net(3)
    for each in (net, net, Net(3)):
        same(each(X), each.forward(X))
    assert (counter.graphs, counter.runs) == (1, 3)
    assert type(net) is Net


def test_a_decorated_class_of_callables_compiles_its_instances(counter):
    @ipy_dynwrap.compile(backend=counter)
    class Scale:
        def __init__(self, by):
            self.by = by

        def __call__(self, x):
            return x * self.by

    same(Scale(3.0)(X), X * 3)
    assert counter.runs == 1


def test_what_cannot_be_called_is_refused():
    class NotCallable:
        pass

    with pytest.raises(TypeError, match="compile takes a callable, not int"):
        ipy_dynwrap.compile(3)
    with pytest.raises(TypeError, match=r"instances of .*NotCallable are not callable"):
        ipy_dynwrap.compile(NotCallable)
    with pytest.raises(OptionsError, match="unknown backend 'inductr'"):
        ipy_dynwrap.compile(double, backend="inductr")


@pytest.mark.filterwarnings("ignore:.*torch.jit.*:DeprecationWarning")
def test_torchscript_is_refused():
    with pytest.raises(TypeError, match="TorchScript"):
        ipy_dynwrap.compile(torch.jit.script(nn.Linear(2, 2)), backend="eager")


def test_disabled_is_the_target_itself():
    assert ipy_dynwrap.compile(double, disable=True) is double


def test_a_compiled_function_looks_like_the_function():
    compiled = ipy_dynwrap.compile(double, backend="eager")
    assert (compiled.__name__, compiled.__doc__, compiled.__module__) == ("double", "Twice as much.", __name__)
    assert compiled.__wrapped__ is double
    method = ipy_dynwrap.compile(Multiplier().method, backend="eager")
    assert str(inspect.signature(method)) == "(x, *, power=1)"


def test_compiling_what_is_compiled_compiles_the_original(new_counter):
    first, second, third = new_counter(), new_counter(), new_counter()
    once = ipy_dynwrap.compile(double, backend=first)
    twice = ipy_dynwrap.compile(once, backend=second)
    from_torch = ipy_dynwrap.compile(torch.compile(double, backend=first), backend=third)
    same(twice(X), X * 2)
    same(from_torch(X), X * 2)
    assert (first.runs, second.runs, third.runs) == (0, 1, 1)
    module = nn.Linear(3, 3)
    again = ipy_dynwrap.compile(ipy_dynwrap.compile(module, backend=first), backend=second)
    same(again(X), module(X))
    same(ipy_dynwrap.compile(torch.compile(module, backend=first), backend=third)(X), module(X))
    assert (first.runs, second.runs, third.runs) == (0, 2, 2)


def test_a_decorator_around_a_compiled_function_is_not_lost(counter):
    @ipy_dynwrap.compile(backend=counter)
    def inner(x):
        return x + 1

    @functools.wraps(inner)
    def outer(x):
        return inner(x) * 10

    same(outer(X), (X + 1) * 10)
    same(ipy_dynwrap.compile(outer, backend=counter)(X), (X + 1) * 10)


# Parameters


def every_kind(a, b=2, /, c=3, *rest, d, e=5, **more):
    return a + b * 3 + c * 7 + sum(rest) * 11 + d * 13 + e * 17 + sum(more.values()) * 19


@pytest.mark.parametrize(
    ("args", "kwargs"),
    [
        ((X,), {"d": 1}),
        ((X, 1), {"d": 1, "c": 7}),
        ((X, 1, 4), {"d": 1, "e": 2}),
        ((X, 1, 4, 6, 8), {"d": 1, "e": X}),
        ((X, X), {"d": X, "b": 9, "a": 3}),
    ],
)
def test_every_kind_of_parameter(way, args, kwargs):
    same(way(backend="eager", fullgraph=True)(every_kind, *args, **kwargs), every_kind(*args, **kwargs))


def test_calls_that_mean_the_same_share_a_compilation(way, counter):
    def shifted(x, by=2):
        return x + by

    call = way(backend=counter)
    for result in (
        call(shifted, X),
        call(shifted, X, 2),
        call(shifted, X, by=2),
        call(shifted, x=X),
        call(shifted, by=2, x=X),
    ):
        same(result, X + 2)
    assert (counter.graphs, counter.runs) == (1, 5)


def test_parameters_with_the_names_that_wrappers_use(way):
    def f(target, _0, args, kwargs, handle, function, self=1, _call=2, _unset=3, *, _1=4, call=5):  # noqa: PLR0917
        return target + _0 * args - kwargs + handle * function + self + _call + _unset + _1 + call

    expected = f(X, 2, 3, 4, 5, 6)
    call = way(backend="eager")
    same(call(f, X, 2, 3, 4, 5, 6), expected)
    same(call(f, function=6, handle=5, kwargs=4, args=3, _0=2, target=X), expected)


def test_defaults_that_change_later_hold():
    def f(x, by=1, *, power=1):
        return (x + by) ** power

    compiled = ipy_dynwrap.compile(f, backend="eager")
    same(compiled(X), X + 1)
    f.__defaults__ = (5,)
    same(compiled(X), X + 5)
    f.__kwdefaults__ = {"power": 2}
    same(compiled(X), (X + 5) ** 2)
    f.__defaults__ = None
    with pytest.raises(TypeError, match=r"f\(\) missing the argument 'by', which has no default any more"):
        compiled(X)


@pytest.mark.parametrize(
    ("args", "kwargs"), [((), {}), ((X, 1, 2), {}), ((X,), {"bie": 1}), ((X,), {"x": X}), ((), {"by": 1})]
)
def test_wrong_arguments_are_told_as_in_eager(args, kwargs):
    def f(x, by=1):
        return x + by

    with pytest.raises(TypeError) as expected:
        f(*args, **kwargs)
    with pytest.raises(TypeError) as told:
        ipy_dynwrap.compile(f, backend="eager")(*args, **kwargs)
    assert str(told.value).rsplit(".", 1)[-1] == str(expected.value).rsplit(".", 1)[-1]


def test_generators_and_coroutines_stay_what_they_are():
    @ipy_dynwrap.compile(backend="eager")
    def generator(x):
        yield x + 1
        yield x + 2

    @ipy_dynwrap.compile(backend="eager")
    async def coroutine(x):
        return x + 3

    first, second = generator(X)
    same(first, X + 1)
    same(second, X + 2)
    with pytest.raises(StopIteration) as stopped:
        coroutine(X).send(None)
    same(stopped.value.value, X + 3)


# Modules


class Net(nn.Module):
    """A net of the user's."""

    size = 3

    def __init__(self, scale=1.0):
        super().__init__()
        self.linear = nn.Linear(3, 3)
        self.norm = nn.BatchNorm1d(3)
        self.scale = scale

    def forward(self, x, gain=1.0):
        return self.norm(self.linear(x)) * self.scale * gain

    def encode(self, x):
        return self.linear(x)

    @property
    def doubled(self):
        return self.scale * 2


@pytest.fixture
def pair(counter):
    """Return a module and its compiled form."""
    module = Net()
    return module, ipy_dynwrap.compile(module, backend=counter)


def test_only_the_compiled_form_is_compiled(pair, counter):
    module, compiled = pair
    same(compiled.eval()(X), module(X))
    assert counter.runs == 1
    module(X)
    assert counter.runs == 1
    compiled(X, gain=2.0)
    assert counter.runs == 2


def test_to_the_rest_of_the_world_it_is_the_module(pair):
    module, compiled = pair
    assert isinstance(compiled, Net)
    assert isinstance(compiled, nn.Module)
    assert issubclass(type(compiled), Net)
    assert not isinstance(compiled, nn.Linear)
    assert type(compiled).__name__ == "Net"
    assert type(compiled).__qualname__ == "Net"
    assert type(compiled).__module__ == __name__
    assert type(compiled).__doc__ == "A net of the user's."
    assert compiled.__class__.size == compiled.size == 3
    assert repr(compiled) == repr(module)
    assert dir(compiled) == dir(module) or set(dir(module)) <= set(dir(compiled))
    assert vars(compiled) is vars(module)
    assert compiled.doubled == 2.0
    same(compiled.encode(X), module.encode(X))


def test_signatures_are_the_modules_on_all_levels(pair):
    module, compiled = pair
    for get in (lambda it: it.forward, lambda it: type(it).forward, lambda it: type(it).__init__, type):
        assert inspect.signature(get(compiled)) == inspect.signature(get(module))


def test_state_dicts_load_both_ways(pair):
    module, compiled = pair
    assert list(compiled.state_dict()) == list(module.state_dict())
    other = Net()
    other.load_state_dict(compiled.state_dict())
    same(dict(other.state_dict()), dict(module.state_dict()))
    fresh = Net().state_dict()
    compiled.load_state_dict(fresh)
    same(dict(module.state_dict()), dict(fresh))


def test_attributes_set_on_either_are_seen_by_both(pair):
    module, compiled = pair
    compiled.eval()
    assert not module.training
    module.train()
    assert compiled.training
    compiled.scale = 5.0
    assert module.scale == 5.0
    module.note = "n"
    assert compiled.note == "n"
    del compiled.note
    assert not hasattr(module, "note")
    compiled.linear = nn.Linear(3, 3)
    assert module.linear is compiled.linear
    module.register_buffer("mean", torch.zeros(1))
    assert "mean" in dict(compiled.named_buffers())
    same(compiled.eval()(X), module(X))


def test_hooks_set_on_either_fire_in_both(pair):
    module, compiled = pair
    module.eval()
    plain = module(X)
    first = compiled.register_forward_hook(lambda module, args, output: output + 1)
    second = module.linear.register_forward_pre_hook(lambda module, args: (args[0] * 0,))
    same(compiled(X), module(X))
    second.remove()
    same(module(X), plain + 1)
    same(compiled(X), plain + 1)
    first.remove()
    same(compiled(X), plain)


def test_to_and_parameters(pair):
    module, compiled = pair
    assert compiled.to(torch.float64) is compiled
    assert module.linear.weight.dtype == torch.float64
    assert [id(each) for each in compiled.parameters()] == [id(each) for each in module.parameters()]
    optimizer = torch.optim.SGD(compiled.parameters(), lr=0.1)
    before = module.linear.weight.detach().clone()
    compiled(X.double()).pow(2).sum().backward()
    optimizer.step()
    assert not torch.equal(module.linear.weight, before)
    compiled.zero_grad()
    assert module.linear.weight.grad is None


def through_pickle(compiled):
    return pickle.loads(pickle.dumps(compiled))  # noqa: S301 (made in the line itself)


def through_torch(compiled):
    file = io.BytesIO()
    torch.save(compiled, file)
    file.seek(0)
    return torch.load(file, weights_only=False)


@pytest.mark.parametrize("copied", [copy.copy, copy.deepcopy, through_pickle, through_torch])
@pytest.mark.parametrize("nested", [False, True])
def test_copies_are_compiled_too(copied, nested):
    module = Net(scale=3.0).eval()
    compiled = ipy_dynwrap.compile(module, backend="eager")
    if nested:
        outer = copied(nn.Sequential(compiled, nn.ReLU()))
        copy_of_it = outer[0]
        same(outer(X), module(X).relu())
    else:
        copy_of_it = copied(compiled)
    before = ipy_dynwrap.cache_info().calls
    same(copy_of_it(X), module(X))
    assert ipy_dynwrap.cache_info().calls == before + 1
    assert isinstance(copy_of_it, Net)
    assert (copy_of_it is compiled) == (nested and copied is copy.copy)
    copy_of_it.scale = 1.0
    assert module.scale == (1.0 if copy_of_it is compiled else 3.0)


def test_copies_of_an_equal_module_share_the_compilation(counter):
    compiled = ipy_dynwrap.compile(Net().eval(), backend=counter)
    for each in (compiled, copy.deepcopy(compiled), copy.copy(compiled)):
        each(X)
    assert (counter.graphs, counter.runs) == (1, 3)


@pytest.mark.parametrize("outside", ["eager", "compile", "torch.compile"])
def test_inside_another_module(counter, outside):
    inner = Net().eval()
    outer = nn.Sequential(ipy_dynwrap.compile(inner, backend=counter), nn.ReLU())
    assert next(iter(outer.state_dict())) == "0.linear.weight"
    expected = inner(X).relu()
    run = {
        "eager": outer,
        "compile": ipy_dynwrap.compile(outer, backend=counter, fullgraph=True),
        "torch.compile": torch.compile(outer, backend=counter, fullgraph=True),
    }[outside]
    for _ in range(2):
        same(run(X), expected)
    assert (counter.graphs, counter.runs) == (1, 2)


def test_a_compiled_function_inside_one_that_torch_compiles(new_counter):
    inner, outer = new_counter(), new_counter()
    compiled = ipy_dynwrap.compile(double, backend=inner)

    @torch.compile(backend=outer, fullgraph=True)
    def inlined(x):
        return compiled(x) + 1

    same(inlined(X), X * 2 + 1)
    assert (inner.runs, outer.runs) == (0, 1)

    @torch.compile(backend=outer)
    def broken(x):
        x = x + 1
        torch._dynamo.graph_break()
        with torch.no_grad():
            return ipy_dynwrap.compile(double, backend=inner)(x) + 1

    for _ in range(2):
        same(broken(X), (X + 1) * 2 + 1)


class Lazy(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.LazyLinear(2)

    def forward(self, x):
        return self.layer(x)


@pytest.mark.filterwarnings("ignore:Lazy modules")
@pytest.mark.parametrize("make", [lambda: nn.LazyLinear(2), Lazy], ids=["itself", "inside"])
def test_lazy_modules_become_what_they_stand_for(make):
    module = make()
    compiled = ipy_dynwrap.compile(module, backend="eager")
    first = compiled(X)
    same(first, module(X))
    same(compiled(X), first)
    assert isinstance(compiled, type(module))
    assert type(compiled).__name__ == type(module).__name__
    assert list(compiled.state_dict()) == list(module.state_dict())


class WithSlots(nn.Module):
    __slots__ = ("factor",)

    def __init__(self, factor):
        super().__init__()
        self.factor = factor

    def forward(self, x):
        return x * self.factor


def test_a_module_with_slots():
    module = WithSlots(3)
    compiled = ipy_dynwrap.compile(module, backend="eager")
    same(compiled(X), X * 3)
    assert compiled.factor == 3
    compiled.factor = 4
    assert module.factor == 4
    module.factor = 5
    same(compiled(X), X * 5)
    del compiled.factor
    assert not hasattr(module, "factor")


class Registering(type):
    made: ClassVar = []

    def __new__(mcs, name, bases, namespace):
        cls = super().__new__(mcs, name, bases, namespace)
        mcs.made.append(name)
        return cls

    def __call__(cls, *args, **kwargs):
        instance = super().__call__(*args, **kwargs)
        instance.through_the_metaclass = True
        return instance


class Registered(nn.Module, metaclass=Registering):
    subclasses: ClassVar = []

    def __init_subclass__(cls, **kwargs):
        super().__init_subclass__(**kwargs)
        Registered.subclasses.append(cls)

    def forward(self, x):
        return x + 1


class AlsoRegistered(Registered):
    pass


def test_registers_of_classes_do_not_hear_of_the_compiled_one():
    compiled = ipy_dynwrap.compile(AlsoRegistered(), backend="eager")
    same(compiled(X), X + 1)
    assert compiled.through_the_metaclass
    assert type(type(compiled)) is Registering
    assert Registering.made == ["Registered", "AlsoRegistered"]
    assert Registered.subclasses == [AlsoRegistered]


class Abstract(nn.Module, abc.ABC):
    @abc.abstractmethod
    def forward(self, x): ...


class Concrete(Abstract):
    def forward(self, x):
        return x - 1


class Unrelated:
    pass


def test_abstract_base_classes_go_on_telling_instances_apart():
    module = Concrete()
    compiled = ipy_dynwrap.compile(module, backend="eager")
    same(compiled(X), X - 1)
    assert isinstance(compiled, Abstract)
    assert isinstance(compiled, Concrete)
    assert isinstance(module, Concrete)
    assert not isinstance(module, type(compiled))
    assert not isinstance(Unrelated(), Concrete)
    Abstract.register(Unrelated)
    assert isinstance(Unrelated(), Abstract)
    assert not isinstance(Unrelated(), type(compiled))


class OwnCall(nn.Module):
    def __call__(self, x):
        return super().__call__(x) + 100

    def forward(self, x):
        return x * 2


class OwnAttributes(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(3, 3)
        self.written = 0

    def __getattr__(self, name):
        try:
            return super().__getattr__(name)
        except AttributeError:
            return f"no {name}"

    def __setattr__(self, name, value):
        if name == "twice":
            name, value = "once", value * 2
        super().__setattr__(name, value)

    def forward(self, x):
        return self.linear(x)


@pytest.mark.parametrize("make", [OwnCall, OwnAttributes])
def test_special_methods_of_the_class_hold(way, counter, make):
    module = make()
    call = way(backend=counter)
    for _ in range(2):
        same(call(module, X), module(X))
    assert counter.runs == 2


def test_attribute_protocol_of_the_class_holds():
    module = OwnAttributes()
    compiled = ipy_dynwrap.compile(module, backend="eager")
    assert compiled.unknown == "no unknown"
    compiled.twice = 4
    assert module.once == compiled.once == 8


class Closing(nn.Module):
    closed: ClassVar = []

    def forward(self, x):
        return x

    def __del__(self):
        self.closed.append(id(self))


def test_the_module_ends_once_and_not_with_its_compiled_form():
    module = Closing()
    compiled = ipy_dynwrap.compile(module, backend="eager")
    compiled(X)
    del compiled
    gc.collect()
    assert Closing.closed == []
    known = id(module)
    del module
    gc.collect()
    assert Closing.closed == [known]


def test_a_module_whose_forward_is_replaced_on_the_instance(way):
    module = Net().eval()
    module.forward = types.MethodType(lambda self, x: self.linear(x) + 1, module)
    call = way(backend="eager")
    same(call(module, X), module.linear(X) + 1)


def test_weak_references_to_both(pair):
    module, compiled = pair
    assert weakref.ref(compiled)() is compiled
    assert hash(compiled) != hash(module) or compiled != module
    assert len({module, compiled}) == 2


def test_modules_that_torch_compiled_in_place(counter, new_counter):
    module = nn.Linear(3, 3)
    own = new_counter()
    module.compile(backend=own)
    same(ipy_dynwrap.compile(module, backend=counter)(X), module.forward(X))


def test_the_sentence_of_torch_about_a_loop_that_it_gives_up_is_kept():
    def loop(x):
        for _ in range(3):
            x = x + 1
            print(end="")  # noqa: T201 - breaks the graph
        return x

    same(ipy_dynwrap.compile(loop, backend="eager")(torch.ones(2)), torch.full((2,), 4.0))
    skipped = {each.detail for each in state.log.since() if getattr(each, "outcome", "") == "skipped"}
    [why] = [detail for detail in skipped if "graph break in a for/while loop" in detail]
    assert "`print`" in why
