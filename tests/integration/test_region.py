"""`ipy_dynwrap.region`: what is routed, what is left alone, and what is left behind."""

from __future__ import annotations

import contextlib
import functools
import os
import threading
import traceback
from pathlib import Path

import pytest
import torch
from torch import nn
from torch.utils.checkpoint import checkpoint
from torch.utils.data import DataLoader, Dataset

import ipy_dynwrap
from ipy_dynwrap import _native
from ipy_dynwrap.options import Options, OptionsError
from ipy_dynwrap.regions import Region, RegionError, current

X = torch.arange(12.0).reshape(4, 3) / 12


# Not a function of this module's own, which would be routed as well.
same = torch.testing.assert_close


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = nn.Linear(3, 5)
        self.second = nn.Linear(5, 1)

    def forward(self, x):
        return self.second(self.first(x).relu())

    def encode(self, x):
        return self.first(x) * 2


def loss_fn(prediction, target, weight=1.0):
    return ((prediction - target) ** 2).mean() * weight


def double(x):
    return x * 2


def targets(info=None):
    """Return what was routed and compiled, sorted."""
    return sorted(wrapper.target for wrapper in ipy_dynwrap.cache_info().wrappers if wrapper.compiles)


# A training loop


def train(seed, steps=4, region=contextlib.nullcontext):
    torch.manual_seed(seed)
    net = Net()
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    losses = []
    with region():
        for _ in range(steps):
            optimizer.zero_grad()
            loss = loss_fn(net(X), X.sum(1, keepdim=True))
            loss.backward()
            optimizer.step()
            losses.append(loss.detach())
    return torch.stack(losses), net.state_dict()


def test_a_training_loop_compiles_the_model_and_the_loss(counter):
    expected = train(0)
    same(train(0, region=lambda: ipy_dynwrap.region(backend=counter, include=__name__)), expected)
    assert targets() == ["Net.forward", "loss_fn"]
    assert (counter.graphs, counter.runs) == (2, 8)
    info = ipy_dynwrap.cache_info()
    assert (info.calls, info.eager_calls, info.graph_breaks) == (8, 0, 0)


def test_the_report_tells_what_happened(counter):
    net = Net()
    with ipy_dynwrap.region(backend=counter) as region:
        net(X)
        assert region.report.calls == 1
        net(X)
        net(X[:2])
    double(X)
    report = region.report
    assert (report.calls, report.compiles, report.recompiles, report.eager_calls) == (3, 2, 1, 0)
    assert report.seconds > report.compile_seconds > 0
    assert report.reasons == ("Net.forward: x.shape[0] 4 -> 2",)
    assert report.notices == ()


# What is routed


def test_calls_of_the_notebooks_own_are_routed_and_others_are_not(counter):
    with ipy_dynwrap.region(backend=counter):
        torch.nn.functional.gelu(X)
        torch.testing.assert_close(X, X)
        X.softmax(0)
    assert counter.graphs == 0
    with ipy_dynwrap.region(backend=counter, include="torch.nn.functional"):
        torch.nn.functional.normalize(X)
        double(X)
    assert targets() == ["double", "normalize"]


class Callable:
    def __call__(self, x):
        return x + 1

    def method(self, x):
        return x + 2

    @classmethod
    def of_the_class(cls, x):
        return x + 3

    @staticmethod
    def static(x):
        return x + 4


ROUTED = {
    "function": double,
    "lambda": lambda x: x - 1,
    "callable": Callable(),
    "method": Callable().method,
    "class method": Callable.of_the_class,
    "static method": Callable.static,
    "partial": functools.partial(double),
    "partial with a keyword": functools.partial(loss_fn, target=X, weight=2.0),
    "stock module": nn.Linear(3, 3),
    "method of a module": Net().encode,
}


@pytest.mark.parametrize("what", ROUTED)
def test_kinds_of_callables(counter, what):
    target = ROUTED[what]
    expected = target(X)
    with ipy_dynwrap.region(backend=counter, fullgraph=True):
        for _ in range(2):
            same(target(X), expected)
    assert (counter.graphs, counter.runs) == (1, 2)


@pytest.mark.parametrize(
    "wrap",
    [lambda x: [x], lambda x: (x, 1), lambda x: {"x": x}, lambda x: {"x": [(x,)]}],
    ids=["list", "tuple", "dict", "deep"],
)
def test_tensors_in_containers_count(counter, wrap):
    def first(batch):
        while not isinstance(batch, torch.Tensor):
            batch = next(iter(batch.values())) if isinstance(batch, dict) else batch[0]
        return batch + 1

    with ipy_dynwrap.region(backend=counter):
        same(first(wrap(X)), X + 1)
    assert counter.runs == 1


