"""What is known of an entry that torch has made."""

from __future__ import annotations

import gc
import os
import threading
import weakref
from pathlib import Path

import pytest
import torch
from torch import nn

import ipy_dynwrap
from ipy_dynwrap import recording, traces

X = torch.ones(2, 3)


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(3, 3)
        self.mode, self.k = "a", 2

    def forward(self, x):
        if self.mode == "a":
            x = x * self.k
        return self.linear(x).relu()


def loud(x):
    print("a line of its own")  # noqa: T201 - what torch cannot compile
    return x + 1


class Broken(Net):
    def forward(self, x):
        x = self.linear(x)
        x = loud(x)
        return x.relu()


def entries():
    return [entry for wrapper in ipy_dynwrap.cache_info().wrappers for entry in wrapper.entries]


def all_details():
    return [ipy_dynwrap.details(entry.number) for entry in entries()]


def only():
    (found,) = all_details()
    return found


def titles(found):
    return [listing.title for listing in found.listings]


def text(found, title):
    return next(listing.text for listing in found.listings if listing.title == title)


def line_of(name):
    """Return the line of this file that has `name` in it, first."""
    lines = Path(__file__).read_text(encoding="utf-8").splitlines()
    return next(number for number, line in enumerate(lines, 1) if name in line)


@pytest.fixture
def switch(monkeypatch):
    monkeypatch.setattr(recording, "switch", recording.Switch())
    return recording.switch


def test_guards_are_in_the_users_words_with_the_line_that_asked(way):
    way(backend="eager")(Net(), X)
    guards = {guard.words: guard for guard in only().guards}
    mode = guards["self.mode == 'a'"]
    assert (mode.source, mode.kind, mode.code) == ("L['target'].mode", "CONSTANT_MATCH", ("L['target'].mode == 'a'",))
    assert mode.asked_by == f'test_details.py:{line_of("if self.mode ==")}: if self.mode == "a":'
    weight = guards["self.linear.weight: float32 of shape (3, 3) on cpu"]
    assert weight.code[0].startswith("check_tensor(")
    assert weight.asked_by.endswith("return self.linear(x).relu()")
    assert guards["x: float32 of shape (2, 3) on cpu"].kind == "TENSOR_MATCH"
    assert guards["type of self.linear is Linear"].kind == "TYPE_MATCH"
    assert guards["self.linear has no hooks"].asked_by
    assert guards["grad mode: on"].source == ""
    assert [guard.kind for guard in guards.values()][-1] == "FACTS"


def test_every_guard_is_put_into_words_and_names_no_variable_of_ours(way):
    way(backend="eager")(Net(), X)
    with torch.no_grad():
        way(backend="eager")(loud_free, [X, X[0]], key={"a": 1}, flag=None)
    for found in all_details():
        for guard in found.guards:
            assert guard.words
            assert "L['" not in guard.words
            assert "target" not in guard.words


def loud_free(xs, key, flag, *, scale=2.0):
    assert flag is None
    return sum(x.sum() for x in xs) * scale * key["a"]


def test_sizes_that_became_dynamic_have_their_symbols(way):
    call, net = way(backend="eager"), Net()
    for size in (2, 5):
        call(net, torch.ones(size, 3))
    found = all_details()[1]
    (symbol,) = [name.removeprefix("int ") for name in found.inputs.values() if name.startswith("int ")]
    assert found.inputs["x"] == f"float32[{symbol}, 3] on cpu"
    assert found.inputs["self.linear.bias"] == "float32[3] on cpu"
    words = [guard.words for guard in found.guards]
    assert "x: float32 of shape (any, 3) on cpu" in words
    assert "2 <= x.shape[0]" in words


def test_an_eager_backend_leaves_a_graph_and_bytecode(way):
    way(backend="eager")(Net(), X)
    found = only()
    assert titles(found) == ["your code", "FX graph", "bytecode of your code", "bytecode"]
    assert text(found, "your code").startswith("    def forward(self, x):\n")
    assert found.listings[0].first_line == line_of("class Net(") + 6
    assert 'x: "float32[2, 3]" = operator.mul(' in text(found, "FX graph")
    assert "__compiled_fn" in text(found, "bytecode")
    assert "BINARY_OP" in text(found, "bytecode of your code")
    assert found.disk_cache is None


