"""What `ipy_dynwrap.dynamo` takes from torch's private API: a test for each name, to say in one line what has moved.

None of these imports `ipy_dynwrap.dynamo`'s own names: if torch moves something, that module may not import at all.
"""

from __future__ import annotations

import ast
import functools
import importlib.util
import inspect
import operator
import re
import threading
from pathlib import Path
from types import CodeType

import pytest
import torch
import torch._dynamo
from torch import nn
from torch._dynamo.utils import counters, graph_break_reasons

from ipy_dynwrap import persist
from ipy_dynwrap.guard_kinds import KINDS

DYNAMO = Path(importlib.util.find_spec("ipy_dynwrap").origin).with_name("dynamo.py")

X = torch.ones(3)

# Where a name is, and what it is asked for there.
NAMES = {
    "torch._C._dynamo.eval_frame._debug_get_cache_entry_list": "the entries of a code object",
    "torch._C._dynamo.eval_frame._get_cache_entries_for_region": "the entries of a region",
    "torch._C._dynamo.eval_frame._FrameAction": "skip, run only",
    "torch._C._dynamo.eval_frame._FrameExecStrategy": "the answer of a callback",
    "torch._C._dynamo.eval_frame.get_eval_frame_callback": "whose compiled code calls a module",
    "torch._C._dynamo.eval_frame.get_eval_frame_isolate_recompiles_id": "the region of this thread",
    "torch._C._dynamo.eval_frame.set_eval_frame_isolate_recompiles_id": "the region of this thread",
    "torch._C._dynamo.eval_frame.reset_code": "dropping the entries of one code object",
    "torch._C._dynamo.eval_frame.set_code_exec_strategy": "leaving our own frames alone",
    "torch._C.DisableTorchFunctionSubclass": "reading a tensor without its subclass",
    "torch._C._functorch.peek_interpreter_stack": "whether a torch.func transform is on",
    "torch._C._get_tracing_state": "whether torch.jit.trace is on",
    "torch._dynamo.backends.common.aot_module_simplified": "the graphs of AOT autograd",
    "torch._dynamo.backends.registry.list_backends": "the names of backends",
    "torch._dynamo.bytecode_transformation._cached_cleaned_instructions.cache_clear": "forgetting code that is gone",
    "torch._dynamo.config": "the limits",
    "torch._dynamo.config._config": "which settings this thread has made itself",
    "torch._dynamo.config._make_closure_patcher": "settings for one compilation",
    "torch._dynamo.convert_frame.format_error_msg": "the error after which torch runs a frame eager",
    "torch._dynamo.convert_frame.FRAME_COUNTER": "the id of the next frame",
    "torch._dynamo.convert_frame.FRAME_COMPILE_COUNTER": "the id of the next entry",
    "torch._dynamo.convert_frame.output_codes": "telling compiled code from others",
    "torch._dynamo.decorators._nonrecursive_disable_wrapper_code": "what is not to be compiled itself",
    "torch._dynamo.eval_frame.OptimizedModule": "modules that torch.compile made",
    "torch._dynamo.eval_frame._stance.stance": "the stance of the compiler",
    "torch._dynamo.eval_frame.innermost_backend": "the backend behind a callback",
    "torch._dynamo.eval_frame.check_for_incompatible_configs": "settings that contradict each other",
    "torch._dynamo.eval_frame.innermost_fn": "the function behind a compiled one",
    "torch._dynamo.eval_frame.set_eval_frame": "the callback of this thread",
    "torch._dynamo.exc.FailOnRecompileLimitHit": "what the user asked for",
    "torch._dynamo.exc.ObservedException": "an exception of the user's own code, met while tracing",
    "torch._dynamo.exc.TorchDynamoException": "torch's word about a compilation",
    "torch._dynamo.exc.UncapturedHigherOrderOpError": "what the user asked for",
    "torch._dynamo.exc.Unsupported": "what the user asked for",
    "torch._dynamo.exc.UserError": "what the user asked for",
    "torch._dynamo.external_utils.wrap_inline": "what is already compiled",
    "torch._dynamo.guards.CheckFunctionManager.compile_check_fn": "the guards of a new entry",
    "torch._dynamo.guards.DeletedGuardManagerWrapper": "which entries are for objects that are gone",
    "torch._dynamo.guards.GuardBuilder.CLASS_MATCH": "a guard on what torch does not guard",
    "torch._dynamo.guards.GuardBuilder.ID_MATCH": "a guard on what torch does not guard",
    "torch._dynamo.guards.GuardBuilder.DICT_NOT_CONTAINS": "a guard that a key is absent",
    "torch._dynamo.guards.GuardBuilder.NOT_PRESENT_IN_GENERIC_DICT": "a guard that an attribute is absent",
    "torch._dynamo.guards.GuardBuilder.DICT_CONTAINS": "a guard that a key is there",
    "torch._dynamo.guards.GuardBuilder.DICT_KEYS_MATCH": "a guard on the keys of an object's dictionary",
    "torch._dynamo.guards.GuardBuilder.DUPLICATE_INPUT": "what our guard on identity is like",
    "torch._dynamo.guards.get_verbose_code_parts": "the text of a guard of ours",
    "torch._dynamo.guards.get_tensor_guard_code_part": "what is guarded of a tensor",
    "torch._dynamo.guards.install_guard": "a guard on what torch does not guard",
    "torch._dynamo.guards.code_framelocals_names_reversed_cached.cache_clear": "forgetting code that is gone",
    "torch._dynamo.guards.get_and_maybe_log_recompilation_reasons": "why an entry does not fit",
    "torch._dynamo.exc.unimplemented": "a graph break of our own",
    "torch._dynamo.output_graph.OutputGraph.call_user_compiler": "the graph of a frame",
    "torch._dynamo.pgo.CodeId.make": "what is known of the sizes of a function's arguments",
    "torch._dynamo.pgo.FrameStateSizeEntry": "what is known of the sizes of an argument",
    "torch._dynamo.pgo.auto_dynamic": "a size that changes",
    "torch._dynamo.pgo.auto_unset": "a size that was not seen yet",
    "torch._dynamo.pgo.get_code_state": "what is known of the sizes of a function's arguments",
    "torch._dynamo.resume_execution.TORCH_DYNAMO_RESUME_IN_PREFIX": "telling the rest of a broken function",
    "torch._dynamo.source.DictGetItemSource": "where a global is that is of no module",
    "torch._dynamo.source.GlobalSource": "where a global is that is of no module",
    "torch._dynamo.source.AttrSource": "where an attribute is",
    "torch._dynamo.source.GetItemSource": "where a base of a class is",
    "torch._dynamo.source.LocalSource": "where an argument is",
    "torch._dynamo.source.TypeDictSource": "where the attributes of a class are",
    "torch._dynamo.source.TypeMROSource": "where the bases of a class are",
    "torch._dynamo.source.is_from_skip_guard_source": "what needs no guard",
    "torch._dynamo.symbolic_convert.compare_op_handlers": "where objects are compared",
    "torch._dynamo.symbolic_convert.InliningInstructionTranslator.get_globals_source_and_value": "whose globals are",
    "torch._dynamo.symbolic_convert.InstructionTranslator.current_tx": "what is compiled now",
    "torch._dynamo.symbolic_convert.InstructionTranslatorBase.import_source": "where a module is",
    "torch._dynamo.symbolic_convert.InstructionTranslatorBase.mark_inconsistent_side_effects": "who asks is_compiling",
    "torch._dynamo.symbolic_convert.InstructionTranslatorBase.load_builtin": "whether a builtin may be shadowed",
    "torch._dynamo.symbolic_convert._import_module": "which module torch reads globals from",
    "torch._dynamo.trace_rules.check": "whether a frame is torch's own",
    "torch._dynamo.guards.CheckFunctionManager.id_ref": "the objects whose identity an entry compares",
    "torch._dynamo.types.ConvertFrameReturn": "the answer of a callback",
    "torch._dynamo.types.GuardedCode": "an entry for the frame of another region",
    "torch._dynamo.utils.counters": "whether a compilation made a graph",
    "torch._dynamo.utils.get_metrics_context": "what keeps the code of cells",
    "torch._dynamo.utils.graph_break_reasons": "the graph breaks",
    "torch._dynamo.variables.ConstantVariable": "what is guarded by its value",
    "torch._dynamo.variables.SymNodeVariable.evaluate_expr": "a number that is dynamic",
    "torch._dynamo.variables.lists.DequeVariable": "how many items a deque may hold",
    "torch._dynamo.variables.lists.CommonListMethodsVariable.call_method": "where a dictionary's order counts",
    "torch._dynamo.variables.lists.iter_contains": "whether something is among items",
    "torch._dynamo.variables.dicts.ConstDictVariable.call_method": "where a dictionary's order counts",
    "torch._dynamo.variables.dicts.ConstDictVariable.install_dict_keys_match_guard": "a guard on a dictionary's keys",
    "torch._dynamo.variables.dicts.ConstDictVariable.unpack_var_sequence": "where a dictionary's order counts",
    "torch._dynamo.variables.object_protocol._get_cached_slots.cache_clear": "methods that a class has got since",
    "torch._dynamo.guards.GuardBuilder.CONSTANT_MATCH": "a guard on a number",
    "torch._dynamo.guards.GuardBuilder.requires_key_order_guarding": "where a dictionary's order counts",
    "torch._dynamo.variables.builder.make_dupe_guard": "an object that is reached in two ways",
    "torch._dynamo.variables.builtin.vt_identity_compare": "where objects are compared",
    "torch._dynamo.variables.object_protocol.vt_identity_compare": "where objects are compared",
    "torch._dynamo.variables.builder.VariableBuilder._wrap": "what Dynamo looks into",
    "torch._dynamo.variables.builder.VariableBuilder.install_guards": "a guard on what torch does not guard",
    "torch._dynamo.variables.dicts.ConstDictVariable.getitem_const_raise_exception_if_absent": "a key that is absent",
    "torch._dynamo.variables.dicts.ConstDictVariable.install_dict_contains_guard": "a key that is absent",
    "torch._dynamo.variables.dicts.SideEffectsProxyDict.__contains__": "what is in an object's dictionary",
    "torch._dynamo.variables.dicts.SideEffectsProxyDict.__iter__": "what is in an object's dictionary",
    "torch._dynamo.variables.dicts.SideEffectsProxyDict._maybe_unwrap_key": "what is in an object's dictionary",
    "torch._dynamo.variables.dicts.SideEffectsProxyDict.get_example_value_dict": "what is in an object's dictionary",
    "torch._dynamo.variables.functions.UserFunctionVariable.call_obj_hasattr": "which attributes a function has",
    "torch._dynamo.variables.functions.UserFunctionVariable.var_getattr": "which attributes a function has",
    "torch._dynamo.variables.functions.WrapperUserFunctionVariable": "whose dictionary that of a cached function is",
    "torch._dynamo.variables.misc.PythonModuleVariable.call_obj_hasattr": "which attributes a module has",
    "torch._dynamo.variables.misc.PythonModuleVariable.var_getattr": "which attributes a module has",
    "torch._dynamo.variables.user_defined.UserDefinedClassVariable.var_getattr": "which attributes a class has",
    "torch._dynamo.variables.user_defined.UserDefinedObjectVariable.generic_getattr": "which attributes an object has",
    "torch._dynamo.utils.ChromiumEventLogger.log_event_end": "the phases of a compilation",
    "torch._dynamo.utils.ChromiumEventLogger.log_event_start": "the phases of a compilation",
    "torch._functorch._aot_autograd.schemas.SerializableAOTDispatchCompiler": "compilers of AOT graphs",
    "torch._guards.CompileContext.try_get": "whether this thread compiles",
    "torch._guards.Source": "the sources that a guard was made with",
    "torch._guards.TracingContext.try_get": "whether this thread compiles",
    "torch._inductor.cpp_builder.get_cpp_compiler": "whether there is a C++ compiler",
    "torch._functorch.config.enable_autograd_cache": "caches that the user has turned off",
    "torch._functorch.config.enable_remote_autograd_cache": "caches over Redis",
    "torch._inductor.config.fx_graph_cache": "caches that the user has turned off",
    "torch._inductor.config.fx_graph_remote_cache": "caches over Redis",
    "torch._inductor.utils.clear_caches": "writing to another directory",
    "torch._inductor.runtime.cache_dir_utils.default_cache_dir": "where torch writes by itself",
    "torch._inductor.list_mode_options": "the names of modes",
    "torch._inductor.output_code.CompiledFxGraph.post_compile": "generated code",
    "torch.autograd.graph._engine_run_backward": "nothing is routed during backward",
    "torch._library.simple_registry.find_torch_dispatch_rule.__code__": "where an interrupt would end the process",
    "torch.fx._symbolic_trace.is_fx_symbolic_tracing": "whether FX is tracing",
    "torch.nn.Module._call_impl": "graph modules without global hooks",
    "torch.nn.Module._wrapped_call_impl": "what a call of a module runs",
    "torch.nn.modules.module._global_backward_hooks": "hooks for all modules",
    "torch.nn.modules.module._global_backward_pre_hooks": "hooks for all modules",
    "torch.nn.modules.module._global_forward_hooks": "hooks for all modules",
    "torch.nn.modules.module._global_forward_hooks_always_called": "hooks for all modules",
    "torch.nn.modules.module._global_forward_pre_hooks": "hooks for all modules",
    "torch.nn.modules.module._has_any_global_hook": "hooks for all modules",
    "torch.utils._config_module._UNSET_SENTINEL": "which settings this thread has made itself",
    "torch.utils._python_dispatch._get_current_dispatch_mode": "whether a dispatch mode is on",
    "torch.utils.data.dataloader._BaseDataLoaderIter": "nothing is routed in data loading",
}


