"""The wording that all views share, and the line under a cell."""

from __future__ import annotations

import pytest
from IPython.core.interactiveshell import InteractiveShell
from IPython.utils.capture import capture_output

from ipy_dynwrap.events import CompileStarted
from ipy_dynwrap.snapshot import CacheInfo, Report
from ipy_dynwrap.views import show_report, summary, words


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0, "0 s"),
        (0.0000042, "4 µs"),
        (0.0031, "3.1 ms"),
        (0.048, "48 ms"),
        (0.9994, "999 ms"),
        (0.9996, "1.0 s"),
        (3.21, "3.2 s"),
        (9.96, "10 s"),
        (59.4, "59 s"),
        (59.6, "1 min 0 s"),
        (125, "2 min 5 s"),
    ],
)
def test_durations_show_the_digits_that_matter(seconds, text):
    assert words.duration(seconds) == text


def test_nouns_agree_with_their_numbers():
    assert [words.count(number, "entry") for number in (0, 1, 2)] == ["0 entries", "1 entry", "2 entries"]
    assert words.count(1200, "call") == "1,200 calls"


def test_what_a_terminal_would_obey_is_made_visible():
    assert words.printable("a\x1b[31m\nb") == "a\\x1b[31m\\nb"


@pytest.mark.parametrize(
    ("report", "text"),
    [
        (Report(), ""),
        (Report(seconds=3), ""),
        (Report(calls=1, hits=1), "1 call, 1 hit, 0 eager"),
        (Report(calls=1, compiles=1, compile_seconds=0.3), "compiled 1 graph in 300 ms · 1 call, 0 hits, 0 eager"),
        (
            Report(120, 118, 2, 1, 0, 0, 1.3, 4.0, ("Net.forward: x.shape[0] 4 -> 5",)),
            "compiled 2 graphs in 1.3 s (1 again: Net.forward: x.shape[0] 4 -> 5) · 120 calls, 118 hits, 0 eager",
        ),
        (
            Report(9, 5, 4, 4, 0, 0, 1.0, 1.0, ("a", "b", "c", "d")),
            "compiled 4 graphs in 1.0 s (4 again: a; b; and 2 more reasons) · 9 calls, 5 hits, 0 eager",
        ),
        # One call may compile several graphs: the hits are not what the other counts leave.
        (Report(9, 7, 4, 0, 1, 2, 1.0), "compiled 4 graphs in 1.0 s · 9 calls, 7 hits, 1 eager · 2 graph breaks"),
    ],
)
def test_the_summary_is_one_line(report, text):
    assert words.summary(report) == text


def test_the_sums_of_a_cache():
    assert words.sums(CacheInfo((), 0, 0, 0, 0, 0.0)) == "0 wrappers"
    assert words.sums(CacheInfo((), 3, 1, 2, 1, 1.5, 9)) == (
        "0 wrappers · 3 compilations (1 again) in 1.5 s · 9 calls · 2 eager · 1 graph break"
    )


def test_a_compilation_is_named_with_its_reason():
    started = CompileStarted("w", "Net.forward", "forward", "0/1", ("x.shape[0] 4 -> 5", "other"), None)
    assert words.compiling(started) == "compiling Net.forward (0/1): x.shape[0] 4 -> 5"
    resumed = CompileStarted("w", "Net.forward", "torch_dynamo_resume_in_forward_at_7", "1/0", (), None)
    assert words.compiling(resumed) == "compiling Net.forward (1/0), after a graph break"


def test_nothing_is_shown_where_there_is_nothing_to_say():
    assert summary.bundle(Report(seconds=1.0)) is None


def test_notices_have_lines_of_their_own_and_a_hint():
    data = summary.bundle(
        Report(calls=2, hits=1, eager_calls=1, notices=("<b>f</b> ran eager: at limit\nnow", "another"))
    )
    assert data is not None
    assert data["text/plain"].splitlines() == [
        "2 calls, 1 hit, 1 eager  (%dynwrap shows more)",
        "  ! <b>f</b> ran eager: at limit\\nnow",
        "  ! another",
    ]
    assert "<b>" not in data["text/html"]
    assert "&lt;b&gt;f" in data["text/html"]


def test_skipped_calls_are_counted_where_there_are_any():
    assert words.summary(Report(calls=1, skipped_calls=1)) == "1 call, 0 hits, 0 eager, 1 skipped"


def test_no_hint_without_a_reason_to_look():
    data = summary.bundle(Report(calls=2, hits=2))
    assert data == {"text/plain": "2 calls, 2 hits, 0 eager", "text/html": data["text/html"]}


def test_the_summary_is_captured_as_other_output_is():
    InteractiveShell.instance()
    try:
        with capture_output() as captured:
            show_report(Report(calls=3, hits=3))
        assert [output.data["text/plain"] for output in captured.outputs] == ["3 calls, 3 hits, 0 eager"]
    finally:
        InteractiveShell.clear_instance()


def test_without_ipython_nothing_is_printed(capsys):
    show_report(Report(calls=3, hits=3))
    assert capsys.readouterr() == ("", "")
