"""What all crash tests have in common."""

import pytest

from nodeupgrade.engine.node import shield, watch
from nodeupgrade.engine.node.steps import kubelet


@pytest.fixture(autouse=True)
def _looks_are_rare(monkeypatch: pytest.MonkeyPatch) -> None:
    """A run is interrupted at its effects; the many looks between them only cost time, in thousands of runs."""
    for module in (watch, kubelet, shield):
        monkeypatch.setattr(module, "LOOK_SECONDS", 1.0)
