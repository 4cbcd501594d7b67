"""The one reader of torch's private API.

Everything here is a question to TorchDynamo or a setting of it. tests/integration/test_dynamo_contract.py has a test
for each name that is used, so that a new torch release says in one line what moved.
"""

from __future__ import annotations

import contextlib
import copy
import enum
import functools
import gc
import inspect
import logging
import os
import re
import sys
import threading
import types
import weakref
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from types import CodeType, FunctionType, TracebackType
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from . import interrupts
from .identities import ByIdentity
from .persist_sizes import Answers
from .sources import PARTS, is_static, mro, namespace, own_dict
from .supported import require

require()  # before anything that another torch may not have

import torch
import torch._dynamo
import torch.autograd.graph
import torch.fx
import torch.nn
import torch.overrides
import torch.utils.checkpoint
from torch._C._dynamo.eval_frame import (
    _debug_get_cache_entry_list,
    _get_cache_entries_for_region,
    get_eval_frame_callback,
    get_eval_frame_isolate_recompiles_id,
    set_code_exec_strategy,
    set_eval_frame_isolate_recompiles_id,
)
from torch._C._dynamo.eval_frame import _FrameAction as FrameAction
from torch._C._dynamo.eval_frame import _FrameExecStrategy as FrameExecStrategy
from torch._C._dynamo.eval_frame import reset_code as _reset_code
from torch._dynamo import config, convert_frame, decorators, eval_frame, exc, trace_rules
from torch._dynamo import guards as guards_module
from torch._dynamo.backends import common as backends_common
from torch._dynamo.bytecode_transformation import _cached_cleaned_instructions
from torch._dynamo.eval_frame import (
    OptimizedModule,
    check_for_incompatible_configs,
    innermost_backend,
    innermost_fn,
    set_eval_frame,
)
from torch._dynamo.external_utils import wrap_inline
from torch._dynamo.guards import (
    CheckFunctionManager,
    DeletedGuardManagerWrapper,
    GuardBuilder,
    code_framelocals_names_reversed_cached,
    get_and_maybe_log_recompilation_reasons,
    get_verbose_code_parts,
    install_guard,
)
from torch._dynamo.output_graph import OutputGraph
from torch._dynamo.pgo import CodeId, FrameStateSizeEntry, auto_dynamic, auto_unset, get_code_state
from torch._dynamo.resume_execution import TORCH_DYNAMO_RESUME_IN_PREFIX
from torch._dynamo.source import (
    AttrSource,
    DictGetItemSource,
    GetItemSource,
    GlobalSource,
    LocalSource,
    TypeDictSource,
    TypeMROSource,
    is_from_skip_guard_source,
)
from torch._dynamo.symbolic_convert import (
    InliningInstructionTranslator,
    InstructionTranslator,
    InstructionTranslatorBase,
    _import_module,
    compare_op_handlers,
)
from torch._dynamo.types import ConvertFrameReturn, GuardedCode
from torch._dynamo.utils import ChromiumEventLogger, counters, get_metrics_context, graph_break_reasons
from torch._dynamo.variables import ConstantVariable, SymNodeVariable, builtin, lists, object_protocol
from torch._dynamo.variables import builder as variable_builder
from torch._dynamo.variables.builder import VariableBuilder
from torch._dynamo.variables.dicts import ConstDictVariable, SideEffectsProxyDict
from torch._dynamo.variables.functions import UserFunctionVariable, WrapperUserFunctionVariable
from torch._dynamo.variables.lists import CommonListMethodsVariable
from torch._dynamo.variables.misc import PythonModuleVariable
from torch._dynamo.variables.object_protocol import _get_cached_slots
from torch._dynamo.variables.user_defined import UserDefinedClassVariable, UserDefinedObjectVariable
from torch._functorch._aot_autograd.schemas import SerializableAOTDispatchCompiler
from torch._guards import Source
from torch._library.simple_registry import find_torch_dispatch_rule
from torch.nn.modules import module
from torch.nn.modules.lazy import LazyModuleMixin
from torch.utils._config_module import _UNSET_SENTINEL
from torch.utils._python_dispatch import _get_current_dispatch_mode
from torch.utils.data import dataloader

if TYPE_CHECKING:
    from .options import Options
    from .persist_sizes import Part, Sizes

__all__ = ["Compiler", "Frame", "Observer", "Outcome"]

_F = TypeVar("_F", bound=Callable[..., Any])

# What torch offers


def option_names() -> set[str]:
    """Return the names of the options of `torch.compile`."""
    return set(inspect.signature(torch.compile).parameters) - {"model"}


def backends() -> list[str]:
    """Return the names of the registered backends, those for debugging included."""
    from torch._dynamo.backends.registry import list_backends

    return sorted(list_backends(exclude_tags=()))


def modes() -> list[str]:
    """Return the names of inductor's modes."""
    from torch._inductor import list_mode_options

    return sorted(list_mode_options())


def compiler_problem() -> str | None:
    """Say in a clause why inductor cannot build for the CPU here, or return None."""
    from torch._inductor.cpp_builder import get_cpp_compiler

    try:
        get_cpp_compiler()
    except Exception:  # noqa: BLE001 - InvalidCxxCompiler; older releases raised others
        return "backend 'inductor' needs a C++ compiler, and none was found"
    return None


def recompile_limit(options: Options | None = None) -> int:
    """Return how many entries one code object may have, under `options`."""
    own = options.given.get("recompile_limit") if options is not None else None
    return int(_setting("recompile_limit") if own is None else own)


def accumulated_recompile_limit() -> int:
    """Return how many entries one code object may have over all regions."""
    return int(_setting("accumulated_recompile_limit"))


def _setting(name: str) -> Any:

    inherited = _set_by_main_thread()
    return inherited[name] if name in inherited else getattr(config, name)


# What is called


MODULE_CALL: CodeType = torch.nn.Module._wrapped_call_impl.__code__
"""The code object that every call of an `nn.Module` runs first."""


@functools.cache
def barrier_codes() -> frozenset[CodeType]:
    """Return the code objects inside of which nothing may be compiled on its own.

    Each is there for one reason: what is already compiled, or marked as not to be, stays as it is; a backward pass and
    a checkpoint's first run must do what eager does, since the one is compared with the other; data loading is the
    user's input pipeline, not the model; and a tracer must see the user's own operations.
    """

    def nothing() -> None: ...

    compiled = torch.compile(nothing, backend="eager")
    already_or_never = (
        compiled,
        eval_frame.OptimizedModule.__call__,
        wrap_inline(nothing),
        torch.compiler.disable(nothing),
    )
    return _codes(already_or_never) | inner_barrier_codes()


@functools.cache
def inner_barrier_codes() -> frozenset[CodeType]:
    """Return those of `barrier_codes` that Dynamo's callback does not tell of: it is the same inside of them."""
    candidates: list[Any] = [
        torch.autograd.graph._engine_run_backward,
        torch.utils.checkpoint.checkpoint,
        dataloader._BaseDataLoaderIter.__next__,
        torch.fx.Tracer.trace,
        torch.jit.trace,
        torch.jit.script,
        torch.export.export,
    ]
    return _codes(candidates)


def _codes(functions: Iterable[Any]) -> frozenset[CodeType]:
    return frozenset(code for each in functions if isinstance(code := getattr(each, "__code__", None), CodeType))


def is_generated(code: CodeType) -> bool:
    """Tell whether Dynamo made `code`: a compiled entry, or the rest of a function after a graph break."""
    return code.co_name.startswith(TORCH_DYNAMO_RESUME_IN_PREFIX) or code in convert_frame.output_codes


def is_left_alone(target: Any) -> bool:
    """Tell whether `target` is already compiled, scripted, or marked as not to be compiled."""
    if isinstance(target, torch.nn.Module):
        return target._compiled_call_impl is not None or isinstance(target, OptimizedModule | torch.jit.ScriptModule)
    if isinstance(target, torch.jit.ScriptFunction):
        return True
    marks = getattr(target, "__dict__", None) or {}
    if "_torchdynamo_inline" in marks and marks.get("_torchdynamo_wrapper_id") != id(target):
        # functools.wraps has copied the mark of a compiled function to its wrapper, and Dynamo would go by the mark.
        return True
    return marks.get("_torchdynamo_disable", False) is True


def is_module(target: object) -> bool:
    """Tell whether `target` is an `nn.Module`."""
    return isinstance(target, torch.nn.Module)


def is_tensor(value: object) -> bool:
    """Tell whether `value` is a tensor."""
    return isinstance(value, torch.Tensor)


