"""Real software takes its time, the more so on a busy machine: generous limits wherever it is needed."""

import gc

import pytest
import structlog
from hypothesis import settings

REAL_SECONDS = 1500

gc.set_threshold(50_000, 20, 100)
# A twelfth of the time of the fast tests would go into looking for cycles among objects that were just made.

# A failing test shows its log. Most tests pass, and structlog's own tracebacks, with the value of every local variable
# in colours, would be nine tenths of the time of those that have many errors on purpose.
structlog.configure(
    processors=[
        structlog.stdlib.add_log_level,
        structlog.dev.set_exc_info,
        structlog.processors.format_exc_info,
        structlog.processors.KeyValueRenderer(key_order=["level", "event"]),
    ]
)

# How long one example takes says more about the machine than about us; pytest's timeout is the limit that counts.
settings.register_profile("any machine", deadline=None)
settings.load_profile("any machine")


def pytest_collection_finish() -> None:
    """Search no more for cycles among what was imported and collected, since it lives to the end."""
    gc.freeze()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if {"real", "e2e"} & {mark.name for mark in item.iter_markers()} and not item.get_closest_marker("timeout"):
            item.add_marker(pytest.mark.timeout(REAL_SECONDS))
