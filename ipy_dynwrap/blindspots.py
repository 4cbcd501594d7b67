"""What torch 2.13 does not guard, guarded: each entry gets one guard more, over a short vector of facts.

A guard that torch lacks means a silently wrong answer after an edit. Each fact here answers a public report, and is
compared before an entry runs, so that a changed fact sends the call to another entry or to the compiler:

`Methods`
    A method replaced on a class that the entry has looked into (pytorch issues 124717 and 176851): by a cell that runs
    again, a monkeypatch, or ``%autoreload``, which puts new code into the old function.
`GlobalHooks`
    Hooks that are registered for all modules (pytorch issue 149502).
`Registered`
    Classes that are registered with an abstract one, by which `isinstance` goes.

The rest needs no fact, for `dynamo` asks torch for a guard of torch's own kinds where it leaves one out:

- on the identity of C functions and descriptors in closures, defaults, arguments, containers and attributes (pytorch
  issue 197811);
- that no global shadows a built-in name;
- that an attribute is absent from the object, its class, the function or the Python module where it was not found, and
  which keys an object's ``__dict__`` has;
- on the environment variables that ``os.getenv`` reads;
- on the order of a dictionary that is unpacked or copied, and on that of an ``OrderedDict``;
- whether two objects that are compared are one, as ``x is MISSING`` asks.
"""

from __future__ import annotations

import abc
import ast
import contextlib
import functools
import itertools
import os
import re
import weakref
from collections.abc import Callable, Iterable, Iterator
from types import FunctionType
from typing import Any

from . import _native, dynamo
from .keys import qualified_name
from .showing import shown
from .sources import is_static, mro, namespace

__all__ = ["Facts", "said"]

_numbers = itertools.count(1)
_SHADOWED = re.compile(r"not ___dict_contains\('(\w+)', G\['(?:__import_|___unnamed_scope_)[^']+'\](?:\.__dict__)?\)")
_SET_ON_CLASS = re.compile(r"not ___dict_contains\('(\w+)', dict\(.+\.__dict__\)\)")
_ORDER = re.compile(r"\(list\(.+\) == \[.*\]\) == True")
_ENVIRONMENT = re.compile(
    r"not ___dict_contains\((?P<new>b'[^']*'), \S*\benviron\._data\)"
    r"|\benviron\._data\[(?P<name>b'[^']*')\](?: == (?P<old>b'[^']*'))?"
)
_known: weakref.WeakValueDictionary[int, Facts] = weakref.WeakValueDictionary()


class Facts:
    """The facts that one entry was compiled under.

    Parameters
    ----------
    classes
        The classes of the objects that the entry has looked into.
    """

    def __init__(self, classes: Iterable[type]) -> None:
        classes = tuple(classes)
        self._facts: tuple[Any, ...] = (Methods(classes), GlobalHooks())
        if abstract := tuple(filter(_is_ones_own_abstract, classes)):
            self._facts += (Registered(abstract),)
        self._changed: str | None = None
        self.number = next(_numbers)
        _known[self.number] = self

    @property
    def text(self) -> str:
        """The guard's text, from which `said` finds the facts again."""
        return f"___dynwrap_facts({self.number})"

    def __call__(self, _: object) -> bool:
        """Tell whether the facts are as they were: the guard itself, which runs at each look-up."""
        try:
            for fact in self._facts:
                if not fact.holds():
                    self._changed = fact.changed
                    return False
        except Exception:  # noqa: BLE001 - a guard that cannot be evaluated does not hold
            self._changed = "something could not be compared"
            return False
        return True

    def are_past(self) -> bool:
        """Tell whether they can never hold again: a function or class that they are about is gone."""
        return any(fact.is_past() for fact in self._facts if isinstance(fact, Methods))


def said(text: str) -> str | None:
    """Return in words what changed, if `text` is the text of a guard that torch alone would not have; None if not."""
    if (shadowed := _SHADOWED.search(text)) is not None:
        return f"`{shadowed[1]}` is a global now"
    if (added := _SET_ON_CLASS.search(text)) is not None:
        return f"{added[1]} was set on a class"
    if _ORDER.search(text) is not None:
        return "the order of an OrderedDict changed"
    if (variable := _ENVIRONMENT.search(text.partition("\n")[0])) is not None:
        return _said_of_environment(variable)
    if "___dynwrap_facts(" not in text:
        return None
    number = int(text.partition("___dynwrap_facts(")[2].partition(")")[0])
    facts = _known.get(number)
    return (facts._changed if facts is not None else None) or "a method was replaced"  # noqa: SLF001 - its own class


def _said_of_environment(found: re.Match[str]) -> str:
    name, old = (os.fsdecode(ast.literal_eval(part or "b''")) for part in (found["name"] or found["new"], found["old"]))
    now = os.environ.get(name)
    if now is None:
        return f"os.environ[{name!r}] is gone"
    return f"os.environ[{name!r}] {f'{shown(old)} -> {shown(now)}' if found['old'] else 'was set'}"


