"""The live inspector.

The kernel decides, the browser draws. One synced trait, `state`, holds the sums, and one row for each wrapper and
family as far as there is room; it is kept small because Jupyter saves it in the notebook. Two others,
`unkeyed` (what is no part of a key, in words) and `actions`, never change. Everything else is asked for, by custom
messages:

====================================  ==================================================================
from the browser                      answer
====================================  ==================================================================
``{"op": "rows", "since": n}``        ``rows`` that changed after revision n, and all ``names`` in order
``{"op": "details", "name": w}``      ``details`` of a wrapper, None if it is gone
``{"op": "entry", "number": n}``      ``details`` of a cache entry, or ``text`` that says why there are none
``{"op": "why"}``                     ``whys``: the recompilations, and what ran eager
``{"op": "timeline"}``                ``runs``: the cells as they ran
``{"op": "reset", "name": w}``        ``{"op": "said", "name": w, "text": "..."}``
``{"op": "skip", "name": w}``         the same
``{"op": "export", "format": f}``     ``file``, ``type`` and ``content`` of a download
``{"op": "shown"}``, ``"hidden"``     none; a widget that nobody sees is not updated
====================================  ==================================================================

ipykernel answers these on a thread of its own while a cell runs. So nothing here touches torch, but for what acts
(reset, skip), which is declined while a region is open.

Below the widget stands the same in HTML without script, in an output of its own that the widget hides: what shows a
saved notebook prefers the widget to what else there is in one output, also where it cannot draw it.
"""

from __future__ import annotations

import contextvars
import re
import threading
import time
import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import anywidget
import traitlets
from IPython.display import publish_display_data

from ipy_dynwrap.explanation import recompilations
from ipy_dynwrap.guard_kinds import UNKEYED

from . import html, payload, text, words
from .picture import Picture, breaks

if TYPE_CHECKING:
    from ipy_dynwrap.events import Event
    from ipy_dynwrap.snapshot import CacheInfo, CellRun, EntryDetails

    from .feed import Feed

__all__ = ["Inspector", "Session"]

# Of 200 KB that a saved notebook may grow by; the rest is script, style and the plain text.
_ROWS_BYTES = 40_000
_HTML_BYTES = 30_000
_TEXT_ROWS = 25

_STATIC = Path(__file__).parent / "static"
# Each uses those before it.
_SCRIPTS = ("dom", "tabs", "highlight", "listing", "guards", "entry", "rows", "table", "lists", "view")
_DONE = {"reset": "Reset: its next call compiles again.", "skip": "Skipped: it runs eager until it is reset."}
_TYPES = {"html": "text/html", "json": "application/json"}


def script() -> str:
    """Return the browser part as one ES module: its files, without what they import from and export to each other."""
    files = [(_STATIC / f"{name}.js").read_text(encoding="utf-8") for name in _SCRIPTS]
    whole = "\n".join(re.sub(r"^import [^;]*;\n", "", file, flags=re.MULTILINE) for file in files)
    return re.sub(r"^export (?!default)", "", whole, flags=re.MULTILINE)


@dataclass(frozen=True)
class Session:
    """What an inspector looks at, and what it can do. All of it is called from several threads.

    Parameters
    ----------
    snapshot
        Returns the cache as it is now.
    events
        Returns the records, oldest first.
    timeline
        Returns the cells as they ran, oldest first.
    entry
        Returns the details of the entry of a number. Raises LookupError where they are not kept.
    reset, skip
        Drops the entries of the wrapper of a name; has it run eager from now on. Raises RuntimeError, with one
        sentence, where that is not possible now, and LookupError if there is no such wrapper. No `skip`, no button.
    export
        Returns the content of a file of a format, ``"html"`` or ``"json"``.
    """

    snapshot: Callable[[], CacheInfo]
    events: Callable[[], Sequence[Event]]
    timeline: Callable[[], Sequence[CellRun]]
    entry: Callable[[int], EntryDetails]
    reset: Callable[[str], object]
    skip: Callable[[str], object] | None
    export: Callable[[str], str]


