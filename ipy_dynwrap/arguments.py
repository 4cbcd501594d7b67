"""The options of `%%compile`: one parser for the magics, their help and the docs, and the region that they ask for."""

from __future__ import annotations

import difflib
import importlib.util
import re
import sys
from argparse import SUPPRESS, Action, BooleanOptionalAction, Namespace
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NoReturn

from IPython.core.error import InputRejected, UsageError
from IPython.core.magic_arguments import MagicArgumentParser

from . import config

if TYPE_CHECKING:
    from IPython.core.interactiveshell import InteractiveShell

    from .options import Options
    from .regions import Region

__all__ = ["SWITCHES", "VALUED", "CellError", "HelpAsked", "Request", "help_text", "parser", "request", "split"]


class CellError(UsageError, InputRejected):
    """A cell that cannot be compiled as asked; the message is one sentence.

    Notes
    -----
    IPython drops an AST transformer that raises anything but `InputRejected`, and shows a traceback for anything but
    `UsageError` itself; `_render_traceback_` is its hook for a rendering of one's own.
    """

    def _render_traceback_(self) -> list[str]:
        return [f"UsageError: {self}"]


class HelpAsked(CellError):  # noqa: N818 - no error: an answer
    """Nothing is run where ``--help`` is given; the message is the help."""

    def _render_traceback_(self) -> list[str]:
        return [str(self)]


class _Help(Action):
    def __call__(self, *_: object) -> NoReturn:
        raise HelpAsked(help_text())


class _Parser(MagicArgumentParser):
    def error(self, message: str) -> NoReturn:
        known = [f"--{name}" for name in (*VALUED, *SWITCHES)]
        unknown = [word for word in message.split() if word.startswith("--") and word.partition("=")[0] not in known]
        close = difflib.get_close_matches(unknown[0].partition("=")[0], known, n=1) if unknown else []
        hint = f"did you mean {close[0]}?" if close else "%%compile? shows the options"
        raise CellError(f"%%compile: {message} ({hint})")


VALUED = {
    "backend": ("B", "a registered backend, or the name of a callable in the notebook"),
    "mode": ("M", "the mode of torch.compile: default, reduce-overhead, max-autotune, ..."),
    "include": ("MODULE", "compile the functions of this module like those of the notebook (repeatable)"),
    "exclude": ("NAME", "leave this function, class or module eager (repeatable)"),
    "stance": ("S", "the stance of torch.compiler.set_stance: default, force_eager, fail_on_recompile, ..."),
}
SWITCHES = {
    "dynamic": "compile for dynamic shapes at once, or never",
    "fullgraph": "a graph break is an error",
    "quiet": "no summary under the cell",
}


def parser() -> MagicArgumentParser:
    """Make the parser of the options; all defaults are None: not given."""
    options = _Parser(prog="%compile")  # type: ignore[no-untyped-call]
    options.allow_abbrev = False
    for name, (metavar, text) in VALUED.items():
        repeatable = name in ("include", "exclude")
        options.add_argument(f"--{name}", metavar=metavar, help=text, action="append" if repeatable else "store")
    for name, text in SWITCHES.items():
        options.add_argument(f"--{name}", help=text, action=BooleanOptionalAction)
    options.add_argument("-h", "--help", help="show this, and run nothing", action=_Help, nargs=0, default=SUPPRESS)
    return options


_ABOUT = """Run a cell, or one statement, with what it calls compiled by torch.compile.

  %%compile [options]
  ...the cell

  %compile [options] STATEMENT

The models that the cell calls are compiled, and so are the functions defined in
the notebook that get a tensor; the cell itself runs as always.
Defaults: %config DynWrap

"""


def help_text() -> str:
    """Return the help of `%%compile` and `%compile`."""
    # IPython writes help for a documentation generator.
    return _ABOUT + parser().format_help().replace("::\n\n", "", 1)


_OPTION = re.compile(rf"\s*(--(?:{'|'.join(VALUED)})(?:=|\s+)\S+|--(?:no-)?(?:{'|'.join(SWITCHES)})|--\S*)(?=\s|$)")


def split(line: str) -> tuple[str, str]:
    """Split the line of `%compile` into the options at its start and the statement."""
    end = 0
    while match := _OPTION.match(line, end):
        end = match.end()
    return line[:end].strip(), line[end:].strip()


@dataclass(frozen=True)
class Request:
    """What a line of options asks for.

    Parameters
    ----------
    region
        The region, not entered yet.
    quiet
        Whether the summary is left out.
    """

    region: Region
    quiet: bool


def request(line: str, shell: InteractiveShell) -> Request:
    """Check the options in `line`, with the defaults of `shell`, and make the region that they describe.

    Raises
    ------
    CellError
        For an option that cannot be obeyed, inside another region, and without a torch that fits.
    """
    given, configured = _parse(line, config.of_shell(shell))
    try:
        from .regions import Region, RegionError, current

        if current() is not None:
            raise CellError("%%compile inside a region: the region that is open compiles this code already")
        try:
            _check_modules(given.include)
            options = _options(given, shell)
            region = Region(options, include=given.include, exclude=given.exclude, stance=given.stance)
            # A setting is for all cells, and need not be of use in each.
            named = [
                name for option in ("include", "exclude") if option not in configured for name in vars(given)[option]
            ]
            region.checked = frozenset(named)
        except (ValueError, RegionError) as problem:  # OptionsError is a ValueError
            raise CellError(f"%%compile: {problem}{_configured(str(problem), given, configured)}") from None
    except ImportError as problem:
        raise CellError(f"%%compile: {problem}") from None
    return Request(region, given.quiet)


def _parse(line: str, defaults: config.DynWrap) -> tuple[Namespace, list[str]]:
    """Return what `line` and `defaults` ask for, and the names of what the latter do."""
    try:
        given: Namespace = parser().parse_argstring(line)  # type: ignore[no-untyped-call]
    except ValueError as problem:  # an open quote
        raise CellError(f"%%compile: {str(problem).lower()} in {line!r}") from None
    configured = [name for name, value in vars(given).items() if value is None]
    for name in configured:
        setattr(given, name, getattr(defaults, name))
    return given, configured


def _configured(problem: str, given: Namespace, names: list[str]) -> str:
    """Say which setting a problem comes from: nobody looks for it there who reads the cell."""
    for name in names:
        value = getattr(given, name)
        if any(repr(each) in problem for each in (value if isinstance(value, list) else [value]) if each):
            return f" (%config DynWrap.{name})"
    return ""


def _check_modules(names: list[str]) -> None:
    for name in names:
        # Nothing is imported for the asking, and a package would be for one of its modules.
        package = name.partition(".")[0]
        if package not in sys.modules and (not package.isidentifier() or importlib.util.find_spec(package) is None):
            raise ValueError(f"--include: there is no module {name!r}")


def _options(given: Namespace, shell: InteractiveShell) -> Options:
    from .supported import require

    require()
    from . import dynamo
    from .options import Options

    # A registered name means the same in every notebook; only another one is looked up in this one.
    backend: Any = given.backend
    if backend not in dynamo.backends() and callable(mine := shell.user_ns.get(backend)):
        backend = mine
    # What is not asked for is not passed on: options that mean the same must compare equal.
    asked = {"mode": given.mode, "dynamic": given.dynamic, "fullgraph": given.fullgraph or None}
    return Options.of(backend=backend, **asked)
