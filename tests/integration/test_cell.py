"""A cell under `%%compile` in a real `InteractiveShell`: it runs as any other cell does, in a region."""

from __future__ import annotations

import textwrap

import pytest
from IPython.core.completer import provisionalcompleter

from ipy_dynwrap import cache_info, regions, state, supported
from ipy_dynwrap.cell import LineTaker

pytestmark = pytest.mark.filterwarnings("ignore:To exit:UserWarning")

NET = """
import torch

class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = torch.nn.Linear(3, 3)

    def forward(self, x, error=None):
        y = self.linear(x)
        if error is not None:
            raise error
        return y

net = Net()
x = torch.ones(2, 3)
"""


def frames(text: str) -> list[str]:
    """The lines of a rendered traceback that name a place."""
    return [line for line in text.splitlines() if line.startswith(("Cell ", "File "))]


@pytest.fixture
def net(shell):
    assert shell(NET).success
    return shell


# What compiles


def test_calls_are_compiled_and_answer_as_eager(net):
    before = cache_info().compiles
    assert net("%%compile\ny = net(x)").success
    assert cache_info().compiles == before + 1
    assert net("assert torch.equal(y, net(x))").success
    assert "compiled 1 graph" not in net.text


def test_summary_stands_under_the_result(net):
    net("%%compile\nnet(x)[0, 0] * 0")
    out, summary = net.text.index("Out["), net.text.index("compiled 1 graph")
    assert out < summary


@pytest.mark.parametrize("cell", ["%%compile --quiet\nnet(x);", "%%compile --quiet\n1 + 1;"])
def test_nothing_is_shown_if_quiet(net, cell):
    assert net(cell).success
    assert net.text == ""


def test_a_cell_with_nothing_to_compile_says_so(net):
    assert net("%%compile\n1 + 1;").success
    assert net.text.startswith("nothing to compile: ")
    assert net.text.count("\n") == 1
    net("%%compile\n1 / 0")
    assert "nothing to compile" not in net.text


@pytest.mark.parametrize(
    ("body", "why"),
    [
        (
            "import threading\nthread = threading.Thread(target=net, args=(x,))\nthread.start(), thread.join();",
            "thread",
        ),
        ("from torch.utils import checkpoint\ncheckpoint.checkpoint(net, x, use_reentrant=False);", "checkpoint"),
        ("torch.compile(net, backend='eager')(x);", "compiled already"),
    ],
)
def test_what_is_left_as_it_is_is_not_denied(net, body, why):
    assert net(f"%%compile\n{body}").success
    assert "no module, and no function of the notebook with a tensor, was called but what stays as it is" in net.text
    assert why in net.text


def test_names_of_options_that_nothing_has_are_said(net):
    net("%%compile --exclude nett --exclude net\nnet(x);")
    assert "nothing was excluded as nett: no call of that name would be compiled on its own" in net.text
    net("%%compile --exclude Net\nnet.linear(x);")
    assert "nothing was excluded as Net" in net.text
    net("%%compile --include wsgiref.handlers\nnet(x);")
    assert "nothing was included from wsgiref.handlers: no module of that name is imported" in net.text
    net("%config DynWrap.exclude = ['nett']")
    net("%%compile\nnet(x);")
    assert "nothing was excluded" not in net.text


def test_other_options_are_the_reason_of_a_compilation(net):
    net("%%compile\nnet(x);")
    net("%%compile --backend aot_eager\nnet(x);")
    assert "options differ: aot_eager" in net.text


def test_a_lambda_is_called_so(net):
    net("double = lambda x: x * 2")
    net("%%compile\ndouble(x);")
    assert net("%dynwrap why double").success
    assert "compiled <lambda> in" in net.text
    assert "_lambda_" not in net.text


def test_backend_is_a_callable_of_the_notebook(net):
    net("seen = []\ndef mine(graph, inputs):\n    seen.append(graph)\n    return graph")
    assert net("%%compile --backend mine\nnet(x);").success
    assert len(net.ip.user_ns["seen"]) == 1


def test_a_registered_backend_is_not_shadowed_by_the_notebook(net):
    net("def eager(graph, inputs):\n    raise RuntimeError('mine')")
    assert net("%%compile --backend eager --fullgraph\nnet(x);").success