class Methods:
    """The functions of classes: which they are, and their code and defaults.

    Parameters
    ----------
    classes
        The classes. Held weakly, as are their functions: an entry may not keep an old version alive.
    """

    def __init__(self, classes: Iterable[type]) -> None:
        classes = list(classes)
        # What a metaclass defines is a method of its classes.
        looked_at = [each for each in dict.fromkeys((*classes, *map(type, classes))) if not is_static(each)]
        self._classes = tuple(map(weakref.ref, looked_at))
        self._functions_of = tuple(map(_functions, looked_at))
        own = {id(function()): function for found in self._functions_of for function in _own(found)}
        self._functions = tuple(own.values())
        self._parts = _native.parts(self._functions)
        self._note_versions()
        self.changed = ""

    def holds(self) -> bool:
        """Tell whether every class has the functions that it had, and they are as they were."""
        same = self._tagged and _native.versions(self._classes) == self._versions
        return (same or self._look_closer()) and self._parts_hold()

    def is_past(self) -> bool:
        """Tell whether a class, or a function that one had, is gone."""
        return any(each() is None for each in self._classes) or any(each() is None for each in self._functions)

    def _look_closer(self) -> bool:
        """Compare the functions: a version tag also changes with an attribute that torch guards itself."""
        for reference, known in zip(self._classes, self._functions_of, strict=True):
            cls = reference()
            if cls is None or _differs(known, _functions(cls)):
                self.changed = f"a method of {qualified_name(cls) if cls is not None else 'a class'} was replaced"
                return False
        self._note_versions()
        return True

    def _note_versions(self) -> None:
        for reference in self._classes:
            if (cls := reference()) is not None:
                with contextlib.suppress(AttributeError):
                    # A look-up gives a class its tag. This one asks no metaclass of the user's.
                    type.__getattribute__(cls, "__dynwrap_absent__")
        self._versions = _native.versions(self._classes)
        # CPython runs out of tags in the end; then only the closer look is left.
        self._tagged = all(memoryview(self._versions).cast("I"))

    def _parts_hold(self) -> bool:
        if _native.same_parts(self._functions, self._parts):
            return True
        self.changed = "the code or a default of a method was replaced"
        return False


_Functions = dict[str, tuple["weakref.ref[FunctionType]", bool]]


def _functions(cls: type) -> _Functions:
    """Return what `cls` has under each name that is a function, with whether the function is torch's own."""
    found: _Functions = {}
    for base in reversed(mro(cls)):
        found.update(_functions_in(base))
    return found


def _functions_in(base: type) -> _Functions:
    own = namespace(base)
    torchs = str(own.get("__module__")).partition(".")[0] == "torch"
    return {name: (weakref.ref(function), torchs) for name, value in own.items() for function in _unwrapped(value)}


def _unwrapped(value: Any) -> Iterator[FunctionType]:
    if isinstance(value, classmethod | staticmethod):
        value = value.__func__
    elif isinstance(value, property):
        value = value.fget
    elif isinstance(value, functools.cached_property):
        value = value.func
    if isinstance(value, FunctionType):
        yield value


def _own(functions: _Functions) -> Iterator[weakref.ref[FunctionType]]:
    """Yield those whose code may be replaced in place: nobody reloads torch."""
    return (function for function, torchs in functions.values() if not torchs)


def _differs(known: _Functions, now: _Functions) -> bool:
    return known.keys() != now.keys() or any(
        function() is None or function() is not now[name][0]() for name, (function, _) in known.items()
    )


class GlobalHooks:
    """The hooks that are registered for all modules."""

    changed = "hooks of all modules changed"

    def __init__(self) -> None:
        self._hooks = tuple(map(_reference, dynamo.global_hooks()))

    def holds(self) -> bool:
        """Tell whether the same hooks are registered."""
        now = dynamo.global_hooks()
        return len(now) == len(self._hooks) and all(
            known() is hook for known, hook in zip(self._hooks, now, strict=True)
        )


class Registered:
    """The classes that are registered with abstract ones, or with what is derived from those.

    Parameters
    ----------
    abstract
        The abstract classes. Held weakly, as are those that are registered.
    """

    changed = "a class was registered with an abstract one"

    def __init__(self, abstract: Iterable[type]) -> None:
        self._abstract = tuple(map(weakref.ref, abstract))
        self._registered = self._now()
        self._token = abc.get_cache_token()

    def holds(self) -> bool:
        """Tell whether the same classes are registered."""
        if (token := abc.get_cache_token()) == self._token:
            return True
        if _ids(self._now()) != _ids(self._registered):
            return False
        self._token = token
        return True

    def _now(self) -> tuple[weakref.ref[type], ...]:
        below: dict[int, type] = {}
        waiting = [cls for reference in self._abstract if (cls := reference()) is not None]
        while waiting:
            cls = waiting.pop()
            if id(cls) not in below:
                below[id(cls)] = cls
                waiting += filter(_is_abstract, type.__subclasses__(cls))
        # There is no public way to see who is registered, but as a text.
        dumps = (abc._get_dump(cls) for cls in below.values())  # type: ignore[attr-defined] # noqa: SLF001
        return tuple(reference for registry, *_ in dumps for reference in registry)


def _ids(references: Iterable[weakref.ref[type]]) -> set[int]:
    return {id(cls) for reference in references if (cls := reference()) is not None}


def _is_abstract(cls: type) -> bool:
    return issubclass(type(cls), abc.ABCMeta)


def _is_ones_own_abstract(cls: type) -> bool:
    """Tell whether a class is an abstract one, and of the user's or a package's."""
    return _is_abstract(cls) and not dynamo.is_nobodys(str(namespace(cls).get("__module__")))


def _reference(hook: object) -> Callable[[], object]:
    try:
        return weakref.ref(hook)
    except TypeError:
        return lambda: hook