def test_a_function_without_a_tensor_is_not_routed_but_what_it_calls_is(counter):
    def experiment(steps):
        return [double(X) for _ in range(steps)]

    with ipy_dynwrap.region(backend=counter):
        same(experiment(3), [X * 2] * 3)
    assert targets() == ["double"]
    assert counter.runs == 3


def test_only_the_outermost_call_is_routed(counter):
    def outer(x):
        return double(x) + 1

    with ipy_dynwrap.region(backend=counter):
        same(outer(X), X * 2 + 1)
    assert targets() == ["outer"]


def test_exclude(counter):
    net = Net()
    expected = net(X)
    with ipy_dynwrap.region(backend=counter, exclude=["double", "Net", "Callable.method"]):
        same(double(X), X * 2)
        same(net(X), expected)
        same(Callable().method(X), X + 2)
        same(Callable.static(X), X + 4)
    assert targets() == ["Callable.static", "Linear.forward"]


def test_an_excluded_function_is_watched_for_what_it_calls(counter):
    def outer(x):
        return double(x) + 1

    with ipy_dynwrap.region(backend=counter, exclude="outer"):
        same(outer(X), X * 2 + 1)
    assert targets() == ["double"]


def test_generators_are_not_routed_and_what_they_call_is(counter):
    def batches(x):
        for row in x:
            yield double(row)

    with ipy_dynwrap.region(backend=counter):
        same(torch.stack(list(batches(X))), X * 2)
    assert targets() == ["double"]
    assert counter.runs == len(X)


# What is left alone


@torch.compiler.disable
def disabled(x):
    return double(x) + 1


def test_what_is_marked_as_not_to_be_compiled_is_left_alone(counter):
    class Inner(nn.Module):
        @torch.compiler.disable
        def forward(self, x):
            return double(x)

    module = torch.compiler.disable(Net())
    with ipy_dynwrap.region(backend=counter):
        same(disabled(X), X * 2 + 1)
        same(module(X), module(X))
        same(Inner()(X), X * 2)
    assert counter.graphs == 0


def test_what_is_compiled_already_is_left_alone(new_counter):
    own, ours = new_counter(), new_counter()
    net, in_place = Net(), Net()
    in_place.compile(backend=own)
    compiled = [torch.compile(net, backend=own), torch.compile(double, backend=own), in_place]
    compiled.append(ipy_dynwrap.compile(net, backend=own))
    with ipy_dynwrap.region(backend=ours):
        for each in compiled:
            each(X)
    assert own.runs == 4
    assert ours.graphs == 0


@pytest.mark.filterwarnings("ignore:.*torch.jit.*:DeprecationWarning")
def test_scripted_modules_are_left_alone(counter):
    scripted = torch.jit.trace(Net(), (X,))
    with ipy_dynwrap.region(backend=counter):
        scripted(X)
    assert counter.graphs == 0


def test_tracers_see_the_users_operations(counter):
    with ipy_dynwrap.region(backend=counter):
        traced = torch.fx.symbolic_trace(Net())
        exported = torch.export.export(Net(), (X,))
    assert counter.graphs == 0
    assert any(node.target == "first" for node in traced.graph.nodes)
    assert any("linear" in str(node.target) for node in exported.graph.nodes)


class Rows(Dataset):
    def __len__(self):
        return 8

    def __getitem__(self, index):
        routed = _native.installed()
        return double(torch.full((3,), float(index))), torch.tensor([routed, os.getpid()])


@pytest.mark.parametrize("workers", [0, 2])
def test_data_loading_is_not_routed(counter, workers):
    net = nn.Linear(3, 2)
    with ipy_dynwrap.region(backend=counter):
        for rows, (facts) in DataLoader(Rows(), batch_size=4, num_workers=workers):
            same(net(rows), net.forward(rows))
            assert bool(facts[0, 0]) == (workers == 0)
            assert (facts[0, 1].item() == os.getpid()) == (workers == 0)
    assert targets() == ["Linear.forward"]
    assert counter.runs == 2


