"""What the tests share: a backend that counts, the two ways of compiling, and a guard against tests that leak."""

from __future__ import annotations

import logging
import signal
import sys

import pytest

import ipy_dynwrap
from ipy_dynwrap import _native


def pytest_configure(config):
    # Dynamo looks at `.grad` of every tensor that it meets, and expects the warning about it to be no error.
    config.addinivalue_line("filterwarnings", "ignore:The .grad attribute of a Tensor that is not a leaf")
    # Torch's structured trace goes to a logger that passes on, and pytest would keep every line of it.
    logging.getLogger("torch.__trace").propagate = False
    # The processes that run tests side by side ignore interrupts, and what they start would, too.
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


class Counter:
    """A backend that compiles nothing; it counts the graphs that it is given, their operations, and their runs.

    Parameters
    ----------
    inner
        The name of a registered backend that compiles the graphs; None to run them as they are.
    """

    def __init__(self, inner=None):
        self.graphs = 0
        self.operations = 0
        self.runs = 0
        self.inner = inner

    def __call__(self, graph, example_inputs):
        self.graphs += 1
        self.operations += sum("call" in node.op for node in graph.graph.nodes)
        forward = graph.forward
        if self.inner is not None:
            from torch._dynamo.backends.registry import lookup_backend

            forward = lookup_backend(self.inner)(graph, example_inputs)

        def run(*args):
            self.runs += 1
            return forward(*args)

        return run


@pytest.fixture
def new_counter():
    """Return the class of counting backends, for a test that needs several."""
    return Counter


@pytest.fixture
def counter():
    return Counter()


def via_compile(include, options):
    def call(target, /, *args, **kwargs):
        return ipy_dynwrap.compile(target, **options)(*args, **kwargs)

    return call


def via_region(include, options):
    def call(target, /, *args, **kwargs):
        with ipy_dynwrap.region(include=include, **options):
            return target(*args, **kwargs)

    return call


@pytest.fixture(params=[via_compile, via_region], ids=["compile", "region"])
def way(request):
    """Return what makes, from compile options, a function that calls a target compiled: ``way(backend=b)(f, x)``.

    Each call compiles the target anew, or opens a region anew: what is shared is shared by the cache.
    """

    def make(**options):
        return request.param((request.module.__name__,), options)

    return make


def state_of_torch():
    """Return what a test has to leave as it found it, by name; empty as long as nobody has imported torch."""
    if "torch" not in sys.modules:
        return {}
    import torch._dynamo.config
    from torch._dynamo import eval_frame
    from torch.nn.modules.module import _has_any_global_hook

    found = {f"torch._dynamo.config.{name}": value for name, value in torch._dynamo.config.get_config_copy().items()}
    found["the stance of the compiler"] = eval_frame._stance.stance
    found["grad mode"] = torch.is_grad_enabled()
    found["hooks for all modules"] = _has_any_global_hook()
    return found


def reset_all():
    if "ipy_dynwrap.state" in sys.modules:
        ipy_dynwrap.reset()
    if "torch._dynamo" in sys.modules:
        import torch._dynamo

        torch._dynamo.reset()


def open_region():
    regions = sys.modules.get("ipy_dynwrap.regions")
    return regions is not None and (regions.any_open() or regions.current() is not None)


@pytest.fixture(autouse=True)
def clean_slate():
    """Start a test with empty caches, and fail one that leaves a region, an evaluator or a setting behind."""
    reset_all()
    before, evaluator = state_of_torch(), _native.evaluator()
    yield
    leaks = ["a region is open"] * open_region() + ["the hook is on"] * _native.installed()
    leaks += ["the evaluator is another"] * (_native.evaluator() != evaluator)
    after = state_of_torch()
    leaks += [f"{name} was {value!r} and is {after[name]!r}" for name, value in before.items() if after[name] != value]
    _native.after_fork()
    reset_all()
    assert not leaks
