"""Programs whose compiled form once gave another answer than eager, found by the randomized tests.

Each is a notebook: cells, and calls that are made in a notebook that compiles and in one that does not.
"""

from __future__ import annotations

import functools
from dataclasses import replace

import pytest
import torch
from machine import Call, Twins


@pytest.fixture(params=["region", "compile", "kept"])
def check(request):
    """Return what takes steps in both notebooks and compares, with all calls made in one way."""
    twins = Twins()

    def take(*steps):
        twins(*(step if isinstance(step, str) else replace(step, way=request.param) for step in steps))

    yield take
    twins.close()


fails = functools.partial(pytest.mark.xfail, strict=True, raises=AssertionError)


def test_the_order_of_keyword_arguments(check):
    check(
        "def first_of(x, **more):\n    return x * list(more.values())[0]",
        Call("first_of", "x, a=2, b=3"),
        Call("first_of", "x, b=3, a=2"),
    )


@fails(reason="torch's guard on a float is ==, which 0.0 and -0.0 pass")
def test_the_sign_of_zero(check):
    check(
        "def over(x, k):\n    return torch.ones(4) / k + x",
        Call("over", "x, 0.0"),
        Call("over", "x, -0.0"),
    )


@fails(reason="torch looks through functools.lru_cache and runs the function at each call")
def test_a_function_with_a_cache_runs_once(check):
    check(
        "@functools.lru_cache\ndef factor(n):\n    log.append('computed')\n    return n * 2",
        "def scaled(x):\n    return x * factor(3)",
        Call("scaled"),
        Call("scaled"),
    )


@fails(reason="torch's graphs name functions of torch and look them up by name when they run")
def test_a_function_of_torch_that_is_replaced_where_it_is_looked_up(check, monkeypatch):
    monkeypatch.setattr("torch.nn.functional.relu", torch.nn.functional.relu)  # to be put back
    check(
        "relu = F.relu\ndef held(x):\n    return relu(x)",
        Call("held"),
        "F.relu = torch.sin",
        Call("held"),
    )


def frozen(x):
    with torch.no_grad():
        return torch.nn.functional.linear(x, torch.ones(4, 4))


@fails(reason="torch does not put grad mode back where a graph that has switched it raises")
def test_grad_mode_after_an_error(way):
    with pytest.raises(RuntimeError, match="dtype"):
        way(backend="eager")(frozen, torch.ones(2, 4, dtype=torch.int64))
    left = torch.is_grad_enabled()
    torch.set_grad_enabled(True)
    assert left
