"""Numbers and records in words: the only place that the views take their wording from."""

from __future__ import annotations

import keyword
import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from ipy_dynwrap.events import CompileStarted, GraphBreak
    from ipy_dynwrap.snapshot import CacheInfo, CellRun, EntryInfo, Report, WrapperInfo

__all__ = [
    "arrow",
    "compiling",
    "count",
    "cut",
    "duration",
    "families",
    "frame",
    "graph_break",
    "hits",
    "key",
    "label",
    "member",
    "place",
    "printable",
    "retired",
    "run",
    "summary",
    "sums",
]

# A summary is one line: it names this many reasons, and counts the others.
_REASONS_SHOWN = 2


def count(number: int, noun: str) -> str:
    """Return ``"1 call"``, ``"1,200 calls"``."""
    if number == 1:
        return f"1 {noun}"
    plural = f"{noun[:-1]}ies" if noun.endswith("y") else f"{noun}s"
    return f"{number:,} {plural}"


def duration(seconds: float) -> str:
    """Return a wall time with about two digits that matter: ``"3.2 s"``, ``"48 ms"``, ``"2 min 5 s"``."""
    if seconds >= 59.5:
        minutes, rest = divmod(round(seconds), 60)
        return f"{minutes} min {rest} s"
    if seconds >= 9.95:
        return f"{seconds:.0f} s"
    if seconds >= 0.9995:
        return f"{seconds:.1f} s"
    if seconds >= 0.00995:
        return f"{seconds * 1e3:.0f} ms"
    if seconds >= 0.0009995:
        return f"{seconds * 1e3:.1f} ms"
    return f"{seconds * 1e6:.0f} µs" if seconds > 0 else "0 s"


def printable(text: str) -> str:
    """Return `text` on one line, with what a terminal would obey (escape sequences, line ends) made visible."""
    return text if text.isprintable() else "".join(c if c.isprintable() else repr(c)[1:-1] for c in text)


def cut(text: str, length: int = 300) -> str:
    """Return `text`, shortened to `length` characters: an attribute's value may be of any size."""
    return text if len(text) <= length else f"{text[: length - 1]}…"


def arrow(text: str) -> str:
    """Return a reason for a view that has a font: ``4 -> 5`` with an arrow."""
    return text.replace(" -> ", " → ")


def place(entry: EntryInfo) -> str:
    """Return where the call was that compiled `entry`: ``"cell 3, line 2"``; empty if that is not known."""
    line = "" if entry.line is None else f"line {entry.line}"
    return line if entry.cell is None else ", ".join(filter(None, (f"cell {entry.cell}", line)))


def key(wrapper: WrapperInfo) -> str:
    """Return the key fields and values that lead to `wrapper`: what tells it from others of the same target."""
    return printable(", ".join(f"{field} = {value}" for field, value in wrapper.key.items()))


def retired(wrapper: WrapperInfo) -> list[str]:
    """Return what was in the key of `wrapper` and is in it no more, each with its reason."""
    return [f"{field} {why}" for field, why in wrapper.retired.items()]


def label(wrapper: WrapperInfo) -> str:
    """Return the target, with the key where there is one."""
    return f"{printable(wrapper.target)} [{key(wrapper)}]" if wrapper.key else printable(wrapper.target)


def member(wrapper: WrapperInfo) -> str:
    """Return what tells `wrapper` from the others of its family."""
    if wrapper.key:
        return f"[{key(wrapper)}]"
    is_first = wrapper.name == (wrapper.family or wrapper.name)
    return "the first wrapper" if is_first else f"{printable(wrapper.name)}, opened when one was at its limit"


def families(wrappers: Iterable[WrapperInfo]) -> list[tuple[str, Sequence[WrapperInfo]]]:
    """Return the wrappers of each family, with what to call it: the target, and the options where it takes them.

    The families come in the order of their first wrappers.
    """
    found: dict[str, list[WrapperInfo]] = {}
    for wrapper in wrappers:
        found.setdefault(wrapper.family or wrapper.name, []).append(wrapper)
    options: dict[str, set[str]] = {}
    for first, *_ in found.values():
        options.setdefault(first.target, set()).add(first.options)
    return [
        (
            printable(f"{first.target} ({first.options})" if len(options[first.target]) > 1 else first.target),
            (first, *others),
        )
        for first, *others in found.values()
    ]


