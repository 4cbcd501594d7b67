"""Run notebooks/quickstart.ipynb in a real kernel, print the cache table, and write the HTML reports.

    python tools/demo.py [FOLDER]

The reports go to FOLDER, `reports/` by default: `quickstart.html` is the executed notebook, `inspector.html` what the
inspector shows at its end.
"""

from __future__ import annotations

import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import nbformat
from nbclient import NotebookClient
from nbconvert import HTMLExporter
from nbformat.v4 import new_code_cell
from rich.console import Console

if TYPE_CHECKING:
    from collections.abc import Callable

ROOT = Path(__file__).resolve().parent.parent
NOTEBOOK = ROOT / "notebooks" / "quickstart.ipynb"

COUNTS = ("compiles", "recompiles", "eager_calls", "graph_breaks")
# Expressions only: a probe leaves no name behind.
COUNT = f'print(*(getattr(__import__("ipy_dynwrap").cache_info(), name) for name in {COUNTS}))'
EXPORT = "get_ipython().run_line_magic('dynwrap', 'export ' + {file!r})"
TABLE = 'print(__import__("ipy_dynwrap.views.text", fromlist="text").short(__import__("ipy_dynwrap").cache_info()))'


@dataclass(frozen=True)
class Run:
    """An executed notebook.

    Parameters
    ----------
    notebook
        With its outputs.
    counts
        What each code cell added to the counts of `CacheInfo`, by cell id.
    table
        The cache at the end, as text.
    """

    notebook: nbformat.NotebookNode
    counts: dict[str, dict[str, int]]
    table: str


def execute(path: Path, progress: Callable[[str], object], export: Path | None = None) -> Run:
    """Execute a notebook in a kernel of its own.

    Parameters
    ----------
    path
        The notebook; the file is not changed.
    progress
        Called with the id of each code cell before it runs.
    export
        Where the inspector's page is written at the end, if anywhere.

    Raises
    ------
    nbclient.exceptions.CellExecutionError
        When a cell fails.
    """
    notebook = nbformat.read(path, as_version=4)
    client = NotebookClient(
        notebook,
        timeout=600,
        resources={"metadata": {"path": str(path.parent)}},
        # A kernel warns of its sockets, which are what every notebook uses.
        extra_arguments=["--IPKernelApp.log_level=ERROR"],
    )

    # The client puts each cell that it executes into the notebook, so the probes need a place there.
    notebook.cells.append(new_code_cell())
    place = len(notebook.cells) - 1

    def ask(source: str) -> str:
        # Without a place in the history, or the cells' numbers would not be the ones that a reader gets.
        cell = client.execute_cell(new_code_cell(source), place, store_history=False)
        return "".join(output.get("text", "") for output in cell.outputs)

    counts = {}
    before = dict.fromkeys(COUNTS, 0)
    with client.setup_kernel():
        for index, cell in enumerate(notebook.cells[:place]):
            if cell.cell_type != "code":
                continue
            progress(cell.id)
            client.execute_cell(cell, index)
            now = dict(zip(COUNTS, map(int, ask(COUNT).split()), strict=True))
            counts[cell.id] = {name: now[name] - before[name] for name in COUNTS}
            before = now
        table = ask(TABLE)
        if export is not None:
            ask(EXPORT.format(file=str(export)))
    del notebook.cells[place]
    for cell in notebook.cells:
        # The line that tells what is being compiled leaves an output without content, at which nbconvert warns.
        if cell.cell_type == "code":
            cell.outputs = [output for output in cell.outputs if output.get("data", True)]
    return Run(notebook, counts, table)


def main(folder: Path) -> None:
    """Write the reports into `folder`, and say on the terminal what happened."""
    console = Console()
    folder.mkdir(parents=True, exist_ok=True)
    started = time.monotonic()
    with console.status("Starting a kernel") as status:
        run = execute(NOTEBOOK, lambda cell: status.update(f"Running cell {cell!r}"), folder / "inspector.html")
    report = folder / "quickstart.html"
    report.write_text(HTMLExporter().from_notebook_node(run.notebook)[0], encoding="utf-8")

    console.print(f"{NOTEBOOK.relative_to(ROOT)} ran in {time.monotonic() - started:.0f} s\n", highlight=False)
    print(run.table)
    print(f"the notebook as it ran:  {report}")
    print(f"what the inspector shows: {folder / 'inspector.html'}")
    print(f"to try it yourself:      {Path(sys.executable).parent / 'jupyter'} lab {NOTEBOOK}")


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT / "reports")