def test_a_forked_child_is_not_routed(counter):
    with ipy_dynwrap.region(backend=counter):
        double(X)
        child = os.fork()
        if child == 0:
            with contextlib.suppress(BaseException):
                double(X)
                os._exit(10 * _native.installed() + (current() is not None) + 2 * counter.runs)
            os._exit(99)
        _, status = os.waitpid(child, 0)
        assert os.waitstatus_to_exitcode(status) == 2
        double(X)
    assert counter.runs == 2


# What torch offers, inside


def test_grad_modes_and_autocast(counter):
    net = Net()

    def in_all_modes():
        with torch.no_grad():
            yield net(X)
        with torch.inference_mode():
            yield net(X)
        with torch.autocast("cpu", torch.bfloat16):
            yield net(X)
        yield net(X)

    def facts(tensors):
        return [(each.dtype, each.requires_grad, each.is_inference()) for each in tensors]

    expected = list(in_all_modes())
    with ipy_dynwrap.region(backend=counter):
        got = list(in_all_modes())
        again = list(in_all_modes())
    assert facts(got) == facts(again) == facts(expected)
    for each in (got, again):
        same([one.detach().clone() for one in each], [one.detach().clone() for one in expected])
    assert (counter.graphs, counter.runs) == (4, 8)
    assert ipy_dynwrap.cache_info().eager_calls == 0


def test_function_transforms_answer_as_eager(counter):
    def energy(x):
        return (double(x) ** 3).sum()

    expected = torch.func.grad(energy)(X), torch.func.vmap(double)(X), torch.func.jacrev(energy)(X)
    with ipy_dynwrap.region(backend=counter) as region:
        got = torch.func.grad(energy)(X), torch.func.vmap(double)(X), torch.func.jacrev(energy)(X)
    same(got, expected)
    assert all("torch.func transform" in notice for notice in region.report.notices)

    def inside(x):
        return torch.func.grad(energy)(x) + torch.func.vmap(double)(x)

    expected = inside(X)
    with ipy_dynwrap.region(backend=counter):
        same(inside(X), expected)
    assert counter.runs == 1


def test_what_ran_eager_inside_a_transform_compiles_afterwards(counter):
    with ipy_dynwrap.region(backend=counter):
        torch.func.vmap(double)(X)
        same(double(X), X * 2)
    assert counter.runs == 1


class Cubed(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x**3

    @staticmethod
    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        return scaled_gradient(grad, x)


def scaled_gradient(grad, x):
    return grad * 3 * x**2


def gradient(run):
    x = X.clone().requires_grad_()
    y = run(x)
    y.sum().backward()
    return y.detach(), x.grad


def cube(x):
    return Cubed.apply(x) + 1


@pytest.mark.parametrize("run", [Cubed.apply, cube], ids=["alone", "inside a function"])
@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_autograd_functions(run, backend):
    expected = gradient(run)
    with ipy_dynwrap.region(backend=backend):
        for _ in range(2):
            same(gradient(run), expected)


@pytest.mark.parametrize("reentrant", [False, True])
@pytest.mark.parametrize("where", ["outside", "inside"])
def test_activation_checkpointing(counter, reentrant, where):
    net = Net()

    def inside(x):
        return checkpoint(net, x, use_reentrant=reentrant)

    run = inside if where == "inside" else functools.partial(checkpoint, net, use_reentrant=reentrant)
    expected = gradient(net)
    weights = [each.grad.clone() for each in net.parameters()]
    for _ in range(2):
        net.zero_grad()
        with ipy_dynwrap.region(backend=counter):
            same(gradient(run), expected)
        same([each.grad for each in net.parameters()], weights)


def test_tensor_hooks_run_as_in_eager_during_backward(counter):
    def halved(grad):
        return grad / 2

    def run(x):
        y = double(x)
        y.register_hook(halved)
        return y

    expected = gradient(run)
    with ipy_dynwrap.region(backend=counter, exclude="run"):
        same(gradient(run), expected)
    assert targets() == ["double"]


def test_a_stance_holds_inside_only(counter):
    with Region(Options.of(backend=counter), include=(__name__,), stance="force_eager") as region:
        same(double(X), X * 2)
    assert counter.graphs == 0
    assert region.report.eager_calls == 1
    assert region.report.notices == ("double ran eager: the compiler's stance is 'force_eager'",)
    with ipy_dynwrap.region(backend=counter):
        double(X)
    assert counter.runs == 1


def test_a_stance_that_compiles_no_more(counter):
    with ipy_dynwrap.region(backend=counter):
        double(X)
    with Region(Options.of(backend=counter), include=(__name__,), stance="eager_on_recompile"):
        same(double(X.double()), X.double() * 2)
        same(double(X), X * 2)
    assert (counter.graphs, counter.runs) == (1, 2)
    with pytest.raises(ValueError, match="unknown stance 'lazy'; known: default"):
        Region(Options.of(backend=counter), stance="lazy")


def test_a_disabled_region_routes_nothing():
    with ipy_dynwrap.region(disable=True) as region:
        same(double(X), X * 2)
        assert not _native.installed()
    assert region.report.calls == 0


# Entering and leaving


def test_regions_do_not_nest(counter):
    with ipy_dynwrap.region(backend=counter):
        with pytest.raises(RegionError, match="already open"), ipy_dynwrap.region(backend=counter):
            pass
        double(X)
    assert counter.runs == 1


def test_a_region_is_entered_once():
    region = ipy_dynwrap.region(backend="eager")
    with region:
        assert region.open
        assert current() is region
    assert not region.open
    with pytest.raises(RegionError, match="entered once"):
        region.__enter__()
    region.close()


class Stop(BaseException):
    pass


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt, Stop])
@pytest.mark.parametrize("where", ["block", "function", "backend"])
def test_nothing_is_left_after_an_exception(counter, error, where):
    def raising(x):
        if where == "function":
            raise error
        return x + 1

    def raise_after(answer):
        raise error

    def backend(graph, inputs):
        if where == "backend":
            raise error
        return counter(graph, inputs)

    config = torch._dynamo.config.get_config_copy()
    evaluator = _native.evaluator()
    if where == "backend" and error is ValueError:
        # A backend that fails costs the compilation, not the answer.
        with ipy_dynwrap.region(backend=backend):
            same(raising(X), X + 1)
    else:
        with pytest.raises(error), ipy_dynwrap.region(backend=backend):
            raise_after(raising(X))
    assert current() is None
    assert not _native.installed()
    assert _native.evaluator() == evaluator
    assert torch._dynamo.config.get_config_copy() == config
    double(X)
    assert counter.runs == (where == "block")