def subclasses_unasked() -> contextlib.AbstractContextManager[object]:
    """Return what is entered while a tensor says of itself what its own class, and no `__torch_function__`, says."""
    return torch._C.DisableTorchFunctionSubclass()


def is_uninitialized(target: Any) -> bool:
    """Tell whether a module holds lazy parameters, which take their shapes from the first call."""
    return isinstance(target, torch.nn.Module) and any(
        isinstance(each, LazyModuleMixin) and each.has_uninitialized_params() for each in target.modules()
    )


def is_called_plainly(target: Any) -> bool:
    """Tell whether a call of a module begins with `MODULE_CALL`: its class puts nothing before that."""
    return type(target).__call__ is torch.nn.Module.__call__


def is_called_by_autograd(args: tuple[Any, ...]) -> bool:
    """Tell whether torch calls a function with a context of its own (``autograd.Function.forward``)."""
    return bool(args) and isinstance(args[0], torch.autograd.function.FunctionCtx)


def name_of_function(target: Any) -> str | None:
    """Return what a function of torch's is called (``"torch.sin"``); None for any other."""
    name = torch.overrides.resolve_name(target)
    return name if isinstance(name, str) else None


def is_scripted(target: object) -> bool:
    """Tell whether `target` is TorchScript, which Dynamo cannot trace."""
    return isinstance(target, torch.jit.ScriptModule | torch.jit.ScriptFunction)


def check_settings() -> None:
    """Raise what `torch.compile` raises where Dynamo's settings contradict each other."""
    check_for_incompatible_configs()


def innermost(target: Any) -> Any:
    """Return what `torch.compile` compiled, if `target` is its result; `target` itself if not."""
    if isinstance(target, OptimizedModule):
        return target._orig_mod
    return innermost_fn(target) if callable(target) else target


def mark_compiled(function: Any, target: Any) -> None:
    """Mark `function` as the compiled form of `target`, so that `innermost` and `torch.compile` find the target.

    Not by `_torchdynamo_inline`, which makes Dynamo trace the target in place of the function: `functools.wraps` copies
    that on, and what a decorator does around the function would be lost.
    """
    function._torchdynamo_orig_callable = target
    function._torchdynamo_wrapper_id = id(function)


def is_dynamo_tracing() -> bool:
    """Tell whether Dynamo is tracing the running code; it knows the answer while it traces."""
    return torch.compiler.is_dynamo_compiling()


def is_about_compiling(error: BaseException) -> bool:
    """Tell whether `error` is torch's word about a compilation, not the user's own code's."""
    return isinstance(error, exc.TorchDynamoException)


def is_tracing() -> bool:
    """Tell whether some tracer (Dynamo, export, FX, TorchScript) is looking at the running code."""
    return bool(
        # Kept per thread, unlike torch.compiler.is_compiling().
        torch._guards.CompileContext.try_get() is not None
        or torch._guards.TracingContext.try_get() is not None
        or torch.compiler.is_exporting()
        or torch._C._get_tracing_state() is not None
        or torch.fx._symbolic_trace.is_fx_symbolic_tracing()
    )


def global_hooks() -> tuple[object, ...]:
    """Return the hooks that are registered for every module, in order; empty for nearly everybody.

    Dynamo inlines them but does not guard on them (pytorch issue 149502): whoever caches has to look.
    """
    if not module._has_any_global_hook():
        return ()
    return tuple(
        hook
        for hooks in (
            module._global_forward_pre_hooks,
            module._global_forward_hooks,
            module._global_backward_pre_hooks,
            module._global_backward_hooks,
            module._global_forward_hooks_always_called,
        )
        for hook in (None, *hooks.values())
    )


# The callback of this thread


def keep_out(function: _F, *, traced_through: bool = False, callees: bool = True) -> _F:
    """Make Dynamo run a function as it is.

    Parameters
    ----------
    function
        A function of this package.
    traced_through
        Whether Dynamo may still look into it where it traces a caller.
    callees
        Whether what it calls runs as it is, too. If not, the callback stays on this thread, and counted.
    """
    inside = FrameAction.SKIP if callees else FrameAction.DEFAULT
    code: CodeType = function.__code__
    set_code_exec_strategy(code, FrameExecStrategy(FrameAction.SKIP, inside))
    if not traced_through:
        function._torchdynamo_disable = True  # type: ignore[attr-defined]
    return function


# A function of C, for those who may run no Python of their own before they know.
callback_now: Callable[[], object] = get_eval_frame_callback
"""Return Dynamo's callback on this thread; None if there is none, False where only what is compiled runs."""


@contextlib.contextmanager
def callback_off() -> Iterator[None]:
    """Take Dynamo's callback off this thread, and put it back.

    Dynamo then neither traces what runs inside nor has its evaluator installed on this thread's account, so that an
    evaluator which is installed inside lies beneath Dynamo's when that comes back, and stays when it goes.
    """
    before = set_eval_frame(None)
    try:
        yield
    finally:
        set_eval_frame(before)


def set_stance(stance: str) -> contextlib.AbstractContextManager[object]:
    """Return a context manager for `torch.compiler.set_stance`; a ValueError names the known stances."""
    known = (
        "default",
        "force_eager",
        "eager_on_recompile",
        "fail_on_recompile",
        "eager_then_compile",
        "aot_eager_then_compile",
    )
    if stance not in known:
        raise ValueError(f"unknown stance {stance!r}; known: {', '.join(known)}")
    # set_stance acts when it is made, so the making waits for the entering.
    return _Deferred(lambda: torch.compiler.set_stance(stance))


class _Deferred:
    def __init__(self, make: Callable[[], contextlib.AbstractContextManager[Any]]) -> None:
        self._make = make
        self._made: contextlib.AbstractContextManager[Any] | None = None

    def __enter__(self) -> object:
        self._made = self._make()
        return self._made.__enter__()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._made is not None:
            self._made.__exit__(kind, error, trace)


def has_cuda_graphs() -> bool:
    """Tell whether there is a device for which inductor records graphs of kernels."""
    return torch.cuda.is_available() or torch.xpu.is_available()


def forced_eager() -> str | None:
    """Say what makes every call run eager now, whatever is compiled; None if nothing does."""
    stance = eval_frame._stance.stance
    return f"the compiler's stance is {stance!r}" if stance == "force_eager" else None


def eager_cause() -> str | None:
    """Say what now keeps torch from compiling, as far as its state on this thread tells; None if nothing does."""
    if (stance := eval_frame._stance.stance) != "default":
        return f"the compiler's stance is {stance!r}"
    if config.disable:
        return "torch._dynamo.config.disable (TORCHDYNAMO_DISABLE) is set"
    if torch._C._functorch.peek_interpreter_stack() is not None:
        return "inside a torch.func transform, which torch does not compile from within"
    if (mode := _get_current_dispatch_mode()) is not None:
        return f"a dispatch mode ({type(mode).__name__}) is on"
    return None


def global_state() -> dict[str, object]:
    """Return what guards on torch's global state look at, as far as it has a name there."""
    return {
        "grad_mode": torch.is_grad_enabled(),
        "deterministic_algorithms": torch.are_deterministic_algorithms_enabled(),
        "default_dtype": torch.get_default_dtype(),
        "num_threads": torch.get_num_threads(),
    }


# Asked at every call.
_is_grad_enabled = torch.is_grad_enabled
_into_autocast, _out_of_autocast = torch.autocast_increment_nesting, torch.autocast_decrement_nesting


def modes_on() -> tuple[bool, int]:
    """Return what a graph may leave changed on this thread when it raises: grad mode, and how many autocasts are on."""
    _into_autocast()
    return _is_grad_enabled(), _out_of_autocast()


def set_back(before: tuple[bool, int]) -> None:
    """Set back what `modes_on` returned: a graph that raises never comes to where it would leave what it has entered.

    That is right for context managers. It takes back a plain ``torch.set_grad_enabled(...)`` as well, if something
    raises after it in the same compiled function.
    """
    grad, nested = before
    torch.set_grad_enabled(grad)
    while modes_on()[1] > nested:
        if torch.autocast_decrement_nesting() == 0:
            torch.clear_autocast_cache()


def may_run_eager(error: BaseException) -> bool:
    """Tell whether the frame whose compilation raised `error` may run eager instead.

    It may unless the user asked for the error (fullgraph) or for the stop (an interrupt). An operation that fails on
    fake tensors fails in eager too, and with the better message, so that is run even under fullgraph.
    """
    if not isinstance(error, Exception):
        return False
    if isinstance(error.__cause__, exc.ObservedException):
        return True  # the user's own code raises it
    asked_for = (exc.Unsupported, exc.FailOnRecompileLimitHit, exc.UserError, exc.UncapturedHigherOrderOpError)
    return not isinstance(error, asked_for)


