"""What unit tests share."""

from __future__ import annotations

import time

import pytest


@pytest.fixture
def wait_until():
    """Wait for what another thread is about to do; a minute is for a machine that is very busy."""

    def wait(condition):
        deadline = time.monotonic() + 60
        while not condition():
            assert time.monotonic() < deadline, "it did not happen"
            time.sleep(0.01)

    return wait
