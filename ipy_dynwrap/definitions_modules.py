"""The user's own modules, imported anew: by ``importlib.reload``, ``%autoreload`` or whatever else executes them again.

Python's loader for source files is hooked where it executes a module. Code is compared before it runs, classes when all
of the module has run: there the new ones may refer to each other, and are taken as one.
"""

from __future__ import annotations

import functools
import sys
import sysconfig
import threading
import weakref
from collections.abc import Callable
from contextlib import ExitStack
from importlib.machinery import SourceFileLoader
from pathlib import Path
from types import CodeType, ModuleType
from typing import Any

from .definitions import Definitions, Statement

__all__ = ["install"]


def install(undo: ExitStack, found: Definitions) -> None:
    """Have the user's modules looked after, until `undo` is closed."""
    known: dict[str, weakref.ref[ModuleType]] = {}
    for module in list(sys.modules.values()):
        if is_own(getattr(module, "__file__", None)):
            known[_scope(module.__name__)] = weakref.ref(module)
            found.remember(_scope(module.__name__), vars(module))
    running = _Running()
    execute, get_code = SourceFileLoader.exec_module, SourceFileLoader.get_code

    @functools.wraps(execute)
    def exec_module(self: SourceFileLoader, module: ModuleType) -> None:
        if not is_own(self.path):
            return execute(self, module)
        scope = _scope(module.__name__)
        if scope not in known or known[scope]() is not module:
            # Another namespace than before, if there was one: what is compiled for frames of the old code is not in it.
            execute(self, module)
            known[scope] = weakref.ref(module)
            return found.remember(scope, vars(module))
        former = found.classes_of(scope, vars(module))
        outer, running.name = running.name, module.__name__
        try:
            execute(self, module)
        finally:
            running.name = outer
        found.classes(scope, vars(module), former)
        return None

    @functools.wraps(get_code)
    def get_code_to_run(self: SourceFileLoader, fullname: str) -> CodeType | None:
        code = get_code(self, fullname)
        if code is None or running.name != fullname:
            return code
        running.name = None
        return found.code(code, _scope(fullname), _statement)

    for name, hooked in (("exec_module", exec_module), ("get_code", get_code_to_run)):
        _replace(undo, name, hooked)


class _Running(threading.local):
    """The module that this thread executes, and whose code is wanted for that."""

    def __init__(self) -> None:
        self.name: str | None = None


def _replace(undo: ExitStack, name: str, hooked: Callable[..., Any]) -> None:
    own = vars(SourceFileLoader).get(name)
    setattr(SourceFileLoader, name, hooked)

    def restore() -> None:
        if vars(SourceFileLoader).get(name) is not hooked:
            return  # somebody hooked it after us; ours passes on
        if own is None:
            delattr(SourceFileLoader, name)
        else:
            setattr(SourceFileLoader, name, own)

    undo.callback(restore)


def is_own(file: str | None) -> bool:
    """Tell whether a file is the user's: no library's, and none of this package."""
    return file is not None and Path(file).is_absolute() and not file.startswith(_libraries())


@functools.cache
def _libraries() -> tuple[str, ...]:
    paths = sysconfig.get_paths()
    return (
        *(f"{paths[name]}/" for name in ("stdlib", "platstdlib", "purelib", "platlib")),
        f"{Path(__file__).parent}/",
    )


def _scope(module: str) -> str:
    return f"module {module}"


def _statement(code: CodeType) -> Statement:
    # A module has no statements here: names alone tell what is in it.
    return Statement(code.co_name, 1, lasting=True)
