"""What survives the end of a kernel: torch's caches on disk in a directory that is kept, and which sizes change.

Torch's own caches are keyed by content, so they are right wherever they lie; all that is done about them is to say
where (`TORCHINDUCTOR_CACHE_DIR`), and to tell what they answered. Torch is not imported with it.
"""

from __future__ import annotations

import getpass
import os
import re
import sys
import tempfile
import threading
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import CellType, CodeType
from typing import TYPE_CHECKING, Any, NamedTuple

from . import state
from .events import CompileFinished, CompileStarted, Event, Place
from .persist_sizes import Answers, Store, content

if TYPE_CHECKING:
    from .dynamo import Shapes

__all__ = ["Compiled", "Kept", "PersistError", "Profile", "follow", "kept", "report", "switch_off", "switch_on"]

VARIABLE = "TORCHINDUCTOR_CACHE_DIR"
"""Torch's name of it. It is read whenever torch wants a file, and not only when torch is imported."""
_COMPILATIONS = 1000  # how many are remembered for the report


class PersistError(Exception):
    """Nothing can be kept as asked; the message is one sentence."""


class Compiled(NamedTuple):
    """One compilation, stage by stage.

    Parameters
    ----------
    target, frame, compile_id, place, seconds, outcome
        As in `events.CompileFinished`.
    sizes
        Whether it was known from before which sizes change; None if torch knew it from this process.
    aot, graphs
        What AOTAutograd's cache and inductor's have answered.
    """

    target: str
    frame: str
    compile_id: str
    place: Place | None
    seconds: float
    outcome: str
    sizes: bool | None
    aot: Answers
    graphs: Answers


class _Begun(threading.local):
    """The compilations of a thread that have begun, and what was known for the next one."""

    def __init__(self) -> None:
        self.sizes: bool | None = None
        self.stack: list[tuple[bool | None, tuple[Answers, Answers]]] = []


@dataclass(slots=True, eq=False)
class Kept:
    """What is kept, where, and what came of it in this process.

    Parameters
    ----------
    directory
        Where torch writes, and, in ``ipy_dynwrap`` within it, which sizes change.
    former
        What torch's variable was before; None if it was not set.
    is_users
        Whether the user had set that variable, so that it is left alone.
    store
        Which sizes change.
    before
        What torch's caches had answered when it began; None if torch was not there.
    compiled
        The last compilations.
    problem
        Why something could not be written, the last time.
    """

    directory: Path
    former: str | None
    is_users: bool
    store: Store
    before: tuple[Answers, Answers] | None = None
    compiled: deque[Compiled] = field(default_factory=lambda: deque(maxlen=_COMPILATIONS))
    problem: str | None = None
    _begun: _Begun = field(default_factory=_Begun)
    _undo: Callable[[], None] | None = None

    def begin(self) -> None:
        """Write to the directory from now on, and listen to what is compiled."""
        if not self.is_users:
            os.environ[VARIABLE] = str(self.directory)
            _forget_what_is_loaded()
        if "torch._dynamo" in sys.modules:
            from . import dynamo

            self.before = dynamo.disk_answers()
        self._undo = state.log.subscribe(self._hear)

    def end(self) -> None:
        """Leave all as it was found, but for what somebody else has set since."""
        if self._undo is not None:
            self._undo()
        if not self.is_users and os.environ.get(VARIABLE) == str(self.directory):
            if self.former is None:
                del os.environ[VARIABLE]
            else:
                os.environ[VARIABLE] = self.former
            _forget_what_is_loaded()

    def recall(self, shapes: Shapes, key: tuple[str, ...]) -> None:
        """Tell torch which sizes change, if it knows nothing of that code yet."""
        from . import dynamo

        self._begun.sizes = None
        if not shapes.seen():
            sizes = self.store.read((dynamo.torch_version(), *key))
            shapes.add(dynamo.known_sizes(sizes))
            self._begun.sizes = bool(sizes)

    def note(self, seen: Mapping[str, Any], key: tuple[str, ...]) -> None:
        """Keep what torch has found to change. A compilation does not fail for want of a file."""
        from . import dynamo

        if sizes := dynamo.changing_sizes(seen):
            try:
                self.store.add((dynamo.torch_version(), *key), sizes)
            except OSError as problem:
                self.problem = str(problem)

    def _hear(self, event: Event) -> None:
        from . import dynamo

        begun = self._begun
        if isinstance(event, CompileStarted):
            begun.stack.append((begun.sizes, dynamo.disk_answers()))
            begun.sizes = None
        elif isinstance(event, CompileFinished) and begun.stack:
            sizes, before = begun.stack.pop()
            aot, graphs = (now.minus(then) for now, then in zip(dynamo.disk_answers(), before, strict=True))
            self.compiled.append(
                Compiled(
                    target=event.target,
                    frame=event.frame,
                    compile_id=event.compile_id,
                    place=event.place,
                    seconds=event.seconds,
                    outcome=event.outcome,
                    sizes=sizes,
                    aot=aot,
                    graphs=graphs,
                )
            )


_kept: Kept | None = None


def kept() -> Kept | None:
    """Return what is kept now; None if nothing is."""
    return _kept


