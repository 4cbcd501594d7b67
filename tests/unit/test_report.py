"""Reasons, timeline, families and entry details, in HTML without script and in plain text."""

from __future__ import annotations

import re

import pytest
from rich.console import Console

from ipy_dynwrap.events import GraphBreak, Place
from ipy_dynwrap.explanation import Recompilation
from ipy_dynwrap.snapshot import CellRun, EntryDetails, EntryInfo, GuardInfo, Listing
from ipy_dynwrap.views import html, html_parts, text, words
from ipy_dynwrap.views.picture import Picture

from .test_inspector_views import EMPTY, MARKUP, Outline, cache, wrapper

FAMILY = {"family": "net_0", "options": "inductor"}


def two_families():
    return cache(
        wrapper(0, key={}, **FAMILY),
        wrapper(1, key={"self.k": "3"}, calls=4, **FAMILY),
        wrapper(2, key={}, family="net_2", options="eager"),
        wrapper(3, key={}, family="net_3", options="eager", target="loss"),
    )


def recompilation(reason="x.shape[0] 4 -> 5", **changes):
    fields = {
        "wrapper": "net_1",
        "target": "Net.forward",
        "at": 1.0,
        "place": Place(3, 2, "<cell>"),
        "reason": reason,
        "others": (),
        "advice": "",
        "seconds": 0.5,
    }
    return Recompilation(**(fields | changes))


def plain(picture):
    return text.plain(text.render(picture), width=200)


def seen(source):
    """The words of HTML, as a reader has them."""
    return re.sub(r"\s+", " ", " ".join(Outline(source).words))


def test_families_are_told_apart_by_options_only_where_they_need_it():
    titles = [title for title, _ in words.families(two_families().wrappers)]
    assert titles == ["Net.forward (inductor)", "Net.forward (eager)", "loss"]


def test_the_rows_of_a_family_stand_together():
    page = seen(html.table(two_families()))
    assert "Net.forward (inductor) module, 2 wrappers, told apart by self.k" in page
    assert page.index("the first wrapper") < page.index("[self.k = 3]") < page.index("Net.forward (eager)")
    lines = plain(Picture(two_families())).splitlines()
    at = next(i for i, line in enumerate(lines) if line.startswith("Net.forward (inductor)"))
    assert [line.split("  ")[0] or line.strip().split("  ")[0] for line in lines[at : at + 5]] == [
        "Net.forward (inductor)",
        "the first wrapper",
        "[self.k = 3]",
        "Net.forward (eager)",
        "loss",
    ]


def test_wrappers_without_a_key_are_told_apart():
    first, other = (wrapper(number, key={}, family="net_0") for number in (0, 1))
    assert [words.member(each) for each in (first, other)] == [
        "the first wrapper",
        "net_1, opened when one was at its limit",
    ]


def test_a_family_row_has_the_sums():
    row = seen(html.table(two_families())).partition("told apart by self.k")[2].partition("the first wrapper")[0]
    # Calls, hits, eager, compilations, those again, and their time.
    assert row.split() == ["10", "6", "2", "4", "2", "4.0", "s"]


@pytest.mark.parametrize("view", [lambda picture: seen(html.report(picture)), plain])
def test_reasons_are_listed_with_what_helps_the_newest_first(view):
    found = (
        recompilation("first call with self.k = 3", advice="as a tensor it may change"),
        recompilation(),
        recompilation(),
        recompilation("options differ: eager", wrapper="gone#1", target="gone", place=None),
    )
    shown = view(Picture(two_families(), recompilations=found)).partition("Why it compiled again")[2]
    assert shown.index("options differ: eager") < shown.index("x.shape[0] 4") < shown.index("first call with self.k")
    assert shown.count("x.shape[0] 4") == 1
    assert shown.count("as a tensor it may change") == 1
    assert "cell 3, line 2" in shown
    assert "Net.forward [self.k = 3]" in shown
    assert "gone" in shown


@pytest.mark.parametrize("view", [lambda picture: seen(html.report(picture)), plain])
def test_graph_breaks_are_listed_once_with_place_and_reason(view):
    found = GraphBreak("net_1", "Net.forward", "it prints", Place(3, 2, "<cell>"))
    shown = view(Picture(two_families(), breaks=(found, found))).partition("Graph breaks")[2]
    assert shown.count("it prints") == 1
    assert "cell 3, line 2" in shown


def runs():
    return (
        CellRun(1, 10.0, 0.002),
        CellRun(2, 11.0, 4.0, 3.0, 0.5, 10, 7, 2, 1, 1, 1, ("Net.forward", "loss")),
        CellRun(None, 12.0, 0.25, failed=True),
    )


