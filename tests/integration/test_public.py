"""What the public functions say of what was never compiled, and of what is no callable."""

from __future__ import annotations

import pytest
import torch

import ipy_dynwrap


def double(x):
    return x * 2


@pytest.fixture(autouse=True)
def fresh():
    ipy_dynwrap.reset()
    yield
    ipy_dynwrap.reset()


def test_a_reset_of_what_was_never_compiled_is_no_error():
    ipy_dynwrap.reset(torch.nn.ReLU())
    ipy_dynwrap.reset(double)
    ipy_dynwrap.reset(torch.nn.ReLU)
    ipy_dynwrap.reset(ipy_dynwrap.compile(double))


@pytest.mark.parametrize("function", [ipy_dynwrap.reset, ipy_dynwrap.explain])
def test_what_is_no_callable_is_said_to_be_none(function):
    with pytest.raises(LookupError, match=r"^nothing is compiled for 42, which is no callable$"):
        function(42)
    with pytest.raises(LookupError, match=r"^no wrapper is called 'dubble'; known: none yet$"):
        function("dubble")


def test_what_was_never_called_is_said_to_be_so():
    with pytest.raises(LookupError, match=r"^double has not been called compiled: under %%compile, in a region, or"):
        ipy_dynwrap.explain(double)


def test_everything_is_explained():
    assert str(ipy_dynwrap.explain()) == "nothing has been compiled yet"
    with ipy_dynwrap.region(backend="eager"):
        double(torch.ones(3))
        torch.nn.ReLU()(torch.ones(3))
    shown = str(ipy_dynwrap.explain())
    assert "double (eager): compiled" in shown
    assert "ReLU.forward (eager): compiled" in shown
    assert "double" not in str(ipy_dynwrap.explain(torch.nn.ReLU))


def test_a_region_says_what_it_is():
    region = ipy_dynwrap.region(backend="eager")
    assert repr(region) == "<ipy_dynwrap.region (eager): not entered yet>"
    with region:
        double(torch.ones(3))
        assert repr(region) == "<ipy_dynwrap.region (eager): open>"
    assert repr(region) == "<ipy_dynwrap.region (eager): left, calls=1, compiles=1>"


def run_and_report(**names):
    with ipy_dynwrap.region(backend="eager", **names) as region:
        double(torch.ones(3))
        torch.nn.ReLU()(torch.ones(3))
    return region.report.notices


def test_names_that_nothing_has_are_said():
    assert run_and_report(exclude=["double", "ReLU"]) == ()
    assert run_and_report(exclude=["dubble", "double"]) == (
        "nothing was excluded as dubble: no call of that name would be compiled on its own",
    )
    assert run_and_report(exclude="ReLU.forward") == ()
    assert run_and_report(include="no_such_module") == (
        "nothing was included from no_such_module: no module of that name is imported",
    )
    assert run_and_report(include=["json", "torch.nn"]) == ()


def test_the_inspector_acts_on_wrappers_but_not_while_a_region_is_open():
    from ipy_dynwrap import views

    with ipy_dynwrap.region(backend="eager"):
        double(torch.ones(3))
        [wrapper] = ipy_dynwrap.cache_info().wrappers
        for act in (views._reset, views._skip):
            with pytest.raises(RuntimeError, match=r"^Not now: a cell runs compiled code"):
                act(wrapper.name)
    views._skip(wrapper.name)
    assert ipy_dynwrap.cache_info().wrappers[0].state == "skipped"
    views._reset(wrapper.name)
    [wrapper] = ipy_dynwrap.cache_info().wrappers
    assert (wrapper.state, wrapper.entries) == ("eager", ())
