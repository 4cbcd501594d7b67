"""Options of the magics and what `%dynwrap` makes of its words; `tests/integration` runs them in cells."""

from __future__ import annotations

import json
from types import SimpleNamespace

import pytest
from IPython.core.error import InputRejected, UsageError
from IPython.core.interactiveshell import InteractiveShell

import ipy_dynwrap
from ipy_dynwrap import arguments, config
from ipy_dynwrap import magics as magics_module
from ipy_dynwrap.arguments import CellError
from ipy_dynwrap.magics import DynWrapMagics
from ipy_dynwrap.snapshot import CacheInfo, EntryInfo, WrapperInfo
from ipy_dynwrap.views import picture


def parse(line):
    return vars(arguments.parser().parse_argstring(line))


def test_nothing_is_given_by_default():
    assert set(parse("").values()) == {None}


def test_every_option_has_a_default_to_configure():
    assert set(parse("")) <= set(config.DynWrap.class_own_traits(config=True))


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


@pytest.mark.parametrize("line", ["--nope", "word", "--backend", "--back eager", "--helf", "--quiet=yes"])
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


@pytest.mark.parametrize("line", ["--help", "-h", "--backend eager --help"])
def test_help_is_what_is_asked_for(line):
    with pytest.raises(arguments.HelpAsked) as asked:
        parse(line)
    assert str(asked.value) == arguments.help_text()
    assert asked.value._render_traceback_() == [arguments.help_text()]


def test_help_lists_every_option():
    text = DynWrapMagics.compile.__doc__
    assert "::" not in text
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
    names = {"net": SimpleNamespace(layer="the layer"), "double": lambda x, y=0: 2 * x + y, "ran": []}
    shell = SimpleNamespace(user_ns=names, configurables=[], kernel=object(), var_expand=str)
    return DynWrapMagics(shell)


@pytest.fixture
def called(monkeypatch):
    calls = []
    for name in ("inspector", "explain", "reset", "skip"):
        monkeypatch.setattr(ipy_dynwrap, name, lambda *args, name=name: calls.append((name, *args)))
    monkeypatch.setattr(ipy_dynwrap, "would_hit", lambda *args, **kwargs: calls.append((args, kwargs)))
    return calls


@pytest.mark.parametrize(
    ("line", "call"),
    [
        ("", ("inspector",)),
        ("why net.layer", ("explain", "the layer")),
        ("why  Net.forward ", ("explain", "Net.forward")),
        ("why", ("explain", None)),
        ("skip net.layer", ("skip", "the layer")),
        ("reset", ("reset", None)),
        ("reset net.layer", ("reset", "the layer")),
        ("reset net.nothing", ("reset", "net.nothing")),
    ],
)
def test_dynwrap(magics, called, line, call):
    magics.dynwrap(line)
    assert called == [call]


@pytest.mark.parametrize("line", ["what", "Why net"])
def test_dynwrap_says_what_it_knows(magics, called, line):
    with pytest.raises(CellError, match=rf"'{line.split()[0]}' is none of why \[NAME\], would CALL, reset \[NAME\], "):
        magics.dynwrap(line)
    assert called == []


@pytest.mark.parametrize(
    ("line", "form"), [("export", "export FILE.html|FILE.json"), ("would", "would CALL"), ("skip ", "skip NAME")]
)
def test_dynwrap_says_what_is_missing(magics, called, line, form):
    with pytest.raises(CellError) as caught:
        magics.dynwrap(line)
    assert str(caught.value) == f"%dynwrap {line.strip()}: something is missing: %dynwrap {form}"
    assert called == []


def test_the_help_of_dynwrap_names_each_command():
    for form in magics_module.COMMANDS.values():
        assert f"%dynwrap {form} " in DynWrapMagics.dynwrap.__doc__


@pytest.mark.parametrize(
    ("line", "args", "kwargs"),
    [
        ("double(2)", (2,), {}),
        ("double(*[1], **{'y': 2})", (1,), {"y": 2}),
        ("double(y=local + 1, x=ran)", (), {"y": 4, "x": []}),
    ],
)
def test_would_evaluates_what_is_called_and_passed_and_no_more(magics, called, line, args, kwargs):
    names = magics._shell.user_ns
    magics.dynwrap(f"would {line}", local_ns={"local": 3})
    assert called == [((names["double"], *args), kwargs)]
    magics.dynwrap("would ran.append(double(1))")
    assert called[1] == ((names["ran"].append, 2), {})
    assert names["ran"] == []
    assert "_dynwrap_asked" not in names


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("double", "this is no call, such as model(x): double"),
        ("double(1", "this is no call, such as model(x): double(1"),
        ("double(1); double(2)", "this is no call"),
        ("double(1) + 1", "this is no call"),
        ("double(\0)", "this is no call"),
        ("nothing(1)", "NameError: name 'nothing' is not defined"),
        ("double(1 / 0)", "ZeroDivisionError: division by zero"),
    ],
)
def test_would_of_what_cannot_be_evaluated_is_one_sentence(magics, called, line, said):
    with pytest.raises(CellError) as caught:
        magics.dynwrap(f"would {line}")
    assert str(caught.value).startswith(f"%dynwrap would: {said}")
    assert called == []


def test_would_of_a_call_that_does_not_fit_is_one_sentence(magics, monkeypatch):
    def does_not_fit(*_):
        raise TypeError("too many positional arguments")

    monkeypatch.setattr(ipy_dynwrap, "would_hit", does_not_fit)
    with pytest.raises(CellError, match=r"^%dynwrap would: too many positional arguments$"):
        magics.dynwrap("would double(1, 2, 3)")


def test_skip_says_how_it_is_undone(magics, called, capsys):
    magics.dynwrap("skip net.layer")
    assert capsys.readouterr().out == "net.layer runs eager from now on; %dynwrap reset net.layer undoes it\n"


def test_a_terminal_gets_text_in_the_place_of_a_widget(magics, monkeypatch, capsys):
    del magics._shell.kernel
    monkeypatch.setattr(picture, "taken", lambda: picture.Picture(CacheInfo((), 0, 0, 0, 0, 0.0)))
    assert magics.dynwrap("") is None
    assert capsys.readouterr().out.startswith("Nothing has been compiled yet.")


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
    monkeypatch.setattr(picture, "taken", lambda *, details: picture.Picture(info))


def test_export_as_json(magics, info, tmp_path, capsys):
    file = tmp_path / "a b.json"
    magics.dynwrap(f"export {file}")
    assert capsys.readouterr().out == f"wrote {file}\n"
    [wrapper] = json.loads(file.read_text())["cache"]["wrappers"]
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
