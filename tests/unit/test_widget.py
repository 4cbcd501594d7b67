"""The kernel's half of the widget: what is synced, what is answered, and what is new."""

from __future__ import annotations

import json
import re

import pytest

import ipy_dynwrap
from ipy_dynwrap.events import CompileFinished, CompileStarted, EagerCall, GraphBreak, Log, Place
from ipy_dynwrap.guard_kinds import UNKEYED
from ipy_dynwrap.snapshot import CacheInfo, CellRun, EntryDetails, EntryInfo, GuardInfo, Listing, WrapperInfo
from ipy_dynwrap.views import alone, payload, text
from ipy_dynwrap.views.feed import Feed
from ipy_dynwrap.views.widget import Inspector, Session

EMPTY = CacheInfo((), 0, 0, 0, 0, 0.0)


def entry(compile_id="0/0", cell=2, frame="Net", number=0, **changes):
    return EntryInfo(compile_id, 3, 0.5, None, cell, 7, 1.5, frame, number=number, **changes)


def wrapper(number=0, **changes):
    fields = {
        "name": f"Net#{number}",
        "kind": "module",
        "target": "Net.forward",
        "key": {"self.mode": "'a'"},
        "entries": (entry(), EntryInfo("0/1", 2, 0.25, "x.shape[0] 4 -> 5", None, 9, 0.5, "Net", graph=False)),
        "calls": 6,
        "compiles": 2,
        "eager_calls": 1,
        "limit": 8,
        "state": "compiled",
        "compile_seconds": 2.0,
        "last_reason": "x.shape[0] 4 -> 5",
        "recompiles": 1,
        "options": "inductor",
        "hits": 3,
    }
    return WrapperInfo(**(fields | changes))


def cache(*wrappers):
    return CacheInfo(wrappers, 2, 1, 1, 0, 2.0, 6)


def family(number, **changes):
    return [
        wrapper(each, family="Net#0", key={"self.k": str(each)} if each else {}, **changes) for each in range(number)
    ]


def not_kept(number):
    raise LookupError(f"nothing is kept of entry {number}")


@pytest.fixture
def inspect():
    """Make inspectors that note what they send, and are closed at the end."""
    made = []

    def make(snapshot=lambda: cache(wrapper()), *, log=None, **parts):
        defaults = {
            "events": tuple,
            "timeline": tuple,
            "entry": not_kept,
            "reset": lambda _: None,
            "skip": lambda _: None,
            "export": lambda form: f"a file of {form}",
        }
        inspector = Inspector(Session(snapshot=snapshot, **(defaults | parts)), Feed(log or Log()))
        inspector.sent = []
        inspector.send = inspector.sent.append
        made.append(inspector)
        return inspector

    yield make
    for each in made:
        each.close()


def ask(inspector, **message):
    inspector.sent.clear()
    inspector._answer(inspector, message, [])
    (answer,) = inspector.sent
    return answer


def test_a_thousand_wrappers_stay_below_200_kb(inspect):
    long = "é" * 500
    wide = {"target": long, "key": {long: long}, "last_reason": long, "options": long}
    info = cache(*(wrapper(i, name=f"{i}{long}", family=str(i % 100), **wide) for i in range(1000)))
    events = [CompileFinished("w", long, long, "0/1", (long,), None, 1.0, "compiled") for _ in range(10_000)]
    inspector = inspect(lambda: info, events=lambda: events, timeline=lambda: [CellRun(i, 0, 1) for i in range(999)])
    saved = [inspector.get_state(), inspector._repr_mimebundle_()[0]]
    assert len(json.dumps(saved, default=str, ensure_ascii=False).encode()) < 200_000
    assert inspector.state["sums"]["wrappers"] == 1000
    assert inspector.state["total"] == 1100
    assert 0 < len(inspector.state["rows"]) < 1000


