"""The quickstart notebook, in a real kernel, with the default backend."""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import TYPE_CHECKING, Any

import nbformat
import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator

pytest.importorskip("torch")
pytest.importorskip("sklearn")

ROOT = Path(__file__).resolve().parents[2]
NOTEBOOK = ROOT / "notebooks" / "quickstart.ipynb"


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(ROOT / "tools")
        # Nothing that an earlier run left on the disk is used: compilations are real.
        patch.setenv("TORCHINDUCTOR_CACHE_DIR", str(tmp_path_factory.mktemp("inductor")))
        demo = importlib.import_module("demo")
        yield demo.execute(NOTEBOOK, progress=lambda cell: None, export=tmp_path_factory.mktemp("out") / "page.html")


def text_of(run: Any, cell_id: str) -> str:
    """Return all that a cell shows, as plain text."""
    (cell,) = (cell for cell in run.notebook.cells if cell.id == cell_id)
    return "\n".join(output.get("text") or output.get("data", {}).get("text/plain", "") for output in cell.outputs)


@pytest.mark.parametrize(
    ("cell", "compiles", "recompiles"),
    [
        ("eager", 0, 0),
        ("train", 2, 0),
        ("again", 0, 0),
        ("batch-size", 2, 2),
        ("evaluate", 1, 1),
        ("hook", 1, 1),
    ],
)
def test_each_cell_compiles_what_it_must(run: Any, cell: str, compiles: int, recompiles: int) -> None:
    expected = {"compiles": compiles, "recompiles": recompiles, "eager_calls": 0, "graph_breaks": 0}
    assert run.counts[cell] == expected


def test_committed_notebook_has_no_outputs() -> None:
    cells = nbformat.read(NOTEBOOK, as_version=4).cells
    assert all(not cell.outputs and cell.execution_count is None for cell in cells if cell.cell_type == "code")
