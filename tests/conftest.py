"""Real software takes its time, the more so on a busy machine: generous limits wherever it is needed."""

import gc

import pytest
from hypothesis import settings

REAL_SECONDS = 1500

gc.set_threshold(50_000, 20, 100)
# A twelfth of the time of the fast tests would go into looking for cycles among objects that were just made.

# How long one example takes says more about the machine than about us; pytest's timeout is the limit that counts.
settings.register_profile("any machine", deadline=None)
settings.load_profile("any machine")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if {"real", "e2e"} & {mark.name for mark in item.iter_markers()} and not item.get_closest_marker("timeout"):
            item.add_marker(pytest.mark.timeout(REAL_SECONDS))
