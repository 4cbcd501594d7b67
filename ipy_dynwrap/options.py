"""The options of `torch.compile`, checked at once and comparable.

Two equal option sets share wrappers and one backend object; what is wrong with an option is said before any of the
user's code has run.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass, field
from typing import Any

__all__ = ["Options", "OptionsError"]


class OptionsError(ValueError):
    """An option that cannot be obeyed; the message is one sentence that names the way out."""


class _ById:
    """Stands for a value without a usable hash: equal only to itself, and kept alive, so that its id stays its own."""

    __slots__ = ("value",)

    def __init__(self, value: object) -> None:
        self.value = value

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _ById) and other.value is self.value

    def __hash__(self) -> int:
        return id(self.value)


def _hashable(value: object) -> Hashable:
    if isinstance(value, Mapping):
        return tuple(sorted((str(name), _hashable(item)) for name, item in value.items()))
    if isinstance(value, list | tuple):
        return tuple(map(_hashable, value))
    try:
        hash(value)
    except TypeError:
        return _ById(value)
    # 1 and True are equal and hash alike, but do not mean the same option.
    return (type(value), value)


@dataclass(frozen=True, eq=False)
class Options:
    """Options for `torch.compile`.

    Parameters
    ----------
    backend
        The name of a registered backend, or a callable ``(graph_module, example_inputs) -> callable``.
    fullgraph
        Whether a graph break is an error.
    disable
        Whether nothing is compiled.
    given
        All options as they were given, for `torch.compile`.

    Notes
    -----
    Options compare by value: the same backend object, or equal ones, with equal settings.
    """

    backend: str | Callable[..., Any]
    fullgraph: bool
    disable: bool
    given: Mapping[str, Any]
    key: Hashable = field(repr=False)

    @classmethod
    def of(cls, **given: Any) -> Options:
        """Check `given`, keyword arguments of `torch.compile`.

        Raises
        ------
        OptionsError
            For an option, backend or mode that torch does not have, a combination that it refuses, or inductor without
            a C++ compiler.
        """
        from . import dynamo
        from .supported import load

        known = dynamo.option_names()
        for name in given:
            if name not in known:
                raise OptionsError(f"unknown option {name!r}{_nearest(name, known)}; known: {', '.join(sorted(known))}")
        given = {name: value for name, value in given.items() if value is not None}
        backend = given.setdefault("backend", "inductor")
        if not isinstance(backend, str):
            if not callable(backend):
                raise OptionsError(f"backend is a name or a callable, not {type(backend).__name__}")
        elif backend not in (backends := dynamo.backends()):
            known_backends = ", ".join(name for name in backends if "TESTING" not in name)
            raise OptionsError(f"unknown backend {backend!r}{_nearest(backend, backends)}; known: {known_backends}")
        _check_mode(backend, given.get("mode"), given.get("options"))
        if backend == "inductor":
            load("torch._inductor.compile_fx")
            if problem := dynamo.compiler_problem():
                raise OptionsError(f"{problem}; install one (Debian: apt-get install g++) or use backend 'aot_eager'")
        return cls(
            backend=backend,
            fullgraph=bool(given.get("fullgraph", False)),
            disable=bool(given.get("disable", False)),
            given=given,
            key=_hashable(given),
        )

    @property
    def label(self) -> str:
        """The options in words: ``"inductor, fullgraph"``."""
        backend = self.backend if isinstance(self.backend, str) else getattr(self.backend, "__name__", None)
        words = [backend or type(self.backend).__name__]
        for name, value in self.given.items():
            if name == "dynamic":
                words.append("dynamic shapes" if value else "static shapes")
            elif name != "backend" and value is not False:
                words.append(name if value is True else f"{name}={value}")
        return ", ".join(words)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Options) and self.key == other.key

    def __hash__(self) -> int:
        return hash(self.key)


def _nearest(name: str, known: Any) -> str:
    near = difflib.get_close_matches(name, known, n=1)
    return f" (did you mean {near[0]!r}?)" if near else ""


def _check_mode(backend: object, mode: object, options: object) -> None:
    from . import dynamo

    if mode is not None:
        if options is not None:
            raise OptionsError("give mode or options, not both")
        if mode not in (modes := dynamo.modes()):
            raise OptionsError(f"unknown mode {mode!r}{_nearest(str(mode), modes)}; known: {', '.join(modes)}")
        if backend != "inductor" and mode != "default":
            raise OptionsError(f"mode {mode!r} is for backend 'inductor' only")
    if options is not None and not isinstance(options, Mapping):
        raise OptionsError(f"options is a mapping of setting to value, not {type(options).__name__}")
