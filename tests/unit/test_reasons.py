"""What torch says about its guards, and what the user is told instead. The raw texts are torch 2.13's."""

from __future__ import annotations

import functools
import gc
import weakref
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from ipy_dynwrap.naming import STATE
from ipy_dynwrap.reasons import Naming, advice, describe, graph_break, is_edit, reader
from ipy_dynwrap.showing import shown

if TYPE_CHECKING:
    from collections.abc import Callable

INTEGER_HINT = "(HINT: torch.compile considers integer attributes of the nn.Module to be static. If you ...)"


class Part:
    """Has the dictionaries of an nn.Module, and hides its members behind them as that does."""

    def __init__(self, **members: object) -> None:
        self._modules = {name: member for name, member in members.items() if isinstance(member, Part)}
        self._parameters: dict[str, object] = {"bias": None}
        self._buffers: dict[str, object] = {}
        self._forward_hooks: dict[int, Callable[..., object]] = {}
        self._forward_pre_hooks: dict[int, Callable[..., object]] = {}
        self.__dict__.update({name: member for name, member in members.items() if not isinstance(member, Part)})

    def forward(self, x: object, y: object = None, *more: object, scale: int = 1) -> None: ...


class Other(Part): ...


def scaled(x: object, scale: int = 2, *rest: object, flag: bool = False, **options: object) -> None: ...


def closing(k: object, f: object) -> Callable[[object], object]:
    return lambda x: (f, k, x)


def unreadable(source: str) -> object:
    raise LookupError(source)


def of_module(raw: str, /, *args: object, module: Part | None = None, **kwargs: object) -> str:
    module = module or Part()
    frame = {"target": module, "args": args, "kwargs": kwargs}
    return describe(raw, Naming.of("module", module), reader(frame, {}))


@pytest.mark.parametrize(
    ("raw", "words"),
    [
        ("0/0: tensor 'args[0]' size mismatch at index 0. expected 4, actual 5", "x.shape[0] 4 -> 5"),
        ("0/0: tensor 'args[2]' stride mismatch at index 1. expected 4, actual 1", "more[0].stride(1) 4 -> 1"),
        ("0/0: tensor 'args[1]' rank mismatch. expected 2, actual 1", "y.ndim 2 -> 1"),
        ("0/0: tensor 'kwargs['y']' dtype mismatch. expected Float, actual Double", "y.dtype float32 -> float64"),
        ("0/0: tensor 'args[0]' dtype mismatch. expected Half, actual Float8_e5m2", "x.dtype float16 -> float8_e5m2"),
        ("[0/1_1]: tensor 'args[0]' requires_grad mismatch. expected requires_grad=0", "x.requires_grad False -> True"),
        (
            "0/0: tensor 'args[0]' Tensor device index mismatch. Expected device index to be 0, actual 1",
            "x.device.index 0 -> 1",
        ),
        (
            (
                "0/0: tensor 'args[0]' dispatch key set mismatch. expected DispatchKeySet(CPU, AutogradCPU), "
                "actual DispatchKeySet(Meta, AutogradMeta)"
            ),
            "x.device cpu -> meta",
        ),
        (
            (
                "0/0: tensor 'args[0]' dispatch key set mismatch. expected DispatchKeySet(CPU), "
                "actual DispatchKeySet(CPU, Python)"
            ),
            "x: dispatch keys +Python",
        ),
        (
            (
                "0/0: expected type of 'target._modules['l']._parameters['bias']' to be a tensor type, "
                "' but found <class 'NoneType'>"
            ),
            "self.l.bias: Parameter -> None",
        ),
        ('0/0: Duplicate tensors found: ["args[0]", "kwargs[\'y\']"]', "x and y are the same tensor"),
        ("0/0: KeyError on kwargs['y']", "keyword y is no longer passed"),
        ("0/0: KeyError on target.act", "self.act is gone"),
        ("0/1: not ___dict_contains('forward', target._modules['l'].__dict__)", "self.l.forward was set on the object"),
        ("0/1: ___dict_contains('a', target.cfg)", "'a' is no longer in self.cfg"),
        ("0/1: not math.isnan(target.r)  # implicit guard for float input", "self.r became nan"),
        ("0/1: GLOBAL_STATE changed: grad_mode autocast(cpu)_enabled ", "grad mode changed, autocast(cpu) changed"),
        ("0/1: ___check_torch_function_mode_stack()", "torch function modes or the default device changed"),
        ("0/1: utils_device.CURRENT_DEVICE == None  # x", "default device changed"),
        (
            (
                "0/1: BACKEND_MATCH failure: torch.compile detected different backend callables. Cached backend: "
                "__main__.f (id=0x7f). New backend: __main__.f (id=0x80). If this is unexpected, wrap"
            ),
            "backend object differs",
        ),
        (
            (
                "0/1: BACKEND_MATCH failure: different. Cached backend: _TorchCompileWrapper(compiler='eager', "
                "dynamic=None) (id=0x7f). New backend: _TorchCompileWrapper(compiler='eager', dynamic=True) (id=0x8). "
            ),
            "dynamic None -> True",
        ),
        ("0/1: Cache line invalidated because target got deallocated", "self is gone"),
        ("0/1: args[0] is args[1]  # def two", "x and y are no longer the same object"),
        (
            "0/1: _dynamo_static_indices should be absent but is present on runtime tensor",
            "a tensor was marked with mark_static",
        ),
        ("0/1: 11 <= args[0].size()[0]  # if x.shape[0] > 10:", "compiled for 11 <= x.shape[0]"),
        ("0/1: target.k == 2   # mode '  # '", "self.k was 2"),
        (
            "0/1: ___something_new(target, 7) or not  # comment\nUser stack trace:\n  File",
            "___something_new(target, 7) or not",
        ),
        ("", "unknown reason"),
    ],
)
def test_text_alone_is_put_into_words(raw: str, words: str) -> None:
    assert describe(raw, Naming.of("module", Part()), unreadable) == words


