"""What a task tells of its run, and of one before it."""

import pytest

from nodeupgrade.api.task.object import Task
from nodeupgrade.api.task.run_id import of_kind
from nodeupgrade.api.task.spec import ArtifactKind, TaskAction, TaskArtifact, TaskSpec, UpgradeRef
from nodeupgrade.api.task.status import TaskPhase, TaskStatus
from nodeupgrade.api.values import NodeName, RunId, RunKind

RUN = RunId("run")
AT_WORK = {TaskPhase.STAGED, TaskPhase.RUNNING, TaskPhase.VERIFYING, TaskPhase.ROLLING_BACK}
BEFORE = {TaskPhase.PENDING, TaskPhase.STAGING, TaskPhase.PRECHECKING}


def task_with(status: TaskStatus, *, run: RunId = RUN) -> Task:
    spec = TaskSpec(
        node_name=NodeName("node-0"),
        node_uid="n",
        upgrade_ref=UpgradeRef(name="to-1-33", uid="u"),
        run_id=run,
        from_version="v1.30.14",
        to_version="v1.33.13",
        artifact=TaskArtifact(kind=ArtifactKind.PRE_STAGED),
        action=TaskAction.UPGRADE,
    )
    return Task(name=NodeName("node-0"), uid="t", resource_version="1", generation=1, spec=spec, status=status)


@pytest.mark.parametrize("phase", TaskPhase)
def test_a_node_is_untouched_until_its_run_is_handed_over(phase: TaskPhase) -> None:
    assert task_with(TaskStatus(run_id=RUN, phase=phase)).untouched is (phase in BEFORE)


@pytest.mark.parametrize("phase", TaskPhase)
def test_a_node_is_not_untouched_while_an_earlier_run_may_continue(phase: TaskPhase) -> None:
    earlier = TaskStatus(run_id=RunId("an earlier one"), phase=phase)
    assert task_with(earlier).untouched is (phase not in AT_WORK)
    assert task_with(earlier, run=of_kind(RUN, RunKind.PRECHECK)).untouched, "a precheck touches nothing"


def test_a_status_that_is_cleared_tells_of_no_run() -> None:
    assert task_with(TaskStatus(phase=TaskPhase.RUNNING)).untouched
