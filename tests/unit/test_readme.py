"""The README says nothing that is not so: its commands, options, names, links and examples exist and work."""

from __future__ import annotations

import argparse
import re
from pathlib import Path

import pytest

import ipy_dynwrap
from ipy_dynwrap import magics

ROOT = Path(__file__).resolve().parents[2]
DOCUMENTS = ["README.md", "CONTRIBUTING.md", "docs/design.md"]
README = (ROOT / "README.md").read_text(encoding="utf-8")
MAKEFILE = (ROOT / "Makefile").read_text(encoding="utf-8")


def blocks(language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", README, flags=re.DOTALL)


def options_of_compile() -> dict[str, argparse.Action]:
    actions = magics.compile_parser()._actions
    return {name: action for action in actions for name in action.option_strings if name not in ("-h", "--help")}


@pytest.mark.parametrize("document", DOCUMENTS)
def test_make_targets_exist(document: str) -> None:
    text = (ROOT / document).read_text(encoding="utf-8")
    commands = re.findall(r"^\$ make (.+)$|`make ([a-z -]+)`", text, flags=re.MULTILINE)
    mentioned = {target for found in commands for part in found for target in part.split()}
    targets = set(re.findall(r"^([a-z-]+):", MAKEFILE, flags=re.MULTILINE))
    assert mentioned <= targets


def test_two_commands_of_a_fresh_machine_are_shown() -> None:
    assert "$ make demo\n$ make test\n" in blocks("console")


def test_options_of_compile_are_all_listed_and_no_other() -> None:
    rows = re.findall(r"^\| (`--.*?) \|", README, flags=re.MULTILINE)
    listed = {name for row in rows for name in re.findall(r"--[a-z-]+", row)}
    assert listed == set(options_of_compile())


def test_options_take_a_value_where_the_readme_shows_one() -> None:
    shown = dict(re.findall(r"`(--[a-z-]+)(?: ([A-Z]+))?`", "\n".join(re.findall(r"^\| `--.*$", README, flags=re.MULTILINE))))
    for name, action in options_of_compile().items():
        assert bool(shown[name]) == (action.nargs != 0), name


def test_public_names_are_all_mentioned_and_no_other() -> None:
    public = {name for name in ipy_dynwrap.__all__ if not name.startswith("__") and "ipython_extension" not in name}
    mentioned = set(re.findall(r"ipy_dynwrap\.([a-z_]+)", README))
    assert mentioned == public


@pytest.mark.parametrize("document", DOCUMENTS)
def test_links_lead_somewhere(document: str) -> None:
    file = ROOT / document
    for link in re.findall(r"\]\(([^)]+)\)", file.read_text(encoding="utf-8")):
        path, _, anchor = link.partition("#")
        if "://" in path:
            continue
        target = (file.parent / path) if path else file
        assert target.exists(), link
        if anchor:
            headings = re.findall(r"^#+ (.+)$", target.read_text(encoding="utf-8"), flags=re.MULTILINE)
            assert anchor in {heading.lower().replace(" ", "-") for heading in headings}, link


def test_python_examples_run() -> None:
    pytest.importorskip("torch")
    examples = [block for block in blocks("python") if "%" not in block]
    namespace: dict[str, object] = {"__name__": "__main__"}
    # One after the other, as a reader would: each uses the names of those before it.
    unused = [example for example in examples if "loader" not in example]
    assert unused
    for example in unused:
        exec(compile(example, "README.md", "exec"), namespace)
