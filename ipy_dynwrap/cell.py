"""How IPython runs a cell, and how a cell under `%%compile` is run in a region.

An input transform takes the ``%%compile`` line off and leaves a call of the magic in its place (the marker): every
line keeps its number. An AST transform then takes the marker away and puts the statements into a ``with`` block that
enters the region first and leaves it whatever happens. IPython runs the result natively, and so the traceback, the
history, ``await`` and the display of the last expression stay its own. Where a text goes past the AST transform
(``%%prun`` runs its text itself), the marker is run and says that nothing was compiled.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from IPython.core.inputtransformer2 import cell_magic, leading_indent

from . import arguments, blocks, state
from .events import Place

if TYPE_CHECKING:
    from types import CodeType

    from IPython.core.interactiveshell import InteractiveShell

__all__ = ["CellWrapper", "LineTaker", "place_in", "run"]

# `%%compile?` asks for help, and IPython answers it.
_FIRST_LINE = re.compile(r"%%compile(?:[ \t]+(?P<options>.*))?[ \t]*\r?\n?$")
_FUTURE = re.compile(r"(?:[ \t]*(?:#.*)?\n)*from[ \t]+__future__[ \t]")


class LineTaker:
    """The input transform: puts the marker in the place of a ``%%compile`` line, below comments and blank lines."""

    # IPython leaves such transforms out when it asks whether a cell is complete: in a terminal, a cell that begins with
    # `%%` ends with a blank line, not with the first statement.
    has_side_effects = True

    def __call__(self, lines: list[str]) -> list[str]:
        """Return as many lines as there are in `lines`, unless another cell magic follows."""
        for at, line in enumerate(lines):
            if found := _FIRST_LINE.match(line):
                options, rest = (found["options"] or "").strip(), leading_indent(lines[at + 1 :])  # type: ignore[no-untyped-call]
                return [*lines[:at], _marker(options, "".join(rest)), *_inner_magic(rest)]
            if line.strip() and not line.startswith("#"):
                break
        return lines


def _marker(options: str, rest: str) -> str:
    # IPython asks the text, before the AST transform, whether it awaits anything, and only a docstring may stand before
    # a future import in it.
    if _FUTURE.match(rest):
        return f"u{'%%compile ' + options!r}\n"
    return f"get_ipython().run_cell_magic('compile', {options!r}, '\\n')\n"


def _inner_magic(rest: list[str]) -> list[str]:
    """Translate another cell magic directly below ``%%compile``."""
    blank = next((at for at, line in enumerate(rest) if line.strip()), 0)
    return [*rest[:blank], *cell_magic(rest[blank:])]  # type: ignore[no-untyped-call]


def _options_of(statement: ast.stmt) -> str | None:
    """Return the options in a marker, None for any other statement."""
    match statement:
        case ast.Expr(ast.Constant(str(text), kind="u")) if text.startswith("%%compile "):
            return text.partition(" ")[2]
        case ast.Expr(
            ast.Call(
                ast.Attribute(ast.Call(ast.Name("get_ipython"), [], []), "run_cell_magic"),
                [ast.Constant("compile"), ast.Constant(str(options)), ast.Constant("\n")],
                [],
            )
        ):
            return options
    return None


class CellWrapper(ast.NodeTransformer):
    """The AST transform: puts the statements of a marked cell into a region.

    Parameters
    ----------
    shell
        Whose namespace, defaults and display mode count.
    """

    def __init__(self, shell: InteractiveShell) -> None:
        self._shell = shell

    def visit(self, node: ast.AST) -> Any:
        """Return `node` with the region around its statements, or as it was.

        Raises
        ------
        CellError
            If the options cannot be obeyed; IPython then runs nothing of the cell.
        """
        if not isinstance(node, ast.Module) or not node.body or (options := _options_of(node.body[0])) is None:
            return node
        marker, *body = node.body
        if not body:
            raise arguments.CellError("%%compile: the cell is empty")
        arguments.request(options, self._shell)
        node.body = _wrapped(options, body, marker, self._shell.ast_node_interactivity)
        return node


def run(shell: InteractiveShell, options: str, text: str, names: Mapping[str, Any], *, in_place: bool) -> Any:
    """Run `text` in a region, for a magic that has it as a string, and return the value of its last expression.

    Parameters
    ----------
    shell
        Whose namespace and compiler are used.
    options
        As on a ``%%compile`` line.
    text
        Python, with magics; it may not await anything.
    names
        The local namespace.
    in_place
        Whether `text` is a part of the line that is running now: tracebacks then name that line.
    """
    __tracebackhide__ = True  # IPython leaves this frame out of a traceback
    arguments.request(options, shell)
    source = shell.transform_cell(text)  # type: ignore[no-untyped-call]
    here = state.place_of_caller()
    cell = None if here is None else here.cell
    file = "<%compile>" if in_place else shell.compile.cache(source, cell or 0)
    tree = shell.transform_ast(shell.compile.ast_parse(source, file))  # type: ignore[no-untyped-call]
    if in_place and here is not None and cell is not None:
        file = here.file
        _move(tree, ast.Pass(lineno=here.line, end_lineno=here.line, col_offset=0, end_col_offset=0))
    body = _wrapped(options, tree.body, tree.body[0], "last_expr")
    last = ast.Expression(body.pop().value) if isinstance(body[-1], ast.Expr) else None  # type: ignore[attr-defined]
    # The shell's compiler knows the future imports of earlier cells.
    to_code: Callable[..., CodeType] = shell.compile
    exec(to_code(ast.Module(body, []), file, "exec"), shell.user_ns, names)  # noqa: S102 - the user's own code
    return None if last is None else eval(to_code(last, file, "eval"), shell.user_ns, names)  # noqa: S307 - the same


def _wrapped(options: str, body: list[ast.stmt], at: ast.stmt, interactivity: str) -> list[ast.stmt]:
    # What only a module's own level may hold stays there; it runs nothing.
    outside: list[ast.stmt] = []
    while len(body) > 1 and (_is_future(body[0]) or (not outside and _is_text(body[0]))):
        outside.append(body.pop(0))
    if _is_future(body[0]):
        return [*outside, *body]
    if interactivity == "last_expr_or_assign" and (name := _assigned(body[-1])) is not None:
        body.append(ast.copy_location(ast.Expr(ast.Name(name, ast.Load())), body[-1]))
    shown: list[ast.stmt] = []
    if isinstance(last := body[-1], ast.Expr) and not isinstance(last.value, ast.Starred):
        # IPython displays an expression at the end of the cell's own level, so the value is handed on to there.
        handed_on = _statement("{}.keep()", last)
        handed_on.value.args.append(last.value)  # type: ignore[attr-defined]
        body[-1] = handed_on
        shown.append(_statement("{}.take()", last))
    elif interactivity == "last":
        # Now the block is the last statement, and IPython would display every expression in it, not only in its last.
        mute = _Mute()
        body[:-1] = [mute.visit(each) for each in body[:-1]]
    block = _statement(f"with {{}}.compiled({options!r}): pass", at)
    block.body = body  # type: ignore[attr-defined]
    return [*outside, block, *shown]


def _statement(source: str, at: ast.stmt) -> ast.stmt:
    """Parse a statement that reaches `blocks` without a name in the user's namespace, and place it at `at`."""
    statement = ast.parse(source.format(f"__import__({blocks.__name__!r}, fromlist=['_'])")).body[0]
    _move(statement, at)
    return statement