def test_included_and_excluded_names(net, tmp_path, monkeypatch):
    (tmp_path / "lib_of_user.py").write_text("def double(x):\n    return x * 2\n")
    monkeypatch.syspath_prepend(tmp_path)
    net("import lib_of_user\ndef triple(x):\n    return x * 3")
    net("%%compile\nlib_of_user.double(x);")
    assert "nothing to compile" in net.text
    net("%%compile --include lib_of_user\nlib_of_user.double(x);")
    assert "compiled 1 graph" in net.text
    net("%%compile --exclude triple\ntriple(x);")
    assert "nothing to compile" in net.text


# Errors


def test_traceback_ends_at_the_users_line(net):
    result = net("%%compile\ny = net(x)\n\nfor i in range(2):\n    1 / i\n")
    assert isinstance(result.error_in_exec, ZeroDivisionError)
    assert net.text.count("Traceback") == 1
    assert frames(net.text) == [f"Cell In[{result.execution_count}], line 5"]
    assert "----> 5     1 / i" in net.text


@pytest.mark.parametrize(
    ("line", "shown"),
    [
        ("%%compile", "1 # %%compile"),
        ("%%compile --backend eager", "1 # %%compile --backend eager"),
        ("%%compile\nfrom __future__ import annotations", "1 # %%compile"),
    ],
)
def test_a_traceback_quotes_what_the_user_wrote(shell, line, shown):
    assert isinstance(shell(f"{line}\n(1 /\n 0)").error_in_exec, ZeroDivisionError)
    assert shown in [each.strip() for each in shell.text.splitlines()]
    assert "run_cell_magic" not in shell.text
    assert "u'%%compile" not in shell.text


@pytest.mark.parametrize("above", ["", "# a comment\n\n", "\n\n", "\n# a comment\n#another\n"])
def test_lines_above_are_counted_as_ipython_counts(shell, above):
    native = shell(above + "pass\n\n1 / 0")
    expected = frames(shell.text)[0].partition(", ")[2]
    result = shell(above + "%%compile\n\n1 / 0")
    assert native.error_in_exec is not None
    assert isinstance(result.error_in_exec, ZeroDivisionError)
    assert frames(shell.text) == [f"Cell In[{result.execution_count}], {expected}"]


def test_error_in_a_compiled_module_has_no_frames_of_ours_or_of_the_compiler(net):
    net("%%compile\nnet(x, ValueError('of the user'))")
    compiled = frames(net.text)
    net("0\nnet(x, ValueError('of the user'))")
    eager = frames(net.text)
    assert [line.partition(", ")[2] for line in compiled] == [line.partition(", ")[2] for line in eager]
    assert compiled[-1].endswith("in Net.forward(self, x, error)")
    assert net.text.count("Traceback") == 1


def test_error_in_a_compiled_function_ends_in_that_function(net):
    net("def loss(y, by):\n    z = y.sum()\n    return z / by")
    where = net.ip.execution_count - 1
    result = net("%%compile\nloss(x, 'no number')")
    assert isinstance(result.error_in_exec, TypeError)
    assert frames(net.text) == [f"Cell In[{where + 1}], line 2", f"Cell In[{where}], line 3, in loss(y, by)"]


def test_syntax_error_points_to_its_line(shell):
    result = shell("%%compile\nx = 1\ny = = 2")
    assert isinstance(result.error_before_exec, SyntaxError)
    assert result.error_before_exec.lineno == 3
    assert "line 3" in shell.text
    assert "x" not in shell.ip.user_ns


def test_syntax_error_of_the_compiler_points_to_its_line(shell):
    result = shell("%%compile\nx = 1\nreturn x")
    assert isinstance(result.error_before_exec, SyntaxError)
    assert result.error_before_exec.lineno == 3


def test_system_exit_is_ipythons(shell):
    shell("import sys\nsys.exit(3)")
    native = shell.text
    result = shell("%%compile\nimport sys\nsys.exit(3)")
    assert isinstance(result.error_in_exec, SystemExit)
    assert shell.text == native


def test_interrupt_during_a_call(net):
    result = net("%%compile\n0\nnet(x, KeyboardInterrupt())")
    assert isinstance(result.error_in_exec, KeyboardInterrupt)
    assert frames(net.text)[0] == f"Cell In[{result.execution_count}], line 3"
    assert frames(net.text)[-1].endswith("in Net.forward(self, x, error)")


