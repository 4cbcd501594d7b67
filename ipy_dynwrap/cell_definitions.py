"""Where IPython compiles and runs what defines something, and how `definitions` gets to see it there.

An AST transform gives each statement of a cell its name, and puts a decorator around each class, which is called when
the class is there and before its name is. The shell's compiler then hands on what it has compiled before it is run.
That covers cells, ``%%time`` and the like, and the scripts of ``%run -i``.
"""

from __future__ import annotations

import ast
import hashlib
import logging
import os
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from types import CodeType
from typing import TYPE_CHECKING, Any

from . import definitions, definitions_modules
from .config import of_shell
from .definitions import Definitions, Statement

if TYPE_CHECKING:
    from IPython.core.interactiveshell import InteractiveShell

__all__ = ["install"]

_logger = logging.getLogger(__name__)
_MARK = "_ipy_dynwrap_statement"


def install(undo: ExitStack, shell: InteractiveShell) -> Definitions:
    """Have the definitions of `shell` looked after, until `undo` is closed."""
    found = Definitions(lambda: of_shell(shell).intern)
    undo.enter_context(definitions.registered(shell, found))
    marker = Marker(shell)
    shell.ast_transformers.append(marker)
    undo.callback(_remove, shell.ast_transformers, marker)
    scripts: list[str] = []
    _hook_compiler(undo, shell, found, scripts)
    _hook_scripts(undo, shell, scripts)
    definitions_modules.install(undo, found)
    return found


def _remove(items: list[Any], item: object) -> None:
    items[:] = [each for each in items if each is not item]


class Marker(ast.NodeTransformer):
    """The AST transform.

    Parameters
    ----------
    shell
        Whose setting counts.
    """

    def __init__(self, shell: InteractiveShell) -> None:
        self._shell = shell

    def visit(self, node: ast.AST) -> Any:
        """Return `node`, with its statements named and its classes decorated."""
        if isinstance(node, ast.Module) and of_shell(self._shell).intern:
            _mark(node)
        return node


def _mark(tree: ast.Module) -> None:
    numbers: Counter[str] = Counter()
    for leaf in _leaves(tree.body):
        name, lasting = _name(leaf)
        numbers[name] += 1
        # The value of a cell's last expression gets another statement around it.
        for each in (leaf, getattr(leaf, "value", None)):
            if isinstance(each, ast.AST):
                setattr(each, _MARK, Statement(name, numbers[name], lasting))
        if isinstance(leaf, ast.ClassDef):
            _decorate(leaf, leaf.name)


def _leaves(body: list[ast.stmt]) -> Iterator[ast.stmt]:
    """Yield the statements at a module's, or a class's, own level, those in its compound statements included."""
    for statement in body:
        blocks = [getattr(statement, name, []) for name in ("body", "orelse", "finalbody")]
        blocks += [part.body for name in ("handlers", "cases") for part in getattr(statement, name, [])]
        if isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef) or not any(blocks):
            yield statement
        else:
            for block in blocks:
                yield from _leaves(block)


def _name(statement: ast.stmt) -> tuple[str, bool]:
    """Return what a statement is known by, and whether what it defines lives under that name."""
    match statement:
        case ast.FunctionDef(name) | ast.AsyncFunctionDef(name) | ast.ClassDef(name):
            return name, True
        case ast.Assign([ast.Name(name)]) | ast.AugAssign(ast.Name(name)) | ast.AnnAssign(ast.Name(name)):
            return name, False
    return hashlib.blake2s(ast.dump(statement).encode()).hexdigest(), False


def _decorate(cls: ast.ClassDef, name: str) -> None:
    for leaf in _leaves(cls.body):
        if isinstance(leaf, ast.ClassDef):
            _decorate(leaf, f"{name}.{leaf.name}")
    source = f"__import__({definitions.__name__!r}, fromlist=['_']).settled({name!r})"
    decorator = ast.parse(source, mode="eval").body
    # A class begins at its first decorator.
    at = cls.decorator_list[0] if cls.decorator_list else cls
    for node in ast.walk(decorator):
        ast.copy_location(node, at)
    cls.decorator_list.insert(0, decorator)


def _hook_compiler(undo: ExitStack, shell: InteractiveShell, found: Definitions, scripts: list[str]) -> None:
    """Give the shell's compiler a class that passes on what it compiles; it stays the object that others know."""
    compiler = shell.compile
    former = type(compiler)

    def call(self: Any, source: Any, filename: Any, symbol: str, **options: Any) -> CodeType:
        if isinstance(source, bytes) and scripts and os.fspath(filename) == scripts[-1]:
            return _script(found, source, scripts[-1], marks=of_shell(shell).intern)
        code: CodeType = former.__call__(self, source, filename, symbol, **options)
        return _taken_over(found, code, definitions.CELLS, source)

    hooked = type(former.__name__, (former,), {"__call__": call, "__module__": former.__module__})
    compiler.__class__ = hooked

    def restore() -> None:
        if type(compiler) is hooked:
            compiler.__class__ = former

    undo.callback(restore)


def _script(found: Definitions, source: bytes, file: str, *, marks: bool) -> CodeType:
    """Compile a script as `compile` does, without the notebook's future imports."""
    tree: ast.Module = compile(source, file, "exec", ast.PyCF_ONLY_AST, dont_inherit=True)  # type: ignore[assignment]
    if marks:
        _mark(tree)
    return _taken_over(found, compile(tree, file, "exec", dont_inherit=True), file, tree)


def _taken_over(found: Definitions, code: CodeType, scope: str, tree: Any) -> CodeType:
    if not isinstance(tree, ast.Module | ast.Interactive):
        return code
    lines = [(*_lines(leaf), mark) for leaf in _leaves(tree.body) if (mark := _mark_of(leaf)) is not None]
    if not lines:
        return code

    def statement_of(inner: CodeType) -> Statement | None:
        line = inner.co_firstlineno
        return next((mark for first, last, mark in lines if first <= line <= last), None)

    try:
        return found.code(code, scope, statement_of)
    except Exception:
        _logger.exception("what the cell defines is compiled anew")
        return code


def _lines(statement: ast.stmt) -> tuple[int, int]:
    first = min(each.lineno for each in (statement, *getattr(statement, "decorator_list", ())))
    return first, statement.end_lineno or statement.lineno


def _mark_of(statement: ast.stmt) -> Statement | None:
    found = getattr(statement, _MARK, None)
    if found is None and isinstance(statement, ast.Expr):
        found = next((mark for node in ast.walk(statement) if (mark := getattr(node, _MARK, None)) is not None), None)
    return found


def _hook_scripts(undo: ExitStack, shell: InteractiveShell, scripts: list[str]) -> None:
    """Have the scripts of ``%run -i`` compiled by the shell's compiler, which knows them by name."""
    original: Callable[..., None] = shell.safe_execfile

    def safe_execfile(fname: Any, *where: Any, shell_futures: bool = False, **options: Any) -> None:
        # What is compiled for frames of old code lies in the namespace that it had, so only `%run -i` has it again.
        if shell_futures or not where or where[0] is not shell.user_ns:
            return original(fname, *where, shell_futures=shell_futures, **options)
        scripts.append(os.path.realpath(os.path.expanduser(fname)))  # noqa: PTH111 - as a text
        try:
            return original(fname, *where, shell_futures=True, **options)
        finally:
            scripts.pop()

    shell.safe_execfile = safe_execfile  # type: ignore[method-assign]

    def restore() -> None:
        if vars(shell).get("safe_execfile") is safe_execfile:
            del shell.safe_execfile

    undo.callback(restore)
