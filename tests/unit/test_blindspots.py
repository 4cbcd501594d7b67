"""The facts that an entry depends on: what changes them, what does not, and what they keep alive."""

from __future__ import annotations

import abc
import functools
import gc
import sys
import weakref
from collections.abc import Mapping

import pytest

pytest.importorskip("torch")

from torch.nn import Module

from ipy_dynwrap import _native, blindspots, dynamo
from ipy_dynwrap.blindspots import Facts, GlobalHooks, Methods, Registered, said


def classes():
    class Base:
        count = 0

        def inherited(self):
            return 1

    class Derived(Base):
        def method(self, x=1, *, y=2):
            return x + y

        @classmethod
        def of_the_class(cls):
            return 1

        @staticmethod
        def static():
            return 1

        @property
        def computed(self):
            return 1

        @functools.cached_property
        def remembered(self):
            return 1

        def __call__(self):
            return 1

    return Derived, Base


REPLACEMENTS = {
    "method": lambda self: 2,
    "inherited": lambda self: 2,
    "of_the_class": classmethod(lambda cls: 2),
    "static": staticmethod(lambda: 2),
    "computed": property(lambda self: 2),
    "remembered": functools.cached_property(lambda self: 2),
    "__call__": lambda self: 2,
    "new": lambda self: 2,
}


@pytest.mark.parametrize("name", REPLACEMENTS)
def test_a_replaced_method_is_seen_and_so_is_its_return(name):
    derived, base = classes()
    methods = Methods([derived])
    owner = base if name == "inherited" else derived
    before = vars(owner).get(name)
    assert methods.holds()
    setattr(owner, name, REPLACEMENTS[name])
    assert not methods.holds()
    assert methods.changed == "a method of Derived was replaced"
    if before is None:
        delattr(owner, name)
    else:
        setattr(owner, name, before)
    assert methods.holds()
    assert methods.holds()


@pytest.mark.parametrize("name", ["method", "of_the_class", "static", "computed", "remembered", "__call__"])
def test_a_method_that_is_taken_away_is_seen(name):
    derived, _ = classes()
    methods = Methods([derived])
    delattr(derived, name)
    assert not methods.holds()


@pytest.mark.parametrize("name", ["method", "inherited", "of_the_class", "static", "computed", "remembered"])
@pytest.mark.parametrize("part", ["__code__", "__defaults__", "__kwdefaults__"])
def test_a_part_that_is_replaced_in_place_is_seen(name, part):
    derived, base = classes()
    value = vars(base if name == "inherited" else derived)[name]
    function = {
        "of_the_class": lambda: value.__func__,
        "static": lambda: value.__func__,
        "computed": lambda: value.fget,
        "remembered": lambda: value.func,
    }.get(name, lambda: value)()
    methods = Methods([derived])
    before = getattr(function, part)
    new = {"__code__": (lambda self: 3).__code__, "__defaults__": (5,), "__kwdefaults__": {"y": 5}}
    setattr(function, part, new[part])
    assert not methods.holds()
    assert methods.changed == "the code or a default of a method was replaced"
    setattr(function, part, before)
    assert methods.holds()


def test_a_class_attribute_that_is_no_function_changes_nothing(monkeypatch):
    derived, _ = classes()
    methods = Methods([derived])
    closer = []
    look_closer = Methods._look_closer
    monkeypatch.setattr(Methods, "_look_closer", lambda self: closer.append(1) or look_closer(self))
    for count in range(5):
        derived.count = count
        assert methods.holds()
        assert methods.holds()
    # Each change is looked at once.
    assert len(closer) == 5


def test_without_versions_the_functions_are_compared(monkeypatch):
    derived, _ = classes()
    monkeypatch.setattr(_native, "versions", lambda references: bytes(4 * len(references)))
    methods = Methods([derived])
    assert methods.holds()
    derived.method = lambda self: 2
    assert not methods.holds()


def test_a_class_that_is_gone_does_not_hold():
    class Gone:
        pass

    methods = Methods([Gone])
    del Gone
    gc.collect()
    assert not methods.holds()
    assert methods.changed == "a method of a class was replaced"


def test_classes_and_functions_are_not_kept():
    derived, base = classes()
    methods, old = Methods([derived]), weakref.ref(vars(derived)["method"])
    references = weakref.ref(derived), weakref.ref(base)
    derived.method = lambda self: 2
    gc.collect()
    assert old() is None
    assert not methods.holds()
    del derived, base
    gc.collect()
    assert [reference() for reference in references] == [None, None]


