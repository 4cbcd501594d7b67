"""The README says nothing that is not so: its commands, options, names, links and examples exist and work."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import ipy_dynwrap
from ipy_dynwrap import arguments, config, magics

if TYPE_CHECKING:
    import argparse

ROOT = Path(__file__).resolve().parents[2]
DOCUMENTS = ["README.md", "CONTRIBUTING.md", "docs/design.md", "docs/export.md"]
README = (ROOT / "README.md").read_text(encoding="utf-8")
MAKEFILE = (ROOT / "Makefile").read_text(encoding="utf-8")


def blocks(language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", README, flags=re.DOTALL)


def actions_of_compile() -> list[argparse.Action]:
    return [action for action in arguments.parser()._actions if action.dest != "help"]


def rows_of_options() -> str:
    return "\n".join(re.findall(r"^\| (`--.*?) \|", README, flags=re.MULTILINE))


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
    listed = set(re.findall(r"--[a-z-]+", rows_of_options()))
    assert {action.option_strings[0] for action in actions_of_compile()} <= listed
    assert listed <= {name for action in actions_of_compile() for name in action.option_strings}


def test_options_take_a_value_where_the_readme_shows_one() -> None:
    valued = {name: action.nargs != 0 for action in actions_of_compile() for name in action.option_strings}
    for name, value in re.findall(r"`(--[a-z-]+)(?: ([A-Z]+))?`", rows_of_options()):
        assert bool(value) == valued[name], name


def test_forms_of_dynwrap_are_all_listed_and_no_other() -> None:
    form = re.compile(r"^\W*%dynwrap(?: ([a-z]+))?", flags=re.MULTILINE)
    help_text = magics.DynWrapMagics.dynwrap.__doc__ or ""
    assert set(form.findall(README)) == set(form.findall(help_text))


def test_settings_exist() -> None:
    mentioned = set(re.findall(r"DynWrap\.([a-z]+)", README))
    assert mentioned
    assert mentioned <= set(config.DynWrap.class_trait_names(config=True))


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


def test_parts_in_the_design_are_all_modules_and_no_other() -> None:
    design = (ROOT / "docs" / "design.md").read_text(encoding="utf-8")
    table = "\n".join(re.findall(r"^\| (`.*?`) \|", design, flags=re.MULTILINE))
    modules = {file.name for file in (ROOT / "ipy_dynwrap").glob("*.py")} - {"__init__.py"}
    assert set(re.findall(r"`(\w+\.py)`", table)) == modules
    for source in re.findall(r"`(csrc/[\w.]+)`", table):
        assert (ROOT / source).exists(), source


def test_python_examples_run() -> None:
    pytest.importorskip("torch")
    examples = [block for block in blocks("python") if "%" not in block]
    namespace: dict[str, object] = {"__name__": "__main__"}
    # One after the other, as a reader would: each uses the names of those before it.
    unused = [example for example in examples if "loader" not in example]
    assert unused
    for example in unused:
        exec(compile(example, "README.md", "exec"), namespace)
