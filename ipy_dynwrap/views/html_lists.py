"""In HTML without script: why something compiled again, and what the cells took."""

from __future__ import annotations

from typing import TYPE_CHECKING

from . import words
from .html_parts import GREY, LEFT, RIGHT, escaped, faint, fold, grid

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ipy_dynwrap.events import GraphBreak
    from ipy_dynwrap.explanation import Recompilation
    from ipy_dynwrap.snapshot import CellRun, WrapperInfo

__all__ = ["breaks", "timeline", "why"]

_WHY_HEADS = (("where", LEFT), ("what", LEFT), ("why, and what one can do", LEFT), ("took", RIGHT))
_BREAK_HEADS = (("where", LEFT), ("what", LEFT), ("why", LEFT))
_RUN_HEADS = (
    ("cell", LEFT),
    ("took", RIGHT),
    ("", f"{LEFT}; width: 25%; min-width: 6em"),
    ("compiling", RIGHT),
    ("compiled code", RIGHT),
    ("what happened", LEFT),
)
_COMPILING, _RUNNING, _REST = "#c98a1b", "#2e9e5b", "rgba(128, 128, 128, 0.45)"


def why(found: Sequence[Recompilation], wrappers: Sequence[WrapperInfo], limit: int) -> str:
    """Return the recompilations, the newest first; empty if there are none.

    Parameters
    ----------
    found
        Oldest first.
    wrappers
        Those that are named in them, as far as they are still there.
    limit
        How many rows at most; what is alike in all but time has one.
    """
    if not found:
        return ""
    labels = {wrapper.name: words.label(wrapper) for wrapper in wrappers}
    alike: dict[tuple[str, str, str], list[Recompilation]] = {}
    for each in reversed(found):
        alike.setdefault((each.wrapper, each.reason, str(each.place)), []).append(each)
    rows = []
    for same in list(alike.values())[:limit]:
        each = same[0]
        times = faint(f" {len(same):,} times") if len(same) > 1 else ""
        others = f"<div>{faint('; '.join(map(escaped, each.others)))}</div>" if each.others else ""
        advice = f'<div style="font-style: italic">{escaped(each.advice)}</div>' if each.advice else ""
        rows.append(
            (
                escaped(str(each.place)) if each.place is not None else "",
                escaped(labels.get(each.wrapper, each.target)),
                f"<b>{escaped(each.reason)}</b>{times}{advice}{others}",
                words.duration(sum(one.seconds for one in same)),
            )
        )
    more = len(alike) - len(rows)
    left_out = f"<p>and {words.count(more, 'more reason')}</p>" if more else ""
    return fold(f"Why it compiled again ({len(found):,})", grid(_WHY_HEADS, rows) + left_out)


def breaks(found: Sequence[GraphBreak], limit: int) -> str:
    """Return the last `limit` graph breaks that differ, the newest first; empty if there are none."""
    if not found:
        return ""
    rows = list(dict.fromkeys(words.graph_break(each) for each in reversed(found)))
    more = len(rows) - limit
    left_out = f"<p>and {words.count(more, 'more graph break')}</p>" if more > 0 else ""
    content = grid(_BREAK_HEADS, (tuple(map(escaped, row)) for row in rows[:limit])) + left_out
    return fold(f"Graph breaks ({len(rows):,})", content)


def timeline(runs: Sequence[CellRun], limit: int) -> str:
    """Return the last `limit` runs, the newest first; empty if there are none."""
    if not runs:
        return ""
    shown = list(reversed(runs[-limit:]))
    longest = max(run.seconds for run in shown)
    rows = [
        (
            "script" if run.cell is None else f"In&nbsp;[{run.cell}]",
            words.duration(run.seconds),
            _bar(run, longest),
            words.duration(run.compile_seconds) if run.compile_seconds else "",
            words.duration(run.run_seconds) if run.run_seconds else "",
            escaped(words.run(run)),
        )
        for run in shown
    ]
    legend = "".join(
        f'<span style="margin-right: 1.2em"><span style="color: {colour}">■</span> {name}</span>'
        for colour, name in ((_COMPILING, "compiling"), (_RUNNING, "compiled code"), (_REST, "everything else"))
    )
    more = len(runs) - len(shown)
    left_out = f"<p>and {words.count(more, 'earlier cell')}</p>" if more else ""
    content = f'<div style="font-size: 0.92em; padding: 4px 0">{legend}</div>{grid(_RUN_HEADS, rows)}{left_out}'
    return fold(f"Timeline ({words.count(len(runs), 'cell')})", content)


def _bar(run: CellRun, longest: float) -> str:
    """Draw the parts of a run, as long as the run is beside the longest one."""
    compiling = min(run.compile_seconds, run.seconds)
    running = min(run.run_seconds, run.seconds - compiling)
    parts = ((compiling, _COMPILING), (running, _RUNNING), (run.seconds - compiling - running, _REST))
    drawn = "".join(
        f'<span style="display: inline-block; height: 0.8em; background: {colour}; width: {100 * part / longest:.2f}%">'
        "</span>"
        for part, colour in parts
        if longest and part / longest > 0.0005
    )
    return (
        f'<div style="white-space: nowrap; font-size: 1em; line-height: 1; border-left: 1px solid {GREY}">{drawn}</div>'
    )
