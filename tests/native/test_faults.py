"""Errors, interrupts, deep recursion, forks, and memory that stays flat."""

from __future__ import annotations

import gc
import os
import signal
import subprocess
import sys
import textwrap
import weakref

import pytest

from ipy_dynwrap import _native
from ipy_dynwrap._native import DECLINE, ROUTE, ROUTE_CARRIER


def f(x=1, *rest, k=2, **more):
    return x


def raising(exception):
    def answer(*_):
        raise exception

    return answer


@pytest.mark.parametrize("exception", [ValueError("wrong"), KeyboardInterrupt(), SystemExit(3)])
def test_an_exception_of_route_is_the_calls(region, exception):
    with region(raising(exception), f=ROUTE):
        with pytest.raises(type(exception)) as caught:
            f()
        assert caught.value is exception
        with pytest.raises(type(exception)):
            f()


def test_an_exception_inside_a_routed_call_has_its_traceback(region):
    def fails():
        raise KeyError("lost")

    with region(fails=ROUTE), pytest.raises(KeyError, match="lost") as caught:
        fails()
    assert [entry.name for entry in caught.traceback][-1] == "fails"


def test_an_interrupt_during_a_routed_call(region):
    def interrupted():
        signal.raise_signal(signal.SIGINT)
        return 1

    with region(interrupted=ROUTE), pytest.raises(KeyboardInterrupt):
        interrupted()
    assert not _native.installed()


def test_an_error_of_decide_is_written_and_the_call_passes(carrier, monkeypatch):
    unraisable = []
    monkeypatch.setattr(sys, "unraisablehook", lambda error: unraisable.append((error.exc_type, error.object)))
    asked = []

    def decide(code, _function):
        asked.append(code)
        if code is f.__code__:
            raise ZeroDivisionError
        return 0

    opened = _native.enter(decide, raising(AssertionError()), carrier, 100)
    try:
        assert f(5) == 5
        assert f(6) == 6
    finally:
        _native.leave(opened)
    assert unraisable == [(ZeroDivisionError, f.__code__)]
    assert asked.count(f.__code__) == 1


@pytest.mark.parametrize("answer", [17, -1, "yes", None])
def test_an_answer_that_is_no_verdict(carrier, monkeypatch, answer):
    unraisable = []
    monkeypatch.setattr(sys, "unraisablehook", lambda error: unraisable.append(error.exc_type))
    _native.forget(f.__code__)
    opened = _native.enter(lambda code, _: answer if code is f.__code__ else 0, raising(AssertionError()), carrier, 101)
    try:
        assert f(5) == 5
    finally:
        _native.leave(opened)
    assert unraisable in ([ValueError], [TypeError])


def test_an_interrupt_during_decide_is_the_calls(carrier):
    def decide(code, _function):
        if code is f.__code__ and not asked:
            asked.append(code)
            raise KeyboardInterrupt
        return 0

    asked = []
    opened = _native.enter(decide, raising(AssertionError()), carrier, 102)
    try:
        with pytest.raises(KeyboardInterrupt):
            f()
        assert f(5) == 5
    finally:
        _native.leave(opened)


def test_decide_and_route_may_leave_the_region(carrier):
    regions = []

    def leaving_decide(code, _function):
        if code is f.__code__:
            _native.leave(regions[-1])
            return ROUTE
        return 0

    regions.append(_native.enter(leaving_decide, raising(AssertionError()), carrier, 103))
    assert f(5) == 5
    assert not _native.installed()

    def leaving_route(function, args, kwargs):
        _native.leave(regions[-1])
        return DECLINE

    regions.append(_native.enter(lambda code, _: ROUTE if code is f.__code__ else 0, leaving_route, carrier, 104))
    assert f(5) == 5
    assert not _native.installed()


def test_deep_recursion_is_a_recursion_error(region):
    def down(n):
        return down(n + 1)

    def answer(function, args, kwargs):
        return DECLINE

    with region(answer, down=ROUTE), pytest.raises(RecursionError):
        down(0)
    with region(down=ROUTE), pytest.raises(RecursionError):
        down(0)
    with region(raising(RecursionError()), down=ROUTE), pytest.raises(RecursionError):
        down(0)


def test_a_decide_without_room_is_asked_again(carrier, monkeypatch):
    unraisable = []
    monkeypatch.setattr(sys, "unraisablehook", unraisable.append)
    errors = [RecursionError(), MemoryError()]

    def decide(code, _function):
        if code is not leaf.__code__:
            return 0
        if errors:
            raise errors.pop()
        return ROUTE

    def leaf():
        return 1

    opened = _native.enter(decide, lambda *_: "routed", carrier, 105)
    try:
        assert [leaf(), leaf(), leaf()] == [1, 1, "routed"]
    finally:
        _native.leave(opened)
    assert unraisable == []


def allocated():
    gc.collect()
    return sys.getallocatedblocks()


