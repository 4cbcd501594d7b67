"""Generated wrappers, and parameter lists as source text."""

from __future__ import annotations

import inspect
import linecache

import pytest

from ipy_dynwrap.wrappers import generate, parameters, stable_name


def test_names_are_unique_and_the_same_from_run_to_run():
    taken = set()
    names = []
    for _ in range(3):
        names.append(stable_name("module", "Net", "eager", "__main__", taken))
        taken.add(names[-1])
    assert names[0] == "Net#" + names[0].split("#")[1]
    assert names[1:] == [f"{names[0]}.2", f"{names[0]}.3"]
    assert stable_name("module", "Net", "eager", "__main__", set()) == names[0]


@pytest.mark.parametrize(
    "other",
    [
        ("function", "Net", "eager", "__main__"),
        ("module", "Net2", "eager", "__main__"),
        ("module", "Net", "inductor", "__main__"),
        ("module", "Net", "eager", "models"),
        ("module", "Net", "eager__main__", ""),
    ],
)
def test_names_differ_with_what_they_are_for(other):
    assert stable_name(*other, set()) != stable_name("module", "Net", "eager", "__main__", set())


def record(*args, **kwargs):
    return args, kwargs


def test_a_wrapper_of_anything_passes_on_what_it_is_given():
    made = generate("n#1", "Net")
    assert made(record, 1, 2, a=3, target=4, args=5) == ((1, 2), {"a": 3, "target": 4, "args": 5})
    assert made.__code__.co_name == "Net"
    assert made.__code__.co_filename == "<ipy_dynwrap n#1>"


def test_each_wrapper_has_code_and_globals_of_its_own():
    first, second = generate("n#1", "Net"), generate("n#2", "Net")
    assert first.__code__ is not second.__code__
    assert first.__globals__ is not second.__globals__


def test_the_source_can_be_quoted():
    generate("quoted#1", "Net")
    assert "target(*args, **kwargs)" in linecache.getline("<ipy_dynwrap quoted#1>", 2)
    linecache.checkcache()
    assert linecache.getline("<ipy_dynwrap quoted#1>", 2)


def f0(): ...
def f1(x, n=2): ...
def f2(a, b, /, c): ...
def f3(*args, **kwargs): ...
def f4(x, *, key=1, other): ...
def f5(a, /, b, *rest, key, **more): ...
def f6(target, args, kwargs, target_): ...
def f7(a, /): ...


@pytest.mark.parametrize(
    ("function", "args", "kwargs"),
    [
        (f0, (), {}),
        (f1, (1, 2), {}),
        (f2, (1, 2, 3), {}),
        (f3, (1, 2), {"a": 3}),
        (f4, (1,), {"key": 2, "other": 3}),
        (f5, (1, 2, 3, 4), {"key": 5, "a": 6}),
        (f6, (1, 2, 3, 4), {}),
        (f7, (1,), {}),
    ],
)
def test_a_wrapper_of_a_function_has_its_parameters(function, args, kwargs):
    made = generate("n#1", function.__name__, parameters(function.__code__))
    assert made(record, *args, **kwargs) == (args, kwargs)
    own = [each.replace(default=inspect.Parameter.empty) for each in inspect.signature(function).parameters.values()]
    receiver, *mine = inspect.signature(made).parameters.values()
    assert receiver.kind is inspect.Parameter.POSITIONAL_ONLY
    assert receiver.name not in {each.name for each in own}
    assert [each.name for each in mine] == [each.name for each in own]


@pytest.mark.parametrize("name", ["<lambda>", "Net.method", "class", "1st", "mit Leerzeichen", "größe"])
def test_any_name_makes_an_identifier(name):
    made = generate("n#1", name)
    assert made.__code__.co_name.isidentifier()
    assert made(record, 1) == ((1,), {})


def test_parameters_as_text():
    given = parameters(f5.__code__, default={"b": "_", "key": "_"})
    assert given.declared == "a, /, b=_, *rest, key=_, **more"
    assert (given.positional, given.keyword_only, given.rest) == (("a", "b", "*rest"), ("key",), ("**more",))
    assert parameters(f4.__code__).declared == "x, *, key, other"


@pytest.mark.parametrize(("skip", "declared"), [(0, "a, b, /, c"), (1, "b, /, c"), (2, "c"), (3, "")])
def test_bound_parameters_are_left_out(skip, declared):
    assert parameters(f2.__code__, skip=skip).declared == declared
