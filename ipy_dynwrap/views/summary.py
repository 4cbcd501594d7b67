"""The line under a cell."""

from __future__ import annotations

import sys
from html import escape
from typing import TYPE_CHECKING

from . import words

if TYPE_CHECKING:
    from ipy_dynwrap.snapshot import Report

__all__ = ["bundle", "show_nothing", "show_report"]

_HINT = "%dynwrap shows more"
_LINE = "font-size: 0.92em; line-height: 1.6;"


def bundle(report: Report) -> dict[str, str] | None:
    """Return the summary of `report` as a MIME bundle; None if there is nothing to say."""
    summary = words.summary(report)
    notices = [words.printable(notice) for notice in report.notices]
    if not summary and not notices:
        return None
    # Everything is said already where nothing compiled again and nothing is noteworthy.
    hint = _HINT if notices or report.recompiles else ""
    first = f"{summary}  ({hint})" if summary and hint else summary or hint
    plain = "\n".join([first, *(f"  ! {notice}" for notice in notices)])

    parts = [
        f'<span style="opacity: 0.8">{escape(words.arrow(summary))}</span>' if summary else "",
        f'<span style="opacity: 0.55">{escape(hint)}</span>' if hint else "",
    ]
    lines = [f'<div style="{_LINE}">{" &nbsp; ".join(filter(None, parts))}</div>']
    lines += [
        f'<div style="{_LINE} border-left: 3px solid #e0a030; padding-left: 0.6em">{escape(words.arrow(notice))}</div>'
        for notice in notices
    ]
    return {"text/plain": plain, "text/html": "".join(lines)}


_NOTHING = (
    "nothing to compile: no module, and no function of the notebook with a tensor, was called but what stays as it is"
    " (compiled already, excluded, in a checkpoint, an optimizer's closure or another thread);"
    " --include MODULE compiles what a module of yours defines"
)


def show_nothing() -> None:
    """Say under the cell that runs that there was nothing to compile in it; nothing outside IPython."""
    _publish(
        {
            "text/plain": _NOTHING,
            "text/html": f'<div style="{_LINE}"><span style="opacity: 0.55">{_NOTHING}</span></div>',
        }
    )


def show_report(report: Report) -> None:
    """Show the summary of `report` under the cell that runs; nothing outside IPython.

    Parameters
    ----------
    report
        What happened in the cell's region.
    """
    if (data := bundle(report)) is not None:
        _publish(data)


def _publish(data: dict[str, str]) -> None:
    if "IPython" not in sys.modules:
        return
    from IPython import get_ipython

    if (shell := get_ipython()) is not None:
        shell.display_pub.publish(data)
