"""Completion of options, values, commands and names, by IPython's own completer."""

from __future__ import annotations

import subprocess
import sys

import pytest
from IPython.core.completer import provisionalcompleter

import ipy_dynwrap
from ipy_dynwrap import arguments, completion, dynamo, magics


@pytest.fixture
def complete(shell):
    shell(
        "import torch, json\nclass Net(torch.nn.Linear):\n    pass\nnet = Net(3, 3)\ndef loss(y):\n    return y.sum()"
    )
    shell("number = 3")

    def found(text):
        with provisionalcompleter():
            return {each.text for each in shell.ip.Completer.completions(text, len(text))}

    found.shell = shell
    return found


OPTIONS = {f"--{name}" for name in (*arguments.VALUED, *arguments.SWITCHES)}


@pytest.mark.parametrize(
    "line", ["%%compile ", "%%compile --", "%compile --", "%%compile --backend eager --", "%compile --mode=default --"]
)
def test_options(complete, line):
    assert complete(line) >= OPTIONS
    assert "number" not in complete(line)


@pytest.mark.parametrize(
    ("line", "some"),
    [
        ("%%compile --ba", {"--backend"}),
        ("%%compile --no-", {"--no-dynamic", "--no-fullgraph", "--no-quiet"}),
        ("%%compile --backend ", {"eager", "aot_eager", "inductor"}),
        ("%%compile --backend=aot_e", {"aot_eager"}),
        ("%%compile --mode max-autotune-no", {"max-autotune-no-cudagraphs"}),
        ("%%compile --stance force", {"force_eager"}),
        ("%%compile --include js", {"json"}),
        ("%%compile --exclude ", {"Net", "net", "loss"}),
        ("%dynwrap ", set(magics.COMMANDS)),
        ("%dynwrap wo", {"would"}),
        ("%dynwrap why ", {"Net", "net", "loss"}),
        ("%dynwrap reset ne", {"net"}),
        ("%dynwrap skip lo", {"loss"}),
        ("%%compile --quiet\nnet(x)\n%dynwrap wh", {"why"}),
    ],
)
def test_values_commands_and_names(complete, line, some):
    assert complete(line) >= some
    assert not complete(line) & {"number", "number.real", "In", "get_ipython"}


def test_what_was_compiled_is_known_without_a_name(complete):
    complete.shell("%compile torch.nn.Sequential(net)(torch.ones(3));")
    assert "Sequential" in complete("%dynwrap why Se")
    ipy_dynwrap.reset()


@pytest.mark.parametrize("line", ["%compile json.du", "%compile --quiet json.du", "%dynwrap would json.du"])
def test_a_statement_is_completed_as_ipython_does(complete, line):
    assert "dumps" in complete(line)


def test_what_is_offered_without_torch_exists():
    assert set(completion.BACKENDS) <= set(dynamo.backends())
    assert set(completion.MODES) <= set(dynamo.modes())
    for stance in completion.STANCES:
        dynamo.set_stance(stance)


def test_completion_imports_no_torch():
    code = """
import sys
from IPython.core.completer import provisionalcompleter
from IPython.core.interactiveshell import InteractiveShell
ip = InteractiveShell.instance()
ip.run_line_magic("load_ext", "ipy_dynwrap")
with provisionalcompleter():
    for line in ("%dynwrap why ", "%%compile --mode ", "%%compile --backend "):
        found = list(ip.Completer.completions(line, len(line)))
print(*(each.text for each in found), "torch" in sys.modules)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == [*completion.BACKENDS, "False"]
