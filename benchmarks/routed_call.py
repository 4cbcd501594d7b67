"""What a routed call costs beside `torch.compile`'s, measured side by side in one run.

    python benchmarks/routed_call.py [--rounds N] [--backends eager inductor]

Four ways to call one small `nn.Linear`, on one thread. The machine's speed drifts, so the ways take turns: each round
times all of them, in an order that rotates. Other work on the machine only ever adds time: lower quartiles are shown.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import torch
from rich.console import Console
from rich.table import Table
from torch import nn

import ipy_dynwrap

Loop = Callable[[int], float]

WAYS = ("eager", "torch.compile", "ipy_dynwrap.compile", "region")
REFERENCE = "torch.compile"


def loop_over(module: Callable[[torch.Tensor], torch.Tensor], x: torch.Tensor) -> Loop:
    """Return a function that calls `module(x)` as often as it is told, and returns the seconds of one call."""

    def loop(number: int) -> float:
        started = time.perf_counter()
        for _ in range(number):
            module(x)
        return (time.perf_counter() - started) / number

    return loop


@contextmanager
def ways(backend: str) -> Iterator[dict[str, Loop]]:
    """Yield the loops by name; the region's is entered for each of its runs, before the clock starts."""
    torch.compiler.reset()
    ipy_dynwrap.reset()
    x = torch.randn(8, 16)
    module = nn.Linear(16, 16)
    routed = loop_over(module, x)

    def in_region(number: int) -> float:
        with ipy_dynwrap.region(backend=backend):
            return routed(number)

    yield {
        "eager": loop_over(module, x),
        "torch.compile": loop_over(torch.compile(module, backend=backend), x),
        "ipy_dynwrap.compile": loop_over(ipy_dynwrap.compile(module, backend=backend), x),
        "region": in_region,
    }


def measure(loops: dict[str, Loop], rounds: int, number: int) -> dict[str, list[float]]:
    """Return the seconds of one call, by way, one figure per round."""
    for loop in loops.values():
        loop(number)  # compiles, and warms up
    taken: dict[str, list[float]] = {name: [] for name in loops}
    names = list(loops)
    for turn in range(rounds):
        first = turn % len(names)
        for name in names[first:] + names[:first]:
            taken[name].append(loops[name](number))
    return taken


def row(name: str, taken: dict[str, list[float]]) -> tuple[str, str, str]:
    """Return the name, the microseconds of a call, and its ratio to the reference."""
    seconds, reference = (statistics.quantiles(taken[each], n=4)[0] for each in (name, REFERENCE))
    return name, f"{seconds * 1e6:.2f}", f"{seconds / reference:.2f}"


def main() -> None:
    """Measure, and print a table for each backend."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=100, help="rounds of each backend")
    parser.add_argument("--number", type=int, default=200, help="calls in a row within a round")
    parser.add_argument("--backends", nargs="+", default=["eager", "inductor"], help="backends to measure with")
    arguments = parser.parse_args()

    torch.set_num_threads(1)
    for backend in arguments.backends:
        table = Table("a call of nn.Linear(16, 16)", title=f"backend {backend}, torch {torch.__version__}")
        table.add_column("µs", justify="right")
        table.add_column(f"x {REFERENCE}", justify="right")
        with torch.no_grad(), ways(backend) as loops:
            taken = measure(loops, arguments.rounds, arguments.number)
        for name in WAYS:
            table.add_row(*row(name, taken))
        Console().print(table)


if __name__ == "__main__":
    main()
