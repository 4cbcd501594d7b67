"""Snapshots as tables."""

from __future__ import annotations

from types import MappingProxyType

from ipy_dynwrap.snapshot import CacheInfo, EntryInfo, WrapperInfo

ENTRIES = EntryInfo("0/0", 3, 0.5, None, 2, 7), EntryInfo("0/1", 2, 0.25, "x.shape[0] 4 -> 5", None, 9)
RESUMED = EntryInfo("1/0", 2, 0.1, None, 2, 7)


def test_rows_are_flat_and_complete():
    key, retired = MappingProxyType({"self.k": "2", "self.mode": "'a'"}), {"self.step": "keeps changing"}
    wrapper = WrapperInfo(
        "n", "module", "Net", key, (*ENTRIES, RESUMED), 5, 2, 0, 8, "compiled", 0.1, None, retired=retired
    )
    [row] = CacheInfo((wrapper,), 2, 1, 0, 0, 0.1, 5).rows()
    assert set(row) == {*WrapperInfo.__slots__, "used", "run_seconds"}
    assert all(value is None or isinstance(value, str | int | float) for value in row.values())
    assert (row["key"], row["retired"]) == ("self.k = 2, self.mode = 'a'", "self.step keeps changing")
    assert (row["entries"], row["used"], row["run_seconds"], row["limit"]) == (3, 2, 0.75, 8)


def test_no_wrappers_are_no_rows():
    assert CacheInfo((), 0, 0, 0, 0, 0.0).rows() == []