# Entries


def reset_code(code: CodeType) -> None:
    """Drop every entry of `code`, and let it be compiled again."""
    _reset_code(code)


def entries_gone(code: CodeType, limit: int) -> int:
    """Return how many entries of `code`, in this thread's region, are for objects that are gone.

    Nothing can reach such an entry any more, and torch counts it for its limits none the less. Where it would reach
    `limit`, garbage is collected first: what a cell has defined again may be part of a cycle.
    """
    entries = _get_cache_entries_for_region(code, get_eval_frame_isolate_recompiles_id())
    if len(entries) - sum(map(_is_gone, entries)) >= limit:
        forget_instructions()
        gc.collect()
    return sum(map(_is_gone, entries))


def _is_gone(entry: Any) -> bool:
    return isinstance(entry.guard_manager, DeletedGuardManagerWrapper)


def compile_no_more(code: CodeType) -> None:
    """Let `code` run its entries, or eager, as torch does at the `recompile_limit`."""
    set_code_exec_strategy(code, FrameExecStrategy(FrameAction.RUN_ONLY, FrameAction.RUN_ONLY))


# Compiling


@dataclass(frozen=True, slots=True)
class Frame:
    """A frame that Dynamo is about to compile. Its values are borrowed: do not keep them."""

    code: CodeType
    f_locals: Mapping[str, object]
    f_globals: Mapping[str, object]
    closure: tuple[types.CellType, ...] = ()


@dataclass(frozen=True, slots=True)
class Break:
    """A graph break: torch's title for it, and the innermost line of the user's own (no file if there is none).

    `stack` has all frames as (file, line), the outermost first; `text` is all that torch says.
    """

    reason: str
    file: str
    line: int
    stack: tuple[tuple[str, int], ...] = ()
    text: str = ""


@dataclass(frozen=True, slots=True)
class Outcome:
    """How a compilation ended.

    Parameters
    ----------
    state
        As in `events.CompileFinished.outcome`.
    detail
        The cause of "at limit", "skipped" or "failed".
    code
        The compiled code object; None unless there is a new entry.
    breaks
        The graph breaks that were met.
    guards
        The guards of the new entry, for `guard_texts` and `add_guard`.
    classes
        The classes of the objects that the entry has looked into.
    asked
        Where the user's code asks whether it is being compiled, and is told so: function, file, line.
    """

    state: str
    detail: str
    code: CodeType | None
    breaks: tuple[Break, ...]
    guards: Any = None
    classes: frozenset[type] = frozenset()
    asked: tuple[tuple[str, str, int], ...] = ()


class Observer(Protocol):
    """Who is told of each compilation, on the thread that compiles."""

    def started(self, frame: Frame, compile_id: str, raw_reasons: Callable[[], list[str]]) -> int:
        """Hear that `frame` will be compiled; `raw_reasons` gives for each existing entry why it did not fit.

        Returns how many of its entries shall not count for the limits. What it raises comes out of the call that was to
        be compiled, of which nothing has run.
        """

    def watching(self) -> contextlib.AbstractContextManager[None]:
        """Return what is entered while the frame that it was last told of is compiled."""

    def tells_the_user(self) -> bool:
        """Say whether the user will be shown why something runs eager, so that torch need not log it."""

    def finished(self, outcome: Outcome, error: BaseException | None) -> bool:
        """Hear how it ended; with an `error`, say whether the frame shall run eager instead of raising it."""


class Compiler:
    """`torch.compile` for one option set: every function shares one backend object and one callback.

    Parameters
    ----------
    options
        The option set.
    observer
        Is told of each compilation.

    Attributes
    ----------
    callback
        What Dynamo calls on a miss while something of this compiler's runs; None before there is anything.
    """

    def __init__(self, options: Options, observer: Observer) -> None:
        self._options = options
        self._observer = observer
        self.callback: _Observed | None = None

    def __call__(self, function: FunctionType, *, isolate: bool = False) -> Callable[..., Any]:
        """Compile `function`; with `isolate`, frames after a graph break keep their entries to themselves."""
        given = dict(self._options.given)
        if isinstance(settings := given.get("options"), Mapping):
            given["options"] = dict(settings)  # torch.compile takes entries out of it
        given["isolate_recompiles"] = bool(isolate or given.get("isolate_recompiles", False))
        with callback_off():
            compiled = torch.compile(function, **given)
        # The callback is what Dynamo calls on a miss. There is no public way to stand before it.
        cell = _callback_cell(compiled)
        if cell is not None:
            if self.callback is None:
                self.callback = _Observed(cell.cell_contents, self._observer)
            cell.cell_contents = self.callback
        return compiled


def _callback_cell(compiled: Any) -> Any:
    """Return the closure cell of `torch.compile`'s function that holds Dynamo's callback; None where it moved."""
    code, closure = getattr(compiled, "__code__", None), getattr(compiled, "__closure__", None)
    if code is None or closure is None or "callback" not in code.co_freevars:
        return None
    return closure[code.co_freevars.index("callback")]


class _Observed:
    """Stands before Dynamo's callback: sets what a region sets while something compiles, and tells the observer."""

    def __init__(self, inner: Any, observer: Observer) -> None:
        self._inner = inner
        self._observer = observer
        # Dynamo follows this attribute down to the backend, and counts the steps when a stance delays compilation.
        self._torchdynamo_orig_backend = inner._torchdynamo_orig_backend
        self.__name__ = getattr(inner, "__name__", "callback")
        # By code object, which may be moved to another place, and then has another hash.
        self._in_vain, self._regions = ByIdentity(), ByIdentity()

    def _nothing_this_time(self, code: CodeType, detail: str) -> str | None:
        """Return `detail` if a call has just had no tensor operation to compile, though the next one may have."""
        if not detail.startswith("No ops traced"):
            return None
        tried = (self._in_vain.get(code) or 0) + 1
        self._in_vain.set(code, tried)
        return detail if tried < recompile_limit() else None

    def _note_entry(self, frame: Any, guards: Any, objects: list[weakref.ref[Any]]) -> None:
        guards._ipy_dynwrap_made = _Made(self, id(frame.f_globals), tuple(objects))
        self._regions.setdefault(frame.f_code, set()).add(get_eval_frame_isolate_recompiles_id())

    def _entry_of_another_region(self, frame: Any) -> Any:
        """Return Dynamo's answer for a frame that an entry of another region serves; None if there is none.

        Frames after a graph break have a cache in each wrapper's region, and wrappers that differ in one field may well
        agree in what such a frame depends on.
        """
        for region in (self._regions.get(frame.f_code) or set()) - {get_eval_frame_isolate_recompiles_id(), -1}:
            for entry in _get_cache_entries_for_region(frame.f_code, region):
                made = getattr(entry.guard_manager, "_ipy_dynwrap_made", None)
                if made is not None and made.by is self and _serves(entry.guard_manager, made, frame):
                    second = _shared(entry.guard_manager, made)
                    return ConvertFrameReturn(guarded_code=GuardedCode(entry.code, second, entry.compile_id))
        return None

    def __call__(self, frame: Any, entry: Any, frame_state: dict[str, Any]) -> Any:
        if sys._getframe(1).f_code is decorators._nonrecursive_disable_wrapper_code:
            # Torch looks at who calls the frame, and this stands between.
            return ConvertFrameReturn(apply_to_code=False, skip_reason="not to be compiled itself")
        try:
            with interrupts_held():
                return self._compile(frame, entry, frame_state)
        except BaseException:
            _take_down(self)
            raise

    def _compile(self, frame: Any, entry: Any, frame_state: dict[str, Any]) -> Any:
        from torch._C._dynamo.eval_frame import _FrameAction as FrameAction

        if trace_rules.check(frame.f_code, frame=frame):
            return self._inner(frame, entry, frame_state)  # torch's own code: nothing to tell anybody
        if (known := self._entry_of_another_region(frame)) is not None:
            return known
        observer = self._observer
        with _settings(frame.f_code), contextlib.ExitStack() as for_this_frame:
            uncounted = observer.started(
                Frame(frame.f_code, frame.f_locals, frame.f_globals, frame.closure or ()),
                _next_compile_id(frame_state),
                functools.partial(_recompile_reasons, frame, self._inner),
            )
            asked: dict[tuple[str, str, int], None] = {}
            for_this_frame.enter_context(_limits_raised(uncounted))
            graphs, breaks = counters["stats"]["unique_graphs"], len(graph_break_reasons)
            classes: set[type] = set()
            objects: list[weakref.ref[Any]] = []
            error: BaseException | None = None
            suppressed: list[BaseException] = []
            result: Any = None
            _get_cached_slots.cache_clear()  # by class: a method that a cell has added since would not be seen
            try:
                with (
                    observer.watching(),
                    _looking_into(classes),
                    _replaced(CheckFunctionManager, "id_ref", functools.partial(_note_object, objects)),
                    _replaced(InliningInstructionTranslator, "get_globals_source_and_value", _find_global),
                    _guarding_what_is_absent(),
                    _guarding_identity(),
                    _guarding_order(),
                    _replaced(lists, "iter_contains", _contains),
                    _minding_graph_modules(),
                    _replaced(
                        InstructionTranslatorBase,
                        "mark_inconsistent_side_effects",
                        functools.partial(_note_question, asked),
                    ),
                    _replaced(convert_frame, "format_error_msg", functools.partial(_note_error, suppressed)),
                    _unlogged(_FAKE_TENSOR_ERROR, *(_SAID_UNDER_THE_CELL if observer.tells_the_user() else ())),
                ):
                    result = self._inner(frame, entry, frame_state)
            except BaseException as caught:  # noqa: BLE001 - raised again below
                error = caught
            finally:
                _forget_stacks()
            met = tuple(map(_as_break, graph_break_reasons[breaks:]))
            entry_made = result.guarded_code if result is not None else None
            code, guards = (entry_made.code, entry_made.guard_manager) if entry_made is not None else (None, None)
            if error is not None:
                state, detail = "failed", _cause(error)
            elif code is not None:
                self._note_entry(frame, guards, objects)
                state, detail = ("compiled" if counters["stats"]["unique_graphs"] > graphs else "no graph"), ""
            elif result.frame_exec_strategy.cur_action == FrameAction.RUN_ONLY:
                state, detail = "at limit", "recompile_limit reached"
            else:
                state, detail = "skipped", _why_suppressed(*suppressed) or _said(result.skip_reason)
                if (cause := eager_cause() or self._nothing_this_time(frame.f_code, detail)) is not None:
                    # Torch would skip this code for good, though only what is on now stands in the way.
                    state, detail = "put off", cause
                    result = _eager_once(result.frame_exec_strategy.recursive_action)
            eager = observer.finished(
                Outcome(state, detail, code, met, guards, frozenset(classes), tuple(asked)), error
            )
        if error is None:
            return result
        if eager and isinstance(error, Exception):
            return _eager_once()
        try:
            raise error
        finally:
            del error


