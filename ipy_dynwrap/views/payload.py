"""What the inspector's browser part gets: snapshots and records as JSON, with everything decided and in words."""

from __future__ import annotations

import ast
import json
from collections import defaultdict
from typing import TYPE_CHECKING, Any

from ipy_dynwrap.events import CompileFinished, EagerCall, GraphBreak
from ipy_dynwrap.explanation import is_noise, recompilations
from ipy_dynwrap.naming import parse

from . import alone, text, words

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from ipy_dynwrap.events import Event
    from ipy_dynwrap.explanation import Recompilation
    from ipy_dynwrap.snapshot import CacheInfo, CellRun, EntryDetails, GuardInfo, Listing, WrapperInfo

__all__ = ["Rows", "details", "entry", "last_cell", "runs", "sums", "whys"]

# What one row shows of a key; all of it is in the row that unfolds.
_FIELDS = 6
_VALUE = 80
# The newest come first, so what is left out is the oldest.
_RUNS = 500
_WHYS = 500
_FAMILY = "family:"
_STATE = "torch's global state"


def sums(info: CacheInfo) -> dict[str, Any]:
    """Return the counts of `info`."""
    return {
        "wrappers": len(info.wrappers),
        "compiles": info.compiles,
        "recompiles": info.recompiles,
        "eager": info.eager_calls,
        "breaks": info.graph_breaks,
        "seconds": round(info.compile_seconds, 3),
        "calls": info.calls,
    }


def last_cell(info: CacheInfo, timeline: Iterable[CellRun]) -> int | None:
    """Return the last cell that called or compiled something; the one that runs has compiled, but not ended."""
    cells = [run.cell for run in timeline if run.cell is not None and (run.calls or run.compiles)]
    cells += [each.cell for wrapper in info.wrappers for each in wrapper.entries if each.cell is not None]
    return max(cells, default=None)


class Rows:
    """The rows of the table, wrappers and families, and in which revision each last changed.

    A browser that has some revision is sent what changed since, not a thousand rows.
    """

    def __init__(self) -> None:
        self.revision = 0
        self._rows: dict[str, tuple[dict[str, Any], int]] = {}
        self._names_since = 0

    def __len__(self) -> int:
        return len(self._rows)

    def update(self, info: CacheInfo, cell: int | None) -> None:
        """Take over `info`.

        Parameters
        ----------
        info
            The cache as it is now.
        cell
            The cell whose compilations are marked as new.
        """
        before, self.revision = self._rows, self.revision + 1
        rows: dict[str, tuple[dict[str, Any], int]] = {}
        for row in _rows(info, cell):
            old = before.get(row["name"])
            rows[row["name"]] = old if old is not None and old[0] == row else (row, self.revision)
        if list(rows) != list(before):
            self._names_since = self.revision
        elif all(rows[name] is before[name] for name in rows):
            self.revision -= 1
        self._rows = rows

    def fitting(self, size: int) -> list[dict[str, Any]]:
        """Return rows that take at most `size` bytes, in their order: what is new, before what was there."""
        chosen = set()
        for row, _ in sorted(self._rows.values(), key=lambda each: not each[0]["news"]):
            size -= len(json.dumps(row, ensure_ascii=False).encode())
            if size < 0:
                break
            chosen.add(row["name"])
        return [row for name, (row, _) in self._rows.items() if name in chosen]

    def since(self, revision: int) -> dict[str, Any]:
        """Return the rows that changed after `revision`, and the names of all, in order, if those changed."""
        return {
            "revision": self.revision,
            "rows": [row for row, changed in self._rows.values() if changed > revision],
            "names": list(self._rows) if self._names_since > revision else None,
        }


def _rows(info: CacheInfo, cell: int | None) -> Iterable[dict[str, Any]]:
    families: dict[str, list[WrapperInfo]] = defaultdict(list)
    for wrapper in info.wrappers:
        families[wrapper.family or wrapper.name].append(wrapper)
    for name, wrappers in families.items():
        rows = [_row(wrapper, cell) for wrapper in wrappers]
        if len(rows) > 1:
            family = f"{_FAMILY}{name}"
            yield {**_family(family, wrappers, rows), "family": ""}
            rows = [
                {**row, "family": family, "member": "" if each.key else words.member(each)}
                for row, each in zip(rows, wrappers, strict=True)
            ]
        yield from rows


