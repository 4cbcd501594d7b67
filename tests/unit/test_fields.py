"""Fields: what a guard's text pins, and how it is read on a call. The texts are torch's own."""

from __future__ import annotations

import functools
import types
import weakref
from collections import deque
from typing import NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ipy_dynwrap.fields import ABSENT, Field, is_plain, requirements
from ipy_dynwrap.sources import presence
from ipy_dynwrap.values import value_of

REST = "  # return target(*args, **kwargs)  # <ipy_dynwrap Net#0f5c7adc>:2 in Net"
CHECK_TENSOR = (
    "check_tensor(L['target']._parameters['weight'], Parameter, DispatchKeySet(CPU, BackendSelect, ADInplaceOrView, "
    "AutogradCPU), torch.float32, device=None, requires_grad=True, size=[5, None], stride=[None, 1])"
    "  # return F.linear(input, self.weight, self.bias)  # nn/modules/linear.py:134 in forward"
)
WEIGHT = "target._parameters['weight']"
CELL = "target.__closure__[0].cell_contents"

LONG = "a 'long' text # with \"everything\" in it\n" * 500

PINNED = {
    "L['target'].inplace == False                                  # return F.relu(input, inplace=self.inplace)": {
        Field("target.inplace", "value"): ("bool", False)
    },
    "L['target'].scale == 2" + REST + " (HINT: torch.compile considers integer attributes static)": {
        Field("target.scale", "value"): ("int", 2)
    },
    "L['target'].scale == 2.5": {Field("target.scale", "value"): ("float", 2.5)},
    "L['target'].scale == -2": {Field("target.scale", "value"): ("int", -2)},
    "L['target'].approximate == 'none'                             # x": {
        Field("target.approximate", "value"): ("str", "none")
    },
    "L['target'].word == 'a # b'" + REST: {Field("target.word", "value"): ("str", "a # b")},
    "L['target'].extra is None" + REST: {Field("target.extra", "value"): ("NoneType", None)},
    "L['target'].dtype == torch.float32" + REST: {Field("target.dtype", "value"): ("text", "torch.float32")},
    "L['x'] == 4": {Field("x", "value"): ("int", 4)},
    "L['args'][0].k == 2": {Field("args[0].k", "value"): ("int", 2)},
    f"L['target'].__closure__[0].cell_contents == 0{REST} (HINT: guard on \"value\")": {
        Field(CELL, "value"): ("int", 0)
    },
    "L['target'].extra is not None": {Field("target.extra", "value"): ABSENT},
    "L['target'].extra != 3": {Field("target.extra", "value"): ABSENT},
    "___check_type_id(L['target'], 94159125048960), type=<class 'torch.nn.modules.activation.ReLU'>" + REST: {
        Field("target", "type"): 94159125048960
    },
    "___check_type_id(L['target']._modules['inner'], 94159122866432), type=<class 'torch.nn.GELU'>": {
        Field("target._modules['inner']", "type"): 94159122866432
    },
    "__check_obj_id(list(dict.keys(L['target'].d))[0], 12)     # comment": {
        Field("list(dict.keys(target.d))[0]", "identity"): 12
    },
    "___check_fake_script_type(L['target'].queue, 12), type=<class 'x.Queue'>": {Field("target.queue", "type"): 12},
    "___check_type_id(type(L['target']).__dict__['k'], 12), type=<class 'int'>": {
        Field("type(target).__dict__['k']", "type"): 12
    },
    "___check_obj_id(L['target'].__code__, 139985456088752), type=<class 'code'>" + REST: {
        Field("target.__code__", "identity"): 139985456088752
    },
    f"___check_obj_id(L['target'].__closure__[0].cell_contents, 139986017209376), type=<class 'x'>{REST}": {
        Field(CELL, "identity"): 139986017209376
    },
    "len(L['args']) == 1" + REST: {Field("args", "length"): 1},
    "not L['target']._forward_hooks                                # return target(*args, **kwargs)": {
        Field("target._forward_hooks", "length"): 0
    },
    "'k' in L['target'].settings": {Field("target.settings", "has 'k'"): True},
    "'k' not in L['target'].settings" + REST: {Field("target.settings", "has 'k'"): False},
    "3 not in L['target'].settings": {Field("target.settings", "has 3"): False},
    "list(dict.keys(L['target']._modules))[0] == 'linear'": {
        Field("list(dict.keys(target._modules))[0]", "value"): ("str", "linear")
    },
    CHECK_TENSOR: {
        Field(WEIGHT, "dtype"): "torch.float32",
        Field(WEIGHT, "device"): "cpu",
        Field(WEIGHT, "requires_grad"): True,
        Field(WEIGHT, "rank"): 2,
        Field(WEIGHT, "size 0"): 5,
        Field(WEIGHT, "stride 1"): 1,
    },
    "check_tensor(L['x'], Tensor, DispatchKeySet(CPU), torch.int64, device=0, requires_grad=False, size=[], stride=[])"
    + REST: {
        Field("x", "dtype"): "torch.int64",
        Field("x", "device"): "cpu:0",
        Field("x", "requires_grad"): False,
        Field("x", "rank"): 0,
    },
    "L['target'].extra == (1, ('a', None), [2.5])" + REST: {
        Field("target.extra", "value"): value_of((1, ("a", None), [2.5]))
    },
    "L['target'].extra == {1, 'a'}": {Field("target.extra", "value"): value_of({1, "a"})},
    "L['target'].extra == set()": {Field("target.extra", "value"): value_of(set())},
    "L['target'].extra == frozenset({2})": {Field("target.extra", "value"): value_of(frozenset({2}))},
    "L['target'].extra == frozenset()": {Field("target.extra", "value"): value_of(frozenset())},
    "L['target'].extra == dict_keys(['a', 'b'])": {
        Field("target.extra", "value"): value_of(dict.fromkeys("ba").keys()),
    },
    "L['target'].extra == {torch.int8}": {Field("target.extra", "value"): ("set", frozenset({("text", "torch.int8")}))},
    "L['target'].extra == slice(0, 4, None)": {Field("target.extra", "value"): value_of(slice(0, 4))},
    "L['target'].extra == range(0, 5)": {Field("target.extra", "value"): value_of(range(5))},
    "L['target'].extra == (inf, -inf)": {Field("target.extra", "value"): value_of((float("inf"), -float("inf")))},
    "L['target'].extra == (1+2j)": {Field("target.extra", "value"): ("complex", 1 + 2j)},
    "L['target'].word == 'a  # b'          # comment with a ' in it": {
        Field("target.word", "value"): ("str", "a  # b")
    },
    f"L['target'].word == {LONG!r}" + REST: {Field("target.word", "value"): ("str", LONG)},
    "___dict_contains('k', L['target'].settings)" + REST: {Field("target.settings", "has 'k'"): True},
    "not ___dict_contains('k', L['target'].settings)" + REST: {Field("target.settings", "has 'k'"): False},
    "not ___dict_contains('forward', L['target'].__dict__)": {Field("target.__dict__", "has 'forward'"): False},
    "set.__contains__(L['target'].settings, 3)": {Field("target.settings", "has 3"): True},
    "not set.__contains__(L['target'].settings, 3)" + REST: {Field("target.settings", "has 3"): False},
    "not hasattr(L['target'].inner, 'k')" + REST: {Field("target.inner", "attribute 'k'"): False},
    "hasattr(L['target'].inner, 'k')": {Field("target.inner", "attribute 'k'"): True},
    "dict.keys(L['target'].settings) == {'a', 'b'}": {
        Field("target.settings", "keys"): value_of({"a", "b"}),
    },
    "list(L['target'].settings.keys()) == ['a', 'b']": {
        Field("list(target.settings.keys())", "value"): value_of(["a", "b"])
    },
    "int(L['target'].k) == 4": {Field("int(target.k)", "value"): ("int", 4)},
    "dict.__getitem__(L['target'].settings, list(dict.keys(L['target'].settings))[0]) == 4": {
        Field("dict.__getitem__(target.settings, list(dict.keys(target.settings))[0])", "value"): ("int", 4)
    },
    "list.__getitem__(L['target'].settings, 1) == 4": {
        Field("list.__getitem__(target.settings, 1)", "value"): ("int", 4)
    },
    "___check_obj_id(list(L['target'].chosen)[0], 12), type=<class 'x'>": {
        Field("list(target.chosen)[0]", "identity"): 12
    },
    "L['target'].other().k == 4": {Field("target.other().k", "value"): ("int", 4)},
    # As a reason for compiling again says it:
    "0/1: L['target'].scale == 2" + REST: {Field("target.scale", "value"): ("int", 2)},
    "  12/0: tensor 'L['target']._parameters['weight']' size mismatch at index 0. expected 5, actual 4": {
        Field(WEIGHT, "size 0"): ABSENT
    },
    "tensor 'x' stride mismatch at index 1. expected 1, actual 2": {Field("x", "stride 1"): ABSENT},
    "tensor 'x' dtype mismatch. expected Float, actual Double": {Field("x", "dtype"): ABSENT},
    "tensor 'x' requires_grad mismatch. expected requires_grad=1": {Field("x", "requires_grad"): ABSENT},
    "tensor 'x' rank mismatch. expected 2, actual 3": {Field("x", "rank"): ABSENT},
}


