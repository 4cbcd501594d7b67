"""Options of the magics and what `%dynwrap` makes of its words; `tests/integration` runs them in cells."""

from __future__ import annotations

import json
from types import SimpleNamespace

import pytest
from IPython.core.error import InputRejected, UsageError
from IPython.core.interactiveshell import InteractiveShell

import ipy_dynwrap
from ipy_dynwrap import arguments, config
from ipy_dynwrap.arguments import CellError
from ipy_dynwrap.magics import DynWrapMagics
from ipy_dynwrap.snapshot import CacheInfo, EntryInfo, WrapperInfo


def parse(line):
    return vars(arguments.parser().parse_argstring(line))


def test_nothing_is_given_by_default():
    assert set(parse("").values()) == {None}


def test_every_option_has_a_default_to_configure():
    assert set(parse("")) == set(config.DynWrap.class_own_traits(config=True))


@pytest.mark.parametrize(
    ("line", "given"),
    [
        ("--backend inductor", {"backend": "inductor"}),
        ("--backend=inductor --mode max-autotune", {"backend": "inductor", "mode": "max-autotune"}),
        ("--dynamic", {"dynamic": True}),
        ("--no-dynamic", {"dynamic": False}),
        ("--fullgraph --quiet", {"fullgraph": True, "quiet": True}),
        ("--include a --include b.c", {"include": ["a", "b.c"]}),
        ("--exclude f --stance force_eager", {"exclude": ["f"], "stance": "force_eager"}),
    ],
)
def test_options(line, given):
    assert {name: value for name, value in parse(line).items() if value is not None} == given


@pytest.mark.parametrize("line", ["--nope", "word", "--backend", "--back eager", "--help", "--quiet=yes"])
def test_what_is_no_option_is_an_error(line):
    with pytest.raises(CellError, match=r"^%%compile: "):
        parse(line)


def test_errors_are_what_ipython_looks_for():
    assert issubclass(CellError, UsageError)
    assert issubclass(CellError, InputRejected)


@pytest.mark.parametrize(
    ("line", "options", "statement"),
    [
        ("f(x)", "", "f(x)"),
        ("  y = f(x, '--mode')  ", "", "y = f(x, '--mode')"),
        ("--backend eager f(x)", "--backend eager", "f(x)"),
        ("--backend=eager --fullgraph -x", "--backend=eager --fullgraph", "-x"),
        ("--no-dynamic --include a --include b f(x) --quiet", "--no-dynamic --include a --include b", "f(x) --quiet"),
        ("--nope f(x)", "--nope", "f(x)"),
        ("--quiet", "--quiet", ""),
        ("", "", ""),
    ],
)
def test_options_stand_before_a_statement(line, options, statement):
    assert arguments.split(line) == (options, statement)


def test_help_lists_every_option():
    text = DynWrapMagics.compile.__doc__
    for action in arguments.parser()._actions:
        for option in action.option_strings:
            assert option in text
        assert action.help.split()[0] in text


def test_settings_are_the_registered_ones_else_the_configured_ones():
    shell = InteractiveShell()
    try:
        assert config.of_shell(shell).backend == "inductor"
        mine = config.DynWrap(parent=shell, backend="eager")
        shell.configurables.append(mine)
        assert config.of_shell(shell) is mine
    finally:
        shell.restore_sys_module_state()


# %dynwrap


@pytest.fixture
def magics():
    shell = SimpleNamespace(user_ns={"net": SimpleNamespace(layer="the layer")}, configurables=[])
    return DynWrapMagics(shell)


@pytest.fixture
def called(monkeypatch):
    calls = []
    for name in ("inspector", "explain", "reset"):
        monkeypatch.setattr(ipy_dynwrap, name, lambda *args, name=name: calls.append((name, *args)))
    return calls


@pytest.mark.parametrize(
    ("line", "call"),
    [
        ("", ("inspector",)),
        ("why net.layer", ("explain", "the layer")),
        ("why  Net.forward ", ("explain", "Net.forward")),
        ("reset", ("reset", None)),
        ("reset net.layer", ("reset", "the layer")),
        ("reset net.nothing", ("reset", "net.nothing")),
    ],
)
def test_dynwrap(magics, called, line, call):
    magics.dynwrap(line)
    assert called == [call]


@pytest.mark.parametrize("line", ["what", "why", "export", "Why net"])
def test_dynwrap_says_what_it_knows(magics, called, line):
    with pytest.raises(CellError, match=r"why NAME, reset"):
        magics.dynwrap(line)
    assert called == []


def test_dynwrap_of_an_unknown_name_is_one_sentence(magics, monkeypatch):
    def unknown(target):
        raise LookupError(f"no wrapper is called {target!r}")

    monkeypatch.setattr(ipy_dynwrap, "explain", unknown)
    with pytest.raises(CellError, match=r"^%dynwrap: no wrapper is called 'nope'$"):
        magics.dynwrap("why nope")


@pytest.fixture
def info(monkeypatch):
    entry = EntryInfo("0/0", 3, 0.5, None, 2, 1)
    wrapper = WrapperInfo("n", "module", "Net", {"self.k": "2"}, (entry,), 3, 1, 0, 8, "compiled", 0.1, None)
    info = CacheInfo((wrapper,), 1, 0, 0, 0, 0.1, 3)
    monkeypatch.setattr(ipy_dynwrap, "cache_info", lambda: info)


def test_export_as_json(magics, info, tmp_path):
    magics.dynwrap(f"export {tmp_path / 'a b.json'}")
    [wrapper] = json.loads((tmp_path / "a b.json").read_text())["wrappers"]
    assert wrapper["key"] == {"self.k": "2"}
    assert wrapper["entries"][0]["hits"] == 3


def test_export_as_html(magics, info, tmp_path):
    magics.dynwrap(f"export {tmp_path / 'page.html'}")
    assert "Net" in (tmp_path / "page.html").read_text()


@pytest.mark.parametrize("name", ["page.txt", "page", "no/such/folder/page.html"])
def test_export_that_cannot_be_is_one_sentence(magics, info, tmp_path, name):
    with pytest.raises(CellError, match=r"^%dynwrap export: [^\n]*$"):
        magics.dynwrap(f"export {tmp_path / name}")
    assert list(tmp_path.iterdir()) == []