def test_interrupt_while_the_region_is_left(net, monkeypatch):
    close = regions.Region.close
    interrupts = [KeyboardInterrupt()]

    def interrupted(region):
        if interrupts:
            raise interrupts.pop()
        close(region)

    monkeypatch.setattr(regions.Region, "close", interrupted)
    result = net("%%compile\nnet(x)")
    assert isinstance(result.error_in_exec, KeyboardInterrupt)
    assert not regions.any_open()


def test_error_while_the_region_is_left_is_shown(net, monkeypatch):
    close = regions.Region.close

    def failing(region):
        close(region)
        raise OSError("while leaving")

    monkeypatch.setattr(regions.Region, "close", failing)
    result = net("%%compile\nnet(x)")
    assert isinstance(result.error_in_exec, OSError)
    monkeypatch.undo()
    assert net("%%compile\nnet(x) * 0 + 5").result[0, 0] == 5


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("--bakend eager", ["unrecognized arguments: --bakend eager", "did you mean --backend?"]),
        ("--full-graph", ["unrecognized arguments: --full-graph", "did you mean --fullgraph?"]),
        ("--zzz", ["unrecognized arguments: --zzz", "%%compile? shows the options"]),
        ("--include no_such_module", ["--include: there is no module 'no_such_module'"]),
        ("--include no_such_package.module", ["no module 'no_such_package.module'"]),
        ("--include ./lib.py", ["no module './lib.py'"]),
        ("--backend", ["--backend", "expected one argument"]),
        ("eager", ["unrecognized arguments: eager"]),
        ("--backend nope", ["unknown backend 'nope'", "inductor"]),
        ("--backend x", ["unknown backend 'x'", "inductor"]),
        ("--backend inductor --mode nope", ["unknown mode 'nope'", "reduce-overhead"]),
        ("--stance nope", ["unknown stance 'nope'", "force_eager"]),
        ("--backend 'eager", ["quotation"]),
        ("--back eager", ["unrecognized arguments: --back eager"]),
    ],
)
@pytest.mark.parametrize("body", ["ran = True", "from __future__ import annotations\nran = True"])
def test_wrong_options_are_one_sentence_and_nothing_ran(shell, line, words, body):
    shell("x = 3")
    result = shell(f"%%compile {line}\n{body}")
    assert not result.success
    assert "ran" not in shell.ip.user_ns
    assert shell.text.startswith("UsageError: %%compile: ")
    assert shell.text.count("\n") == 1
    for each in words:
        assert each in shell.text


@pytest.mark.parametrize("cell", ["%%compile", "%%compile\n", "%%compile --backend eager\n\n# only a comment\n"])
def test_an_empty_cell_is_an_error(shell, cell):
    assert not shell(cell).success
    assert shell.text == "UsageError: %%compile: the cell is empty\n"


@pytest.mark.parametrize(
    ("setting", "words"),
    [
        ("mode = 'nope'", "unknown mode 'nope'; known: "),
        ("backend = 'nope'", "unknown backend 'nope'; known: "),
        ("stance = 'nope'", "unknown stance 'nope'"),
        ("include = ['no_such_module']", "there is no module 'no_such_module'"),
    ],
)
def test_a_wrong_setting_is_named(shell, setting, words):
    shell(f"%config DynWrap.backend = 'inductor'\n%config DynWrap.{setting}")
    assert not shell("%%compile\nran = True").success
    assert words in shell.text
    name, _, value = setting.partition(" = ")
    assert shell.text.endswith(f" (%config DynWrap.{name})\n")
    # Given on the line, it is not the setting's.
    given = value.strip("[]'")
    assert not shell(f"%%compile --{name} {given}\nran = True").success
    assert "%config" not in shell.text


@pytest.mark.parametrize("cell", ["x = 1\n%%compile\nran = True", "x = 1\n%%compile --backend eager\nran = True"])
def test_in_the_middle_of_a_cell_says_where_it_goes(shell, cell):
    assert not shell(cell).success
    assert "ran" not in shell.ip.user_ns
    assert shell.text == (
        "UsageError: %%compile goes on the first line of a cell; %compile STATEMENT compiles one statement\n"
    )