def found(path):
    """Return what is at a dotted path: the longest module, then attributes."""
    parts = path.split(".")
    for length in range(len(parts), 0, -1):
        try:
            module = importlib.import_module(".".join(parts[:length]))
        except ImportError:
            continue
        return functools.reduce(getattr, parts[length:], module)
    raise AttributeError(path)


@pytest.mark.parametrize("path", NAMES)
def test_name_is_there(path):
    try:
        found(path)
    except AttributeError:
        pytest.fail(f"torch {torch.__version__} has no {path} any more (for: {NAMES[path]})", pytrace=False)


def names_read(tree):
    """Yield the dotted paths in torch that a module's code goes to."""
    known = {"torch": "torch"}
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("torch"):
            for each in node.names:
                known[each.asname or each.name] = f"{node.module}.{each.name}"
                yield f"{node.module}.{each.name}"
    for node in ast.walk(tree):
        parts, inner = [], node
        while isinstance(inner, ast.Attribute):
            parts.insert(0, inner.attr)
            inner = inner.value
        if parts and isinstance(inner, ast.Name) and inner.id in known:
            yield ".".join([known[inner.id], *parts])


def private_names(file):
    return {path for path in names_read(ast.parse(file.read_text())) if re.search(r"\._(?!_)", path)}


def test_only_one_module_reads_private_names():
    others = [file for file in DYNAMO.parent.rglob("*.py") if file != DYNAMO]
    assert not {file.name: names for file in others if (names := private_names(file))}


