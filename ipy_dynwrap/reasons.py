"""Why torch compiled again, in words.

TorchDynamo says which guard failed, in the words of its guards: ``0/1: target.k == 2  # def forward(...``. The user
wants to know what changed: ``self.k 2 -> 3``.
"""

from __future__ import annotations

import ast
import re
import types
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from .naming import STATE, Naming, keys_of, parse, reader
from .showing import line, literal, shown, type_name

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import CodeType

__all__ = ["Naming", "advice", "class_place", "describe", "graph_break", "is_edit", "line", "reader"]

_PREFIX = re.compile(r"\s*(?:!?\d+/)?\[?(?:\d+/\d+(?:_\d+)?|None)\]?:\s+")
_STACK = "\nUser stack trace:"
_CELL = re.compile(r'HINT: guard on "([^"]+)"')
_TENSOR = re.compile(r"tensor '(?P<source>.+?)' (?P<what>.+? mismatch.*)", re.DOTALL)
_IDENTITY = re.compile(
    r"___check_(?P<check>type_id|obj_id|fake_script_type)\((?P<source>.+), \d+\), type=(?P<type>.+)", re.DOTALL
)
_HOOKS = re.compile(r"(?P<owner>.+?)\._(?P<scope>global_)?(?P<when>forward|backward)(?P<pre>_pre)?_hooks(?P<rest>.*)")

_DTYPES = {
    "Float": "float32", "Double": "float64", "Half": "float16", "BFloat16": "bfloat16", "Byte": "uint8",
    "Char": "int8", "Short": "int16", "Int": "int32", "Long": "int64", "Bool": "bool", "ComplexHalf": "complex32",
    "ComplexFloat": "complex64", "ComplexDouble": "complex128",
}  # fmt: skip
_STATES = {
    "grad_mode": "grad mode",
    "torch_function": "__torch_function__",
    "deterministic_algorithms": "deterministic algorithms",
    "deterministic_algorithms_warn_only": "warn_only of deterministic algorithms",
    "allow_tf32": "float32 matmul precision",
    "num_threads": "number of threads",
    "default_dtype": "default dtype",
}


@dataclass(frozen=True, slots=True)
class _Frame:
    """What is known while one reason is put into words."""

    naming: Naming
    read: Callable[[str], object]
    where: Callable[[CodeType], str]
    cell: str | None

    def words(self, source: str | ast.expr) -> str:
        return self.naming.words(source if isinstance(source, str) else ast.unparse(source), self.cell)

    def value(self, source: str | ast.expr) -> tuple[object, ...]:
        """Return the value of now in a tuple, which is empty if it cannot be read."""
        text = source if isinstance(source, str) else ast.unparse(source)
        try:
            return (self.read(text.replace(".size()[", ".shape[")),)
        except LookupError:
            return ()

    def now(self, source: str | ast.expr) -> str | None:
        value = self.value(source)
        return shown(value[0]) if value else None


def _nowhere(_: CodeType) -> str:
    return ""


def describe(
    raw: str, naming: Naming, read: Callable[[str], object], where: Callable[[CodeType], str] = _nowhere
) -> str:
    """Return in one short line what changed.

    Parameters
    ----------
    raw
        One text of torch about one entry.
    naming
        How the names of the frame read.
    read
        Reads a guard source in the frame (`reader`); raises LookupError where it cannot.
    where
        Says where code was written: ``" in cell 7"``.

    Notes
    -----
    Never raises: the user waits for something else. A text that is not known is returned, without what torch wraps
    around it.
    """
    text, cell = _bare(raw)
    try:
        said = _said(text, _Frame(naming, read, where, cell))
    except Exception:  # noqa: BLE001 - what is said about a compilation may not stop it
        said = None
    if said is not None and "duck sizing" in raw:
        said += _DUCK
    # What was on Python's stack when the graph broke has no name of the user's.
    return line(re.sub(r"\b___stack\d+\b", "a value from before the graph break", said or text))


_INPUT_SIZE = re.compile(
    r"(?P<name>(?!self\b)[A-Za-z_]\w*(?:\[[^\]]+\])*)\.shape\[(?P<axis>\d+)\] (?P<old>\d+) -> (?P<new>\d+)"
)
_OF_ONE = re.compile(r"\S+\.shape\[\d+\] is [01], compiled for 2 <= \S+")
_INT_OF_MODULE = re.compile(r"self[.\[](?:(?!\.shape\[|\.stride\(|\.ndim)\S)+ -?\d+ -> -?\d+")