def test_the_bundle_is_of_use_without_a_kernel(inspect):
    data, _ = inspect()._repr_mimebundle_()
    assert data["application/vnd.jupyter.widget-view+json"]["model_id"]
    assert "Net.forward" in data["text/plain"]
    assert "<script" not in data["text/html"]


def test_the_script_is_one_module_that_needs_no_other(inspect):
    script = str(inspect()._esm)
    assert re.findall(r"^(?:import|export) .*", script, flags=re.MULTILINE) == ["export default { render };"]
    assert "innerHTML" not in script


def test_the_browser_is_sent_what_changed_and_no_more(inspect):
    now = [cache(wrapper(), wrapper(1))]
    inspector = inspect(lambda: now[0])
    first = ask(inspector, op="rows", since=0)
    assert [row["name"] for row in first["rows"]] == first["names"] == ["Net#0", "Net#1"]

    inspector._send_news()
    assert ask(inspector, op="rows", since=first["revision"]) == first | {"rows": [], "names": None}

    now[0] = cache(wrapper(), wrapper(1, calls=7))
    inspector._send_news()
    second = ask(inspector, op="rows", since=first["revision"])
    assert [(row["name"], row["calls"]) for row in second["rows"]] == [("Net#1", 7)]
    assert second["names"] is None

    now[0] = cache(wrapper(1, calls=7))
    inspector._send_news()
    third = ask(inspector, op="rows", since=second["revision"])
    assert (third["rows"], third["names"]) == ([], ["Net#1"])
    assert inspector.state["revision"] == third["revision"] > second["revision"]


def test_members_without_a_key_are_told_apart():
    rows = payload.Rows()
    rows.update(cache(*(wrapper(number, key={}, family="Net#0") for number in (0, 1))), None)
    _, *members = rows.since(0)["rows"]
    assert len({row["member"] for row in members}) == 2


def test_graph_breaks_are_told_and_library_frames_without_tensors_are_not():
    detail = "frame is a namedtuple constructor"
    events = (
        GraphBreak("w", "f", "it prints", None),
        CompileFinished("w", "f", "__new__", "1/0", (), None, 0.1, "skipped", detail),
    )
    (why,) = payload.whys(events, EMPTY)["whys"]
    assert (why["outcome"], why["reason"]) == ("graph break", "it prints")


def test_a_family_has_a_row_that_says_why_it_has_wrappers():
    rows = payload.Rows()
    rows.update(cache(*family(12, entries=(entry(),)), wrapper(99, target="other")), None)
    first, *members, other = rows.since(0)["rows"]
    assert first["fields"] == [["self.k", 11]]
    assert (first["wrappers"], first["calls"], first["entries"], first["limit"]) == (12, 72, 1, 8)
    assert first["alone"] == (
        "torch.compile alone would keep 12 entries on one code object with a limit of 8: 8 compiled, 4 eager"
    )
    assert {row["family"] for row in members} == {first["name"]}
    assert other["family"] == ""


def test_option_sets_of_one_target_are_families_of_their_own():
    rows = payload.Rows()
    rows.update(cache(wrapper(0, family="Net#0"), wrapper(1, family="Net#1", options="eager")), None)
    assert [(row["target"], row["options"]) for row in rows.since(0)["rows"]] == [
        ("Net.forward", "inductor"),
        ("Net.forward", "eager"),
    ]


def test_a_family_is_in_the_state_that_asks_for_attention():
    rows = payload.Rows()
    rows.update(cache(wrapper(0, family="f"), wrapper(1, family="f", state="at limit")), None)
    assert rows.since(0)["rows"][0]["state"] == "at limit"


