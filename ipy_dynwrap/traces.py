"""What torch tells while it compiles one frame: guards, graphs, generated code and phases, as plain values.

Torch's structured trace tells most of this, too, but it writes everything out as soon as anybody listens: graphs with
their stacks and metadata, and much that nobody asked for. Here the values are taken where they pass by, and what is
kept is small: no node, tensor, frame or guard. So nothing of the user's lives longer for it, and any thread may read.
"""

from __future__ import annotations

import contextlib
import functools
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from traceback import FrameSummary
from types import MappingProxyType
from typing import Any, NamedTuple

import torch

from . import dynamo, interrupts
from .recording import LISTING_LIMIT, cut
from .showing import shown

__all__ = ["GuardTrace", "TensorTrace", "Trace"]


@dataclass(frozen=True, slots=True)
class TensorTrace:
    """What is known of a tensor.

    Parameters
    ----------
    dtype, device
        As text, ``"float32"``, ``"cpu"``.
    shape
        The sizes as text; ``"None"`` for one that may be any.
    """

    dtype: str
    shape: tuple[str, ...]
    device: str


class GuardTrace(NamedTuple):
    """One guard, as torch has made it. A model has thousands, so this refers to what torch has, and copies nothing.

    Parameters
    ----------
    source, kind
        As in `snapshot.GuardInfo`.
    code
        What it checks, in torch's form, as far as torch writes it down.
    extra
        What else it was made with: the name of an attribute, a key.
    stack
        The lines that were being traced, the outermost first: texts and numbers only.
    tensor
        What it requires of a tensor, in torch's form and by itself.
    """

    source: str
    kind: str
    code: Sequence[str]
    extra: Mapping[str, str]
    stack: Sequence[FrameSummary]
    tensor: tuple[str, TensorTrace] | None


