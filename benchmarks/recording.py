"""What recording the details of entries costs while torch compiles, and when a call hits.

    python benchmarks/recording.py [--rounds N] [--backends eager aot_eager inductor]

A multilayer perceptron and a small residual network are compiled, forward and backward, with recording on and off in
turn. Processor time of this process is measured, for other work on the machine only ever adds to the other kind; lower
quartiles are shown. What inductor has compiled once it finds on disk afterwards: that is the quickest it can be, and
the share of recording the largest. What one call costs that hits is measured on the entries that this leaves.
"""

from __future__ import annotations

import argparse
import gc
import statistics
import time
from collections.abc import Callable

import torch
from rich.console import Console
from rich.table import Table
from torch import nn

import ipy_dynwrap
from ipy_dynwrap.recording import switch

HITS = 200  # calls in a row that are timed together


class Block(nn.Module):
    """Two convolutions with their norms, and what comes in added to them."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.first = nn.Sequential(nn.Conv2d(channels, channels, 3, padding=1), nn.BatchNorm2d(channels), nn.ReLU())
        self.second = nn.Sequential(nn.Conv2d(channels, channels, 3, padding=1), nn.BatchNorm2d(channels))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Run both."""
        return (x + self.second(self.first(x))).relu()


def perceptron() -> tuple[list[nn.Module], torch.Tensor]:
    """Return the layers of a small model, and an input."""
    return [nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 4)], torch.randn(8, 16)


def residual() -> tuple[list[nn.Module], torch.Tensor]:
    """Return the layers of a deeper model, and an input."""
    blocks = [Block(8) for _ in range(8)]
    layers = [nn.Conv2d(3, 8, 3), *blocks, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(8, 4)]
    return layers, torch.randn(2, 3, 8, 8)


MODELS: dict[str, Callable[[], tuple[list[nn.Module], torch.Tensor]]] = {
    "perceptron": perceptron,
    "residual network": residual,
}


def measure(make: Callable[[], tuple[list[nn.Module], torch.Tensor]], backend: str) -> tuple[float, float]:
    """Return the seconds of a first call, forward and backward, and those of a call that hits."""
    torch.compiler.reset()
    ipy_dynwrap.reset()
    layers, x = make()
    model = ipy_dynwrap.compile(nn.Sequential(*layers), backend=backend)
    gc.collect()
    started = time.process_time()
    model(x).sum().backward()
    compiled = time.process_time()
    with torch.no_grad():
        model(x)
        hitting = time.process_time()
        for _ in range(HITS):
            model(x)
    return compiled - started, (time.process_time() - hitting) / HITS


def main() -> None:
    """Measure, and print a table for each backend."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=15, help="compilations of each model with each setting")
    parser.add_argument("--backends", nargs="+", default=["eager", "aot_eager", "inductor"], help="backends to measure")
    arguments = parser.parse_args()

    torch.set_num_threads(1)
    for backend in arguments.backends:
        table = Table("", title=f"backend {backend}, torch {torch.__version__}")
        for column in ("ms, off", "ms, on", "on / off", "hit, µs, off", "hit, µs, on", "on / off"):
            table.add_column(column, justify="right")
        for name, make in MODELS.items():
            measure(make, backend)  # imports, and fills the caches on disk
            taken: dict[bool, list[tuple[float, float]]] = {False: [], True: []}
            for turn in range(2 * arguments.rounds):
                switch.on = turn % 4 in (1, 2)  # off, on, on, off: a drift adds as much to both
                taken[switch.on].append(measure(make, backend))
            cells = []
            for part, scale in ((0, 1e3), (1, 1e6)):
                off, on = (
                    statistics.quantiles([each[part] for each in taken[which]], n=4)[0] for which in (False, True)
                )
                cells += [f"{off * scale:.1f}", f"{on * scale:.1f}", f"{on / off:.3f}"]
            table.add_row(name, *cells)
        Console().print(table)


if __name__ == "__main__":
    main()