def test_value_is_shown_before_and_after() -> None:
    module = Part(k=3, mode="b", l=Part(training=False))
    raw = f"0/1: target.k == 2      # return x*s.k  # a.py:29 in forward {INTEGER_HINT}\nUser stack trace:\n  File"
    assert of_module(raw, module=module) == "self.k 2 -> 3"
    assert of_module("0/1: target.mode == 'a'  # if", module=module) == "self.mode 'a' -> 'b'"
    assert (
        of_module("0/1: target._modules['l'].training == True  # x", module=module) == "self.l.training True -> False"
    )
    assert of_module("0/1: target.mode is None  # x", module=module) == "self.mode None -> 'b'"
    assert of_module("0/1: target.mode == 'b  # '  # x", module=module) == "self.mode 'b  # ' -> 'b'"


def test_equal_value_of_another_type_is_told_apart() -> None:
    assert of_module("0/1: target.k == 1  # x", module=Part(k=1)) == "self.k 1 -> 1 (int)"


def test_types_are_named() -> None:
    module = Part(n=2.5)
    assert of_module("1/2: ___check_type_id(target.n, 139623), type=<class 'int'>  # x", module=module) == (
        "self.n: int -> float"
    )
    raw = f"1/2: ___check_type_id(target, 139623), type=<class '{__name__}.Part'>  # x (HINT: type Part)"
    assert of_module(raw, module=Other()) == "self: Part -> Other"
    assert of_module(raw, module=Part()) == "class Part was defined again"


def test_hooks_are_counted() -> None:
    module = Part(l=Part())
    raw, more = (
        "0/6: not target._modules['l']._forward_hooks   # x",
        "0/6: len(target._modules['l']._forward_hooks) != 2",
    )
    module._modules["l"]._forward_hooks[0] = print
    assert of_module(raw, module=module) == "hook added to self.l"
    assert of_module(more, module=module) == "hook removed from self.l"
    assert describe(raw, Naming.of("module", module), unreadable) == "hooks of self.l changed"
    hooks = "target._modules['l']._forward_hooks"
    raw = f"0/0: ___check_obj_id({hooks}[list(dict.keys({hooks}))[0]].__code__, 1404), type=<class 'code'>  # x"
    assert of_module(raw, module=module) == "hook of self.l was replaced"


def test_arguments_are_counted() -> None:
    assert of_module("0/0: len(args) == 1   #   # <ipy_dynwrap W>:2 in W", 1, 2) == "number of arguments 1 -> 2"
    assert of_module("0/7: not kwargs   #   # x", 1, y=2) == "keyword arguments none -> y"
    assert of_module("0/7: len(kwargs) == 2   #   # x", 1, y=2) == "keyword arguments changed, now y"


def of_function(raw: str, function: Any, kind: str = "function", **f_locals: object) -> str:
    return describe(raw, Naming.of(kind, function), reader({"target": function, **f_locals}, {}))


