"""What `%load_ext ipy_dynwrap` puts into a shell, and `%unload_ext` takes out again."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

from . import blocks, cell, cell_definitions, cell_runs, completion, persist, recording, state
from .config import DynWrap
from .magics import DynWrapMagics

if TYPE_CHECKING:
    from IPython.core.interactiveshell import InteractiveShell
    from IPython.lib.pretty import RepresentationPrinter

    from .snapshot import CacheInfo

__all__ = ["load_ipython_extension", "unload_ipython_extension"]

_loaded: WeakKeyDictionary[InteractiveShell, ExitStack] = WeakKeyDictionary()


def load_ipython_extension(shell: InteractiveShell) -> None:
    """Put the extension into `shell`; nothing happens if it is there."""
    if shell in _loaded:
        return
    with ExitStack() as undo:
        undo.callback(persist.switch_off)
        undo.callback(setattr, recording.switch, "on", recording.switch.on)  # DynWrap.record sets it
        _append(undo, shell.configurables, DynWrap(parent=shell))
        _append(undo, shell.input_transformers_cleanup, cell.LineTaker())
        _append(undo, shell.ast_transformers, cell.CellWrapper(shell))
        _append(undo, state.places, cell.place_in(shell))
        cell_definitions.install(undo, shell)
        _watch(undo, shell, "post_run_cell", blocks.show_idleness)
        undo.callback(cell_runs.abandon_cells)
        _watch(undo, shell, "pre_run_cell", cell_runs.cell_begins)
        _watch(undo, shell, "post_run_cell", cell_runs.cell_ends)
        _register_magics(undo, shell)
        _append(undo, shell.Completer.custom_matchers, completion.matcher(shell))
        _show_snapshots(undo, shell)
        _watch(undo, shell, "post_execute", blocks.show_summary)
        _loaded[shell] = undo.pop_all()


def unload_ipython_extension(shell: InteractiveShell) -> None:
    """Take everything out that `load_ipython_extension` put in; nothing happens if that is nothing."""
    if (undo := _loaded.pop(shell, None)) is not None:
        undo.close()


def _append(undo: ExitStack, items: list[Any], item: object) -> None:
    items.append(item)
    undo.callback(_remove, items, item)


def _remove(items: list[Any], item: object) -> None:
    # By identity, and maybe somebody else took it out: IPython drops an AST transformer that failed.
    items[:] = [each for each in items if each is not item]


def _watch(undo: ExitStack, shell: InteractiveShell, event: str, function: Callable[..., object]) -> None:
    shell.events.register(event, function)
    undo.callback(shell.events.unregister, event, function)


def _register_magics(undo: ExitStack, shell: InteractiveShell) -> None:
    manager = shell.magics_manager
    magics = DynWrapMagics(shell)
    undo.callback(_remove, shell.configurables, magics)  # where every instance of Magics puts itself
    for kind, names in magics.magics.items():
        for name in names:
            undo.callback(_restore, manager.magics[kind], name, manager.magics[kind].get(name))
    undo.callback(manager.registry.pop, DynWrapMagics.__name__, None)
    manager.register(magics)


def _show_snapshots(undo: ExitStack, shell: InteractiveShell) -> None:
    """Show what `cache_info` returns as a table. It is registered by name: nothing is imported for it."""
    for mime, show in (("text/html", _as_html), ("text/plain", _as_text)):
        formatter: Any = shell.display_formatter.formatters[mime]  # type: ignore[union-attr]
        formatter.for_type_by_name("ipy_dynwrap.snapshot", "CacheInfo", show)
        undo.callback(formatter.pop, "ipy_dynwrap.snapshot.CacheInfo", None)


def _as_html(info: CacheInfo) -> str:
    from .views import html

    return html.table(info)


def _as_text(info: CacheInfo, printer: RepresentationPrinter, cycle: bool) -> None:  # noqa: ARG001 - IPython's
    from .views import text

    printer.text(text.short(info))  # type: ignore[no-untyped-call]


def _restore(table: dict[str, Callable[..., object]], name: str, former: Callable[..., object] | None) -> None:
    if former is None:
        table.pop(name, None)
    else:
        table[name] = former