def test_a_region_of_another_thread_routes_nothing_here(counter):
    entered, finish = threading.Event(), threading.Event()

    def other():
        with ipy_dynwrap.region(backend=counter):
            entered.set()
            finish.wait(60)

    thread = threading.Thread(target=other)
    thread.start()
    entered.wait(60)
    same(double(X), X * 2)
    assert current() is None
    assert counter.graphs == 0
    finish.set()
    thread.join()


def test_regions_in_several_threads(new_counter):
    counters = [new_counter() for _ in range(3)]
    answers = {}

    def work(number):
        with ipy_dynwrap.region(backend=counters[number]):
            answers[number] = [double(X + number) for _ in range(5)]

    threads = [threading.Thread(target=work, args=(number,)) for number in range(3)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    for number in range(3):
        same(answers[number], [(X + number) * 2] * 5)
    assert [(each.graphs, each.runs) for each in counters] == [(1, 5)] * 3


def test_threads_that_a_region_starts_are_not_routed(counter):
    with ipy_dynwrap.region(backend=counter):
        thread = threading.Thread(target=double, args=(X,))
        thread.start()
        thread.join()
    assert counter.graphs == 0


# Errors


def wrong_shape(x):
    y = x + 1
    return y @ torch.ones(7, 7)


def raises_its_own(x):
    y = x + 1
    if y.shape[0] == 4:
        raise ValueError("not four rows")
    return y


def wrong_index(x):
    rows = list(x)
    return rows[99] + 1


def wrong_key(x):
    return {"a": x}["b"] + 1


def wrong_attribute(x):
    return x.no_such_attribute + 1


def indirect(x):
    return wrong_shape(x) * 2


class Failing(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(9, 9)

    def forward(self, x):
        return self.layer(x)


FAILING = {
    each.__name__: each for each in (wrong_shape, raises_its_own, wrong_index, wrong_key, wrong_attribute, indirect)
} | {"Failing": Failing()}


def users_frames(error, this_file=__file__):
    return [
        (frame.name, frame.lineno) for frame in traceback.extract_tb(error.__traceback__) if frame.filename == this_file
    ]


def from_us_or_dynamo(error):
    package, dynamo = str(Path(ipy_dynwrap.__file__).parent), str(Path(torch.__file__).parent / "_dynamo")
    files = [frame.filename for frame in traceback.extract_tb(error.__traceback__)]
    return [file for file in files if file.startswith((package, dynamo, "<"))]


@pytest.mark.parametrize("fullgraph", [False, True])
@pytest.mark.parametrize("what", FAILING)
def test_an_error_is_the_one_of_eager_and_ends_at_the_users_line(what, fullgraph):
    target = FAILING[what]

    def run():
        return target(X)

    with pytest.raises(Exception) as eager:  # noqa: PT011 (whatever eager raises)
        run()
    for _ in range(2):
        with pytest.raises(type(eager.value)) as compiled, ipy_dynwrap.region(backend="eager", fullgraph=fullgraph):
            run()
        assert type(compiled.value) is type(eager.value)
        assert str(compiled.value) == str(eager.value)
        assert users_frames(compiled.value)[1:] == users_frames(eager.value)[1:]
        assert from_us_or_dynamo(compiled.value) == []


def test_an_error_of_a_compiled_graph_ends_at_the_call():
    def gather(x, index):
        return x[index]

    bad = torch.tensor([99])
    with pytest.raises(IndexError) as eager:
        gather(X, bad)
    with ipy_dynwrap.region(backend="eager"):
        gather(X, torch.tensor([0]))
        with pytest.raises(IndexError) as compiled:
            gather(X, bad)
    assert str(compiled.value) == str(eager.value)
    assert from_us_or_dynamo(compiled.value) == []


def test_a_graph_break_under_fullgraph_says_so(counter):
    def broken(x):
        torch._dynamo.graph_break()
        return x + 1

    with pytest.raises(torch._dynamo.exc.Unsupported), ipy_dynwrap.region(backend=counter, fullgraph=True):
        broken(X)
    with ipy_dynwrap.region(backend=counter) as region:
        same(broken(X), X + 1)
    assert len(region.report.notices) == 1
    assert region.report.notices[0].startswith("graph break in broken at test_region.py:")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"backend": "egaer"}, r"unknown backend 'egaer' \(did you mean 'eager'\?\); known: .*inductor"),
        ({"mode": "max"}, r"unknown mode 'max'.*known: .*reduce-overhead"),
        ({"backends": "eager"}, r"unknown option 'backends' \(did you mean 'backend'\?\)"),
        ({"backend": "eager", "mode": "max-autotune"}, "for backend 'inductor' only"),
    ],
)
def test_bad_options_are_refused_before_anything_runs(options, message):
    with pytest.raises(OptionsError, match=message):
        ipy_dynwrap.region(**options)


