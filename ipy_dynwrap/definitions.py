"""What a notebook defines again: where the content is the same, the old code objects and classes stay.

Torch's guards and the families of the cache go by the identity of code objects and classes, and a cell that is run
again makes new ones. Two things happen to that:

- Between the compilation of a cell and its run, the code objects in it are compared with those that the same statement
  had before. What does the same is replaced by the old code object, which is told where it stands now: tracebacks and
  `inspect.getsource` read the new cell. Functions are new, with their own defaults, closure, globals and attributes.
- When a class statement has run, the class is compared with what its name stood for. If the content is the same, and
  nothing refers to the new class yet, the old one takes its place.

As long as nothing has been compiled, all is left alone.
"""

from __future__ import annotations

import contextlib
import gc
import logging
import sys
import weakref
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from types import CodeType
from typing import Any

from IPython.core.getipython import get_ipython

from . import state
from .definitions_classes import classes_in, drop_pairs, is_key, paired, place_class, why_not
from .definitions_code import Codes, Takeover, codes_in, with_inner
from .definitions_content import inner_codes
from .definitions_island import references_of_decorating

__all__ = ["Definition", "Definitions", "Statement", "of_shell", "registered", "settled"]

_logger = logging.getLogger(__name__)
CELLS = "cells"
_KEPT_STATEMENTS = 256


@dataclass(frozen=True, slots=True)
class Definition:
    """What became of something that was defined again.

    Parameters
    ----------
    kind
        ``"function"`` or ``"class"``.
    name
        Its qualified name.
    kept
        Whether the old code object, or the old class, is used.
    reason
        Why not, in words; empty if it is.
    cell
        How many cells had run before.
    """

    kind: str
    name: str
    kept: bool
    reason: str
    cell: int


@dataclass(frozen=True, slots=True)
class Statement:
    """A statement at a cell's own level, which replaces an earlier one of the same name.

    Parameters
    ----------
    name
        What it defines or assigns; its content if that is nothing.
    number
        Which one of that name in its cell it is.
    lasting
        Whether what it defines lives under its name; else its code is kept alive here, for a while.
    """

    name: str
    number: int
    lasting: bool