def test_the_graph_of_the_backward_pass_joins_when_it_is_run(way):
    result = way(backend="aot_eager")(Net(), X)
    assert titles(only())[1:4] == ["FX graph", "AOT graph, forward", "bytecode of your code"]
    assert "aten.addmm.default" in text(only(), "AOT graph, forward")
    result.sum().backward()
    assert "aten.threshold_backward.default" in text(only(), "AOT graph, backward")
    assert dict(only().phases)["backward pass, compiled later"] > 0


def test_a_graph_without_a_backward_pass_is_one_for_inference(way):
    with torch.no_grad():
        way(backend="aot_eager")(Net(), X)
    assert titles(only())[1:3] == ["FX graph", "AOT graph"]


def test_generated_code_is_kept_and_a_disk_cache_that_has_it_is_told_of(tmp_path, monkeypatch):
    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", str(tmp_path))
    model, texts = Net(), []
    for outcome in ("miss", "hit"):
        ipy_dynwrap.reset()
        torch.compiler.reset()
        ipy_dynwrap.compile(model, backend="inductor")(X).sum().backward()
        found = only()
        assert found.disk_cache == outcome
        assert {"generated code", "generated code, backward"} <= set(titles(found))
        texts.append(text(found, "generated code, backward"))
        assert "call" in texts[-1]
    assert texts[0] == texts[1]


def test_phases_add_up_to_the_time_of_the_compilation(way):
    way(backend="aot_eager")(Net(), X)
    found, (entry,) = only(), entries()
    phases = dict(found.phases)
    assert list(phases)[:4] == ["tracing", "backend", "AOT autograd", "guards"]
    assert 0 < sum(phases.values()) <= entry.compile_seconds


def test_breaks_are_marked_with_torchs_reason(way):
    way(backend="eager")(Broken(), X)
    marked = [
        (listing, mark) for found in all_details() for listing in found.listings for mark in listing.marks.items()
    ]
    lines = {(listing.title, line) for listing, (line, _) in marked}
    assert ("your code", line_of("x = loud(x)")) in lines
    assert ("your code, loud", line_of('print("a line of its own")')) in lines
    assert all(reason.startswith("graph break: ") for _, (_, reason) in marked)


def test_what_runs_after_a_break_shows_the_same_function(way):
    way(backend="eager")(Broken(), X)
    after = [found for entry, found in zip(entries(), all_details(), strict=True) if "resume" in entry.frame]
    assert after
    assert all("def forward" in found.listings[0].text or "def loud" in found.listings[0].text for found in after)


def test_a_cell_is_named_with_its_lines(shell):
    shell("import torch\nfrom torch import nn")
    shell("class Cell(nn.Module):\n    k = 3\n    def forward(self, x):\n        return x * self.k\n")
    shell("%%compile\nCell()(torch.ones(2))")
    found = only()
    asked = next(guard.asked_by for guard in found.guards if guard.words == "Cell.k == 3")
    assert asked == "cell 2, line 4: return x * self.k"
    assert found.listings[0].first_line == 3
    shell("class Loud(Cell):\n    def forward(self, x):\n        print(end='')\n        return x + 1\n")
    shell("%%compile\nLoud()(torch.ones(2))")
    listing = next(each for found in all_details() for each in found.listings if each.marks)
    assert list(listing.marks) == [3]
    assert listing.text.splitlines()[3 - listing.first_line].strip() == "print(end='')"


def test_nothing_is_recorded_when_it_is_off(way, switch):
    switch.on = False
    way(backend="aot_eager")(Net(), X)
    (entry,) = entries()
    assert entry.number == 0
    with pytest.raises(LookupError, match="recording was off"):
        ipy_dynwrap.details(entry.number)