def advice(reason: str, kind: str = "") -> str | None:
    """Return what can be done about a reason, or None where nothing needs to be done.

    Parameters
    ----------
    reason
        A reason in words, as `describe` and the snapshots have it.
    kind
        The kind of the wrapper (`WrapperInfo.kind`): the ints of a module are constants to torch, others are not.
    """
    if kind == "module" and _INT_OF_MODULE.fullmatch(reason):
        return "an int attribute of a module is a constant of the graph; a tensor or a buffer may change"
    if (size := _INPUT_SIZE.fullmatch(reason)) is not None:
        if {"0", "1"} & {size["old"], size["new"]}:
            return _ZERO_AND_ONE
        call = f"torch._dynamo.mark_dynamic({size['name']}, {size['axis']})"
        return f"dynamic=True, or {call} before the first call, avoids this one"
    if _OF_ONE.fullmatch(reason):
        return _ZERO_AND_ONE
    if reason.endswith(_DUCK):
        return "let the two differ in the first call: torch takes sizes that are equal then for one"
    if reason == "backend object differs":
        return "pass the same backend object each time"
    return None


_ZERO_AND_ONE = "torch compiles the sizes 0 and 1 apart from all others"
_DUCK = " (equal in an earlier call)"


def is_edit(reason: str) -> bool:
    """Tell whether a reason is that the user has edited something, not that a program changes it."""
    return bool(re.search(r"( was defined again( in cell \d+| at \S+:\d+)?| replaced| is gone)$", reason))


# Where torch names what it could not trace: in a hint, in what it calls the context, in the explanation.
_BREAKER = (
    re.compile(r"Avoid calling (?:builtin )?`(?P<name>[^`]+)`"),
    re.compile(r"context: module: _?(?P<module>[\w.]+), qualname: (?P<name>[\w.]+)"),
    re.compile(r"[Ss]kip calling function `<function (?:\S+<locals>\.)?(?P<name>\S+) at"),
    re.compile(r"context: method: <(?P<module>\w+) .*?>\.(?P<name>\w+),"),
)


def graph_break(text: str) -> str:
    """Return in one line why a graph broke: torch's title for it, and what it is about.

    Parameters
    ----------
    text
        All that torch says: title, explanation, hints, context.
    """
    title = (text.splitlines() or [""])[0].strip()
    if title.startswith("generic_jump"):
        return "a branch on the value of a tensor"
    about = next((found for pattern in _BREAKER if (found := pattern.search(text)) is not None), None)
    if about is None:
        return line(title or "graph break")
    name = ".".join(filter(None, (about.groupdict().get("module"), about["name"])))
    return line(title if name in title else f"{title}: `{name}`")


def _bare(raw: str) -> tuple[str, str | None]:
    """Return the guard's own text, and the name of the closure cell that torch's hint gives."""
    text = raw.split(_STACK, 1)[0]
    cell = _CELL.search(text)
    prefix = _PREFIX.match(text)
    if prefix:
        text = text[prefix.end() :]
    # The comment begins where what is before it is a whole guard: a string in the guard may hold a # too.
    ends = [match.start() for match in re.finditer(r"\s+#", text)][:20]
    for end in ends:
        if parse(text[:end].split(", type=<", 1)[0]) is not None:
            return text[:end].strip(), cell and cell[1]
    text = text[: ends[0]] if ends else text.split(" (HINT: ", 1)[0]
    return text.strip(), cell and cell[1]


def _said(text: str, frame: _Frame) -> str | None:
    if match := _TENSOR.match(text):
        return _tensor(match["source"], match["what"], frame)
    if match := _IDENTITY.match(text):
        if match["check"] == "obj_id":
            return _identity(match["source"], match["type"], frame)
        return _type(match["source"], match["type"], frame)
    for pattern, say in _MESSAGES:
        if match := pattern.match(text):
            return say(match, frame)
    node = parse(text)
    return _guard(node, frame) if node is not None else None


