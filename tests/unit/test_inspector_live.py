"""The line about what compiles right now, the notes behind it, and the feed of the widgets."""

from __future__ import annotations

import io
import sys
import threading

import pytest
from IPython.core.interactiveshell import InteractiveShell
from IPython.utils.capture import capture_output

from ipy_dynwrap.events import CompileFinished, CompileStarted, EagerCall, Log
from ipy_dynwrap.views import live, live_line
from ipy_dynwrap.views.feed import Compiling, Feed


def started(compile_id="0/0", reasons=(), target="Net.forward"):
    return CompileStarted(target, target, "forward", compile_id, reasons, None)


def finished(compile_id="0/0", target="Net.forward"):
    return CompileFinished(target, target, "forward", compile_id, (), None, 1.0, "compiled")


class FakeScreen:
    def __init__(self):
        self.drawn = []

    def show(self, text):
        self.drawn.append(text)

    def clear(self):
        self.drawn.append("")


@pytest.fixture
def clock(monkeypatch):
    """Let the test say how late it is."""
    now = [100.0]
    monkeypatch.setattr("ipy_dynwrap.views.feed.time.monotonic", lambda: now[0])
    return now


def line(log):
    """Make a line whose steps the test takes itself."""
    made = live.LiveLine(log, FakeScreen())
    log.subscribe(made._note)
    return made


def test_what_is_over_soon_is_not_shown(clock):
    log = Log()
    shown = line(log)
    log.write(started())
    assert shown._step(100.4) == pytest.approx(0.1)
    log.write(finished())
    assert shown._step(100.6) is None
    assert set(shown._screen.drawn) == {""}


def test_what_takes_longer_is_shown_with_its_reason_and_time(clock):
    log = Log()
    shown = line(log)
    log.write(started("0/1", ("x.shape[0] 4 -> 5",)))
    assert shown._step(100.5) == 0.5
    assert shown._step(103.2) == 0.5
    log.write(finished("0/1"))
    shown._step(103.4)
    assert shown._screen.drawn == [
        "compiling Net.forward (0/1): x.shape[0] 4 -> 5 · 0.5 s",
        "compiling Net.forward (0/1): x.shape[0] 4 -> 5 · 3.2 s",
        "",
    ]


def test_two_threads_that_compile_share_the_line(clock):
    log = Log()
    shown = line(log)
    log.write(started())
    clock[0] = 101.0
    other = threading.Thread(target=log.write, args=(started("1/0", target="loss_fn"),))
    other.start()
    other.join()
    shown._step(102.0)
    log.write(finished())
    shown._step(102.0)
    assert shown._screen.drawn == [
        "compiling Net.forward (0/0) · 2.0 s · and 1 more",
        "compiling loss_fn (1/0) · 1.0 s",
    ]


def test_an_end_without_a_start_and_other_records_do_not_matter():
    compiling = Compiling()
    assert compiling.note(finished())
    assert not compiling.note(EagerCall("w", "f", "at limit", None))
    assert compiling.now() == []


@pytest.mark.parametrize("error", [None, ValueError, KeyboardInterrupt])
def test_nothing_stays_behind(monkeypatch, error):
    screen, log, threads = FakeScreen(), Log(), threading.active_count()
    monkeypatch.setattr(live, "screen", lambda: screen)

    def cell():
        with live_line(log):
            log.write(started())
            if error is not None:
                raise error

    if error is None:
        cell()
    else:
        with pytest.raises(error):
            cell()
    assert log._subscribers == ()
    assert threading.active_count() == threads
    assert screen.drawn[-1] == ""


def test_without_ipython_nothing_listens():
    log = Log()
    with live_line(log):
        assert log._subscribers == ()


class Terminal(io.StringIO):
    def isatty(self):
        return True


@pytest.fixture
def shell():
    yield InteractiveShell.instance()
    InteractiveShell.clear_instance()


def test_a_terminal_gets_one_line_that_is_wiped(shell, monkeypatch):
    monkeypatch.setattr(sys, "stderr", Terminal())
    monkeypatch.setenv("COLUMNS", "20")
    screen = live.screen()
    screen.show("compiling " + "x" * 100)
    screen.clear()
    screen.clear()
    assert sys.stderr.getvalue() == f"\r\x1b[2Kcompiling {'x' * 9}\r\x1b[2K"


def test_nobody_looks_at_a_pipe_or_a_capture(shell, monkeypatch):
    assert live.screen() is None
    monkeypatch.setattr(sys, "stderr", Terminal())
    with capture_output(stdout=False, stderr=False):
        assert live.screen() is None


def test_the_feed_is_on_only_while_somebody_listens(shell, wait_until):
    log = Log()
    feed, calls = Feed(log), []
    threads = set(threading.enumerate())  # somebody else's inspector may be open
    before = {name: list(callbacks) for name, callbacks in shell.events.callbacks.items()}

    def listener():
        calls.append(threading.current_thread().name)

    feed.add(listener)
    wait_until(lambda: calls)
    shell.run_cell("pass")
    seen = len(calls)
    wait_until(lambda: len(calls) > seen)
    feed.remove(listener)
    feed.remove(listener)
    assert set(calls) == {"ipy_dynwrap feed"}
    assert log._subscribers == ()
    assert shell.events.callbacks == before
    wait_until(lambda: "ipy_dynwrap feed" not in {thread.name for thread in set(threading.enumerate()) - threads})


def test_a_listener_that_fails_is_dropped_and_the_others_go_on(wait_until):
    log = Log()
    feed, calls = Feed(log), []

    def fails():
        raise RuntimeError

    def works():
        calls.append(1)

    feed.add(fails)
    feed.add(works)
    wait_until(lambda: calls and feed._listeners == (works,))
    feed.remove(works)
    assert log._subscribers == ()


def test_an_interrupt_leaves_nothing_compiling_for_the_next_cell(shell):
    log = Log()
    feed = Feed(log)
    feed.add(listener := lambda: None)
    log.write(started())
    assert feed.compiling.now()
    shell.events.trigger("post_run_cell", None)
    assert feed.compiling.now() == []
    feed.remove(listener)
