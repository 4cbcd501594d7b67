"""The pytest plugin of `stand_in.py`: puts `ipy_dynwrap.compile` in place of `torch.compile`, and notes every outcome.

Outcomes go to a file, a line of JSON each, as they come: a process that crashes loses the test it was in, no more. The
next process leaves out what the file already has.
"""

from __future__ import annotations

import functools
import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pytest

STARTED = "started"


def pytest_addoption(parser: pytest.Parser) -> None:
    """Declare the two options that the runner passes."""
    parser.addoption("--stand-in-log", type=Path, required=True)
    parser.addoption("--stand-in", action="store_true")


def pytest_configure(config: pytest.Config) -> None:
    """Replace `torch.compile` before any test module is imported."""
    config.pluginmanager.register(_Notes(config.getoption("--stand-in-log")))
    if config.getoption("--stand-in"):
        _replace()


class _Notes:
    def __init__(self, log: Path) -> None:
        self._log = log
        self._known = {json.loads(line)["id"] for line in log.read_text().splitlines()}

    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        items[:] = [item for item in items if item.nodeid not in self._known]

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        if report.failed:
            self._note(report.nodeid, "failed", _first_line(report))

    def pytest_runtest_logstart(self, nodeid: str) -> None:
        self._note(nodeid, STARTED)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.when == "call" or not report.passed:
            outcome = "xfailed" if hasattr(report, "wasxfail") else report.outcome
            self._note(report.nodeid, outcome, _first_line(report) if report.failed else "")

    def _note(self, test: str, outcome: str, error: str = "") -> None:
        with self._log.open("a") as log:
            print(json.dumps({"id": test, "outcome": outcome, "error": error}), file=log)


def _first_line(report: pytest.CollectReport | pytest.TestReport) -> str:
    crash = getattr(report.longrepr, "reprcrash", None)
    lines = (crash.message if crash else str(report.longrepr)).strip().splitlines()
    return lines[0] if lines else ""


def _replace() -> None:
    import torch
    import torch._dynamo

    import ipy_dynwrap
    from ipy_dynwrap import dynamo

    torch_compile, torch_optimize = torch.compile, torch._dynamo.optimize  # noqa: SLF001 - what its tests call

    @functools.wraps(torch_compile)
    def compile(model: Any = None, **options: Any) -> Any:  # noqa: A001 - in place of torch.compile
        if torch.compiler.is_dynamo_compiling() or not _asked_by_torch():
            return ipy_dynwrap.compile(model, **options)
        return torch_compile(model, **options)

    @functools.wraps(torch_optimize)
    def optimize(backend: Any = "inductor", **options: Any) -> Callable[..., Any]:
        if _asked_by_torch() or not options.keys() <= {"nopython", "disable", "dynamic"}:
            return torch_optimize(backend, **options)
        fullgraph = options.pop("nopython", False)
        return ipy_dynwrap.compile(backend=backend, fullgraph=fullgraph, **options)

    # Both make compiled code: no matter for Dynamo to trace, as torch's own.
    torch.compile = dynamo.keep_out(compile, traced_through=True)
    torch._dynamo.OptimizedModule = _optimized_module(torch._dynamo.OptimizedModule)  # noqa: SLF001 - what its tests ask for
    torch._dynamo.optimize = dynamo.keep_out(optimize)  # noqa: SLF001 - the same


def _optimized_module(torchs: type) -> type:
    """Return what stands for torch's class of compiled modules where a test asks whether something is one."""
    from ipy_dynwrap.compiled_module import Compiled

    class Kind(type):
        def __instancecheck__(cls, instance: object) -> bool:
            return isinstance(instance, torchs | Compiled)

    return Kind("OptimizedModule", (), {})


def _asked_by_torch() -> bool:
    """Return whether torch itself, or ours that builds on it, calls: it means the real one. Its test helpers do not."""
    caller = sys._getframe(2).f_globals.get("__name__", "")  # noqa: SLF001 - the plain way to know the caller
    if caller.startswith(("torch.testing.", "torch._dynamo.test")):
        return False
    return caller.split(".")[0] in ("torch", "ipy_dynwrap")
