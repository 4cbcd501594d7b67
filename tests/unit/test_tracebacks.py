"""Tracebacks without the frames between a call and what it runs."""

from __future__ import annotations

import functools
import traceback

import pytest

torch = pytest.importorskip("torch")

from ipy_dynwrap import dynamo, state  # noqa: E402 (torch may be missing)
from ipy_dynwrap.tracebacks import strip  # noqa: E402


def frame_in(file, name="between"):
    """Return a function of that file that calls on."""
    namespace = {}
    exec(compile(f"def {name}(call):\n    return call()\n", file, "exec"), namespace)
    return namespace[name]


def raising(error):
    raise error


def caught(*files, error=None):
    error = error or ValueError("no")

    def call():
        raising(error)

    for file in reversed(files):
        call = functools.partial(frame_in(file), call)
    with pytest.raises(Exception) as info:  # noqa: PT011 (whatever was given)
        call()
    return info.value


def files_of(error):
    return [frame.filename for frame in traceback.extract_tb(error.__traceback__)]


TORCH = torch.__file__.rsplit("/", 1)[0]
OURS = state.__file__.rsplit("/", 1)[0]
BETWEEN = [
    f"{OURS}/engine.py",
    "<ipy_dynwrap Net#1>",
    f"{TORCH}/_dynamo/eval_frame.py",
    f"{TORCH}/_functorch/aot_autograd.py",
    f"{TORCH}/_inductor/utils.py",
    f"{TORCH}/fx/graph_module.py",
    "<eval_with_key>.7",
    "/var/torchinductor_me/ab/cab.py",
]


@pytest.mark.parametrize("file", BETWEEN)
def test_what_stands_between_goes(file):
    error = caught(file)
    assert file in files_of(error)
    assert strip(error) is error
    assert file not in files_of(error)
    assert files_of(error)[-1] == __file__


@pytest.mark.parametrize("file", [f"{TORCH}/nn/modules/linear.py", f"{TORCH}_mine/model.py", "/home/me/model.py"])
def test_what_eager_would_show_stays(file):
    error = caught(file)
    before = files_of(error)
    assert files_of(strip(error)) == before


def test_the_order_and_the_lines_stay():
    error = caught("/a.py", BETWEEN[0], "/b.py", BETWEEN[2])
    kept = [(frame.filename, frame.lineno) for frame in traceback.extract_tb(strip(error).__traceback__)]
    assert [each for each in kept if each[0] != __file__] == [("/a.py", 2), ("/b.py", 2)]
    assert kept[-1][0] == __file__


def test_torchs_word_about_a_compilation_keeps_torchs_frames():
    error = caught(BETWEEN[0], BETWEEN[2], error=torch._dynamo.exc.Unsupported("a graph break"))
    assert dynamo.is_about_compiling(error)
    strip(error)
    assert BETWEEN[0] not in files_of(error)
    assert BETWEEN[2] in files_of(error)


def test_an_error_without_a_traceback():
    error = ValueError()
    assert strip(error).__traceback__ is None
