"""What is kept of an entry, and what is made of it: without torch, from a trace that is written by hand."""

from __future__ import annotations

import gc
import linecache
import threading
from types import CodeType, SimpleNamespace

import pytest

from ipy_dynwrap import recording, state
from ipy_dynwrap.entry_details import details_of
from ipy_dynwrap.events import Place
from ipy_dynwrap.naming import Naming

SOURCE = """\
import torch

class Net:
    @decorated
    def forward(self, x):
        x = helper(x)
        if x > 0:
            return x
        return f(x)

def helper(x):
    print("break")
    return x

f = lambda x: x
"""


def trace(**parts):
    whole = {"guards": [], "inputs": [], "listings": [], "phases": [], "disk_cache": None, "modes": {}, "size": 0}
    return SimpleNamespace(**{**whole, **parts})


def guard(source="", kind="NEW", stack=()):
    frames = [SimpleNamespace(filename=file, lineno=line) for file, line in stack]
    return SimpleNamespace(source=source, kind=kind, code=(), extra={}, stack=frames, tensor=None)


def code(name="forward", file="<none>", line=1) -> CodeType:
    made = compile(f"def {name}(x):\n    return x + 1\n", file, "exec").co_consts[0]
    return made.replace(co_firstlineno=line)


def broken(*stack, reason="print"):
    return SimpleNamespace(reason=reason, file=stack[-1][0], line=stack[-1][1], stack=stack)


@pytest.fixture
def cell():
    """The name of a file that is a cell, in which the lines are one more than in the file."""
    name = "<cell of test_details>"
    linecache.cache[name] = (len(SOURCE), None, SOURCE.splitlines(keepends=True), name)

    def place(file, line):
        return Place(7, line + 1, file) if file == name else None

    state.places.append(place)
    yield name
    state.places.remove(place)
    del linecache.cache[name]


@pytest.fixture
def switch(monkeypatch):
    monkeypatch.setattr(recording, "switch", recording.Switch())
    return recording.switch


@pytest.fixture
def keep():
    """Keep a record, and the code objects that it is about."""
    alive = []

    def keep(*, own=None, breaks=(), **parts):
        alive.append(code("compiled"))
        alive.append(own)
        number = recording.keep("0/1", trace(**parts), Naming.plain(), breaks=breaks, compiled=alive[-2], own=own)
        return number, alive

    return keep


def details(made):
    return details_of(recording.kept(made[0]))


# What is kept


def test_entries_are_numbered_over_the_life_of_the_process(keep):
    numbers = [keep()[0] for _ in range(3)]
    assert numbers == list(range(numbers[0], numbers[0] + 3))
    assert details_of(recording.kept(numbers[1])).number == numbers[1]


def test_nothing_is_kept_of_an_entry_that_torch_drops(keep):
    number, alive = keep()
    alive.clear()
    gc.collect()
    with pytest.raises(LookupError, match=f"torch has dropped entry {number}"):
        recording.kept(number)


def test_the_oldest_make_room(keep, switch):
    switch.limit = 100
    numbers = [keep(size=40)[0] for _ in range(4)]
    with pytest.raises(LookupError, match="made room"):
        recording.kept(numbers[0])
    assert [recording.kept(number).number for number in numbers[2:]] == numbers[2:]


def test_a_single_entry_that_is_too_large_is_not_kept(keep, switch):
    switch.limit = 100
    with pytest.raises(LookupError, match="made room"):
        recording.kept(keep(size=101)[0])


@pytest.mark.parametrize(("number", "why"), [(0, "recording was off"), (-1, "no entry"), (10**9, "no entry")])
def test_the_cause_is_named_where_nothing_is_kept(number, why):
    with pytest.raises(LookupError, match=why):
        recording.kept(number)


def test_no_code_is_kept_alive(keep):
    own = code()
    number, alive = keep(own=own)
    record = recording.kept(number)
    alive.remove(own)
    del own
    assert record.own() is None
    assert [listing.title for listing in details_of(record).listings] == ["bytecode"]


def test_a_long_text_is_cut_and_says_so():
    text = "line of some length\n" * 20_000
    kept = recording.cut(text)
    assert len(kept) < recording.LISTING_LIMIT + 100
    assert kept.splitlines()[-1] == f"# ... {len(text) - kept.rindex(chr(10)):,} more characters are not kept"
    assert recording.cut("short") == "short"