def pinned(text):
    """Return what is pinned, without what follows from a guard's being able to follow its source."""
    found = list(requirements(text))
    implied = {Field(*seen) for field, _ in found if (seen := presence(field.source)) is not None}
    return [(field, value) for field, value in found if field not in implied]


@pytest.mark.parametrize("text", PINNED)
def test_what_a_guard_pins(text):
    assert dict(pinned(text)) == PINNED[text]


@pytest.mark.parametrize(
    ("text", "field"),
    [
        ("L['target'].inner.k == 2", Field("target.inner", "attribute 'k'")),
        ("L['target']._modules['k'].training == False", Field("target._modules['k']", "attribute 'training'")),
        ("___check_type_id(L['target']._modules['k'], 1), type=<class 'x'>", Field("target", "attribute 'k'")),
        ("L['target']._parameters['k'] is None", Field("target", "attribute 'k'")),
        ("L['target'].settings['k'] == 1", Field("target.settings", "has 'k'")),
        ("L['target'].__dict__['k'] == 1", Field("target.__dict__", "has 'k'")),
        # That a guard goes through a source, and looks no closer:
        ("L['target'].inner", Field("target", "attribute 'inner'")),
        ("L['target'].settings['k']", Field("target.settings", "has 'k'")),
    ],
)
def test_a_source_that_a_guard_follows_is_there(text, field):
    assert dict(requirements(text))[field] is True


