"""The magics `%%compile`, `%compile` and `%dynwrap`: their options and help."""

from __future__ import annotations

import dataclasses
import functools
import json
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from IPython.core.magic import Magics, line_cell_magic, line_magic, magics_class, needs_local_scope, no_var_expand

from . import arguments
from .arguments import CellError
from .cell import run

if TYPE_CHECKING:
    from IPython.core.interactiveshell import InteractiveShell

__all__ = ["DynWrapMagics"]

_COMPILE = """Run a cell, or one statement, with what it calls compiled by torch.compile.

  %%compile [options]
  ...the cell

  %compile [options] STATEMENT

The models that the cell calls are compiled, and so are the functions defined in
the notebook that get a tensor; the cell itself runs as always.
Defaults: %config DynWrap

"""


@magics_class
class DynWrapMagics(Magics):
    """The magics of this extension. A cell under ``%%compile`` comes here only where `cell` could not take it over."""

    def __init__(self, shell: InteractiveShell) -> None:
        super().__init__(shell)
        self._shell = shell

    @needs_local_scope
    @no_var_expand
    @line_cell_magic
    def compile(self, line: str, cell: str | None = None, local_ns: Mapping[str, Any] | None = None) -> Any:
        """Run `cell`, or the statement in `line`, in a region."""
        __tracebackhide__ = True  # IPython leaves this frame out of a traceback
        names = self._shell.user_ns if local_ns is None else local_ns
        if cell is not None:
            if not cell.strip():
                raise CellError("%%compile: nothing was compiled; put %%compile above the other cell magic")
            return run(self._shell, line, cell, names, in_place=False)
        options, statement = arguments.split(line)
        if not statement:
            raise CellError("%compile: there is no statement; %%compile, with two %, takes a cell")
        return run(self._shell, options, statement, names, in_place=True)

    @line_magic
    def dynwrap(self, line: str) -> Any:
        """Show the inspector, or a part of what it knows.

        ::

          %dynwrap                             the inspector
          %dynwrap why NAME                    why NAME was compiled again, or was not compiled
          %dynwrap reset [NAME]                forget what was compiled for NAME, or everything
          %dynwrap export FILE.html|FILE.json  write what the inspector shows to a file
        """
        import ipy_dynwrap

        command, _, rest = line.strip().partition(" ")
        try:
            match command, rest.strip():
                case "", _:
                    return ipy_dynwrap.inspector()
                case "why", name if name:
                    return ipy_dynwrap.explain(self._named(name))
                case "reset", name:
                    return ipy_dynwrap.reset(self._named(name) if name else None)
                case "export", file if file:
                    return _export(file)
        except (LookupError, ImportError) as problem:
            raise CellError(f"%dynwrap: {problem}") from None
        raise CellError(f"%dynwrap: {line.strip()!r} is none of why NAME, reset [NAME], export FILE (see %dynwrap?)")

    def _named(self, name: str) -> Any:
        """Return what `name`, which may have dots, stands for in the notebook; the cache may know other names."""
        first, *attributes = name.split(".")
        try:
            return functools.reduce(getattr, attributes, self._shell.user_ns[first])
        except (KeyError, AttributeError):
            return name


DynWrapMagics.compile.__doc__ = _COMPILE + arguments.parser().format_help()


def _export(file: str) -> None:
    from . import cache_info

    path = Path(file).expanduser()
    if path.suffix == ".json":
        text = json.dumps(cache_info(), default=_plain, indent=2)
    elif path.suffix == ".html":
        from .views import html

        text = html.page(cache_info())
    else:
        raise CellError(f"%dynwrap export: the name of the file ends in .html or .json, not as in {file!r}")
    try:
        path.write_text(text, encoding="utf-8")
    except OSError as problem:
        raise CellError(f"%dynwrap export: {problem}") from None
    print(f"wrote {path}")  # noqa: T201 - the answer to a magic


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return dict(value)
    return {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}