def test_inside_a_region_is_an_error(shell):
    assert shell("%%compile\ninner = get_ipython().run_cell('%%compile\\nran = True')").success
    assert not shell.ip.user_ns["inner"].success
    assert "ran" not in shell.ip.user_ns
    assert shell.text.startswith("UsageError: %%compile inside a region")
    assert not shell("%%compile\n%%compile\nran = True").success
    assert "ran" not in shell.ip.user_ns


def test_region_that_cannot_be_entered_is_one_sentence(shell, monkeypatch):
    monkeypatch.setattr(regions._native, "unavailable_reason", lambda: "CPython 2.7 is unknown to the hook")
    assert not shell("%%compile\nran = True").success
    assert "ran" not in shell.ip.user_ns
    assert shell.text.startswith("UsageError: %%compile: no compile region here: CPython 2.7 is unknown to the hook")
    assert shell.text.count("\n") == 1


@pytest.mark.parametrize("problem", ["ipy_dynwrap needs torch>=2.13, which is not installed", "this is torch 1.0"])
def test_torch_that_does_not_fit_is_one_sentence(shell, monkeypatch, problem):
    def require():
        raise supported.UnsupportedTorchError(problem)

    monkeypatch.setattr(supported, "require", require)
    assert not shell("%%compile\nran = True").success
    assert "ran" not in shell.ip.user_ns
    assert shell.text == f"UsageError: %%compile: {problem}\n"


# What is displayed

CELLS = [
    "1\n2",
    "1\nfor i in range(2): i\n2",
    "1\nfor i in range(2): i",
    "1\nif True:\n    2\n    def f():\n        3\n    class C:\n        4\n    5",
    "1\nz = 5",
    "1\nz = 5\nz += 1",
    "1\nz: int = 5",
    "z = [1, 2]\nz[0] = 5",
    "5;",
    "5; # a comment",
    "5\n# a comment",
    "'text'",
    "'text'\n'more'",
    "None",
    "print(1)",
    "(1,\n 2)",
    "'doc'\nfrom __future__ import annotations\n7",
    "from __future__ import annotations",
    "import math, os\ndef f(x: int):\n    return x\nf(8)",
    "(y := 3)",
    "[i for i in range(3)]",
    "import asyncio\nawait asyncio.sleep(0, 9)",
    "from __future__ import annotations\nimport asyncio\nawait asyncio.sleep(0, 9)",
    "import asyncio\nasync with asyncio.Lock() as lock:\n    10\n[i async for i in __import__('none')] if 0 else 11",
    "%time 12",
    "!echo 13",
    "z = !echo 14\nz",
    "%precision 3",
    "?",
    "*1,",
    "*1",
    "global q\nq = 3\nq",
]


@pytest.mark.parametrize("mode", ["all", "last", "last_expr", "none", "last_expr_or_assign"])
def test_what_is_displayed_is_what_ipython_displays(shell, mode, monkeypatch):
    # Times differ from run to run, and the pager would wait.
    monkeypatch.setattr("IPython.core.magics.execution._format_time", lambda *args, **kwargs: "(time)")
    monkeypatch.setattr("IPython.core.page.page", print)
    shell.ip.ast_node_interactivity = mode
    before = set(shell.ip.user_ns)

    def seen(text):
        for name in set(shell.ip.user_ns) - before:
            del shell.ip.user_ns[name]
        result = shell(text)
        error = type(result.error_before_exec or result.error_in_exec)
        if error is not type(None):
            return error
        count = result.execution_count
        return (
            shell.text.replace(f"[{count}]", "[n]"),
            repr(result.result),
            repr(shell.ip.user_ns["_oh"].get(count, "nothing")),
            frozenset(name for name in set(shell.ip.user_ns) - before if not name.startswith("_")),
        )

    # A comment stands in the first line of the native cell, so that the lines are the same.
    different = {
        cell: found for cell in CELLS if len(found := {seen("#\n" + cell), seen("%%compile --quiet\n" + cell)}) > 1
    }
    assert not different


def test_last_result_is_in_the_underscore(shell):
    shell("%%compile\n5")
    shell("%%compile\n6;")
    assert shell("_, Out[1]").result == (5, 5)


def test_silent_cells_display_nothing(shell):
    assert shell("%%compile\n5", silent=True).success
    assert shell.text == ""


def test_no_name_is_left(shell):
    before = shell.names
    shell("%%compile\n1 + 1")
    assert shell.names == before


