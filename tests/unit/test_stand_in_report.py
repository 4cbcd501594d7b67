"""What the comparison with Dynamo's own tests says."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

import pytest

FILE = Path(__file__).parents[2] / "tools" / "stand_in_report.py"


@pytest.fixture
def report(monkeypatch):
    spec = importlib.util.spec_from_file_location(FILE.stem, FILE)
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, FILE.stem, module)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def compared(report):
    passed, failed, skipped = (report.Outcome(*each) for each in (("passed", ""), ("failed", "Oh"), ("skipped", "")))
    torch = {"f::a": passed, "f::b": passed, "f::c": passed, "f::d": failed, "f::e": skipped, "f::gone": passed}
    ours = {"f::a": passed, "f::b": failed, "f::c": skipped, "f::d": passed, "f::e": skipped}
    return report.Comparison.of(torch, ours)


def test_each_test_is_of_one_kind(report, compared):
    assert compared.both == ["f::a"]
    assert [*compared.torch_only] == ["f::b", "f::c", "f::gone"]
    assert compared.torch_only["f::gone"] == report.NOT_RUN
    assert [*compared.ours_only] == ["f::d"]
    assert compared.neither == ["f::e"]
    assert compared.counts() == (6, 1, 3, 1, 1)


def test_the_counts_of_files_add_up(report, compared):
    total = report.Comparison()
    total.add(compared)
    assert total == compared
    assert report.counts("f", total).split() == ["f", "6", "1", "3", "1", "1"]
    assert len(report.heading()) == len(report.counts("f", total))


def test_what_passed_with_one_only_is_told_with_its_reason(report, compared):
    known = report.Known({"it looks there": ["f::c", "f::g*"], "never seen": ["g::*"], "no more": ["*::a"]})
    assert list(report.details(compared, known)) == [
        "Passed with torch.compile only: 3",
        "  2 it looks there",
        "    f::c: skipped with ours",
        "    f::gone: not run with ours",
        "  1 without a known reason",
        "    f::b: failed with ours",
        "        Oh",
        "Passed with ours only: 1",
        "    f::d: failed with torch.compile",
        "        Oh",
        "Passed with both, though a reason is on file why they should not: 1",
        "    *::a",
    ]