def test_names_of_a_function_stay_its_own() -> None:
    frame = {"x": 1, "scale": 3, "rest": (), "flag": True, "options": {"o": 1}}
    assert of_function("0/0: scale == 2  # x", scaled, **frame) == "scale 2 -> 3"
    assert of_function("0/0: len(rest) == 1  # x", scaled, **frame) == "number of *rest 1 -> 0"
    assert of_function("0/0: not options  # x", scaled, **frame) == "keyword arguments none -> o"
    assert of_function("0/0: KeyError on options['p']", scaled, **frame) == "keyword p is no longer passed"
    assert of_function("0/0: target.__defaults__[0] == 1  # x", scaled, **frame) == "default of scale 1 -> 2"
    raw = "0/0: ___check_obj_id(target.__code__, 139623567555808), type=<class 'code'>  # x"
    assert of_function(raw, scaled, **frame) == "scaled was defined again"


def test_closure_cell_has_the_name_of_its_variable() -> None:
    function = closing(3, len)
    frees = function.__code__.co_freevars
    k, f = (f"target.__closure__[{frees.index(name)}].cell_contents" for name in "kf")
    assert of_function(f"0/0: {k} == 2  # x", function) == "k 2 -> 3"
    raw = f"0/0: ___check_obj_id({f}, 1404), type=<class 'builtin_function_or_method'>  # x"
    assert of_function(raw, function) == "f is another built-in function, now len"
    raw = f"0/0: ___check_obj_id({f}.__closure__[1].cell_contents.__code__, 1), type=<class 'code'>"
    assert of_function(f'{raw}  # x (HINT: guard on "inner".__code__)', function) == "inner is another function"
    assert of_function(raw, function) == "free variable 1 of f is another function"


def test_parameter_named_target_is_not_the_target() -> None:
    def loss(output: object, target: object) -> None: ...

    frame = {"target_": loss, "output": 1, "target": 3}
    assert describe("0/0: target == 2  # x", Naming.of("function", loss), reader(frame, {})) == "target 2 -> 3"


def test_methods_partials_and_decorated_functions() -> None:
    method = Part(k=3).forward
    assert of_function("0/0: target.__self__.k == 2  # x", method, "method") == "self.k 2 -> 3"
    assert of_function("0/0: args[0] == 2  # x", method, "method", args=(3,)) == "x 2 -> 3"
    partial = functools.partial(scaled, 1, flag=True)
    assert of_function("0/0: target.keywords['flag'] == False  # x", partial, "callable") == "flag False -> True"
    assert of_function("0/0: args[0] == 2  # x", partial, "callable", args=(3,)) == "scale 2 -> 3"

    @functools.wraps(scaled)
    def decorated(*args: object, **kwargs: object) -> None: ...

    assert of_function("0/0: args[1] == 2  # x", decorated, args=(1, 3)) == "scale 2 -> 3"


def test_globals_are_named_as_in_the_users_module() -> None:
    module = SimpleNamespace(GK=3, helper=scaled)
    read = reader({}, {"__import___main__": module, "GK": 4})
    naming = Naming.of("function", scaled)
    assert describe("0/0: G['__import___main__'].GK == 2  # x", naming, read) == "GK 2 -> 3"
    assert describe("0/0: G['GK'] == 2  # x", naming, read) == "GK 2 -> 4"
    assert describe("0/0: len(G['__import_a_dot_b'].c) == 2  # x", naming, read) == "len(a.b.c) was 2"
    raw = "0/0: ___check_obj_id(G['__import___main__'].helper.__code__, 1), type=<class 'code'>  # x"
    assert describe(raw, naming, read) == "helper is another function, now scaled"


def test_globals_of_a_function_of_no_module_are_named_as_in_the_users_text() -> None:
    scope = "___unnamed_scope_140385386829056_c72"
    naming, read = Naming.of("function", test_sizes_of_now_stand_beside_the_condition), reader({}, {scope: {"GK": 4}})
    assert describe(f"0/0: G['{scope}']['GK'] == 2  # x", naming, read) == "GK 2 -> 4"
    raw = f"0/0: ___check_obj_id(G['{scope}']['helper'].__code__, 1), type=<class 'code'>  # x"
    assert describe(raw, naming, read) == "helper is another function"