def test_what_the_last_cell_compiled_is_new():
    old, again, new = entry(cell=2), (entry(cell=2), entry(cell=5)), entry(cell=5)
    info = cache(wrapper(0, entries=(old,)), wrapper(1, entries=again), wrapper(2, entries=(new,)))
    rows = payload.Rows()
    rows.update(info, payload.last_cell(info, [CellRun(5, 0, 1, calls=3), CellRun(6, 0, 1)]))
    assert [row["news"] for row in rows.since(0)["rows"]] == ["", "again", "new"]
    # A later cell that compiled nothing makes all of it old; one that runs has not ended yet.
    assert payload.last_cell(info, [CellRun(7, 0, 1, calls=1)]) == 7
    assert payload.last_cell(info, []) == 5
    assert payload.last_cell(EMPTY, []) is None


def test_new_rows_have_a_place_in_the_saved_picture():
    rows = payload.Rows()
    rows.update(cache(*(wrapper(i, entries=(entry(cell=i),)) for i in range(50))), 49)
    kept = [row["name"] for row in rows.fitting(2_000)]
    assert kept[0] == "Net#0"
    assert kept[-1] == "Net#49"
    assert len(kept) < 10


def test_run_time_is_that_of_the_wrappers_own_frame():
    broken = (
        entry(number=1),
        entry("1/0", frame="forward"),
        entry("2/0", frame="torch_dynamo_resume_in_forward_at_3"),
        entry("0/1", number=2),
    )
    assert [each.number for each in alone.own_entries(wrapper(entries=broken))] == [1, 2]
    # A function's own code has the wrapper's name; after a break it is another frame.
    function = (entry(frame="f", number=1), entry("1/0", frame="f", number=2))
    assert [each.number for each in alone.own_entries(wrapper(name="f#1", entries=function))] == [1]
    lambdas = (entry(frame="make__locals___lambda_"),)
    assert alone.own_entries(wrapper(name="make.<locals>.<lambda>#1", entries=lambdas)) == list(lambdas)


def test_what_torch_alone_would_do_is_said_where_it_differs():
    assert alone.said(family(1, entries=(entry(),))) == ""
    assert alone.said(family(8, entries=(entry(),))) == (
        "torch.compile alone would keep 8 entries on one code object with a limit of 8"
    )


def test_details_of_a_wrapper(inspect):
    retired = {"self.step": "took more than 8 values on one object"}
    inspector = inspect(lambda: cache(wrapper(), wrapper(1, retired=retired, graph_breaks=2)))
    details = ask(inspector, op="details", name="Net#1")["details"]
    assert [each["place"] for each in details["entries"]] == ["cell 2, line 7", "line 9"]
    assert [each["id"] for each in details["entries"]] == ["0/0", "0/1 (no graph)"]
    for fact in (["self.mode", "'a'"], ["no key", f"self.step {retired['self.step']}"], ["graph breaks", "2"]):
        assert fact in details["facts"]
    assert ask(inspector, op="details", name="gone") == {"op": "details", "name": "gone", "details": None}


def test_an_entry_is_put_into_words_when_it_is_opened(inspect):
    source, words = "L['target']._modules['body'].weight", "self.body.weight: float32"
    guards = (
        GuardInfo(source, "TENSOR_MATCH", words, ("check",), "here", "self.body.weight"),
        GuardInfo("", "GRAD_MODE", "grad mode is on"),
    )
    listing = Listing("your code", "python", "a\nb", 3, {4: "print breaks it"})
    found = EntryDetails(5, "0/1", guards, {"x": "float32[4]"}, (listing,), (("inductor", 2.0),), "miss")
    asked = []
    inspector = inspect(entry=lambda number: asked.append(number) or found)
    assert asked == []
    answer = ask(inspector, op="entry", number=5)
    assert json.loads(json.dumps(answer)) == answer
    details = answer["details"]
    assert [branch["name"] for branch in details["guards"]] == ["self.body.weight", "torch's global state"]
    assert details["guards"][0]["guards"] == [
        {"source": source, "kind": "TENSOR_MATCH", "words": words, "code": ["check"], "place": "here"}
    ]
    assert details["listings"][0]["marks"] == {"4": "print breaks it"}
    assert details["inputs"] == [["x", "float32[4]"]]
    assert details["phases"] == [["inductor", 2.0]]
    assert details["disk_cache"] == "miss"