def test_references_and_memory_stay_flat(carrier):
    tensor = carrier()
    held = [f, f.__code__, tensor, _native.DECLINE]

    def routed(n):
        for _ in range(n):
            f(tensor, 1, 2, k=tensor, z=3)

    def declined(n):
        for _ in range(n):
            f([tensor], k=[])

    def passed(n):
        for _ in range(n):
            f()

    def answer(function, args, kwargs):
        return DECLINE if isinstance(args[0], list) else tensor

    opened = _native.enter(lambda code, _: ROUTE_CARRIER if code is f.__code__ else 0, answer, carrier, 110)
    try:
        for work in (routed, declined, passed):
            work(1000)
            counts, blocks = [sys.getrefcount(item) for item in held], allocated()
            work(100_000)
            more_blocks, more_counts = allocated() - blocks, [sys.getrefcount(item) for item in held]
            assert more_blocks < 100
            assert more_counts == counts
    finally:
        _native.leave(opened)


def test_regions_and_watches_stay_flat(region):
    def once():
        with region(f=ROUTE):
            f()
        _native.watch(f, ())

    for _ in range(10):
        once()
    blocks = allocated()
    for _ in range(2000):
        once()
    assert allocated() - blocks < 100


def test_the_slot_is_freed_with_the_code(region):
    def cycle():
        names = {}
        exec("def g(): return 1", names)
        with region(g=ROUTE):
            names["g"]()
        _native.track(names["g"].__code__)
        return weakref.ref(names["g"].__code__)

    gone = cycle()
    gc.collect()
    assert gone() is None


def test_slots_of_codes_that_are_gone_take_no_memory(region):
    resource = pytest.importorskip("resource")

    def make(n):
        for _ in range(n):
            _native.track(compile("1", "made", "eval"))

    make(20_000)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    make(200_000)
    # 200,000 slots would be more than 9 MB.
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 4000


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_forked_child_has_the_hook_off(region):
    with region(lambda *_: 0, f=ROUTE):
        child = os.fork()
        if child == 0:
            code = 10
            try:
                code = (f(1) != 1) + 2 * _native.installed()
            finally:
                os._exit(code)
        _, status = os.waitpid(child, 0)
        assert os.waitstatus_to_exitcode(status) == 0
        assert f(1) == 0, "the parent's is still on"


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_fork_inside_a_routed_call_and_a_watch(region):
    def forks():
        child = os.fork()
        if child == 0:
            code = 10
            try:
                with region(lambda *_: 7, f=ROUTE):
                    code = f(1) != 7
                code += 2 * _native.installed()
            finally:
                os._exit(code)
        _, status = os.waitpid(child, 0)
        return os.waitstatus_to_exitcode(status)

    assert _native.watch(forks, ()) == 0
    with region(forks=ROUTE):
        assert forks() == 0


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_child_that_returns_through_a_watch(region):
    pids = []

    def forks():
        pids.append(os.fork())
        return 1

    with region(forks=ROUTE):
        _native.watch(forks, ())
        if pids[0] == 0:
            os._exit(2 * _native.installed())
    _, status = os.waitpid(pids[0], 0)
    assert os.waitstatus_to_exitcode(status) == 0


def run(program):
    return subprocess.run(
        [sys.executable, "-X", "faulthandler", "-c", textwrap.dedent(program)],
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )


def test_the_program_ends_with_a_region_open():
    done = run("""
        import atexit
        from ipy_dynwrap import _native
        atexit.register(lambda: print("installed at exit:", _native.installed()))
        class Late:
            def __del__(self): f()
        def f(): return 1
        late = Late()
        region = _native.enter(lambda code, function: _native.ROUTE, lambda f, a, k: _native.DECLINE, int, 1)
        f()
        print("end")
    """)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == "end\ninstalled at exit: True\n"


def test_an_unhandled_exception_with_a_region_open():
    done = run("""
        from ipy_dynwrap import _native
        region = _native.enter(lambda code, function: 0, print, int, 1)
        raise SystemExit(5)
    """)
    assert (done.returncode, done.stderr) == (5, "")


def test_loading_imports_no_torch():
    done = run("""
        import sys
        from ipy_dynwrap import _native
        print("torch" in sys.modules, _native.unavailable_reason())
    """)
    assert (done.stdout, done.stderr) == ("False None\n", "")


def test_a_subinterpreter_is_refused_by_name():
    done = run("""
        try:
            import _xxsubinterpreters as interpreters
            from _xxsubinterpreters import run_string
        except ImportError:
            import _interpreters as interpreters
            run_string = interpreters.run_string
        from ipy_dynwrap import _native
        which = interpreters.create()
        run_string(which, '''if True:
            from ipy_dynwrap import _native
            print(_native.__name__, _native.unavailable_reason(), flush=True)
            try:
                _native.enter(print, print, int, policy=1)
            except RuntimeError as error:
                print(error, flush=True)
        ''')
        interpreters.destroy(which)
        print(_native.unavailable_reason())
    """)
    reason = "the frame hook works in the main interpreter only, and this is a subinterpreter"
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.splitlines() == [f"ipy_dynwrap._native {reason}", reason, "None"]