@pytest.mark.parametrize(
    "text", ["L['target']", "L['args'][0]", "list(dict.keys(L['target'].d))[0]", "L['x'] is not None"]
)
def test_a_source_that_is_always_there_says_nothing(text):
    assert [value for _, value in requirements(text) if value is not ABSENT] == []


@pytest.mark.parametrize(
    "text",
    [
        "L['x'].size()[0] == L['y'].size()[0]",
        "2 <= L['x'].size()[0]",
        "Eq(L['x'].size()[0], 2*L['x'].size()[1])",
        "L['target'].k == inf",
        "L['target'].k == -inf",
        "(type(L['target'].k) is float and __math_isnan(L['target'].k))",
        "(type(L['target'].k) is complex and __numpy_isnan(L['target'].k))",
        "L['x'] is L['y']",
        "___check_tensors_aliasing(L['x'], L['y'])",
        "x is not y",
        "hasattr(L['args'][0], '_dynamo_dynamic_indices') == False     # return F.relu(input, inplace=self.inplace)",
        '___check_global_state() against {"allow_bf16_reduce":0,"allow_tf32":false}',
        "___check_torch_function_mode_stack()",
        "torch._functorch.aot_autograd.utils.top_saved_tensors_hooks ids == None  # _dynamo/output_graph.py:1135",
        "___dynwrap_facts(1)",
        "GLOBAL_STATE changed: grad_mode",
        "tensor 'x' something mismatch. expected 1",
        "",
        "#",
        "L['x'] ==",
    ],
)
def test_relations_global_state_and_calls_pin_nothing(text):
    required = [(field, value) for field, value in pinned(text) if value is not ABSENT]
    readable = [field for field, value in required if value[0] != "text"]
    assert readable == []


