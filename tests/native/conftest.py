"""The frame hook alone: no torch, no IPython. `Carrier` stands for the tensor."""

from __future__ import annotations

import contextlib
import ctypes
import itertools
import subprocess
import sysconfig
from pathlib import Path

import pytest

from ipy_dynwrap import _native

_policies = itertools.count(1_000_000)


@pytest.fixture(autouse=True)
def hook_is_off():
    """Fail the test that leaves the hook switched on, or the evaluator other than it was."""
    before = _native.evaluator()
    assert not _native.installed(), "an earlier test left the hook in place"
    yield
    leaked = _native.installed()
    _native.after_fork()
    assert not leaked, "the test left the hook in place"
    assert _native.evaluator() == before


@pytest.fixture(scope="session")
def carrier():
    class Carrier:
        pass

    return Carrier


class Watching:
    """A region with a policy by names, and a record of what it was asked and what it routed."""

    def __init__(self, verdicts, carrier, answer, policy):
        self.verdicts = verdicts
        self.carrier = carrier
        self.answer = answer
        self.policy = next(_policies) if policy is None else policy
        self.asked = []
        self.calls = []

    def decide(self, code, function):
        self.asked.append((code, function))
        return self.verdicts.get(code.co_name, _native.PASS)

    def route(self, function, args, kwargs):
        self.calls.append((function, args, kwargs))
        return self.answer(function, args, kwargs)

    def enter(self):
        return _native.enter(self.decide, self.route, self.carrier, self.policy)


def run(function, args, kwargs):
    """Answer as the frame itself would have done."""
    return function(*args, **kwargs)


@pytest.fixture
def region(carrier):
    """Return a context manager: ``with region(f=ROUTE) as record``."""

    @contextlib.contextmanager
    def region(_answer=run, _policy=None, **verdicts):
        watching = Watching(verdicts, carrier, _answer, _policy)
        opened = watching.enter()
        try:
            yield watching
        finally:
            _native.leave(opened)

    return region


@pytest.fixture(scope="session")
def other(tmp_path_factory):
    """Return another user of PEP 523: `switch_on`, `switch_off`, `frames_seen`, `address`."""
    library = tmp_path_factory.mktemp("other") / "other.so"
    source = Path(__file__).with_name("other_evaluator.c")
    include = sysconfig.get_path("include")
    subprocess.run(["cc", "-shared", "-fPIC", "-O1", f"-I{include}", source, "-o", library], check=True)
    loaded = ctypes.PyDLL(str(library))
    loaded.frames_seen.restype = ctypes.c_long
    loaded.address.restype = ctypes.c_ulonglong
    return loaded