@dataclass(frozen=True, slots=True)
class _Made:
    """Who made an entry, for a frame with which globals, and the objects whose identity its guards compare."""

    by: _Observed
    scope: int  # by its number: held, it would hold the entry in turn, and no collector sees that
    objects: tuple[weakref.ref[Any], ...]


def _note_object(
    noted: list[weakref.ref[Any]], original: Callable[..., int], guards: Any, value: Any, name: str
) -> int:
    with contextlib.suppress(TypeError):  # what has no weak references lives for ever, as far as torch is concerned
        noted.append(weakref.ref(value))
    return original(guards, value, name)


def _serves(guards: Any, made: _Made, frame: Any) -> bool:
    return (
        made.scope == id(frame.f_globals)
        and all(each() is not None for each in made.objects)
        and guards.check(frame.f_locals)
    )


def _shared(guards: Any, made: _Made) -> Any:
    """Return guards for a second entry. Each invalidates its own entry when an object is gone that they compare."""
    second = copy.copy(guards)
    for each in made.objects:
        if (value := each()) is not None:
            weakref.finalize(value, _invalidate, weakref.ref(second)).atexit = False
    return second


def _invalidate(reference: weakref.ref[Any]) -> None:
    guards = reference()
    if guards is not None and guards.cache_entry is not None and guards.extra_state is not None:
        gone = DeletedGuardManagerWrapper("an object that its guards compare is gone")
        guards.extra_state.invalidate(guards.cache_entry, gone)


@contextlib.contextmanager
def interrupts_held() -> Iterator[None]:
    """Hold interrupts back; set the anomaly mode back that torch has on while it traces a backward pass."""
    enabled, check_nan = torch.is_anomaly_enabled(), torch.is_anomaly_check_nan_enabled()
    try:
        with interrupts.held(_NOT_TO_RAISE):
            yield
    finally:
        torch.set_anomaly_enabled(enabled, check_nan)


# C++ that may not throw calls it for each operation.
_NOT_TO_RAISE = frozenset((find_torch_dispatch_rule.__code__,))


def _forget_stacks() -> None:
    """Let torch forget code that it keeps for good: of what it compiled, with all entries, and of each frame above.

    The latter stand where its metrics were written. The code of a cell holds that of the functions which the cell
    defines, and an entry is for one of those.
    """
    metrics = get_metrics_context()
    if not metrics.in_progress():
        metrics._edits.clear()
        code_framelocals_names_reversed_cached.cache_clear()


def forget_instructions() -> None:
    """Let torch forget the instructions of functions that it traced: they hold the code of those that an edit replaced.

    They make its next compilations faster, so this is for when those for one cell are done.
    """
    _cached_cleaned_instructions.cache_clear()


def _take_down(callback: Any) -> None:
    """Take Dynamo's evaluator down on account of a callback that is about to raise: torch forgets to.

    While the callback runs, torch has it off this thread without having counted that, and puts it back only if it
    returns. When `torch.compile`'s function then takes it off, there is nothing on, so nothing is counted down, and the
    evaluator stays for the life of the process. What is uncounted the other way round evens it out: below a frame whose
    strategy is run-only, torch has a callback on that it did not count.
    """
    set_code_exec_strategy(_off.__code__, FrameExecStrategy(FrameAction.SKIP, FrameAction.RUN_ONLY))
    region = set_eval_frame_isolate_recompiles_id(-1)  # run-only does not count in an isolated region
    set_eval_frame(callback)
    _off(set_eval_frame)
    set_eval_frame(None)
    set_eval_frame_isolate_recompiles_id(region)


def _off(set_eval_frame: Callable[[Any], Any]) -> None:
    set_eval_frame(None)


def _eager_once(callees: FrameAction = FrameAction.SKIP) -> Any:
    """Return Dynamo's answer for a frame that runs eager this time; what it calls does too, if nothing else is said."""
    strategy = FrameExecStrategy(FrameAction.SKIP, callees)
    return ConvertFrameReturn(frame_exec_strategy=strategy, apply_to_code=False)


@contextlib.contextmanager
def _unlogged(*said_elsewhere: tuple[str, str]) -> Iterator[None]:
    """Keep torch from logging on this thread what is said elsewhere: pairs of a logger and a part of its message."""

    def drop(part: str, record: logging.LogRecord) -> bool:
        return record.thread != here or record.levelno < logging.WARNING or part not in str(record.msg)

    here = threading.get_ident()
    with contextlib.ExitStack() as undo:
        for name, part in said_elsewhere:
            logger, dropping = logging.getLogger(name), functools.partial(drop, part)
            logger.addFilter(dropping)
            undo.callback(logger.removeFilter, dropping)
        yield


# An operation that fails on fake tensors: it is raised, here or when it runs eager.
_FAKE_TENSOR_ERROR = ("torch._subclasses.fake_tensor", "")
_SAID_UNDER_THE_CELL = (
    ("torch._dynamo.convert_frame", "torch._dynamo hit config."),
    ("torch._dynamo.variables.tensor", "Graph break from"),
)


def _said(skip_reason: str | None) -> str:
    """Return torch's reason for a skip without what is around it."""
    text = (skip_reason or "torch does not compile this frame").replace("\\n", "\n").splitlines()[0]
    return text.removeprefix("Dynamo decided to skip the frame while tracing: ").partition(". ")[0].rstrip(".")


def _note_error(noted: list[BaseException], original: Callable[..., Any], error: BaseException, *rest: Any) -> Any:
    noted.append(error)
    return original(error, *rest)


def _why_suppressed(*errors: BaseException) -> str | None:
    """Say why torch runs a frame eager after an error that it keeps to itself, such as a graph break in a loop."""
    for error in errors:
        explanations = re.findall(r"^ *Explanation: (.*?)(?:\. |\.?$)", str(error), flags=re.MULTILINE)
        # Of one break that led to another, torch tells the first one first.
        return ": ".join(dict.fromkeys([*explanations[-1:], *explanations[:1]])) or _cause(error)
    return None


def _cause(error: BaseException) -> str:
    """Return an error with what it says; where it is torch's about another one, with what that one says."""
    lines = str(error).strip().splitlines() or [""]
    wrapped = re.search(r"got (\w+\(.+\))\.?$", str(error), flags=re.MULTILINE)
    if wrapped is not None:
        text = wrapped[1]
    elif lines[0].endswith("raised:") and len(lines) > 1:
        text = f"{lines[0]} {lines[1]}"
    else:
        text = lines[0]
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


