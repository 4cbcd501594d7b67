"""Options: checked at once, and comparable."""

from __future__ import annotations

import pytest

pytest.importorskip("torch")

from ipy_dynwrap import dynamo
from ipy_dynwrap.options import Options, OptionsError


def backend(graph, inputs):
    return graph.forward


class Unhashable:
    __hash__ = None

    def __call__(self, graph, inputs):
        return graph.forward


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ({"backend": "eager"}, {"backend": "eager"}),
        ({"backend": "eager"}, {"backend": "eager", "mode": None, "dynamic": None}),
        ({"backend": backend}, {"backend": backend}),
        ({"options": {"a": 1, "b": [2]}, "backend": "eager"}, {"options": {"b": [2], "a": 1}, "backend": "eager"}),
    ],
)
def test_equal_options_compare_equal(one, other):
    assert Options.of(**one) == Options.of(**other)
    assert hash(Options.of(**one)) == hash(Options.of(**other))


@pytest.mark.parametrize(
    "other",
    [
        {"backend": "aot_eager"},
        {"backend": backend},
        {"backend": "eager", "fullgraph": True},
        {"backend": "eager", "dynamic": True},
        {"backend": "eager", "dynamic": False},
        {"backend": "eager", "options": {"a": 1}},
    ],
)
def test_other_options_compare_unequal(other):
    assert Options.of(backend="eager") != Options.of(**other)


def test_dynamic_true_is_not_one():
    assert Options.of(backend="eager", options={"a": True}) != Options.of(backend="eager", options={"a": 1})


def test_a_backend_without_a_hash_is_told_by_identity():
    one = Unhashable()
    assert Options.of(backend=one) == Options.of(backend=one)
    assert Options.of(backend=one) != Options.of(backend=Unhashable())


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"backend": "indcutor"}, r"unknown backend 'indcutor' \(did you mean 'inductor'\?\); known: .*eager"),
        ({"backend": 3}, "backend is a name or a callable, not int"),
        ({"mode": "max-autotun"}, r"unknown mode 'max-autotun' \(did you mean 'max-autotune.*'\?\); known: .*default"),
        ({"mode": "default", "options": {}}, "give mode or options, not both"),
        ({"mode": "reduce-overhead", "backend": "eager"}, "mode 'reduce-overhead' is for backend 'inductor' only"),
        ({"options": [1], "backend": "eager"}, "options is a mapping of setting to value, not list"),
        ({"fulgraph": True}, r"unknown option 'fulgraph' \(did you mean 'fullgraph'\?\); known: .*backend"),
        ({"model": None}, "unknown option 'model'"),
    ],
)
def test_what_is_wrong_is_said_in_one_sentence(given, message):
    with pytest.raises(OptionsError, match=message) as told:
        Options.of(**given)
    assert "\n" not in str(told.value)
    assert isinstance(told.value, ValueError)


def test_inductor_without_a_compiler_is_refused_with_the_way_out(monkeypatch):
    monkeypatch.setattr(
        dynamo, "compiler_problem", lambda: "backend 'inductor' needs a C++ compiler, and none was found"
    )
    with pytest.raises(OptionsError, match=r"needs a C\+\+ compiler.*aot_eager"):
        Options.of()
    assert Options.of(backend="aot_eager").backend == "aot_eager"


@pytest.mark.parametrize(
    ("given", "label"),
    [
        ({"backend": "eager"}, "eager"),
        ({"backend": "eager", "fullgraph": True, "dynamic": False}, "eager, fullgraph, static shapes"),
        ({"backend": backend, "dynamic": True}, "backend, dynamic shapes"),
        ({"backend": Unhashable()}, "Unhashable"),
        ({"mode": "reduce-overhead"}, "inductor, mode=reduce-overhead"),
    ],
)
def test_labels(given, label, monkeypatch):
    monkeypatch.setattr(dynamo, "compiler_problem", lambda: None)
    assert Options.of(**given).label == label


def test_labels_of_static_and_automatic_shapes_differ():
    assert Options.of(backend="eager", dynamic=False).label != Options.of(backend="eager").label