def _move(tree: ast.AST, at: ast.stmt) -> None:
    for node in ast.walk(tree):
        ast.copy_location(node, at)


def _is_future(statement: ast.stmt) -> bool:
    return isinstance(statement, ast.ImportFrom) and statement.module == "__future__"


def _is_text(statement: ast.stmt) -> bool:
    return isinstance(statement, ast.Expr) and isinstance(getattr(statement.value, "value", None), str)


def _assigned(statement: ast.stmt) -> str | None:
    """Return the name that `statement` assigns, where IPython's mode last_expr_or_assign would display it."""
    match statement:
        case ast.Assign([ast.Name(name)]) | ast.AugAssign(ast.Name(name)) | ast.AnnAssign(ast.Name(name)):
            return name
    return None


class _Mute(ast.NodeTransformer):
    """Makes the value of every expression statement None, in nested blocks too: None is not displayed."""

    def visit_Expr(self, node: ast.Expr) -> ast.Expr:
        """Turn ``value`` into ``(value, None)[1]``."""
        if isinstance(node.value, ast.Starred):
            return node
        value = ast.Subscript(ast.Tuple([node.value, ast.Constant(None)], ast.Load()), ast.Constant(1), ast.Load())
        return ast.fix_missing_locations(ast.copy_location(ast.Expr(ast.copy_location(value, node)), node))

    def generic_visit(self, node: ast.AST) -> ast.AST:
        """Visit what runs at the cell's own level: the body of a function or class displays nothing."""
        inner = isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef)
        return node if inner else super().generic_visit(node)


def place_in(shell: InteractiveShell) -> Callable[[str, int], Place | None]:
    """Return a function that says which cell of `shell` a file and line are of; None for code of no cell."""

    def place(file: str, line: int) -> Place | None:
        # ("Cell", "In[3]") for a cell; what `%run` and imports bring in is compiled without the shell's compiler.
        label = shell.compile.format_code_name(file)
        number = re.search(r"\d+", label[1]) if label is not None else None
        return Place(int(number[0]), line, file) if number is not None else None

    return place