def _first_line(error: BaseException) -> str:
    return (str(error).strip().splitlines() or [""])[0]


def _next_compile_id(frame_state: Mapping[str, Any]) -> str:
    """Return the id that Dynamo will give to the entry it is about to make."""
    number = frame_state.get("_id", convert_frame.FRAME_COUNTER)
    return f"{number}/{convert_frame.FRAME_COMPILE_COUNTER[number] if '_id' in frame_state else 0}"


def _recompile_reasons(frame: Any, callback: Any) -> list[str]:
    """Return for each entry of the frame's code why it does not fit, in torch's words; latest entry first."""
    region = get_eval_frame_isolate_recompiles_id()
    entries = [
        entry
        for each in sorted({region, -1}, reverse=True)
        for entry in _get_cache_entries_for_region(frame.f_code, each)
    ]
    if not entries:
        return []
    try:
        return list(
            get_and_maybe_log_recompilation_reasons(entries, frame, innermost_backend(callback), skip_logging=True)
        )
    except Exception as error:  # noqa: BLE001 - the words for it may fail; the compilation must not
        return [f"no reason to be had: {_first_line(error)}"]


_QUESTIONS = frozenset({"is_compiling", "is_dynamo_compiling"})


def _note_question(asked: dict[tuple[str, str, int], None], original: Callable[..., None], translator: Any) -> None:
    """Note where the user's own code asks whether it is compiled. Torch calls this for such questions only."""
    code = translator.f_code
    if _QUESTIONS & set(code.co_names) and _may_be_users(code.co_filename) and "-packages" not in code.co_filename:
        asked[code.co_name, code.co_filename, translator.lineno or code.co_firstlineno] = None
    original(translator)


def _as_break(reason: Any) -> Break:
    stack = [each for each in reason.user_stack if not each.filename.startswith("<ipy_dynwrap")]
    own = [each for each in stack if _may_be_users(each.filename)]
    last = own[-1] if own else None
    text = str(reason.reason).strip()
    title = (text.splitlines() or ["graph break"])[0]
    places = tuple((each.filename, each.lineno or 0) for each in stack)
    return Break(title, last.filename if last else "", (last.lineno or 0) if last else 0, places, text)


_STDLIB = os.__file__.removesuffix("os.py")


def _may_be_users(file: str) -> bool:
    library = file.startswith(_STDLIB) and "site-packages" not in file
    return not (library or is_torchs(file))


@contextlib.contextmanager
def _settings(code: CodeType) -> Iterator[None]:
    """Set Dynamo's config for one compilation, and set it back.

    Hook guards are on: without them a hook that is added, removed or added again is silently ignored. And since config
    is kept per thread, a thread that has not set a value itself is given what the main thread has set (pytorch issue
    186537): a limit that was set in a cell also holds in a widget's callback.

    Nested graph breaks, which are off by default, are off for a wrapper: where its target breaks, the target's own
    frame is compiled, as under `torch.compile`. Those below the target are the user's to have.
    """
    # Not config.patch: it leaves the former value behind as one that this thread has set.
    changes = {**_set_by_main_thread(), "skip_nnmodule_hook_guards": False}
    if code.co_filename.startswith("<ipy_dynwrap"):
        changes["nested_graph_breaks"] = False
    revert = config._make_closure_patcher(**changes)()
    try:
        yield
    finally:
        revert()


@contextlib.contextmanager
def _limits_raised(by: int) -> Iterator[None]:
    limits = ("recompile_limit", "accumulated_recompile_limit")
    revert = config._make_closure_patcher(**{name: getattr(config, name) + by for name in limits if by})()
    try:
        yield
    finally:
        revert()


def _set_by_main_thread() -> dict[str, Any]:

    from . import _native

    main = threading.main_thread().ident
    if main == threading.get_ident():
        return {}
    context = _native.thread_context(main) if main is not None else None
    if context is None:
        return {}
    unset = _UNSET_SENTINEL
    return {
        name: theirs
        for name, entry in config._config.items()  # type: ignore[attr-defined]
        if (theirs := context.get(entry.user_override, unset)) is not unset and entry.user_override.get() is unset
    }


_patching = threading.RLock()


@contextlib.contextmanager
def _minding_graph_modules() -> Iterator[None]:
    """Mind two things about the graph modules that are made during one compilation on this thread.

    The user's modules have had their global hooks inlined into the graph; a graph module that runs it (aot_eager's, for
    one) is a module too, and would fire them once more (pytorch issue 149502).

    The nodes of a graph name the modules' classes, and an entry keeps its graph: a class that was defined again would
    live as long as the entry that nothing can reach any more. Once the backend is done, its name does.
    """
    graph_module: Any = torch.fx.GraphModule
    thread, hooks, made = threading.get_ident(), bool(global_hooks()), weakref.WeakSet[Any]()

    def forward_only(self: Any, *args: Any, **kwargs: Any) -> Any:
        return self.forward(*args, **kwargs)

    def new(cls: Any, *args: Any, **kwargs: Any) -> Any:
        module = original(cls, *args, **kwargs)
        if threading.get_ident() == thread:
            made.add(module)
            if hooks:
                # GraphModule.__new__ makes a class per instance, so this touches no other module.
                type(module)._call_impl = forward_only
        return module

    with _patching:
        before, original = graph_module.__dict__["__new__"], graph_module.__new__
        graph_module.__new__ = new
        try:
            yield
        finally:
            graph_module.__new__ = before
    for each in tuple(made):
        _name_classes(each)


def _name_classes(graph_module: Any) -> None:
    """Put the names of classes in the place of the classes that a graph's nodes hold."""
    graph = graph_module.__dict__.get("_graph")  # a graph module that is only half made has none
    for node in graph.nodes if graph is not None else ():
        for key in ("nn_module_stack", "fwd_nn_module_stack"):
            if isinstance(stack := node.meta.get(key), dict):
                node.meta[key] = {
                    each: tuple(part.__qualname__ if isinstance(part, type) else part for part in parts)
                    for each, parts in stack.items()
                }


_C_CALLABLES = (
    types.MethodDescriptorType,
    types.WrapperDescriptorType,
    types.MethodWrapperType,
    types.ClassMethodDescriptorType,
    types.GetSetDescriptorType,
)


def _is_bound_anew(value: Any, source: Any) -> bool:
    """Tell whether each reading of a source makes a new object, as ``torch.Tensor.grad.__get__`` does."""
    return isinstance(value, types.MethodWrapperType) and getattr(source, "member", None) == value.__name__


@contextlib.contextmanager
def _looking_into(classes: set[type]) -> Iterator[None]:
    """Add to `classes` the class of each object that Dynamo looks into on this thread.

    Where it meets a descriptor or another callable that is implemented in C, it is asked for the identity guard that it
    leaves out (pytorch issue 197811): two of them would otherwise share an entry.
    """
    builder: Any = VariableBuilder
    thread = threading.get_ident()

    def wrap(self: Any, value: Any) -> Any:
        if threading.get_ident() == thread:
            classes.add(value if isinstance(value, type) else type(value))
            if isinstance(value, _C_CALLABLES) and not _is_bound_anew(value, self.source):
                self.install_guards(GuardBuilder.ID_MATCH)
            if type(value) is OrderedDict and len(value) > 1 and all(type(key) in (str, int) for key in value):
                self.install_guards(_odict_order)
            if issubclass(type(value), type) and getattr(self.source, "freevar_name", None) != "__class__":
                # Torch takes a class that it reaches through a closure for the one that `super()` refers to.
                self.install_guards(GuardBuilder.CLASS_MATCH)
        found = original(self, value)
        if threading.get_ident() == thread and isinstance(found, lists.DequeVariable):
            # Torch forgets how many items an existing one may hold.
            found.maxlen = ConstantVariable.create(value.maxlen)
            install_guard(AttrSource(self.source, "maxlen").make_guard(GuardBuilder.CONSTANT_MATCH))
        return found

    with _patching:
        original = builder._wrap
        builder._wrap = wrap
        try:
            yield
        finally:
            builder._wrap = original


