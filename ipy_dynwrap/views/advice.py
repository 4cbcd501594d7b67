"""What one can do about a reason, where something can be done."""

from __future__ import annotations

from ipy_dynwrap import reasons

__all__ = ["advice"]


def advice(reason: str, options: str = "", kind: str = "", frame: str = "") -> str:
    """Return what avoids a compilation that has this reason; empty where nothing does, or nothing needs to.

    Parameters
    ----------
    reason
        As in `CompileFinished.reasons`.
    options, kind
        As in `WrapperInfo`.
    frame
        As in `CompileFinished`.
    """
    if reason.startswith("options differ"):
        return "the same options each time share what is compiled"
    said = reasons.advice(reason, kind) or ""
    if said.startswith("dynamic=True") and "static shapes" in options.split(", "):
        return "without dynamic=False (--no-dynamic) one entry can do for all sizes"
    if said.startswith("dynamic=True") and frame.startswith("torch_dynamo_resume_in"):
        return "dynamic=True avoids this one"  # what follows a graph break has locals that nobody can mark
    return said