def test_no_private_name_is_read_without_a_test():
    private = private_names(DYNAMO)
    # A way to a name that is listed, or what such a name offers.
    untold = [
        path
        for path in private
        if not any(f"{name}.".startswith(f"{path}.") or path.startswith(f"{name}.") for name in NAMES)
    ]
    assert not untold, f"dynamo.py reads what no test names: {sorted(untold)}"


# What the names mean


def moved(condition, what):
    if not condition:
        pytest.fail(f"torch {torch.__version__}: {what}", pytrace=False)


def compiled_entry(function, *args, **options):
    torch.compile(function, backend="eager", **options)(*args)
    (entry,) = found("torch._C._dynamo.eval_frame._debug_get_cache_entry_list")(function.__code__)
    return entry


def noted(monkeypatch, path, *, of=lambda *args, **kwargs: (args, kwargs)):
    """Return a list that grows by what `of` makes of each call of a function of torch's."""
    owner, name = path.rsplit(".", 1)
    owner, calls = found(owner), []
    original = getattr(owner, name)

    def note(*args, **kwargs):
        result = original(*args, **kwargs)
        calls.append(of(*args, **kwargs))
        return result

    monkeypatch.setattr(owner, name, note)
    return calls


def test_guards_tell_of_themselves(monkeypatch):
    made = noted(monkeypatch, "torch._dynamo.guards.CheckFunctionManager.compile_check_fn", of=lambda *args: args[2])
    tensors = noted(monkeypatch, "torch._dynamo.guards.get_tensor_guard_code_part", of=lambda *args: args[:3])
    scale = 2

    def function(x):
        return x * scale

    compiled_entry(function, X)
    guards = {(each.name, each.create_fn_name()): each for each in made[0]}
    of_scale = next(each for (name, kind), each in guards.items() if kind == "CONSTANT_MATCH" and "scale" in name)
    moved([text[-5:] for text in of_scale.code_list] == [" == 2"], "a guard has the texts of what it checks")
    stack = of_scale.user_stack
    moved((stack[-1].filename, stack[-1].lineno) == (__file__, function.__code__.co_firstlineno + 1), "and its stack")
    absent = [each for (_, kind), each in guards.items() if kind == "TENSOR_MATCH"]
    moved([each.name for each in absent] == ["L['x']"], "a tensor has one guard, named as in its text")
    value, name, sizes = tensors[0]
    moved((value.dtype, name, list(sizes)) == (X.dtype, "L['x']", [3]), "the text is made of the tensor and its sizes")