def _find_global(original: Callable[..., Any], translator: Any, name: str) -> Any:
    """Let an inlined function read the globals that it has.

    Torch reads, and guards, those of the module that `__name__` among them tells of. But a script that `%run` ran, a
    second shell, or a module that was imported anew has globals of its own. Under a wrapper every function is inlined,
    so what torch gets right at the root would be wrong here.

    Those of the standard library torch does not guard. `os.getenv` reads one whose content changes.
    """
    scope = translator.f_globals
    if _are_of_their_module(scope):
        value, variable, source = original(translator, name)
        is_environment = scope is vars(os) and name in ("environ", "environb")
        return value, variable, source.base if is_environment else source
    if translator.current_instruction.opname == "STORE_GLOBAL":
        # Torch cannot set one of these while it inlines; in a frame of its own the function can.
        exc.unimplemented(
            gb_type="Storing a global in a namespace that is no module's",
            context=name,
            explanation=f"The function that sets `{name}` has the globals of a script or of another shell.",
            hints=[],
        )
    # As torch itself does for a named tuple's functions, whose globals are of no module.
    source = GlobalSource(translator.output.install_global_by_id("___unnamed_scope", scope))
    return scope, VariableBuilder(translator, source)(scope), DictGetItemSource(source, name)


@contextlib.contextmanager
def _replaced(owner: Any, name: str, replacement: Callable[..., Any]) -> Iterator[None]:
    """Let `replacement` stand for a method of torch's on this thread. What it replaces is its first argument.

    Where compilations nest (a backend may compile), that is torch's own: what the outer one notes is not the inner's.
    """
    thread = threading.get_ident()

    def method(*args: Any, **kwargs: Any) -> Any:
        if threading.get_ident() != thread:
            return original(*args, **kwargs)
        return replacement(original, *args, **kwargs)

    where: Any = owner if isinstance(owner, dict) else vars(owner)
    put = owner.__setitem__ if isinstance(owner, dict) else functools.partial(setattr, owner)
    with _patching:
        before = where[name]
        original: Callable[..., Any] = getattr(before, "replaces", before)
        method.__dict__["replaces"] = original
        put(name, method)
        try:
            yield
        finally:
            put(name, before)


@contextlib.contextmanager
def _guarding_what_is_absent() -> Iterator[None]:
    """Guard that what was not there still is not, where Dynamo goes on to something else without a guard."""
    with (
        _replaced(InstructionTranslatorBase, "load_builtin", _load_builtin),
        _replaced(UserDefinedObjectVariable, "generic_getattr", _attribute_of_object),
        _replaced(UserDefinedClassVariable, "var_getattr", _attribute_of_class),
        _replaced(PythonModuleVariable, "var_getattr", _attribute_of_module),
        _replaced(PythonModuleVariable, "call_obj_hasattr", _has_module),
        _replaced(UserFunctionVariable, "var_getattr", _attribute_of_function),
        _replaced(UserFunctionVariable, "call_obj_hasattr", _attribute_of_function),
        _replaced(ConstDictVariable, "getitem_const_raise_exception_if_absent", _item_of_dictionary),
        _replaced(SideEffectsProxyDict, "__contains__", _has_key),
        _replaced(SideEffectsProxyDict, "__iter__", _keys_of),
    ):
        yield


def _load_builtin(original: Callable[..., None], translator: Any, instruction: Any) -> None:
    """Load a built-in name, which a global of that name would shadow."""
    original(translator, instruction)
    name, scope = instruction.argval, translator.f_globals
    module_name = scope.get("__name__")
    if not (isinstance(module_name, str) and _are_of_their_module(scope)):
        source = GlobalSource(translator.output.install_global_by_id("___unnamed_scope", scope))
        install_guard(source.make_guard(_absent_key(name)))
    elif not is_nobodys(module_name):
        install_guard(translator.import_source(module_name).make_guard(_absent_attribute(name)))


def _attribute_of_object(original: Callable[..., Any], variable: Any, translator: Any, name: str) -> Any:
    """Read an attribute of an object, which ``__getattr__`` answers for as long as nothing else does."""
    source, value, own = variable.source, variable.value, own_dict(variable.value)
    if (
        source is not None
        and own is not None
        and name not in own
        and not any(name in namespace(base) for base in mro(type(value)))
        and not (is_module(value) and any(name in own.get(part, ()) for part in PARTS))
    ):
        install_guard(source.make_guard(_absent_attribute(name)))
        if is_module(value):
            for part in PARTS:
                install_guard(AttrSource(source, part).make_guard(_absent_key(name)))
        _guard_absent_from_class(type(value), variable.cls_source, name)
    return original(variable, translator, name)


def _attribute_of_class(original: Callable[..., Any], variable: Any, translator: Any, name: str) -> Any:
    """Read an attribute of a class, which a metaclass's ``__getattr__`` answers for as long as nothing else does."""
    if variable.source is not None and not any(name in namespace(base) for base in mro(variable.value)):
        _guard_absent_from_class(variable.value, variable.source, name)
    return original(variable, translator, name)


def _guard_absent_from_class(cls: type, source: Any, name: str) -> None:
    for index, base in enumerate(mro(cls)):
        if source is not None and _may_get_attributes(base):
            at = source if index == 0 else GetItemSource(TypeMROSource(source), index)
            install_guard(TypeDictSource(at).make_guard(_absent_key(name)))


def _may_get_attributes(cls: type) -> bool:
    return not (is_static(cls) or is_nobodys(str(namespace(cls).get("__module__"))))


def _attribute_of_module(original: Callable[..., Any], variable: Any, translator: Any, name: str) -> Any:
    _guard_absent_from_module(variable, name)
    return original(variable, translator, name)


def _has_module(original: Callable[..., Any], variable: Any, translator: Any, name: str) -> Any:
    """Tell whether a module has an attribute: torch does without any guard."""
    if not _guard_absent_from_module(variable, name) and variable.source is not None and not variable.is_torch:
        install_guard(AttrSource(variable.source, "__dict__").make_guard(_present_key(name)))
    return original(variable, translator, name)


def _guard_absent_from_module(variable: Any, name: str) -> bool:
    absent = name not in variable.value.__dict__
    if absent and variable.source is not None and not variable.is_torch:
        install_guard(variable.source.make_guard(_absent_attribute(name)))
    return absent


def _attribute_of_function(original: Callable[..., Any], variable: Any, translator: Any, name: str) -> Any:
    if not name.startswith("__"):
        _guard_key(variable.get_source(), variable.fn.__dict__, name)
    return original(variable, translator, name)


def _item_of_dictionary(original: Callable[..., Any], variable: Any, translator: Any, key: Any) -> Any:
    try:
        return original(variable, translator, key)
    except exc.ObservedException:
        variable.install_dict_contains_guard(translator, [key])
        raise


def _has_key(original: Callable[..., bool], items: Any, key: Any) -> bool:
    """Tell whether there is a key in the ``__dict__`` of an object: torch does without any guard."""
    _guard_key(_holder(items.item), items.get_example_value_dict(items.item), items._maybe_unwrap_key(key))
    return original(items, key)


def _keys_of(original: Callable[..., Iterator[Any]], items: Any) -> Iterator[Any]:
    """Yield the keys of the ``__dict__`` of an object, or count them: torch does without any guard."""
    if (holder := _holder(items.item)) is not None:
        source = AttrSource(holder, "__dict__")
        InstructionTranslator.current_tx().output.guard_on_key_order.add(source)
        install_guard(source.make_guard(GuardBuilder.DICT_KEYS_MATCH))
    return original(items)


def _holder(variable: Any) -> Any:
    """Return the source of what has the ``__dict__`` that Dynamo reads: of a cached function, that of the function."""
    if variable.source is not None and isinstance(variable, WrapperUserFunctionVariable):
        return AttrSource(variable.source, variable.attr_to_trace)
    return variable.source


def _guard_key(source: Any, own: Mapping[str, object], name: object) -> None:
    if source is None or not isinstance(name, str):
        return
    if name in own:
        install_guard(AttrSource(source, "__dict__").make_guard(_present_key(name)))
    else:
        install_guard(source.make_guard(_absent_attribute(name)))


def _absent_key(name: str) -> Callable[..., None]:
    return functools.partial(GuardBuilder.DICT_NOT_CONTAINS, key=name)


def _present_key(name: str) -> Callable[..., None]:
    return functools.partial(GuardBuilder.DICT_CONTAINS, key=name)


def _absent_attribute(name: str) -> Callable[..., None]:
    return functools.partial(GuardBuilder.NOT_PRESENT_IN_GENERIC_DICT, attr=name)


def is_nobodys(module_name: str) -> bool:
    """Tell whether a module is torch's or the standard library's: nobody defines globals there."""
    package = module_name.partition(".")[0]
    return package == "torch" or package in sys.stdlib_module_names


