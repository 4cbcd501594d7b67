"""`explain` in words, and what is told of each recompilation."""

from __future__ import annotations

import pytest

from ipy_dynwrap.events import CompileFinished, EagerCall, GraphBreak, Place
from ipy_dynwrap.explanation import Explanation, recompilations
from ipy_dynwrap.snapshot import WrapperInfo
from ipy_dynwrap.views.advice import advice

HERE = Place(4, 2, "<cell>")


def wrapper(name="Net#1", **changes):
    fields = {
        "kind": "module",
        "target": "Net.forward",
        "key": {},
        "entries": (),
        "calls": 1,
        "compiles": 1,
        "eager_calls": 0,
        "limit": 8,
        "state": "compiled",
        "compile_seconds": 0.1,
        "last_reason": None,
        "options": "inductor",
        "family": "Net#1",
    }
    return WrapperInfo(name=name, **(fields | changes))


def finished(
    name="Net#1", *, reasons=(), outcome="compiled", detail="", frame="Net", compile_id="0/0", target="Net.forward"
):
    return CompileFinished(name, target, frame, compile_id, reasons, HERE, 0.05, outcome, detail)


def told(wrappers, *events):
    return str(Explanation(tuple(wrappers), events)).splitlines()


def test_the_rows_of_a_family_are_told_apart_and_each_value_has_its_reason():
    third = wrapper("Net#2", key={"self.k": "4"}, calls=2, hits=1)
    events = finished(), finished(reasons=("self.k 2 -> 3",), compile_id="0/1"), finished("Net#2", compile_id="1/0")
    assert told([wrapper(calls=2), third], *events) == [
        "Net.forward (inductor): compiled, 0 of 8 entries; 2 calls: 0 hits, 0 eager, 0 failed",
        "  0/0 compiled Net.forward in 50 ms, for the first time (cell 4, line 2)",
        "  0/1 compiled Net.forward in 50 ms, because self.k 2 -> 3 (cell 4, line 2)",
        "    an int attribute of a module is a constant of the graph; a tensor or a buffer may change",
        "Net.forward [self.k = 4] (inductor): compiled, 0 of 8 entries; 2 calls: 1 hit, 0 eager, 0 failed",
        "  1/0 compiled Net.forward in 50 ms, first call with self.k = 4 (cell 4, line 2)",
    ]


def test_numbers_agree_with_their_nouns():
    assert "; 1 call: 1 hit, 0 eager, 1,000 failed" in told([wrapper(hits=1, failed_calls=1_000)])[0]


def test_what_compiles_after_a_reset_is_not_the_first():
    lines = told([wrapper()], finished(), finished())
    assert lines[1:] == [
        "  0/0 compiled Net.forward in 50 ms, for the first time (cell 4, line 2)",
        "  0/0 compiled Net.forward in 50 ms, anew, since no entry was left (cell 4, line 2)",
    ]


def test_the_function_that_a_wrapper_without_a_graph_calls_compiles_for_the_first_time():
    pair = finished(outcome="no graph"), finished(compile_id="1/0")
    lines = told([wrapper()], *pair, *pair)
    assert [line.count("for the first time") for line in lines[1:]] == [1, 1, 0, 0]


def test_calls_that_were_skipped_are_counted():
    assert told([wrapper(skipped_calls=3)])[0].endswith("0 failed, 3 skipped")


def test_what_follows_a_graph_break_has_locals_that_nobody_can_mark():
    changed = {"reasons": ("y.shape[0] 4 -> 5",)}
    resumed = finished(frame="torch_dynamo_resume_in_forward_at_7", **changed)
    found = recompilations((resumed, finished(**changed)), (wrapper(),))
    assert ["mark_dynamic" in each.advice for each in found] == [False, True]
    assert found[0].advice == "dynamic=True avoids this one"


def test_frames_are_named_as_their_author_named_them():
    function = wrapper("<lambda>#1", target="<lambda>", family="<lambda>#1")
    resumed = "torch_dynamo_resume_in__lambda__at_7"
    lines = told(
        [function],
        finished("<lambda>#1", frame="_lambda_", target="<lambda>"),
        finished("<lambda>#1", frame=resumed, target="<lambda>", compile_id="1/0"),
    )
    assert "compiled <lambda> in" in lines[1]
    assert "compiled the rest of <lambda> after line 7 in" in lines[2]
    keyword = wrapper("class#1", target="class", family="class#1")
    assert "compiled class in" in told([keyword], finished("class#1", frame="_class", target="class"))[1]