def test_classes_that_cannot_change_are_left_out():
    assert Methods([int, list, dict, int])._classes == ()
    assert Methods([int]).holds()


def test_a_class_counts_once():
    derived, _ = classes()
    assert len(Methods([derived, derived])._classes) == 1


def test_a_metaclass_of_the_users_is_not_asked():
    class Meta(type):
        def __getattribute__(cls, name):
            if name == "__dynwrap_absent__":
                pytest.fail("the metaclass was asked")
            return super().__getattribute__(name)

        def __getattr__(cls, name):
            pytest.fail("the metaclass was asked")

    class Asked(metaclass=Meta):
        def method(self):
            return 1

    methods = Methods([Asked])
    assert methods.holds()
    Asked.method = lambda self: 2
    assert not methods.holds()


@pytest.fixture
def hooks(monkeypatch):
    """Return the hooks of all modules, which are pretended."""
    registered = []
    monkeypatch.setattr(dynamo, "global_hooks", lambda: tuple(registered))
    return registered


def test_hooks_of_all_modules(hooks):
    def hook():
        pass

    none = GlobalHooks()
    hooks.append(hook)
    one = GlobalHooks()
    assert (none.holds(), one.holds()) == (False, True)
    hooks.insert(0, None)
    assert (none.holds(), one.holds()) == (False, False)
    hooks[:] = [lambda: None]
    assert (none.holds(), one.holds()) == (False, False)
    hooks[:] = [hook]
    assert (none.holds(), one.holds()) == (False, True)
    hooks.clear()
    assert (none.holds(), one.holds()) == (True, False)


def test_hooks_are_not_kept(hooks):
    hooks.append(lambda: None)
    facts, reference = GlobalHooks(), weakref.ref(hooks[0])
    hooks.clear()
    gc.collect()
    assert reference() is None
    hooks.append(lambda: None)
    assert not facts.holds()


def test_a_hook_without_weak_references_is_compared_as_well(hooks):
    class Slotted:
        __slots__ = ()

        def __call__(self):
            pass

    hooks.append(Slotted())
    facts = GlobalHooks()
    assert facts.holds()
    hooks[0] = Slotted()
    assert not facts.holds()


def test_the_real_hooks_of_each_kind_are_seen():
    from torch.nn.modules import module

    for register, options in (
        (module.register_module_forward_hook, {}),
        (module.register_module_forward_hook, {"always_call": True}),
        (module.register_module_forward_pre_hook, {}),
        (module.register_module_full_backward_hook, {}),
        (module.register_module_full_backward_pre_hook, {}),
    ):
        facts = GlobalHooks()
        handle = register(lambda *_: None, **options)
        try:
            assert not facts.holds()
            assert GlobalHooks().holds()
        finally:
            handle.remove()
        assert facts.holds()


def test_hooks_of_two_kinds_are_told_apart():
    from torch.nn.modules import module

    def hook(*_):
        return None

    first = module.register_module_forward_pre_hook(hook)
    facts = GlobalHooks()
    first.remove()
    second = module.register_module_forward_hook(hook)
    try:
        assert not facts.holds()
    finally:
        second.remove()


def abstract_classes():
    class Above(abc.ABC):  # noqa: B024 - registering is all that it is for
        pass

    class Below(Above):
        pass

    class Other(abc.ABC):  # noqa: B024
        pass

    return Above, Below, Other


@pytest.mark.parametrize("level", [0, 1])
def test_a_class_that_is_registered_is_seen(level):
    above, below, other = abstract_classes()
    registered = Registered([above])
    other.register(type("Unrelated", (), {}))
    assert registered.holds()
    assert registered.holds()
    (above, below)[level].register(new := type("New", (), {}))
    assert not registered.holds()
    later = Registered([above])
    assert later.holds()
    del new
    gc.collect()
    assert registered.holds()


def test_abstract_classes_and_what_is_registered_are_not_kept():
    above, below, _ = abstract_classes()
    above.register(new := type("New", (), {}))
    registered, references = Registered([above]), [weakref.ref(each) for each in (above, below, new)]
    del above, below, new
    gc.collect()
    assert [reference() for reference in references] == [None, None, None]
    assert registered.holds()


