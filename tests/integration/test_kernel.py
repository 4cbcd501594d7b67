"""A cell under `%%compile` in a real ipykernel: what the protocol carries, `await`, interrupts, "Run All"."""

from __future__ import annotations

import nbformat
import pytest
from nbclient import NotebookClient
from nbclient.exceptions import CellExecutionError

from .conftest import NOTHING_OPEN, SETUP, STATE


def frames(text):
    return [line for line in text.splitlines() if line.startswith(("Cell ", "File "))]


def test_result_and_summary(kernel):
    answer = kernel("%%compile\ny = net(x)\ny[0, 0] * 0 + 5")
    assert answer.reply["status"] == "ok"
    assert answer.result.startswith("tensor(5.")
    [summary] = [each["content"]["data"] for each in answer.messages if each["msg_type"] == "display_data"]
    assert "compiled 1 graph" in summary["text/plain"]
    assert "compiled 1 graph" in summary["text/html"]
    assert kernel("_.item()").result == "5.0"


def test_traceback_and_reply(kernel):
    answer = kernel("%%compile\ny = net(x)\n\n1 / 0")
    assert (answer.reply["status"], answer.reply["ename"]) == ("error", "ZeroDivisionError")
    assert frames(answer.text) == [f"Cell In[{answer.reply['execution_count']}], line 4"]


@pytest.mark.parametrize("line", ["--bakend eager", "--backend nope", "--backend eager --mode nope"])
def test_wrong_option_fails_the_cell(kernel, line):
    answer = kernel(f"%%compile {line}\nran = True")
    assert answer.reply["status"] == "error"
    assert answer.reply["evalue"].startswith("%%compile: ")
    assert answer.text.startswith("UsageError: %%compile: ")
    assert kernel("'ran' in globals()").result == "False"


def test_await(kernel):
    answer = kernel("%%compile\nawait asyncio.sleep(0)\ny = net(x)\nawait asyncio.sleep(0, 5)")
    assert answer.result == "5"
    assert "1 call" in answer.text
    assert kernel("%%compile\nfrom __future__ import annotations\nawait asyncio.sleep(0, 6)").result == "6"
    assert kernel("%%time\n%%compile\ny = net(x)\n7").result == "7"


def test_failed_await(kernel):
    kernel("async def fail():\n    await asyncio.sleep(0)\n    raise LookupError('awaited')")
    answer = kernel("%%compile\ny = net(x)\nawait fail()")
    assert answer.reply["ename"] == "LookupError"
    places = frames(answer.text)
    assert places[0] == f"Cell In[{answer.reply['execution_count']}], line 3"
    assert places[-1].endswith("line 3, in fail()")
    assert kernel(STATE).text == NOTHING_OPEN


def test_cancelled_await(kernel):
    answer = kernel(
        "%%compile\n"
        "asyncio.get_running_loop().call_later(0.1, asyncio.current_task().cancel)\n"
        "y = net(x)\n"
        "await asyncio.sleep(60)"
    )
    assert answer.reply["ename"] == "CancelledError"
    assert kernel(STATE).text == NOTHING_OPEN


def test_task_that_outlives_its_cell_runs_eager(kernel):
    kernel("async def later():\n    await asyncio.sleep(0.2)\n    return net(x)")
    kernel("%%compile\ntask = asyncio.ensure_future(later())\nawait asyncio.sleep(0)")
    kernel("import ipy_dynwrap\nbefore = ipy_dynwrap.cache_info().calls\nawait task;")
    assert kernel("ipy_dynwrap.cache_info().calls - before").result == "0"


def test_interrupt_during_a_call(kernel):
    kernel(
        "@torch.compiler.disable\n"
        "def pause():\n    print('calling', flush=True)\n    time.sleep(60)\n"
        "def wait(x):\n    pause()\n    return x + 1"
    )
    answer = kernel("%%compile\ny = 0\nwait(x)", interrupt_at="calling")
    assert answer.reply["ename"] == "KeyboardInterrupt"
    places = frames(answer.text)
    assert places[0] == f"Cell In[{answer.reply['execution_count']}], line 3"
    assert places[1].endswith("line 6, in wait(x)")
    assert not any("ipy_dynwrap" in place or "_dynamo" in place for place in places)
    assert kernel(STATE).text == NOTHING_OPEN


def test_interrupt_while_awaiting(kernel):
    # In steps: ipykernel itself sees an interrupt only when its event loop wakes up.
    answer = kernel(
        "%%compile\nprint('waiting', flush=True)\nfor i in range(600): await asyncio.sleep(0.1)", interrupt_at="waiting"
    )
    assert answer.reply["status"] == "error"
    assert kernel(STATE).text == NOTHING_OPEN


