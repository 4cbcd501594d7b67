"""What a user should hear although nothing failed: options that do nothing, breakpoints that cannot stop."""

from __future__ import annotations

import functools
import sys
from collections.abc import Iterator
from types import CodeType
from typing import Any

from . import dynamo, state
from .keys import kin_of, own_code, qualified_name
from .options import Options

__all__ = ["Breakpoints", "ignored_options"]

# Backends that take options and mode, and do nothing with them.
_IGNORING = frozenset(
    {
        "aot_eager",
        "aot_eager_decomp_partition",
        "cudagraphs",
        "eager",
        "eager_debug",
        "eager_noexcept",
        "invoke_subgraph",
        "pre_dispatch_eager",
    }
)
_CUDA_GRAPHS = "triton.cudagraphs"


def ignored_options(options: Options) -> Iterator[str]:
    """Yield what was asked for and does nothing here."""
    given, backend = options.given, options.backend
    settings = given.get("options") or {}
    if settings and backend in _IGNORING:
        yield f"options do nothing under backend {backend!r}: {', '.join(map(str, settings))}"
    elif backend == "inductor" and not dynamo.has_cuda_graphs():
        if given.get("mode") == "reduce-overhead":
            yield "mode 'reduce-overhead' does nothing here: it uses CUDA graphs, and there is no GPU"
        elif settings.get(_CUDA_GRAPHS):
            yield f"option {_CUDA_GRAPHS!r} does nothing here: there is no GPU"


class Breakpoints:
    """The breakpoints of the debugger that is attached to this thread as a region is entered.

    Compiled code runs in the place of the functions that it was made from, and no line of those is ever reached.
    """

    def __init__(self) -> None:
        self._lines = _lines_of_debugger()
        self._told: set[CodeType] = set()

    def __bool__(self) -> bool:
        return bool(self._lines)

    def missed_by(self, target: Any) -> Iterator[str]:
        """Yield for each breakpoint in the code of `target`, once, that compiled code does not stop there.

        Nothing is said where a graph broke: some lines of the function are then reached.
        """
        if any(wrapper.graph_breaks for wrapper in state.cache.of(kin_of(target).anchor)):
            return
        for code, name in _codes_of(target):
            if code in self._told:
                continue
            self._told.add(code)
            for line in sorted(self._lines.get(code.co_filename, set()) & set(_lines_in(code))):
                yield (
                    f"the breakpoint at {state.place_of(code.co_filename, line)} does not stop in compiled code; "
                    f"--exclude {name}, or ipy_dynwrap.skip, runs {name} as it is"
                )


def _lines_of_debugger() -> dict[str, set[int]]:
    """Return the lines with breakpoints, by file, of pdb or another `bdb.Bdb`, or of debugpy."""
    lines: dict[str, set[int]] = {}
    trace = sys.gettrace()
    get_all = getattr(getattr(trace, "__self__", None), "get_all_breaks", None)  # `bdb.Bdb.trace_dispatch` is traced to
    if get_all is not None:
        lines = {file: set(numbers) for file, numbers in get_all().items()}
    # Debugpy's adapter is in every kernel; the debugger itself is only there once somebody has attached it.
    attached = getattr(sys.modules.get("pydevd"), "get_global_debugger", None)
    for file, points in getattr(attached() if attached is not None else None, "breakpoints", {}).items():
        lines.setdefault(file, set()).update(points)
    return {file: numbers for file, numbers in lines.items() if numbers}


def _codes_of(target: Any) -> Iterator[tuple[CodeType, str]]:
    """Yield the code that a call of `target` comes to, and that of the modules in it, with a name to exclude it by."""
    if not dynamo.is_module(target):
        if (code := own_code(target)) is not None:
            yield code, qualified_name(target)
        return
    for kind in dict.fromkeys(map(type, target.modules())):
        code = getattr(getattr(kind, "forward", None), "__code__", None)
        if isinstance(code, CodeType):
            yield code, qualified_name(type(target))


@functools.lru_cache(maxsize=256)
def _lines_in(code: CodeType) -> frozenset[int]:
    inner = [each for const in code.co_consts if isinstance(const, CodeType) for each in _lines_in(const)]
    return frozenset([*(line for _, _, line in code.co_lines() if line is not None), *inner])
