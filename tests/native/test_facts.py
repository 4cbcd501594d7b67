"""Facts about classes and functions, and what changes them."""

from __future__ import annotations

import contextlib
import gc
import sys
import weakref

import pytest

from ipy_dynwrap import _native


def family():
    """Return a class with two bases, and these."""

    class Base:
        factor = 1

        def method(self):
            return self.factor

    class Mixin:
        def mixed(self):
            return self

    class Derived(Base, Mixin):
        pass

    return Derived, Base, Mixin


def tagged(*classes):
    """Return references to classes that have a version each."""
    for cls in classes:
        with contextlib.suppress(AttributeError):
            cls.absent_in_every_class  # noqa: B018 - a look-up gives a class its version
    return tuple(map(weakref.ref, classes))


def version(cls):
    return _native.versions(tagged(cls))


def function():
    def run(x, y=1, *, z=2):
        return x + y + z

    return run


def test_a_class_has_a_version_of_its_own():
    derived, base, _ = family()
    both = _native.versions(tagged(derived, base))
    first, second = memoryview(both).cast("I")
    assert 0 not in (first, second)
    assert first != second
    assert both == version(derived) + version(base)


@pytest.mark.parametrize("owner", [0, 1, 2], ids=["the class", "a base", "a mixin"])
@pytest.mark.parametrize(
    "change",
    [
        lambda cls: setattr(cls, "method", lambda self: 7),
        lambda cls: setattr(cls, "new", 1),
        lambda cls: setattr(cls, "__call__", lambda self: 7),
    ],
    ids=["a method", "an attribute", "a special method"],
)
def test_a_version_changes_with_the_class_and_its_bases(owner, change):
    classes = family()
    before = version(classes[0])
    change(classes[owner])
    assert _native.versions((weakref.ref(classes[0]),)) != before
    assert version(classes[0]) != before


def test_a_version_changes_when_an_attribute_goes():
    derived, base, _ = family()
    before = version(derived)
    del base.factor
    assert version(derived) != before


def test_a_version_changes_when_the_bases_do():
    derived, base, mixin = family()
    before = version(derived)
    derived.__bases__ = (mixin, base)
    assert version(derived) != before


def test_a_version_stays_with_what_happens_to_instances_and_to_derived_classes():
    derived, base, mixin = family()
    before = _native.versions(tagged(base, mixin))
    instance = derived()
    instance.factor = 2
    instance.method = lambda: 3
    del instance.factor
    derived.factor = 5
    assert _native.versions(tagged(base, mixin)) == before


def test_a_version_that_is_not_valid_is_zero():
    derived, base, _ = family()
    tagged(derived)
    base.factor = 2
    assert _native.versions((weakref.ref(derived),)) == bytes(4)


def test_no_classes_have_no_versions():
    assert _native.versions(()) == b""


def test_a_class_that_is_gone_has_the_version_zero():
    class Gone:
        pass

    reference, living = weakref.ref(Gone), weakref.ref(int)
    del Gone
    gc.collect()
    assert reference() is None
    first, second, third = memoryview(_native.versions((reference, living, reference))).cast("I")
    assert (first, third) == (0, 0)
    assert second != 0


def test_what_is_no_class_has_the_version_zero():
    kept = function()
    assert _native.versions((weakref.ref(kept),)) == bytes(4)


def test_the_parts_of_functions_are_found_side_by_side():
    def bare():
        return None

    full = function()
    parts = _native.parts((weakref.ref(full), weakref.ref(bare)))
    expected = (full.__code__, full.__defaults__, full.__kwdefaults__, bare.__code__, None, None)
    assert len(parts) == len(expected)
    assert all(part is each for part, each in zip(parts, expected, strict=True))


