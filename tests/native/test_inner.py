"""Calls inside of routed calls, each in a process of its own: who routes them stays for the life of a process."""

from __future__ import annotations

import subprocess
import sys

import pytest

PROGRAM = """
from ipy_dynwrap import _native

asked = []

def decide(code, function):
    return _native.ROUTE if code.co_name == "outer" else _native.PASS

def route(function, args, kwargs):
    return function(*args, **kwargs)

def inner(function, args, kwargs):
    asked.append((function.__name__, args, kwargs))
    return answer(function, args, kwargs)

def answer(function, args, kwargs):
    return _native.DECLINE

def model(x, *, y=0):
    return [x, y]

def barrier():
    return model(2)

def outer():
    return model(1, y=5)

def in_region(call):
    region = _native.enter(decide, route, object, 1)
    try:
        return call()
    finally:
        _native.leave(region)

def watched(call):
    return _native.watch(call, ())

_native.route_inner(inner, model.__code__, [barrier.__code__])
"""


def run(lines):
    done = subprocess.run([sys.executable, "-c", PROGRAM + lines], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.split("\n")[:-1]


@pytest.mark.parametrize("way", ["in_region", "watched"])
def test_a_call_inside_is_handed_over_with_its_arguments(way):
    assert run(f"print({way}(outer), asked[0][0], *asked[0][1:], len(asked))") == ["[1, 5] model (1,) {'y': 5} 1"]


def test_the_answer_replaces_the_call():
    assert run("answer = lambda *call: 'routed'\nprint(in_region(outer), watched(outer))") == ["routed routed"]


def test_a_call_that_is_inside_of_no_routed_one_passes():
    assert run("print(in_region(lambda: model(3)), asked, model(4))") == ["[3, 0] [] [4, 0]"]


@pytest.mark.parametrize("way", ["in_region", "watched"])
def test_nothing_is_asked_inside_of_a_barrier(way):
    lines = f"def outer():\n    return [barrier(), model(1)]\nprint({way}(outer), len(asked))"
    assert run(lines) == ["[[2, 0], [1, 0]] 1"]


def test_what_is_declined_for_all_is_a_barrier():
    lines = """
def model(x):
    return model(x - 1) if x else "end"
_native.route_inner(inner, model.__code__, [])
answer = lambda *call: _native.DECLINE_ALL
print(watched(lambda: model(3)), len(asked))
answer = lambda *call: _native.DECLINE
print(watched(lambda: model(3)), len(asked))
"""
    assert run(lines) == ["end 1", "end 5"]


def test_an_error_inside_is_the_calls():
    lines = """
def answer(function, args, kwargs):
    raise KeyError("mine")
for way in in_region, watched:
    try:
        way(outer)
    except KeyError as error:
        print(error, _native.installed(), model(1))
"""
    assert run(lines) == ["'mine' False [1, 0]"] * 2


def test_what_is_forgotten_is_still_handed_over():
    assert run("_native.forget(model.__code__)\nwatched(outer)\nprint(len(asked))") == ["1"]


def test_a_policy_that_passes_the_code_changes_nothing_inside():
    lines = """
decide = lambda code, function: _native.ROUTE if code.co_name == "outer" else _native.PASS
def all():
    model(0)
    return outer()
print(in_region(all), len(asked))
"""
    assert run(lines) == ["[1, 5] 1"]


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        ("None, model.__code__, []", "TypeError: the route has to be callable"),
        ("inner, model, []", "TypeError: a code object is needed, not function"),
        ("inner, model.__code__, [1]", "TypeError: a code object is needed, not int"),
        ("inner, model.__code__, 1", "TypeError: 'int' object is not iterable"),
    ],
)
def test_wrong_arguments(arguments, error):
    lines = f"try:\n    _native.route_inner({arguments})\nexcept TypeError as error:\n    print('TypeError:', error)"
    assert run(lines) == [error]
