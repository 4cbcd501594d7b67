"""The quickstart of a user who looks at the inspector: a real JupyterLab, kernel, cache and Dynamo."""

from __future__ import annotations

from pathlib import Path

import pytest

pytestmark = pytest.mark.browser

IMAGE = Path(__file__).parents[2] / "docs" / "images" / "inspector.png"

SETUP = """
%load_ext ipy_dynwrap
import time
import torch
from torch import nn

def slow(graph, example_inputs):
    time.sleep(2)
    return graph.forward

class Net(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(8, width), nn.ReLU(), nn.Linear(width, 4))

    def forward(self, x):
        return self.body(x)

net = Net(16)
"""
COMPILE = """%%compile --backend slow
net(torch.ones(4, 8))
net(torch.ones(5, 8)).sum()"""
RUN_LONG = """%%compile --backend slow
for _ in range(120):
    net(torch.ones(5, 8))
    time.sleep(0.1)"""


@pytest.fixture
def live(lab, notebook):
    notebook.open(lab.write("live.ipynb", [SETUP, "%dynwrap", COMPILE, RUN_LONG]))
    notebook.run(0)
    notebook.run(1)
    notebook.page.wait_for_selector(".dynwrap")
    return notebook


def test_the_table_fills_while_a_cell_compiles(live):
    page = live.page
    # WHEN a cell compiles THEN table and cell say so while it runs
    live.start(2)
    page.wait_for_selector(".dw-live.dw-active")
    page.wait_for_selector(".dw-row")
    live.cell(2).locator(".jp-OutputArea-output", has_text="compiling Net.forward (0/0) · ").wait_for()
    live.cell(2).locator(".jp-OutputArea-output", has_text="x.shape[0] 4 → 5 · ").wait_for()
    assert "[*]" in live.cell(2).locator(".jp-InputPrompt").inner_text()
    assert "x.shape[0] 4 → 5" in page.inner_text(".dw-live")

    # WHEN it is done THEN the lines are gone, and what remains is the answer and the summary
    live.wait(2)
    page.wait_for_selector(".dw-live:not(.dw-active)", state="attached")
    assert "compiling" not in live.output(2)
    assert "compiled 2 graphs in " in live.output(2)
    assert "tensor(" in live.output(2)
    heights = live.cell(2).locator(".jp-OutputArea-child").evaluate_all("all => all.map(e => e.offsetHeight)")
    assert [height > 5 for height in heights] == [False, True, True]

    # WHEN the row is unfolded THEN it tells why, and where
    page.click(".dw-toggle")
    page.wait_for_selector(".dw-entry-table tbody tr:nth-child(2)")
    assert page.locator("td.dw-why").all_inner_texts() == ["x.shape[0] 4 → 5"]
    assert page.locator("td.dw-place").all_inner_texts() == ["cell 3, line 2", "cell 3, line 3"]
    assert page.inner_text("td.dw-compiles") == "2"
    assert live.errors == []


def test_reset_waits_for_the_cell_and_then_compiles_again(live):
    page = live.page
    live.run(2)
    page.click(".dw-toggle")
    page.wait_for_selector(".dw-act-reset")  # the kernel has answered

    # WHEN the cell only hits THEN the counts move while it runs
    live.start(3)
    page.wait_for_function("Number(document.querySelector('td.dw-hits').textContent) > 3")
    assert "[*]" in live.cell(3).locator(".jp-InputPrompt").inner_text()
    # WHEN it is asked to reset meanwhile THEN it says so and does nothing
    page.click(".dw-act-reset")
    page.wait_for_selector(".dw-panel .dw-said:text('Not now')")
    live.wait(3)
    page.wait_for_function("document.querySelector('td.dw-calls').textContent === '122'")
    assert page.inner_text("td.dw-compiles") == "2"
    assert page.inner_text(".dw-badge") == "compiled"

    page.click(".dw-act-reset")
    page.wait_for_selector(".dw-panel .dw-said:text('Reset: its next call compiles again.')")
    page.wait_for_selector(".dw-badge:text('eager')")
    live.run(2)
    page.wait_for_selector(".dw-badge:text('compiled')")
    page.wait_for_function("Number(document.querySelector('td.dw-compiles').textContent) > 2")
    assert live.errors == []
