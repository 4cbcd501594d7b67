"""What the HTML without script is put together from."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape

from . import words

__all__ = ["GREY", "LEFT", "RIGHT", "TABLE", "cells", "escaped", "faint", "fold", "grid", "head"]

GREY = "rgba(128, 128, 128, 0.35)"
# nbconvert's own style fixes the widths of columns, and they overlap then.
TABLE = "border-collapse: collapse; font-size: 0.92em; table-layout: auto; width: 100%"
LEFT = f"text-align: left; vertical-align: top; padding: 4px 10px 4px 0; border-bottom: 1px solid {GREY}"
RIGHT = LEFT.replace("left", "right", 1) + "; white-space: nowrap"

Heads = Sequence[tuple[str, str]]


def escaped(value: str, length: int = 300) -> str:
    """Return what comes from the user: cut, on one line, and with nothing in it that HTML would obey."""
    return escape(words.arrow(words.cut(words.printable(value), length)))


def faint(content: str) -> str:
    """Return `content`, drawn as of less weight."""
    return f'<span style="opacity: 0.65">{content}</span>'


def fold(title: str, content: str, *, shown: bool = False) -> str:
    """Return `content` behind `title`, which unfolds it."""
    opened = " open" if shown else ""
    return (
        f'<details{opened}><summary style="opacity: 0.75; cursor: pointer">{escape(title)}</summary>{content}</details>'
    )


def head(heads: Heads) -> str:
    """Return the head of a table: titles with the styles of their columns."""
    titles = "".join(f'<th scope="col" style="{style}; white-space: nowrap">{title}</th>' for title, style in heads)
    return f"<thead><tr>{titles}</tr></thead>"


def cells(values: Sequence[str], heads: Heads) -> str:
    """Return the cells of one row."""
    return "".join(f'<td style="{style}">{value}</td>' for value, (_, style) in zip(values, heads, strict=True))


def grid(heads: Heads, rows: Iterable[Sequence[str]], *, wide: bool = True) -> str:
    """Return a table, as wide as there is room or as its content. It scrolls by itself where a page is narrow."""
    body = "".join(f"<tr>{cells(row, heads)}</tr>" for row in rows)
    style = TABLE if wide else TABLE.replace("width: 100%", "width: auto")
    return f'<div style="overflow-x: auto"><table style="{style}">{head(heads)}<tbody>{body}</tbody></table></div>'