def test_a_setting_turns_recording_off_until_the_extension_is_unloaded(shell):
    shell("%config DynWrap.record = False")
    shell("import torch\n@torch.no_grad()\ndef double(x):\n    return x * 2\n")
    shell("%%compile\ndouble(torch.ones(2))")
    assert [entry.number for entry in entries()] == [0]
    shell("%config DynWrap.record = True")
    shell("%%compile\ndouble(torch.ones(2, 2))")
    assert [bool(entry.number) for entry in entries()] == [False, True]
    shell("%config DynWrap.record = False")
    shell.ip.run_line_magic("unload_ext", "ipy_dynwrap")
    assert recording.switch.on
    shell.ip.run_line_magic("load_ext", "ipy_dynwrap")


def test_a_large_graph_is_cut(way, monkeypatch):
    def function(x):
        for _ in range(120):
            x = x + 1
        return x

    for module in (recording, traces):
        monkeypatch.setattr(module, "LISTING_LIMIT", 2_000)

    way(backend="eager")(function, X)
    graph = text(only(), "FX graph")
    assert len(graph) < 2_200
    assert graph.splitlines()[-1].startswith("# ... ")


def test_a_graph_in_a_graph_is_shown_too(way):
    def function(x):
        return torch.cond(x.sum() > 0, lambda x: x.sin(), lambda x: x.cos(), (x,))

    way(backend="eager")(function, X)
    graph = text(only(), "FX graph")
    assert graph.count("def ") == 3
    assert ".sin()" in graph


def collect():
    for _ in range(3):
        gc.collect()


@pytest.mark.parametrize("end", ["reset", "reset one", "torch", "gone"])
def test_what_was_kept_is_freed_with_the_entry(end):
    class Local(Net):
        pass

    model = Local()
    ipy_dynwrap.compile(model, backend="aot_eager")(X).sum().backward()
    (entry,) = entries()
    record = weakref.ref(recording.kept(entry.number).trace)
    if end == "reset":
        ipy_dynwrap.reset()
    elif end == "reset one":
        ipy_dynwrap.reset(model)
    elif end == "torch":
        torch.compiler.reset()
    del model, Local
    collect()
    assert record() is None
    with pytest.raises(LookupError, match="torch has dropped"):
        ipy_dynwrap.details(entry.number)


def test_details_that_are_asked_for_keep_nothing_of_the_users(way):
    model = Net()
    way(backend="aot_eager")(model, X).sum().backward()
    watched = [weakref.ref(model), weakref.ref(model.linear.weight)]
    found = only()
    del model
    collect()
    assert [each() for each in watched] == [None, None]
    assert found.guards


def test_another_thread_may_ask_while_this_one_compiles(way):
    way(backend="eager")(Net(), X)
    (number,), found, started = [entry.number for entry in entries()], [], threading.Event()

    def ask():
        started.wait()
        found.append(ipy_dynwrap.details(number))

    thread = threading.Thread(target=ask)
    thread.start()

    def backend(graph, inputs):
        started.set()
        thread.join(60)  # would end in vain if the thread had to wait for what compiles
        return graph.forward

    way(backend=backend)(Net(), X)
    assert [each.number for each in found] == [number]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_forked_child_has_them_too(way):
    way(backend="eager")(Net(), X)
    (number,) = [entry.number for entry in entries()]
    child = os.fork()
    if child == 0:
        os._exit(0 if ipy_dynwrap.details(number).guards else 1)
    assert os.waitpid(child, 0)[1] == 0


def test_what_a_backend_compiles_by_itself_is_no_part_of_it(way):
    def inner(x):
        return x.cos()

    def backend(graph, inputs):
        torch.compile(inner, backend="aot_eager")(torch.ones(7))
        return graph.forward

    way(backend=backend)(Net(), X)
    found = only()
    assert titles(found) == ["your code", "FX graph", "bytecode of your code", "bytecode"]
    assert "cos" not in text(found, "FX graph")
    assert "self.mode == 'a'" in [guard.words for guard in found.guards]


def test_a_compilation_that_fails_leaves_nothing_switched_on(way):
    def backend(graph, inputs):
        raise ValueError("no")

    from torch._dynamo.output_graph import OutputGraph

    before = OutputGraph.call_user_compiler
    with pytest.raises(Exception, match="no"):
        ipy_dynwrap.compile(Net(), backend=backend)(X)
    assert OutputGraph.call_user_compiler is before
    assert entries() == []
