"""Public reports about `torch.compile`, each as it reads in this project: right answers, and no compilation too many.

The numbers in the names of the sections are those of the collection of cases; the reports are linked beside them.
"""

from __future__ import annotations

import builtins
import ctypes
import inspect
import itertools
import operator
import subprocess
import sysconfig
import threading
from pathlib import Path

import pytest
import torch
from torch import nn
from torch.nn.modules.module import register_module_forward_pre_hook

import ipy_dynwrap

ACTIVATIONS = [
    nn.ReLU,
    nn.GELU,
    nn.SiLU,
    nn.Tanh,
    nn.Sigmoid,
    nn.ELU,
    nn.SELU,
    nn.CELU,
    nn.Softplus,
    nn.Softsign,
    nn.Mish,
    nn.Hardtanh,
]


class Block(nn.Module):
    """One inner module, and something to fuse it with."""

    def __init__(self, inner):
        super().__init__()
        self.inner = inner

    def forward(self, x):
        return self.inner(x) * 2


def around_identity():
    return Block(nn.Identity())


# 01: https://github.com/pytorch/pytorch/pull/124881, 163503


@pytest.mark.parametrize("fullgraph", [False, True])
def test_01_kinds_of_stock_layers_have_caches_of_their_own(way, counter, fullgraph):
    call = way(backend=counter, fullgraph=fullgraph)
    x = torch.linspace(-2, 2, 8)
    for _ in range(2):
        for kind in ACTIVATIONS:
            torch.testing.assert_close(call(kind(), x), kind()(x))
    assert (counter.graphs, counter.runs) == (12, 24)
    info = ipy_dynwrap.cache_info()
    assert (len(info.wrappers), info.compiles, info.eager_calls) == (12, 12, 0)
    assert len({wrapper.name for wrapper in info.wrappers}) == 12
    assert {wrapper.target for wrapper in info.wrappers} == {f"{kind.__name__}.forward" for kind in ACTIVATIONS}


def test_01_wrappers_have_code_objects_of_their_own(way):
    from ipy_dynwrap import state

    for kind in ACTIVATIONS:
        way(backend="eager")(kind(), torch.ones(2))
    assert len({id(wrapper.code) for wrapper in state.cache}) == 12
    assert len({(wrapper.code.co_filename, wrapper.code.co_name) for wrapper in state.cache}) == 12


# 05: https://github.com/pytorch/pytorch/pull/124881, https://github.com/pytorch/pytorch/issues/125652


@pytest.mark.parametrize("make", [lambda: Block(nn.Linear(4, 4)), lambda: nn.Linear(4, 4)], ids=["own", "stock"])
def test_05_equal_instances_share_one_compilation(way, counter, make):
    call = way(backend=counter)
    x = torch.rand(2, 4)
    for module in [make() for _ in range(20)]:
        torch.testing.assert_close(call(module, x), module(x))
    assert (counter.graphs, counter.runs) == (1, 20)


# 06: https://github.com/pytorch/pytorch/issues/197811


def applied(method):
    def apply(a, b):
        return method(a, b)

    return apply


@pytest.mark.parametrize(
    "methods",
    [
        (torch.Tensor.__sub__, torch.Tensor.__mul__),
        (torch.Tensor.sub, torch.Tensor.mul),
        (torch.sub, torch.mul),
        (operator.sub, operator.mul),
    ],
    ids=["special methods", "methods", "torch functions", "operators"],
)
def test_06_closures_over_callables_in_c_are_told_apart(way, counter, methods):
    call = way(backend=counter)
    a, b = torch.tensor(6.0), torch.tensor(3.0)
    for _ in range(2):
        assert [call(applied(method), a, b).item() for method in methods] == [3.0, 18.0]
    assert counter.graphs == 2


# 13: https://github.com/pytorch/pytorch/issues/172747


def scaled(k):
    def scale(x):
        return x * k

    return scale


class Weighted(nn.Module):
    def __init__(self, n):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(n))

    def forward(self, x):
        return x * self.weight


class DynamicInputs:
    """A backend that notes for each graph whether it has a symbolic size."""

    def __init__(self):
        self.seen = []

    def __call__(self, graph, example_inputs):
        sizes = [size for each in example_inputs for size in (each, *getattr(each, "shape", ()))]
        self.seen.append(any(isinstance(size, torch.SymInt) for size in sizes))
        return graph.forward


