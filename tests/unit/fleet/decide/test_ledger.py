"""Tests for whether a rollout makes progress."""

from datetime import UTC, datetime, timedelta

import pytest

from nodeupgrade.api.task.object import Task
from nodeupgrade.api.task.spec import ArtifactKind, TaskAction, TaskArtifact, TaskSpec, UpgradeRef
from nodeupgrade.api.task.status import TaskPhase, TaskStatus
from nodeupgrade.api.values import NodeName, RunId
from nodeupgrade.fleet.decide.ledger import IMPEDED_AFTER, overdue

NODE, DEADLINE = NodeName("node-0"), datetime(2026, 1, 1, tzinfo=UTC)


@pytest.mark.parametrize(("reports_on", "told"), [("run", "Running"), ("an earlier run", "nothing")])
def test_of_a_node_that_is_overdue_it_tells_what_it_reports_on_this_run(reports_on: str, told: str) -> None:
    spec = TaskSpec(
        node_name=NODE,
        node_uid="n",
        upgrade_ref=UpgradeRef(name="to-1-33", uid="u"),
        run_id=RunId("run"),
        from_version="v1.30.14",
        to_version="v1.33.13",
        artifact=TaskArtifact(kind=ArtifactKind.PRE_STAGED),
        action=TaskAction.UPGRADE,
        deadline=DEADLINE,
    )
    status = TaskStatus(run_id=RunId(reports_on), phase=TaskPhase.RUNNING)
    task = Task(name=NODE, uid="t", resource_version="1", generation=1, spec=spec, status=status)
    late = DEADLINE + IMPEDED_AFTER

    assert overdue([task], late) == ()
    [found] = overdue([task], late + timedelta(seconds=1))
    assert f"and still reports {told}" in found.detail