def test_a_graph_tells_of_its_nodes(monkeypatch):
    def of(output, module, inputs):
        node = next(iter(module.graph.nodes))
        return node.meta["grapharg"].source.name, tuple(node.meta["example_value"].shape), inputs

    graphs = noted(monkeypatch, "torch._dynamo.output_graph.OutputGraph.call_user_compiler", of=of)
    compiled_entry(lambda x: x + 1, X)
    moved(graphs[0][:2] == ("L['x']", (3,)), "an input of the graph knows its source and its value")


def test_phases_begin_and_end(monkeypatch):
    begun = noted(monkeypatch, "torch._dynamo.utils.ChromiumEventLogger.log_event_start", of=lambda *args: args[1:3])
    ended = noted(monkeypatch, "torch._dynamo.utils.ChromiumEventLogger.log_event_end", of=lambda *args: args[1:3])
    torch.compile(lambda x: x + 1, backend="aot_eager")(X)
    names = [name for name, _ in begun]
    for name in ("dynamo", "backend_compile", "create_aot_dispatcher_function", "build_guards"):
        moved(name in names, f"{name} is a phase")
    moved(dict(ended)["dynamo"] > dict(begun)["dynamo"] > 1e18, "a phase is timed in nanoseconds since 1970")


def test_aot_autograd_is_given_its_compilers_by_name(monkeypatch):
    given = noted(
        monkeypatch, "torch._dynamo.backends.common.aot_module_simplified", of=lambda *args, **compilers: set(compilers)
    )
    torch.compile(lambda x: x + 1, backend="aot_eager")(X)
    moved(given[0] >= {"fw_compiler", "bw_compiler", "inference_compiler"}, "the compilers of AOT autograd have names")


def test_caches_on_disk_are_counted_under_these_names():
    source = inspect.getsource(found("torch._functorch._aot_autograd.autograd_cache"))
    source += inspect.getsource(found("torch._inductor.codecache"))
    for kind, name in (("aot_autograd", "autograd_cache"), ("inductor", "fxgraph_cache")):
        for outcome in ("hit", "miss"):
            moved(f'counters["{kind}"]["{name}_{outcome}"] += 1' in source, f"{name} counts a {outcome}")


def test_the_callback_is_in_a_cell_of_the_compiled_function():
    compiled = torch.compile(lambda x: x + 1, backend="eager")
    moved("callback" in compiled.__code__.co_freevars, "torch.compile's function has no cell named 'callback'")
    callback = compiled.__closure__[compiled.__code__.co_freevars.index("callback")].cell_contents
    moved(hasattr(callback, "_torchdynamo_orig_backend"), "the callback has no _torchdynamo_orig_backend")
    parameters = list(inspect.signature(type(callback).__call__).parameters)
    moved(parameters == ["self", "frame", "cache_entry", "frame_state"], f"the callback takes {parameters}")