def test_13_functions_of_one_size_each_stay_static(way):
    backend = DynamicInputs()
    call = way(backend=backend)
    first, second = [lambda x: x * 2.0, lambda x: x * 3.0]
    torch.testing.assert_close(call(first, torch.ones(4)), torch.full((4,), 2.0))
    torch.testing.assert_close(call(second, torch.ones(6)), torch.full((6,), 3.0))
    assert backend.seen == [False, False]


# 15: https://github.com/pytorch/pytorch/issues/141589


def test_15_modes_are_compiled_once_each_with_a_reason(way, counter):
    trained, frozen = (Block(nn.Sequential(nn.Linear(4, 4), nn.Dropout(0.1))) for _ in range(2))
    frozen.requires_grad_(False)
    call = way(backend=counter)
    for module, training, grad in itertools.product((trained, frozen), (True, False), (True, False)):
        with torch.set_grad_enabled(grad):
            call(module.train(training), torch.ones(2, 4))
    info = ipy_dynwrap.cache_info()
    assert (counter.graphs, counter.runs, info.eager_calls) == (8, 8, 0)
    reasons = [entry.reason for wrapper in info.wrappers for entry in wrapper.entries]
    assert reasons.count(None) == len(info.wrappers)


class Decaying(nn.Module):
    def __init__(self):
        super().__init__()
        self.rate = 1.0

    def forward(self, x):
        self.rate *= 0.5
        return x * self.rate


def test_15_a_schedule_in_a_module_becomes_dynamic(way, counter):
    module, eager = Decaying(), Decaying()
    call = way(backend=counter)
    for _ in range(12):
        torch.testing.assert_close(call(module, torch.ones(3)), eager(torch.ones(3)))
    assert module.rate == eager.rate
    assert (counter.graphs, counter.runs) == (2, 12)


# 16: https://github.com/pytorch/pytorch/issues/117758


@pytest.mark.parametrize("where", ["root", "inner"])
@pytest.mark.parametrize("through", ["module", "function"])
def test_16_a_hook_added_after_the_first_call_fires(way, counter, where, through):
    module = Block(nn.Linear(2, 2))

    def run(x):
        return module(x)

    target = module if through == "module" else run
    call = way(backend=counter)
    x = torch.ones(1, 2)
    plain = call(target, x)
    hooked = module if where == "root" else module.inner
    hooked.register_forward_hook(add_fifty)
    for _ in range(3):
        torch.testing.assert_close(call(target, x), plain + (50 if where == "root" else 100))
    assert (counter.graphs, counter.runs) == (2, 4)
    fired = []
    hooked.register_forward_hook(lambda hooked, args, output: fired.append(hooked))
    for _ in range(3):
        call(target, x)
    assert fired == [hooked] * 3


# 17: https://github.com/pytorch/pytorch/issues/117758, https://github.com/pytorch/pytorch/pull/98372


def test_17_a_hook_may_come_and_go(way, counter):
    module = Block(nn.Linear(2, 2))
    call = way(backend=counter)
    x = torch.ones(1, 2)
    plain = module(x)
    for _ in range(5):
        handle = module.inner.register_forward_hook(lambda hooked, args, output: output + 50)
        torch.testing.assert_close(call(module, x), plain + 100)
        handle.remove()
        torch.testing.assert_close(call(module, x), plain)
    assert (counter.graphs, counter.runs) == (2, 10)


# 18: https://github.com/pytorch/pytorch/issues/149502


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
@pytest.mark.parametrize("after_the_first_call", [False, True])
def test_18_a_global_hook_fires_once_per_module(way, backend, after_the_first_call):
    module = around_identity()
    call = way(backend=backend)
    x = torch.zeros(1)
    fired = []

    def add(hooked, args):
        fired.append(type(hooked).__name__)
        return (args[0] + 1,)

    if after_the_first_call:
        call(module, x)
    handle = register_module_forward_pre_hook(add)
    try:
        expected = module(x)
        assert fired == ["Block", "Identity"]
        for _ in range(2):
            fired.clear()
            torch.testing.assert_close(call(module, x), expected)
            assert fired == ["Block", "Identity"]
    finally:
        handle.remove()
    torch.testing.assert_close(call(module, x), module(x))


# 19: https://github.com/pytorch/pytorch/issues/170110


class Factor(nn.Module):
    def forward(self, x, factor=1.0):
        return x * factor


class Doubling(nn.Module):
    def __init__(self):
        super().__init__()
        self.factor = Factor()

    def forward(self, x):
        return self.factor(x, factor=2.0)


def five_times(module, args, kwargs):
    return args, {**kwargs, "factor": 5.0}


def one_more(module, args, kwargs, output):
    return output + 1