def _row(wrapper: WrapperInfo, cell: int | None) -> dict[str, Any]:
    fresh = [cell is not None and each.cell == cell for each in wrapper.entries]
    return {
        "name": wrapper.name,
        "family": "",
        "target": words.cut(wrapper.target),
        "kind": wrapper.kind,
        "options": words.cut(wrapper.options, _VALUE),
        "key": [[words.cut(name, _VALUE), words.cut(value, _VALUE)] for name, value in wrapper.key.items()][:_FIELDS],
        "more": max(0, len(wrapper.key) - _FIELDS),
        "state": wrapper.state,
        "entries": wrapper.used,
        "limit": wrapper.limit,
        "calls": wrapper.calls,
        "hits": wrapper.hits,
        "eager": wrapper.eager_calls,
        "compiles": wrapper.compiles,
        "recompiles": wrapper.recompiles,
        "seconds": round(wrapper.compile_seconds, 4),
        "run": float(f"{sum(each.run_seconds for each in alone.own_entries(wrapper)):.3g}"),
        "reason": words.cut(wrapper.last_reason or ""),
        "news": ("new" if all(fresh) else "again") if any(fresh) else "",
    }


_SUMMED = ("calls", "hits", "eager", "compiles", "recompiles", "seconds", "run")
# Of a family, the state that asks for attention.
_WORST = ("at limit", "skipped", "eager", "compiled")


def _family(name: str, wrappers: Sequence[WrapperInfo], rows: Sequence[dict[str, Any]]) -> dict[str, Any]:
    fullest = max(rows, key=lambda row: row["entries"])
    values: dict[str, set[str]] = defaultdict(set)
    for wrapper in wrappers:
        for field, value in wrapper.key.items():
            values[field].add(value)
    return {
        **{field: rows[0][field] for field in ("target", "kind", "options")},
        **{field: round(sum(row[field] for row in rows), 6) for field in _SUMMED},
        "name": name,
        "key": [],
        "more": 0,
        "wrappers": len(rows),
        "fields": [[words.cut(field, _VALUE), len(found)] for field, found in values.items()],
        "alone": alone.said(wrappers),
        "retired": words.retired(wrappers[0]),
        "state": min((row["state"] for row in rows), key=_WORST.index),
        "entries": fullest["entries"],
        "limit": fullest["limit"],
        "reason": "",
        "news": next((row["news"] for row in rows if row["news"]), ""),
    }


def details(wrapper: WrapperInfo) -> dict[str, Any]:
    """Return what unfolds below the row of `wrapper`."""
    facts = {"wrapper": wrapper.name, "options": wrapper.options, **wrapper.key}
    counts = {"graph breaks": wrapper.graph_breaks, "failed calls": wrapper.failed_calls}
    counts["calls from compiled code"] = wrapper.inner_calls
    return {
        "facts": [
            *([name, value] for name, value in facts.items() if value),
            *(["no key", line] for line in words.retired(wrapper)),
            *([name, f"{number:,}"] for name, number in counts.items() if number),
        ],
        "entries": [
            {
                "number": each.number,
                "id": text.entry_name(each),
                "frame": each.frame,
                "hits": each.hits,
                "run": each.run_seconds,
                "compile": each.compile_seconds,
                "place": words.place(each),
                "reason": each.reason or "",
            }
            for each in wrapper.entries
        ],
    }


def entry(found: EntryDetails) -> dict[str, Any]:
    """Return what is shown of an opened entry."""
    return {
        "id": found.compile_id,
        "guards": _tree(found.guards),
        "inputs": [list(each) for each in found.inputs.items()],
        "listings": [_listing(each) for each in found.listings],
        "phases": [list(each) for each in found.phases],
        "disk_cache": found.disk_cache,
    }


def _listing(listing: Listing) -> dict[str, Any]:
    return {
        "title": listing.title,
        "language": listing.language,
        "text": listing.text,
        "first": listing.first_line,
        "marks": {str(line): why for line, why in listing.marks.items()},
    }


def _tree(guards: Iterable[GuardInfo]) -> list[dict[str, Any]]:
    """Return the guards below the names that lead to what they look at."""
    top: dict[str, Any] = {"children": {}}
    for guard in guards:
        node = top
        for name in _steps(guard.name or guard.source):
            node = node["children"].setdefault(name, {"name": name, "guards": [], "children": {}})
        node["guards"].append(
            {
                "source": guard.source,
                "kind": guard.kind,
                "words": guard.words,
                "code": list(guard.code),
                "place": guard.asked_by,
            }
        )
    # What the user has named comes first.
    return sorted(_branches(top), key=lambda branch: (branch["name"] == _STATE, branch["name"].startswith("torch.")))