def test_where_the_hook_does_not_work_the_rest_does(monkeypatch, counter):
    monkeypatch.setattr(_native, "unavailable_reason", lambda: "this Python is not known")
    with pytest.raises(RegionError, match="this Python is not known"), ipy_dynwrap.region(backend=counter):
        pass
    same(ipy_dynwrap.compile(double, backend=counter)(X), X * 2)
    assert counter.runs == 1


def test_a_report_counts_what_its_own_thread_did(new_counter):
    here, there = new_counter(), new_counter()
    reports = []

    def work():
        with ipy_dynwrap.region(backend=there) as region:
            nn.Tanh()(torch.ones(2))
        reports.append(region.report)

    with ipy_dynwrap.region(backend=here) as region:
        nn.ReLU()(torch.ones(2))
        worker = threading.Thread(target=work)
        worker.start()
        worker.join()
        nn.ReLU()(torch.ones(2))
    for report, calls in ((region.report, 2), (reports[0], 1)):
        assert (report.calls, report.hits, report.compiles, report.eager_calls) == (calls, calls - 1, 1, 0)


def test_hook_guards_are_on_in_a_thread_though_the_main_thread_has_set_them(counter):
    module, seen = nn.Linear(2, 2), []

    def work():
        with ipy_dynwrap.region(backend=counter):
            module(torch.ones(2))
            handle = module.register_forward_hook(lambda *_: seen.append("fired"))
            module(torch.ones(2))
            handle.remove()

    with torch._dynamo.config.patch(skip_nnmodule_hook_guards=True):
        worker = threading.Thread(target=work)
        worker.start()
        worker.join()
    assert seen == ["fired"]
    assert counter.graphs == 2


def test_a_compiled_function_keeps_its_own_options_in_a_region(new_counter):
    own, regions = new_counter(), new_counter()
    compiled = ipy_dynwrap.compile(double, backend=own)
    with ipy_dynwrap.region(backend=regions):
        compiled(torch.ones(3))
    assert (own.graphs, regions.graphs) == (1, 0)
