"""What a call gave and what a notebook holds, copied, and where two of them differ."""

from __future__ import annotations

import enum
import types

import torch
from torch import nn

PLAIN = (int, float, str, bool, type(None), complex)


def scalar(out: object) -> torch.Tensor | None:
    """Return one number to differentiate, made from all of a call's output."""
    if isinstance(out, torch.Tensor):
        return out.sum() if out.is_floating_point() else None
    if isinstance(out, dict):
        out = list(out.values())
    if isinstance(out, list | tuple):
        found = [each for each in map(scalar, out) if each is not None]
        return sum(found) if found else None
    return None


def gradient(tensor: torch.Tensor) -> torch.Tensor | None:
    """Return `.grad` of a leaf. Torch warns where one reads that of another tensor, and it has none."""
    return tensor.grad if tensor.is_leaf else None


def copied(value: object) -> object:
    if isinstance(value, torch.Tensor):
        return value.detach().clone()
    if isinstance(value, dict):
        return {key: copied(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        # The type's name stands for the type: each notebook has a named tuple of its own.
        return [type(value).__name__, *map(copied, value)]
    return value


def state(names: dict[str, object]) -> dict[str, object]:
    """Return all plain values and tensors that can be reached from the names of a notebook, by path."""
    found: dict[str, object] = {}
    seen: dict[int, object] = {}  # kept alive, so that no id passes to another object

    def look(path, value):
        if isinstance(value, PLAIN):
            found[path] = value
            return
        if isinstance(value, enum.Enum) or id(value) in seen:
            return
        seen[id(value)] = value
        if isinstance(value, torch.Tensor):
            found[path] = value.detach().clone()
            found[f"{path}.requires_grad"] = value.requires_grad
            found[f"{path}.grad"] = gradient(value)
        elif isinstance(value, dict):
            own = [key for key in value if not str(key).startswith(("_torchdynamo", "_is_torch_compile"))]
            # The numbers of hooks are the process's.
            own = {index if isinstance(key, int) else key: value[key] for index, key in enumerate(own)}
            found[f"{path}.keys"] = list(map(str, own))
            for key, each in own.items():
                look(f"{path}[{key!r}]", each)
        elif isinstance(value, list | tuple):
            found[f"{path}.len"] = len(value)
            for index, each in enumerate(value):
                look(f"{path}[{index}]", each)
        elif type(value).__module__.startswith("notebook_") or isinstance(value, nn.Module):
            # A module and its compiled form have one and the same dictionary, which is looked at once.
            look(f"{path}.__dict__", getattr(value, "__dict__", {}))
            for name in getattr(type(value), "__slots__", ()):
                look(f"{path}.{name}", getattr(value, name, None))

    own = {name: value for name, value in names.items() if not name.startswith("__") and name not in "xy"}
    for name, value in own.items():
        if not isinstance(value, type | types.ModuleType) and name not in ("kept", "handles"):
            look(name, value)
        elif isinstance(value, type):
            for attribute, each in vars(value).items():
                if isinstance(each, PLAIN) and attribute not in ("__module__", "__doc__", "__qualname__"):
                    found[f"{name}.{attribute}"] = each
    return found


def difference(eager: object, compiled: object, where: str, coarse: float = 0.0) -> str | None:
    """Say where two values differ; None if they do not.

    Parameters
    ----------
    eager, compiled, where
        What to compare, and what that is.
    coarse
        How much tensors may differ, as a part of the largest number in them, beside what rounding in float32 explains.
    """
    said = f"{where}: compiled {compiled!r:.600}, eager {eager!r:.600}"
    if isinstance(eager, Exception) or isinstance(compiled, Exception):
        same = type(eager).__name__ == type(compiled).__name__
        # What the user's own code raises says the same. What torch and Python say names other frames and operators.
        if same and type(eager).__module__.startswith("notebook_"):
            same = eager.args == compiled.args
        return None if same else said
    if isinstance(eager, torch.Tensor) and isinstance(compiled, torch.Tensor):
        largest = eager.nan_to_num(0, 0, 0).abs().max().item() if coarse and eager.numel() else 0.0
        alike = (
            eager.shape == compiled.shape
            and eager.dtype == compiled.dtype
            and torch.allclose(eager, compiled, rtol=1e-4, atol=1e-5 + coarse * largest, equal_nan=True)
        )
        return None if alike else said
    if isinstance(eager, list | tuple) and isinstance(compiled, list | tuple):
        if len(eager) != len(compiled):
            return said
        pairs = enumerate(zip(eager, compiled, strict=True))
        return next((d for i, (a, b) in pairs if (d := difference(a, b, f"{where}[{i}]", coarse)) is not None), None)
    if isinstance(eager, dict) and isinstance(compiled, dict):
        if eager.keys() != compiled.keys():
            return f"{where}: eager has {eager.keys() - compiled.keys()}, compiled has {compiled.keys() - eager.keys()}"
        return next((d for key in eager if (d := difference(eager[key], compiled[key], key, coarse)) is not None), None)
    if isinstance(eager, PLAIN) or isinstance(compiled, PLAIN):
        same = type(eager) is type(compiled) and (eager == compiled or repr(eager) == repr(compiled) == "nan")
        return None if same else said
    return None if type(eager).__name__ == type(compiled).__name__ else said