@contextlib.contextmanager
def _guarding_order() -> Iterator[None]:
    """Guard the order of a dictionary where Dynamo takes its keys one after the other without a word about that."""

    def unpack(original: Callable[..., Any], dictionary: Any, translator: Any) -> Any:
        _guard_order(translator, dictionary)
        return original(dictionary, translator)

    def call(original: Callable[..., Any], variable: Any, translator: Any, name: str, *arguments: Any) -> Any:
        if name in ("copy", "update", "extend"):
            for each in arguments[0] or (variable,):
                _guard_order(translator, each)
        return original(variable, translator, name, *arguments)

    with (
        _replaced(ConstDictVariable, "unpack_var_sequence", unpack),
        _replaced(ConstDictVariable, "call_method", call),
        _replaced(CommonListMethodsVariable, "call_method", call),
    ):
        yield


def _guard_order(translator: Any, variable: Any) -> None:
    dictionary = variable.unwrap()
    if not isinstance(dictionary, ConstDictVariable) or dictionary.source is None:
        return
    if not _is_keywords_of_wrapper(translator.output.root_tx.f_code, dictionary.source):
        translator.output.guard_on_key_order.add(dictionary.source)
        dictionary.install_dict_keys_match_guard()


def _is_keywords_of_wrapper(code: CodeType, source: Any) -> bool:
    """Tell whether a dictionary is what a wrapper passes on by ``**``: calls in another order have another wrapper."""
    if not (isinstance(source, LocalSource) and code.co_filename.startswith("<ipy_dynwrap")):
        return False
    names = code.co_varnames[code.co_argcount + code.co_kwonlyargcount :]
    return (
        bool(code.co_flags & inspect.CO_VARKEYWORDS)
        and source.local_name == names[1 if code.co_flags & inspect.CO_VARARGS else 0]
    )


def _contains(original: Callable[..., Any], items: Any, search: Any, translator: Any, *options: Any) -> Any:
    """Tell whether a constant is among items, of which Dynamo compares the constants only."""
    items = [each.realize() for each in items]
    if search.is_python_constant():
        for each in items:
            same = each.richcompare_impl(translator, search, "__eq__") if isinstance(each, SymNodeVariable) else None
            if isinstance(same, SymNodeVariable) and same.evaluate_expr(translator.output):
                return ConstantVariable.create(True)
    return original(items, search, translator, *options)


def _odict_order(guards: Any, guard: Any) -> None:
    """Add a guard on the order of an OrderedDict, which is another than that of the dictionary beneath it."""
    if guards.requires_key_order_guarding(guard.originating_source):
        keys = list(guards.get(guard))
        code = f"(list({guards.arg_ref(guard)}) == {keys!r}) == True"
        guards.object_aliasing_guard_codes.append((code, get_verbose_code_parts(code, guard)[0]))


@contextlib.contextmanager
def _guarding_identity() -> Iterator[None]:
    """Guard whether two objects are the same where Dynamo compares them, by ``is`` or for want of an ``__eq__``.

    Torch knows which they are when it compiles. Of an object that it reaches in two ways it guards that both lead
    there, but not if one begins with a global and the other does not; and of two objects not that they are two.
    """
    also_at: dict[Any, list[Any]] = {}

    def note(original: Callable[..., Any], source: Any, earlier: Any) -> Any:
        guard = original(source, earlier)
        if guard is None and earlier is not None and source != earlier:
            also_at.setdefault(earlier, []).append(source)
        return guard

    def compare(original: Callable[..., Any], left: Any, right: Any) -> Any:
        result = original(left, right)
        if result is not None:
            guard(left.unwrap(), right.unwrap(), same=result.as_python_constant())
        return result

    def handle(negated: bool, original: Callable[..., Any], translator: Any, pair: Any, options: Any) -> Any:
        result = original(translator, pair, options)
        left, right = (each.unwrap() for each in pair)
        if isinstance(result, ConstantVariable) and isinstance(result.value, bool):
            guard(left, right, same=result.value is not negated)
        return result

    def guard(left: Any, right: Any, *, same: bool) -> None:
        if left.source is None or right.source is None or not _may_be_the_same(left, right):
            return
        others = also_at.get(left.source, ()) if left.source == right.source else (right.source,)
        for other in others:
            if not is_from_skip_guard_source(other):
                install_guard(left.source.make_guard(functools.partial(_same_or_not, other=other, same=same)))

    with (
        _replaced(variable_builder, "make_dupe_guard", note),
        _replaced(object_protocol, "vt_identity_compare", compare),
        _replaced(builtin, "vt_identity_compare", compare),
        _replaced(compare_op_handlers, "is", functools.partial(handle, False)),
        _replaced(compare_op_handlers, "is not", functools.partial(handle, True)),
    ):
        yield


# Of these torch guards which object it is.
_KNOWN_BY_IDENTITY = (type, types.ModuleType, types.BuiltinFunctionType, enum.Enum)


def _may_be_the_same(left: Any, right: Any) -> bool:
    """Tell whether two variables may stand for one object, or for two, by what torch guards of each of them."""
    if isinstance(left, ConstantVariable) or isinstance(right, ConstantVariable):
        return False
    try:
        kind = left.python_type()
        return kind is right.python_type() and not issubclass(kind, _KNOWN_BY_IDENTITY)
    except NotImplementedError:
        return False


def _same_or_not(guards: Any, guard: Any, other: Any, same: bool) -> None:
    """Add a guard in the way of torch's DUPLICATE_INPUT, which is for the same object only."""
    code = f"({guards.arg_ref(guard)} is {guards.arg_ref(other.name)}) == {same}"
    guards.object_aliasing_guard_codes.append((code, get_verbose_code_parts(code, guard)[0]))


def _are_of_their_module(scope: Mapping[str, object]) -> bool:
    name = scope.get("__name__")
    if not isinstance(name, str) or "torch_package" in name:
        return True  # torch has ways of its own for these
    # By torch's own cache: it goes on reading a module after that was imported anew. Nothing is imported for this.
    return sys.modules.get(name) is not None and vars(_import_module(name)) is scope


# The stages of a compilation, for those who take note of them (`traces`)


@contextlib.contextmanager
def replaced_stages(
    *,
    graph: Callable[..., Any],
    aot: Callable[..., Any],
    tensor_guard: Callable[..., Any],
    guards: Callable[..., Any],
    begin: Callable[..., Any],
    end: Callable[..., Any],
) -> Iterator[None]:
    """Put functions in the place of torch's on this thread. What each replaces is its first argument.

    Parameters
    ----------
    graph
        Gives a graph to the backend.
    aot
        Traces it for its forward and backward pass.
    tensor_guard
        Puts the guard on a tensor into words.
    guards
        Makes the guards of an entry.
    begin, end
        Are told of torch's phases.
    """
    with (
        _replaced(OutputGraph, "call_user_compiler", graph),
        _replaced(backends_common, "aot_module_simplified", aot),
        _replaced(guards_module, "get_tensor_guard_code_part", tensor_guard),
        _replaced(CheckFunctionManager, "compile_check_fn", guards),
        _replaced(ChromiumEventLogger, "log_event_start", begin),
        _replaced(ChromiumEventLogger, "log_event_end", end),
    ):
        yield


def replaced_post_compile(replacement: Callable[..., Any]) -> contextlib.AbstractContextManager[None]:
    """Put a function in the place of what inductor does with generated code; nothing where inductor is not used."""
    output_code = sys.modules.get("torch._inductor.output_code")
    if output_code is None:
        return contextlib.nullcontext()
    return _replaced(output_code.CompiledFxGraph, "post_compile", replacement)


def unwrapped_compiler(compiler: Any) -> tuple[Callable[..., Any], Callable[[Callable[..., Any]], Any]]:
    """Return the function in a compiler of AOT graphs, and what makes such a compiler of another function."""
    if not isinstance(compiler, SerializableAOTDispatchCompiler):
        return compiler, lambda function: function

    def rewrapped(function: Callable[..., Any]) -> Any:
        made = copy.copy(compiler)
        made.compiler_fn = function
        return made

    return compiler.compiler_fn, rewrapped


def name_of_source(value: object) -> str | None:
    """Return the name of a guard source; None of anything else."""
    return str(value.name) if isinstance(value, Source) else None


# Shapes that change