def test_only_ones_own_abstract_classes_have_a_fact():
    above, _, _ = abstract_classes()
    kinds = [[type(fact) for fact in Facts(classes)._facts] for classes in ([above], [Mapping], [int, Module])]
    assert kinds == [[Methods, GlobalHooks, Registered], *[[Methods, GlobalHooks]] * 2]


def test_no_metaclass_is_asked_who_is_registered():
    asked = []

    class Meta(abc.ABCMeta):
        def __eq__(cls, other):
            asked.append(other)
            return cls is other

        __hash__ = abc.ABCMeta.__hash__

        def __subclasses__(cls):
            asked.append(cls)
            return super().__subclasses__()

    class Asked(metaclass=Meta):
        pass

    class Below(Asked):
        pass

    registered = Registered([Asked])
    for abstract in (Asked, Below):
        abstract.register(Meta(abstract.__name__, (), {}))
        asked.clear()
        assert not registered.holds()
        assert not asked


def test_facts_say_what_changed(hooks):
    derived, _ = classes()
    facts = Facts([derived])
    text = facts.text
    assert facts({})
    derived.method = lambda self: 2
    assert not facts({})
    assert said(f"0/1: {text}  # some comment") == "a method of Derived was replaced"
    other = Facts([derived])
    hooks.append(None)
    assert not other({})
    assert said(other.text) == "hooks of all modules changed"
    assert said(text) == "a method of Derived was replaced"
    abstract, _, _ = abstract_classes()
    hooks.clear()
    registered = Facts([abstract])
    abstract.register(derived)
    assert not registered({})
    assert said(registered.text) == "a class was registered with an abstract one"


def test_facts_that_are_gone_still_have_words():
    facts = Facts([])
    text, number = facts.text, facts.number
    del facts
    gc.collect()
    assert number not in blindspots._known
    assert said(text) == "a method was replaced"


def test_other_texts_are_not_about_facts():
    assert said("L['target'].k == 2") is None


@pytest.mark.parametrize(
    "dictionary", ["G['__import___main__'].__dict__", "G['__import_a_dot_b'].__dict__", "G['___unnamed_scope_1_c0/0']"]
)
def test_a_builtin_that_is_shadowed_is_said(dictionary):
    assert said(f"0/0: not ___dict_contains('sum', {dictionary})  # return sum(x)") == "`sum` is a global now"


@pytest.mark.parametrize("cls", ["type(L['target'])", "type(L['target']).__mro__[1]", "L['target']"])
def test_an_attribute_that_a_class_gets_is_said(cls):
    assert said(f"0/0: not ___dict_contains('q', dict({cls}.__dict__))  # return x") == "q was set on a class"


def test_the_order_of_a_dictionary_is_said():
    text = "(list(L['target'].table) == ['a', 'b']) == True  # for k in self.table:"
    assert said(f"0/0: {text}") == "the order of an OrderedDict changed"


@pytest.mark.parametrize("environ", ["G['__import_os'].environ", "G['__import_m'].environ", "L['environ'].environ"])
@pytest.mark.parametrize(
    ("text", "now", "words"),
    [
        ("not ___dict_contains(b'A_TEST', {}._data)", "x", "os.environ['A_TEST'] was set"),
        ("{}._data[b'A_TEST'] == b'x'", "y", "os.environ['A_TEST'] 'x' -> 'y'"),
        ("{}._data[b'A_TEST'] == b''", "y", "os.environ['A_TEST'] '' -> 'y'"),
        ("KeyError on {}._data[b'A_TEST']", None, "os.environ['A_TEST'] is gone"),
    ],
)
def test_an_environment_variable_that_changes_is_said(monkeypatch, environ, text, now, words):
    monkeypatch.delenv("A_TEST", raising=False)
    if now is not None:
        monkeypatch.setenv("A_TEST", now)
    assert said(f"0/0: {text.format(environ)}  # <frozen os>:676 in __getitem__\nUser stack trace:\n") == words


def test_a_fact_that_cannot_be_compared_does_not_hold(monkeypatch):
    facts = Facts([])
    monkeypatch.setattr(dynamo, "global_hooks", lambda: 1 / 0)
    assert not facts({})
    assert said(facts.text) == "something could not be compared"


def test_comparing_leaks_nothing():
    derived, _ = classes()
    facts = Facts([derived])
    counted = [derived, vars(derived)["method"], facts]
    facts({})
    before = [sys.getrefcount(each) for each in counted]
    for count in range(10_000):
        if not count % 100:
            derived.count = count
        assert facts({})
    assert [sys.getrefcount(each) for each in counted] == before
