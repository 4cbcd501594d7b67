"""Why something compiled, compiled again or ran eager: the records of some wrappers, told in order."""

from __future__ import annotations

import html
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from .events import CompileFinished, EagerCall, Event, GraphBreak, Notice, Place
from .snapshot import WrapperInfo
from .views import words
from .views.advice import advice

__all__ = ["Explanation", "Recompilation", "is_noise", "recompilations"]


# What torch says of a frame that does nothing with a tensor.
_NO_TENSOR = ("no tensor-related objects", "frame is a namedtuple constructor")


@dataclass(frozen=True, slots=True)
class Recompilation:
    """One compilation that was not the first of its kind, and why there was one more.

    Parameters
    ----------
    wrapper, target, at, place
        As in `Event` and `CompileFinished`.
    reason
        What changed, in words, the most telling first; ``"first call with self.k = 3"`` for a new value of a key.
    others
        Why the other entries did not fit.
    advice
        What avoids it, where something does; otherwise empty.
    seconds
        Its wall time.
    """

    wrapper: str
    target: str
    at: float
    place: Place | None
    reason: str
    others: tuple[str, ...]
    advice: str
    seconds: float


def recompilations(events: Iterable[Event], wrappers: Iterable[WrapperInfo]) -> tuple[Recompilation, ...]:
    """Return what compiled again, oldest first."""
    known = {wrapper.name: wrapper for wrapper in wrappers}
    met: set[str] = set()
    found = []
    for event in events:
        if not isinstance(event, CompileFinished) or event.outcome not in ("compiled", "no graph"):
            continue
        wrapper = known.get(event.wrapper)
        reasons = event.reasons or (() if event.wrapper in met else _of_key(wrapper))
        met.add(event.wrapper)
        if reasons:
            options, kind = ("", "") if wrapper is None else (wrapper.options, wrapper.kind)
            todo = advice(reasons[0], options, kind, event.frame)
            found.append(
                Recompilation(
                    event.wrapper, event.target, event.at, event.place, reasons[0], reasons[1:], todo, event.seconds
                )
            )
    return tuple(found)


def _of_key(wrapper: WrapperInfo | None) -> tuple[str, ...]:
    """Say why there is a wrapper beside the first one of its family."""
    if wrapper is None or wrapper.name == wrapper.family:
        return ()
    return (f"first call with {words.key(wrapper)}",) if wrapper.key else ("the wrapper before it is at its limit",)


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
        if not self.wrappers:
            yield "nothing has been compiled yet"
        records: dict[str, list[Event]] = {}
        for event in self.events:
            records.setdefault(event.wrapper, []).append(event)
        for wrapper in self.wrappers:
            yield (
                f"{words.label(wrapper)} ({words.printable(wrapper.options)}): {wrapper.state}, {wrapper.used} of "
                f"{wrapper.limit} entries; {words.count(wrapper.calls, 'call')}: {words.count(wrapper.hits, 'hit')}, "
                f"{wrapper.eager_calls:,} eager, {wrapper.failed_calls:,} failed"
                f"{f', {wrapper.skipped_calls:,} skipped' if wrapper.skipped_calls else ''}"
            )
            yield from (f"  no key: {line}" for line in words.retired(wrapper))
            # A record may stand many times (each call at the limit); once is enough.
            told = dict.fromkeys(_told(wrapper, records.get(wrapper.name, ())))
            yield from told
            why = wrapper.last_reason
            if wrapper.state == "skipped" and why and not any(why in line for line in told):
                yield f"  {why}" if why.startswith("skipped") else f"  skipped: {why}"

    def recompilations(self) -> tuple[Recompilation, ...]:
        """Return what compiled again, and why, oldest first."""
        return recompilations(self.events, self.wrappers)

    def __str__(self) -> str:
        return "\n".join(self.lines())

    def _repr_html_(self) -> str:
        style = "margin: 0; white-space: pre-wrap; overflow-wrap: break-word"
        return f'<pre style="{style}">{html.escape(str(self))}</pre>'

    def _repr_pretty_(self, printer: object, cycle: bool) -> None:  # noqa: ARG002 - IPython's protocol
        printer.text(str(self))  # type: ignore[attr-defined]


def _told(wrapper: WrapperInfo, events: Iterable[Event]) -> Iterator[str]:
    met: set[tuple[str, str]] = set()
    advised: set[str] = set()
    for event in events:
        place = getattr(event, "place", None)
        where = f" ({place})" if place else ""
        match event:
            case CompileFinished(outcome="compiled" | "no graph"):
                reasons = event.reasons or (() if met else _of_key(wrapper))
                # A function that a wrapper without a graph calls has the wrapper's name: two frames, not one again.
                frame = event.frame, event.outcome
                again = "anew, since no entry was left" if frame in met else "for the first time"
                why = f"because {reasons[0]}" if event.reasons else reasons[0] if reasons else again
                met.add(frame)
                what = words.frame(event.frame, event.target)
                done = (
                    f"compiled {what}" if event.outcome == "compiled" else f"made no graph of {what}, which calls on,"
                )
                yield f"  {event.compile_id} {done} in {words.duration(event.seconds)}, {why}{where}"
                todo = advice(reasons[0], wrapper.options, wrapper.kind, event.frame) if reasons else ""
                if todo and todo not in advised:
                    advised.add(todo)
                    yield f"    {todo}"
            case CompileFinished() if is_noise(event):
                continue
            case CompileFinished():
                what = words.frame(event.frame, event.target)
                yield f"  {event.compile_id} {what} {event.outcome}: {event.detail}{where}"
            case GraphBreak():
                yield f"  graph break{f' at {place}' if place else ''}: {event.reason}"
            case Notice():
                yield f"  {event.text}"
            case EagerCall():
                yield f"  ran eager{where}: {event.reason}"


def is_noise(event: CompileFinished) -> bool:
    """Tell whether torch skipped a frame without a tensor that is not the target's: a library's, at a graph break."""
    is_own = event.frame == event.target.rpartition(".")[2]
    return event.outcome == "skipped" and event.detail.startswith(_NO_TENSOR) and not is_own