def test_a_value_that_is_displayed_is_not_kept(net):
    net("import weakref\nclass Thing:\n    pass\nthing = Thing()\nthere = weakref.ref(thing)")
    net("%%compile\nthing;")
    net("del thing")
    assert net.ip.user_ns["there"]() is None


# Other magics


def test_time_above(net):
    result = net("%%time\n%%compile\ny = net(x)\ny[0, 0] * 0 + 5")
    assert result.result == 5
    assert "Wall time" in net.text
    assert "compiled 1 graph" in net.text
    assert net("%%time\n%%compile\n5;").result is None


def test_time_below(net):
    result = net("%%compile\n\n%%time\ny = net(x)\ny[0, 0] * 0 + 5")
    assert result.result == 5
    assert "Wall time" in net.text
    assert "compiled 1 graph" in net.text


def test_capture_above_takes_the_summary_too(net):
    assert net("%%capture out\n%%compile\nnet(x)\nprint('hello')").success
    assert net.text == ""
    assert "hello" in net.ip.user_ns["out"].stdout
    [display] = net.ip.user_ns["out"].outputs
    assert "compiled 1 graph" in display.data["text/plain"]


def test_capture_below(net):
    assert net("%%compile\n%%capture out\nnet(x)\nprint('hello')").success
    assert "hello" in net.ip.user_ns["out"].stdout
    assert "compiled 1 graph" in net.text
    assert "hello" not in net.text


def test_timeit_above_and_below(net):
    assert net("%%timeit -n 2 -r 1\n%%compile\nnet(x)").success
    assert net.text.count("compiled 1 graph") == 1
    assert net("%%compile\n%%timeit -n 2 -r 1\nnet(x)").success
    assert "per loop" in net.text


def test_a_magic_that_runs_its_text_itself_says_that_nothing_was_compiled(shell):
    assert not shell("%%prun\n%%compile\nran = True").success
    assert "ran" not in shell.ip.user_ns
    assert shell.text == "UsageError: %%compile: nothing was compiled; put %%compile above the other cell magic\n"


def test_lines_inside(net):
    result = net("%%compile\n%time y = net(x)\nz = !echo hello\nassert z == ['hello']\n%who_ls Net")
    assert result.success
    assert "compiled 1 graph" in net.text


def test_help(shell, monkeypatch):
    pages = []
    monkeypatch.setattr("IPython.core.page.page", lambda data, *args, **kwargs: pages.append(data["text/plain"]))
    assert shell("%%compile?").success
    assert "--fullgraph" in pages[0]
    assert "%%compile [options]" in pages[0]


@pytest.mark.parametrize("cell", ["%%compile --help\nran = True", "%%compile -h\nran = True", "%compile --help"])
def test_help_is_shown_in_the_place_of_a_run(shell, cell):
    shell(cell)
    assert shell.text.startswith("Run a cell, or one statement, with what it calls compiled by torch.compile.")
    assert "--fullgraph" in shell.text
    assert "UsageError" not in shell.text
    assert "ran" not in shell.ip.user_ns


def test_completion(shell):
    with provisionalcompleter():
        assert "%%compile" in {found.text for found in shell.ip.Completer.completions("%%comp", 6)}


def test_a_cell_in_a_terminal_ends_with_a_blank_line(shell):
    check = shell.ip.check_complete
    assert check("%%compile\nx = 1")[0] == "incomplete"
    assert check("%%compile\nx = 1\n\n")[0] == "complete"


@pytest.mark.parametrize("line", ["%%compiled", "%%compile_all", " x = '%%compile'", "x = 1\n%%compile"])
def test_other_cells_are_left_alone(shell, line):
    lines = (line + "\nx = 1\n").splitlines(keepends=True)
    assert LineTaker()(lines) == lines


def test_macro_runs_in_a_region_again(net):
    net("%%compile\nnet(x);")
    net(f"%macro again {net.ip.execution_count - 1}")
    before = cache_info().calls
    assert net("again").success
    assert cache_info().calls == before + 1


# %compile


def test_statement(net):
    assert net("%compile net(x)[0, 0] * 0 + 5").result == 5
    assert "1 graph" in net.text
    assert net("%compile --quiet --fullgraph y = net(x)").success
    assert net.text == ""
    assert "y" in net.ip.user_ns