@pytest.mark.parametrize(("mixed", "compilations"), [(False, 1), (True, 4)])
def test_19_hooks_with_keywords_on_equal_layers(way, counter, mixed, compilations):
    layers = [Doubling() for _ in range(12)]
    for number, layer in enumerate(layers):
        if not mixed or number % 2:
            layer.factor.register_forward_pre_hook(five_times, with_kwargs=True)
        if not mixed or number % 3:
            layer.factor.register_forward_hook(one_more, with_kwargs=True)
    call = way(backend=counter)
    x = torch.ones(1)
    assert [call(layer, x).item() for layer in layers] == [layer(x).item() for layer in layers]
    assert (counter.graphs, counter.runs) == (compilations, 12)


# 20: https://github.com/pytorch/pytorch/issues/115750, 117265, 133303


def three_times(module, grad_input, grad_output):
    return tuple(None if grad is None else grad * 3 for grad in grad_input)


def three_times_before(module, grad_output):
    return tuple(grad * 3 for grad in grad_output)


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
@pytest.mark.parametrize("after_the_first_call", [False, True])
@pytest.mark.parametrize("kind", ["hook", "pre-hook"])
def test_20_backward_hooks_change_the_gradient(way, kind, after_the_first_call, backend):
    module = Block(nn.Linear(2, 2, bias=False))
    call = way(backend=backend)

    def gradient(run):
        x = torch.ones(1, 2, requires_grad=True)
        run(x).sum().backward()
        return x.grad

    plain = gradient(module)
    if after_the_first_call:
        torch.testing.assert_close(gradient(lambda x: call(module, x)), plain)
    if kind == "hook":
        handle = module.inner.register_full_backward_hook(three_times)
    else:
        handle = module.inner.register_full_backward_pre_hook(three_times_before)
    for _ in range(2):
        torch.testing.assert_close(gradient(lambda x: call(module, x)), plain * 3)
    torch.testing.assert_close(gradient(module), plain * 3)
    handle.remove()
    torch.testing.assert_close(gradient(lambda x: call(module, x)), plain)


# 22: https://github.com/pytorch/pytorch/issues/117584


def test_22_a_hook_of_the_root_is_in_the_graph(way, counter):
    module = around_identity()
    module.register_forward_pre_hook(lambda hooked, args: (args[0] + 1,))
    assert way(backend=counter, fullgraph=True)(module, torch.ones(1)).item() == 4.0
    assert (counter.graphs, counter.operations) == (1, 2)


# 25: https://github.com/pytorch/pytorch/issues/117758 meets https://github.com/pytorch/pytorch/pull/124881


@pytest.mark.parametrize("order", [(0, 1), (1, 0)], ids=["plain first", "hooked first"])
def test_25_a_hooked_instance_is_not_equal_to_a_plain_one(way, counter, order):
    modules = [around_identity(), around_identity(), around_identity()]
    for hooked in modules[1:]:
        hooked.inner.register_forward_hook(add_fifty)
    call = way(backend=counter)
    for index in (*order, *order, 2):
        assert call(modules[index], torch.ones(1)).item() == (102.0 if index else 2.0)
    assert (counter.graphs, counter.runs) == (2, 5)


def add_fifty(module, args, output):
    return output + 50


# 26: https://github.com/pytorch/pytorch/issues/176851, 108898, 98928, 124717


class Settings:
    gain = 1.0


FACTOR = 2.0


def helper(x):
    return x + 1


def all_of_them(x):
    return helper(x) * Settings.gain * FACTOR


def test_26_edits_of_what_a_function_reads_are_seen(way, monkeypatch):
    call = way(backend="eager")
    x = torch.ones(1)
    assert call(all_of_them, x).item() == 4.0
    monkeypatch.setattr(Settings, "gain", 10.0)
    assert call(all_of_them, x).item() == 40.0
    monkeypatch.setitem(globals(), "helper", lambda x: x + 3)
    assert call(all_of_them, x).item() == 80.0
    monkeypatch.setitem(globals(), "FACTOR", 1.0)
    assert call(all_of_them, x).item() == 40.0


class Shifted(nn.Module):
    scale = 1.0

    def shift(self, x):
        return x

    def forward(self, x):
        return self.shift(x) * self.scale


def test_26_a_class_attribute_that_is_edited_is_seen(way, monkeypatch):
    call, module = way(backend="eager"), Shifted()
    assert call(module, torch.ones(1)).item() == 1.0
    monkeypatch.setattr(Shifted, "scale", 5.0)
    assert call(module, torch.ones(1)).item() == 5.0


