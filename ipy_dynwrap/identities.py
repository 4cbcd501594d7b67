"""A dictionary that goes by identity and keeps nothing alive."""

from __future__ import annotations

import weakref
from typing import Any

__all__ = ["ByIdentity"]


class ByIdentity:
    """A dictionary with weak keys that are compared by identity; what cannot be referred to weakly is not kept."""

    def __init__(self) -> None:
        self._entries: dict[int, tuple[weakref.ref[Any], Any]] = {}

    def get(self, key: object) -> Any:
        """Return the value of `key`, or None."""
        entry = self._entries.get(id(key))
        return entry[1] if entry is not None and entry[0]() is key else None

    def set(self, key: object, value: Any) -> bool:
        """Give `key` a value; return False, and keep nothing, if it cannot be referred to weakly."""
        entries, number = self._entries, id(key)

        def gone(reference: weakref.ref[Any]) -> None:
            if (entry := entries.get(number)) is not None and entry[0] is reference:
                del entries[number]

        try:
            entries[number] = weakref.ref(key, gone), value
        except TypeError:
            return False
        return True

    def setdefault(self, key: object, value: Any) -> Any:
        """Return the value of `key`; the first time, give it `value`."""
        found = self.get(key)
        if found is None:
            self.set(key, value)
            return value
        return found

    def items(self) -> list[tuple[Any, Any]]:
        """Return the living keys with their values."""
        pairs = [(reference(), value) for reference, value in self._entries.values()]
        return [(key, value) for key, value in pairs if key is not None]

    def pop(self, key: object) -> None:
        """Forget `key`; nothing happens if it is not there."""
        if self.get(key) is not None:
            del self._entries[id(key)]

    def clear(self) -> None:
        """Forget all keys."""
        self._entries.clear()
