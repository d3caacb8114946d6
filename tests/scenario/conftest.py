"""What holds for every scenario."""

import pytest

from nodeupgrade.engine.rollout import actuator


@pytest.fixture(autouse=True)
def no_plan_is_cut_short(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let what a plan decides not depend on how busy this machine is; who tests the limit sets it."""
    monkeypatch.setattr(actuator, "BEGIN_SECONDS", 600.0)
    monkeypatch.setattr(actuator, "PATIENCE_SECONDS", 600.0)