def _branches(node: Mapping[str, Any]) -> list[dict[str, Any]]:
    return [_branch(child) for child in node["children"].values()]


def _branch(node: Mapping[str, Any]) -> dict[str, Any]:
    children = _branches(node)
    # A name that only leads on is no level of its own.
    if not node["guards"] and len(children) == 1:
        return {**children[0], "name": node["name"] + children[0]["name"]}
    return {**node, "children": children}


def _steps(source: str) -> list[str]:
    """Return the names that lead to a guard's source: ``["x", ".shape", "[0]"]``."""
    if not source:
        return [_STATE]
    steps: list[str] = []
    node = parse(source)
    while node is not None:
        match node:
            case ast.Attribute(value=inner, attr=name):
                steps.append(f".{name}")
            case ast.Subscript(value=inner):
                steps.append(f"[{ast.unparse(node.slice)}]")
            case ast.Call(args=[inner, *rest], func=ast.Name(id=name)):
                more = "".join(f", {ast.unparse(each)}" for each in rest)
                steps.append(f"{name}(…{more})")
            case _:
                return [ast.unparse(node), *reversed(steps)]
        node = inner
    return [source]


def runs(timeline: Sequence[CellRun]) -> dict[str, Any]:
    """Return the last runs of the timeline, the newest first."""
    return {
        "more": max(0, len(timeline) - _RUNS),
        "runs": [
            {
                "label": "script" if run.cell is None else f"In [{run.cell}]",
                "at": run.at,
                "seconds": run.seconds,
                "compile": min(run.compile_seconds, run.seconds),
                "run": max(0.0, min(run.run_seconds, run.seconds - run.compile_seconds)),
                "text": _run_text(run),
                "compiled": [words.cut(words.printable(each), _VALUE) for each in run.compiled],
                "failed": run.failed,
            }
            for run in reversed(timeline[-_RUNS:])
        ],
    }


def _run_text(run: CellRun) -> str:
    parts = []
    if run.compiles:
        again = f" ({run.recompiles:,} again)" if run.recompiles else ""
        parts.append(f"{words.count(run.compiles, 'compilation')}{again}")
    if run.calls:
        parts.append(f"{words.count(run.calls, 'call')}, {words.count(run.hits, 'hit')}")
    if run.eager_calls:
        parts.append(f"{run.eager_calls:,} eager")
    if run.graph_breaks:
        parts.append(words.count(run.graph_breaks, "graph break"))
    if run.failed:
        parts.append("ended with an exception")
    return " · ".join(parts) or "nothing compiled was called"


def whys(events: Sequence[Event], info: CacheInfo) -> dict[str, Any]:
    """Return why things compiled again, broke or ran eager, the newest first; what is alike in all but time, once."""
    again = recompilations(events, info.wrappers)
    told = [(each.at, _why("compiled again", each, each.reason, each.others, each.advice)) for each in again]
    for event in events:
        match event:
            case CompileFinished() if is_noise(event):
                continue
            case GraphBreak():
                told.append((event.at, _why("graph break", event, event.reason)))
            case CompileFinished(outcome="at limit" | "skipped" | "failed" | "put off"):
                told.append((event.at, _why(event.outcome, event, event.detail)))
            case EagerCall():
                told.append((event.at, _why("ran eager", event, event.reason)))
    found: dict[tuple[str, ...], dict[str, Any]] = {}
    for _, why in sorted(told, key=lambda each: each[0], reverse=True):
        known = found.setdefault(tuple(why[name] for name in ("outcome", "wrapper", "reason", "place")), why)
        known["times"] += 1
    return {"more": max(0, len(found) - _WHYS), "whys": list(found.values())[:_WHYS]}


def _why(
    outcome: str,
    event: CompileFinished | EagerCall | GraphBreak | Recompilation,
    reason: str,
    others: Sequence[str] = (),
    advice: str = "",
) -> dict[str, Any]:
    return {
        "outcome": outcome,
        "wrapper": event.wrapper,
        "target": words.cut(event.target),
        "place": "" if event.place is None else str(event.place),
        "reason": words.cut(reason),
        "others": [words.cut(each) for each in others],
        "advice": advice,
        "times": 0,
    }