def _tensor(source: str, what: str, frame: _Frame) -> str | None:
    name = frame.words(source)
    if match := re.match(r"(size|stride) mismatch at index (\d+)\. expected (\S+), actual (\S+?)\.?(?=\s|$)", what):
        index = f"shape[{match[2]}]" if match[1] == "size" else f"stride({match[2]})"
        return f"{name}.{index} {match[3]} -> {match[4]}"
    if match := re.match(r"rank mismatch\. expected (\d+), actual (\d+)", what):
        return f"{name}.ndim {match[1]} -> {match[2]}"
    if match := re.match(r"dtype mismatch\. expected (\w+), actual (\w+)", what):
        return f"{name}.dtype {_dtype(match[1])} -> {_dtype(match[2])}"
    if match := re.match(r"requires_grad mismatch\. expected requires_grad=(\d)", what):
        return f"{name}.requires_grad {match[1] == '1'} -> {match[1] == '0'}"
    if match := re.match(r"Tensor device index mismatch\. Expected device index to be (\S+), actual (\S+)", what):
        return f"{name}.device.index {match[1]} -> {match[2]}"
    if match := re.match(r"dispatch key set mismatch\. expected \w+\((.*?)\), actual \w+\((.*?)\)", what):
        return _dispatch_keys(name, set(match[1].split(", ")), set(match[2].split(", ")))
    return None


def _dtype(name: str) -> str:
    return _DTYPES.get(name, name[:1].lower() + name[1:])


def _dispatch_keys(name: str, before: set[str], after: set[str]) -> str:
    fresh, gone = after - before, before - after
    for keys, now in ((fresh, "now"), (gone, "no longer")):
        if any(key.startswith("FuncTorch") for key in keys):
            return f"{name} is {now} inside a torch.func transform"
        if "Conjugate" in keys:
            return f"{name} is {now} conjugated"
        if "Negative" in keys:
            return f"{name} is {now} negated"
    if not (fresh and gone) and all(key.startswith(("Autograd", "ADInplaceOrView")) for key in fresh | gone):
        # An inference tensor, or any tensor within inference mode: the key sets do not tell the two apart.
        return f"{name} is {'now' if gone else 'no longer'} without autograd (inference mode)"
    layouts = [_layout(keys) for keys in (gone, fresh)]
    if layouts[0] != layouts[1]:
        return f"{name}.layout {layouts[0]} -> {layouts[1]}"
    devices = [sorted(key for key in keys if f"Autograd{key}" in keys) for keys in (gone, fresh)]
    if all(devices):
        return f"{name}.device {devices[0][0].lower()} -> {devices[1][0].lower()}"
    changes = [f"+{key}" for key in sorted(fresh)] + [f"-{key}" for key in sorted(gone)]
    return f"{name}: dispatch keys {' '.join(changes)}"


def _layout(keys: set[str]) -> str:
    for prefix, layout in (("SparseCsr", "sparse_csr"), ("Sparse", "sparse_coo"), ("Mkldnn", "mkldnn")):
        if any(key.startswith(prefix) for key in keys):
            return layout
    return "strided"


def _type(source: str, old: str, frame: _Frame) -> str:
    name, value = frame.words(source), frame.value(source)
    before = type_name(old)
    if not value:
        return f"type of {name} was {before[1]}"
    after = type_name(repr(type(value[0])))
    if before == after:
        return _class_again(type(value[0]), frame)
    # Equal last names need their modules to be told apart.
    same = before[1] == after[1]
    return f"{name}: {before[0 if same else 1]} -> {after[0 if same else 1]}"


def _identity(source: str, old: str, frame: _Frame) -> str:
    if re.search(r"\]\.__code__$", source) and (hooks := _HOOKS.match(source)):
        return f"{_hook_kind(hooks)} of {_hook_owner(hooks, frame)} was replaced"
    name = frame.words(source)
    if source.endswith(".__code__"):
        new, code = frame.now(source.removesuffix(".__code__")), frame.value(source)
        if name.rsplit(".", 1)[-1] == new or name == frame.naming.target:
            where = frame.where(code[0]) if code and isinstance(code[0], types.CodeType) else ""
            return f"{name} was defined again{where}"
        return f"{name} is another function" + (f", now {new}" if new else "")
    value = frame.value(source)
    before = type_name(old)
    kind = before[1]
    if not value:
        return f"{name} is another {kind}"
    is_class = issubclass(type(value[0]), type)
    after = type_name(repr(value[0] if is_class else type(value[0])))
    if before != after:
        return f"{name}: {kind} -> {after[1]}"
    if is_class:
        return _class_again(value[0], frame)
    new = shown(value[0])
    return f"{name} is another {kind}" + ("" if kind in new else f", now {new}")