@pytest.mark.parametrize(
    "text",
    [
        "utils_device.CURRENT_DEVICE == None                           # _dynamo/output_graph.py:1122",
        "___check_obj_id(G['__import_torch'].F, 139985540179712), type=<class 'module'>",
        "___check_type_id(G['__import_torch']._global_forward_hooks, 139986030928576), type=<class 'dict'>",
    ],
)
def test_what_is_rooted_elsewhere_is_absent_from_a_call(text):
    for field, _ in requirements(text):
        assert field.root != "target"
        assert field.read({"target": 1, "args": ()}) is ABSENT


SOURCES = ["target", "L['target']", "L['args'][0].k", "L['x'].size()[0]", "G['f'].__code__", "type(L['target'])", "f()"]
TEXTS = [
    *PINNED,
    "not ",
    "len(",
    ") == ",
    "___check_obj_id(",
    "check_tensor(",
    "tensor '",
    "' size mismatch at index 99",
]


@given(
    st.one_of(
        st.text(), st.lists(st.sampled_from([*SOURCES, *TEXTS, "(", ")", " in ", "[", "'", "\n", "\0"])).map("".join)
    )
)
@settings(deadline=None)
def test_no_text_is_an_error(text):
    for field, value in requirements(text):
        hash((field, value))
        field.read({"target": object(), "args": (), "x": 1})
        assert field.root.isidentifier()


@given(st.sampled_from(list(PINNED)), st.data())
@settings(deadline=None)
def test_no_damaged_text_is_an_error(text, data):
    start = data.draw(st.integers(0, len(text)))
    end = data.draw(st.integers(start, len(text)))
    for field, value in requirements(text[:start] + data.draw(st.text(max_size=3)) + text[end:]):
        hash((field, value))
        field.read({"target": object(), "args": (), "x": 1})


@pytest.mark.parametrize("text", ["(" * 10_000, "L['target']" + ".k" * 50_000 + " == 1", "-" * 100_000 + "L['x'] == 1"])
def test_no_long_text_is_an_error(text):
    assert list(requirements(text)) == []


# Reading


class Tensor:
    """What fields read of a tensor, under a tensor's name."""

    __module__ = "torch"
    dtype, device, requires_grad, shape = "torch.float32", "cpu", False, (2, 3)

    def __repr__(self):
        pytest.fail("a tensor was written down")

    def dim(self):
        return 2

    def stride(self):
        return (3, 1)


def over(value):
    def function(x):
        return x * value

    return function


class Pair(NamedTuple):
    left: int
    right: int


class Odd(list):
    def __getitem__(self, key):
        pytest.fail("the user's own item method ran")


class Number(int):
    def __int__(self):
        pytest.fail("the user's own conversion ran")


class Kept:
    left = 1


KEPT = Kept()


