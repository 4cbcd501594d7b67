"""What `stand_in.py` prints: which tests passed with both, which with one only and why, and which with neither."""

from __future__ import annotations

import fnmatch
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

UNKNOWN = "without a known reason"
_COLUMNS = ("tests", "both", "torch only", "ours only", "neither")


@dataclass(frozen=True)
class Outcome:
    """How one test ended, and the first line of what it raised."""

    word: str
    error: str


NOT_RUN = Outcome("not run", "")


@dataclass
class Comparison:
    """The tests of a file, or of all files, by what they passed with; each with its outcome with the other."""

    both: list[str] = field(default_factory=list)
    torch_only: dict[str, Outcome] = field(default_factory=dict)
    ours_only: dict[str, Outcome] = field(default_factory=dict)
    neither: list[str] = field(default_factory=list)

    @classmethod
    def of(cls, torch: Mapping[str, Outcome], ours: Mapping[str, Outcome]) -> Comparison:
        """Compare the outcomes with `torch.compile` and those with ours."""
        made = cls()
        for test in sorted(torch.keys() | ours.keys()):
            theirs, mine = torch.get(test, NOT_RUN), ours.get(test, NOT_RUN)
            match theirs.word == "passed", mine.word == "passed":
                case True, True:
                    made.both.append(test)
                case True, False:
                    made.torch_only[test] = mine
                case False, True:
                    made.ours_only[test] = theirs
                case _:
                    made.neither.append(test)
        return made

    def add(self, other: Comparison) -> None:
        """Add the tests of another file."""
        self.both += other.both
        self.torch_only |= other.torch_only
        self.ours_only |= other.ours_only
        self.neither += other.neither

    def counts(self) -> tuple[int, ...]:
        """Return how many tests there are, and how many of each kind."""
        parts = [len(each) for each in (self.both, self.torch_only, self.ours_only, self.neither)]
        return sum(parts), *parts


class Known:
    """The differences with a reason.

    Parameters
    ----------
    reasons
        Of each reason, the patterns of the tests that have it.
    """

    def __init__(self, reasons: Mapping[str, list[str]]) -> None:
        self._reasons = reasons

    def reason(self, test: str) -> str:
        """Return why a test may pass with `torch.compile` only."""
        for reason, patterns in self._reasons.items():
            if any(fnmatch.fnmatchcase(test, pattern) for pattern in patterns):
                return reason
        return UNKNOWN

    def needless(self, passed: list[str]) -> list[str]:
        """Return the patterns of tests that `passed` with both."""
        patterns = (pattern for each in self._reasons.values() for pattern in each)
        return [pattern for pattern in patterns if fnmatch.filter(passed, pattern)]


def heading() -> str:
    """Return the line above the counts."""
    return _row("passed with", _COLUMNS)


def counts(name: str, comparison: Comparison) -> str:
    """Return the line of a file, or of all of them."""
    return _row(name, comparison.counts())


def _row(name: str, values: tuple[object, ...]) -> str:
    return f"{name:32}" + "".join(f"{value!s:>12}" for value in values)


def details(total: Comparison, known: Known) -> Iterator[str]:
    """Yield the lines about the tests that passed with one only, those without a reason last."""
    by_reason: dict[str, list[str]] = {}
    for test in total.torch_only:
        by_reason.setdefault(known.reason(test), []).append(test)
    yield f"Passed with torch.compile only: {len(total.torch_only)}"
    for reason, tests in sorted(by_reason.items(), key=lambda each: (each[0] == UNKNOWN, -len(each[1]))):
        yield f"  {len(tests)} {reason}"
        for test in tests:
            yield from _test(test, "ours", total.torch_only[test])
    yield f"Passed with ours only: {len(total.ours_only)}"
    for test, outcome in total.ours_only.items():
        yield from _test(test, "torch.compile", outcome)
    if needless := known.needless(total.both):
        yield f"Passed with both, though a reason is on file why they should not: {len(needless)}"
        yield from (f"    {pattern}" for pattern in needless)


def _test(test: str, other: str, outcome: Outcome) -> Iterator[str]:
    yield f"    {test}: {outcome.word} with {other}"
    if outcome.error:
        yield f"        {outcome.error}"
