"""Code objects that are defined again: the old ones in the places of those that do the same."""

from __future__ import annotations

import inspect
import weakref
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from types import CodeType, FunctionType
from typing import Any

from .definitions_content import code_difference, inner_codes
from .sources import namespace

__all__ = ["Codes", "Takeover", "codes_in", "with_inner"]

Codes = dict[tuple[str, int], "weakref.ref[CodeType]"]


class Takeover:
    """Goes through the code objects of one statement and puts the old ones in their places.

    Parameters
    ----------
    former
        The code objects that the statement had before.
    may_keep
        Whether old ones may stay.
    note
        Told of each function that was there before.
    """

    def __init__(self, former: Codes, may_keep: bool, note: Callable[[str, str, str | None], None]) -> None:
        self._former = former
        self._may_keep = may_keep
        self._note = note
        self._numbers: Counter[str] = Counter()
        self.codes: Codes = {}

    def visit(self, code: CodeType) -> CodeType:
        """Return the old code object that does what `code` does; else `code`, with those inside it replaced."""
        key = self._key(code)
        if key is None:
            return self._visit_inner(code)
        reference = self._former.get(key)
        old = reference() if reference is not None else None
        if old is not None and self._may_keep:
            reason = code_difference(old, code)
            if reason is None and not _move(old, code):
                reason = "a debugger has looked at it"
            self._note("function", key[0], reason)
            if reason is None:
                self._remember(key, old)
                return old
        code = self._visit_inner(code)
        self.codes[key] = weakref.ref(code)
        return code

    def _key(self, code: CodeType) -> tuple[str, int] | None:
        """Return what tells a function of this statement from the others; None for a class body or comprehension."""
        if not code.co_flags & inspect.CO_OPTIMIZED or (code.co_name.startswith("<") and code.co_name != "<lambda>"):
            return None
        name = getattr(code, "co_qualname", code.co_name)
        self._numbers[name] += 1
        return name, self._numbers[name]

    def _visit_inner(self, code: CodeType) -> CodeType:
        return with_inner(code, {id(inner): self.visit(inner) for inner in inner_codes(code)})

    def _remember(self, key: tuple[str, int] | None, code: CodeType) -> None:
        if key is not None:
            self.codes[key] = weakref.ref(code)
        for inner in inner_codes(code):
            self._remember(self._key(inner), inner)


def with_inner(code: CodeType, placed: Mapping[int, CodeType]) -> CodeType:
    """Return code with others in the places of those inside it, which are given by their numbers."""
    constants = tuple(placed.get(id(constant), constant) for constant in code.co_consts)
    if all(after is before for after, before in zip(constants, code.co_consts, strict=True)):
        return code
    return code.replace(co_consts=constants)


class _Tables:
    """Line tables that code objects have had: a tracer that is off may look at one again when it is switched on."""

    def __init__(self) -> None:
        self._kept: dict[int, tuple[weakref.ref[CodeType], list[bytes]]] = {}

    def keep(self, code: CodeType, table: bytes) -> None:
        """Keep a table as long as its code object lives."""
        number, kept = id(code), self._kept
        if number not in kept:
            kept[number] = weakref.ref(code, lambda _: kept.pop(number)), []
        kept[number][1].append(table)


_tables = _Tables()


def _move(old: CodeType, new: CodeType) -> bool:
    """Make old code stand where new code that does the same does; return False if that cannot be done."""
    from . import _native

    inner = zip(inner_codes(old), inner_codes(new), strict=True)
    if not all(_move(before, now) for before, now in inner):
        return False
    if all(getattr(old, name) == getattr(new, name) for name in ("co_filename", "co_firstlineno", "co_linetable")):
        return True
    if (table := _native.move(old, new)) is None:
        return False
    _tables.keep(old, table)
    return True


def codes_in(value: Any, module: str) -> Iterator[CodeType]:
    """Yield the code of the functions that a value of a module's is, or has as a class, if the module defines it."""
    if isinstance(value, FunctionType | type) and getattr(value, "__module__", None) != module:
        return
    if isinstance(value, FunctionType):
        yield value.__code__
    elif isinstance(value, property):
        for part in (value.fget, value.fset, value.fdel):
            yield from codes_in(part, module)
    elif isinstance(value, classmethod | staticmethod):
        yield from codes_in(value.__func__, module)
    elif issubclass(type(value), type):
        for member in list(namespace(value).values()):  # not by way of its metaclass
            yield from codes_in(member, module)
