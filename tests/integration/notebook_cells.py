"""A notebook of ten cells: three models, helpers, a loss, an optimizer, and a training loop in the last."""

from __future__ import annotations

CELLS = (
    """
import dataclasses
import functools
import math
import torch
import torch.nn.functional as F
from torch import nn
""",
    """
@dataclasses.dataclass
class Config:
    width: int = 8
    depth: int = 2
    rate: float = 0.1
    names: tuple = ("a", "b")

config = Config()
SCALE = 0.5
""",
    """
def scaled(function):
    @functools.wraps(function)
    def wrapper(*args, **kwargs):
        return function(*args, **kwargs) * SCALE
    return wrapper

@scaled
def gelu(x):
    return 0.5 * x * (1 + torch.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)))

def norm(x, eps=1e-5):
    return (x - x.mean(-1, keepdim=True)) / (x.std(-1, keepdim=True) + eps)
""",
    """
class Block(nn.Module):
    expansion = 2
    def __init__(self, width):
        super().__init__()
        self.up = nn.Linear(width, width * self.expansion)
        self.down = nn.Linear(width * self.expansion, width)
        self.act = lambda x: F.relu(x)
    def forward(self, x):
        return x + self.down(self.act(self.up(norm(x))))
""",
    """
class Residual(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.config = config
        self.blocks = nn.ModuleList(Block(config.width) for _ in range(config.depth))
    @property
    def gain(self):
        return self.config.rate
    @staticmethod
    def clamp(x):
        return x.clamp(-5, 5)
    def forward(self, x):
        for block in self.blocks:
            x = block(x)
        return self.clamp(x) * self.gain
""",
    """
class Convolution(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv1d(1, 4, 3, padding=1)
    def forward(self, x):
        return gelu(self.conv(x.unsqueeze(1))).mean(1)

class Gated(nn.Module):
    class Gate(nn.Module):
        def __init__(self, width):
            super().__init__()
            self.linear = nn.Linear(width, width)
        def forward(self, x):
            return torch.sigmoid(self.linear(x))
    def __init__(self, width):
        super().__init__()
        self.gate = self.Gate(width)
    def forward(self, x):
        return self.gate(x) * x
""",
    """
def loss_function(prediction, target, *, weight=1.0):
    return weight * ((prediction - target) ** 2).mean()
""",
    """
class Momentum:
    def __init__(self, parameters, rate):
        self.parameters, self.rate = list(parameters), rate
        self.state = [torch.zeros_like(parameter) for parameter in self.parameters]
    @torch.no_grad()
    def step(self):
        for parameter, state in zip(self.parameters, self.state):
            state.mul_(0.9).add_(parameter.grad)
            parameter.sub_(self.rate * state)
            parameter.grad = None
""",
    """
torch.manual_seed(0)
models = [Residual(config), Convolution(), Gated(config.width)]
optimizers = [Momentum(model.parameters(), config.rate) for model in models]
batch, target = torch.randn(4, config.width), torch.randn(4, config.width)
""",
    """
losses = []
for step in range(3):
    for model, optimizer in zip(models, optimizers):
        loss = loss_function(model(batch), target)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
""",
)
# Another order with the same result.
REORDERED = (0, 6, 7, 2, 1, 5, 3, 4, 8, 9)
# What is edited: cell, old text, new text, and the targets that compile again.
EDITS = {
    "helper": (2, "+ eps", "+ 2 * eps", {"Residual.forward"}),
    "default": (2, "eps=1e-5", "eps=1e-3", {"Residual.forward"}),
    "decorated function": (2, "0.044715", "0.05", {"Convolution.forward"}),
    "decorator": (2, "* SCALE", "* SCALE * 2", {"Convolution.forward"}),
    "global": (1, "SCALE = 0.5", "SCALE = 0.25", {"Convolution.forward"}),
    "method": (3, "return x +", "return x -", {"Residual.forward"}),
    "class attribute": (3, "expansion = 2", "expansion = 3", {"Residual.forward"}),
    "static method": (4, "clamp(-5, 5)", "clamp(-1, 1)", {"Residual.forward"}),
    "field of a dataclass": (1, "rate: float = 0.1", "rate: float = 0.2", {"Residual.forward"}),
    "nested class": (5, "torch.sigmoid", "torch.tanh", {"Gated.forward"}),
    "keyword default": (6, "weight=1.0", "weight=2.0", {"loss_function"}),
    "lambda": (3, "F.relu(x)", "F.gelu(x)", {"Residual.forward"}),
    "optimizer": (7, "0.9", "0.8", set()),
}