@pytest.mark.parametrize(
    ("change", "back"),
    [
        (
            lambda run: setattr(run, "__code__", (lambda x, y=1, *, z=2: 7).__code__),
            lambda run, parts: setattr(run, "__code__", parts[0]),
        ),
        (
            lambda run: setattr(run, "__defaults__", (7,)),
            lambda run, parts: setattr(run, "__defaults__", parts[1]),
        ),
        (
            lambda run: setattr(run, "__defaults__", None),
            lambda run, parts: setattr(run, "__defaults__", parts[1]),
        ),
        (
            lambda run: setattr(run, "__kwdefaults__", {"z": 2}),
            lambda run, parts: setattr(run, "__kwdefaults__", parts[2]),
        ),
    ],
    ids=["code", "defaults", "no defaults", "keyword-only defaults"],
)
@pytest.mark.parametrize("place", [0, 1], ids=["first", "last"])
def test_parts_are_the_same_until_one_is_replaced(change, back, place):
    functions = function(), function()
    references = tuple(map(weakref.ref, functions))
    parts = _native.parts(references)
    assert _native.same_parts(references, parts) is True
    change(functions[place])
    assert _native.same_parts(references, parts) is False
    back(functions[place], parts[3 * place :])
    assert _native.same_parts(references, parts) is True


def test_parts_are_the_same_whatever_else_happens_to_a_function():
    run = function()
    references = (weakref.ref(run),)
    parts = _native.parts(references)
    run.__name__ = run.__qualname__ = "walk"
    run.note = 1
    run.__doc__ = "Said."
    run.__annotations__ = {"x": int}
    assert _native.same_parts(references, parts) is True


def test_a_function_that_is_gone_has_no_parts():
    run = function()
    references = (weakref.ref(run),)
    parts = _native.parts(references)
    del run
    assert _native.parts(references) == (None, None, None)
    assert _native.same_parts(references, parts) is False
    assert _native.same_parts(references, (None, None, None)) is True


def test_what_is_no_function_has_no_parts():
    assert _native.parts((weakref.ref(int),)) == (None, None, None)


def test_no_functions_have_the_same_parts():
    assert _native.same_parts((), _native.parts(())) is True


@pytest.mark.parametrize("name", ["versions", "parts"])
@pytest.mark.parametrize(
    "references",
    [None, 1, [], [weakref.ref(int)], (int,), (weakref.ref(int), None), (function(),)],
    ids=["None", "1", "no tuple", "a list", "a class", "None beside one", "a function"],
)
def test_anything_but_a_tuple_of_weak_references_is_refused(name, references):
    with pytest.raises(TypeError):
        getattr(_native, name)(references)


@pytest.mark.parametrize("name", ["versions", "parts", "same_parts"])
def test_a_missing_or_surplus_argument_is_refused(name):
    ask = getattr(_native, name)
    with pytest.raises(TypeError):
        ask()
    with pytest.raises(TypeError):
        ask((), (), ())


@pytest.mark.parametrize("references", [None, [], (int,), (None,)], ids=repr)
def test_comparing_anything_but_a_tuple_of_weak_references_is_refused(references):
    with pytest.raises(TypeError):
        _native.same_parts(references, ())


@pytest.mark.parametrize("parts", [None, 1, [None, None, None], (), (None,), (None,) * 4, (None,) * 6], ids=repr)
def test_parts_of_other_functions_are_refused(parts):
    run = function()
    with pytest.raises(TypeError):
        _native.same_parts((weakref.ref(run),), parts)


def test_reference_counts_stay_level():
    run, (derived, _, _) = function(), family()
    functions, classes = (weakref.ref(run),), tagged(derived)
    gone = function()
    functions_gone = (weakref.ref(gone),)
    del gone
    parts = _native.parts(functions)
    counted = [
        run,
        run.__code__,
        run.__defaults__,
        run.__kwdefaults__,
        derived,
        functions,
        functions[0],
        classes,
        parts,
    ]

    def ask():
        _native.versions(classes)
        _native.parts(functions)
        _native.same_parts(functions, parts)
        _native.parts(functions_gone)
        with contextlib.suppress(TypeError):
            _native.same_parts(functions, ())
        with contextlib.suppress(TypeError):
            _native.versions((run,))

    ask()
    before = [sys.getrefcount(each) for each in counted]
    for _ in range(100_000):
        ask()
    assert [sys.getrefcount(each) for each in counted] == before
