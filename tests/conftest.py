"""Real software takes its time, the more so on a busy machine: generous limits wherever it is needed."""

import gc
from collections.abc import Iterator

import pytest
import structlog
from hypothesis import settings

from nodeupgrade.fleet.health import expressions

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


@pytest.fixture(scope="session", autouse=True)
def real_evaluations_take_their_time() -> Iterator[None]:
    """An expression is evaluated by a process that yields to all others; what it may cost stays limited."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(expressions, "SECONDS", REAL_SECONDS)
        yield


def pytest_collection_finish() -> None:
    """Search no more for cycles among what was imported and collected, since it lives to the end."""
    gc.freeze()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if {"real", "e2e"} & {mark.name for mark in item.iter_markers()} and not item.get_closest_marker("timeout"):
            item.add_marker(pytest.mark.timeout(REAL_SECONDS))
