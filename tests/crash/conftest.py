"""What all crash tests have in common."""

from functools import cache

import pytest

from nodeupgrade.node.journal import journal
from nodeupgrade.node.run import container_watch, shield_use
from nodeupgrade.node.run.steps import kubelet


@pytest.fixture(autouse=True)
def _looks_are_rare(monkeypatch: pytest.MonkeyPatch) -> None:
    """A run is interrupted at its effects; the many looks between them only cost time, in thousands of runs."""
    for module in (container_watch, kubelet, shield_use):
        monkeypatch.setattr(module, "LOOK_SECONDS", 1.0)


@pytest.fixture(autouse=True)
def _read_each_line_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Much of the time would go into decoding the same journal lines; reading a line is a pure function."""
    monkeypatch.setattr(journal, "_parse_line", cache(journal._parse_line))
