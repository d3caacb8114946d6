"""A failpoint is waited for as long as the run may still pass it."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from e2e.faults import run
from e2e.faults.run import FaultRun
from e2e.lab import LabError
from e2e.lab.cluster.deploy import FAILPOINTS
from nodeupgrade.api.task.step import Step
from nodeupgrade.node.failpoints.failpoints import When, at

MOMENT = at(Step.START_KUBELET, When.ANNOUNCED)


@pytest.fixture
def waiting(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FaultRun:
    monkeypatch.setattr(run, "ASK_SECONDS", 0.0)
    node = SimpleNamespace(disk=tmp_path)
    cluster = SimpleNamespace(node=node, task=lambda: {"status": {"phase": "Refused"}})
    return FaultRun(cast("Any", cluster), "it", "1.30.14", "1.33.13", {})


def test_a_run_that_has_ended_passes_none_any_more(waiting: FaultRun, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(FaultRun, "_over", lambda _: True)
    with pytest.raises(LabError, match=r"the run ended before the executor passed start-kubelet\.announced; .*Refused"):
        waiting.wait_hit(MOMENT, timeout=1)


def test_what_it_passed_before_its_end_counts(
    waiting: FaultRun, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hit = tmp_path / FAILPOINTS.lstrip("/") / f"{MOMENT}.hit"
    hit.parent.mkdir(parents=True)
    looks = iter((False, True))

    def over(_: FaultRun) -> bool:
        if ended := next(looks):
            hit.touch()
        return ended

    monkeypatch.setattr(FaultRun, "_over", over)
    waiting.wait_hit(MOMENT, timeout=600)