@pytest.mark.parametrize("view", [lambda picture: seen(html.report(picture)), plain])
def test_the_timeline_shows_what_took_how_long_the_newest_first(view):
    shown = view(Picture(two_families(), runs())).partition("Timeline")[2].replace("\xa0", " ")
    assert shown.index("script") < shown.index("In [2]") < shown.index("In [1]")
    assert "compiled 2 graphs (1 again): Net.forward, loss · 10 calls, 7 hits, 1 eager · 1 graph break" in shown
    assert "ended with an exception" in shown
    for duration in ("2.0 ms", "4.0 s", "3.0 s", "500 ms", "250 ms"):
        assert duration in shown


def test_the_bars_of_the_timeline_are_as_long_as_the_times():
    page = html.report(Picture(two_families(), runs()))
    widths = re.findall(r"background: [^;]+; width: ([\d.]+)%", page)
    assert list(map(float, widths)) == [6.25, 75.0, 12.5, 12.5]


def test_a_picture_in_a_notebook_is_short_and_says_so():
    many = tuple(CellRun(number, 1.0, 1.0) for number in range(30))
    found = tuple(recompilation(f"n {number} -> 0") for number in range(30))
    page = seen(html.report(Picture(two_families(), many, found), 100_000))
    assert "and 10 earlier cells" in page
    assert "and 10 more reasons" in page
    whole = seen(html.page(Picture(two_families(), many, found)))
    assert "earlier cells" not in whole
    assert "n 0 → 0" in whole


def test_cells_are_shown_although_nothing_was_compiled():
    assert "In [1]" in seen(html.report(Picture(EMPTY, runs()))).replace("\xa0", " ")
    assert "Why it compiled again" not in html.report(Picture(EMPTY))


def details(**changes):
    fields = {
        "guards": (
            GuardInfo("L['x']", "TENSOR_MATCH", "x: float32 of shape (4, 16)", ("check_tensor(x)",), "cell 3, line 5"),
        ),
        "inputs": {"x": "float32[s0, 16] on cpu"},
        "listings": (Listing("your code", "python", "def f(x):\n\treturn x", 5, {6: "the graph broke: print"}),),
        "phases": (("backend", 0.25),),
        "disk_cache": "hit",
    }
    return EntryDetails(7, "0/0", **(fields | changes))


def with_details(found):
    entry = EntryInfo("0/0", 3, 0.5, None, 2, 7, 1.5, "Net", number=7)
    return Picture(cache(wrapper(entries=(entry,))), details={7: found})


def test_a_page_has_what_is_inside_of_an_entry():
    page = seen(html.page(with_details(details())))
    for part in (
        "Inside of 0/0, Net.forward",
        "Guards (1)",
        "x: float32 of shape (4, 16)",
        "check_tensor(x)",
        "cell 3, line 5",
        "float32[s0, 16] on cpu",
        "backend 250 ms",
        "cache on disk: hit",
        "5 def f(x):",
        "return x ◂ the graph broke: print",
    ):
        assert part in page


def test_entries_whose_details_are_not_kept_have_none():
    assert "Inside of" not in html.page(Picture(cache(wrapper())))
    assert "nothing is kept of it" in html.page(with_details(EntryDetails(7, "0/0")))


def test_details_that_are_too_large_for_a_page_are_left_out(monkeypatch):
    monkeypatch.setattr(html, "_DETAILS_BYTES", 1_000)
    page = html.page(with_details(details(listings=(Listing("bytecode", "text", "x" * 2_000),))))
    assert "Inside of 0/0, Net.forward: too large for this page" in page
    assert "xxx" not in page


def test_nothing_of_the_users_is_obeyed():
    hostile = details(
        guards=(GuardInfo(MARKUP, MARKUP, MARKUP, (MARKUP,), MARKUP),),
        inputs={MARKUP: MARKUP},
        listings=(Listing(MARKUP, MARKUP, f"{MARKUP}\x1b[31m", 1, {1: MARKUP}),),
        phases=((MARKUP, 1.0),),
    )
    picture = Picture(
        with_details(hostile).cache,
        (CellRun(1, 1.0, 1.0, compiles=1, compiled=(MARKUP,)),),
        (recompilation(MARKUP, wrapper=MARKUP, target=MARKUP, others=(MARKUP,), place=Place(None, 1, MARKUP)),),
        {7: hostile},
    )
    outline = Outline(html.page(picture))
    assert not {"img", "script"} & set(outline.tags)
    # Guard: words, line, check, kind. Input and phase: 3. Listing: title, text, mark. Run; reason, other, target, file.
    assert "".join(outline.words).count("<img") == 15
    assert "\x1b" not in html.page(picture)
    console = Console(force_terminal=True, color_system="standard", width=400)
    with console.capture() as capture:
        console.print(text.render(picture))
    assert "[red]" in capture.get()


def test_what_is_shown_is_one_line_and_cut():
    assert html_parts.escaped("a\n<b> -> c") == "a\\n&lt;b&gt; → c"
    assert len(html_parts.escaped("x" * 1_000)) == 300