def test_compile_takes_isolate_recompiles():
    moved("isolate_recompiles" in inspect.signature(torch.compile).parameters, "no isolate_recompiles in torch.compile")


def test_an_entry_has_code_and_guards():
    def f(x):
        return x + 1

    entry = compiled_entry(f, X)
    moved(isinstance(entry.code, CodeType), "an entry has no code")
    moved(entry.guard_manager.check({"x": X}) is True, "guards do not hold for what was compiled")
    moved(entry.guard_manager.check({"x": torch.ones(4)}) is False, "guards hold for what was not compiled")
    root = entry.guard_manager.root
    for name in ("get_leaf_guards", "get_child_managers"):
        moved(hasattr(root, name), f"the root of the guards has no {name}")
    texts = [text for guard in root.get_leaf_guards() for text in guard.verbose_code_parts()]
    moved(all(isinstance(text, str) for text in texts), "verbose_code_parts is no list of texts")


def test_reset_code_drops_the_entries_of_one_code_object():
    def f(x):
        return x + 1

    def g(x):
        return x + 2

    compiled_entry(f, X)
    compiled_entry(g, X)
    entries = found("torch._C._dynamo.eval_frame._debug_get_cache_entry_list")
    found("torch._C._dynamo.eval_frame.reset_code")(f.__code__)
    moved((len(entries(f.__code__)), len(entries(g.__code__))) == (0, 1), "reset_code does not drop one code's entries")


def test_sizes_of_arguments_are_kept_by_code_and_source():
    def function(x, n):
        return x * n

    compiled = torch.compile(function, backend="eager")
    compiled(torch.ones(2, 3), 4)
    compiled(torch.ones(5, 3), 4)
    code_id = torch._dynamo.pgo.CodeId.make(function.__code__, ())
    known = torch._dynamo.pgo.get_code_state()[code_id].automatic_dynamic
    assert set(known) == {"L['x']", "L['n']"}, f"sizes are kept by other sources now: {set(known)}"
    assert known["L['x']"].size == (torch._dynamo.pgo.auto_dynamic, 3), "a size that changed is not `auto_dynamic` now"
    assert known["L['n']"].scalar == 4, "a number is not kept as `scalar` now"


def test_globals_of_inlined_functions_are_found_by_one_method(monkeypatch):
    translator = torch._dynamo.symbolic_convert.InliningInstructionTranslator
    original, asked = translator.get_globals_source_and_value, []

    def find(self, name):
        asked.append((name, self.f_globals["__name__"], self.current_instruction.opname))
        return original(self, name)

    monkeypatch.setattr(translator, "get_globals_source_and_value", find)
    torch.compile(nn.ReLU(), backend="eager")(X)
    assert any(opname == "LOAD_GLOBAL" for _, _, opname in asked), "inlined functions find their globals elsewhere now"


@pytest.mark.parametrize(
    ("name", "names"),
    [("f", {"len"}), ("inlined", {"abs"})],
)
def test_builtin_names_are_loaded_by_one_method(monkeypatch, name, names):
    translator = torch._dynamo.symbolic_convert.InstructionTranslatorBase
    original, loaded = translator.load_builtin, set()

    def load(self, instruction):
        loaded.add(instruction.argval)
        original(self, instruction)

    def inner(x):
        return x * abs(-2)

    functions = {"f": lambda x: x * len([1]), "inlined": lambda x: inner(x) + 1}
    monkeypatch.setattr(translator, "load_builtin", load)
    torch.compile(functions[name], backend="eager")(X)
    moved(loaded == names, "builtin names are loaded elsewhere now")


class Plain:
    factor = 2

    def __getattr__(self, name):
        return 2


ONE, TWO = Plain(), Plain()


@pytest.mark.parametrize(
    ("module", "compare"),
    [
        ("object_protocol", lambda a: a == TWO),
        ("object_protocol", lambda a: a in [TWO, ONE]),
        ("builtin", lambda a: operator.is_(a, TWO)),
    ],
)
def test_objects_are_compared_by_one_function(monkeypatch, module, compare):
    module = found(f"torch._dynamo.variables.{module}")
    original, compared = module.vt_identity_compare, []

    def identity(left, right):
        result = original(left, right)
        compared.append((left.source.name[:2], right.source.name[:2], result.as_python_constant()))
        return result

    monkeypatch.setattr(module, "vt_identity_compare", identity)
    torch.compile(lambda x, a: x * 2 if compare(a) else x, backend="eager")(X, ONE)
    moved(("L[", "G[", False) in compared, f"objects are compared elsewhere now: {compared}")


