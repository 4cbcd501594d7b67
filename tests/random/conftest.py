"""The sizes of the randomized tests: small and the same every time, or nightly and new every time."""

from __future__ import annotations

import os
import sys

from hypothesis import HealthCheck, Phase, settings

COMMON = {"deadline": None, "suppress_health_check": list(HealthCheck), "print_blob": True}
# The small size says at once that something is wrong; to find the smallest program takes minutes.
settings.register_profile(
    "small",
    max_examples=4,
    stateful_step_count=20,
    derandomize=True,
    database=None,
    phases=[Phase.explicit, Phase.generate],
    **COMMON,
)
settings.register_profile("nightly", max_examples=200, stateful_step_count=50, **COMMON)
PROFILE = os.environ.get("HYPOTHESIS_PROFILE", "small")
settings.load_profile(PROFILE)


def pytest_terminal_summary(terminalreporter):
    machine = sys.modules.get("machine")
    if machine is not None and machine.Twins.taken:
        terminalreporter.write_line(f"{machine.Twins.taken:,} steps taken in twin notebooks")


def pytest_collection_modifyitems(config, items):
    if PROFILE == "nightly":
        return
    nightly = [each for each in items if each.get_closest_marker("random")]
    config.hook.pytest_deselected(items=nightly)
    items[:] = [each for each in items if each not in nightly]