class Trace:
    """What torch tells of one compilation, and of the backward pass that belongs to it.

    Attributes
    ----------
    guards
        In the order in which torch checks them.
    inputs
        The inputs of the graph: the guard source, and what it is.
    listings
        Graphs and generated code, as (title, language, text), in the order in which they were made.
    phases
        The beginnings and ends of torch's phases, as (name, whether it begins, nanoseconds).
    disk_cache
        As in `snapshot.EntryDetails`.
    modes
        Torch's global state when the guards were made.
    size
        About how many bytes all this takes.
    """

    def __init__(self) -> None:
        self.guards: list[GuardTrace] = []
        self.inputs: list[tuple[str, TensorTrace | str]] = []
        self.listings: list[tuple[str, str, str]] = []
        self.phases: list[tuple[str, bool, int]] = []
        self.disk_cache: str | None = None
        self.modes: dict[str, str] = {}
        self.size = 0
        self._tensors: dict[str, tuple[str, TensorTrace]] = {}
        self._is_watching = False
        self._depth = 0  # of the compilations that run: a backend may compile something by itself

    @contextlib.contextmanager
    def watching(self) -> Iterator[None]:
        """Take note of what this thread compiles."""
        self._is_watching = True
        try:
            with dynamo.replaced_stages(
                graph=self._on_graph,
                aot=self._on_aot,
                tensor_guard=self._on_tensor_guard,
                guards=self._on_guards,
                begin=self._on_begin,
                end=self._on_end,
            ):
                yield
        finally:
            self._is_watching = False

    # Phases

    def _on_begin(self, original: Callable[..., Any], logger: Any, name: str, now: int, *rest: Any, **more: Any) -> Any:
        self.phases.append((name, True, now))
        self._depth += name == _WHOLE
        return original(logger, name, now, *rest, **more)

    def _on_end(self, original: Callable[..., Any], logger: Any, name: str, now: int, *rest: Any, **more: Any) -> Any:
        self.phases.append((name, False, now))
        self._depth -= name == _WHOLE
        return original(logger, name, now, *rest, **more)

    # Graphs and code

    def _on_graph(self, original: Callable[..., Any], output: Any, module: Any, inputs: Any) -> Any:
        if self._depth > 1:
            return original(output, module, inputs)
        self.listings, self.inputs, self.size = [], [], 0  # of an attempt before this one
        with _never_failing():
            self._add("FX graph", "python", _graph_text(module))
        with _never_failing():
            self.inputs = list(_inputs(module.graph))
        return original(output, module, inputs)

    def _on_aot(self, original: Callable[..., Any], *args: Any, **compilers: Any) -> Any:
        if self._depth > 1:
            return original(*args, **compilers)
        for name, part in (("inference_compiler", ""), ("fw_compiler", ", forward"), ("bw_compiler", ", backward")):
            if compilers.get(name) is not None:
                compilers[name] = self._watched(compilers[name], part)
        before = dynamo.disk_answers()
        with dynamo.replaced_post_compile(self._on_code):
            result = original(*args, **compilers)
        aot, graph = (now.minus(then) for now, then in zip(dynamo.disk_answers(), before, strict=True))
        if aot.hits or (graph.hits and not graph.misses):
            self.disk_cache = "hit"
        elif graph.misses or aot.misses:
            self.disk_cache = "miss"
        return result

    def _watched(self, compiler: Any, part: str) -> Any:
        """Return a compiler of AOT graphs that first takes note of its graph. It may be called at any later time."""
        run, rewrapped = dynamo.unwrapped_compiler(compiler)

        def compile_graph(module: Any, *args: Any, **kwargs: Any) -> Any:
            with _never_failing():
                self._add(f"AOT graph{part}", "python", _graph_text(module))
            if self._is_watching:
                return run(module, *args, **kwargs)
            # The backward pass, at its first run: what watches the compilation is gone, and it may be another thread.
            self.phases.append((_BACKWARD, True, time.time_ns()))
            try:
                with dynamo.interrupts_held():
                    compiled = run(module, *args, **kwargs)
            finally:
                self.phases.append((_BACKWARD, False, time.time_ns()))
            interrupts.deliver()
            with _never_failing():
                self._add_code(getattr(compiled, "_torchdynamo_orig_callable", compiled), part)
            return compiled

        return rewrapped(dynamo.keep_out(compile_graph))

    def _on_code(self, original: Callable[..., Any], compiled: Any, inputs: Any, constants: Any, options: Any) -> Any:
        with _never_failing():
            self._add_code(compiled, ", backward" if options.get("is_backward") else "")
        return original(compiled, inputs, constants, options)

    def _add_code(self, compiled: Any, part: str) -> None:
        code = getattr(compiled, "source_code", None)
        if isinstance(code, str):
            language = "cpp" if code.lstrip().startswith(("#include", "//")) else "python"
            self._add(f"generated code{part}", language, code)

    def _add(self, title: str, language: str, text: str) -> None:
        text = cut(text)
        self.listings.append((title, language, text))
        self.size += len(text)

    # Guards

    def _on_tensor_guard(
        self, original: Callable[..., str], value: Any, name: str, sizes: Any, *rest: Any, **more: Any
    ) -> str:
        text = original(value, name, sizes, *rest, **more)
        with _never_failing():
            self._tensors[name] = (text, _tensor(value, sizes))
        return text

    def _on_guards(
        self, original: Callable[..., Any], manager: Any, builder: Any, made: Any, *rest: Any, **more: Any
    ) -> Any:
        if self._depth > 1:
            return original(manager, builder, made, *rest, **more)
        with _never_failing():
            self.guards = list(map(self._guard, made))
            self.size += sum(_GUARD_SIZE + sum(map(len, each.code)) for each in self.guards)
            self.modes = {name: shown(value) for name, value in dynamo.global_state().items()}
        self._tensors = {}
        return original(manager, builder, made, *rest, **more)

    def _guard(self, guard: Any) -> GuardTrace:
        make, source, kind = guard.create_fn, guard.name, guard.create_fn_name()
        extra, tensor = _NOTHING, None
        if isinstance(make, functools.partial):
            if kind == "TENSOR_MATCH":
                tensor = self._tensors.get(source)
            else:
                extra = {name: text for name, value in make.keywords.items() if (text := _plain(value)) is not None}
        return GuardTrace(source, kind, guard.code_list or (), extra, guard.user_stack or (), tensor)