def test_what_torch_gave_up_is_not_called_compiled():
    lines = told(
        [wrapper(state="skipped")],
        finished(outcome="no graph"),
        GraphBreak("Net#1", "Net.forward", "it prints", HERE),
        finished(outcome="skipped", detail="a graph break in a loop", frame="forward", compile_id="1/0"),
        finished(outcome="skipped", detail="no tensor-related objects found in frame", frame="write"),
        finished(outcome="skipped", detail="frame is a namedtuple constructor", frame="__new__"),
        finished(outcome="skipped", detail="no tensor-related objects found in frame", frame="forward"),
        EagerCall("Net#1", "Net.forward", "at limit", HERE),
        EagerCall("Net#1", "Net.forward", "at limit", HERE),
    )
    assert lines[1:] == [
        "  0/0 made no graph of Net.forward, which calls on, in 50 ms, for the first time (cell 4, line 2)",
        "  graph break at cell 4, line 2: it prints",
        "  1/0 forward skipped: a graph break in a loop (cell 4, line 2)",
        "  0/0 forward skipped: no tensor-related objects found in frame (cell 4, line 2)",
        "  ran eager (cell 4, line 2): at limit",
    ]


def test_a_skip_without_a_record_has_its_reason():
    assert told([wrapper(state="skipped", last_reason="no tensor")])[1:] == ["  skipped: no tensor"]
    assert told([wrapper(state="skipped", last_reason="skipped by you")])[1:] == ["  skipped by you"]
    record = finished(outcome="skipped", detail="a graph break in a loop")
    assert len(told([wrapper(state="skipped", last_reason="a graph break in a loop")], record)) == 2


def test_nothing_to_explain_is_said():
    assert told([]) == ["nothing has been compiled yet"]


def test_recompilations_have_their_reason_and_what_helps():
    wrappers = wrapper(), wrapper("Net#2", key={"self.mode": "'b'"}), wrapper("Net#3")
    events = (
        finished(),
        finished(reasons=("x.shape[0] 4 -> 5", "self.k 2 -> 3")),
        finished("Net#2"),
        finished("Net#3"),
        finished(outcome="skipped"),
        finished("gone#1", reasons=("options differ: eager",)),
    )
    found = recompilations(events, wrappers)
    assert [(each.wrapper, each.reason, each.others) for each in found] == [
        ("Net#1", "x.shape[0] 4 -> 5", ("self.k 2 -> 3",)),
        ("Net#2", "first call with self.mode = 'b'", ()),
        ("Net#3", "the wrapper before it is at its limit", ()),
        ("gone#1", "options differ: eager", ()),
    ]
    assert "mark_dynamic(x, 0)" in found[0].advice
    assert found[1].advice == ""
    assert found[0].place == HERE


@pytest.mark.parametrize(
    ("reason", "options", "kind", "part"),
    [
        ("x.shape[2] 4 -> 5", "inductor", "module", "torch._dynamo.mark_dynamic(x, 2)"),
        ("x.shape[0] 4 -> 5", "inductor, static shapes", "module", "--no-dynamic"),
        ("x.shape[0] 4 -> 1", "inductor, static shapes", "module", "sizes 0 and 1"),
        ("self.shift.shape[0] 4 -> 5", "inductor", "module", None),
        ("self.k 2 -> 3", "inductor", "module", "a tensor or a buffer"),
        ("self.k 2 -> 3", "inductor", "method", None),
        ("self.mode 'a' -> 'b'", "inductor", "module", None),
        ("backend object differs", "mine", "module", "same backend object"),
        ("options differ: eager", "eager", "function", "same options"),
        ("grad mode on -> off", "inductor", "module", None),
    ],
)
def test_advice_is_given_only_where_it_helps(reason, options, kind, part):
    said = advice(reason, options, kind)
    assert (part in said) if part else said == ""
