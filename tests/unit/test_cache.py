"""The wrapper cache: no torch, no IPython. Groups of wrappers stand for families."""

from __future__ import annotations

import gc
import threading
import weakref
from types import SimpleNamespace

import pytest

from ipy_dynwrap.cache import Entry, Totals, Wrapper, WrapperCache
from ipy_dynwrap.events import Place


class Anchor:
    """Equal to every other one, and without a hash of its own: caches must go by identity."""

    def __eq__(self, other):
        return True

    __hash__ = None


def code_of(source="pass"):
    return compile(source, "<test>", "exec")


def wrapper(name="f#1", **counts):
    return Wrapper(
        name=name, kind="function", target="f", options="eager", code=code_of(), function=print, limit=8, **counts
    )


def entry(compiled, source, **more):
    fields = {"compile_id": "0/0", "frame": "f", "reason": None, "place": None, "seconds": 0.5, "graph": True}
    return Entry(**{**fields, **more}, code=weakref.ref(compiled), source=weakref.ref(source))


@pytest.fixture
def dropped():
    return []


@pytest.fixture
def cache(dropped):
    return WrapperCache(stats=lambda code: (3, 2_000_000_000), drop=dropped.append)


def group(*wrappers):
    return SimpleNamespace(wrappers=list(wrappers))


def test_a_family_is_made_once_per_anchor_and_rest(cache):
    one, other = Anchor(), Anchor()
    first = cache.family(one, "a", group)
    assert cache.family(one, "a", group) is first
    assert cache.family(one, "b", group) is not first
    assert cache.family(other, "a", group) is not first


def test_the_wrappers_of_an_anchor(cache):
    one, other = Anchor(), Anchor()
    cache.family(one, 1, lambda: group(wrapper("a"), wrapper("b")))
    cache.family(one, 2, lambda: group(wrapper("c")))
    cache.family(other, 1, lambda: group(wrapper("d")))
    assert [each.name for each in cache.of(one)] == ["a", "b", "c"]
    assert cache.of(Anchor()) == []
    assert [each.name for each in cache] == ["a", "b", "c", "d"]


def test_a_snapshot_keeps_what_was_retired(cache):
    anchor, made = Anchor(), wrapper()
    made.retired["self.k"] = "took more than 8 values on one object"
    cache.family(anchor, 1, lambda: group(made))
    retired = cache.info().wrappers[0].retired
    made.retired.clear()
    assert retired == {"self.k": "took more than 8 values on one object"}


def test_an_anchor_that_cannot_be_referred_to_weakly_is_kept(cache):
    anchor = (1, 2)
    cache.family(anchor, (), lambda: group(wrapper()))
    assert len(cache.of(anchor)) == 1


def test_wrappers_end_with_their_anchor_and_their_counts_stay(cache):
    anchor, stays = Anchor(), Anchor()
    name = cache.named(lambda taken: "f#1")
    cache.family(anchor, (), lambda: group(wrapper(name, calls=5, hits=3, compiles=2, compile_seconds=1.5)))
    cache.family(stays, (), lambda: group(wrapper("g#1", calls=1)))
    del anchor
    gc.collect()
    assert [each.name for each in cache] == ["g#1"]
    assert cache.totals() == Totals(calls=6, hits=3, compiles=2, compile_seconds=1.5)
    assert cache.named(lambda taken: "taken" if name in taken else "free") == "free"


def test_names_are_told_to_who_chooses_one(cache):
    assert cache.named(lambda taken: f"n{len(taken)}") == "n0"
    assert cache.named(lambda taken: f"n{len(taken)}") == "n1"


def test_totals_add_up():
    totals = Totals().plus(wrapper(calls=5, eager_calls=2, graph_breaks=1)).plus(wrapper(calls=1, recompiles=4))
    assert totals == Totals(calls=6, eager_calls=2, graph_breaks=1, recompiles=4)


def test_a_snapshot_shows_live_entries_and_does_not_change(cache):
    anchor, compiled, source = Anchor(), code_of("1"), code_of("2")
    known = wrapper(calls=4, compiles=1, state="compiled", last_reason="x.shape[0] 4 -> 5")
    known.key = {"self.k": "3"}
    known.entries = [entry(code_of("gone"), source), entry(compiled, source, place=Place(3, 7, "<cell>"), reason="why")]
    cache.family(anchor, (), lambda: group(known))
    info = cache.info()
    assert (info.calls, info.compiles) == (4, 1)
    (shown,) = info.wrappers
    assert (shown.name, shown.state, shown.last_reason) == ("f#1", "compiled", "x.shape[0] 4 -> 5")
    assert shown.key == {"self.k": "3"}
    (only,) = shown.entries
    assert (only.hits, only.run_seconds, only.compile_seconds) == (3, 2.0, 0.5)
    assert (only.cell, only.line, only.reason) == (3, 7, "why")
    known.calls += 1
    known.key["self.k"] = "4"
    assert shown.calls == 4
    assert shown.key == {"self.k": "3"}
    with pytest.raises(AttributeError):
        shown.calls = 9
    with pytest.raises(TypeError):
        shown.key["self.k"] = "5"


def test_reset_drops_the_entries_of_all_frames_and_keeps_the_counts(cache, dropped):
    anchor, compiled, rest = Anchor(), code_of("1"), code_of("2")
    known = wrapper(compiles=2, state="at limit", last_reason="why")
    known.entries = [entry(compiled, known.code), entry(compiled, rest)]
    untouched = wrapper("g#1", state="compiled")
    cache.family(anchor, (), lambda: group(known, untouched))
    cache.reset([known])
    assert {id(code) for code in dropped} == {id(known.code), id(rest)}
    assert (known.entries, known.state, known.last_reason, known.compiles) == ([], "eager", None, 2)
    assert untouched.state == "compiled"


def test_clear_forgets_everything(cache, dropped):
    anchor = Anchor()
    known = wrapper(calls=3)
    cache.family(anchor, (), lambda: group(known))
    cache.named(lambda taken: "f#1")
    cache.clear()
    assert dropped == [known.code]
    assert cache.totals() == Totals()
    assert cache.info().wrappers == ()
    assert cache.named(lambda taken: str(sorted(taken))) == "[]"
    del anchor
    gc.collect()
    assert cache.totals() == Totals()


def test_threads_share_one_family(cache):
    anchor, made, start = Anchor(), [], threading.Barrier(8)

    def make():
        made.append(group(wrapper()))
        return made[-1]

    def ask():
        start.wait()
        cache.family(anchor, (), make)

    threads = [threading.Thread(target=ask) for _ in range(8)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert len(made) == 1
