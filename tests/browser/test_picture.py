"""The picture in the README: a session as a user has it.

With ``DYNWRAP_PICTURE=yes`` in the environment the picture is kept; otherwise the test only sees that it can be taken.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

pytestmark = pytest.mark.browser

PICTURE = Path(__file__).parents[2] / "docs" / "images" / "inspector.png"

SETUP = """%load_ext ipy_dynwrap
import torch
from torch import nn

class Block(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.layers = nn.Sequential(nn.BatchNorm1d(width), nn.ReLU(), nn.Linear(width, width))

    def forward(self, x):
        return x + self.layers(x)

class DigitNet(nn.Module):
    def __init__(self, width=64):
        super().__init__()
        self.stem = nn.Linear(64, width)
        self.body = nn.Sequential(Block(width), Block(width))
        self.head = nn.Linear(width, 10)

    def forward(self, x):
        return self.head(self.body(self.stem(x)))

def smooth_loss(logits, target):
    log_p = logits.log_softmax(dim=1)
    return -0.9 * log_p.gather(1, target[:, None]).mean() - 0.1 * log_p.mean()

def norm_of(x, p):
    return x.norm(p=p, dim=1)

def batches(size, number):
    for _ in range(number):
        yield torch.rand(size, 64), torch.randint(10, (size,))

net = DigitNet()
"""
TRAIN = """%%compile --backend aot_eager
for images, target in batches(size=64, number=40):
    smooth_loss(net(images), target).backward()"""
SIZES = """%%compile --backend aot_eager
for size in (48, 32):
    for images, target in batches(size, number=20):
        smooth_loss(net(images), target).backward()"""
EVALUATE = """%%compile --backend aot_eager
net.eval()
with torch.no_grad():
    handle = net.head.register_forward_hook(lambda module, args, output: 2 * output)
    net(images)
    handle.remove()
    net(images);"""
LIMIT = """%%compile --backend aot_eager
for p in range(1, 13):
    norm_of(images, p + 0.5)"""


def test_the_inspector_can_be_shown_to_a_colleague(lab, notebook, tmp_path):
    notebook.open(lab.write("digits.ipynb", [SETUP, TRAIN, EVALUATE, LIMIT, SIZES, "%dynwrap"]))
    for index in range(6):
        notebook.run(index)
    page = notebook.page
    # All of the inspector at once, without a scroll.
    page.set_viewport_size({"width": 1400, "height": 1700})
    page.wait_for_selector(".dw-row")
    page.locator(".dw-row:not(.dw-family) .dw-toggle").first.click()
    page.wait_for_selector(".dw-entry-table tbody tr")
    # What marks the selected cell is not ours.
    page.add_style_tag(content=".jp-cell-toolbar, .jp-Collapser { visibility: hidden }")
    page.mouse.move(5, 5)
    page.wait_for_timeout(500)
    first, last = notebook.cell(4), notebook.cell(5)
    last.scroll_into_view_if_needed()
    top, bottom = first.bounding_box(), last.bounding_box()
    clip = {"x": top["x"], "y": top["y"], "width": top["width"], "height": bottom["y"] + bottom["height"] - top["y"]}
    file = PICTURE if os.environ.get("DYNWRAP_PICTURE") == "yes" else tmp_path / PICTURE.name
    file.parent.mkdir(parents=True, exist_ok=True)
    page.screenshot(path=file, clip=clip)
    assert file.stat().st_size > 20_000
    assert notebook.errors == []
