"""What `%load_ext ipy_dynwrap` puts into a shell, and `%unload_ext` takes out again."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from typing import TYPE_CHECKING, TypeVar
from weakref import WeakKeyDictionary

from . import cell, state
from .config import DynWrap
from .magics import DynWrapMagics

if TYPE_CHECKING:
    from IPython.core.interactiveshell import InteractiveShell

__all__ = ["load_ipython_extension", "unload_ipython_extension"]

_Item = TypeVar("_Item")
_loaded: WeakKeyDictionary[InteractiveShell, ExitStack] = WeakKeyDictionary()


def load_ipython_extension(shell: InteractiveShell) -> None:
    """Put the extension into `shell`; nothing happens if it is there."""
    if shell in _loaded:
        return
    with ExitStack() as undo:
        _append(undo, shell.configurables, DynWrap(parent=shell))
        _append(undo, shell.input_transformers_cleanup, cell.LineTaker())
        _append(undo, shell.ast_transformers, cell.CellWrapper(shell))
        _append(undo, state.places, cell.place_in(shell))
        _register_magics(undo, shell)
        shell.events.register("post_execute", cell.show_summary)
        undo.callback(shell.events.unregister, "post_execute", cell.show_summary)
        _loaded[shell] = undo.pop_all()


def unload_ipython_extension(shell: InteractiveShell) -> None:
    """Take everything out that `load_ipython_extension` put in; nothing happens if that is nothing."""
    if (undo := _loaded.pop(shell, None)) is not None:
        undo.close()


def _append(undo: ExitStack, items: list[_Item], item: _Item) -> None:
    items.append(item)
    undo.callback(_remove, items, item)


def _remove(items: list[_Item], item: _Item) -> None:
    # By identity, and maybe somebody else took it out: IPython drops an AST transformer that failed.
    items[:] = [each for each in items if each is not item]


def _register_magics(undo: ExitStack, shell: InteractiveShell) -> None:
    manager = shell.magics_manager
    magics = DynWrapMagics(shell)
    before: list[tuple[str, str, Callable[..., object] | None]] = [
        (kind, name, manager.magics[kind].get(name)) for kind, names in magics.magics.items() for name in names
    ]

    def restore() -> None:
        for kind, name, former in before:
            if former is None:
                manager.magics[kind].pop(name, None)
            else:
                manager.magics[kind][name] = former
        manager.registry.pop(DynWrapMagics.__name__, None)

    undo.callback(restore)
    manager.register(magics)
