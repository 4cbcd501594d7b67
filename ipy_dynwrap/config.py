"""The defaults of `%%compile` as traitlets: ``%config DynWrap``, ``c.DynWrap.backend = "eager"``."""

from __future__ import annotations

from typing import TYPE_CHECKING

from traitlets import Bool, Bunch, List, Unicode, observe
from traitlets.config import Configurable

from . import persist, recording

if TYPE_CHECKING:
    from IPython.core.interactiveshell import InteractiveShell

__all__ = ["DynWrap", "of_shell"]


class DynWrap(Configurable):
    """Defaults of `%%compile` and `%compile`; an option on the line wins over them."""

    # Torch knows which values are right; it is asked when a cell runs, since loading the extension imports no torch.
    backend = Unicode("inductor", help="A registered backend, or the name of a callable in the notebook.").tag(
        config=True
    )
    mode = Unicode(None, allow_none=True, help="The mode of torch.compile.").tag(config=True)
    dynamic = Bool(None, allow_none=True, help="Whether shapes are dynamic from the first compilation on.").tag(
        config=True
    )
    fullgraph = Bool(False, help="Whether a graph break is an error.").tag(config=True)
    include = List(Unicode(), help="Modules whose functions are compiled like those of the notebook.").tag(config=True)
    exclude = List(Unicode(), help="Names of what stays eager.").tag(config=True)
    stance = Unicode(None, allow_none=True, help="The stance of torch.compiler.set_stance.").tag(config=True)
    intern = Bool(True, help="Whether what a cell defines again with the same content stays compiled.").tag(config=True)
    record = Bool(True, help="Whether what is compiled is recorded for the details in the inspector.").tag(config=True)
    persist = Unicode(
        None, allow_none=True, help="The directory in which what is compiled is kept; '' for the default one."
    ).tag(config=True)
    quiet = Bool(False, help="Whether the line under the cell is left out.").tag(config=True)

    @observe("record")
    def _record(self, change: Bunch) -> None:
        recording.switch.on = bool(change["new"])

    @observe("persist")
    def _persist(self, change: Bunch) -> None:
        persist.follow(change["new"])


def of_shell(shell: InteractiveShell) -> DynWrap:
    """Return the settings of `shell`: those that the extension registered, else fresh ones from its configuration."""
    for configurable in shell.configurables:
        if isinstance(configurable, DynWrap):
            return configurable
    return DynWrap(parent=shell)
