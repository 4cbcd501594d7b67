"""The functions that look at the cache, and reset it."""

from __future__ import annotations

import reprlib
from typing import Any

from . import cell_runs, engine, recording, skips, state
from .cache import Wrapper
from .compiled import original
from .entry_details import details_of
from .explanation import Explanation
from .families import Family
from .keys import kin_of
from .snapshot import CacheInfo, CellRun, EntryDetails

__all__ = ["cache_info", "details", "explain", "reset", "skip", "timeline"]


def cache_info() -> CacheInfo:
    """Return a frozen snapshot of all wrappers and their entries.

    Returns
    -------
    CacheInfo
        Counts, and a `WrapperInfo` per wrapper, in the order in which they were made.
    """
    return state.cache.info()


def details(number: int) -> EntryDetails:
    """Return what is known of one entry: its guards and inputs, the graphs and the code, the phases of its compilation.

    Parameters
    ----------
    number
        `EntryInfo.number` of the entry, from `cache_info`.

    Returns
    -------
    EntryDetails
        Put into words now, from what was recorded when the entry was compiled. Any thread may ask.

    Raises
    ------
    LookupError
        If nothing is kept of that entry. It says why.
    """
    return details_of(recording.kept(number))


def reset(target: Any = None) -> None:
    """Drop compiled code, so that it is compiled again at the next call.

    Parameters
    ----------
    target
        A callable, compiled or not; a class, for its instances; or its name, as `cache_info` or the user's code has it
        (``"Net"``, ``"loss_fn"``);
        None for everything, counts and records included. For a callable that was never called compiled, there is
        nothing to do.

    Raises
    ------
    LookupError
        If nothing of that name is known, or it is no callable.
    """
    if target is None:
        state.cache.clear()
        engine.forget_all()
        state.log.clear()
        cell_runs.reset()
        return
    found, _ = _wrappers(target)
    skips.discard(_families(found), None if isinstance(target, str) else original(target))
    state.cache.reset(found)


def skip(target: Any) -> None:
    """Run calls of a target eager from now on, with all that they call, as `torch.compiler.disable` does.

    Where compiled code calls the target, it stays a part of that. `reset` of the same target undoes it.

    Parameters
    ----------
    target
        As in `reset`, but not None. What is defined again under the same name is skipped, too.

    Raises
    ------
    LookupError
        If nothing of that name is known, or it is no callable.
    """
    found, _ = _wrappers(target)
    skips.add(_families(found), None if isinstance(target, str) else original(target))


def explain(target: Any = None) -> Explanation:
    """Say why something compiled, compiled again, or ran eager.

    Parameters
    ----------
    target
        As in `reset`; None for everything.

    Returns
    -------
    Explanation
        Has a rich, an HTML and a plain form, and the wrappers and records that it is made from.

    Raises
    ------
    LookupError
        If nothing of that name, or no wrapper for that callable, is known.
    """
    info = cache_info()
    if target is None:
        return Explanation(info.wrappers, state.log.since())
    found, name = _wrappers(target)
    if not found:
        raise LookupError(f"{name} has not been called compiled: under %%compile, in a region, or through compile()")
    names = {wrapper.name for wrapper in found}
    return Explanation(
        wrappers=tuple(each for each in info.wrappers if each.name in names),
        events=tuple(each for each in state.log.since() if each.wrapper in names),
    )


def timeline() -> tuple[CellRun, ...]:
    """Return what the last cells took, and how much of it was compilation: 1,000 of them at most, oldest first.

    Returns
    -------
    tuple of CellRun
        One for each cell that ran since the extension was loaded, with ``%%compile`` or without; in a script, one for
        each region.
    """
    return cell_runs.recorded()


def _wrappers(target: Any) -> tuple[list[Wrapper], str]:
    """Return the wrappers of `target`, maybe none, and what it is called."""
    if isinstance(target, str):
        found = [each for each in state.cache if _is_called(each, target)]
        known = sorted({each.target for each in state.cache})
        if not found:
            raise LookupError(f"no wrapper is called {target!r}; known: {', '.join(known) or 'none yet'}")
        return found, target
    if not callable(target):
        what = reprlib.repr(target)
        raise LookupError(f"nothing is compiled for {what}, which is no callable")  # noqa: TRY004 - as for a name
    anchor: object = target
    if isinstance(target, type):  # for its instances
        name = target.__qualname__
    else:
        kin = kin_of(original(target))
        anchor, name = kin.anchor, kin.name
    return state.cache.of(anchor), name


def _families(wrappers: list[Wrapper]) -> list[Family]:
    names = {wrapper.name for wrapper in wrappers}
    return [each for each in state.cache.families() if any(wrapper.name in names for wrapper in each.wrappers)]


def _is_called(wrapper: Wrapper, name: str) -> bool:
    target = wrapper.target
    return name in (wrapper.name, target, target.removesuffix(".forward"), target.rsplit(".", 1)[-1])
