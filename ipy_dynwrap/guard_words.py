"""What a guard requires, in the user's words: ``x: float32 of shape (4, 16) on cpu``, ``self.mode == 'a'``."""

from __future__ import annotations

import ast
import functools
import re
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from .guard_kinds import KINDS
from .naming import Naming, parse
from .showing import type_name

if TYPE_CHECKING:
    from .traces import GuardTrace, TensorTrace

__all__ = ["named", "required"]

_LOCAL = re.compile(r"\bL\[(['\"])(\w+)\1\]")
_TYPE = re.compile(r", type=(<.*>)$", re.DOTALL)
_HOOKS = re.compile(r"_(?P<direction>forward|backward)(?P<before>_pre)?_hooks(?P<rest>_with_kwargs|_always_called)?$")
_WHAT = {name: kind.what for kind in KINDS for name in kind.torch}
_MEMBERSHIP = ("___dict_contains", "set.__contains__")


def required(guard: GuardTrace, naming: Naming, modes: Mapping[str, str]) -> str:
    """Return in words what a guard requires.

    Parameters
    ----------
    guard
        As torch has made it.
    naming
        How the names in the frame read.
    modes
        Torch's global state when it was made, by torch's names.

    Notes
    -----
    Never raises, and never returns nothing: a guard that is not known is shown in torch's form.
    """
    try:
        said = _said(guard, naming, modes)
    except Exception:  # noqa: BLE001 - a text for the eye
        said = ""
    return said or "; ".join(guard.code) or f"{guard.kind} {guard.source}".strip()


def _tensor(tensor: TensorTrace) -> str:
    """Return what a tensor is: ``float32 of shape (4, any) on cpu``."""
    sizes = ["any" if size == "None" else size for size in tensor.shape]
    shape = f"({', '.join(sizes)}{',' if len(sizes) == 1 else ''})"
    return f"{tensor.dtype} of shape {shape} on {tensor.device}"


def _said(guard: GuardTrace, naming: Naming, modes: Mapping[str, str]) -> str:
    name = named(guard.source, naming)
    if guard.tensor is not None:
        return f"{name}: {_tensor(guard.tensor[1])}"
    if (say := _KINDS.get(guard.kind)) is not None:
        return say(guard, name, naming)
    if guard.kind in _MODES:
        return _MODES[guard.kind](modes)
    if not guard.code:
        return _WHAT.get(guard.kind, "")
    return "; ".join(_expression(text, naming) for text in guard.code)


@functools.lru_cache(maxsize=4096)  # the guards of an entry are about few objects, and entries about the same ones
def named(source: str, naming: Naming) -> str:
    """Return a guard source, or an expression over some, as torch writes it, in the user's words."""
    return naming.words(_LOCAL.sub(r"\2", source))


def _expression(text: str, naming: Naming) -> str:
    if (found := _TYPE.search(text)) is not None:
        return _same(text, found[1], naming)
    node = parse(text)
    absent = isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not)
    call = node.operand if isinstance(node, ast.UnaryOp) and absent else node
    if isinstance(call, ast.Call) and len(call.args) == 2 and (function := ast.unparse(call.func)) in _MEMBERSHIP:
        key, owner = map(ast.unparse, call.args if function == "___dict_contains" else reversed(call.args))
        return f"{named(key, naming)} is {'not ' if absent else ''}in {named(owner, naming)}"
    return named(text.replace(".size()[", ".shape["), naming)


def _same(text: str, kind: str, naming: Naming) -> str:
    """Say of a text with ``type=<class ...>`` which type, or which object, is required."""
    source = named(text[text.index("(") + 1 : text.rindex(", ", 0, text.rindex("), type="))], naming)
    name = type_name(kind)[1]
    if text.startswith("___check_type_id"):
        return f"type of {source} is {name}"
    if name == "code":
        return f"{source} has the same code"
    return f"{source} is the same {_THINGS.get(name) or f'{name} object'}"


_THINGS = {
    "function": "function",
    "built-in function": "built-in function",
    "module": "module",
    "type": "class",
    "method_descriptor": "method",
}


def _hooks(guard: GuardTrace, name: str, naming: Naming) -> str:
    found = _HOOKS.search(guard.source)
    if found is None:
        return f"{name} is empty"
    owner = named(guard.source[: found.start()].removesuffix("."), naming)
    backward = "backward " if found["direction"] == "backward" else ""
    rest = (found["rest"] or "").replace("_", " ")
    return f"{owner} has no {backward}{'pre-hooks' if found['before'] else 'hooks'}{rest}"


def _length(guard: GuardTrace, name: str, naming: Naming) -> str:
    said = [_expression(text, naming) for text in guard.code]
    size = re.search(r"== (\d+)$", guard.code[-1]) if guard.code else None
    if size is not None and guard.source == "L['args']" and naming.generic:
        return f"number of arguments is {size[1]}"
    if size is not None:
        return f"len({name}) == {size[1]}"
    return "; ".join(said)