class Inspector(anywidget.AnyWidget):
    """The table of wrappers, live.

    Parameters
    ----------
    session
        What it shows.
    feed
        Says when to look again.
    """

    _esm = script()
    _css = _STATIC / "view.css"
    state = traitlets.Dict().tag(sync=True)
    unkeyed = traitlets.Dict().tag(sync=True)
    actions: traitlets.List[str] = traitlets.List().tag(sync=True)
    static_class = traitlets.Unicode().tag(sync=True)

    def __init__(self, session: Session, feed: Feed) -> None:
        self._session = session
        self._feed = feed
        self._views = 0
        self._guard = threading.Lock()
        self._rows = payload.Rows()
        self._context = contextvars.copy_context()
        unkeyed = {"title": text.UNKEYED_TITLE, "rows": [list(row) for row in UNKEYED]}
        self._acts = {name: act for name in ("reset", "skip") if (act := getattr(session, name)) is not None}
        super().__init__(
            state=self._look(),
            unkeyed=unkeyed,
            actions=list(self._acts),
            static_class=f"dynwrap-static-{uuid.uuid4().hex}",
        )
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
        info = self._session.snapshot()
        cell = payload.last_cell(info, self._session.timeline())
        self._rows.update(info, cell)
        return {
            "sums": payload.sums(info),
            "rows": self._rows.fitting(_ROWS_BYTES),
            "total": len(self._rows),
            "revision": self._rows.revision,
            "cell": cell,
            "compiling": self._compiling(),
        }

    def _compiling(self) -> list[dict[str, Any]]:
        now = time.monotonic()
        return [
            {"text": words.cut(words.compiling(event)), "seconds": round(now - since, 1)}
            for event, since in self._feed.compiling.now()
        ]

    def _answer(self, _: object, message: dict[str, Any], __: object) -> None:
        self._context = contextvars.copy_context()
        match message:
            case {"op": "rows", "since": int(revision)}:
                with self._guard:
                    changed = self._rows.since(revision)
                self.send({"op": "rows", **changed})
            case {"op": "details", "name": str(name)}:
                found = [wrapper for wrapper in self._session.snapshot().wrappers if wrapper.name == name]
                self.send({"op": "details", "name": name, "details": payload.details(found[0]) if found else None})
            case {"op": "entry", "number": int(number)}:
                self.send({"op": "entry", "number": number, **self._entry(number)})
            case {"op": "why"}:
                self.send({"op": "why", **payload.whys(self._session.events(), self._session.snapshot())})
            case {"op": "timeline"}:
                self.send({"op": "timeline", **payload.runs(self._session.timeline())})
            case {"op": "export", "format": str(form)} if form in _TYPES:
                content = self._session.export(form)
                self.send({"op": "export", "file": f"inspector.{form}", "type": _TYPES[form], "content": content})
            case {"op": str(op), "name": str(name)} if op in self._acts:
                self._act(op, name)
            case {"op": "shown"}:
                self._views += 1
                self._feed.add(self.refresh)
            case {"op": "hidden"}:
                self._views -= 1
                if self._views <= 0:
                    self._feed.remove(self.refresh)

    def _entry(self, number: int) -> dict[str, Any]:
        try:
            return {"details": payload.entry(self._session.entry(number))}
        except LookupError as error:
            return {"details": None, "text": str(error.args[0])}

    def _act(self, op: str, name: str) -> None:
        done = _DONE[op]
        try:
            self._acts[op](name)
        except (RuntimeError, ValueError, LookupError) as error:
            done = str(error.args[0]) if error.args else str(error)
        self.send({"op": "said", "name": name, "text": done})
        self.refresh()

    def _repr_mimebundle_(self, **kwargs: Any) -> tuple[dict[str, Any], dict[str, Any]]:
        data, metadata = super()._repr_mimebundle_(**kwargs) or ({}, {})
        return {**data, **self._static()}, metadata

    def _static(self) -> dict[str, str]:
        info = self._session.snapshot()
        events = self._session.events()
        found = recompilations(events, info.wrappers)
        picture = Picture(info, tuple(self._session.timeline()), found, breaks=breaks(events))
        return {"text/plain": text.short(info, _TEXT_ROWS), "text/html": html.report(picture, _HTML_BYTES)}

    def _ipython_display_(self) -> None:
        """Publish the widget, and below it what stands for it where there is none."""
        data, metadata = super()._repr_mimebundle_() or ({}, {})
        static = self._static()
        static["text/html"] = f'<div class="{self.static_class}">{static["text/html"]}</div>'
        publish: Any = publish_display_data
        # Not the sums: a page without a kernel shows this text, and the sums are in what follows.
        publish({**data, "text/plain": "The inspector is live while its kernel runs."}, metadata)
        publish(static)
