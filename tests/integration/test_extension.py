"""Loading and unloading: once, quickly, without torch, and without a trace afterwards."""

from __future__ import annotations

import subprocess
import sys

import pytest
from IPython.core.magic import Magics, line_magic, magics_class
from traitlets.config import Config

from ipy_dynwrap import extension, state

from .conftest import plain_shell, state_of_shell


def test_loading_twice_registers_once(ip):
    before, places = state_of_shell(ip), list(state.places)
    extension.load_ipython_extension(ip)
    loaded = state_of_shell(ip)
    assert len(state.places) == len(places) + 1
    extension.load_ipython_extension(ip)
    assert state_of_shell(ip) == loaded
    extension.unload_ipython_extension(ip)
    assert state_of_shell(ip) == before
    assert state.places == places
    extension.unload_ipython_extension(ip)
    assert state_of_shell(ip) == before


def test_reload_leaves_no_trace_of_the_first_load(ip):
    before, places = state_of_shell(ip), list(state.places)
    ip.run_line_magic("load_ext", "ipy_dynwrap")
    first = state_of_shell(ip)
    ip.run_line_magic("config", "DynWrap.backend = 'aot_eager'")
    ip.run_line_magic("reload_ext", "ipy_dynwrap")
    second = state_of_shell(ip)
    ours = {"input transforms", "AST transforms", "line magics", "configurables"}
    for name in ours:
        assert len(second[name]) == len(first[name])
        assert second[name] != first[name]
    assert len(state.places) == len(places) + 1
    # IPython keeps what `%config` sets in the shell's own configuration.
    assert ip.run_line_magic("config", "DynWrap.backend") == "aot_eager"
    ip.run_line_magic("unload_ext", "ipy_dynwrap")
    assert state_of_shell(ip) == before
    assert state.places == places


def test_a_snapshot_is_shown_as_a_table_while_loaded(shell):
    result = shell("import ipy_dynwrap\nipy_dynwrap.cache_info()").result
    format_ = shell.ip.display_formatter.format
    data, _ = format_(result)
    assert data["text/plain"] == "Nothing has been compiled yet. Put %%compile at the top of a cell, and run it."
    assert data["text/html"] == f"<p>{data['text/plain']}</p>"
    shell.ip.run_line_magic("unload_ext", "ipy_dynwrap")
    data, _ = format_(result)
    assert set(data) == {"text/plain"}
    assert data["text/plain"].startswith("CacheInfo(")
    shell.ip.run_line_magic("load_ext", "ipy_dynwrap")


def test_unloaded_magic_is_unknown(shell):
    shell.ip.run_line_magic("unload_ext", "ipy_dynwrap")
    result = shell("%%compile\nran = True")
    assert "not found" in str(result.error_in_exec)
    assert "ran" not in shell.ip.user_ns
    shell.ip.run_line_magic("load_ext", "ipy_dynwrap")


def test_unloading_inside_a_compiled_cell(shell):
    from ipy_dynwrap import regions

    assert shell("%%compile\n%unload_ext ipy_dynwrap\n5").result == 5
    assert not regions.any_open()
    shell.ip.run_line_magic("load_ext", "ipy_dynwrap")


def test_a_magic_of_the_same_name_comes_back(ip):
    @magics_class
    class Others(Magics):
        @line_magic
        def compile(self, line):
            return "another's"

    ip.register_magics(Others)
    ip.run_line_magic("load_ext", "ipy_dynwrap")
    ip.run_line_magic("unload_ext", "ipy_dynwrap")
    assert ip.run_line_magic("compile", "") == "another's"


def test_an_ast_transform_that_ipython_dropped_is_no_error(ip):
    ip.run_line_magic("load_ext", "ipy_dynwrap")
    ip.ast_transformers.clear()
    ip.run_line_magic("unload_ext", "ipy_dynwrap")


def test_a_load_that_fails_leaves_nothing(ip, monkeypatch):
    before, places = state_of_shell(ip), list(state.places)

    def fail(*args):
        raise OSError("no magics")

    monkeypatch.setattr(ip.magics_manager, "register", fail)
    with pytest.raises(OSError, match="no magics"):
        extension.load_ipython_extension(ip)
    assert state_of_shell(ip) == before
    assert state.places == places


def test_two_shells_have_an_extension_each():
    with plain_shell() as first:
        extension.load_ipython_extension(first)
        with plain_shell() as second:
            extension.load_ipython_extension(second)
            assert len(second.ast_transformers) == 2
            extension.unload_ipython_extension(first)
            assert len(second.ast_transformers) == 2
            extension.unload_ipython_extension(second)
            assert second.ast_transformers == []


def test_loading_imports_neither_torch_nor_a_front_end():
    code = """
import sys
from IPython.core.interactiveshell import InteractiveShell
ip = InteractiveShell.instance()
ip.run_line_magic("load_ext", "ipy_dynwrap")
assert "ipy_dynwrap.cell" in sys.modules
print(sorted({"torch", "numpy", "anywidget", "ipywidgets", "rich"} & set(sys.modules)))
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
    assert done.stderr == ""


# Defaults


def test_config_magic_shows_and_sets_defaults(shell, capsys):
    shell("%config DynWrap")
    for name in ("backend", "mode", "dynamic", "fullgraph", "include", "exclude", "stance", "quiet"):
        assert f"DynWrap.{name}=" in shell.text
    shell("%config DynWrap.backend = 'nope'")
    assert not shell("%%compile\n1").success
    assert "unknown backend 'nope'" in shell.text
    assert shell("%%compile --backend eager\n1").result == 1


def test_configuration_of_the_profile_is_used():
    config = Config()
    config.DynWrap.backend = "aot_eager"
    config.DynWrap.include = ["a", "b"]
    with plain_shell() as ip:
        ip.config.merge(config)
        extension.load_ipython_extension(ip)
        assert ip.run_line_magic("config", "DynWrap.backend") == "aot_eager"
        assert ip.run_line_magic("config", "DynWrap.include") == ["a", "b"]
        extension.unload_ipython_extension(ip)


def test_an_option_wins_over_a_default(shell):
    shell("import torch\ndef broken(x):\n    torch._dynamo.graph_break()\n    return x + x.shape[0]\nx = torch.ones(3)")
    shell("%config DynWrap.fullgraph = True")
    assert not shell("%%compile\nbroken(x);").success
    assert shell("%%compile --no-fullgraph\nbroken(x);").success

    shell(
        "seen = []\ndef see(graph, inputs):\n    seen.extend(type(each).__name__ for each in inputs)\n    return graph"
    )
    shell("def whole(x):\n    return x + x.shape[0]\n%config DynWrap.dynamic = True")
    shell("%%compile --backend see --no-dynamic\nwhole(x);")
    assert shell.ip.user_ns["seen"] == ["Tensor"]
    shell("%%compile --backend see\nwhole(x);")
    assert "SymInt" in shell.ip.user_ns["seen"]


def test_quiet_by_default_and_not_quiet_by_option(shell):
    shell("import torch\ndef double(x):\n    return x * 2\n%config DynWrap.quiet = True")
    shell("%%compile\ndouble(torch.ones(3));")
    assert shell.text == ""
    shell("%%compile --no-quiet\ndouble(torch.ones(3));")
    assert "1 call" in shell.text