def test_statements_in_a_loop_have_one_summary(net):
    assert net("for i in range(3):\n    %compile net(x);").success
    assert net.text.count("3 calls") == 1


def test_statement_in_a_function_sees_its_locals(net):
    result = net("def f(z):\n    return get_ipython().run_line_magic('compile', 'net(z)[0, 0] * 0 + len(z)')\nf(x)")
    assert result.result == 2


def test_traceback_of_a_statement_ends_at_its_line(shell):
    result = shell("y = 1\n%compile 1 / 0\n")
    last = frames(shell.text)[-1]
    assert last == f"Cell In[{result.execution_count}], line 2"


def test_statement_has_place(net):
    net("y = 1\n\n%compile net(x);")
    place = state.log.since()[-1].place
    assert (place.cell, place.line) == (net.ip.execution_count - 1, 3)


def test_statement_errors_are_one_sentence(shell):
    assert not shell("%compile").success
    assert shell.text.startswith("UsageError: %compile: there is no statement")
    assert not shell("%compile --backend nope 1").success
    assert shell.text.startswith("UsageError: %%compile: unknown backend 'nope'")


@pytest.mark.parametrize("statement", ["y =", "return 1", "for"])
def test_a_statement_that_is_none_is_one_sentence(shell, statement):
    assert not shell(f"%compile {statement}").success
    assert shell.text.startswith("UsageError: %compile: ")
    assert shell.text.endswith(f" in {statement!r}\n")
    assert shell.text.count("\n") == 1


def test_a_syntax_error_of_the_statements_own_is_its_own(shell):
    result = shell("%compile exec('y =')")
    assert isinstance(result.error_in_exec, SyntaxError)
    assert "Traceback" in shell.text


def test_run_cell_magic_runs_its_text_in_a_region(net):
    cell = "y = net(x)\ny[0, 0] * 0 + 5"
    assert net(f"get_ipython().run_cell_magic('compile', '--backend eager', {cell!r})").result == 5
    assert "compiled 1 graph" in net.text
    result = net("get_ipython().run_cell_magic('compile', '', 'y = 1\\n1 / 0')")
    assert isinstance(result.error_in_exec, ZeroDivisionError)
    assert frames(net.text)[-1].endswith("line 2")


# Places


def test_records_name_cell_and_line(net):
    cell = textwrap.dedent("""\
        %%compile

        def twice(x):
            return x * 2

        twice(x);""")
    count = net(cell).execution_count
    place = state.log.since()[-1].place
    assert (place.cell, place.line) == (count, 6)


def test_files_that_are_run_or_imported_are_no_cells(net, tmp_path):
    script = tmp_path / "script.py"
    script.write_text(
        "\ndef outer(f, x):\n    return f(x)\n\nwith ipy_dynwrap.region(backend='eager'):\n    net(x + 1)\n"
    )
    net(f"import ipy_dynwrap\n%run -i {script}")
    place = state.log.since()[-1].place
    # The innermost cell counts: it is the one that ran the file.
    assert place.cell is not None


def test_an_indented_cell_runs_as_without_us(shell):
    assert shell("%%compile --quiet\n    a = 1\n    b = a + 1").success
    assert shell.ip.user_ns["b"] == 2


def test_why_takes_a_class(net):
    net("%%compile --quiet\nnet(x);")
    assert net("%dynwrap why Net").success
    assert "compiled" in net.text


def test_a_call_is_looked_at_without_being_run(net):
    net("%dynwrap would net(x)")
    assert net.text.endswith("Net.forward would compile: nothing is compiled yet\n")
    net("%%compile --quiet\nnet(x);")
    before = cache_info().calls
    net("%dynwrap would net(x)")
    assert "Net.forward would run entry " in net.text
    net("%dynwrap would net(x.double())")
    assert "Net.forward would compile: x.dtype float32 -> float64" in net.text
    assert cache_info().calls == before


def test_what_is_skipped_runs_eager_until_it_is_reset(net):
    net("%dynwrap skip net")
    assert "undoes it" in net.text
    net("%%compile\nnet(x);")
    assert "1 graph" not in net.text
    net("%dynwrap why net")
    assert "  skipped by the user" in net.text
    net("%dynwrap reset net")
    net("%%compile\nnet(x);")
    assert "compiled 1 graph" in net.text
