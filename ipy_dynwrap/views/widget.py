"""The live inspector.

The kernel decides, the browser draws. One synced trait, `state`, holds the sums and one short row for each wrapper; it
is kept small because Jupyter saves it in the notebook. Another, `unkeyed`, holds what is no part of a key, in words,
and never changes. Everything else is asked for, by custom messages:

====================================  ==================================================================
from the browser                      answer
====================================  ==================================================================
``{"op": "rows", "from": n}``         ``{"op": "rows", "from": n, "rows": [...]}``: the rows that `state` left out
``{"op": "details", "name": w}``      ``{"op": "details", "name": w, "details": {...} | None}``
``{"op": "reset", "name": w}``        ``{"op": "said", "name": w, "text": "..."}``
``{"op": "shown"}``, ``"hidden"``     none; a widget that nobody sees is not updated
====================================  ==================================================================

ipykernel answers these on a thread of its own while a cell runs. So nothing here touches torch, but for a reset, which
is declined while a region is open. Beside the widget, the MIME bundle carries HTML without script and plain text.
"""

from __future__ import annotations

import contextvars
import json
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import anywidget
import traitlets

from ipy_dynwrap.guard_kinds import UNKEYED

from . import html, text, words

if TYPE_CHECKING:
    from collections.abc import Callable

    from ipy_dynwrap.snapshot import CacheInfo, WrapperInfo

    from .feed import Feed

__all__ = ["Inspector"]

_HERE = Path(__file__).parent
# Of 200 KB that a saved notebook may grow by; the rest is script, style and the static views.
_ROWS_BYTES = 50_000
_HTML_BYTES = 50_000
_TEXT_ROWS = 25


class Inspector(anywidget.AnyWidget):
    """The table of wrappers, live.

    Parameters
    ----------
    snapshot
        Returns the cache as it is now; called from several threads.
    reset
        Drops the wrapper of a name. Raises RuntimeError, with one sentence, where that is not possible now.
    feed
        Says when to look again.
    """

    _esm = _HERE / "widget.js"
    _css = _HERE / "widget.css"
    state = traitlets.Dict().tag(sync=True)
    unkeyed = traitlets.Dict().tag(sync=True)

    def __init__(self, snapshot: Callable[[], CacheInfo], reset: Callable[[str], None], feed: Feed) -> None:
        self._snapshot = snapshot
        self._reset = reset
        self._feed = feed
        self._views = 0
        self._guard = threading.Lock()
        self._context = contextvars.copy_context()
        unkeyed = {"title": text.UNKEYED_TITLE, "rows": [list(row) for row in UNKEYED]}
        super().__init__(state=self._look(), unkeyed=unkeyed)
        self.on_msg(self._answer)
        feed.add(self.refresh)

    def refresh(self) -> None:
        """Take a new snapshot, and send it if it is not the one that the browser has."""
        # In the context of the browser's last message: ipykernel hands the next message of a widget to the thread that
        # the widget's last update belongs to, and the main one is busy while a cell runs.
        self._context.copy().run(self._send_news)

    def _send_news(self) -> None:
        # The feed's thread and the one that answers messages may both come here.
        with self._guard:
            self.state = self._look()

    def close(self) -> None:
        """Stop the updates, and take the widget off the page."""
        self._feed.remove(self.refresh)
        super().close()

    def _look(self) -> dict[str, Any]:
        info = self._snapshot()
        return {"sums": _sums(info), "rows": _rows(info, 0, _ROWS_BYTES), "compiling": self._compiling()}

    def _compiling(self) -> list[dict[str, Any]]:
        now = time.monotonic()
        return [
            {"text": words.cut(words.compiling(event)), "seconds": round(now - since, 1)}
            for event, since in self._feed.compiling.now()
        ]

    def _answer(self, _: object, message: dict[str, Any], __: object) -> None:
        self._context = contextvars.copy_context()
        match message:
            case {"op": "rows", "from": int(start)}:
                self.send({"op": "rows", "from": start, "rows": _rows(self._snapshot(), start)})
            case {"op": "details", "name": str(name)}:
                found = [wrapper for wrapper in self._snapshot().wrappers if wrapper.name == name]
                self.send({"op": "details", "name": name, "details": _details(found[0]) if found else None})
            case {"op": "reset", "name": str(name)}:
                self.send({"op": "said", "name": name, "text": self._reset_one(name)})
                self.refresh()
            case {"op": "shown"}:
                self._views += 1
                self._feed.add(self.refresh)
            case {"op": "hidden"}:
                self._views -= 1
                if self._views <= 0:
                    self._feed.remove(self.refresh)

    def _reset_one(self, name: str) -> str:
        try:
            self._reset(name)
        except (RuntimeError, ValueError, LookupError) as error:
            return str(error)
        return "Reset: its next call compiles again."

    def _repr_mimebundle_(self, **kwargs: Any) -> tuple[dict[str, Any], dict[str, Any]]:
        data, metadata = super()._repr_mimebundle_(**kwargs) or ({}, {})
        info = self._snapshot()
        data["text/plain"] = text.short(info, _TEXT_ROWS)
        data["text/html"] = html.table(info, _HTML_BYTES)
        return data, metadata


def _sums(info: CacheInfo) -> dict[str, Any]:
    return {
        "wrappers": len(info.wrappers),
        "compiles": info.compiles,
        "recompiles": info.recompiles,
        "eager": info.eager_calls,
        "breaks": info.graph_breaks,
        "seconds": round(info.compile_seconds, 3),
        "calls": info.calls,
    }


def _rows(info: CacheInfo, start: int, budget: int | None = None) -> list[dict[str, Any]]:
    rows = []
    for wrapper in info.wrappers[start:]:
        row = _row(wrapper)
        if budget is not None:
            budget -= len(json.dumps(row, ensure_ascii=False).encode())
            if budget < 0:
                break
        rows.append(row)
    return rows


def _row(wrapper: WrapperInfo) -> dict[str, Any]:
    return {
        "name": wrapper.name,
        "target": words.cut(wrapper.target),
        "kind": wrapper.kind,
        "key": words.cut(words.key(wrapper)),
        "state": wrapper.state,
        "entries": wrapper.used,
        "limit": wrapper.limit,
        "calls": wrapper.calls,
        "hits": wrapper.hits,
        "eager": wrapper.eager_calls,
        "compiles": wrapper.compiles,
        "recompiles": wrapper.recompiles,
        "seconds": round(wrapper.compile_seconds, 3),
        "reason": words.cut(wrapper.last_reason or ""),
    }


def _details(wrapper: WrapperInfo) -> dict[str, Any]:
    facts = {"wrapper": wrapper.name, "options": wrapper.options, **wrapper.key}
    return {
        "facts": [
            *([name, value] for name, value in facts.items() if value),
            *(["no key", line] for line in words.retired(wrapper)),
        ],
        "breaks": wrapper.graph_breaks,
        "entries": [
            {
                "id": text.entry_name(entry),
                "frame": entry.frame,
                "hits": entry.hits,
                "run": entry.run_seconds,
                "compile": entry.compile_seconds,
                "place": words.place(entry),
                "reason": entry.reason or "",
            }
            for entry in wrapper.entries
        ],
    }
