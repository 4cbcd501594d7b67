"""HTML, text and widget state of hand-made snapshots: escaping, none, one and many, and sizes."""

from __future__ import annotations

import json
import re
from html.parser import HTMLParser

import pytest
from rich.console import Console

import ipy_dynwrap
from ipy_dynwrap.events import CompileFinished, CompileStarted, Log
from ipy_dynwrap.guard_kinds import UNKEYED
from ipy_dynwrap.snapshot import CacheInfo, EntryInfo, WrapperInfo
from ipy_dynwrap.views import html, text
from ipy_dynwrap.views.feed import Feed
from ipy_dynwrap.views.widget import Inspector

EMPTY = CacheInfo((), 0, 0, 0, 0, 0.0)
MARKUP = "<img src=x onerror='hacked()'>[red]&amp;"
VOID = {"meta", "br", "img"}


def wrapper(number=0, **changes):
    fields = {
        "name": f"net_{number}",
        "kind": "module",
        "target": "Net.forward",
        "key": {"self.mode": "'a'"},
        "entries": (
            EntryInfo("0/0", 3, 0.5, None, 2, 7, 1.5, "forward"),
            EntryInfo("0/1", 2, 0.25, "x.shape[0] 4 -> 5", None, 9, 0.5, "forward", graph=False),
        ),
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


def hostile():
    entry = EntryInfo(MARKUP, 1, 0.0, MARKUP, None, 1, 0.0, MARKUP)
    return cache(
        wrapper(name=MARKUP, target=MARKUP, key={MARKUP: MARKUP}, last_reason=MARKUP, options=MARKUP, entries=(entry,))
    )


def large(number):
    long = "é" * 500
    return cache(
        *(
            wrapper(i, name=f"{i}{long}", target=long, key={long: long}, last_reason=long, options=long)
            for i in range(number)
        )
    )


class Outline(HTMLParser):
    """Collects tags and text, and checks that what is opened is closed."""

    def __init__(self, source):
        super().__init__()
        self.tags, self.words, self._open = [], [], []
        self.feed(source)
        self.close()
        assert self._open == []

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        assert not [name for name, _ in attrs if name.startswith("on")]
        if tag not in VOID:
            self._open.append(tag)

    def handle_endtag(self, tag):
        assert self._open.pop() == tag

    def handle_data(self, data):
        self.words.append(data)


@pytest.fixture
def inspect():
    """Make inspectors that are closed at the end."""
    made = []

    def make(snapshot, reset=lambda _: None, log=None):
        made.append(Inspector(snapshot, reset, Feed(log or Log())))
        return made[-1]

    yield make
    for each in made:
        each.close()


@pytest.mark.parametrize("view", [html.table, html.page])
def test_html_escapes_everything_of_the_users(view):
    outline = Outline(view(hostile()))
    assert "img" not in outline.tags
    assert "script" not in outline.tags
    # Target, key and its value, last reason; name, options, key again; entry and its reason.
    assert "".join(outline.words).count("<img") == 10


def test_html_says_what_the_cache_holds():
    outline = Outline(html.table(cache(wrapper())))
    words = " ".join(outline.words)
    assert "1 wrapper · 2 compilations (1 again) in 2.0 s · 6 calls · 1 eager" in words
    assert "cell 2, line 7" in words
    assert "x.shape[0] 4 → 5" in words
    assert "0/1 (no graph)" in words
    assert "3 (50 %)" in words


def test_html_of_an_empty_cache_says_what_to_do():
    assert "%%compile" in html.table(EMPTY)
    assert "<table" not in html.page(EMPTY)


def test_html_limits_its_rows_and_says_so():
    outline = Outline(html.table(cache(*map(wrapper, range(30))), size=20_000))
    shown = outline.tags.count("details") - 1  # what is no part of a key
    assert 0 < shown < 30
    assert f"and {30 - shown} more wrappers" in outline.words


@pytest.mark.parametrize("view", [html.table, lambda info: text.plain(text.render(info), width=400)])
def test_what_is_no_part_of_a_key_is_shown_with_its_reason(view):
    retired = wrapper(retired={f"self.step{MARKUP}": "took more than 8 values on one object"})
    shown = view(cache(retired, wrapper(1)))
    words = " ".join(Outline(shown).words) if "<details" in shown else shown
    assert words.count("took more than 8 values on one object") == 1
    assert f"self.step{MARKUP} took more than" in words
    assert words.count(text.UNKEYED_TITLE) == 1
    assert all(what in words and why in words for what, why in UNKEYED)


def test_a_page_is_complete_and_needs_nothing_else():
    page = html.page(cache(wrapper()))
    assert page.startswith("<!DOCTYPE html>")
    assert re.findall(r"(?:src|href|url)\s*[=(]", page) == []


def test_text_shows_markup_as_it_is():
    shown = text.plain(text.render(hostile()), width=1000)
    assert "[red]" in shown
    # As in HTML, and the name once more, in the title of its entries.
    assert shown.count("<img") == 11
    assert "\x1b" not in text.plain(text.table(cache(wrapper(target="a\x1b[31mb"))))


def test_text_of_none_one_and_many():
    assert text.short(EMPTY) == text.EMPTY
    assert text.plain(text.render(EMPTY)) == text.EMPTY
    assert "Net.forward [self.mode = 'a']" in text.short(cache(wrapper()))
    many = text.short(cache(*map(wrapper, range(60))), limit=50)
    assert many.count("Net.forward") == 50
    assert many.endswith("and 10 more wrappers")


@pytest.mark.parametrize("width", [80, 200])
def test_text_fits_the_terminal(width):
    shown = text.plain(text.render(cache(wrapper(), wrapper(1, kind="function", state="at limit"))), width)
    assert max(map(len, shown.splitlines())) <= width
    for word in ("Net.forward", "at limit", "2 of 8", "2.0 s"):
        assert word in shown


def test_text_is_coloured_in_a_terminal():
    console = Console(force_terminal=True, color_system="standard", width=200)
    with console.capture() as capture:
        console.print(text.render(cache(wrapper())))
    assert "\x1b[32mcompiled" in capture.get()


def test_a_thousand_wrappers_stay_below_200_kb(inspect):
    inspector = inspect(lambda: large(1000))
    saved = [inspector.get_state(), inspector._repr_mimebundle_()[0]]
    assert len(json.dumps(saved, default=str, ensure_ascii=False).encode()) < 200_000
    assert inspector.state["sums"]["wrappers"] == 1000
    assert 0 < len(inspector.state["rows"]) < 1000


def test_the_bundle_is_of_use_without_a_kernel(inspect):
    data, _ = inspect(lambda: cache(wrapper()))._repr_mimebundle_()
    assert data["application/vnd.jupyter.widget-view+json"]["model_id"]
    assert "Net.forward" in data["text/plain"]
    assert "script" not in Outline(data["text/html"]).tags


def test_the_browser_gets_what_it_asks_for(inspect):
    retired = {"self.step": "took more than 8 values on one object"}
    inspector = inspect(lambda: cache(wrapper(), wrapper(1), wrapper(2, retired=retired)))
    sent = []
    inspector.send = sent.append
    for message in ({"op": "rows", "from": 1}, {"op": "details", "name": "net_2"}, {"op": "details", "name": "gone"}):
        inspector._answer(inspector, message, [])
    rows, details, gone = sent
    assert [row["name"] for row in rows["rows"]] == ["net_1", "net_2"]
    assert [entry["place"] for entry in details["details"]["entries"]] == ["cell 2, line 7", "line 9"]
    assert ["self.mode", "'a'"] in details["details"]["facts"]
    assert ["no key", "self.step took more than 8 values on one object"] in details["details"]["facts"]
    assert gone == {"op": "details", "name": "gone", "details": None}


def test_the_browser_has_what_is_no_part_of_a_key(inspect):
    unkeyed = inspect(lambda: EMPTY).unkeyed
    assert unkeyed["title"] == text.UNKEYED_TITLE
    assert [tuple(row) for row in unkeyed["rows"]] == list(UNKEYED)


@pytest.mark.parametrize(
    "message", [{}, {"op": "rows"}, {"op": "details", "name": 3}, {"op": "drop tables"}, {"op": None}]
)
def test_other_messages_are_left_unanswered(inspect, message):
    inspector = inspect(lambda: cache(wrapper()))
    sent = []
    inspector.send = sent.append
    inspector._answer(inspector, message, [])
    assert sent == []


def test_reset_reports_what_came_of_it(inspect):
    done = []

    def reset(name):
        if name == "busy":
            raise RuntimeError("Not now.")
        if name == "gone":
            raise LookupError("no wrapper is called 'gone'")
        done.append(name)

    inspector = inspect(lambda: cache(wrapper()), reset)
    sent = []
    inspector.send = sent.append
    for name in ("busy", "gone", "net_0"):
        inspector._answer(inspector, {"op": "reset", "name": name}, [])
    assert [message["text"] for message in sent] == [
        "Not now.",
        "no wrapper is called 'gone'",
        "Reset: its next call compiles again.",
    ]
    assert done == ["net_0"]


def test_an_inspector_follows_the_log_until_it_is_hidden_or_closed(inspect, wait_until):
    log, now = Log(), [EMPTY]
    inspector = inspect(lambda: now[0], log=log)
    now[0] = cache(wrapper())
    log.write(CompileStarted("net_0", "Net.forward", "forward", "0/0", (), None))
    wait_until(lambda: inspector.state["sums"]["wrappers"] == 1)
    assert inspector.state["compiling"][0]["text"] == "compiling Net.forward (0/0)"
    log.write(CompileFinished("net_0", "Net.forward", "forward", "0/0", (), None, 0.1, "compiled"))
    wait_until(lambda: inspector.state["compiling"] == [])

    for op in ("shown", "hidden"):
        inspector._answer(inspector, {"op": op}, [])
    assert log._subscribers == ()
    inspector._answer(inspector, {"op": "shown"}, [])
    now[0] = cache(wrapper(), wrapper(1))
    log.write(CompileStarted("net_0", "Net.forward", "forward", "0/1", (), None))
    wait_until(lambda: inspector.state["sums"]["wrappers"] == 2)
    inspector.close()
    assert log._subscribers == ()


def test_the_package_can_be_called_wherever_it_was_imported_first():
    from ipy_dynwrap.views import live_line

    assert live_line
    made = ipy_dynwrap.inspector()
    assert isinstance(made, Inspector)
    made.close()
