"""Every combination of Node, task and NodeUpgrade: a Machine is done only if the control plane says so."""

from dataclasses import replace
from datetime import UTC, datetime
from itertools import product

from nodeupgrade.api.reasons import Reason
from nodeupgrade.api.task.object import Task
from nodeupgrade.api.task.run_id import new_run_id
from nodeupgrade.api.task.spec import ArtifactKind, RunVerdict, TaskAction, TaskArtifact, TaskSpec, UpgradeRef
from nodeupgrade.api.upgrade.object import Upgrade, parse_spec
from nodeupgrade.api.upgrade.status import Condition, ConditionStatus, ConditionType, Slot, UpgradeStatus
from nodeupgrade.api.values import NodeName, RunId, Verdict
from nodeupgrade.capi.answers import Done, Failed, Waiting
from nodeupgrade.capi.progress import Join, next_step
from nodeupgrade.capi.rollouts import NODE_LABEL
from nodeupgrade.cluster.nodes import NodeView
from tests.builders.cluster_api import NEW, OLD, ROLLOUTS

NOW = datetime(2026, 1, 1, tzinfo=UTC)
NODE = NodeView(
    name=NodeName("node-0"), uid="uid-0", resource_version="1", labels={}, taints=(), unschedulable=False,
    cordoned_by="", ready=True, kubelet_version=OLD, runtime="containerd://2.0.0", platform="linux-amd64",
)  # fmt: skip
UPGRADE = Upgrade(
    name="one", uid="upgrade", resource_version="1", generation=1, spec=parse_spec(ROLLOUTS.spec_of("one", NEW))
)
FINISHED = UpgradeStatus(completed_at=NOW)


def task(verdict: Verdict | None, *, node_uid: str = "uid-0", upgrade: str = "upgrade", to: str = NEW) -> Task:
    run = RunId(new_run_id(upgrade, NOW))
    decided = None if verdict is None else RunVerdict(run_id=run, outcome=verdict, reason=Reason.FAILED, message="why")
    return Task(
        name=NODE.name,
        uid="task",
        resource_version="1",
        generation=1,
        spec=TaskSpec(
            node_name=NODE.name,
            node_uid=node_uid,
            upgrade_ref=UpgradeRef(name="one", uid=upgrade),
            run_id=run,
            from_version=OLD,
            to_version=to,
            artifact=TaskArtifact(kind=ArtifactKind.PRE_STAGED, path="/opt/kubelet", sha256="a" * 64),
            action=TaskAction.UPGRADE,
            verdict=decided,
        ),
    )


def test_done_only_by_the_verdict_and_never_while_a_run_is_open() -> None:
    tasks = [None, *(task(verdict) for verdict in (None, *Verdict) if verdict is not Verdict.PRECHECKED)]
    statuses = (UpgradeStatus(), FINISHED, UpgradeStatus(in_flight=(Slot(node=NODE.name),)))
    upgrades = (None, *(replace(UPGRADE, status=status) for status in statuses))
    seen = set[type[object]]()
    for known, upgrade, version in product(tasks, upgrades, (OLD, NEW)):
        step = next_step(replace(NODE, kubelet_version=version), known, upgrade, "one", NEW)
        seen.add(type(step))
        if not isinstance(step, Done):
            continue
        assert version == NEW
        assert known is None or (known.verdict is not None and known.verdict.outcome is Verdict.SUCCEEDED)
        assert upgrade is None or not upgrade.status.in_flight
    assert seen == {Done, Waiting, Failed, Join}


def test_a_verdict_on_another_node_version_or_rollout_says_nothing() -> None:
    for other in (
        task(Verdict.ROLLED_BACK, node_uid="uid-before"),
        task(Verdict.ROLLED_BACK, to="v1.32.0"),
        task(Verdict.ROLLED_BACK, upgrade="deleted"),
    ):
        assert next_step(NODE, other, None, "one", NEW) == Join(creates=True)
        assert next_step(NODE, other, UPGRADE, "one", NEW) == Join()


def test_a_rollout_that_has_ended_is_opened_once_for_each_node() -> None:
    ended = replace(UPGRADE, status=FINISHED)
    labelled = replace(NODE, labels={NODE_LABEL: "one"})
    assert next_step(labelled, None, ended, "one", NEW) == Join(retry="uid-0")
    assert isinstance(next_step(labelled, None, replace(ended, retry="uid-0"), "one", NEW), Waiting)
    handled = replace(ended, retry="uid-0", status=replace(FINISHED, last_handled_retry="uid-0"))
    left_out = next_step(labelled, None, handled, "one", NEW)
    assert isinstance(left_out, Failed)
    assert "without node node-0" in left_out.message


STALLED = UpgradeStatus(
    conditions=tuple(
        Condition(
            type=kind.value,
            status=status,
            reason="TimedOut",
            message="the rollout is late.",
            last_transition_time=NOW,
        )
        for kind, status in (
            (ConditionType.STALLED, ConditionStatus.TRUE),
            (ConditionType.READY, ConditionStatus.FALSE),
        )
    )
)


def test_a_rollout_that_needs_a_person_is_a_failure_unless_the_operator_has_not_seen_the_node() -> None:
    joined = replace(NODE, labels={NODE_LABEL: "one"})
    step = next_step(joined, None, replace(UPGRADE, status=STALLED), "one", NEW)
    assert isinstance(step, Failed)
    assert "the rollout is late. " in step.message
    unseen = tuple(replace(each, reason=Reason.NO_MATCHING_NODES.value) for each in STALLED.conditions)
    unseen_status = replace(STALLED, conditions=unseen)
    assert isinstance(next_step(joined, None, replace(UPGRADE, status=unseen_status), "one", NEW), Waiting)
    assert next_step(NODE, None, replace(UPGRADE, status=STALLED), "one", NEW) == Join()
    retried = replace(UPGRADE, status=STALLED, retry="again")
    assert isinstance(next_step(joined, None, retried, "one", NEW), Waiting)


def test_one_that_is_being_deleted_is_waited_for() -> None:
    assert isinstance(next_step(NODE, None, replace(UPGRADE, deleting=True), "one", NEW), Waiting)
