"""Whole models: as many compilations as must be, and outputs, gradients and generated text equal to eager's."""

from __future__ import annotations

import copy
import functools

import pytest
import torch
from torch import nn
from torch._dynamo import compiled_autograd
from torch.testing._internal.common_modules import module_db

import ipy_dynwrap

same = torch.testing.assert_close

# A hook that closes over an object with a tensor: https://github.com/pytorch/pytorch/pull/124881


class Holder:
    def __init__(self, value):
        self.value = value


def add_value(grad, *, holder):
    return grad + holder.value


class HookedInForward(nn.Module):
    def forward(self, x, holder):
        y = x * 2
        y.register_hook(functools.partial(add_value, holder=holder))
        return y * 3


def test_a_partial_as_tensor_hook_is_compiled_once(way, counter):
    module = HookedInForward()
    holders = [Holder(torch.tensor(88)), Holder(torch.tensor(99)), Holder(11)]

    def gradient(run, holder):
        x = torch.ones(4, requires_grad=True)
        run(module, x, holder).sum().backward()
        return x.grad

    expected = [gradient(lambda module, *args: module(*args), holder) for holder in holders]
    call = way(backend=counter, fullgraph=True)
    with compiled_autograd._enable(torch.compile(backend="eager")):
        got = [gradient(call, holder) for holder in [*holders, holders[0]]]
    same(got, [*expected, expected[0]])
    assert (counter.graphs, counter.runs) == (1, 4)


# A residual network


