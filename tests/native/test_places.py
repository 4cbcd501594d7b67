"""Code that is moved: the same code object, in another file and other lines."""

from __future__ import annotations

import linecache
import sys
import traceback

import pytest

from ipy_dynwrap import _native

BEFORE = "def divide(x):\n    return 1 / x\n"
AFTER = "# a comment\n\ndef divide(x):\n\n    return 1 / x\n"


def compiled(source, file):
    linecache.cache[file] = (len(source), None, source.splitlines(keepends=True), file)
    namespace = {}
    exec(compile(source, file, "exec"), namespace)
    return namespace["divide"]


def lines_of_failure(function):
    try:
        function(0)
    except ZeroDivisionError as error:
        frame = traceback.extract_tb(error.__traceback__)[-1]
    return frame.filename, frame.lineno, frame.line


@pytest.fixture
def moved():
    function, other = compiled(BEFORE, "<before>"), compiled(AFTER, "<after>")
    return function, other.__code__


def test_a_moved_code_object_fails_where_the_other_one_stands(moved):
    function, like = moved
    code, table = function.__code__, function.__code__.co_linetable
    assert lines_of_failure(function) == ("<before>", 2, "return 1 / x")
    assert _native.move(code, like) == table
    assert function.__code__ is code
    assert lines_of_failure(function) == ("<after>", 5, "return 1 / x")
    assert list(code.co_lines()) == list(like.co_lines())


def test_what_was_moved_owns_its_place(moved):
    function, like = moved
    counts = [sys.getrefcount(each) for each in (like.co_filename, like.co_linetable)]
    for _ in range(10):
        _native.move(function.__code__, like)
    assert [sys.getrefcount(each) for each in (like.co_filename, like.co_linetable)] == [count + 1 for count in counts]
    del moved, like
    assert lines_of_failure(function)[1] == 5


def test_a_traced_code_object_is_moved_or_left_alone(moved):
    function, like = moved
    seen = []

    def trace(frame, event, _):
        if frame.f_code is function.__code__ and event == "line":
            seen.append(frame.f_lineno)
        return trace

    def traced():
        before = sys.gettrace()
        sys.settrace(trace)
        try:
            function(1)
        finally:
            sys.settrace(before)

    traced()
    kept = _native.move(function.__code__, like)
    traced()
    assert seen == [2, 5 if kept is not None else 2]


def test_only_code_of_one_length_is_moved(moved):
    function, like = moved
    with pytest.raises(TypeError, match="code objects"):
        _native.move(function, like)
    with pytest.raises(ValueError, match="length"):
        _native.move(function.__code__, test_only_code_of_one_length_is_moved.__code__)
    assert function.__code__.co_filename == "<before>"
