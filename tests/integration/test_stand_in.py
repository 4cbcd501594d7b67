"""What running Dynamo's own tests with `compile` in place of `torch.compile` brought to light."""

from __future__ import annotations

import itertools
import types

import pytest
import torch

import ipy_dynwrap
from ipy_dynwrap.options import OptionsError


class Counting:
    def upwards(self, x):
        for i in itertools.count():
            yield x + i


def upwards(x):
    for i in itertools.count():
        yield x + i


@pytest.mark.parametrize("generator", [upwards, Counting().upwards], ids=["function", "method"])
def test_a_generator_runs_only_as_far_as_it_is_asked(generator):
    made = ipy_dynwrap.compile(generator, backend="eager")(torch.ones(2))
    assert isinstance(made, types.GeneratorType)
    assert [each[0].item() for each in itertools.islice(made, 3)] == [1, 2, 3]


def test_a_generator_is_refused_under_fullgraph():
    with pytest.raises(OptionsError, match="no generator such as upwards; leave out fullgraph"):
        ipy_dynwrap.compile(upwards, backend="eager", fullgraph=True)


@pytest.mark.parametrize("compiler", [torch.compile, ipy_dynwrap.compile])
def test_compiling_inside_of_what_is_compiled(compiler):
    def doubled(x):
        return x * 2

    def plainly(x):
        return ipy_dynwrap.compile(doubled, backend="eager")(x)

    def by_decorator(x):
        return ipy_dynwrap.compile(backend="eager")(doubled)(x)

    for function in (plainly, by_decorator):
        compiled = compiler(function, backend="eager", fullgraph=True)
        assert compiled(torch.ones(2)).tolist() == [2, 2]