def test_sizes_of_now_stand_beside_the_condition() -> None:
    frame = {"x": SimpleNamespace(shape=(5, 4)), "n": 2}
    read = reader(frame, {})
    raw = "1/1: x.size()[1] == x.size()[0]  # duck sizing added this equality"
    assert describe(raw, Naming.plain(), read) == (
        "x.shape[1] is 4, x.shape[0] is 5, compiled for x.shape[1] == x.shape[0] (equal in an earlier call)"
    )
    assert (
        describe("1/1: 4 <= n  # if n>3: ... (_dynamo/x.py:1 in f)", Naming.plain(), read)
        == "n is 2, compiled for 4 <= n"
    )


def test_global_state_is_named_where_it_is_known() -> None:
    read = reader({}, {}, {"grad_mode": False, "num_threads": 2})
    raw = "0/4: GLOBAL_STATE changed: grad_mode num_threads default_dtype "
    assert describe(raw, Naming.plain(), read) == (
        "grad mode on -> off, number of threads changed, now 2, default dtype changed"
    )
    assert read(f"{STATE}['num_threads']") == 2


def test_naming_keeps_no_target_alive() -> None:
    module = Part()
    naming, alive = Naming.of("module", module), weakref.ref(module)
    del module
    gc.collect()
    assert alive() is None
    assert naming.words("target._modules['l']._modules['0']") == "self.l[0]"


class Touchy:
    """Counts what reading it would run."""

    ran = 0

    @property
    def member(self) -> int:
        Touchy.ran += 1
        return 1

    def __getattr__(self, name: str) -> object:
        Touchy.ran += 1
        raise RuntimeError(name)

    def __getitem__(self, key: object) -> object:
        Touchy.ran += 1
        return key

    def __repr__(self) -> str:
        raise RuntimeError


@pytest.mark.parametrize(
    "source", ["t.member", "t.other", "t[0]", "t()", "missing", "t +", "l[9]", "d['q'].x", "1", "\0"]
)
def test_reading_runs_nothing_and_raises_lookup_errors_only(source: str) -> None:
    Touchy.ran = 0
    with pytest.raises(LookupError):
        reader({"t": Touchy(), "l": [1], "d": {}}, {})(source)
    assert Touchy.ran == 0


def test_reading_finds_members_where_modules_keep_them() -> None:
    child = Part()
    module = Part(l=child)
    read = reader({"target": module, "d": {"a": (1, 2)}}, {})
    assert read("target._modules['l']") is read("target.l") is child
    assert read("d['a'][1]") == 2
    assert read("target.forward") == module.forward


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, "None"),
        (2.5, "2.5"),
        ([1, "a"], "[1, 'a']"),
        ({"a": 1}, "{'a': 1}"),
        (list(range(9)), "list of 9"),
        ([Touchy()], "list of 1"),
        (Touchy(), "a Touchy"),
        (10**5000, "<int>"),
        (int, "int"),
        (lambda: 0, "a lambda"),
        (gc, "gc"),
    ],
    ids=lambda value: type(value).__name__,
)
def test_values_are_shown_short(value: object, text: str) -> None:
    assert shown(value) == text


def test_long_values_are_cut() -> None:
    assert len(shown("a" * 100)) == 40
    said = of_module(f"0/0: target.k == {'a' * 200!r}  # x", module=Part(k="b" * 200))
    assert said.startswith("self.k 'aaa")
    assert said.endswith("bbb'")
    assert len(said) <= 100


PIECES = st.sampled_from(
    ["0/0: ", "tensor '", "' size mismatch at index ", "___check_type_id(", "target", "['l']", ".", "not ", "len(", ")",
     "), type=<class 'int'>", " == ", " != 2", "GLOBAL_STATE changed: ", "  # ", "KeyError on ", "args[0]", "\n", "'",
     "__closure__[0].cell_contents", "hasattr(", "list(dict.keys(", "._forward_hooks", " is ", "None", "-1", "G["]
)  # fmt: skip


@given(st.one_of(st.text(), st.lists(st.one_of(PIECES, st.text(max_size=3))).map("".join)))
@example("(" * 100_000)
@example("0/0: " + "not " * 3_000 + "x")
@example("0/0: target" + "[0]" * 1_200)
def test_no_text_is_too_strange(raw: str) -> None:
    module = Part(l=Part())
    for naming in (Naming.plain(), Naming.of("module", module), Naming.of("function", scaled)):
        said = describe(raw, naming, reader({"target": module, "args": (1,), "kwargs": {}}, {}))
        assert said
        assert len(said) <= 100
        assert "\n" not in said
    advice(raw)