@pytest.mark.parametrize(
    ("source", "aspect", "target", "expected"),
    [
        ("target", "value", 3, ("int", 3)),
        ("target", "value", "word", ("str", "word")),
        ("target", "value", Tensor(), ("a", "Tensor")),
        ("target.k", "value", types.SimpleNamespace(k=2), ("int", 2)),
        ("target.k", "value", types.SimpleNamespace(k=None), ("NoneType", None)),
        ("target['k']", "value", {"k": 2}, ("int", 2)),
        ("target[1]", "value", [1, 2], ("int", 2)),
        ("target[1]", "value", (1, 2), ("int", 2)),
        ("target[1]", "value", Pair(1, 2), ("int", 2)),
        ("target.__closure__[0].cell_contents", "value", over(5), ("int", 5)),
        ("target.func.__code__", "identity", functools.partial(over), id(over.__code__)),
        ("target.args[0]", "value", functools.partial(over, 4), ("int", 4)),
        ("target.keywords['value']", "value", functools.partial(over, value=4), ("int", 4)),
        ("target.__self__", "type", [].append, id(list)),
        ("list(dict.keys(target))[1]", "value", {"a": 1, "b": 2}, ("str", "b")),
        ("list(dict.values(target))[1]", "value", {"a": 1, "b": 2}, ("int", 2)),
        ("type(target)", "identity", 3, id(int)),
        ("target", "type", 3, id(int)),
        ("target", "length", [1, 2], 2),
        ("target", "has 'k'", {"k": 1}, True),
        ("target", "has 'k'", {"j": 1}, False),
        ("target", "has 3", {3}, True),
        ("target", "has 3", frozenset({3}), True),
        ("target", "keys", {"a": 1, "b": 2}, value_of({"a", "b"})),
        ("target", "attribute 'k'", types.SimpleNamespace(k=2), True),
        ("target", "attribute 'k'", types.SimpleNamespace(j=2), False),
        ("target", "attribute 'k'", types.SimpleNamespace(_modules={"k": 1}), True),
        ("target", "attribute 'left'", Pair(1, 2), True),
        ("target", "attribute 'left'", Pair, True),
        ("target", "attribute 'plain'", {}, False),
        ("target.right", "value", Pair(1, 2), ("int", 2)),
        ("target[0]", "value", deque([4]), ("int", 4)),
        ("list(target)[0]", "value", {4}, ("int", 4)),
        ("list(target.keys())", "value", types.MappingProxyType({"a": 1}), value_of(["a"])),
        ("list.__getitem__(target, 0)", "value", Odd([4]), ("int", 4)),
        ("dict.__getitem__(target, list(dict.keys(target))[0])", "value", {"a": 4}, ("int", 4)),
        ("int(target)", "value", Number(4), ("int", 4)),
        ("target().left", "value", weakref.ref(KEPT), ("int", 1)),
        ("target", "dtype", Tensor(), "torch.float32"),
        ("target", "device", Tensor(), "cpu"),
        ("target", "requires_grad", Tensor(), False),
        ("target", "rank", Tensor(), 2),
        ("target", "size 1", Tensor(), 3),
        ("target", "stride 0", Tensor(), 3),
    ],
    ids=lambda part: (
        part if isinstance(part, str) else ""
    ),  # what has an address in its text is another one in each run
)
def test_reading(source, aspect, target, expected):
    assert Field(source, aspect).read({"target": target}) == expected


@pytest.mark.parametrize(
    ("source", "aspect", "target"),
    [
        ("other", "value", 1),
        ("target.k", "value", 1),
        ("target.k", "value", object()),
        ("target[3]", "value", [1]),
        ("target['k']", "value", {}),
        ("target['k']", "value", 1),
        ("target[other]", "value", {}),
        ("target.__closure__[0].cell_contents", "value", 1),
        ("target", "length", 1),
        ("target", "dtype", 1),
        ("target", "size 7", Tensor()),
        ("target", "size x", Tensor()),
        ("target", "has 'k'", 1),
        ("target", "keys", 1),
        ("target()", "value", lambda: pytest.fail("the user's own call ran")),
        ("list(target)[0]", "value", [4]),
        ("int(target)", "value", "4"),
        ("target", "no such aspect", 1),
        ("f()", "value", 1),
        ("", "value", 1),
    ],
)
def test_what_cannot_be_read_is_absent(source, aspect, target):
    assert Field(source, aspect).read({"target": target}) is ABSENT
    assert Field(source, aspect).said({"target": target}) == "absent"