@pytest.mark.parametrize("name", ["is", "is not"])
def test_tensors_are_compared_by_one_function(monkeypatch, name):
    handlers = found("torch._dynamo.symbolic_convert.compare_op_handlers")
    original, compared = handlers[name], []

    def handle(translator, pair, options):
        result = original(translator, pair, options)
        compared.append(([each.unwrap().source.name for each in pair], result.as_python_constant()))
        return result

    compare = {"is": lambda a, b: a is b, "is not": lambda a, b: a is not b}[name]
    monkeypatch.setitem(handlers, name, handle)
    torch.compile(lambda x, y: x * 2 if compare(x, y) else y, backend="eager")(X, X + 1)
    moved((["L['x']", "L['y']"], name == "is not") in compared, f"tensors are compared elsewhere now: {compared}")


def test_an_object_that_is_reached_in_two_ways_is_met_by_one_function(monkeypatch):
    builder = found("torch._dynamo.variables.builder")
    original, met = builder.make_dupe_guard, []

    def make(source, earlier):
        met.append(({source.name[:1], earlier.name[:1]}, original(source, earlier)))
        return met[-1][1]

    monkeypatch.setattr(builder, "make_dupe_guard", make)
    torch.compile(lambda x, a: x * 2 if a is ONE else x, backend="eager")(X, ONE)
    moved(({"L", "G"}, None) in met, f"an object that is reached in two ways is met elsewhere now: {met}")


def number_of(*names):
    return len(names)


@pytest.mark.parametrize(
    ("path", "use", "arguments"),
    [
        ("dicts.ConstDictVariable.unpack_var_sequence", lambda table: number_of(*table), ()),
        ("dicts.ConstDictVariable.call_method", lambda table: {**table}, ("update",)),
        ("dicts.ConstDictVariable.call_method", lambda table: table.copy(), ("copy",)),
        ("lists.CommonListMethodsVariable.call_method", lambda table: [*table], ("extend",)),
        ("lists.iter_contains", lambda table: 5 in (1, table["b"]), ()),
    ],
    ids=lambda each: each if isinstance(each, str) else "",
)
def test_containers_are_unpacked_by_one_method(monkeypatch, path, use, arguments):
    owner, name = found(f"torch._dynamo.variables.{path.rpartition('.')[0]}"), path.rpartition(".")[2]
    original, called = getattr(owner, name), []

    def unpack(*args):
        called.append(args[2:3] if arguments else ())
        return original(*args)

    monkeypatch.setattr(owner, name, unpack)
    torch.compile(lambda x, table: x * 2 if use(table) else x, backend="eager")(X, {"a": 1, "b": 2})
    moved(arguments in called, f"containers are unpacked elsewhere now: {called}")


def function_without_attributes():
    pass


@pytest.mark.parametrize(
    ("path", "read", "name"),
    [
        ("user_defined.UserDefinedObjectVariable.generic_getattr", lambda: ONE.absent, "absent"),
        ("user_defined.UserDefinedClassVariable.var_getattr", lambda: Plain.factor, "factor"),
        ("misc.PythonModuleVariable.var_getattr", lambda: inspect.CO_VARARGS, "CO_VARARGS"),
        ("misc.PythonModuleVariable.call_obj_hasattr", lambda: hasattr(inspect, "absent"), "absent"),
        ("functions.UserFunctionVariable.var_getattr", lambda: function_without_attributes.__name__, "__name__"),
        (
            "functions.UserFunctionVariable.call_obj_hasattr",
            lambda: hasattr(function_without_attributes, "absent"),
            "absent",
        ),
    ],
    ids=lambda each: each if isinstance(each, str) else "",
)
def test_attributes_are_read_by_one_method(monkeypatch, path, read, name):
    cls, method = found(f"torch._dynamo.variables.{path.rpartition('.')[0]}"), path.rpartition(".")[2]
    original, names = getattr(cls, method), set()

    def reading(self, translator, name):
        names.add(name)
        return original(self, translator, name)

    monkeypatch.setattr(cls, method, reading)
    torch.compile(lambda x: x * 2 if read() else x, backend="eager")(X)
    moved(name in names, f"attributes are read elsewhere now: {names}")


@pytest.mark.parametrize(
    ("method", "read"),
    [
        ("__contains__", lambda owner: "absent" in owner.__dict__),
        ("__contains__", lambda owner: owner.__dict__.get("absent")),
        ("__iter__", lambda owner: len(owner.__dict__)),
    ],
)
def test_the_dictionary_of_an_object_is_read_by_one_class(monkeypatch, method, read):
    cls = found("torch._dynamo.variables.dicts.SideEffectsProxyDict")
    original, sources = getattr(cls, method), []

    def reading(self, *key):
        sources.append((self.item.source.name, self.get_example_value_dict(self.item) is owner.__dict__))
        return original(self, *key)

    owner = nn.Identity()
    monkeypatch.setattr(cls, method, reading)
    torch.compile(lambda x, owner: x * 2 if read(owner) else x, backend="eager")(X, owner)
    moved(("L['owner']", True) in sources, f"the dictionary of an object is read elsewhere now: {sources}")


def test_of_a_cached_function_the_dictionary_of_the_function_is_read(monkeypatch):
    cls = found("torch._dynamo.variables.functions.WrapperUserFunctionVariable")
    original, seen = cls.var_getattr, []

    def reading(self, translator, name):
        own = found("torch._dynamo.variables.dicts.SideEffectsProxyDict").get_example_value_dict(self)
        seen.append((self.attr_to_trace, own is cached.__wrapped__.__dict__))
        return original(self, translator, name)

    cached = functools.lru_cache(function_without_attributes)
    monkeypatch.setattr(cls, "var_getattr", reading)
    torch.compile(lambda x: x * 2 if cached.__name__ else x, backend="eager")(X)
    moved(seen == [("__wrapped__", True)], f"a cached function is read otherwise now: {seen}")