# The phase of a whole compilation, and ours of a later one.
_WHOLE, _BACKWARD = "dynamo", "backward"
_GUARD_SIZE = 300  # what a guard takes beside its code, about
_NOTHING: Mapping[str, str] = MappingProxyType({})


@contextlib.contextmanager
def _never_failing() -> Iterator[None]:
    """Go on without a note that cannot be taken: what is told of a compilation may not stop it."""
    with contextlib.suppress(Exception):
        yield


def _plain(value: Any) -> str | None:
    if (source := dynamo.name_of_source(value)) is not None:
        return source
    return repr(value) if value is None or type(value) in (str, int, bool) else None


def _tensor(value: Any, sizes: Any) -> TensorTrace:
    return TensorTrace(str(value.dtype).removeprefix("torch."), tuple(map(str, sizes)), str(value.device))


def _inputs(graph: Any) -> Iterator[tuple[str, TensorTrace | str]]:
    for node in graph.nodes:
        if node.op != "placeholder":
            return
        source = getattr(node.meta.get("grapharg"), "source", None)
        value = node.meta.get("example_value")
        name = source.name if source is not None else str(node.target)
        yield name, _tensor(value, value.shape) if isinstance(value, torch.Tensor) else _number(value)


def _number(value: Any) -> str:
    kind = {torch.SymInt: "int", torch.SymFloat: "float", torch.SymBool: "bool"}.get(type(value))
    return f"{kind} {value}" if kind is not None else shown(value)


# Torch's own printer takes thirty times as long, most of it for the formatting of whole stacks.


def _graph_text(module: Any, name: str = "graph") -> str:
    """Return a graph as Python, a line for each node, with what each is; then those of the modules that it holds."""
    lines, length = [f"def {name}({_parameters(module.graph)}):"], 0
    inner = []
    for node in module.graph.nodes:
        if node.op == "placeholder":
            continue
        line = f"    {_node_text(node)}"
        lines.append(line)
        length += len(line)
        if length > LISTING_LIMIT:
            lines.append("    # ... what follows is not kept")
            break
        if node.op == "get_attr" and hasattr(held := getattr(module, str(node.target), None), "graph"):
            inner.append((str(node.target), held))
    return "\n\n".join(["\n".join(lines), *(_graph_text(held, target) for target, held in inner)]) + "\n"


def _parameters(graph: Any) -> str:
    inputs = [f"\n    {node.name}{_annotation(node)}," for node in graph.nodes if node.op == "placeholder"]
    return f"{''.join(inputs)}\n" if inputs else ""


def _node_text(node: Any) -> str:
    args = [*map(repr, node.args), *(f"{name}={value!r}" for name, value in node.kwargs.items())]
    if node.op == "output":
        return f"return {args[0]}" if args else "return"
    if node.op == "get_attr":
        done = f"self.{node.target}"
    elif node.op == "call_method":
        done = f"{args[0]}.{node.target}({', '.join(args[1:])})"
    elif node.op == "call_module":
        done = f"self.{node.target}({', '.join(args)})"
    else:
        done = f"{_function_name(node.target)}({', '.join(args)})"
    return f"{node.name}{_annotation(node)} = {done}"


def _annotation(node: Any) -> str:
    meta = node.meta
    value = meta.get("val")
    if value is None:
        value = meta.get("example_value")
    if not isinstance(value, torch.Tensor):
        return ""
    return f': "{str(value.dtype).removeprefix("torch.")}[{", ".join(map(str, value.shape))}]"'


def _function_name(target: Any) -> str:
    if type(target).__module__ == "torch._ops":
        return str(target)
    name = getattr(target, "__qualname__", None) or getattr(target, "__name__", None) or type(target).__name__
    holder = getattr(target, "__module__", None) or getattr(getattr(target, "__self__", None), "__name__", None)
    return f"{holder or 'torch'}.{name}".removeprefix("_")