# 27 and 28 are about cells: tests/integration/test_cells.py. What is not: classes without a source.


def test_28_a_class_whose_source_is_gone_compiles(way, counter):
    namespace = {"nn": nn, "__name__": __name__}
    exec("class Gone(nn.Module):\n    def forward(self, x):\n        return x + 1\n", namespace)
    assert way(backend=counter, fullgraph=True)(namespace["Gone"](), torch.ones(1)).item() == 2.0
    assert counter.runs == 1


# 31: https://github.com/pytorch/pytorch/pull/177355, 178344, 178351


def broken(x):
    y = x + 1
    torch._dynamo.graph_break()
    return y * 2


def test_31_fullgraph_is_obeyed_after_a_compilation_without(way, counter):
    x = torch.ones(2)
    assert way(backend=counter)(broken, x).tolist() == [4.0, 4.0]
    assert counter.graphs == 2
    with pytest.raises(torch._dynamo.exc.Unsupported):
        way(backend=counter, fullgraph=True)(broken, x)


def twice(x):
    return x * 2


def test_31_dynamic_shapes_of_another_compilation_are_not_taken(way, counter):
    assert way(backend=counter, dynamic=True)(twice, torch.ones(5)).sum().item() == 10
    assert way(backend=counter, dynamic=False)(twice, torch.ones(7)).sum().item() == 14
    assert counter.graphs == 2


def times(x, n):
    return x * n


def test_31_a_limit_that_is_used_up_is_not_the_next_ones(counter):
    x = torch.ones(2)
    first = ipy_dynwrap.compile(times, backend=counter, dynamic=False)
    for n in range(12):
        torch.testing.assert_close(first(x, n), x * n)
    assert counter.runs == 8
    second = ipy_dynwrap.compile(times, backend=counter, dynamic=False)
    torch.testing.assert_close(second(x, 99), x * 99)
    torch.testing.assert_close(second(x, 99), x * 99)
    assert (counter.graphs, counter.runs) == (9, 10)


# 32: https://github.com/pytorch/pytorch/issues/186537


def test_32_a_limit_that_the_main_thread_set_holds_in_others(way, counter):
    call = way(backend=counter, dynamic=False)
    x = torch.ones(2)
    answers = []

    def work():
        answers.extend(call(times, x, n) for n in range(2, 14))

    with torch._dynamo.config.patch(recompile_limit=64):
        worker = threading.Thread(target=work)
        worker.start()
        worker.join()
    torch.testing.assert_close(answers, [x * n for n in range(2, 14)])
    assert (counter.graphs, counter.runs) == (12, 12)


# 37: https://github.com/pytorch/pytorch/issues/101107, 123625


def test_37_keys_of_a_state_dict_have_no_prefix():
    module = nn.Sequential(nn.Linear(2, 2))
    compiled = ipy_dynwrap.compile(module, backend="eager")
    assert list(compiled.state_dict()) == list(module.state_dict()) == ["0.weight", "0.bias"]
    assert [name for name, _ in compiled.named_parameters()] == ["0.weight", "0.bias"]
    other = nn.Sequential(nn.Linear(2, 2))
    other.load_state_dict(compiled.state_dict())
    compiled.load_state_dict({name: value + 1 for name, value in other.state_dict().items()})
    torch.testing.assert_close(module[0].weight, other[0].weight + 1)
    holder = nn.Module()
    holder.net = ipy_dynwrap.compile(nn.Linear(2, 2), backend="eager")
    assert list(holder.state_dict()) == ["net.weight", "net.bias"]


# 38: https://github.com/pytorch/pytorch/pull/186294, https://github.com/huggingface/transformers/pull/22248


class Labelled(nn.Module):
    def forward(self, ids, labels=None):
        return ids


def test_38_the_type_and_the_signature_are_the_modules():
    module = Labelled()
    compiled = ipy_dynwrap.compile(module, backend="eager")
    assert isinstance(compiled, Labelled)
    assert type(compiled).__name__ == compiled.__class__.__name__ == "Labelled"
    assert inspect.signature(compiled.forward) == inspect.signature(module.forward)
    assert inspect.signature(type(compiled).forward) == inspect.signature(Labelled.forward)
    assert inspect.signature(compiled.__class__.forward) == inspect.signature(Labelled.forward)


# 44: https://github.com/pytorch/pytorch/issues/105554, 172024


def plus_one(x):
    return x + 1


def plus_two(x):
    return x + 2


