"""What a guard requires, in words."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import pytest

from ipy_dynwrap.guard_words import required
from ipy_dynwrap.naming import Naming


@dataclass
class Tensor:
    dtype: str = "float32"
    shape: tuple[str, ...] = ("4", "16")
    device: str = "cpu"


@dataclass
class Guard:
    source: str
    kind: str
    code: tuple[str, ...] = ()
    extra: Mapping[str, str] = field(default_factory=dict)
    tensor: tuple[str, Tensor] | None = None


MODULE = Naming(target="self", kind="module", type_name="Net", positional=("x", "d"), generic=True)
FUNCTION = Naming(target="loss", kind="function", free=("scale",))
MODES = {"grad_mode": "True", "default_dtype": "float32", "num_threads": "2", "deterministic_algorithms": "False"}


def of_type(source, name):
    return f"___check_type_id({source}, 140596512797568), type=<class '{name}'>"


def of_object(source, name):
    return f"___check_obj_id({source}, 140596512797568), type=<class '{name}'>"


CASES = [
    (Guard("L['args'][0]", "TENSOR_MATCH", tensor=("check_tensor", Tensor())), "x: float32 of shape (4, 16) on cpu"),
    (
        Guard("L['args'][1]", "TENSOR_MATCH", tensor=("check_tensor", Tensor(shape=("None",)))),
        "d: float32 of shape (any,) on cpu",
    ),
    (
        Guard(
            "L['target']._modules['l']._parameters['weight']",
            "TENSOR_MATCH",
            tensor=("check_tensor", Tensor("int64", (), "cuda:0")),
        ),
        "self.l.weight: int64 of shape () on cuda:0",
    ),
    (Guard("L['target'].mode", "CONSTANT_MATCH", ("L['target'].mode == 'a'",)), "self.mode == 'a'"),
    (Guard("L['target'].k", "EQUALS_MATCH", ("L['target'].k == 2",)), "self.k == 2"),
    (
        Guard("L['target']._modules['act']", "TYPE_MATCH", (of_type("L['target']._modules['act']", "torch.nn.ReLU"),)),
        "type of self.act is ReLU",
    ),
    (
        Guard("L['target'].f.__code__", "FUNCTION_MATCH", (of_object("L['target'].f.__code__", "code"),)),
        "self.f has the same code",
    ),
    (
        Guard("L['target'].cls", "CLASS_MATCH", (of_object("L['target'].cls", "type"),)),
        "self.cls is the same class",
    ),
    (
        Guard("L['target'].config", "ID_MATCH", (of_object("L['target'].config", "__main__.Config"),)),
        "self.config is the same Config object",
    ),
    (
        Guard("L['target']._forward_hooks", "EMPTY_NN_MODULE_HOOKS_DICT", ("not L['target']._forward_hooks",)),
        "self has no hooks",
    ),
    (
        Guard("L['target']._modules['l']._backward_pre_hooks", "EMPTY_NN_MODULE_HOOKS_DICT"),
        "self.l has no backward pre-hooks",
    ),
    (
        Guard("L['args']", "SEQUENCE_LENGTH", (of_type("L['args']", "tuple"), "len(L['args']) == 2")),
        "number of arguments is 2",
    ),
    (
        Guard("L['target'].sizes", "SEQUENCE_LENGTH", ("len(L['target'].sizes) == 3",)),
        "len(self.sizes) == 3",
    ),
    (
        Guard("L['kwargs']", "DICT_KEYS_MATCH", ("not L['kwargs']", "list(dict.keys(L['kwargs'])) == []")),
        "no keyword arguments",
    ),
    (
        Guard("L['target'].d", "DICT_KEYS_MATCH", ("list(dict.keys(L['target'].d)) == ['a', 'b']",)),
        "keys of self.d are ['a', 'b']",
    ),
    (
        Guard("L['target'].d", "DICT_CONTAINS", ("___dict_contains('a', L['target'].d)",), {"key": "'a'"}),
        "'a' is in self.d",
    ),
    (
        Guard("L['target'].d", "DICT_NOT_CONTAINS", ("not ___dict_contains('a', L['target'].d)",)),
        "'a' is not in self.d",
    ),
    (
        Guard("L['target'].s", "SET_CONTAINS", ("set.__contains__(L['target'].s, 3)",)),
        "3 is in self.s",
    ),
    (
        Guard("L['target']", "NOT_PRESENT_IN_GENERIC_DICT", extra={"attr": "'forward'"}),
        "self has no attribute forward of its own",
    ),
    (
        Guard("G['__import___main__']", "NOT_PRESENT_IN_GENERIC_DICT", extra={"attr": "'len'"}),
        "len is no global variable",
    ),
    (
        Guard("G['___unnamed_scope_1_c0']", "DICT_NOT_CONTAINS", extra={"key": "'len'"}),
        "len is no global variable",
    ),
    (
        Guard("L['target'].d", "DICT_CONTAINS", ("___dict_contains('a, b', dict.copy(L['target'].d, 2))",)),
        "'a, b' is in dict.copy(self.d, 2)",
    ),
    (
        Guard("L['args'][0]", "HASATTR", ("hasattr(L['args'][0], 'tag')",), {"attr": "'tag'"}),
        "x has an attribute tag",
    ),
    (
        Guard("L['args'][0]", "HASATTR", ("not hasattr(L['args'][0], 'tag')",), {"attr": "'tag'"}),
        "x has no attribute tag",
    ),
    (Guard("L['target'].f", "CLOSURE_MATCH"), "self.f is the same function"),
    (Guard("L['args'][1]", "NOT_NONE_MATCH"), "d is not None"),
    (Guard("L['args'][1]", "WEAKREF_ALIVE"), "d still exists"),
    (
        Guard("", "SHAPE_ENV", ("L['args'][1].size()[0] == L['args'][0].size()[0]", "2 <= L['args'][0].size()[0]")),
        "d.shape[0] == x.shape[0]; 2 <= x.shape[0]",
    ),
    (Guard("", "SHAPE_ENV"), "no size depends on another"),
    (
        Guard("L['args'][1]", "DUPLICATE_INPUT", ("L['args'][0] is L['args'][1]",)),
        "x and d are the same object",
    ),
    (
        Guard("L['args'][0]", "_same_or_not", extra={"other": "L['args'][1]", "same": "False"}),
        "x and d are two objects",
    ),
    (Guard("L['target'].d", "_odict_order"), "order of the keys of self.d stays the same"),
    (Guard("", "GRAD_MODE"), "grad mode: on"),
    (Guard("", "DETERMINISTIC_ALGORITHMS"), "deterministic algorithms: off"),
    (
        Guard("", "GLOBAL_STATE"),
        "grad mode: on, default dtype: float32, threads: 2; autocast and the like stay the same",
    ),
    (Guard("", "DEFAULT_DEVICE", ("utils_device.CURRENT_DEVICE == None",)), "default device stays the same"),
]


@pytest.mark.parametrize(("guard", "words"), CASES, ids=lambda case: getattr(case, "kind", ""))
def test_a_guard_is_put_into_words(guard, words):
    assert required(guard, MODULE, MODES) == words


def test_names_are_those_of_the_frame():
    guard = Guard("L['target'].__closure__[0].cell_contents", "CONSTANT_MATCH")
    guard.code = (f"{guard.source} == 3",)
    assert required(guard, FUNCTION, MODES) == "scale == 3"
    assert required(
        Guard("L['x']", "TENSOR_MATCH", tensor=("check_tensor", Tensor())), Naming.plain(), MODES
    ).startswith("x: float32")


def test_a_guard_that_is_not_known_is_shown_in_torchs_form():
    assert required(Guard("L['x']", "NEW_MATCH", ("new(L['x'])",)), MODULE, {}) == "new(x)"
    assert required(Guard("L['x']", "NEW_MATCH"), MODULE, {}) == "NEW_MATCH L['x']"


@pytest.mark.parametrize("code", ["", "(((", "___check_type_id(", ", type=<class 'a'>", "len("])
@pytest.mark.parametrize("kind", ["TYPE_MATCH", "SEQUENCE_LENGTH", "DICT_KEYS_MATCH", "SHAPE_ENV", "HASATTR"])
def test_a_text_that_cannot_be_read_is_no_failure(kind, code):
    assert required(Guard("L['x'", kind, (code,)), MODULE, MODES)
