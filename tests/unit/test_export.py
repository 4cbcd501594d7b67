"""The exported files: JSON as its schema says, a page that is complete."""

from __future__ import annotations

import json
import sys

import jsonschema
import pytest
import torch

import ipy_dynwrap
from ipy_dynwrap import export
from ipy_dynwrap.snapshot import CacheInfo, CellRun, EntryDetails, EntryInfo, WrapperInfo
from ipy_dynwrap.views.picture import Picture

SCHEMA = json.loads(export.SCHEMA.read_text(encoding="utf-8"))


@pytest.fixture(autouse=True)
def fresh():
    ipy_dynwrap.reset()
    yield
    ipy_dynwrap.reset()


class Scale(torch.nn.Module):
    def __init__(self, k):
        super().__init__()
        self.k = k

    def forward(self, x):
        y = x * self.k
        torch._dynamo.graph_break()
        return y + 1


def session():
    """Compile several wrappers, entries, a graph break and an error."""
    with ipy_dynwrap.region(backend="eager"):
        for k in (2, 3, 4):
            Scale(k)(torch.ones(3))
        Scale(2)(torch.ones(5))
    with pytest.raises(TypeError), ipy_dynwrap.region(backend="eager"):
        Scale("two")(torch.ones(3))


def validator():
    kind = jsonschema.validators.validator_for(SCHEMA)
    kind.check_schema(SCHEMA)
    return kind(SCHEMA)


def strict(schema):
    """Let the schema refuse what it does not name, so that nothing goes undocumented."""
    if isinstance(schema, dict):
        changed = {name: strict(each) for name, each in schema.items()}
        if "properties" in schema:
            changed["additionalProperties"] = False
        return changed
    return [strict(each) for each in schema] if isinstance(schema, list) else schema


def test_what_is_written_is_as_the_schema_says_and_all_of_it_is_described():
    session()
    found = json.loads(export.content("json"))
    validator().validate(found)
    jsonschema.Draft202012Validator(strict(SCHEMA)).validate(found)
    assert found["version"] == export.VERSION == SCHEMA["properties"]["version"]["const"]
    assert found["versions"]["torch"] == torch.__version__
    # The whole of it is there to be checked.
    assert found["recompilations"]
    assert found["unkeyed"]
    assert [run["failed"] for run in found["timeline"]] == [False, True]
    numbers = {entry["number"] for wrapper in found["cache"]["wrappers"] for entry in wrapper["entries"]}
    assert numbers
    assert {each["number"] for each in found["details"]} <= numbers
    names = {wrapper["name"] for wrapper in found["cache"]["wrappers"]}
    assert {wrapper["family"] for wrapper in found["cache"]["wrappers"]} <= names
    assert {each["wrapper"] for each in found["recompilations"]} <= names


def test_nothing_is_a_document_too():
    found = json.loads(export.content("json"))
    validator().validate(found)
    assert found["cache"]["wrappers"] == found["timeline"] == found["recompilations"] == []


@pytest.mark.parametrize(
    "wrong",
    [
        {"version": 2},
        {"at": "now"},
        {"cache": {}},
        {"timeline": [{}]},
        {"details": [{"number": 1}]},
        {"format": "other"},
    ],
)
def test_the_schema_refuses_what_is_not_so(wrong):
    found = json.loads(export.content("json")) | wrong
    assert not validator().is_valid(found)


def test_details_are_described():
    entry = EntryInfo("0/0", 1, 0.0, None, None, None, number=7)
    wrapper = WrapperInfo("n", "module", "Net", {}, (entry,), 1, 1, 0, 8, "compiled", 0.1, None)
    details = EntryDetails(7, "0/0", inputs={"x": "float32[2]"}, phases=(("backend", 0.5),), disk_cache="miss")
    found = export.document(Picture(CacheInfo((wrapper,), 1, 0, 0, 0, 0.1), (CellRun(1, 1.0, 1.0),), (), {7: details}))
    jsonschema.Draft202012Validator(strict(SCHEMA)).validate(json.loads(json.dumps(found)))
    assert found["details"][0]["phases"] == [["backend", 0.5]]


def test_a_document_without_torch(monkeypatch):
    monkeypatch.delitem(sys.modules, "torch")
    found = export.document(Picture(CacheInfo((), 0, 0, 0, 0, 0.0)))
    assert found["versions"]["torch"] is None
    validator().validate(found)


def test_text_that_is_no_unicode_can_be_written():
    entry = EntryInfo("0/0", 1, 0.0, "self.s '\ud800' -> ''", None, None)
    wrapper = WrapperInfo("n", "module", "Net", {"self.s": "'\ud800'"}, (entry,), 1, 1, 0, 8, "compiled", 0.1, None)
    picture = Picture(CacheInfo((wrapper,), 1, 0, 0, 0, 0.1))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("ipy_dynwrap.views.picture.taken", lambda *, details: picture)
        for form in export.FORMATS:
            assert "ud800" in export.content(form).encode("utf-8").decode()


def test_a_page_is_complete():
    session()
    page = export.content("html")
    assert page.startswith("<!DOCTYPE html>")
    for part in ("Scale.forward", "self.k = 4", "Why it compiled again", "Timeline (2 cells)", "Inside of", "Guards ("):
        assert part in page