def test_an_entry_that_is_not_kept_is_said_to_be_so(inspect):
    assert ask(inspect(), op="entry", number=5) == {
        "op": "entry",
        "number": 5,
        "details": None,
        "text": "nothing is kept of entry 5",
    }


@pytest.mark.parametrize(
    ("source", "steps"),
    [
        ("x", ["x"]),
        ("self.layers[3].k", ["self", ".layers", "[3]", ".k"]),
        ("cfg['a']", ["cfg", "['a']"]),
        ("len(self.layers)", ["self", ".layers", "len(…)"]),
        ("___dict_get(d, 'a')", ["d", "___dict_get(…, 'a')"]),
        ("", ["torch's global state"]),
        ("not an expression (", ["not an expression ("]),
        ("a + b", ["a + b"]),
    ],
)
def test_guards_hang_on_what_they_look_at(source, steps):
    assert payload._steps(source) == steps


def test_branches_that_only_lead_on_are_joined_and_torchs_come_last():
    names = ["", "torch.nn.modules.linear.F", "self.a.b", "self.a.c", "x"]
    tree = payload._tree(GuardInfo(name and "L['y']", "K", "words", name=name) for name in names)
    assert [(each["name"], [child["name"] for child in each["children"]]) for each in tree] == [
        ("self.a", [".b", ".c"]),
        ("x", []),
        ("torch.nn.modules.linear.F", []),
        ("torch's global state", []),
    ]


def test_why_is_told_newest_first_and_once(inspect):
    place = Place(3, 2, "cell")
    events = [
        CompileFinished("w", "Net.forward", "f", "0/0", (), place, 1.0, "compiled"),
        CompileFinished("w", "Net.forward", "f", "0/1", ("x.shape[0] 4 -> 5", "or"), place, 1.0, "compiled"),
        CompileStarted("w", "Net.forward", "f", "0/2", ("never",), place),
        CompileFinished("w", "f", "f", "0/8", ("p",), None, 1.0, "at limit", "limit reached"),
        EagerCall("w", "f", "at limit", place),
        EagerCall("w", "f", "at limit", place),
    ]
    whys = ask(inspect(events=lambda: events), op="why")["whys"]
    assert [(why["outcome"], why["reason"], why["place"], why["times"]) for why in whys] == [
        ("ran eager", "at limit", "cell 3, line 2", 2),
        ("at limit", "limit reached", "", 1),
        ("compiled again", "x.shape[0] 4 -> 5", "cell 3, line 2", 1),
    ]
    assert "mark_dynamic(x, 0)" in whys[-1]["advice"]
    assert whys[-1]["others"] == ["or"]


def test_a_new_value_of_a_key_is_a_reason(inspect):
    events = [CompileFinished("Net#1", "Net.forward", "Net", "1/0", (), None, 1.0, "compiled")]
    (why,) = ask(inspect(lambda: cache(*family(2)), events=lambda: events), op="why")["whys"]
    assert (why["outcome"], why["reason"]) == ("compiled again", "first call with self.k = 1")


def test_the_timeline_fits_the_wall_time(inspect):
    runs = [
        CellRun(1, 5.0, 1.0),
        CellRun(2, 6.0, 10.0, 9.0, 4.0, 40, 38, 2, 1, 1, 1, ("Net",), failed=True),
        CellRun(None, 7.0, 1.0, 3.0, 3.0),
    ]
    shown = ask(inspect(timeline=lambda: runs), op="timeline")["runs"]
    assert [run["label"] for run in shown] == ["script", "In [2]", "In [1]"]
    assert [(run["compile"], run["run"]) for run in shown] == [(1.0, 0.0), (9.0, 1.0), (0.0, 0.0)]
    assert shown[1]["text"] == (
        "2 compilations (1 again) · 40 calls, 38 hits · 1 eager · 1 graph break · ended with an exception"
    )