def frame(name: str, target: str) -> str:
    """Return what a frame of `target` is called by its author: its code, or what follows a graph break in it."""
    if rest := re.fullmatch(r"torch_dynamo_resume_in_(.+)_at_(\d+)", name):
        return f"the rest of {rest[1].replace('_lambda_', '<lambda>')} after line {rest[2]}"
    # A wrapper's code is named after its target, as far as that is possible (`wrappers.generate`).
    own = re.sub(r"\W", "_", target.removesuffix(".forward"))
    own = own if own.isidentifier() and not keyword.iskeyword(own) else f"_{own}"
    return target if name == own else name


def hits(wrapper: WrapperInfo) -> str:
    """Return the hits with their share of the calls: ``"118 (98 %)"``."""
    if not wrapper.calls:
        return f"{wrapper.hits:,}"
    # Rounded down: 100 % means all.
    return f"{wrapper.hits:,} ({100 * wrapper.hits // wrapper.calls} %)"


def sums(info: CacheInfo) -> str:
    """Return the sums of `info` on one line."""
    parts = [count(len(info.wrappers), "wrapper")]
    if info.compiles:
        again = f" ({info.recompiles:,} again)" if info.recompiles else ""
        parts.append(f"{count(info.compiles, 'compilation')}{again} in {duration(info.compile_seconds)}")
    if info.calls:
        parts.append(count(info.calls, "call"))
    if info.eager_calls:
        parts.append(f"{info.eager_calls:,} eager")
    if info.graph_breaks:
        parts.append(count(info.graph_breaks, "graph break"))
    return " · ".join(parts)


def run(run: CellRun) -> str:
    """Return what happened in a cell, beside what it took."""
    parts = []
    if run.compiles:
        again = f" ({run.recompiles:,} again)" if run.recompiles else ""
        parts.append(f"compiled {count(run.compiles, 'graph')}{again}: {', '.join(run.compiled)}")
    if run.calls:
        eager = f", {run.eager_calls:,} eager" if run.eager_calls else ""
        parts.append(f"{count(run.calls, 'call')}, {count(run.hits, 'hit')}{eager}")
    if run.graph_breaks:
        parts.append(count(run.graph_breaks, "graph break"))
    if run.failed:
        parts.append("ended with an exception")
    return printable(" · ".join(parts))


def summary(report: Report) -> str:
    """Return the line under a cell; empty if nothing was called and nothing compiled."""
    parts = []
    if report.compiles:
        text = f"compiled {count(report.compiles, 'graph')} in {duration(report.compile_seconds)}"
        if report.recompiles:
            text += f" ({report.recompiles:,} again{_because(report.reasons)})"
        parts.append(text)
    if report.calls:
        text = f"{count(report.calls, 'call')}, {count(report.hits, 'hit')}, {report.eager_calls:,} eager"
        text += f", {report.failed_calls:,} failed" if report.failed_calls else ""
        parts.append(text + (f", {report.skipped_calls:,} skipped" if report.skipped_calls else ""))
    if report.graph_breaks:
        parts.append(count(report.graph_breaks, "graph break"))
    return " · ".join(parts)


def _because(reasons: tuple[str, ...]) -> str:
    if not reasons:
        return ""
    more = len(reasons) - _REASONS_SHOWN
    shown = "; ".join(printable(reason) for reason in reasons[:_REASONS_SHOWN])
    return f": {shown}" + (f"; and {count(more, 'more reason')}" if more > 0 else "")


def graph_break(event: GraphBreak) -> tuple[str, str, str]:
    """Return where a graph broke, of what, and why."""
    where = "" if event.place is None else printable(str(event.place))
    return where, cut(printable(event.target)), cut(printable(event.reason))


def compiling(event: CompileStarted) -> str:
    """Return what is compiled and why: ``"compiling Net.forward (0/1): x.shape[0] 4 -> 5"``."""
    text = f"compiling {event.target} ({event.compile_id})"
    if event.frame.startswith("torch_dynamo_resume_in"):
        text += ", after a graph break"
    if event.reasons:
        text += f": {event.reasons[0]}"
    return printable(text)