def test_guards_on_aliases_are_texts_in_a_list(monkeypatch):
    """What is added to that list is evaluated when all other guards hold."""
    guards = found("torch._dynamo.guards.GuardBuilder")
    original, texts = guards.DUPLICATE_INPUT, []

    def duplicate(self, guard, source_b):
        original(self, guard, source_b)
        texts.extend(self.object_aliasing_guard_codes)

    monkeypatch.setattr(guards, "DUPLICATE_INPUT", duplicate)
    compiled_entry(lambda x, y: x * y, X, X)
    moved(bool(texts) and texts[0][0].endswith(" is L['y']"), f"guards on aliases are made otherwise now: {texts}")
    parts = found("torch._dynamo.guards.get_verbose_code_parts")
    moved("guard" in inspect.signature(parts).parameters, "get_verbose_code_parts takes no guard")


def test_metrics_keep_stacks_in_a_list():
    torch.compile(lambda x: x + 1, backend="eager")(X)
    metrics = torch._dynamo.utils.get_metrics_context()
    assert not metrics.in_progress(), "a compilation that has ended is in progress now"
    assert isinstance(metrics._edits, list), "the stacks of metrics are kept elsewhere now"


def test_a_callback_set_is_returned_when_it_is_taken_off():
    set_eval_frame = found("torch._dynamo.eval_frame.set_eval_frame")
    moved(set_eval_frame(None) is None, "set_eval_frame does not return None where no callback was")


def test_a_frame_strategy_has_an_action_for_the_frame_and_one_for_what_it_calls():
    action = found("torch._C._dynamo.eval_frame._FrameAction")
    strategy = found("torch._C._dynamo.eval_frame._FrameExecStrategy")(action.SKIP, action.RUN_ONLY)
    moved(strategy.cur_action == action.SKIP, "cur_action is not the first of a strategy")
    moved(strategy.recursive_action == action.RUN_ONLY, "recursive_action is not the second of a strategy")
    moved(hasattr(action, "DEFAULT"), "there is no FrameAction.DEFAULT")
    result = found("torch._dynamo.types.ConvertFrameReturn")(frame_exec_strategy=strategy, apply_to_code=False)
    moved(result.guarded_code is None, "a ConvertFrameReturn without code has guarded_code")
    moved(hasattr(result, "skip_reason"), "a ConvertFrameReturn has no skip_reason")


def test_a_graph_is_counted_and_a_break_is_noted():
    def f(x):
        x = x + 1
        torch._dynamo.graph_break()
        return x * 2

    graphs, breaks = counters["stats"]["unique_graphs"], len(graph_break_reasons)
    torch.compile(f, backend="eager")(X)
    moved(counters["stats"]["unique_graphs"] == graphs + 2, "counters['stats']['unique_graphs'] does not count graphs")
    moved(len(graph_break_reasons) > breaks, "graph_break_reasons does not keep graph breaks")
    last = graph_break_reasons[-1]
    moved(bool(last.reason) and last.user_stack[-1].filename == __file__, "a graph break has no reason or user_stack")
    moved(isinstance(last.user_stack[-1].lineno, int), "a frame of user_stack has no lineno")


def test_a_thread_that_compiles_is_told_from_others():
    told = []

    def backend(graph, inputs):
        thread = threading.Thread(target=ask)
        ask()
        thread.start()
        thread.join()
        return graph.forward

    def ask():
        told.append(found("torch._guards.CompileContext.try_get")() is not None)

    torch.compile(lambda x: x + 1, backend=backend)(X)
    moved(told == [True, False], "CompileContext.try_get does not tell the thread that compiles")


def test_the_graph_names_the_classes_of_modules_in_its_metadata():
    seen = []

    def backend(graph, inputs):
        seen.extend(node.meta["nn_module_stack"] for node in graph.graph.nodes if node.meta.get("nn_module_stack"))
        return graph.forward

    torch.compile(nn.Sequential(nn.Linear(3, 3)), backend=backend)(X)
    pairs = [pair for stack in seen for pair in stack.values()]
    moved(bool(pairs), "nodes have no nn_module_stack")
    moved(
        all(len(pair) == 2 and isinstance(pair[1], type) for pair in pairs), "nn_module_stack is no {id: (path, class)}"
    )


def test_a_module_has_marks_of_being_compiled():
    moved(nn.Module._compiled_call_impl is None, "nn.Module has no _compiled_call_impl")
    module = nn.Linear(2, 2)
    module.compile(backend="eager")
    moved(module._compiled_call_impl is not None, "Module.compile does not set _compiled_call_impl")
    moved(torch.compile(module, backend="eager")._orig_mod is module, "an OptimizedModule has no _orig_mod")
    disabled = torch.compiler.disable(lambda x: x)
    moved(getattr(disabled, "_torchdynamo_disable", False) is True, "disable does not set _torchdynamo_disable")


