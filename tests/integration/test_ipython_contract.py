"""What `ipy_dynwrap.cell` and its neighbours rely on in IPython: one test, and one sentence, for each."""

from __future__ import annotations

import ast
import inspect
import sys
from types import CodeType

import pytest
from IPython.core.displayhook import DisplayHook
from IPython.core.error import InputRejected, UsageError
from IPython.core.inputtransformer2 import TransformerManager, cell_magic
from IPython.core.magic_arguments import MagicArgumentParser


def test_cleanup_transforms_run_before_cell_magics(ip):
    seen = []
    ip.input_transformers_cleanup.append(lambda lines: seen.append(lines) or lines)
    ip.transform_cell("%%time\n1")
    assert seen == [["%%time\n", "1\n"]], "input_transformers_cleanup no longer sees a cell before its %% line is gone"


def test_check_complete_leaves_out_transforms_with_side_effects(ip):
    class Transform:
        has_side_effects = True

        def __call__(self, lines):
            raise AssertionError("check_complete runs transforms that have side effects")

    ip.input_transformers_cleanup.append(Transform())
    assert ip.check_complete("%%time\n1")[0] == "incomplete"


def test_blank_lines_above_are_taken_off_first():
    text = TransformerManager().transform_cell("\n\n%%time\n1")
    assert text == "get_ipython().run_cell_magic('time', '', '1\\n')\n", "blank lines above %% are no longer taken off"


def test_cell_magic_translates_the_lines_of_another_magic():
    assert cell_magic(["%%time -x\n", "1\n"]) == ["get_ipython().run_cell_magic('time', '-x', '1\\n')\n"], (
        "inputtransformer2.cell_magic no longer translates a list of lines"
    )


def test_an_ast_transform_sees_the_module_before_it_runs(ip):
    class Transform(ast.NodeTransformer):
        def visit(self, node):
            assert isinstance(node, ast.Module), "transform_ast no longer passes a whole module"
            node.body = ast.parse("changed = True").body
            return node

    ip.ast_transformers.append(Transform())
    ip.run_cell("changed = False")
    assert ip.user_ns["changed"] is True, "a cell no longer runs what the AST transforms return"


def test_input_rejected_stops_a_cell_and_keeps_the_transform(ip, capsys):
    class RejectedError(UsageError, InputRejected):
        def _render_traceback_(self):
            return [f"words: {self}"]

    class Transform(ast.NodeTransformer):
        def visit(self, node):
            raise RejectedError("no")

    ip.ast_transformers.append(transform := Transform())
    result = ip.run_cell("ran = True")
    assert "ran" not in ip.user_ns, "InputRejected no longer stops a cell"
    assert isinstance(result.error_before_exec, RejectedError), "InputRejected is no longer the cell's error"
    assert ip.ast_transformers == [transform], "a transform that raises InputRejected is dropped"
    assert capsys.readouterr().out == "words: no\n", "_render_traceback_ no longer makes the words of an error"


def test_statements_of_the_cells_own_level_are_displayed_by_mode(ip, capsys):
    ip.ast_node_interactivity = "all"
    ip.run_cell("with __import__('contextlib').suppress():\n    5")
    assert "5" in capsys.readouterr().out, "mode 'all' no longer displays expressions in a block"
    ip.ast_node_interactivity = "last_expr"
    ip.run_cell("with __import__('contextlib').suppress():\n    5")
    assert capsys.readouterr().out == "", "mode 'last_expr' displays expressions in a block"


def test_semicolon_is_looked_for_in_the_text(ip):
    assert DisplayHook.semicolon_at_end_of_expression("# %%compile\n5;"), "the display hook reads another text"
    assert "input_hist_parsed" in inspect.getsource(DisplayHook.quiet), "the display hook no longer reads the history"


def test_whether_a_cell_awaits_is_asked_of_the_transformed_text(ip):
    text = "u'docstring'\nfrom __future__ import annotations\nawait x"
    assert ip.should_run_async(text, transformed_cell=text), "a docstring and a future import hide an await"
    text = "f()\nfrom __future__ import annotations\nawait x"
    assert not ip.should_run_async(text, transformed_cell=text), (
        "should_run_async reads invalid Python: cell._marker needs no second form any more"
    )


def test_post_execute_comes_after_the_display_and_after_an_error(ip, capsys):
    ip.events.register("post_execute", post := lambda: sys.stdout.write("post\n"))
    ip.run_cell("5")
    assert capsys.readouterr().out.endswith("5\npost\n"), "post_execute no longer comes after the display"
    ip.run_cell("1 / 0")
    assert capsys.readouterr().out.endswith("post\n"), "post_execute no longer comes after an error"
    ip.events.unregister("post_execute", post)
    ip.run_cell("5")
    assert "post" not in capsys.readouterr().out, "events.unregister no longer unregisters"


def test_the_compiler_knows_the_file_names_of_cells(ip):
    ip.run_cell("def f(): pass", store_history=True)
    label = ip.compile.format_code_name(ip.user_ns["f"].__code__.co_filename)
    assert label == ("Cell", "In[1]"), "compile.format_code_name no longer gives a cell's number"
    assert ip.compile.format_code_name(__file__) is None, "compile.format_code_name knows files that are no cells"


def test_the_compiler_caches_a_text_as_a_cell(ip):
    name = ip.compile.cache("1 / 0", 7)
    assert ip.compile.format_code_name(name) == ("Cell", "In[7]"), "compile.cache no longer names a text as a cell"
    assert isinstance(ip.compile.ast_parse("1", name), ast.Module), "compile.ast_parse no longer gives a module"
    code = ip.compile(ast.parse("1 + 1", mode="eval"), name, "eval")
    assert isinstance(code, CodeType), "compile no longer takes a tree"


def test_frames_with_tracebackhide_are_left_out(ip, capsys):
    ip.run_cell("def g():\n    1 / 0\ndef f():\n    __tracebackhide__ = True\n    g()\nf()")
    text = capsys.readouterr().out
    assert "in g()" in text
    assert "in f()" not in text, "__tracebackhide__ no longer hides a frame"


def test_run_cell_magic_passes_a_body_of_a_blank_line(ip):
    ip.register_magic_function(lambda line, cell: (line, cell), "cell", "there")
    result = ip.run_cell("get_ipython().run_cell_magic('there', '{x} $y', '\\n')")
    assert result.result[1] == "\n", "run_cell_magic no longer passes a body of a blank line"


def test_tables_of_magics_are_dictionaries(ip):
    assert {"line", "cell"} == set(ip.magics_manager.magics), "magics_manager.magics has other kinds"
    assert all(isinstance(table, dict) for table in ip.magics_manager.magics.values())
    assert isinstance(ip.magics_manager.registry, dict), "magics_manager.registry is no dictionary"
    assert isinstance(ip.configurables, list), "configurables is no list"


def test_parser_of_magics_raises_instead_of_leaving():
    with pytest.raises(UsageError):
        MagicArgumentParser().parse_argstring("--nope")
    with pytest.raises(ValueError, match=r"(?i)quotation"):
        MagicArgumentParser().parse_argstring("'open")
