"""What holds for every scenario."""

import pytest

from nodeupgrade.fleet.controllers import plan_writer


@pytest.fixture(autouse=True)
def no_plan_is_cut_short(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let what a plan decides not depend on how busy this machine is; who tests the limit sets it."""
    monkeypatch.setattr(plan_writer, "BEGIN_SECONDS", 600.0)
    monkeypatch.setattr(plan_writer, "PATIENCE_SECONDS", 600.0)