@pytest.mark.parametrize("named", ["function", "compiled", "name"])
def test_44_one_callable_is_reset_and_the_rest_stays(way, counter, named):
    call = way(backend=counter)

    def both():
        assert call(plus_one, torch.ones(1)).item() == 2.0
        assert call(plus_two, torch.ones(1)).item() == 3.0
        return counter.graphs

    assert both() == both() == 2
    compiled = ipy_dynwrap.compile(plus_one, backend=counter)
    ipy_dynwrap.reset({"function": plus_one, "compiled": compiled, "name": "plus_one"}[named])
    assert both() == 3
    assert [wrapper.compiles for wrapper in ipy_dynwrap.cache_info().wrappers] == [2, 1]


def test_44_what_has_no_wrapper_cannot_be_reset(way):
    way(backend="eager")(plus_one, torch.ones(1))
    with pytest.raises(LookupError, match=r"'plus_three'.*plus_one"):
        ipy_dynwrap.reset("plus_three")
    with pytest.raises(LookupError, match="plus_two has not been called compiled"):
        ipy_dynwrap.reset(plus_two)


# 46: https://github.com/pytorch/pytorch/issues/123771, 106855


def test_46_a_block_compiles_and_its_glue_does_not(counter):
    module = nn.Linear(2, 2)
    x = torch.ones(1, 2)
    with ipy_dynwrap.region(backend=counter) as region:
        loose = x * 2 + 1
        y = twice(module(loose))
    torch.testing.assert_close(y, module(x * 2 + 1) * 2)
    assert (counter.graphs, counter.runs, region.report.calls) == (2, 2, 2)
    module(x)
    assert counter.runs == 2


def test_46_a_block_that_raises_leaves_nothing_on(counter):
    def block():
        with ipy_dynwrap.region(backend=counter):
            twice(torch.ones(2))
            raise KeyError

    with pytest.raises(KeyError):
        block()
    twice(torch.ones(2))
    assert counter.runs == 1
    with ipy_dynwrap.region(backend=counter):
        twice(torch.ones(2))
    assert (counter.graphs, counter.runs) == (1, 2)


# 47: https://github.com/microsoft/debugpy/issues/1410, https://github.com/pytorch/pytorch/pull/96721


@pytest.fixture(scope="session")
def other_evaluator(tmp_path_factory):
    """Return a second user of PEP 523, in C: ``switch_on``, ``switch_off``, ``frames_seen``, ``address``."""
    library = tmp_path_factory.mktemp("evaluator") / "other.so"
    source = Path(__file__).parents[1] / "native" / "other_evaluator.c"
    command = ["cc", "-shared", "-fPIC", "-O1", f"-I{sysconfig.get_path('include')}", source, "-o", library]
    subprocess.run(command, check=True)
    loaded = ctypes.PyDLL(str(library))
    loaded.frames_seen.restype = ctypes.c_long
    loaded.address.restype = ctypes.c_ulonglong
    return loaded


def test_47_an_evaluator_that_was_there_is_kept_and_sees_frames(way, counter, other_evaluator):
    from ipy_dynwrap import _native

    call = way(backend=counter)
    other_evaluator.switch_on()
    try:
        for _ in range(2):
            other_evaluator.frames_seen()
            assert call(twice, torch.ones(1)).item() == 2.0
            assert other_evaluator.frames_seen() > 0
            assert _native.evaluator() == other_evaluator.address()
    finally:
        other_evaluator.switch_off()
    assert call(plus_one, torch.ones(1)).item() == 2.0
    assert (counter.graphs, counter.runs) == (2, 3)


def test_47_a_region_opened_after_a_graph_break_of_compiled_code_routes(new_counter):
    from ipy_dynwrap import _native

    outer, inner = new_counter(), new_counter()
    before = _native.evaluator()

    @torch.compile(backend=outer)
    def run(x):
        x = x + 1
        torch._dynamo.graph_break()
        with ipy_dynwrap.region(backend=inner):
            x = inside(x)
        torch._dynamo.graph_break()
        return x * 2

    assert run(torch.ones(1)).item() == 12.0
    assert run(torch.ones(1)).item() == 12.0
    assert inner.runs == 2
    assert _native.evaluator() == before
    graphs = outer.graphs
    torch.compile(lambda x: x * 3, backend=outer)(torch.ones(1))
    assert outer.graphs == graphs + 1


@torch._dynamo.disable(recursive=False)
def inside(x):
    return sixfold_less_six(x)


def sixfold_less_six(x):
    return x * 6 - 6


def test_47_the_builtins_are_untouched(way):
    names = dict(vars(builtins))
    way(backend="eager")(twice, torch.ones(1))
    assert dict(vars(builtins)) == names
