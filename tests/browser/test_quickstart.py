"""The quickstart as a user goes through it, in JupyterLab and in Notebook: inductor, and nothing made up."""

from __future__ import annotations

import re
from pathlib import Path

import nbformat
import pytest

pytestmark = pytest.mark.browser

QUICKSTART = Path(__file__).parents[2] / "notebooks" / "quickstart.ipynb"
PARTS = ("load", "model", "train", "batch-size", "again")


def cells():
    notebook = nbformat.read(QUICKSTART, as_version=4)
    source = {cell.id: cell.source for cell in notebook.cells}
    first, *others = (source[part] for part in PARTS)
    return [first, "%dynwrap", *others]


@pytest.mark.parametrize("front_end", ["lab", "notebook"])
def test_the_quickstart(lab, notebook, front_end):
    page = notebook.page
    notebook.open(lab.write_for(front_end, f"quickstart-{front_end}.ipynb", cells()))
    for index in range(3):
        notebook.run(index)
    assert "Nothing has been compiled yet" in page.inner_text(".dw-note")

    # WHEN a cell compiles THEN the table fills while it does
    notebook.start(3)
    page.wait_for_selector(".dw-live.dw-active")
    page.wait_for_selector(".dw-row")
    assert "[*]" in notebook.cell(3).locator(".jp-InputPrompt").inner_text()
    notebook.wait(3)
    page.wait_for_selector(".dw-row:has-text('smooth_loss')")
    notebook.run(4)

    # WHEN the table is sorted and filtered THEN the rows follow
    page.wait_for_function("document.querySelectorAll('.dw-row').length === 2")
    page.wait_for_selector(".dw-news:text('compiled again')")
    page.click("th.dw-target button")
    assert page.locator(".dw-called").all_inner_texts() == ["DigitNet.forward", "smooth_loss"]
    page.click("th.dw-target button")
    assert page.locator(".dw-called").all_inner_texts() == ["smooth_loss", "DigitNet.forward"]
    page.fill(".dynwrap .dw-filter", "digitnet")
    page.wait_for_function("document.querySelectorAll('.dw-row').length === 1")

    # WHEN the row and its second entry are opened THEN they say why it is there, and what it is
    page.click(".dw-toggle")
    page.wait_for_selector("td.dw-why:text('.shape[0] 64 → 48')")
    page.locator(".dw-opener").nth(1).click()
    page.wait_for_selector(".dw-tree summary code:text-is('self')")
    page.fill(".dw-guards .dw-filter", "self.head.weight: float32")
    page.wait_for_selector(".dw-guard-words:text('of shape (10, 16)')")
    page.get_by_role("tab", name="your code", exact=True).click()
    page.wait_for_selector(".dw-line :text('self.head(self.blocks(')")
    page.get_by_role("tab", name="Why").click()
    page.wait_for_selector(".dw-advice:text('mark_dynamic')")
    page.get_by_role("tab", name="Timeline").click()
    page.wait_for_selector(".dw-item:has-text('In [5]') [data-kind='compile']")
    page.get_by_role("tab", name="Wrappers").click()

    # WHEN it is reset THEN the next call compiles again
    compiles = int(page.inner_text("td.dw-compiles"))
    page.click(".dw-act-reset")
    page.wait_for_selector(".dw-badge:text('eager')")
    notebook.run(5)
    page.wait_for_selector(".dw-badge:text('compiled')")
    page.wait_for_function(f"Number(document.querySelector('td.dw-compiles').textContent) > {compiles}")

    # WHEN what it shows is exported THEN the file shows the same without kernel, script and network
    with page.expect_download() as download:
        page.get_by_role("button", name="Export HTML").click()
    file = lab.folder / f"{front_end}.html"
    download.value.save_as(file)
    assert notebook.errors == []
    _shows_offline(page.context.browser, file)


def _shows_offline(browser, file):
    context = browser.new_context(offline=True, java_script_enabled=False)
    asked, errors = [], []
    page = context.new_page()
    page.on("request", lambda request: asked.append(request.url))
    page.on("console", lambda message: errors.append(message.text))
    page.goto(file.as_uri())
    text = page.inner_text("body")
    assert "DigitNet.forward" in text
    assert re.search(r"\.shape\[0\] 64 (->|→) 48", text)
    assert asked == [file.as_uri()]
    assert errors == []
    context.close()
