"""The timeline: a record of each cell, with %%compile or without, and of each region in a script."""

from __future__ import annotations

import pytest
import torch

import ipy_dynwrap
from ipy_dynwrap import cell_runs

BROKEN = """
import torch, time

def broken(x):
    y = x + 1
    torch._dynamo.graph_break()
    return y * 2

def whole(x):
    return x * 3

x = torch.ones(2, 3)
"""


@pytest.fixture(autouse=True)
def fresh():
    ipy_dynwrap.reset()
    yield
    ipy_dynwrap.reset()


def doubled(x):
    return x * 2


def divided_by(number, x):
    doubled(x)
    return divmod(1, number)


def test_a_cell_has_its_times_counts_and_targets(shell):
    shell(BROKEN)
    first = shell("%%compile\nfor i in range(3):\n    broken(x)\nwhole(x);").execution_count
    *_, run = ipy_dynwrap.timeline()
    assert (run.cell, run.calls, run.hits, run.compiles, run.failed) == (first, 4, 2, 3, False)
    assert (run.recompiles, run.eager_calls, run.graph_breaks) == (0, 0, 1)
    assert run.compiled == ("broken", "whole")
    assert run.run_seconds > 0
    assert run.compile_seconds + run.run_seconds < run.seconds
    shell("%%compile\nbroken(x);")
    *_, again = ipy_dynwrap.timeline()
    assert (again.cell, again.calls, again.hits, again.compiles, again.compiled) == (first + 1, 1, 1, 0, ())
    assert again.compile_seconds == 0
    assert 0 < again.run_seconds < again.seconds
    assert again.at >= run.at + run.seconds - 0.1


def test_every_cell_is_there_that_ran(shell):
    numbers = [shell(cell).execution_count for cell in ("1 + 1;", "1 / 0", "1 +", "raise KeyboardInterrupt")]
    shell("   ")
    shell("'silent'", silent=True)
    runs = ipy_dynwrap.timeline()
    assert [(run.cell, run.failed) for run in runs[-4:]] == [
        (number, failed) for number, failed in zip(numbers, (False, True, True, True), strict=True)
    ]
    assert all(run.calls == run.compiles == 0 and run.compile_seconds == run.run_seconds == 0 for run in runs[-4:])


def test_a_cell_within_a_cell_ends_first(shell):
    outer = shell("inner = get_ipython().run_cell('1 / 0')").execution_count
    inner, around = ipy_dynwrap.timeline()[-2:]
    assert (inner.cell, inner.failed, around.cell, around.failed) == (None, True, outer, False)
    assert inner.at >= around.at
    assert inner.seconds <= around.seconds
    assert not cell_runs.in_cell()


def test_calls_outside_of_a_region_count_too(shell):
    shell(BROKEN + "import ipy_dynwrap\nfast = ipy_dynwrap.compile(whole, backend='eager')")
    shell("fast(x);")
    *_, run = ipy_dynwrap.timeline()
    assert (run.calls, run.compiles, run.compiled) == (1, 1, ("whole",))


def test_a_reset_within_a_cell_leaves_what_came_after_it(shell):
    shell(BROKEN + "import ipy_dynwrap")
    shell("%compile whole(x)\nipy_dynwrap.reset()\n%compile broken(x);")
    [run] = ipy_dynwrap.timeline()
    assert (run.calls, run.compiles, run.compiled) == (1, 2, ("broken",))


def test_a_region_in_a_script_is_a_run_and_one_in_a_cell_is_not(shell):
    with pytest.raises(ZeroDivisionError), ipy_dynwrap.region(backend="eager", exclude="divided_by"):
        divided_by(0, torch.ones(3))
    [run] = ipy_dynwrap.timeline()
    assert (run.cell, run.calls, run.compiles, run.compiled, run.failed) == (None, 1, 1, ("doubled",), True)
    shell("import ipy_dynwrap\nwith ipy_dynwrap.region(backend='eager'):\n    pass")
    assert [each.cell for each in ipy_dynwrap.timeline()] == [None, shell.ip.execution_count - 1]


def test_an_unloaded_extension_records_no_more(shell):
    shell("%unload_ext ipy_dynwrap")
    before = len(ipy_dynwrap.timeline())
    shell("1;")
    assert len(ipy_dynwrap.timeline()) == before
    shell.ip.run_line_magic("load_ext", "ipy_dynwrap")


def test_as_many_are_kept_as_is_said():
    for _ in range(1_010):
        cell_runs.Run().end(failed=False)
    assert len(ipy_dynwrap.timeline()) == 1_000
    assert not set(cell_runs._running)