def _keys(guard: GuardTrace, name: str, naming: Naming) -> str:
    listed = re.search(r"== (\[.*\])$", guard.code[-1], re.DOTALL) if guard.code else None
    if listed is None:
        return f"keys of {name} stay the same, in order"
    if guard.source == "L['kwargs']" and naming.generic:
        return "no keyword arguments" if listed[1] == "[]" else f"keyword arguments are {listed[1][1:-1]}"
    return f"keys of {name} are {listed[1]}"


def _absent(guard: GuardTrace, name: str, _: Naming) -> str:
    attribute = guard.extra.get("attr", "").strip("'")
    if guard.source.startswith("G[") and guard.source.endswith("]"):
        return f"{attribute} is no global variable"
    return f"{name} has no attribute {attribute} of its own"


def _key(guard: GuardTrace, name: str, naming: Naming) -> str:
    if "NOT" in guard.kind and guard.source.startswith("G['___unnamed_scope_"):
        return f"{guard.extra.get('key', 'a name').strip(chr(39))} is no global variable"
    if guard.code:
        return "; ".join(_expression(text, naming) for text in guard.code)
    return f"{guard.extra.get('key', 'a key')} is {'not ' if 'NOT' in guard.kind else ''}in {name}"


def _attribute(guard: GuardTrace, name: str, naming: Naming) -> str:
    attribute = guard.extra.get("attr", "").strip("'")
    if not attribute:
        return "; ".join(_expression(text, naming) for text in guard.code)
    absent = any(text.startswith("not ") or text.endswith("== False") for text in guard.code)
    return f"{name} has {'no' if absent else 'an'} attribute {attribute}"


def _identity(guard: GuardTrace, name: str, naming: Naming) -> str:
    other = named(guard.extra.get("other", ""), naming)
    return f"{name} and {other} are {'the same object' if guard.extra.get('same') == 'True' else 'two objects'}"


def _sizes(guard: GuardTrace, _: str, naming: Naming) -> str:
    return "; ".join(_expression(text, naming) for text in guard.code) or "no size depends on another"


def _duplicate(guard: GuardTrace, name: str, naming: Naming) -> str:
    others = [part for text in guard.code for part in text.split(" is ")]
    return f"{' and '.join(named(each, naming) for each in others) or name} are the same object"


_KINDS: Mapping[str, Callable[[GuardTrace, str, Naming], str]] = {
    "CLASS_MATCH": lambda _, name, __: f"{name} is the same class",
    "CLOSURE_MATCH": lambda _, name, __: f"{name} is the same function",
    "DICT_CONTAINS": _key,
    "DICT_KEYS_MATCH": _keys,
    "DICT_NOT_CONTAINS": _key,
    "DUPLICATE_INPUT": _duplicate,
    "EMPTY_NN_MODULE_HOOKS_DICT": _hooks,
    "HASATTR": _attribute,
    "MAPPING_KEYS_CHECK": _keys,
    "NOT_NONE_MATCH": lambda _, name, __: f"{name} is not None",
    "NOT_PRESENT_IN_GENERIC_DICT": _absent,
    "SEQUENCE_LENGTH": _length,
    "SHAPE_ENV": _sizes,
    "WEAKREF_ALIVE": lambda _, name, __: f"{name} still exists",
    # Those that this package adds (`dynamo.py`).
    "_odict_order": lambda _, name, __: f"order of the keys of {name} stays the same",
    "_same_or_not": _identity,
}


def _mode(name: str, words: str) -> Callable[[Mapping[str, str]], str]:
    def say(modes: Mapping[str, str]) -> str:
        value = {"True": "on", "False": "off"}.get(modes.get(name, ""), modes.get(name, ""))
        return f"{words}: {value}" if value else f"{words}: as it is"

    return say


_MODES: Mapping[str, Callable[[Mapping[str, str]], str]] = {
    "AUTOGRAD_SAVED_TENSORS_HOOKS": lambda _: "hooks for saved tensors stay the same",
    "DEFAULT_DEVICE": lambda _: "default device stays the same",
    "DETERMINISTIC_ALGORITHMS": _mode("deterministic_algorithms", "deterministic algorithms"),
    "DUAL_LEVEL": lambda _: "level of forward-mode AD stays the same",
    "FSDP_TRAINING_STATE": lambda _: "state of FSDP stays the same",
    "FUNCTORCH_STACK_MATCH": lambda _: "torch.func transforms stay the same",
    "GLOBAL_STATE": lambda modes: (
        f"{_mode('grad_mode', 'grad mode')(modes)}, {_mode('default_dtype', 'default dtype')(modes)}, "
        f"{_mode('num_threads', 'threads')(modes)}; autocast and the like stay the same"
    ),
    "GRAD_MODE": _mode("grad_mode", "grad mode"),
    "TORCH_FUNCTION_STATE": lambda _: "torch function modes stay the same",
}