def test_long_lists_are_cut_and_counted():
    told = payload.runs([CellRun(each, 0.0, 1.0) for each in range(1, 600)])
    assert (len(told["runs"]), told["more"], told["runs"][0]["label"]) == (500, 99, "In [599]")
    told = payload.whys([EagerCall("w", "f", str(each), None) for each in range(600)], EMPTY)
    assert (len(told["whys"]), told["more"], told["whys"][0]["reason"]) == (500, 100, "599")


def test_the_browser_has_what_is_no_part_of_a_key(inspect):
    unkeyed = inspect(lambda: EMPTY).unkeyed
    assert unkeyed["title"] == text.UNKEYED_TITLE
    assert [tuple(row) for row in unkeyed["rows"]] == list(UNKEYED)


@pytest.mark.parametrize(
    "message",
    [
        {},
        {"op": "rows"},
        {"op": "details", "name": 3},
        {"op": "drop tables", "name": "Net#0"},
        {"op": None},
        {"op": "entry", "number": "1"},
        {"op": "export", "format": "exe"},
    ],
)
def test_other_messages_are_left_unanswered(inspect, message):
    inspector = inspect()
    inspector._answer(inspector, message, [])
    assert inspector.sent == []


@pytest.mark.parametrize(("op", "said"), [("reset", "its next call compiles again"), ("skip", "it runs eager")])
def test_what_acts_reports_what_came_of_it(inspect, op, said):
    done = []

    def act(name):
        if name == "busy":
            raise RuntimeError("Not now.")
        if name == "gone":
            raise LookupError("no wrapper is called 'gone'")
        done.append(name)

    inspector = inspect(**{op: act})
    told = {name: ask(inspector, op=op, name=name)["text"] for name in ("busy", "gone", "Net#0")}
    assert (told["busy"], told["gone"]) == ("Not now.", "no wrapper is called 'gone'")
    assert said in told["Net#0"]
    assert done == ["Net#0"]


def test_what_cannot_be_done_is_not_offered(inspect):
    inspector = inspect(skip=None)
    assert inspector.actions == ["reset"]
    inspector._answer(inspector, {"op": "skip", "name": "Net#0"}, [])
    assert inspector.sent == []


def test_export_sends_a_file(inspect):
    assert ask(inspect(), op="export", format="json") == {
        "op": "export",
        "file": "inspector.json",
        "type": "application/json",
        "content": "a file of json",
    }


def test_an_inspector_follows_the_log_until_it_is_hidden_or_closed(inspect, wait_until):
    log, now = Log(), [EMPTY]
    inspector = inspect(lambda: now[0], log=log)
    now[0] = cache(wrapper())
    log.write(CompileStarted("Net#0", "Net.forward", "forward", "0/0", (), None))
    wait_until(lambda: inspector.state["sums"]["wrappers"] == 1)
    assert inspector.state["compiling"][0]["text"] == "compiling Net.forward (0/0)"
    log.write(CompileFinished("Net#0", "Net.forward", "forward", "0/0", (), None, 0.1, "compiled"))
    wait_until(lambda: inspector.state["compiling"] == [])

    for op in ("shown", "hidden"):
        inspector._answer(inspector, {"op": op}, [])
    assert log._subscribers == ()
    inspector._answer(inspector, {"op": "shown"}, [])
    now[0] = cache(wrapper(), wrapper(1))
    log.write(CompileStarted("Net#0", "Net.forward", "forward", "0/1", (), None))
    wait_until(lambda: inspector.state["sums"]["wrappers"] == 2)
    inspector.close()
    assert log._subscribers == ()


def test_the_package_can_be_called_wherever_it_was_imported_first():
    from ipy_dynwrap.views import live_line

    assert live_line
    made = ipy_dynwrap.inspector()
    assert isinstance(made, Inspector)
    made.close()