def test_an_unset_cell_is_absent():
    if False:
        value = 1

    def function():
        return value

    assert Field("target.__closure__[0].cell_contents", "value").read({"target": function}) is ABSENT


@pytest.mark.parametrize(("one", "other"), [(1, True), (1, 1.0), (0, False), ("1", 1), (b"a", "a")])
def test_values_that_guards_tell_apart_differ(one, other):
    field = Field("target", "value")
    assert field.read({"target": one}) != field.read({"target": other})


def test_values_are_read_as_guards_require_them():
    for value in (1, -1, True, False, None, 2.5, "a'b", b"x", 1j):
        (field, required), *_ = requirements(f"L['target'].k == {value!r}")
        assert field.read({"target": types.SimpleNamespace(k=value)}) == required


@pytest.mark.parametrize(
    "value", [(1, "a"), [1, [None]], {1, 2.5}, frozenset({"a"}), slice(1, None), range(3), {1: 2}.keys()]
)
def test_containers_are_read_as_guards_require_them(value):
    (field, required), *_ = requirements(f"L['target'].k == {value!r}")
    assert field.read({"target": types.SimpleNamespace(k=value)}) == required
    other = field.read({"target": types.SimpleNamespace(k=type(value))})
    assert other not in (required, ABSENT)


def test_a_list_that_holds_itself_is_absent():
    endless = []
    endless.append(endless)
    assert Field("target", "value").read({"target": endless}) is ABSENT


def test_objects_of_the_users_count_by_type():
    class Opaque:
        def __eq__(self, other):
            pytest.fail("the user's own comparison ran")

        def __hash__(self):
            return pytest.fail("the user's own hash ran")

        def __repr__(self):
            pytest.fail("the user's own repr ran")

    field = Field("target", "value")
    one, other = field.read({"target": Opaque()}), field.read({"target": Opaque()})
    assert one == other != field.read({"target": object()})
    assert field.said({"target": Opaque()}) == "an Opaque"


class Watchful:
    """Runs code of the user's at every turn, and counts it."""

    ran = 0

    def __init__(self):
        self.plain = 1

    @property
    def computed(self):
        Watchful.ran += 1
        return 1

    def __getattr__(self, name):
        Watchful.ran += 1
        return 1

    def __getattribute__(self, name):
        Watchful.ran += 1
        return object.__getattribute__(self, name)

    def __getitem__(self, key):
        Watchful.ran += 1
        return 1

    def __len__(self):
        Watchful.ran += 1
        return 1

    def __contains__(self, key):
        Watchful.ran += 1
        return True


class WatchfulDict(dict):
    ran = 0

    def __getitem__(self, key):
        WatchfulDict.ran += 1
        return 1

    def keys(self):
        WatchfulDict.ran += 1
        return []

    def __missing__(self, key):
        WatchfulDict.ran += 1
        return 1


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("target.plain", ("int", 1)),
        ("target.computed", ABSENT),
        ("target.missing", ABSENT),
        ("target['k']", ABSENT),
        ("target[0]", ABSENT),
    ],
)
def test_following_a_source_runs_nothing_of_the_users(source, expected):
    target = Watchful()
    Watchful.ran = 0
    assert Field(source, "value").read({"target": target}) == expected
    assert Watchful.ran == 0


@pytest.mark.parametrize(
    "aspect",
    [
        "length",
        "has 'k'",
        "dtype",
        "requires_grad",
        "rank",
        "size 0",
        "stride 0",
        "keys",
        "device",
        "attribute 'computed'",
    ],
)
def test_reading_an_aspect_of_an_object_runs_nothing_of_the_users(aspect):
    target = Watchful()
    Watchful.ran = 0
    Field("target", aspect).read({"target": target})
    assert Watchful.ran == 0


class Watching(type):
    @property
    def __mro__(cls):
        return pytest.fail("the metaclass's own property ran")

    @property
    def __dict__(cls):
        return pytest.fail("the metaclass's own property ran")


