"""Public reports about what stands in for functions and modules, and who else is at work; the table: test_cases.py."""

from __future__ import annotations

import builtins
import ctypes
import inspect
import subprocess
import sysconfig
import threading
from pathlib import Path

import pytest
import torch
from torch import nn
from torch.func import functional_call, stack_module_state, vmap

import ipy_dynwrap


def plus_one(x):
    return x + 1


def plus_two(x):
    return x + 2


# 31: https://github.com/pytorch/pytorch/pull/177355, 178344, 178351


def broken(x):
    y = x + 1
    torch._dynamo.graph_break()
    return y * 2


@pytest.mark.parametrize("options", [{}, {"isolate_recompiles": True}], ids=str)
def test_31_fullgraph_is_obeyed_after_a_compilation_without(way, counter, options):
    x = torch.ones(2)
    assert way(backend=counter)(broken, x).tolist() == [4.0, 4.0]
    assert counter.graphs == 2
    with pytest.raises(torch._dynamo.exc.Unsupported):
        way(backend=counter, fullgraph=True, **options)(broken, x)


def twice(x):
    return x * 2


@pytest.mark.parametrize("options", [{}, {"isolate_recompiles": True}], ids=str)
def test_31_dynamic_shapes_of_another_compilation_are_not_taken(way, counter, options):
    assert way(backend=counter, dynamic=True)(twice, torch.ones(5)).sum().item() == 10
    assert way(backend=counter, dynamic=False, **options)(twice, torch.ones(7)).sum().item() == 14
    assert counter.graphs == 2


def times(x, n):
    return x * n


def spend(call, counter):
    """Use up the limit of `times`."""
    x = torch.ones(2)
    for n in range(12):
        torch.testing.assert_close(call(times, x, n), x * n)
    assert counter.runs == 8


def test_31_a_limit_that_is_used_up_is_not_the_next_ones(counter):
    x, first = torch.ones(2), ipy_dynwrap.compile(times, backend=counter, dynamic=False)
    spend(lambda _, *args: first(*args), counter)
    second = ipy_dynwrap.compile(times, backend=counter, dynamic=False)
    torch.testing.assert_close(second(x, 99), x * 99)
    torch.testing.assert_close(second(x, 99), x * 99)
    assert (counter.graphs, counter.runs) == (9, 10)


def test_31_a_limit_that_is_used_up_in_regions_is_not_that_of_compile(counter):
    def call(target, *args):
        with ipy_dynwrap.region(backend=counter, dynamic=False):
            return target(*args)

    spend(call, counter)
    x = torch.ones(2)
    torch.testing.assert_close(ipy_dynwrap.compile(times, backend=counter, dynamic=False)(x, 99), x * 99)
    assert (counter.graphs, counter.runs) == (9, 9)


def test_31_a_limit_that_is_used_up_is_not_that_of_other_options(way, counter):
    first, x = ipy_dynwrap.compile(times, backend=counter, dynamic=False), torch.ones(2)
    spend(lambda _, *args: first(*args), counter)
    call = way(backend=counter, dynamic=False, fullgraph=True)
    for _ in range(2):
        torch.testing.assert_close(call(times, x, 99), x * 99)
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


def test_37_a_region_leaves_the_keys_alone(counter):
    module = nn.Sequential(nn.Linear(2, 2))
    with ipy_dynwrap.region(backend=counter):
        module(torch.ones(1, 2))
        assert list(module.state_dict()) == [name for name, _ in module.named_parameters()] == ["0.weight", "0.bias"]
    assert counter.runs == 1


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


def test_38_a_region_leaves_the_module_what_it_is(counter):
    module = Labelled()
    signature = inspect.signature(module.forward)
    with ipy_dynwrap.region(backend=counter):
        module(torch.ones(1) * 1)
        assert type(module) is Labelled
        assert inspect.signature(module.forward) == signature
        assert "forward" not in vars(module)


# 41: https://github.com/pytorch/pytorch/issues/118493, 109025, 129845


NOTICE = "inside a torch.func transform, which torch does not compile from within"


