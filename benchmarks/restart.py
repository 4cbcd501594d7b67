"""What a restart of the kernel costs: cold, with torch's own warm caches, and with what `%dynwrap persist` keeps.

    python benchmarks/restart.py [--layers N]

A multilayer perceptron is called, forward and backward, and again with another batch size, each row of the table in a
process of its own, with inductor. "torch" is `torch.compile` with its caches in a directory of its own. A cell is
imitated by a file name with the process's number, as a kernel gives it. Beside the wall time stands what torch's caches
on disk have answered.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from typing import Any

from rich.console import Console
from rich.table import Table

MODEL = """
from torch import nn

class Net(nn.Module):
    def __init__(self, layers):
        super().__init__()
        self.layers = nn.Sequential(*(each for _ in range(layers) for each in (nn.Linear(32, 32), nn.GELU())))

    def forward(self, x):
        return self.layers(x)
"""
STEPS = ("forward", "backward", "second shape", "its backward")
CACHES = (("aot_autograd", "autograd_cache"), ("inductor", "fxgraph_cache"))


def measure(layers: int, kept: str | None) -> None:
    """Take the steps, and print for each the seconds and what the caches answered."""
    import torch
    from torch._dynamo.utils import counters

    import ipy_dynwrap
    from ipy_dynwrap import persist

    names: dict[str, Any] = {"__name__": "__main__"}
    exec(compile(MODEL, f"ipykernel_{os.getpid()}/1.py", "exec"), names)  # noqa: S102 - its own text
    model = names["Net"](layers)
    if kept is None:
        compiled: Callable[[torch.Tensor], torch.Tensor] = torch.compile(model)
    else:
        persist.switch_on(kept)
        compiled = ipy_dynwrap.compile(model)
    found = []

    def timed(function: Callable[[], Any]) -> Any:
        before = [counters[group][f"{name}_{answer}"] for group, name in CACHES for answer in ("hit", "miss")]
        begun = time.perf_counter()
        result = function()
        seconds = time.perf_counter() - begun
        after = [counters[group][f"{name}_{answer}"] for group, name in CACHES for answer in ("hit", "miss")]
        found.append([seconds, *(now - then for now, then in zip(after, before, strict=True))])
        return result

    for batch in (8, 12):
        x = torch.randn(batch, 32)
        loss = timed(lambda x=x: compiled(x).sum())  # type: ignore[misc]
        timed(loss.backward)
    print(json.dumps([found, counters["stats"]["unique_graphs"]]))


def in_a_process(layers: int, kept: str | None, environment: dict[str, str]) -> tuple[list[list[float]], int]:
    """Measure in a process of its own."""
    command = [sys.executable, __file__, "--layers", str(layers), "--measure", *([kept] if kept is not None else [])]
    environment = {**os.environ, **environment}
    done = subprocess.run(command, env=environment, stdout=subprocess.PIPE, text=True, check=True)  # noqa: S603 - itself
    found, graphs = json.loads(done.stdout.splitlines()[-1])
    return found, graphs


def words(step: list[float]) -> str:
    """Return the seconds of a step, and what was cold in it."""
    seconds, aot_hits, aot_misses, hits, misses = step
    if not any(step[1:]):
        return f"{seconds:.2f} s"
    cold = f"{aot_misses + misses:.0f} cold" if aot_misses + misses else "all warm"
    return f"{seconds:.2f} s, {cold} ({aot_hits + hits:.0f} hits)"


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--layers", type=int, default=4)
    parser.add_argument("--measure", nargs="?", const="", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.measure is not None:
        measure(given.layers, given.measure or None)
        return
    table = Table("process", *STEPS, "graphs", title="Wall time, and what torch's caches on disk answered")
    with tempfile.TemporaryDirectory() as torchs, tempfile.TemporaryDirectory() as kept:
        rows = {
            "torch, cold": (None, {"TORCHINDUCTOR_CACHE_DIR": torchs}),
            "torch, warm": (None, {"TORCHINDUCTOR_CACHE_DIR": torchs}),
            "ours, cold": (kept, {}),
            "ours, warm": (kept, {}),
        }
        for name, (directory, environment) in rows.items():
            found, graphs = in_a_process(given.layers, directory, environment)
            table.add_row(name, *map(words, found), str(graphs))
    Console(width=150).print(table)


if __name__ == "__main__":
    main()