class Shapes:
    """What torch has seen of the arguments of a frame: a size that changes is compiled as dynamic.

    Parameters
    ----------
    code, closure
        The code object of the frame, for which torch keeps it, and the cells of its function.
    target
        The variables that hold what is called. What torch has seen of that is not forgotten.
    """

    def __init__(self, code: CodeType, closure: tuple[types.CellType, ...], target: frozenset[str]) -> None:
        self._id = CodeId.make(code, closure)
        self._target = target

    def of(self, code: CodeType) -> Shapes:
        """Return the same of another function with the same variables."""
        return Shapes(code, (), self._target)

    def seen(self) -> dict[str, Any]:
        """Return what was seen, by source."""
        return {name: copy.copy(entry) for name, entry in self._known().items()}

    def add(self, seen: Mapping[str, Any]) -> bool:
        """Add what was seen elsewhere; tell whether a size is dynamic now that was not."""
        known, changed = self._known(), False
        for name, entry in seen.items():
            before = known[name].size
            known[name] |= copy.copy(entry)
            changed = changed or (isinstance(before, tuple) and _dynamic(known[name].size) != _dynamic(before))
        return changed

    def forget_sizes(self) -> None:
        """Let the next call's sizes be compared with nothing; what has become dynamic stays so."""
        known = self._known()
        for name in [name for name in known if self._is_of_argument(name) and isinstance(known[name].size, tuple)]:
            known[name] = _changing(known[name])

    def _known(self) -> Any:
        return get_code_state()[self._id].automatic_dynamic

    def _is_of_argument(self, source: str) -> bool:
        root = re.search(r"\bL\['(\w+)'\]", source)
        return root is not None and root[1] not in self._target


def _changing(entry: Any) -> Any:
    """Return what is dynamic in an entry; of the rest it knows nothing."""
    return FrameStateSizeEntry(*map(_dynamic, (entry.scalar, entry.size, entry.stride)))


def _dynamic(part: Any) -> Any:
    if isinstance(part, tuple):
        return tuple(map(_dynamic, part)) if auto_dynamic in part else auto_unset
    return part if part is auto_dynamic else auto_unset


# What is on disk


def disk_answers() -> tuple[Answers, Answers]:
    """Return what AOTAutograd's cache and inductor's have answered in this process."""
    aot, graphs = counters["aot_autograd"], counters["inductor"]
    return (
        Answers(aot["autograd_cache_hit"], aot["autograd_cache_miss"], aot["autograd_cache_bypass"]),
        Answers(graphs["fxgraph_cache_hit"], graphs["fxgraph_cache_miss"], graphs["fxgraph_cache_bypass"]),
    )


def torch_version() -> str:
    """Return torch's version: what it calls the sources of guards may differ between two."""
    return str(torch.__version__)


def disk_caches_off() -> list[str]:
    """Return the settings by which the user has turned caches on disk off."""
    from torch._functorch import config as aot
    from torch._inductor import config as inductor

    if torch.compiler.config.force_disable_caches:
        return ["torch.compiler.config.force_disable_caches"]
    found = {
        "torch._functorch.config.enable_autograd_cache": aot.enable_autograd_cache,
        "torch._inductor.config.fx_graph_cache": inductor.fx_graph_cache,
    }
    return [name for name, is_on in found.items() if not is_on]


def remote_caches() -> list[str]:
    """Return which of torch's caches also ask a Redis server."""
    from torch._functorch import config as aot
    from torch._inductor import config as inductor

    found = {
        "AOT": aot.enable_remote_autograd_cache,
        "inductor": inductor.fx_graph_remote_cache,
    }
    return [name for name, is_on in found.items() if is_on]


def forget_files() -> None:
    """Let inductor write anew what it has loaded from another directory, as torch does where the directory changes."""
    utils = sys.modules.get("torch._inductor.utils")
    if utils is not None:
        utils.clear_caches()


def changing_sizes(seen: Mapping[str, Any]) -> Sizes:
    """Return in plain values what torch has found to change.

    Parameters
    ----------
    seen
        What torch has seen, by source (`Shapes.seen`).
    """
    return {
        source: [_plain_size(entry.scalar), _plain_size(entry.size), _plain_size(entry.stride)]
        for source, entry in seen.items()
        if _is_changing(entry)
    }


def known_sizes(sizes: Sizes) -> dict[str, Any]:
    """Return what `changing_sizes` has returned, in another process, in torch's form (`Shapes.add`)."""
    return {source: FrameStateSizeEntry(*map(_torchs_size, parts)) for source, parts in sizes.items()}


def _is_changing(entry: Any) -> bool:
    # Of a tensor the "scalar" always is dynamic, and of a number the sizes.
    if entry.scalar is auto_dynamic and entry.size is auto_dynamic:
        return True
    return any(isinstance(part, tuple) and auto_dynamic in part for part in (entry.size, entry.stride))


def _plain_size(part: Any) -> Part:
    if isinstance(part, tuple):
        return [each is auto_dynamic or None for each in part] if auto_dynamic in part else None
    return part is auto_dynamic or None


def _torchs_size(part: Part) -> Any:
    if isinstance(part, list):
        return tuple(auto_dynamic if each else auto_unset for each in part)
    return auto_dynamic if part else auto_unset


# Files


@functools.cache
def _torch_directory() -> str:

    return torch.__file__.rsplit("/", 1)[0] + "/"


def is_torchs(file: str) -> bool:
    """Tell whether a file name is torch's, or that of code which torch generated."""
    return file.startswith((_torch_directory(), "<eval_with_key>")) or "/torchinductor_" in file


def is_compiled_internals(file: str) -> bool:
    """Tell whether a file name belongs to what stands between a compiled call and the operation that it runs."""
    directory = _torch_directory()
    return is_torchs(file) and (
        not file.startswith(directory)
        or file[len(directory) :].startswith(("_dynamo/", "_inductor/", "_functorch/", "fx/"))
    )


# Guards


def add_guard(guards: Any, holds: Callable[[Any], bool], text: str) -> None:
    """Let an entry also depend on `holds`, which is given the frame's variables; `text` is what is said if it fails."""
    guards.root.add_lambda_guard(holds, [text], None)


def guard_texts(guards: Any) -> list[str]:
    """Return the text of each guard of an entry, as in TORCH_LOGS=guards.

    And what the guard tree itself checks without a text, put as torch would.
    """
    return list(_texts(guards.root))


def has_entry_for(code: CodeType, f_locals: Mapping[str, object]) -> bool:
    """Tell whether an entry of `code` would serve a frame with these variables, in the state of this thread."""
    return any(entry.guard_manager.check(f_locals) for entry in _debug_get_cache_entry_list(code))


def entry_for(code: CodeType, f_locals: Mapping[str, object]) -> CodeType | None:
    """Return the compiled code of the entry that would serve a frame with these variables; None if there is none."""
    fits = (entry.code for entry in _debug_get_cache_entry_list(code) if entry.guard_manager.check(f_locals))
    return next(fits, None)


def misses(code: CodeType, f_locals: Mapping[str, object]) -> list[tuple[CodeType, str]]:
    """Return the compiled code of each entry of `code`, and in torch's words why it does not fit these variables."""
    frame: Any = types.SimpleNamespace(f_code=code, f_locals=f_locals)
    return [
        (entry.code, text)
        for entry in _debug_get_cache_entry_list(code)
        for text in get_and_maybe_log_recompilation_reasons([entry], frame, entry.backend, skip_logging=True)
    ]


def guards_of(code: CodeType, compiled: CodeType) -> Any:
    """Return the guards of an entry of `code`, for `guard_texts`; None if torch has dropped it."""
    entries = (each for each in _debug_get_cache_entry_list(code) if each.code is compiled and not _is_gone(each))
    return next((each.guard_manager for each in entries), None)


def _texts(root: Any) -> Iterator[str]:
    managers = [root]
    while managers:
        manager = managers.pop()
        texts = [text for guard in manager.get_leaf_guards() for text in guard.verbose_code_parts()]
        inner = list(manager.get_child_managers())
        if hasattr(manager, "get_key_value_managers"):
            pairs = manager.get_key_value_managers()
            inner += [each for pair in pairs.values() for each in pair if each is not None]
            # Where the order of a dictionary matters, the manager itself checks its size, and has no text for that.
            texts.append(f"len({manager.get_source()}) == {len(pairs)}")
        # A guard follows its source to nothing where there is nothing, also if no text says what it expects there.
        sources = [each.get_source() for each in inner]
        yield from texts
        yield from sources
        if manager is not root:
            yield from _all_keys(manager.get_source(), texts, sources)
        managers += inner


def _all_keys(source: str, texts: list[str], inner: list[str]) -> Iterator[str]:
    """Yield which keys a dictionary has if its size is pinned and guards follow that many keys: it has no others."""
    keys = sorted(
        each[len(source) + 1 : -1] for each in inner if each.startswith(f"{source}['") and each.endswith("']")
    )
    if keys and any(text.startswith(f"len({source}) == {len(keys)} ") for text in texts):
        yield f"dict.keys({source}) == {{{', '.join(keys)}}}"