def test_reader_that_fails_otherwise_is_survived() -> None:
    def broken(source: str) -> object:
        raise RuntimeError(source)

    assert describe("0/0: target.k == 2  # x", Naming.plain(), broken) == "target.k == 2"


@pytest.mark.parametrize(
    ("reason", "kind", "part"),
    [
        ("self.k 2 -> 3", "module", "a tensor or a buffer"),
        ("self.settings.k 2 -> -3", "module", "a tensor or a buffer"),
        ("self.k 2 -> 3", "callable", None),
        ("self.k True -> False", "module", None),
        ("self.k 2 -> 2.5", "module", None),
        ("self.mode 'a' -> 'b'", "module", None),
        ("self.weight.shape[0] 4 -> 5", "module", None),
        ("self.weight.ndim 4 -> 5", "module", None),
        ("n 2 -> 3", "function", None),
        ("x.shape[2] 4 -> 5", "function", "mark_dynamic(x, 2)"),
        ("batch['x'].shape[2] 4 -> 5", "module", "mark_dynamic(batch['x'], 2)"),
        ("x.shape[0] 4 -> 1", "module", "sizes 0 and 1"),
        ("x.shape[0] is 1, compiled for 2 <= x.shape[0]", "module", "sizes 0 and 1"),
        ("x.shape[0] is 6, y.shape[0] is 7, compiled for x.shape[0] == y.shape[0]", "function", None),
        ("x.dtype float32 -> float64", "module", None),
        ("backend object differs", "module", "same backend object"),
        ("helper was defined again in cell 7", "module", None),
    ],
)
def test_advice_is_given_where_it_helps(reason: str, kind: str, part: str | None) -> None:
    said = advice(reason, kind)
    assert said is None if part is None else said is not None and part in said


def test_sizes_that_were_equal_by_chance_may_differ() -> None:
    raw = "0/0: x.size()[0] == y.size()[0]  # duck sizing added this equality because these variables had the same size"
    said = describe(raw, Naming.plain(), unreadable)
    assert said == "compiled for x.shape[0] == y.shape[0] (equal in an earlier call)"
    assert "differ in the first call" in (advice(said) or "")


def test_what_was_defined_again_says_where() -> None:
    raw = f"1/2: ___check_type_id(target, 139623), type=<class '{__name__}.Part'>  # x (HINT: type Part)"
    part = Part()
    said = describe(raw, Naming.of("module", part), reader({"target": part}, {}), lambda code: f" in {code.co_name}")
    assert said == "class Part was defined again in __init__"


@pytest.mark.parametrize(
    ("same", "words"),
    [(True, "self.a and MISSING are no longer the same object"), (False, "self.a and MISSING are the same object now")],
)
def test_whether_two_are_one_object(same: bool, words: str) -> None:
    assert of_module(f"0/0: (target.a is G['MISSING']) == {same}  # x") == words


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (
            "Failed to trace builtin operator\n  Hint: Avoid calling builtin `print` with argument types ['str'].",
            "Failed to trace builtin operator: `print`",
        ),
        (
            "Attempted to call function marked as skipped\n  context: module: _warnings, qualname: warn, skip: x",
            "Attempted to call function marked as skipped: `warnings.warn`",
        ),
        (
            "Skip calling disabled function\n  Skip calling function `<function make.<locals>.slow at 0x7f9a6f>`",
            "Skip calling disabled function: `slow`",
        ),
        ("generic_jump TensorVariable()", "a branch on the value of a tensor"),
        ("Call to `torch._dynamo.graph_break()`\n  Hint: Remove it", "Call to `torch._dynamo.graph_break()`"),
        ("", "graph break"),
    ],
)
def test_graph_break_names_what_broke_it(text: str, words: str) -> None:
    assert graph_break(text) == words


@pytest.mark.parametrize(
    ("reason", "edit"),
    [
        ("helper was defined again in cell 7", True),
        ("class Net was defined again at script.py:3", True),
        ("hook of self.l was replaced", True),
        ("self.k is gone", True),
        ("self.k 2 -> 3", False),
        ("self.word 'a' -> 'was defined again, and'", False),
    ],
)
def test_edits_are_told_from_what_a_program_changes(reason: str, edit: bool) -> None:
    assert is_edit(reason) is edit