# The user's code


def test_the_users_function_is_shown_with_the_numbers_of_its_cell(cell, keep):
    (listing, *_) = details(keep(own=code(file=cell, line=4))).listings
    assert (listing.title, listing.language, listing.first_line) == ("your code", "python", 5)
    assert listing.text == "".join(SOURCE.splitlines(keepends=True)[3:9])
    assert not listing.marks


def test_a_break_is_marked_where_it_is_and_where_that_was_called(cell, keep):
    made = keep(own=code(file=cell, line=4), breaks=(broken((cell, 6), (cell, 12), reason="call to print"),))
    first, second, *_ = details(made).listings
    assert dict(first.marks) == {7: "graph break: call to print"}
    assert (second.title, second.first_line, dict(second.marks)) == (
        "your code, helper",
        12,
        {13: "graph break: call to print"},
    )


def test_a_lambda_is_its_line(cell, keep):
    (listing, *_) = details(keep(own=code(file=cell, line=15))).listings
    assert (listing.text, listing.first_line) == ("f = lambda x: x\n", 16)


def test_code_whose_source_is_gone_has_none(keep):
    made = keep(own=code(file="<gone>"), breaks=(broken(("<gone>", 3)),))
    assert [listing.title for listing in details(made).listings] == ["bytecode of your code", "bytecode"]


# What is made of the rest


def test_listings_are_in_the_order_of_the_compilation(cell, keep):
    made = [("FX graph", "python", "a"), ("AOT graph", "python", "b"), ("generated code", "cpp", "c")]
    listings = details(keep(own=code(file=cell, line=11), listings=made)).listings
    assert [listing.title for listing in listings] == [
        "your code",
        "FX graph",
        "AOT graph",
        "generated code",
        "bytecode of your code",
        "bytecode",
    ]
    assert "RETURN_VALUE" in listings[-1].text


def test_a_guard_was_asked_for_by_the_innermost_line_in_a_cell(cell, keep):
    asked = [((cell, 6), (cell, 12), (__file__, 1)), ((__file__, 1), (__file__, 3)), ((cell, 999),), ()]
    guards = details(keep(guards=[guard(stack=stack) for stack in asked])).guards
    assert [each.asked_by for each in guards[:4]] == [
        'cell 7, line 13: print("break")',
        "test_details.py:3: from __future__ import annotations",
        "cell 7, line 1000",
        "",
    ]
    assert guards[-1].kind == "FACTS"


def test_inputs_are_in_the_users_words(keep):
    tensor = SimpleNamespace(dtype="float32", shape=("s0", "16"), device="cpu")
    inputs = details(keep(inputs=[("L['x']", tensor), ("L['x'].size()[0]", "int s0")])).inputs
    assert dict(inputs) == {"x": "float32[s0, 16] on cpu", "x.shape[0]": "int s0"}


def test_a_phase_has_the_time_that_no_inner_one_has(keep):
    second = 1_000_000_000
    phases = [
        ("dynamo", True, 0),
        ("bytecode_tracing", True, 1 * second),
        ("bytecode_tracing", False, 3 * second),
        ("backend_compile", True, 4 * second),
        ("inductor_compile", True, 5 * second),
        ("lost", True, 6 * second),
        ("inductor_compile", False, 7 * second),
        ("backend_compile", False, 10 * second),
        ("build_guards", True, 10 * second),
        ("build_guards", False, 12 * second),
        ("unknown", False, 12 * second),
        ("dynamo", False, 13 * second),
        ("backward", True, 100 * second),
        ("backward", False, 101 * second),
    ]
    assert details(keep(phases=phases)).phases == (
        ("tracing", 5.0),
        ("backend", 4.0),
        ("inductor", 2.0),
        ("guards", 2.0),
        ("backward pass, compiled later", 1.0),
    )


def test_another_thread_may_ask(cell, keep):
    made, found = keep(own=code(file=cell, line=4), guards=[guard(stack=((cell, 6),))]), []
    thread = threading.Thread(target=lambda: found.append(details(made)))
    thread.start()
    thread.join()
    assert found == [details(made)]
