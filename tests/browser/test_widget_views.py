"""The widget in a real JupyterLab, with hand-made snapshots: markup, many rows, keyboard, narrow and dark."""

from __future__ import annotations

import pytest

pytestmark = pytest.mark.browser

SETUP = """
from ipy_dynwrap.events import Log
from ipy_dynwrap.views.feed import Feed
from ipy_dynwrap.views.widget import Inspector, Session
from ipy_dynwrap.snapshot import CacheInfo, EntryDetails, EntryInfo, GuardInfo, Listing, WrapperInfo

MARKUP = "<img src=x onerror='window.hacked = 1'>"

def wrapper(i, entries=()):
    return WrapperInfo(f"w{i}", "module", f"Net{i}{MARKUP}", {f"self.{MARKUP}": MARKUP}, entries, 10 * i, 1, i % 3, 8,
                       "compiled", i / 10, f"{MARKUP}: 4 -> 5", hits=i)

def cache(number):
    entry = EntryInfo("0/1", 3, 0.5, f"{MARKUP}.shape[0] 4 -> 5", 2, 7, 0.25, MARKUP, number=1)
    return CacheInfo(tuple(wrapper(i, (entry,)) for i in range(number)), number, 0, 0, 0, 1.5, 3)

now = cache(0)
feed = Feed(Log())
def details(number):
    listing = Listing(MARKUP, "python", MARKUP, 1, {1: MARKUP})
    return EntryDetails(number, MARKUP, (GuardInfo(MARKUP, MARKUP, MARKUP, (MARKUP,), MARKUP, MARKUP),),
                        {MARKUP: MARKUP}, (listing,), ((MARKUP, 1.0),), MARKUP)

def nothing(name):
    pass

session = Session(lambda: now, tuple, tuple, details, nothing, nothing, str)
inspector = Inspector(session, feed)
inspector
"""


@pytest.fixture
def shown(lab, notebook, request):
    notebook.open(lab.write(f"{request.node.name}.ipynb", [SETUP, "now = cache(3)", "now = cache(1000)"]))
    notebook.run(0)
    notebook.page.wait_for_selector(".dynwrap")
    return notebook


def test_it_fills_sorts_filters_and_unfolds_by_keyboard(shown):
    page = shown.page
    assert "Nothing has been compiled yet" in page.inner_text(".dynwrap")
    shown.run(1)
    page.wait_for_function("document.querySelectorAll('.dw-row').length === 3")

    # WHEN sorted by calls THEN the largest comes first, and assistive technology is told
    page.click("th.dw-calls button")
    assert page.get_attribute("th.dw-calls", "aria-sort") == "descending"
    assert page.locator("td.dw-calls").all_inner_texts() == ["20", "10", "0"]
    page.click("th.dw-calls button")
    assert page.locator("td.dw-calls").all_inner_texts() == ["0", "10", "20"]
    page.click("th.dw-calls button")
    assert page.get_attribute("th.dw-calls", "aria-sort") is None

    # WHEN Enter is pressed on a row THEN it unfolds, and JupyterLab does not take the key
    page.locator(".dw-toggle").nth(1).focus()
    page.keyboard.press("Enter")
    page.wait_for_selector(".dw-entry-table tbody tr")
    assert page.locator(".dw-toggle").nth(1).get_attribute("aria-expanded") == "true"
    assert ".shape[0] 4 → 5" in page.inner_text("td.dw-why")
    assert page.inner_text("td.dw-place") == "cell 2, line 7"

    # WHEN the entry is opened THEN each of its pages is text, and Escape closes it
    page.click(".dw-opener")
    page.wait_for_selector(".dw-entry [role=tab]")
    for tab in page.locator(".dw-entry [role=tab]").all():
        tab.click()
    page.keyboard.press("Escape")
    page.wait_for_selector(".dw-entry", state="detached")

    page.fill(".dw-filter", "net2")
    page.wait_for_function("document.querySelectorAll('.dw-row').length === 1")
    assert "1 of 3 match." in page.inner_text(".dw-note")

    # Markup of the user's is text everywhere.
    assert page.evaluate("window.hacked") is None
    assert page.locator(".dynwrap img").count() == 0
    assert "<img src=x" in page.locator(".dw-called").first.inner_text()
    assert shown.errors == []


def test_what_is_no_part_of_a_key_unfolds_by_keyboard(shown):
    page = shown.page
    assert not page.is_visible(".dw-kinds td")
    page.focus(".dw-kinds summary")
    page.keyboard.press("Enter")
    page.wait_for_selector(".dw-kinds td")
    assert "a relation between values" in page.inner_text(".dw-kinds")
    page.evaluate("document.querySelector('.dynwrap').style.width = '380px'")
    assert page.evaluate("(e => e.scrollWidth <= e.clientWidth)(document.querySelector('.dynwrap'))")
    assert shown.errors == []


def test_a_thousand_wrappers_keep_the_page_quick(shown):
    page = shown.page
    shown.run(2)
    page.wait_for_function("document.querySelectorAll('.dw-row').length === 60")
    page.fill(".dw-filter", "net999<")
    page.wait_for_function("document.querySelectorAll('.dw-row').length === 1")
    page.fill(".dw-filter", "")
    page.get_by_role("button", name="Show 60 more of 940").click()
    page.wait_for_function("document.querySelectorAll('.dw-row').length === 120")
    assert shown.errors == []


def test_a_narrow_cell_needs_no_sideways_scroll(shown):
    page = shown.page
    shown.run(1)
    page.wait_for_selector(".dw-row")
    page.evaluate("document.querySelector('.dynwrap').style.width = '380px'")
    assert page.evaluate("(e => e.scrollWidth <= e.clientWidth)(document.querySelector('.dw-scroll'))")
    assert not page.is_visible("th.dw-reason")