def test_interrupt_during_a_compilation(start_kernel):
    # A kernel of its own, for torch is changed in it.
    kernel = start_kernel()
    kernel(SETUP)
    kernel(
        "import ipy_dynwrap\n"
        "from torch._dynamo.output_graph import OutputGraph\n"
        "slow = {}\n"
        "text = 'import time\\ndef wait(*args):\\n    print(\"compiling\", flush=True)\\n    time.sleep(60)'\n"
        "exec(compile(text, torch.__file__, 'exec'), slow)\n"
        "real, OutputGraph.compile_and_call_fx_graph = OutputGraph.compile_and_call_fx_graph, slow['wait']"
    )
    answer = kernel("%%compile\ny = 0\nnet(x)", interrupt_at="compiling")
    assert answer.reply["ename"] == "KeyboardInterrupt"
    assert frames(answer.text) == [f"Cell In[{answer.reply['execution_count']}], line 3"]
    assert kernel(STATE).text == NOTHING_OPEN

    # Nothing is routed any more, and the next region works.
    kernel("OutputGraph.compile_and_call_fx_graph = real\nbefore = ipy_dynwrap.cache_info().calls\nnet(x)")
    assert kernel("ipy_dynwrap.cache_info().calls - before").result == "0"
    assert "compiled 1 graph" in kernel("%%compile\nnet(x);").text


def test_exit_is_ipykernels(start_kernel):
    kernel = start_kernel()
    kernel(SETUP)
    native = kernel("import sys\nsys.exit(3)")
    answer = kernel("%%compile\nimport sys\nsys.exit(3)")
    assert answer.reply["ename"] == native.reply["ename"] == "SystemExit"
    assert answer.text == native.text
    assert kernel(STATE).text == NOTHING_OPEN


def test_silent_cell_has_no_result(kernel):
    answer = kernel("%%compile\n5", silent=True)
    assert answer.reply["status"] == "ok"
    assert answer.result is None


def test_places_in_a_kernel(kernel):
    kernel("import ipy_dynwrap\nipy_dynwrap.reset()")
    count = kernel("%%compile\n\nnet(x);").reply["execution_count"]
    place = kernel("from ipy_dynwrap.state import log\nplace = log.since()[-1].place\nplace.cell, place.line")
    assert place.result == f"({count}, 3)"


def test_help_is_shown(kernel):
    [page] = kernel("%%compile?").reply["payload"]
    assert "--fullgraph" in page["data"]["text/plain"]


def test_reload_in_a_kernel(kernel):
    count = "shell = get_ipython()\nlen(shell.ast_transformers), len(shell.input_transformers_cleanup)"
    before = kernel(count).result
    kernel("%reload_ext ipy_dynwrap")
    kernel("%load_ext ipy_dynwrap")
    assert kernel(count).result == before
    assert "1 call" in kernel("%%compile --backend eager\nnet(x);").text
    kernel("%config DynWrap.backend = 'eager'")


def test_subshell(kernel):
    """Kernels with subshells run cells in threads: each has its own region, value and summary."""
    client = kernel.client
    request = client.session.msg("create_subshell_request")
    client.control_channel.send(request)
    reply = client.get_control_msg(timeout=20)
    if reply["content"].get("status") != "ok":
        pytest.skip("this ipykernel has no subshells")
    message = client.session.msg(
        "execute_request",
        {"code": "%%compile\nz = net(x)[0, 0].item() * 0 + 5\nz", "silent": False, "store_history": True,
         "user_expressions": {"z": "z"}, "allow_stdin": False, "stop_on_error": True},
    )  # fmt: skip
    message["header"]["subshell_id"] = reply["content"]["subshell_id"]
    client.shell_channel.send(message)
    content = client.get_shell_msg(timeout=60)["content"]
    assert content["status"] == "ok", content
    assert content["user_expressions"]["z"]["data"]["text/plain"] == "5.0"


def test_run_all_stops_at_the_cell_that_fails():
    cells = [SETUP, "%%compile\n\n1 / 0", "print('ran on')"]
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(cell) for cell in cells])
    with pytest.raises(CellExecutionError) as raised:
        NotebookClient(notebook, kernel_name="python3", timeout=120).execute()
    assert raised.value.ename == "ZeroDivisionError"
    assert "line 3" in str(raised.value)
    assert not notebook.cells[2].outputs


def test_run_all_stops_at_a_wrong_option():
    cells = [SETUP, "%%compile --backend nope\nprint('ran')", "print('ran on')"]
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(cell) for cell in cells])
    with pytest.raises(CellExecutionError, match="unknown backend 'nope'"):
        NotebookClient(notebook, kernel_name="python3", timeout=120).execute()
    [error] = notebook.cells[1].outputs
    assert error.output_type == "error"
    assert not notebook.cells[2].outputs
