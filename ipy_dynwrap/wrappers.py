"""Generated wrappers: functions with a code object, and so a TorchDynamo cache, of their own.

The target is an argument and never a closure: equal targets share the entries, and no wrapper keeps one alive. For a
function the wrapper has the function's own parameters, so that ``f(x, 2)``, ``f(x, n=2)`` and a call that leaves the
default are one and the same call, and guards are put in the user's names.
"""

from __future__ import annotations

import hashlib
import inspect
import keyword
import linecache
import re
import types
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import cast

__all__ = ["Parameters", "generate", "parameters", "stable_name"]


def stable_name(kind: str, name: str, options: str, content: str, taken: set[str]) -> str:
    """Return a name that is unique in this process and the same from run to run.

    Automatic-dynamic and PGO state are kept by a code object's file name, first line and name, so wrappers that shared
    those would talk to each other (pytorch issue 172747). The name is made from what the wrapper is for; only wrappers
    that are alike in all of that are numbered.

    Parameters
    ----------
    kind, name
        The kind of the family and the qualified name of what is called.
    options
        The compile options in words.
    content
        What else tells this wrapper from others, as text that does not change from run to run.
    taken
        The names in use.
    """
    digest = hashlib.blake2s("\0".join((kind, name, options, content)).encode(), digest_size=4).hexdigest()
    base = f"{name}#{digest}"
    unique, number = base, 1
    while unique in taken:
        number += 1
        unique = f"{base}.{number}"
    return unique


def generate(unique: str, name: str, own: Parameters | None = None) -> types.FunctionType:
    """Make the wrapper function ``(target, /, ...) -> target(...)``.

    Parameters
    ----------
    unique
        The wrapper's unique name, for its file name.
    name
        The qualified name of what is called, for the name of the code object.
    own
        The parameters that the wrapper shall have (`parameters`); None for ``*args, **kwargs``.

    Returns
    -------
    types.FunctionType
        In a namespace of its own, where Dynamo puts the compiled graphs, so that they go when the wrapper goes.
    """
    if own is None:
        declared, call = "*args, **kwargs", "*args, **kwargs"
    else:
        declared = own.declared
        call = ", ".join([*own.positional, *(f"{name}={name}" for name in own.keyword_only), *own.rest])
    receiver = "target"
    while re.search(rf"\b{receiver}\b", declared):
        receiver += "_"
    identifier = re.sub(r"\W", "_", name)
    if not identifier.isidentifier() or keyword.iskeyword(identifier):
        identifier = f"_{identifier}"
    head = receiver if "/" in declared else f"{receiver}, /"
    declared = f"{head}, {declared}" if declared else head
    source = f"def {identifier}({declared}):\n    return {receiver}({call})\n"
    filename = f"<ipy_dynwrap {unique}>"
    namespace: dict[str, object] = {"__name__": "ipy_dynwrap.generated"}
    exec(compile(source, filename, "exec"), namespace)  # noqa: S102 - made from identifiers only
    # Without this, every report of torch's that quotes a line searches the disk for the file.
    linecache.cache[filename] = (len(source), None, source.splitlines(keepends=True), filename)
    function = cast("types.FunctionType", namespace.pop(identifier))
    # Dynamo rebuilds a frozenset by that name, and takes it for granted that the outermost code has it among its names.
    function.__code__ = function.__code__.replace(co_names=(*function.__code__.co_names, "frozenset"))
    return function


@dataclass(frozen=True, slots=True)
class Parameters:
    """The parameters of a function, as source text.

    Parameters
    ----------
    declared
        The parameter list.
    positional
        The arguments that pass on the positional ones, ``"*args"`` included.
    keyword_only
        The names of the keyword-only ones.
    rest
        ``("**kwargs",)``, or nothing.
    """

    declared: str
    positional: tuple[str, ...]
    keyword_only: tuple[str, ...]
    rest: tuple[str, ...]


def parameters(code: types.CodeType, *, skip: int = 0, default: Mapping[str, str] = MappingProxyType({})) -> Parameters:
    """Write out the parameters of a function.

    Parameters
    ----------
    code
        The function's code.
    skip
        How many of the first positional parameters are left out.
    default
        Source text of the default values, by parameter.
    """
    names = list(code.co_varnames)
    positional, names = names[: code.co_argcount], names[code.co_argcount :]
    keyword_only, names = names[: code.co_kwonlyargcount], names[code.co_kwonlyargcount :]
    only = max(0, code.co_posonlyargcount - skip)
    positional = positional[skip:]
    declared = [f"{name}={default[name]}" if name in default else name for name in positional]
    if only:
        declared.insert(only, "/")
    passed, rest = list(positional), []
    if code.co_flags & inspect.CO_VARARGS:
        passed.append(f"*{names.pop(0)}")
        declared.append(passed[-1])
    elif keyword_only:
        declared.append("*")
    declared += [f"{name}={default[name]}" if name in default else name for name in keyword_only]
    if code.co_flags & inspect.CO_VARKEYWORDS:
        rest.append(f"**{names[0]}")
        declared.append(rest[0])
    return Parameters(", ".join(declared), tuple(passed), tuple(keyword_only), tuple(rest))