class Watched(metaclass=Watching):
    k = 1


@pytest.mark.parametrize("aspect", ["attribute 'k'", "dtype", "type", "value"])
@pytest.mark.parametrize("target", [Watched, Watched()])
def test_reading_runs_nothing_of_a_metaclass(aspect, target):
    assert (Field("target", aspect).read({"target": target}) is ABSENT) is (aspect == "dtype")


@pytest.mark.parametrize("source", ["target['k']", "target['missing']", "list(dict.keys(target))[0]"])
def test_a_dictionary_of_the_users_is_read_as_a_dictionary(source):
    target = WatchfulDict(k=2)
    WatchfulDict.ran = 0
    read = Field(source, "value").read({"target": target})
    assert read == {"target['k']": ("int", 2), "target['missing']": ABSENT}.get(source, ("str", "k"))
    assert WatchfulDict.ran == 0


def test_a_property_on_a_class_hides_nothing_of_the_instance():
    class Odd:
        @property
        def k(self):
            pytest.fail("the property ran")

    odd = Odd()
    odd.__dict__["k"] = 4
    assert Field("target.__dict__['k']", "value").read({"target": odd}) == ("int", 4)


@pytest.mark.parametrize(
    ("source", "aspect", "target", "expected"),
    [
        ("target.k", "value", types.SimpleNamespace(k=2), "2"),
        ("target.k", "value", types.SimpleNamespace(k="relu"), "'relu'"),
        ("target.k", "type", types.SimpleNamespace(k=2), "int"),
        ("target", "type", Watchful(), "Watchful"),
        ("target.k", "identity", types.SimpleNamespace(k=over), "over"),
        ("target", "size 1", Tensor(), "3"),
        ("target", "dtype", Tensor(), "torch.float32"),
        ("target", "has 'k'", {"k": 1}, "True"),
        ("target", "length", [1, 2], "2"),
        ("target", "keys", {"b": 1, "a": 2}, "['b', 'a']"),
        ("target", "attribute 'k'", types.SimpleNamespace(k=2), "True"),
    ],
)
def test_values_are_said_without_addresses(source, aspect, target, expected):
    assert Field(source, aspect).said({"target": target}) == expected


@pytest.mark.parametrize(
    ("source", "holder"),
    [
        ("target.k", "target"),
        ("target.inner.k", "target"),
        ("args[0].k", "first"),
        ("kwargs['settings'].k", "second"),
        ("args[0].inner.k", "first"),
        ("args", None),
        ("list(dict.keys(target._modules))[0]", "target"),
        ("type(target).k", "target"),
    ],
)
def test_the_holder_is_the_object_that_the_call_passes(source, holder):
    class Thing:
        k = 1

        def __init__(self):
            self.inner = types.SimpleNamespace(k=1)
            self._modules = {"linear": 1}

    objects = {name: Thing() for name in ("target", "first", "second")}
    parameters = {
        "target": objects["target"],
        "args": (objects["first"],),
        "kwargs": {"settings": objects["second"]},
    }
    assert Field(source, "value").holder(parameters) is objects.get(holder)


@pytest.mark.parametrize(
    ("source", "root"),
    [
        ("target.k", "target"),
        ("args[0].k", "args"),
        ("x", "x"),
        ("type(target).k", "target"),
        ("list(dict.keys(target._modules))[0]", "target"),
        ("list(target.settings.keys())", "target"),
        ("dict.__getitem__(target.settings, list(dict.keys(target.settings))[0])", "target"),
        ("int(target.k)", "target"),
        ("target.other().k", "target"),
        ("list(target.chosen)[0]", "target"),
    ],
)
def test_the_root_is_a_parameter(source, root):
    assert Field(source, "value").root == root


def test_plain_values():
    assert all(map(is_plain, (None, True, 1, 2.5, 1j, "a", b"a", ...)))
    assert not any(map(is_plain, ([], (), {}, object(), over, int)))