def switch_on(directory: str | os.PathLike[str] | None = None) -> Kept:
    """Keep what is compiled from now on, and use what was kept.

    Parameters
    ----------
    directory
        Where; it is made if it is not there. None for where the user has already told torch to, or else for
        ``ipy_dynwrap`` in the user's cache directory.

    Returns
    -------
    Kept
        The one of now. If something was kept somewhere else, that has ended.

    Raises
    ------
    PersistError
        If the directory cannot be written to, or torch's own setting says another one. What was is as it was.
    """
    global _kept  # noqa: PLW0603 - torch has one variable for the process
    theirs = os.environ.get(VARIABLE) if _kept is None else _kept.former
    # Torch sets the variable itself, too, to where it writes if nobody says anything.
    is_users = theirs is not None and Path(theirs).absolute() != _torchs_own_directory()
    if directory is not None:
        wanted = Path(directory).expanduser().absolute()
        if is_users and theirs is not None and Path(theirs).absolute() != wanted:
            raise PersistError(
                f"{VARIABLE} is set to {theirs}, which is left as it is; without a directory, that one is kept"
            )
    else:
        wanted = Path(theirs).absolute() if is_users and theirs is not None else _own_directory()
    if _kept is not None and _kept.directory == wanted:
        return _kept
    _check_writable(wanted)
    switch_off()
    store = Store(wanted / "ipy_dynwrap", os.environ.get("JPY_SESSION_NAME") or str(Path.cwd()))
    now = Kept(wanted, theirs, is_users, store)
    now.begin()
    _kept = now
    return now


def switch_off() -> None:
    """Keep nothing from now on; what is in the directory stays. Nothing happens if nothing is kept."""
    global _kept
    former, _kept = _kept, None
    if former is not None:
        former.end()


def follow(setting: str | None) -> None:
    """Do as a setting says: None for off, "" for the default directory. If that cannot be, it is said."""
    if setting is None:
        switch_off()
        return
    try:
        switch_on(setting or None)
    except PersistError as problem:
        print(f"DynWrap.persist: {problem}", file=sys.stderr)  # noqa: T201 - loading goes on


class Profile:
    """Which sizes change in the calls of one frame, between this process and the disk.

    Parameters
    ----------
    shapes
        What torch has seen.
    names
        What tells the frame from others of the same code, the same in every process.
    code, closure
        What it runs of the user's; None if that is not plain Python.
    """

    def __init__(
        self, shapes: Shapes, names: tuple[str, ...], code: CodeType | None, closure: tuple[CellType, ...]
    ) -> None:
        self._shapes, self._kept = shapes, _kept
        self._key = (*names, content(code, closure) if code is not None else "") if _kept is not None else ()

    def recall(self) -> None:
        """Begin with what is kept."""
        if self._kept is not None:
            self._kept.recall(self._shapes, self._key)

    def note(self, seen: Mapping[str, Any]) -> None:
        """Keep what torch has seen in a compilation, by source."""
        if self._kept is not None:
            self._kept.note(seen, self._key)


def report() -> str:
    """Say what is kept, and stage by stage what of each compilation was warm and what was cold."""
    if _kept is None:
        return "nothing is kept: %dynwrap persist [DIR] switches it on"
    lines = [f"kept in {_kept.directory}" + (f" ({VARIABLE} says so)" if _kept.is_users else "")]
    if _kept.problem is not None:
        lines.append(f"which sizes change could not be written: {_kept.problem}")
    if "torch._dynamo" not in sys.modules:
        return "\n".join([*lines, "nothing has been compiled yet"])
    from . import dynamo

    lines += [f"turned off by your setting: {name}" for name in dynamo.disk_caches_off()]
    lines += [f"also asked: the Redis server of torch's {name} cache" for name in dynamo.remote_caches()]
    aot, graphs = dynamo.disk_answers()
    if _kept.before is not None:
        aot, graphs = aot.minus(_kept.before[0]), graphs.minus(_kept.before[1])
    compiled = list(_kept.compiled)
    rows = [
        (
            f"{each.target} {each.compile_id}" + (f", {each.place}" if each.place is not None else ""),
            {True: "known", False: "unknown", None: "as seen here"}[each.sizes],
            each.aot.words(),
            each.graphs.words(),
            f"{each.seconds:.2f} s",
        )
        for each in compiled
    ]
    for each in compiled:
        aot, graphs = aot.minus(each.aot), graphs.minus(each.graphs)
    if any(aot) or any(graphs):
        rows.append(("elsewhere (backward passes at their first run)", "", aot.words(), graphs.words(), ""))
    if not rows:
        return "\n".join([*lines, "nothing has been compiled since"])
    table = [("compiled (tracing is always done)", "sizes", "AOT cache", "inductor cache", "time"), *rows]
    widths = [max(map(len, column)) for column in zip(*table, strict=True)]
    lines += ["  ".join(text.ljust(width) for text, width in zip(row, widths, strict=True)).rstrip() for row in table]
    return "\n".join(lines)


def _own_directory() -> Path:
    base = os.environ.get("XDG_CACHE_HOME")
    return Path(base if base and Path(base).is_absolute() else Path.home() / ".cache") / "ipy_dynwrap"


def _torchs_own_directory() -> Path:
    """Return where torch writes if nobody says anything. Nothing is imported for it; a contract test compares."""
    try:
        user = getpass.getuser()
    except (KeyError, ImportError, OSError):
        user = f"uid_{os.getuid()}"
    return Path(tempfile.gettempdir(), "torchinductor_" + re.sub(r'[\\/:*?"<>|]', "_", user))


def _check_writable(directory: Path) -> None:
    try:
        directory.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=directory):
            pass
    except OSError as problem:
        raise PersistError(f"{directory} cannot be written to: {problem.strerror or problem}") from None


def _forget_what_is_loaded() -> None:
    if "torch._dynamo" in sys.modules:
        from . import dynamo

        dynamo.forget_files()
