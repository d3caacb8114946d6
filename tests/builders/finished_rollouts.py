"""Builds rollouts of any size, with their tasks, without an operator."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta

from nodeupgrade.api.reasons import Reason
from nodeupgrade.api.task.object import Task
from nodeupgrade.api.task.spec import RunVerdict, TaskAction, UpgradeRef
from nodeupgrade.api.task.status import ContainerCounts, KubeletBinary, KubeletStatus, TaskPhase, TaskStatus
from nodeupgrade.api.upgrade.object import Upgrade
from nodeupgrade.api.upgrade.status import Counts, UpgradeStatus, WaveState, WaveStatus
from nodeupgrade.api.values import NodeName, Verdict
from tests.builders.tasks import task_spec

BEGAN = datetime(2026, 3, 1, 22, tzinfo=UTC)
NODE = timedelta(seconds=70)


def finished_task(name: str, started: datetime, *, failed: bool = False, text: str = "") -> Task:
    """A task whose run has ended; ``text`` stands wherever a node can write one."""
    spec = task_spec(name)
    outcome = Verdict.ROLLED_BACK if failed else Verdict.SUCCEEDED
    reason = Reason.KUBELET_DID_NOT_START if failed else Reason.SUCCEEDED
    listed = (f"shop/web-0/{text}",) if failed else ()
    ended = started + NODE
    verdict = RunVerdict(
        run_id=spec.run_id,
        outcome=outcome,
        reason=reason,
        message=text,
        restarted=len(listed),
        restarted_list=listed,
        decided_at=ended,
    )
    binary = KubeletBinary(version=f"v1.33.13{text}", sha256=f"{'a' * 64}{text}", path=text)
    return Task(
        name=NodeName(name),
        uid=f"uid-of-{name}",
        resource_version="1",
        generation=1,
        spec=replace(spec, action=TaskAction.RELEASE, verdict=verdict, wave="all"),
        status=TaskStatus(
            run_id=spec.run_id,
            phase=TaskPhase.SUCCEEDED,
            message=text,
            kubelet=KubeletStatus(before=binary, after=binary, down_seconds=0.9),
            containers=ContainerCounts(baseline=60, rewritten=60, unchanged=60),
            started_at=started,
            finished_at=ended,
        ),
    )


def finished_tasks(number: int, *, at_once: int, failed: Sequence[int] = ()) -> list[Task]:
    """Tasks that ran one after the other in so many slots."""
    return [
        finished_task(f"node-{each:05}", BEGAN + NODE * (each // at_once), failed=each in failed)
        for each in range(number)
    ]


def finished_rollout(tasks: Sequence[Task], *, name: str = "up", text: str = "") -> Upgrade:
    """The rollout of these tasks."""
    last = max(task.status.finished_at or BEGAN for task in tasks)
    failed = sum(task.verdict is not None and task.verdict.outcome is Verdict.ROLLED_BACK for task in tasks)
    counts = Counts(total=len(tasks), succeeded=len(tasks) - failed, rolled_back=failed)
    wave = WaveStatus(
        name="all",
        state=WaveState.COMPLETED,
        total=len(tasks),
        succeeded=counts.succeeded,
        failed=failed,
        started_at=BEGAN,
        completed_at=last,
        approved_by=f"jane{text}",
        approved_at=BEGAN,
    )
    return Upgrade(
        name=name,
        uid=UpgradeRef(name="up", uid="uid-of-up").uid,
        resource_version="1",
        generation=1,
        spec=None,
        problem=text,
        status=UpgradeStatus(
            observed_generation=1,
            phase="Succeeded",
            counts=counts,
            waves=(wave,),
            skips={text: 1} if text else None,
            planned_at=BEGAN,
            started_at=BEGAN,
            completed_at=last,
        ),
    )
