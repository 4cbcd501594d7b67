"""Views of the wrapper cache: a widget, static HTML, plain text, and what a cell shows of its own.

========================  =============================================================
`inspector`               the live widget
`show_report`             the line under a cell
`show_nothing`            the same where nothing was there to compile
`live_line`               what compiles right now
`html.page`, `html.table` HTML without script
`text.render`             for a terminal
========================  =============================================================

A view reads snapshots and records only. Importing this package imports none of the front ends' libraries.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from .live import live_line
from .summary import show_nothing, show_report

if TYPE_CHECKING:
    from .feed import Feed
    from .widget import Inspector

__all__ = ["inspector", "live_line", "show_nothing", "show_report"]

_feed: Feed | None = None


def inspector() -> Inspector:
    """Return the widget that shows every wrapper, live.

    Display it (as the last expression of a cell); it follows what later cells do.
    """
    from ipy_dynwrap import cache_info, details, state, timeline

    from .feed import Feed
    from .widget import Inspector, Session

    global _feed  # noqa: PLW0603 - one thread for all widgets of the process
    if _feed is None:
        _feed = Feed(state.log)
    session = Session(cache_info, state.log.since, timeline, details, _reset, _skip, _export)
    return Inspector(session, _feed)


def _reset(name: str) -> None:
    """Drop the entries of the wrapper called `name`, on the thread that answers the browser."""
    from ipy_dynwrap import reset

    _refuse_while_open()
    reset(name)


def _skip(name: str) -> None:
    """Let what the wrapper called `name` serves run eager from now on."""
    from ipy_dynwrap import skip

    _refuse_while_open()
    skip(name)


def _refuse_while_open() -> None:
    from ipy_dynwrap.regions import any_open

    # Torch must not lose the entries of a frame that it may be looking through.
    if any_open():
        raise RuntimeError("Not now: a cell runs compiled code. Try again when it is done.")


def _export(form: str) -> str:
    from ipy_dynwrap.export import content

    return content(form)
