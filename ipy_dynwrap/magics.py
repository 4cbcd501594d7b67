"""The magics `%%compile`, `%compile` and `%dynwrap`: their options and help."""

from __future__ import annotations

import ast
import functools
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from IPython.core.magic import Magics, line_cell_magic, line_magic, magics_class, needs_local_scope, no_var_expand

from . import arguments
from .arguments import CellError
from .cell import run

if TYPE_CHECKING:
    from IPython.core.interactiveshell import InteractiveShell

__all__ = ["COMMANDS", "DynWrapMagics"]

COMMANDS = {
    "why": "why [NAME]",
    "would": "would CALL",
    "reset": "reset [NAME]",
    "skip": "skip NAME",
    "persist": "persist [DIR|off]",
    "export": "export FILE.html|FILE.json",
}
"""What `%dynwrap` takes, and how it is written."""


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
            arguments.parser().parse_argstring(options)  # type: ignore[no-untyped-call]  # it may ask for help
            raise CellError("%compile: there is no statement; %%compile, with two %, takes a cell")
        try:
            return run(self._shell, options, statement, names, in_place=True)
        except SyntaxError as error:
            if _is_of_user(error):
                raise
            raise CellError(f"%compile: {error.msg} in {statement!r}") from None

    @line_magic("%compile")  # type: ignore[arg-type]  # its annotation knows the plain form only
    def misplaced(self, _: str) -> None:
        """Say where ``%%compile`` goes: IPython takes it for a line magic where it is not on a cell's first line."""
        raise CellError("%%compile goes on the first line of a cell; %compile STATEMENT compiles one statement")

    @needs_local_scope
    @no_var_expand
    @line_magic
    def dynwrap(self, line: str, local_ns: Mapping[str, Any] | None = None) -> Any:
        """Show the inspector, or a part of what it knows.

        ::

          %dynwrap                             the inspector
          %dynwrap why [NAME]                  why NAME, or anything, was compiled again, or was not compiled
          %dynwrap would CALL                  whether CALL, such as model(x), would find compiled code; its arguments
                                               are evaluated, the call is not run
          %dynwrap reset [NAME]                forget what was compiled for NAME, or everything
          %dynwrap skip NAME                   let NAME run eager from now on
          %dynwrap persist [DIR|off]           keep what is compiled for the next kernel, and say what was kept
          %dynwrap export FILE.html|FILE.json  write what the inspector shows to a file
        """
        import ipy_dynwrap

        command, _, rest = line.strip().partition(" ")
        try:
            match command, rest.strip():
                case "", _:
                    return self._inspector()
                case "why", name:
                    return ipy_dynwrap.explain(self._named(name) if name else None)
                case "would", call if call:
                    return _would(call, self._shell.user_ns, local_ns)
                case "reset", name:
                    return ipy_dynwrap.reset(self._named(name) if name else None)
                case "skip", name if name:
                    ipy_dynwrap.skip(self._named(name))
                    print(f"{name} runs eager from now on; %dynwrap reset {name} undoes it")  # noqa: T201 - the answer
                    return None
                case "persist", directory:
                    return _persist(str(self._shell.var_expand(directory)))  # type: ignore[no-untyped-call]
                case "export", file if file:
                    return _export(str(self._shell.var_expand(file)))  # type: ignore[no-untyped-call]
        except (LookupError, ImportError) as problem:
            raise CellError(f"%dynwrap: {problem}") from None
        if command in COMMANDS:
            raise CellError(f"%dynwrap {command}: something is missing: %dynwrap {COMMANDS[command]}")
        known = ", ".join(COMMANDS.values())
        raise CellError(f"%dynwrap: {command!r} is none of {known} (see %dynwrap?)")

    def _inspector(self) -> Any:
        import ipy_dynwrap

        if getattr(self._shell, "kernel", None) is not None:
            return ipy_dynwrap.inspector()
        # A terminal shows no widget.
        from .views import picture, text

        text.show(text.render(picture.taken()))
        return None

    def _named(self, name: str) -> Any:
        """Return what `name`, which may have dots, stands for in the notebook; the cache may know other names."""
        first, *attributes = name.split(".")
        try:
            return functools.reduce(getattr, attributes, self._shell.user_ns[first])
        except (KeyError, AttributeError):
            return name


DynWrapMagics.compile.__doc__ = arguments.help_text()


def _is_of_user(error: SyntaxError) -> bool:
    """Tell whether the statement itself raised `error`, by an import or `exec` for one."""
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    parsers = ("ipy_dynwrap.cell", "IPython.core.compilerop", "codeop")
    return trace is not None and trace.tb_frame.f_globals.get("__name__") not in parsers


def _would(call: str, names: dict[str, Any], local_names: Mapping[str, Any] | None) -> Any:
    """Ask what `call` would find. What it calls and passes is evaluated, the call itself is not."""
    import ipy_dynwrap

    try:
        node = ast.parse(call, mode="eval").body
    except (SyntaxError, ValueError):  # the latter for a null byte
        node = None
    if not isinstance(node, ast.Call):
        raise CellError(f"%dynwrap would: this is no call, such as model(x): {call}")
    asked = ast.Call(ast.Name("_dynwrap_asked", ast.Load()), [node.func, *node.args], node.keywords)
    code = compile(
        ast.fix_missing_locations(ast.Expression(ast.copy_location(asked, node))), "<%dynwrap would>", "eval"
    )
    try:
        scope = {**names, **(local_names or {}), "_dynwrap_asked": lambda *args, **kwargs: (args, kwargs)}
        (target, *args), kwargs = eval(code, scope)  # noqa: S307 - the user's own code
    except Exception as problem:  # noqa: BLE001 - whatever the user's names and calls raise
        raise CellError(f"%dynwrap would: {type(problem).__name__}: {problem}") from None
    try:
        return ipy_dynwrap.would_hit(target, *args, **kwargs)
    except TypeError as problem:  # the call does not fit
        raise CellError(f"%dynwrap would: {problem}") from None


def _persist(directory: str) -> None:
    from . import persist

    try:
        if directory == "off":
            persist.switch_off()
        else:
            # Without a directory it is a question, too: what is kept where it is kept now.
            persist.switch_on(directory or (now.directory if (now := persist.kept()) is not None else None))
    except persist.PersistError as problem:
        raise CellError(f"%dynwrap persist: {problem}") from None
    print(persist.report())  # noqa: T201 - the answer to a magic


def _export(file: str) -> None:
    from . import export

    path = Path(file).expanduser()
    form = path.suffix.removeprefix(".")
    if form not in export.FORMATS:
        raise CellError(f"%dynwrap export: the name of the file ends in .html or .json, not as in {file!r}")
    content = export.content(form)
    try:
        path.write_text(content, encoding="utf-8")
    except OSError as problem:
        raise CellError(f"%dynwrap export: {problem}") from None
    print(f"wrote {path}")  # noqa: T201 - the answer to a magic
