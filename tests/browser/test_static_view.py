"""What stands below the widget for those who see none: hidden beside the widget, shown in a page of the notebook."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import nbformat
import pytest
from nbclient import NotebookClient
from nbconvert import HTMLExporter

if TYPE_CHECKING:
    from pathlib import Path

    from .conftest import Lab, Notebook, sync_api

pytestmark = pytest.mark.browser

CELLS = [
    "%load_ext ipy_dynwrap\nimport torch\nnet = torch.nn.Linear(3, 3)",
    "%%compile --backend eager\nnet(torch.ones(2, 3)); net(torch.ones(4, 3));",
    "%dynwrap",
]


def test_the_static_table_is_hidden_below_the_widget(lab: Lab, notebook: Notebook) -> None:
    notebook.open(lab.write("static.ipynb", CELLS))
    for index in range(3):
        notebook.run(index)
    output = notebook.cell(2)
    output.locator(".dynwrap").wait_for()
    static = output.locator("[class^=dynwrap-static]")
    static.wait_for(state="attached")
    assert static.is_hidden()
    assert notebook.errors == []


def test_a_page_of_the_notebook_shows_the_table_without_network(chromium: sync_api.Browser, tmp_path: Path) -> None:

    saved = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(cell) for cell in CELLS])
    NotebookClient(saved, kernel_name="python3", store_widget_state=True).execute()
    file = tmp_path / "page.html"
    file.write_text(HTMLExporter().from_notebook_node(saved)[0], encoding="utf-8")
    context = chromium.new_context()
    page = context.new_page()
    page.route(re.compile("^http"), lambda route: route.abort())
    page.goto(file.as_uri())
    table = page.locator("[class^=dynwrap-static]")
    assert table.is_visible()
    assert "Linear.forward" in table.inner_text()
    page.get_by_text("Why it compiled again (1)").click()
    assert page.get_by_text("input.shape[0] 2 → 4").first.is_visible()
    context.close()