def test_marks_lead_from_a_compiled_function_to_the_original():
    def f(x):
        return x

    def mine(x):
        return x

    mine._torchdynamo_orig_callable = f
    innermost = found("torch._dynamo.eval_frame.innermost_fn")
    moved(innermost(mine) is mine, "innermost_fn follows a mark without _torchdynamo_wrapper_id")
    mine._torchdynamo_wrapper_id = id(mine)
    moved(innermost(mine) is f, "innermost_fn does not follow _torchdynamo_orig_callable")
    moved(innermost(torch.compile(f, backend="eager")) is f, "innermost_fn does not find what torch.compile compiled")


def test_settings_have_an_override_of_the_thread():
    from torch._dynamo import config

    unset = found("torch.utils._config_module._UNSET_SENTINEL")
    entry = config._config["recompile_limit"]
    moved(hasattr(entry, "user_override") and hasattr(entry.user_override, "get"), "no user_override in a setting")
    moved(
        entry.user_override.get() is unset or isinstance(entry.user_override.get(), int), "user_override holds no value"
    )


@pytest.mark.parametrize(
    "name", ["recompile_limit", "accumulated_recompile_limit", "skip_nnmodule_hook_guards", "nested_graph_breaks"]
)
def test_setting_is_there(name):
    from torch._dynamo import config

    moved(name in config.get_config_copy(), f"torch._dynamo.config has no {name}")


@pytest.mark.parametrize(
    "stance",
    [
        "default",
        "force_eager",
        "eager_on_recompile",
        "fail_on_recompile",
        "eager_then_compile",
        "aot_eager_then_compile",
    ],
)
def test_stance_is_known(stance):
    try:
        with torch.compiler.set_stance(stance):
            pass
    except RuntimeError:
        pytest.fail(f"torch {torch.__version__} does not know the stance {stance!r}", pytrace=False)


def test_barriers_have_code_of_their_own():
    def nothing(): ...

    candidates = {
        "a compiled function": torch.compile(nothing, backend="eager"),
        "a disabled function": torch.compiler.disable(nothing),
        "OptimizedModule.__call__": found("torch._dynamo.eval_frame.OptimizedModule").__call__,
        "checkpoint": torch.utils.checkpoint.checkpoint,
        "the data loader's next": found("torch.utils.data.dataloader._BaseDataLoaderIter").__next__,
        "backward": found("torch.autograd.graph._engine_run_backward"),
    }
    without = [name for name, each in candidates.items() if not isinstance(getattr(each, "__code__", None), CodeType)]
    moved(not without, f"no Python code behind {without}")


def test_torch_is_where_its_file_names_say():
    moved(Path(torch._dynamo.__file__).is_relative_to(Path(torch.__file__).parent / "_dynamo"), "torch._dynamo moved")
    from torch._subclasses import fake_tensor

    moved(fake_tensor.log.name == "torch._subclasses.fake_tensor", "the logger of fake tensors has another name")


def test_each_kind_of_guard_is_in_the_table():
    # Read here without `dynamo.guard_kinds`, which may not import if torch has moved something else.
    builder = found("torch._dynamo.guards.GuardBuilder")
    made = {name for name, each in vars(builder).items() if name.isupper() and inspect.isfunction(each)}
    told = {name for kind in KINDS for name in kind.torch}
    moved(made <= told, f"ipy_dynwrap.guard_kinds does not say what {sorted(made - told)} is in a key")
    moved(told <= made, f"GuardBuilder has no {sorted(told - made)}, which ipy_dynwrap.guard_kinds names")


def test_torch_writes_where_its_variable_says_now(tmp_path, monkeypatch):
    directories = found("torch._inductor.runtime.cache_dir_utils")
    moved(directories.default_cache_dir() == str(persist._torchs_own_directory()), "torch writes elsewhere by itself")
    monkeypatch.setenv(persist.VARIABLE, str(tmp_path))
    moved(directories.cache_dir() == str(tmp_path), f"{persist.VARIABLE} is not read when torch wants a file")
    output = found("torch._inductor.codecache.FxGraphCache")._get_tmp_dir()
    moved(output == str(tmp_path / "fxgraph"), "inductor's cache lies elsewhere")


def test_what_is_dynamic_comes_back_as_it_was():
    from ipy_dynwrap import dynamo

    entry = found("torch._dynamo.pgo.FrameStateSizeEntry")
    fixed, other = entry.make_tensor((2, 3), (3, 1)), entry.make_tensor((4, 3), (3, 1))
    moved(dynamo.changing_sizes({"x": fixed}) == {}, "a size that torch has seen once counts as one that changes")
    fixed |= other
    number = entry.make_scalar(2)
    number |= entry.make_scalar(3)
    kept = dynamo.changing_sizes({"x": fixed, "n": number})
    moved(set(kept) == {"x", "n"}, "torch has another sign for what changes")
    back = dynamo.known_sizes(kept)
    moved(back["x"].is_size_dynamic(0) and not back["x"].is_size_dynamic(1), "sizes do not come back")
    moved(back["n"] == number, "numbers do not come back")