class Residual(nn.Module):
    def __init__(self, inside, outside, stride):
        super().__init__()
        self.conv1 = nn.Conv2d(inside, outside, 3, stride, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(outside)
        self.conv2 = nn.Conv2d(outside, outside, 3, 1, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(outside)
        self.shortcut = nn.Identity()
        if stride != 1 or inside != outside:
            self.shortcut = nn.Sequential(nn.Conv2d(inside, outside, 1, stride, bias=False), nn.BatchNorm2d(outside))

    def forward(self, x):
        y = torch.relu(self.bn1(self.conv1(x)))
        return torch.relu(self.bn2(self.conv2(y)) + self.shortcut(x))


class ResNet18(nn.Module):
    def __init__(self, classes=10, width=8):
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(3, width, 3, 1, 1, bias=False), nn.BatchNorm2d(width), nn.ReLU())
        widths = [width, width, 2 * width, 4 * width, 8 * width]
        self.stages = nn.Sequential(
            *(
                nn.Sequential(
                    Residual(widths[i], widths[i + 1], 1 if i == 0 else 2), Residual(*widths[i + 1 : i + 2] * 2, 1)
                )
                for i in range(4)
            )
        )
        self.head = nn.Linear(widths[-1], classes)

    def forward(self, x):
        return self.head(self.stages(self.stem(x)).mean((2, 3)))


def test_a_resnet_compiles_as_often_as_with_torch(way, new_counter):
    torch.manual_seed(0)
    model = ResNet18()
    images = torch.randn(4, 3, 16, 16)

    def session(model, call):
        answers = []
        for training in (True, False):
            model.train(training)
            for batch in (images, images[:2]):
                output = call(model, batch)
                answers.append(output.detach())
                if training:
                    output.square().mean().backward()
        return answers, {name: each.grad for name, each in model.named_parameters()}

    expected = session(copy.deepcopy(model), lambda model, batch: model(batch))
    by_torch, by_us = new_counter(), new_counter()
    session(copy.deepcopy(model), lambda model, batch: torch.compile(model, backend=by_torch)(batch))
    same(session(copy.deepcopy(model), way(backend=by_us)), expected)
    assert (by_us.graphs, by_us.runs) == (by_torch.graphs, by_torch.runs) == (by_torch.graphs, 4)


# All stock modules


def tensors_in(value):
    """Return the tensors in nested containers, in order."""
    if isinstance(value, torch.Tensor):
        return [value]
    if isinstance(value, dict):
        value = list(value.values())
    return [each for part in value for each in tensors_in(part)] if isinstance(value, (list, tuple)) else []


def leaves_of(value):
    """Return a copy of nested containers with tensors that are leaves of a graph of their own."""
    if isinstance(value, torch.Tensor):
        return value.detach().clone().requires_grad_(value.requires_grad)
    if isinstance(value, dict):
        return {name: leaves_of(each) for name, each in value.items()}
    return type(value)(map(leaves_of, value)) if type(value) in (list, tuple) else value


def run(module, inputs, region):
    """Return outputs and gradients of one call, from the same random state each time."""
    args, kwargs = leaves_of(tuple(inputs.args)), leaves_of(inputs.kwargs)
    leaves = [each for each in tensors_in([args, kwargs]) if each.requires_grad]
    torch.manual_seed(0)
    with region:
        output = module(*args, **kwargs)
    floats = [each for each in tensors_in(output) if each.is_floating_point() and each.requires_grad]
    if floats:
        sum(each.sum() for each in floats).backward()
    gradients = [each.grad for each in (*module.parameters(), *leaves)]
    return [each.detach() for each in tensors_in(output)], gradients


# The rest costs time and tells the same: hundreds of inputs that differ in a weight or a reduction.
INPUTS = 2
TRACED_BACKWARD = {"nn.Linear", "nn.Conv2d", "nn.BatchNorm1d", "nn.LSTMCell", "nn.MultiheadAttention", "nn.Embedding"}
NOT_FOR_DYNAMO = {"nn.RNN", "nn.GRU", "nn.LSTM"}  # torch._dynamo.config.allow_rnn
IDS = [
    (info, backend)
    for info in module_db
    for backend in ("eager", "aot_eager")
    if backend == "eager" or info.name in TRACED_BACKWARD
]


@pytest.mark.filterwarnings("ignore")  # what eager warns of is not the subject
@pytest.mark.parametrize(("info", "backend"), IDS, ids=lambda it: getattr(it, "name", it))
def test_stock_modules_answer_as_in_eager(info, backend):
    torch.manual_seed(0)
    dtype = torch.float64 if "Fractional" in info.name else torch.float32  # as its random samples are
    given = info.module_inputs_func(info, device="cpu", dtype=dtype, requires_grad=True, training=True)
    compared = 0
    for each in given[:INPUTS]:
        if each.forward_input is None:
            continue
        torch.manual_seed(1)
        module = info.module_cls(*each.constructor_input.args, **each.constructor_input.kwargs)
        if isinstance(module, nn.modules.lazy.LazyModuleMixin):
            run(module, each.forward_input, torch.no_grad())
        twin = copy.deepcopy(module)
        try:
            expected = run(module, each.forward_input, torch.enable_grad())
        except (RuntimeError, NotImplementedError):
            continue  # not for this device
        same(run(twin, each.forward_input, ipy_dynwrap.region(backend=backend)), expected, equal_nan=True)
        same(dict(twin.state_dict()), dict(module.state_dict()))
        compared += 1
    assert compared
    cache = ipy_dynwrap.cache_info()
    assert cache.calls == compared
    assert cache.eager_calls == (compared if info.name in NOT_FOR_DYNAMO else 0)


# Transformers


@pytest.fixture(scope="module")
def transformers():
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HF_HUB_OFFLINE", "1")
        yield pytest.importorskip("transformers")


def gpt2(transformers):
    config = transformers.GPT2Config(
        vocab_size=50, n_positions=32, n_embd=16, n_layer=2, n_head=2, bos_token_id=0, eos_token_id=1, pad_token_id=1
    )
    return transformers.GPT2LMHeadModel(config)


def llama(transformers):
    config = transformers.LlamaConfig(
        vocab_size=50,
        hidden_size=16,
        intermediate_size=32,
        num_hidden_layers=2,
        num_attention_heads=2,
        num_key_value_heads=1,
        max_position_embeddings=32,
        pad_token_id=1,
    )
    return transformers.LlamaForCausalLM(config)


def bert(transformers):
    config = transformers.BertConfig(
        vocab_size=50, hidden_size=16, num_hidden_layers=2, num_attention_heads=2, intermediate_size=32, pad_token_id=1
    )
    return transformers.BertForMaskedLM(config)


@pytest.fixture
def tokens():
    return torch.randint(2, 50, (2, 6), generator=torch.Generator().manual_seed(0))


@pytest.mark.filterwarnings("ignore")  # what transformers warns of is not the subject
@pytest.mark.parametrize("make", [gpt2, llama, bert], ids=lambda make: make.__name__)
def test_transformers_forward_and_backward(transformers, counter, tokens, make):
    torch.manual_seed(0)
    model = make(transformers)
    twin = copy.deepcopy(model)
    expected = model.eval()(tokens, labels=tokens)
    expected.loss.backward()
    for _ in range(2):
        twin.zero_grad()
        with ipy_dynwrap.region(backend=counter):
            got = twin.eval()(tokens, labels=tokens)
            got.loss.backward()
        assert type(got) is type(expected)
        same((got.loss, got.logits), (expected.loss, expected.logits))
        same([each.grad for each in twin.parameters()], [each.grad for each in model.parameters()])
    assert counter.runs == 2 * counter.graphs > 0
    assert ipy_dynwrap.cache_info().eager_calls == 0


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("make", [gpt2, llama], ids=lambda make: make.__name__)
def test_transformers_generate(transformers, counter, tokens, make):
    torch.manual_seed(0)
    model = make(transformers).eval()
    expected = model.generate(tokens, max_new_tokens=5, do_sample=False)
    with ipy_dynwrap.region(backend=counter):
        got = model.generate(tokens, max_new_tokens=5, do_sample=False)
    same(got, expected)
    assert counter.graphs > 0
