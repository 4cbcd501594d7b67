"""Run tests of Dynamo's twice, with `torch.compile` and with `ipy_dynwrap.compile` in its place, and compare.

    python tools/stand_in.py [--timeout SECONDS] [--jobs N] [--logs FOLDER] TESTS...

TESTS are files or folders of PyTorch's ``test/dynamo``, of the release that is installed; they are not part of this
project. What passes with torch's must pass with ours. Differences that are known, each with its reason, are in
`stand_in_known.toml`; any other makes the exit status 1. What passes with ours only is printed, no more
(`stand_in_report.py`).
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import tomllib
from stand_in_plugin import STARTED
from stand_in_report import UNKNOWN, Comparison, Known, Outcome, counts, details, heading

HERE = Path(__file__).parent
KNOWN = HERE / "stand_in_known.toml"
# The worst that was reported of a test is its outcome: a teardown may fail after a call that passed.
WORST_FIRST = ("failed", "xfailed", "skipped", "passed", STARTED)


def outcomes_of(file: Path, *, stand_in: bool, timeout: int, log: Path) -> dict[str, Outcome]:
    """Run the tests of `file`, in as many processes as it takes, and return how each ended."""
    log.touch()
    known = -1
    while known < (known := len(read(log))):
        _run(file, stand_in=stand_in, timeout=timeout, log=log)
        if not any(outcome.word == STARTED for outcome in read(log).values()):
            break
        _end_unfinished(log)
    return read(log)


def _run(file: Path, *, stand_in: bool, timeout: int, log: Path) -> None:
    options = [
        *("-q", "--import-mode=prepend", "--assert=plain", f"--rootdir={file.parent}", f"--config-file={os.devnull}"),
        *("-p", "no:cacheprovider", "-p", "stand_in_plugin", f"--stand-in-log={log}"),
        # A hanging test is ended with its process: only that ends one which hangs in C++.
        *(f"--timeout={timeout}", "--timeout-method=thread"),
        *(["--stand-in"] if stand_in else []),
    ]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join([str(HERE), os.environ.get("PYTHONPATH", "")])}
    with log.with_suffix(".txt").open("a") as output:
        subprocess.run(
            [sys.executable, "-m", "pytest", *options, str(file)],
            cwd=file.parent,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            check=False,
        )


def read(log: Path) -> dict[str, Outcome]:
    """Return the outcome of each test in `log`."""
    found: dict[str, Outcome] = {}
    for line in log.read_text().splitlines():
        entry = json.loads(line)
        test, new = entry["id"], Outcome(entry["outcome"], entry["error"])
        if test not in found or WORST_FIRST.index(new.word) < WORST_FIRST.index(found[test].word):
            found[test] = new
    return found


def _end_unfinished(log: Path) -> None:
    with log.open("a") as output:
        for test, outcome in read(log).items():
            if outcome.word == STARTED:
                entry = {"id": test, "outcome": "failed", "error": "its process ended (a crash, or the time was up)"}
                print(json.dumps(entry), file=output)


def test_files(given: Iterable[Path]) -> list[Path]:
    """Return the files of tests among `given`, and in the folders among them."""
    return [file.resolve() for path in given for file in (sorted(path.glob("test_*.py")) if path.is_dir() else [path])]


def main() -> int:
    """Return 1 if there is a difference without a reason."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("tests", nargs="+", type=Path, help="files or folders of PyTorch's test/dynamo")
    parser.add_argument("--timeout", type=int, default=120, help="seconds for one test")
    parser.add_argument("--jobs", type=int, default=1, help="processes at a time")
    parser.add_argument("--logs", type=Path, help="where outcomes and output are kept; those already there are not run")
    arguments = parser.parse_args()
    known, total = Known(tomllib.loads(KNOWN.read_text())), Comparison()
    print(heading())
    with tempfile.TemporaryDirectory() as scratch, ThreadPoolExecutor(arguments.jobs) as pool:
        logs: Path = arguments.logs or Path(scratch)
        logs.mkdir(parents=True, exist_ok=True)

        def outcomes(file: Path, *, stand_in: bool) -> dict[str, Outcome]:
            log = logs.resolve() / f"{file.stem}.{'ours' if stand_in else 'torch'}.jsonl"
            return outcomes_of(file, stand_in=stand_in, timeout=arguments.timeout, log=log)

        runs = [
            (file, *(pool.submit(outcomes, file, stand_in=stand_in) for stand_in in (False, True)))
            for file in test_files(arguments.tests)
        ]
        for file, torch, ours in runs:
            compared = Comparison.of(torch.result(), ours.result())
            print(counts(file.name, compared), flush=True)
            total.add(compared)
    print(counts("all", total), *details(total, known), sep="\n")
    return any(known.reason(test) == UNKNOWN for test in total.torch_only)


if __name__ == "__main__":
    sys.exit(main())
