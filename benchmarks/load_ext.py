"""How long `%load_ext ipy_dynwrap` takes in a fresh process that has IPython already.

    python benchmarks/load_ext.py            # pyperf's options: --fast, -o FILE, --compare-to PYTHON, ...

A second load in one process would find everything imported, so each value is a process of its own.
"""

from __future__ import annotations

import subprocess
import sys

import pyperf

_LOAD = """
import time
from IPython.core.interactiveshell import InteractiveShell
shell = InteractiveShell.instance()
begun = time.perf_counter()
shell.run_line_magic("load_ext", "ipy_dynwrap")
print(time.perf_counter() - begun)
"""


def load(loops: int) -> float:
    """Return the seconds that `loops` loads took, each in a process of its own."""
    command = [sys.executable, "-c", _LOAD]
    outputs = [subprocess.run(command, capture_output=True, text=True, check=True).stdout for _ in range(loops)]  # noqa: S603 - this interpreter
    return sum(map(float, outputs))


if __name__ == "__main__":
    pyperf.Runner(processes=2, values=5, loops=1).bench_time_func("%load_ext ipy_dynwrap", load)
