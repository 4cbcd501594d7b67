"""What one can do about a reason, where something can be done."""

from __future__ import annotations

import re

__all__ = ["advice"]

_NAME = r"(?P<name>[A-Za-z_]\w*)"
_SIZE = re.compile(rf"{_NAME}\.shape\[(?P<axis>\d+)\] (?P<before>\d+) -> (?P<now>\d+)")
_NUMBER = r"-?\d[\d.]*(?:e[+-]?\d+)?"
_ATTRIBUTE = re.compile(rf"(?:first call with )?self\.[\w.]+ (?:= )?{_NUMBER}(?: -> {_NUMBER})?")


def advice(reason: str, options: str = "") -> str:
    """Return what avoids a compilation that has this reason; empty where nothing does, or nothing needs to.

    Parameters
    ----------
    reason
        As in `CompileFinished.reasons`.
    options
        The compile options, as in `WrapperInfo.options`.
    """
    size = _SIZE.fullmatch(reason)
    if size is not None and size["name"] != "self":
        # Torch compiles the sizes 0 and 1 apart from all others, whatever is marked.
        if {size["before"], size["now"]} & {"0", "1"}:
            return ""
        if "static shapes" in options.split(", "):
            return "without dynamic=False (--no-dynamic) one entry can do for all sizes"
        mark = f"torch._dynamo.mark_dynamic({size['name']}, {size['axis']})"
        return f"{mark} before the first call, or dynamic=True (--dynamic), makes one entry do for all sizes"
    if _ATTRIBUTE.fullmatch(reason):
        return "as a tensor or a buffer it may change freely, unless Python decides by it"
    if reason.startswith("backend object differs"):
        return "the same backend object each time shares what is compiled"
    if reason.startswith("options differ"):
        return "the same options each time share what is compiled"
    return ""
