"""From guards to fields: the parameters of a frame, and where a guard's source lies among them."""

from __future__ import annotations

import types

import pytest

from ipy_dynwrap.cache import Wrapper

pytest.importorskip("torch")

import torch
from torch import nn

from ipy_dynwrap import dynamo
from ipy_dynwrap.families import Family
from ipy_dynwrap.fields import Field
from ipy_dynwrap.learning import Compilation, bind
from ipy_dynwrap.wrappers import generate, parameters

X = torch.ones(2)


def code_of(function):
    """Return the code of the wrapper of a function."""
    return generate("test", "test", parameters(function.__code__)).__code__


GENERIC = generate("test", "test", None).__code__


def everything(a, /, b, *rest, c, d=4, **more):
    pass


def positional(a, b):
    pass


def keyword_only(*, c, d):
    pass


@pytest.mark.parametrize(
    ("code", "args", "kwargs", "bound"),
    [
        (GENERIC, (), {}, {"args": (), "kwargs": {}}),
        (GENERIC, (1, 2), {"k": 3}, {"args": (1, 2), "kwargs": {"k": 3}}),
        (GENERIC, (), {"args": 1, "target": 2}, {"args": (), "kwargs": {"args": 1, "target": 2}}),
        (code_of(positional), (1, 2), {}, {"a": 1, "b": 2}),
        (code_of(positional), (1,), {}, {"a": 1}),
        (code_of(keyword_only), (), {"c": 1, "d": 2}, {"c": 1, "d": 2}),
        (
            code_of(everything),
            (1, 2, 3, 4),
            {"c": 5, "d": 6, "e": 7},
            {"a": 1, "b": 2, "rest": (3, 4), "c": 5, "d": 6, "more": {"e": 7}},
        ),
    ],
)
def test_parameters_are_bound_as_the_call_sets_them(code, args, kwargs, bound):
    target = object()
    assert bind(code, target, args, kwargs) == {code.co_varnames[0]: target, **bound}


@pytest.mark.parametrize("function", [everything, positional, keyword_only, None])
def test_parameters_are_those_of_the_frame(function):
    """Compare with what Python itself puts into the variables of the frame."""
    seen = {}
    args, kwargs = {
        everything: ((1, 2, 3), {"c": 4, "d": 5, "e": 6}),
        positional: ((1, 2), {}),
        keyword_only: ((), {"c": 1, "d": 2}),
        None: ((1,), {"k": 2}),
    }[function]

    def target(*args, **kwargs):
        import inspect

        seen.update(inspect.currentframe().f_back.f_locals)

    wrapper = generate("test", "test", parameters(function.__code__) if function else None)
    wrapper(target, *args, **kwargs)
    assert bind(wrapper.__code__, target, args, kwargs) == seen


class Inner(nn.Module):
    def __init__(self, k):
        super().__init__()
        self.k = k


class Outer(nn.Module):
    def __init__(self, k=1):
        super().__init__()
        self.inner = Inner(k)
        self.deep = nn.Sequential(nn.Sequential(Inner(k)))


@pytest.fixture
def pretend(monkeypatch):
    """Return what lets a family learn from guards that are given as texts."""
    guards = {}
    monkeypatch.setattr(dynamo, "guard_texts", lambda entry: guards[entry])

    def run(target, args, earlier, new, inner=None):
        made = Wrapper("w", "module", "t", "", GENERIC, lambda: None, 8)
        family = Family(
            make=lambda *_: made,
            serves=lambda *_: False,
            value_limit=lambda: 8,
            wrapper_limit=lambda: 64,
            spend=lambda *_: None,
            words=str,
            drop=lambda _: None,
            is_idle=lambda _: False,
            cells=lambda: 0,
        )
        guards.clear()
        guards.update({f"entry {i}": texts for i, texts in enumerate([*earlier, new])})
        parameters = {"target": target, "args": args, "kwargs": {}}
        f_locals = parameters if inner is None else inner
        frame = dynamo.Frame(GENERIC if inner is None else positional.__code__, f_locals, {})
        kept = []
        for entry in guards:
            kept.append(code_of(positional).replace(co_name=f"entry_{len(kept)}"))
            compilation = Compilation(family, family.first(), parameters, frame)
            compilation.prepare()
            learned = compilation.learn(kept[-1], entry)
        return {(each.source, each.aspect) for each in learned}

    return run


def test_a_first_entry_teaches_nothing(pretend):
    assert pretend(types.SimpleNamespace(k=1), (), [], ["L['target'].k == 1"]) == set()