def _deallocated(match: re.Match[str], frame: _Frame) -> str:
    """Say what became of what was there: where the name stands for something, it was defined again."""
    source = match[1]
    value = frame.value(source)
    if value and isinstance(value[0], types.FunctionType):
        return _identity(f"{source}.__code__", "", frame)
    if value and (isinstance(value[0], types.CodeType) or issubclass(type(value[0]), type)):
        return _identity(source, repr(value[0]), frame)
    return f"{frame.words(source)} is gone"


def _class_again(cls: Any, frame: _Frame) -> str:
    return f"class {cls.__name__} was defined again{class_place(cls, frame.where)}"


def class_place(cls: type, where: Callable[[CodeType], str]) -> str:
    """Say where a class was written, as far as its own functions tell; empty if they do not."""
    for value in type.__dict__["__dict__"].__get__(cls).values():
        if isinstance(value, types.FunctionType) and value.__module__ == cls.__module__:
            return where(value.__code__)
    return ""


def _hook_kind(match: re.Match[str]) -> str:
    before = "global " if match["scope"] else ""
    kind = "backward " if match["when"] == "backward" else ""
    return f"{before}{kind}{'pre-hook' if match['pre'] else 'hook'}"


def _hook_owner(match: re.Match[str], frame: _Frame) -> str:
    return "all modules" if match["scope"] else frame.words(match["owner"])


def _state(match: re.Match[str], frame: _Frame) -> str:
    said = []
    for name in match[1].split():
        word = _STATES.get(name) or re.sub(r"_enabled$", "", name).replace("_", " ")
        value = frame.value(f"{STATE}[{name!r}]")
        if not value:
            said.append(f"{word} changed")
        elif isinstance(value[0], bool):
            said.append(f"{word} {'off -> on' if value[0] else 'on -> off'}")
        else:
            said.append(f"{word} changed, now {shown(value[0])}")
    return ", ".join(said) or "global state changed"


def _backend(match: re.Match[str], frame: _Frame) -> str:
    del frame
    # Addresses tell objects apart, but say nothing.
    texts = [re.sub(r" at 0x\w+| \(id=\w+\)", "", text) for text in match.groups()]
    fields = [dict(re.findall(r"(compiler|dynamic)='?([^',)]+)", text)) for text in texts]
    names = [known.get("compiler", text) for known, text in zip(fields, texts, strict=True)]
    if names[0] != names[1]:
        return f"backend {names[0]} -> {names[1]}"
    if fields[0].get("dynamic") != fields[1].get("dynamic"):
        return f"dynamic {fields[0].get('dynamic')} -> {fields[1].get('dynamic')}"
    return "backend object differs"


def _not_a_tensor(match: re.Match[str], frame: _Frame) -> str:
    source, found = match[1], type_name(match[2])[1]
    expected = "Parameter" if "._parameters[" in source else "Tensor"
    if found == expected:
        expected = "another kind of tensor"
    return f"{frame.words(source)}: {expected} -> {found}"


def _gone(text: re.Match[str], frame: _Frame) -> str:
    source, name = text[1], frame.words(text[1])
    naming = frame.naming
    keywords = "kwargs" if naming.generic else naming.target and naming.keywords
    match = re.fullmatch(r"(\w+)\['(.+?)'\]", source)
    if match and match[1] == keywords:
        return f"keyword {match[2]} is no longer passed"
    now = frame.now(source)
    return f"{name} is gone" if now is None else f"{name} is now {now}"


def _no_function(match: re.Match[str], frame: _Frame) -> str:
    source = match[1].removesuffix(".__code__")
    value = frame.value(source)
    return f"{frame.words(source)}: function -> {type_name(repr(type(value[0])))[1] if value else 'another type'}"


def _aliases(match: re.Match[str], frame: _Frame) -> str:
    names = [frame.words(source) for source in re.findall(r'"([^"]+)"', match[1])]
    return f"{' and '.join(names)} are the same tensor" if names else "two arguments are the same tensor"


def _overlap(match: re.Match[str], frame: _Frame) -> str:
    del match, frame
    return "tensors share memory in another way"


def _marked(match: re.Match[str], frame: _Frame) -> str:
    del frame
    kind = {"_dynamo_static_indices": "mark_static", "_dynamo_dynamic_indices": "mark_dynamic"}.get(match[1])
    return f"a tensor was marked with {kind or 'mark_dynamic or the like'}"


def _always(text: str) -> Callable[[re.Match[str], _Frame], str]:
    return lambda *_: text


