"""Functions whose globals are not those of the module that they name: scripts that `%run` ran, shells, old modules."""

from __future__ import annotations

import importlib
import sys

import pytest
import torch

import ipy_dynwrap

SOURCE = """
import torch

FACTOR = 2.0
COUNT = 0

def helper(x):
    return x * FACTOR

def function(x):
    return helper(x) * FACTOR

def count(x):
    global COUNT
    COUNT += 1
    return helper(x) + COUNT

class Net(torch.nn.Module):
    def forward(self, x):
        return helper(x) + 1

def over(value):
    def scale(x):
        return helper(x) * value
    return scale
"""
X = torch.arange(3.0)


def call_compiled(target, x):
    return ipy_dynwrap.compile(target, backend="eager")(x)


def call_in_region(target, x):
    with ipy_dynwrap.region(backend="eager", include=target.__module__):
        return target(x)


@pytest.fixture(params=[call_compiled, call_in_region], ids=["compile", "region"])
def call(request):
    return request.param


@pytest.fixture(params=["__main__", "no_such_module", "torch.nn.functional", "builtins"])
def scope(request):
    """Return the globals of a script that goes by a module's name."""
    scope = {"__name__": request.param}
    exec(SOURCE, scope)
    return scope


@pytest.mark.parametrize("target", ["function", "net", "closure"])
def test_globals_of_a_script_are_its_own(call, scope, target):
    target = {"function": scope["function"], "net": scope["Net"](), "closure": scope["over"](3)}[target]
    for factor in (2.0, 5.0, 2.0):
        scope["FACTOR"] = factor
        torch.testing.assert_close(call(target, X), target(X))
    scope["helper"] = lambda x: x - 1
    torch.testing.assert_close(call(target, X), target(X))


def test_globals_of_a_script_are_set(call, scope):
    for _ in range(3):
        before = scope["COUNT"]
        result = call(scope["count"], X)
        assert scope["COUNT"] == before + 1
        torch.testing.assert_close(result, scope["helper"](X) + scope["COUNT"])


def test_each_of_two_scripts_reads_its_own(call):
    scopes = [{"__name__": "__main__"} for _ in range(2)]
    for factor, scope in enumerate(scopes, 3):
        exec(SOURCE, scope)
        scope["FACTOR"] = float(factor)
    for _ in range(2):
        for scope in scopes:
            torch.testing.assert_close(call(scope["function"], X), X * scope["FACTOR"] ** 2)


def test_a_module_that_is_imported_anew_does_not_change_the_old_one(call, tmp_path, monkeypatch):
    (tmp_path / "some_helpers.py").write_text(SOURCE)
    monkeypatch.syspath_prepend(tmp_path)
    old = importlib.import_module("some_helpers")
    try:
        call(old.function, X)
        del sys.modules["some_helpers"]
        new = importlib.import_module("some_helpers")
        new.FACTOR, old.FACTOR = 3.0, 5.0
        for _ in range(2):
            torch.testing.assert_close(call(old.function, X), X * 25)
            torch.testing.assert_close(call(new.function, X), X * 9)
    finally:
        sys.modules.pop("some_helpers", None)