class Definitions:
    """What has been defined, and what became of it.

    Parameters
    ----------
    is_on
        Whether old code objects and classes may stay.
    """

    def __init__(self, is_on: Callable[[], bool]) -> None:
        self._is_on = is_on
        self._codes: dict[tuple[str, Statement], Codes] = {}
        self._alive: OrderedDict[tuple[str, Statement], tuple[CodeType, ...]] = OrderedDict()
        self._classes: dict[tuple[str, str], tuple[weakref.ref[type], int]] = {}
        self._found: dict[tuple[str, str], Definition] = {}

    def found(self) -> tuple[Definition, ...]:
        """Return what became of each name that was defined again, the last time that it was."""
        return tuple(self._found.values())

    def _may_keep(self) -> bool:
        # A debugger or tracer may hold on to where code stands.
        return self._is_on() and sys.gettrace() is None and any(True for _ in state.cache)

    def _note(self, kind: str, name: str, reason: str | None) -> None:
        name = name.replace("<locals>.", "")
        self._found.pop((kind, name), None)
        self._found[kind, name] = Definition(kind, name, reason is None, reason or "", state.session.cells)

    def code(self, code: CodeType, scope: str, statement_of: Callable[[CodeType], Statement | None]) -> CodeType:
        """Return code that is about to run, with old code objects in the place of new ones that do the same.

        Parameters
        ----------
        code
            A module's, or that of some statements of it.
        scope
            Where names have one meaning: the notebook, a script, a module.
        statement_of
            Gives the statement to which one of the code objects in `code` belongs.
        """
        groups: dict[Statement, list[CodeType]] = {}
        for inner in inner_codes(code):
            if (statement := statement_of(inner)) is not None:
                groups.setdefault(statement, []).append(inner)
        placed: dict[int, CodeType] = {}
        may_keep = self._may_keep()
        for statement, codes in groups.items():
            key = scope, statement
            takeover = Takeover(self._codes.get(key, {}), may_keep, self._note)
            taken = tuple(map(takeover.visit, codes))
            placed.update(zip(map(id, codes), taken, strict=True))
            self._codes[key] = takeover.codes
            if not statement.lasting:
                self._keep_alive(key, taken)
        return with_inner(code, placed)

    def _keep_alive(self, key: tuple[str, Statement], codes: tuple[CodeType, ...]) -> None:
        self._alive[key] = codes
        self._alive.move_to_end(key)
        while len(self._alive) > _KEPT_STATEMENTS:
            oldest, _ = self._alive.popitem(last=False)
            self._codes.pop(oldest, None)

    def cls(self, box: list[Any], name: str, names: Mapping[str, Any], scope: str) -> bool:
        """Put the old class in the place of a new one, if it can stand for it.

        Parameters
        ----------
        box
            The new class, alone; no variable of the caller's may hold it.
        name
            The qualified name that it gets.
        names
            The namespace in which it gets that name, as it is before.
        scope
            As in `code`.

        Returns
        -------
        bool
            Whether it did.
        """
        kept = False
        old = self._former(name, names, scope)
        if old is not None and old is not box[0] and self._may_keep():
            found = why_not({box[0]: old}, references_of_decorating())
            self._note("class", name, None if found is None else found[1])
            kept = found is None
            if kept:
                place_class(old, box[0])
                box[0] = old
        self._classes[scope, name] = weakref.ref(box[0]), state.session.cells
        return kept

    def _former(self, name: str, names: Mapping[str, Any], scope: str) -> type | None:
        """Return the class that an earlier cell put under a name; None if it is under it no more."""
        reference, cell = self._classes.get((scope, name), (None, -1))
        found = reference() if reference is not None else None
        return None if found is None or cell == state.session.cells or names.get(name, found) is not found else found

    def remember(self, scope: str, namespace: Mapping[str, Any]) -> None:
        """Take note of what a module that was imported before has defined."""
        for key in [key for key in self._codes if key[0] == scope]:
            del self._codes[key]
        for name, value in list(namespace.items()):
            found = tuple(codes_in(value, str(namespace.get("__name__"))))
            if found:
                key = scope, Statement(name, 1, lasting=True)
                takeover = Takeover({}, may_keep=False, note=self._note)
                for code in found:
                    takeover.visit(code)
                self._codes[key] = takeover.codes
        self._note_classes(scope, namespace)

    def classes_of(self, scope: str, namespace: Mapping[str, Any]) -> dict[str, type]:
        """Return the classes that a module has, or had before its namespace was cleared, by name."""
        known = {
            name: cls for (where, name), (found, _) in self._classes.items() if where == scope and (cls := found())
        }
        return {**known, **classes_in(namespace)}

    def classes(self, scope: str, namespace: dict[str, Any], former: dict[str, type]) -> None:
        """Put old classes into a module that has been executed again, for new ones that they can stand for.

        Parameters
        ----------
        scope, namespace
            The module.
        former
            What `classes_of` returned before.
        """
        if self._may_keep():
            pairs = paired(former, namespace)
            while pairs:
                # Alone for a moment: those of one name stay or go together.
                if (found := why_not(pairs, 0, namespace)) is None:
                    break
                name = found[0].partition(".")[0]
                self._note("class", name, found[1])
                drop_pairs(pairs, name)
            for name in [name for name, value in namespace.items() if is_key(value, pairs)]:
                place_class(pairs[namespace[name]], namespace[name])
                namespace[name] = pairs[namespace[name]]
                self._note("class", name, None)
        self._note_classes(scope, namespace)

    def _note_classes(self, scope: str, namespace: Mapping[str, Any]) -> None:
        for name, cls in classes_in(namespace).items():
            self._classes[scope, name] = weakref.ref(cls), state.session.cells


_of_shells: weakref.WeakKeyDictionary[object, Definitions] = weakref.WeakKeyDictionary()


@contextlib.contextmanager
def registered(shell: object, definitions: Definitions) -> Iterator[None]:
    """Have `settled` find the definitions of a shell."""
    _of_shells[shell] = definitions
    try:
        yield
    finally:
        _of_shells.pop(shell, None)


def of_shell(shell: object) -> Definitions | None:
    """Return the definitions of a shell; None where the extension is not loaded."""
    return _of_shells.get(shell) if shell is not None else None


def settled(name: str) -> Callable[[Any], Any]:
    """Return the decorator of a class statement of a cell or script.

    Parameters
    ----------
    name
        The qualified name of the class.

    Returns
    -------
    callable
        Gives for what the statement has made what shall get the name.
    """

    def settle(*box: Any) -> Any:
        shell = get_ipython()
        definitions = of_shell(shell)
        if shell is None or definitions is None or not issubclass(type(box[0]), type):
            return box[0]
        frame = sys._getframe(1)  # noqa: SLF001 - documented, if not for every Python
        scope = CELLS if frame.f_globals is shell.user_ns else frame.f_code.co_filename
        made = list(box)
        del box
        try:
            if definitions.cls(made, name, frame.f_locals, scope):
                gc.collect(1)  # the bases of the new class know it until it is collected
        except Exception:
            _logger.exception("%s is compiled anew", name)
        return made[0]

    return settle