_MESSAGES: tuple[tuple[re.Pattern[str], Callable[[re.Match[str], _Frame], str]], ...] = tuple(
    (re.compile(pattern, re.DOTALL), say)
    for pattern, say in (
        (r"GLOBAL_STATE changed:(.*)", _state),
        (r"BACKEND_MATCH failure.*?Cached backend: (.*?)\. New backend: (.*?)\.(?:\s|$)", _backend),
        (r"expected type of '(.+)' to be a tensor type,.*?but found (.+)", _not_a_tensor),
        (r"(?:KeyError|IndexError|getattr failed) on (?:source )?(.+)", _gone),
        (r"CodeGuardAccessor: Not a function on (.+)", _no_function),
        (r"TYPE_MISMATCH\((.+)\)", lambda match, frame: _now("type of", match[1], frame)),
        (r"Duplicate tensors? found(.*)", _aliases),
        (r"check_overlapping\(", _overlap),
        (r"(_\w+) (?:is present on|should be absent|mismatch: expected|not a subset)", _marked),
        (r"Cache line invalidated because (.+) got deallocated", _deallocated),
        (r"Unexpected recompilation", _always("no guard fails any more: something changed while torch compiled")),
        (r"___check_torch_function_mode_stack\(", _always("torch function modes or the default device changed")),
        (r"utils_device\.CURRENT_DEVICE == ", _always("default device changed")),
        (r"torch\._functorch\.pyfunctorch\.compare_functorch_state\(", _always("torch.func transforms changed")),
        (r"torch\._functorch\.aot_autograd\.utils\.top_saved", _always("saved tensor hooks changed")),
        (r"torch\.autograd\.forward_ad\._current_level == ", _always("forward-mode AD level changed")),
        (r"___check_metadata_", _always("metadata of a tensor subclass changed")),
        (r"__dtensor_spec_", _always("layout of a DTensor changed")),
        (r"___check_opaque_guard_fn_", _always("state of an opaque object changed")),
        (r'"?Shape guard failed with values', _always("a size or number left the range that was compiled for")),
    )
)


def _now(before: str, source: str, frame: _Frame) -> str:
    value = frame.value(source)
    after = f", now {type(value[0]).__name__}" if value else ""
    return f"{before} {frame.words(source)} changed{after}"


def _guard(node: ast.expr, frame: _Frame) -> str | None:
    match node:
        case ast.UnaryOp(op=ast.Not(), operand=ast.Call() as call) if ast.unparse(call.func) != "len":
            return _contains(call, frame, fresh=True)
        case ast.UnaryOp(op=ast.Not(), operand=operand):
            return _length(ast.unparse(operand), "0", frame)
        case ast.Call():
            return _contains(node, frame, fresh=False)
        case ast.BoolOp(op=ast.And(), values=[_, ast.Call(func=ast.Name(id=name), args=[source])]) if "isnan" in name:
            return f"{frame.words(source)} nan -> {frame.now(source) or 'another value'}"
        case ast.Compare(left=left, ops=[op], comparators=[right]):
            return _compared(node, left, op, right, frame)
    return _relation(node, frame)


def _contains(call: ast.Call, frame: _Frame, *, fresh: bool) -> str | None:
    name, args = ast.unparse(call.func), call.args
    if name.endswith("isnan") and args:
        return f"{frame.words(args[0])} became nan" if fresh else f"{frame.words(args[0])} is no longer nan"
    if len(args) != 2:
        return None
    if name == "___dict_contains":
        key, owner = args
    elif name in ("set.__contains__", "hasattr"):
        owner, key = args
    else:
        return None
    text = ast.unparse(owner)
    if name == "hasattr" or text.endswith(".__dict__"):
        member = f"{frame.words(text.removesuffix('.__dict__'))}.{ast.unparse(key).strip(chr(39))}"
        return f"{member} was set on the object" if fresh else f"{member} is gone"
    kind = "was added to" if fresh else "is no longer in"
    return f"{literal(ast.unparse(key))} {kind} {frame.words(owner)}"