def test_values_of_the_target_are_fields(pretend):
    target = types.SimpleNamespace(k=2, other=1)
    earlier = [["L['target'].k == 1", "L['target'].other == 1"]]
    assert pretend(target, (), earlier, ["L['target'].k == 2", "L['target'].other == 1"]) == {("target.k", "value")}


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ((2,), "L['args'][0] == {}"),
        (([2],), "L['args'][0][0] == {}"),
        (({"k": 2},), "L['args'][0]['k'] == {}"),
        (((1, 2),), "len(L['args'][0]) == {}"),
    ],
    ids=["number", "list", "dict", "length"],
)
def test_plain_arguments_are_inputs(pretend, arguments, text):
    assert pretend(object(), arguments, [[text.format(1)]], [text.format(2)]) == set()


def test_tensors_are_inputs(pretend):
    check = (
        "check_tensor(L['args'][0], Tensor, DispatchKeySet(CPU), torch.float32, device=None, requires_grad=False, "
        "size=[{0}], stride=[1])"
    )
    assert pretend(object(), (X,), [[check.format(3)]], [check.format(2)]) == set()


def test_weights_of_the_target_are_fields(pretend):
    check = (
        "check_tensor(L['target']._parameters['weight'], Parameter, DispatchKeySet(CPU), torch.float32, device=None, "
        "requires_grad=True, size=[{0}, 3], stride=[3, 1])"
    )
    target = nn.Linear(3, 2)
    learned = pretend(target, (X,), [[check.format(7)]], [check.format(2)])
    assert learned == {("target._parameters['weight']", "size 0")}


@pytest.mark.parametrize(
    ("arguments", "source"),
    [
        ((types.SimpleNamespace(k=2),), "L['args'][0].k"),
        (([types.SimpleNamespace(k=2)],), "L['args'][0][0].k"),
        (({"settings": types.SimpleNamespace(k=2)},), "L['args'][0]['settings'].k"),
    ],
)
def test_objects_among_the_arguments_have_fields(pretend, arguments, source):
    learned = pretend(object(), arguments, [[f"{source} == 1"]], [f"{source} == 2"])
    assert learned == {(source.replace("L['args']", "args"), "value")}


def test_frames_after_a_graph_break_are_placed_in_the_target(pretend):
    target = Outer(2)
    learned = pretend(target, (X,), [["L['self'].k == 1"]], ["L['self'].k == 2"], {"self": target.inner, "x": X})
    assert learned == {("target._modules['inner'].k", "value")}


def test_frames_after_a_graph_break_are_placed_deep_in_the_target(pretend):
    target = Outer(2)
    learned = pretend(target, (X,), [["L['m'].k == 1"]], ["L['m'].k == 2"], {"m": target.deep[0][0]})
    assert learned == {("target._modules['deep']._modules['0']._modules['0'].k", "value")}


def test_frames_after_a_graph_break_are_placed_in_the_target_itself(pretend):
    target = Inner(2)
    learned = pretend(target, (X,), [["L['self'].k == 1"]], ["L['self'].k == 2"], {"self": target})
    assert learned == {("target.k", "value")}


def test_classes_that_a_frame_after_a_graph_break_looks_at_are_placed(pretend):
    target = Inner(2)
    number = id(Inner.__call__.__code__)
    check = "___check_obj_id(type(L['self']).__call__.__code__, {}), type=<class 'code'>"
    learned = pretend(target, (X,), [[check.format(7)]], [check.format(number)], {"self": target})
    assert learned == {("type(target).__call__.__code__", "identity")}


def test_what_else_a_frame_after_a_graph_break_has_is_not_placed(pretend):
    stranger = Inner(2)
    assert pretend(Outer(2), (X,), [["L['self'].k == 1"]], ["L['self'].k == 2"], {"self": stranger}) == set()


def test_a_small_number_is_no_place(pretend):
    """A variable of an inner frame is not the parameter that happens to have the same number in it."""
    assert pretend(Outer(2), (X,), [["L['k'] == 1"]], ["L['k'] == 2"], {"k": 2}) == set()


def test_a_guard_that_is_odd_teaches_nothing(pretend):
    assert pretend(Outer(2), (X,), [["L['target'"]], ["L['target'].k ==", "", "L['nothing'].k == 2"]) == set()


def test_an_entry_is_not_compared_with_itself(pretend):
    assert pretend(types.SimpleNamespace(k=2), (), [], ["L['target'].k == 1", "L['target'].k == 2"]) == set()


def test_fields_are_of_the_receiver_by_whatever_name():
    function = generate("test", "test", parameters((lambda target: 0).__code__))
    assert function.__code__.co_varnames[0] != "target"
    bound = bind(function.__code__, X, (1,), {})
    assert bound == {function.__code__.co_varnames[0]: X, "target": 1}
    assert Field("target", "value").read(bound) == ("int", 1)
