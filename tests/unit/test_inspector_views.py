"""HTML and text of hand-made snapshots: escaping, none, one and many, and sizes."""

from __future__ import annotations

import re
from html.parser import HTMLParser

import pytest
from rich.console import Console

from ipy_dynwrap.guard_kinds import UNKEYED
from ipy_dynwrap.snapshot import CacheInfo, EntryInfo, WrapperInfo
from ipy_dynwrap.views import html, text
from ipy_dynwrap.views.picture import Picture

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


@pytest.mark.parametrize("view", [html.table, lambda info: html.page(Picture(info))])
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
    assert "<table" not in html.page(Picture(EMPTY))


def test_html_limits_its_rows_and_says_so():
    outline = Outline(html.table(cache(*map(wrapper, range(30))), size=20_000))
    shown = outline.tags.count("details") - 1  # what is no part of a key
    assert 0 < shown < 30
    assert f"and {30 - shown} more wrappers" in outline.words


@pytest.mark.parametrize("view", [html.table, lambda info: text.plain(text.render(Picture(info)), width=400)])
def test_what_is_no_part_of_a_key_is_shown_with_its_reason(view):
    retired = wrapper(retired={f"self.step{MARKUP}": "took more than 8 values on one object"})
    shown = view(cache(retired, wrapper(1)))
    words = " ".join(Outline(shown).words) if "<details" in shown else shown
    assert words.count("took more than 8 values on one object") == 1
    assert f"self.step{MARKUP} took more than" in words
    assert words.count(text.UNKEYED_TITLE) == 1
    assert all(what in words and why in words for what, why in UNKEYED)


def test_a_page_is_complete_and_needs_nothing_else():
    page = html.page(Picture(cache(wrapper())))
    assert page.startswith("<!DOCTYPE html>")
    assert re.findall(r"(?:src|href|url)\s*[=(]", page) == []


def test_text_shows_markup_as_it_is():
    shown = text.plain(text.render(Picture(hostile())), width=1000)
    assert "[red]" in shown
    # As in HTML, and the name once more, in the title of its entries.
    assert shown.count("<img") == 11
    assert "\x1b" not in text.plain(text.table(cache(wrapper(target="a\x1b[31mb"))))


def test_text_of_none_one_and_many():
    assert text.short(EMPTY) == text.EMPTY
    assert text.plain(text.render(Picture(EMPTY))) == text.EMPTY
    assert "Net.forward [self.mode = 'a']" in text.short(cache(wrapper()))
    many = text.short(cache(*map(wrapper, range(60))), limit=50)
    assert many.count("Net.forward") == 50
    assert many.endswith("and 10 more wrappers")


@pytest.mark.parametrize("width", [80, 200])
def test_text_fits_the_terminal(width):
    shown = text.plain(text.render(Picture(cache(wrapper(), wrapper(1, kind="function", state="at limit")))), width)
    assert max(map(len, shown.splitlines())) <= width
    for word in ("Net.forward", "at limit", "2 of 8", "2.0 s"):
        assert word in shown


def test_text_is_coloured_in_a_terminal():
    console = Console(force_terminal=True, color_system="standard", width=200)
    with console.capture() as capture:
        console.print(text.render(Picture(cache(wrapper()))))
    assert "\x1b[32mcompiled" in capture.get()