def _compared(node: ast.expr, left: ast.expr, op: ast.cmpop, right: ast.expr, frame: _Frame) -> str | None:
    old = ast.unparse(right)
    match left:
        case ast.Call(func=ast.Name(id="len"), args=[source]):
            return _length(ast.unparse(source), old, frame)
        case ast.Call(func=ast.Name(id="hasattr")) if old == "False":
            return _contains(left, frame, fresh=True)
        case ast.Call(func=ast.Name(id=name), args=[source]) if name in ("int", "float", "str", "complex", "bytes"):
            left = source
    if said := _summary(left, frame):
        return said
    match left:
        case ast.Compare(left=first, ops=[ast.Is()], comparators=[second]) if old in ("True", "False"):
            again = "no longer the same object" if old == "True" else "the same object now"
            return f"{frame.words(first)} and {frame.words(second)} are {again}"
    name = frame.words(left)
    if isinstance(op, ast.IsNot):
        return f"{name} is None now"
    if isinstance(op, ast.Is) and old != "None":
        return f"{name} and {frame.words(right)} are no longer the same object"
    if isinstance(op, ast.Is | ast.Eq) and _is_value(right) and not isinstance(left, ast.BinOp | ast.UnaryOp):
        before, now = literal(old), frame.now(left)
        if now is None:
            return f"{name} was {before}"
        if now == before:
            now = f"{now} ({type(frame.value(left)[0]).__name__})"
        return f"{name} {before} -> {now}"
    return _relation(node, frame)


def _summary(node: ast.expr, frame: _Frame) -> str | None:
    """Say that something changed of which torch compares a summary only."""
    match node:
        case ast.Call(func=ast.Name(id="___dict_version"), args=[source]):
            return f"{frame.words(source)} changed"
        case ast.Call(func=ast.Name(id=name), args=[source]) if name.startswith("___") and "iter" in name:
            return f"iterator {frame.words(source)} stands elsewhere"
        case ast.Call(func=ast.Attribute(value=source, attr="raw_repr")):
            return f"{frame.words(source)}: other dispatch keys"
    keys = keys_of(node)
    if keys is None and isinstance(node, ast.Subscript):
        keys = keys_of(node.value)
    return f"keys of {frame.words(keys)} changed" if keys is not None else None


def _is_value(node: ast.expr) -> bool:
    """Tell a value that torch has written down from another guard source."""
    text = ast.unparse(node)
    if text.startswith(("torch.", "<")) or isinstance(node, ast.Call):
        return True
    try:
        ast.literal_eval(node)
    except ValueError:
        return False
    return True


def _length(source: str, old: str, frame: _Frame) -> str:
    value = frame.value(source)
    container: Any = value[0] if value and issubclass(type(value[0]), dict | list | tuple | set | frozenset) else None
    new = None if container is None else len(container)
    naming = frame.naming
    if hooks := _HOOKS.match(source):
        owner = _hook_owner(hooks, frame)
        if new is None or str(new) == old or hooks["rest"]:
            return f"hooks of {owner} changed"
        done = "added to" if not old.isdecimal() or new > int(old) else "removed from"
        return f"{_hook_kind(hooks)} {done} {owner}"
    if (source == "kwargs" and naming.generic) or (naming.target is not None and source == naming.keywords):
        if old == "0" and container:
            return f"keyword arguments none -> {', '.join(map(str, container))}"
        return "keyword arguments changed" + (f", now {', '.join(map(str, container))}" if container else "")
    name = f"len({frame.words(source)})"
    if source == "args" and naming.generic:
        name = "number of arguments"
    elif match := re.fullmatch(r"(.+)\._(modules|parameters|buffers)", source):
        name = f"number of {match[2]} in {frame.words(match[1])}"
    elif naming.target is not None and source == naming.variadic:
        name = f"number of *{source}"
    return f"{name} was {old}" if new is None else f"{name} {old} -> {new}"


def _relation(node: ast.expr, frame: _Frame) -> str | None:
    """Say of a condition on sizes and numbers what it is, and what they are now."""
    if not isinstance(node, ast.Compare | ast.BoolOp | ast.BinOp):
        return None
    said: dict[str, str] = {}
    for source in _sources(node):
        now = frame.now(source)
        if now is not None:
            said.setdefault(frame.words(source), now)
    values = ", ".join(f"{name} is {now}" for name, now in said.items())
    return f"{values}, compiled for {frame.words(node)}" if values else f"compiled for {frame.words(node)}"


def _sources(node: ast.AST) -> list[ast.expr]:
    """Return the longest guard sources in an expression, from left to right."""
    if isinstance(node, ast.Name | ast.Attribute | ast.Subscript):
        return [node]
    return [source for child in ast.iter_child_nodes(node) for source in _sources(child)]
