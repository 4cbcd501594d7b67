"""Guard sources of torch: written in the user's words, and read in a frame.

A guard source is a Python expression over the frame of a generated wrapper, ``target._modules['l'].training``. The
user knows neither the wrapper nor torch's dictionaries, and calls this ``self.l.training``.
"""

from __future__ import annotations

import ast
import functools
import inspect
import re
import types
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

__all__ = ["STATE", "Naming", "attribute", "item", "parse", "reader"]

STATE = "___state"
"""The name under which `reader` finds torch's global state."""

# Implemented in C, and without effect: slots, what C types have, the fields of named tuples.
_SAFE_DESCRIPTORS = (
    types.MemberDescriptorType,
    types.GetSetDescriptorType,
    type(inspect.getattr_static(inspect.FullArgSpec, "args")),
)
_MEMBERS = frozenset({"_modules", "_parameters", "_buffers", "__dict__"})
_CONVERTERS = frozenset({"___from_numpy", "___as_tensor"})
# Torch's names for the built-in names, and for the globals of a function that is of no module it can import.
_NAMESPACE = re.compile("builtins_dict|^___unnamed_scope_")
# A longer text is no guard source of a person's program, and parsing takes memory.
_LONGEST = 5_000


def parse(text: str) -> ast.expr | None:
    """Return the expression that `text` is, or None."""
    if len(text) > _LONGEST:
        return None
    try:
        return ast.parse(text.strip(), mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None


def function_behind(kind: str, target: object) -> tuple[types.FunctionType | None, int]:
    """Return the Python function behind `target`, and how many of its parameters the caller does not pass."""
    bound = 0
    found: object = target
    if kind in ("module", "callable") and not isinstance(target, functools.partial):
        name = "forward" if kind == "module" else "__call__"
        found = inspect.getattr_static(target, name, None)
        # An instance's own `forward` hides the class's, and gets no self.
        bound = 0 if name in getattr(target, "__dict__", {}) or isinstance(found, staticmethod) else 1
    for _ in range(20):
        if isinstance(found, functools.partial):
            bound += len(found.args)
            found = found.func
        elif isinstance(found, types.MethodType):
            bound += 1
            found = found.__func__
        elif isinstance(found, staticmethod | classmethod):
            found = found.__func__
        elif isinstance(found, types.FunctionType):
            wrapped = found.__dict__.get("__wrapped__")
            if wrapped is None:
                return found, bound
            found = wrapped
        else:
            break
    return None, 0


@dataclass(frozen=True, slots=True)
class Naming:
    """How the names in a frame read in the user's words. Only strings are kept, never the target.

    Parameters
    ----------
    target
        What the user calls the wrapper's `target`; None if the frame is no wrapper's.
    receiver
        The wrapper's own name for the target.
    kind
        ``"module"``, ``"function"``, ``"method"``, ``"callable"``, or empty.
    type_name
        The name of the target's type.
    positional
        The positional parameters of what is called, without the bound ones.
    variadic, keywords
        The names after ``*`` and ``**`` among them.
    generic
        Whether the wrapper's own ``*args, **kwargs`` stand for the parameters.
    free
        The free variables of a function.
    defaults
        The parameters that have a default, in order.
    partial
        Whether the target is a `functools.partial`.
    """

    target: str | None = None
    receiver: str = "target"
    kind: str = ""
    type_name: str = ""
    positional: tuple[str, ...] = ()
    variadic: str | None = None
    keywords: str | None = None
    generic: bool = False
    free: tuple[str, ...] = ()
    defaults: tuple[str, ...] = ()
    partial: bool = False

    @staticmethod
    def plain() -> Naming:
        """Return the naming of a frame whose names are the user's own."""
        return Naming()

    @staticmethod
    def of(kind: str, target: object) -> Naming:
        """Return the naming of the wrapper's frame for `target`."""
        function, bound = function_behind(kind, target)
        if isinstance(target, functools.partial):
            name = f"partial({getattr(target.func, '__name__', 'function')})"
        elif kind in ("module", "callable"):
            name = "self"
        else:
            name = str(getattr(target, "__name__", type(target).__name__))
        naming: dict[str, Any] = {"target": name, "kind": kind, "type_name": type(target).__name__, "generic": True}
        naming["partial"] = isinstance(target, functools.partial)
        if function is None:
            return Naming(**naming)
        positional, variadic, keywords = _parameters(function.__code__)
        outer = getattr(target, "__func__", target) if kind in ("function", "method") else None
        if isinstance(outer, types.FunctionType):
            own = _parameters(outer.__code__)
            naming["free"] = outer.__code__.co_freevars
            naming["defaults"] = own[0][len(own[0]) - len(outer.__defaults__ or ()) :]
        if isinstance(target, types.FunctionType):
            # The wrapper of a function has the function's own parameters. A decorator's ``*args`` alone stand for the
            # parameters of what is decorated.
            names = {*own[0], *_keyword_only(target.__code__)}
            naming["receiver"] = _receiver({*names, *own[1:]})
            naming["generic"] = target is not function and not names
            if not naming["generic"]:
                _, variadic, keywords = own
        return Naming(positional=positional[bound:], variadic=variadic, keywords=keywords, **naming)

    def words(self, source: str, cell: str | None = None) -> str:
        """Return `source` in words.

        Parameters
        ----------
        source
            A guard source, or an expression over guard sources.
        cell
            The name of the free variable, if torch has said it, whose cell the source goes through last.
        """
        node = parse(source)
        if node is None:
            return source
        return ast.unparse(ast.fix_missing_locations(_Words(self, cell).visit(node)))

    def argument(self, index: int) -> str:
        """Return the name of the positional argument `index`."""
        if index < len(self.positional):
            return self.positional[index]
        return f"{self.variadic or 'args'}[{index - len(self.positional) if self.variadic else index}]"


def _parameters(code: types.CodeType) -> tuple[tuple[str, ...], str | None, str | None]:
    """Return the positional parameters, and the names after ``*`` and ``**``."""
    names = iter(code.co_varnames[code.co_argcount + code.co_kwonlyargcount :])
    variadic = next(names) if code.co_flags & inspect.CO_VARARGS else None
    keywords = next(names) if code.co_flags & inspect.CO_VARKEYWORDS else None
    return code.co_varnames[: code.co_argcount], variadic, keywords


def _keyword_only(code: types.CodeType) -> tuple[str, ...]:
    return code.co_varnames[code.co_argcount : code.co_argcount + code.co_kwonlyargcount]


def _receiver(names: set[str | None]) -> str:
    """Return the wrapper's own name for the target: one that is no parameter's."""
    name = "target"
    while name in names:
        name += "_"
    return name


def _said(text: str) -> ast.expr:
    # `ast.unparse` writes the identifier as it is: words can stand where an expression was.
    return ast.Name(id=text, ctx=ast.Load())


def _member(owner: ast.expr, name: object) -> ast.expr:
    if isinstance(name, str) and name.isidentifier():
        return ast.Attribute(value=owner, attr=name, ctx=ast.Load())
    # A Sequential keeps its modules under "0", "1", ... and its user writes numbers.
    number = isinstance(name, str) and name.isdecimal() and name.isascii()
    return ast.Subscript(value=owner, slice=_said(str(name) if number else repr(name)), ctx=ast.Load())


def _called(node: ast.expr) -> str:
    """Return what a call calls, ``dict.keys``; empty for anything else."""
    return ast.unparse(node.func) if isinstance(node, ast.Call) else ""


def keys_of(node: ast.expr) -> ast.expr | None:
    """Return the dictionary in ``list(dict.keys(d))`` or ``list(d.keys())``."""
    if not (isinstance(node, ast.Call) and _called(node) == "list" and len(node.args) == 1):
        return None
    inner = node.args[0]
    if isinstance(inner, ast.Call):
        if _called(inner) == "dict.keys" and len(inner.args) == 1:
            return inner.args[0]
        if isinstance(inner.func, ast.Attribute) and inner.func.attr == "keys" and not inner.args:
            return inner.func.value
    return None


class _Words(ast.NodeTransformer):
    """Rewrites a guard source into the user's names."""

    def __init__(self, naming: Naming, cell: str | None) -> None:
        self._naming = naming
        self._cell = cell

    def _is_target(self, node: ast.expr) -> bool:
        return self._naming.target is not None and isinstance(node, ast.Name) and node.id == self._naming.receiver

    def _in_words(self, node: ast.expr) -> str:
        return ast.unparse(self.visit(node))

    def visit_Name(self, node: ast.Name) -> ast.expr:
        if self._is_target(node):
            return _said(self._naming.target or "")
        return node

    def visit_Attribute(self, node: ast.Attribute) -> ast.expr:
        owner = node.value
        if node.attr == "cell_contents":
            return self._closure_cell(node)
        if node.attr in ("__code__", "__func__"):
            return self._visited(owner)
        if node.attr == "__class__":
            return self._visited(ast.Call(func=_said("type"), args=[owner], keywords=[]))
        if self._is_target(owner) and node.attr == "__self__" and self._naming.kind == "method":
            return _said("self")
        if self._is_target(owner) and node.attr == "func" and self._naming.partial:
            return _said("the partial's function")
        module = _imported(owner)
        if module is not None:
            return _said(node.attr if module in ("__main__", "builtins") else f"{module}.{node.attr}")
        return ast.Attribute(value=self._visited(owner), attr=node.attr, ctx=ast.Load())

    def _closure_cell(self, node: ast.Attribute) -> ast.expr:
        match node.value:
            case ast.Subscript(value=ast.Attribute(value=owner, attr="__closure__"), slice=ast.Constant(value=int(i))):
                if self._cell is not None:
                    return _said(self._cell)
                if self._is_target(_function_of(owner)) and i < len(self._naming.free):
                    return _said(self._naming.free[i])
                return _said(f"free variable {i} of {self._in_words(owner)}")
        return ast.Attribute(value=self._visited(node.value), attr=node.attr, ctx=ast.Load())

    def visit_Subscript(self, node: ast.Subscript) -> ast.expr:
        owner, key = node.value, node.slice
        mapping = keys_of(owner)
        if mapping is not None:
            return _said(f"key {ast.unparse(key)} of {self._in_words(mapping)}")
        if isinstance(key, ast.Subscript) and (mapping := keys_of(key.value)) is not None:
            if isinstance(mapping, ast.Attribute) and mapping.attr.endswith("_hooks"):
                return _said(f"hook of {self._in_words(mapping.value)}")
            return _said(f"list({self._in_words(mapping)}.values())[{ast.unparse(key.slice)}]")
        if isinstance(key, ast.Constant):
            known = self._constant_key(owner, key.value)
            if known is not None:
                return known
        return ast.Subscript(value=self._visited(owner), slice=self._visited(key), ctx=ast.Load())

    def _constant_key(self, owner: ast.expr, key: object) -> ast.expr | None:
        naming = self._naming
        match owner:
            case ast.Name(id="G") if isinstance(key, str):
                return _said(_imported(ast.Subscript(owner, ast.Constant(key), ast.Load())) or key)
            case ast.Subscript(value=ast.Name(id="G"), slice=ast.Constant(value=str(name))) if _NAMESPACE.search(name):
                return _said(str(key))
            case ast.Name(id="args") if naming.generic and isinstance(key, int):
                return _said(naming.argument(key))
            case ast.Name(id="kwargs") if naming.generic and isinstance(key, str):
                return _said(key)
            case ast.Attribute(value=inner, attr="keywords") if naming.partial and self._is_target(inner):
                return _said(str(key))
            case ast.Attribute(value=inner, attr="__mro__"):
                return self._visited(inner)
            case ast.Attribute(value=inner, attr=attr) if attr in _MEMBERS:
                return _member(self._visited(inner), key)
            case ast.Call(func=ast.Name(id="dict"), args=[ast.Attribute(value=inner, attr="__dict__")]):
                return _member(self._visited(inner), key)
            case ast.Attribute(value=inner, attr="__defaults__") if isinstance(key, int):
                named = self._is_target(_function_of(inner)) and key < len(naming.defaults)
                default = naming.defaults[key] if named else f"parameter {key}"
                return _said(f"default of {default}" + ("" if named else f" of {self._in_words(inner)}"))
            case ast.Attribute(value=inner, attr="__kwdefaults__"):
                return _said(f"default of {key}")
            case ast.Call(func=ast.Attribute(value=inner, attr="stride"), args=[]):
                return _said(f"{self._in_words(inner)}.stride({key})")
        return None

    def visit_Call(self, node: ast.Call) -> ast.expr:
        name = _called(node)
        if name in _CONVERTERS and len(node.args) == 1:
            return self._visited(node.args[0])
        if name == "type" and len(node.args) == 1 and self._is_target(node.args[0]):
            return _said(self._naming.type_name)
        if name in ("dict.__getitem__", "list.__getitem__") and len(node.args) == 2:
            return self._visited(ast.Subscript(value=node.args[0], slice=node.args[1], ctx=ast.Load()))
        if isinstance(node.func, ast.Attribute) and node.func.attr == "size" and not node.args:
            return ast.Attribute(value=self._visited(node.func.value), attr="shape", ctx=ast.Load())
        self.generic_visit(node)
        return node

    def _visited(self, node: ast.expr) -> ast.expr:
        visited: ast.expr = self.visit(node)
        return visited


def _function_of(node: ast.expr) -> ast.expr:
    return node.value if isinstance(node, ast.Attribute) and node.attr == "__func__" else node


def _imported(node: ast.expr) -> str | None:
    """Return the module that Dynamo has put into the globals under a name of its own: ``G['__import_a_dot_b']``."""
    match node:
        case ast.Subscript(value=ast.Name(id="G"), slice=ast.Constant(value=str(name))) if name.startswith("__import_"):
            return name[len("__import_") :].replace("_dot_", ".")
    return None


def attribute(owner: object, name: str) -> object:
    """Return an attribute without running anybody's Python code: no property, no ``__getattr__``."""
    try:
        own = object.__getattribute__(owner, "__dict__")
    except AttributeError:
        own = {}
    missing = object()
    found = inspect.getattr_static(owner, name, missing)
    if found is missing:
        # torch.nn.Module keeps its parts in dictionaries, behind a `__getattr__`.
        for kind in ("_parameters", "_buffers", "_modules"):
            if name in own.get(kind, ()):
                return dict.__getitem__(own[kind], name)
        raise AttributeError(name)
    if type(own) is dict and name in own and own[name] is found:
        return found
    if issubclass(type(found), _SAFE_DESCRIPTORS):
        return found.__get__(owner, type(owner))
    if issubclass(type(owner), type):
        return found
    if issubclass(type(found), types.FunctionType):
        return types.MethodType(found, owner)
    if hasattr(type(found), "__get__"):
        raise AttributeError(name)
    return found


def item(owner: Any, key: Any) -> object:
    """Return an item of a built-in container, by the built-in type's method: a subclass's own might run anything."""
    kind = type(owner)
    if issubclass(kind, dict):
        if not dict.__contains__(owner, key):
            raise KeyError(key)  # before a subclass's __missing__ answers
        return dict.__getitem__(owner, key)
    if issubclass(kind, list):
        return list.__getitem__(owner, key)
    if issubclass(kind, tuple):
        return tuple.__getitem__(owner, key)
    if kind is types.MappingProxyType:
        return owner[key]
    raise TypeError(kind.__name__)


def reader(
    f_locals: Mapping[str, object], f_globals: Mapping[str, object], state: Mapping[str, object] | None = None
) -> Callable[[str], object]:
    """Return a function that reads a guard source in a frame.

    Parameters
    ----------
    f_locals, f_globals
        The frame's variables.
    state
        Torch's global state as torch's own texts name it, ``{"grad_mode": False}``, if it is to be shown.

    Notes
    -----
    Names, attributes, constant subscripts and closure cells are read, nothing is called. Whatever goes wrong is a
    LookupError.
    """

    def read(source: str) -> object:
        node = parse(source)
        if node is None:
            raise LookupError(source)
        try:
            return _value(node, f_locals, f_globals, state or {})
        except Exception as error:
            raise LookupError(source) from error

    return read


# Not inside of `reader`: a function that calls itself is a cycle, and would keep the frame's variables alive.
def _value(
    node: ast.expr, f_locals: Mapping[str, object], f_globals: Mapping[str, object], state: Mapping[str, object]
) -> object:
    match node:
        case ast.Name(id=name) if name == STATE:
            return dict(state)
        case ast.Name(id=name):
            return f_locals[name]
        case ast.Attribute(value=owner, attr=name):
            return attribute(_value(owner, f_locals, f_globals, state), name)
        case ast.Subscript(value=ast.Name(id="G"), slice=ast.Constant(value=str(name))):
            return f_globals[name]
        case ast.Subscript(value=owner, slice=ast.Constant(value=key)):
            return item(_value(owner, f_locals, f_globals, state), key)
    raise TypeError(type(node).__name__)
