"""What the views leave in a notebook, in a real kernel."""

from __future__ import annotations

import json

import nbformat
import pytest
from nbclient import NotebookClient
from nbconvert import HTMLExporter

RECORDS = """
import time
from ipy_dynwrap.events import CompileFinished, CompileStarted, Log
from ipy_dynwrap.views import live_line, show_report
from ipy_dynwrap.snapshot import Report

log = Log()
about = "net", "Net.forward", "forward", "0/1", ("x.shape[0] 4 -> 5",), None

def compiling(seconds):
    log.write(CompileStarted(*about))
    time.sleep(seconds)
    log.write(CompileFinished(*about, seconds, "compiled"))
"""


class Client(NotebookClient):
    """Keeps what the kernel publishes for the outputs of cells, with the cell that it is for."""

    def __init__(self, cells, **traits):
        notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(cell) for cell in cells])
        super().__init__(notebook, kernel_name="python3", allow_errors=True, **traits)
        self.displays = []
        self.execute()

    def process_message(self, message, cell, index):
        if message["msg_type"] in ("display_data", "update_display_data"):
            self.displays.append((index, message["content"]["data"].get("text/plain", "")))
        return super().process_message(message, cell, index)

    def outputs(self, index):
        return self.nb.cells[index].outputs

    def html(self):
        return HTMLExporter().from_notebook_node(self.nb)[0]


def test_the_live_line_is_drawn_in_its_cell_and_nothing_of_it_is_saved():
    client = Client(
        [
            RECORDS,
            "with live_line(log):\n    print('before')\n    compiling(1.7)\n    print('after')\n1 + 1",
            "with live_line(log):\n    compiling(0.1)",
        ]
    )
    lines = [line for index, line in client.displays if index == 1]
    assert len(client.displays) == len(lines)
    assert len(lines) >= 3
    assert all(line.startswith("compiling Net.forward (0/1): x.shape[0] 4 -> 5 · ") for line in lines[:-1])
    assert lines[-1] == ""
    # Jupyter has no way to take an output away: an empty one stays, which no front end draws.
    displays = [output for output in client.outputs(1) if output.output_type == "display_data"]
    assert [output.data for output in displays] == [{"text/plain": "", "text/html": ""}]
    assert client.outputs(2) == []
    assert "compiling Net" not in client.html()
    nbformat.validate(client.nb)


@pytest.mark.parametrize("error", ["ValueError", "KeyboardInterrupt"])
def test_an_error_takes_the_line_away(error):
    body = f"    log.write(CompileStarted(*about))\n    time.sleep(1.2)\n    raise {error}"
    client = Client(
        [RECORDS, f"with live_line(log):\n{body}", "import threading; threading.active_count(), log._subscribers"]
    )
    assert client.displays[-1] == (1, "")
    assert client.displays[0][1].startswith("compiling Net.forward")
    assert client.outputs(1)[-1].ename == error
    before = Client(["import threading; threading.active_count(), ()"]).outputs(0)[0].data
    assert client.outputs(2)[0].data == before


def test_capture_keeps_the_summary_and_gets_no_line():
    client = Client(
        [
            RECORDS,
            "%%capture captured\nwith live_line(log):\n    compiling(1.0)\nshow_report(Report(calls=3, hits=3))",
            "[output.data['text/plain'] for output in captured.outputs]",
        ]
    )
    assert client.outputs(1) == []
    assert client.outputs(2)[0].data["text/plain"] == "['3 calls, 3 hits, 0 eager']"


def test_a_capture_inside_the_cell_does_not_get_the_line():
    body = "    with capture_output() as captured:\n        compiling(1.2)\nlen(captured.outputs)"
    client = Client([RECORDS, f"from IPython.utils.capture import capture_output\nwith live_line(log):\n{body}"])
    assert client.displays[0][1].startswith("compiling Net.forward")
    assert client.outputs(1)[-1].data["text/plain"] == "0"


COMPILED = """%load_ext ipy_dynwrap
import torch
net = torch.nn.Linear(3, 3)"""


@pytest.mark.parametrize("stored", [False, True], ids=["without state", "with state"])
def test_a_saved_notebook_shows_the_table_without_kernel_and_script(stored):
    client = Client(
        [COMPILED, "%%compile --backend eager\nnet(torch.ones(2, 3)); net(torch.ones(4, 3));", "%dynwrap"],
        store_widget_state=stored,
    )
    widget, shown = client.outputs(2)
    assert "text/html" not in widget.data
    # The sums stand in one of the two: a page without a kernel shows both.
    assert [each.data["text/plain"].count("1 wrapper · 2 compilations") for each in (widget, shown)] == [0, 1]
    assert "Linear" in shown.data["text/plain"]
    assert "<script" not in shown.data["text/html"]
    assert "2 entries" in client.html()
    assert "x.shape[0] 2 → 4" in client.html().replace("input.shape", "x.shape")
    assert "Why it compiled again (1)" in client.html()
    assert "Timeline (1 cell)" in client.html()


def test_capture_takes_the_inspector():
    client = Client(
        [
            COMPILED,
            "%%capture captured\n%dynwrap",
            "[each.data['text/plain'] for each in captured.outputs if each.data]",
        ]
    )
    assert client.outputs(1) == []
    assert "Nothing has been compiled yet." in client.outputs(2)[0].data["text/plain"]


def test_the_widget_adds_little_to_a_notebook_that_keeps_its_state():
    client = Client([COMPILED, "%dynwrap"])
    state = client.nb.metadata.widgets["application/vnd.jupyter.widget-state+json"]["state"]
    assert any("dynwrap" in json.dumps(model) for model in state.values())
    assert len(json.dumps(client.nb)) < 80_000