@pytest.fixture
def ensemble():
    """Return a function over stacked parameters and an input, its arguments, and its answer."""
    modules = [nn.Linear(2, 2) for _ in range(4)]
    parameters, buffers = stack_module_state(modules)
    x = torch.ones(1, 2)

    def one(parameters, buffers, x):
        return functional_call(modules[0], (parameters, buffers), (x,))

    return one, (parameters, buffers, x), torch.stack([module(x) for module in modules])


def test_41_a_function_that_maps_an_ensemble_compiles_once(way, counter, ensemble):
    one, args, expected = ensemble

    def mapped(parameters, buffers, x):
        return vmap(one, (0, 0, None))(parameters, buffers, x)

    call = way(backend=counter, fullgraph=True)
    for _ in range(3):
        torch.testing.assert_close(call(mapped, *args), expected)
    assert (counter.graphs, counter.runs) == (1, 3)


def test_41_what_vmap_returns_compiles_once(counter, ensemble):
    one, args, expected = ensemble
    compiled = ipy_dynwrap.compile(vmap(one, (0, 0, None)), backend=counter, fullgraph=True)
    for _ in range(3):
        torch.testing.assert_close(compiled(*args), expected)
    assert (counter.graphs, counter.runs) == (1, 3)


def nested(row):
    return vmap(plus_one)(row)


@pytest.mark.parametrize("function", [plus_one, nested])
def test_41_what_a_compiled_function_did_not_compile_is_told(counter, function):
    compiled = ipy_dynwrap.compile(function, backend=counter)
    x = torch.zeros(3, 3)
    for _ in range(4):
        torch.testing.assert_close(vmap(compiled)(x), x + 1)
    info = ipy_dynwrap.cache_info()
    assert counter.graphs == info.compiles <= 1
    assert counter.runs + info.eager_calls == 4
    if info.eager_calls:
        assert info.wrappers[0].last_reason == NOTICE
        assert "ran eager (test_cases_standin.py:" in str(ipy_dynwrap.explain(function))
    torch.testing.assert_close(compiled(x), x + 1)
    assert counter.graphs == 1


@pytest.mark.parametrize("function", [plus_one, nested])
def test_41_what_a_region_did_not_compile_is_told(counter, function):
    x = torch.zeros(3, 3)
    with ipy_dynwrap.region(backend=counter) as region:
        for _ in range(4):
            torch.testing.assert_close(vmap(function)(x), x + 1)
    assert counter.graphs == region.report.compiles <= 1
    assert counter.runs + region.report.eager_calls == 4
    if region.report.eager_calls:
        assert region.report.notices == (f"{function.__name__} ran eager: {NOTICE}",)


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_41_what_a_cell_did_not_compile_is_told(shell, backend):
    # Torch compiles within a transform for the backend "eager", and for no other.
    shell("import torch\ndef plus(x):\n    return x + 1\nx = torch.zeros(3, 3)")
    assert shell(f"%%compile --backend {backend}\nassert torch.equal(torch.vmap(plus)(x), x + 1)").success
    assert f"plus ran eager: {NOTICE}" in shell.text or "compiled 1 graph" in shell.text
    assert shell(f"%%compile --backend {backend}\nassert torch.equal(plus(x), x + 1)").success
    assert "compiled 1 graph" in shell.text


# 44: https://github.com/pytorch/pytorch/issues/105554, 172024


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


def test_44_what_has_no_wrapper_resets_nothing(way):
    way(backend="eager")(plus_one, torch.ones(1))
    with pytest.raises(LookupError, match=r"'plus_three'.*plus_one"):
        ipy_dynwrap.reset("plus_three")
    ipy_dynwrap.reset(plus_two)
    [wrapper] = ipy_dynwrap.cache_info().wrappers
    assert len(wrapper.entries) == 1


def test_44_a_notebook_resets_one_function_by_name(shell):
    shell("import torch\ndef plus(x):\n    return x + 1\ndef minus(x):\n    return x - 1\nx = torch.ones(2)")
    assert shell("%%compile\nplus(x), minus(x);").success
    assert "compiled 2 graphs" in shell.text
    shell("%dynwrap reset plus")
    assert shell("%%compile\nplus(x), minus(x);").success
    assert "compiled 1 graph in" in shell.text
    assert [wrapper.compiles for wrapper in ipy_dynwrap.cache_info().wrappers] == [2, 1]


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
