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
