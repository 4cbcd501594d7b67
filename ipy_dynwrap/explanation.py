"""Why something compiled, compiled again or ran eager: the records of some wrappers, told in order."""

from __future__ import annotations

import html
import re
from collections.abc import Iterator
from dataclasses import dataclass

from .events import CompileFinished, EagerCall, Event, GraphBreak
from .snapshot import WrapperInfo

__all__ = ["Explanation"]


@dataclass(frozen=True, slots=True)
class Explanation:
    """The answer of `explain`.

    Parameters
    ----------
    wrappers
        The wrappers of what was asked for, as they are now.
    events
        Their records, oldest first.
    """

    wrappers: tuple[WrapperInfo, ...]
    events: tuple[Event, ...]

    def lines(self) -> Iterator[str]:
        """Yield the explanation, line by line."""
        for wrapper in self.wrappers:
            yield (
                f"{wrapper.target} ({wrapper.options}): {wrapper.state}, {wrapper.used} of {wrapper.limit} "
                f"entries; of {wrapper.calls} calls {wrapper.hits} hit, {wrapper.eager_calls} ran eager, "
                f"{wrapper.failed_calls} failed"
            )
            yield from (f"  no key: {field} {why}" for field, why in wrapper.retired.items())
            # A record may stand many times (each call at the limit); once is enough.
            yield from dict.fromkeys(f"  {text}" for text in map(_told, self._of(wrapper)) if text)

    def _of(self, wrapper: WrapperInfo) -> list[Event]:
        return [event for event in self.events if event.wrapper == wrapper.name]

    def __str__(self) -> str:
        return "\n".join(self.lines())

    def _repr_html_(self) -> str:
        style = "margin: 0; white-space: pre-wrap; overflow-wrap: break-word"
        return f'<pre style="{style}">{html.escape(str(self))}</pre>'

    def _repr_pretty_(self, printer: object, cycle: bool) -> None:  # noqa: ARG002 - IPython's protocol
        printer.text(str(self))  # type: ignore[attr-defined]


def _frame(name: str) -> str:
    rest = re.fullmatch(r"torch_dynamo_resume_in_(.+)_at_(\d+)", name)
    return f"the rest of {rest[1]} after line {rest[2]}" if rest is not None else name


def _told(event: Event) -> str:
    match event:
        case CompileFinished(outcome="compiled" | "no graph"):
            why = f"because {event.reasons[0]}" if event.reasons else "for the first time"
            where = f" ({event.place})" if event.place else ""
            return f"{event.compile_id} compiled {_frame(event.frame)} in {event.seconds:.2f} s {why}{where}"
        case CompileFinished():
            return f"{event.compile_id} {event.outcome}: {event.detail}"
        case GraphBreak():
            return f"graph break{f' at {event.place}' if event.place else ''}: {event.reason}"
        case EagerCall():
            return f"ran eager{f' ({event.place})' if event.place else ''}: {event.reason}"
    return ""
