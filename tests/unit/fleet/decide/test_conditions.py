"""Ready says what matters most: that a person is needed, else what is in the way, else how far the rollout is."""

from datetime import UTC, datetime, timedelta

import pytest

from nodeupgrade.api.reasons import Reason
from nodeupgrade.api.task.object import Task
from nodeupgrade.api.task.spec import ArtifactKind, TaskAction, TaskArtifact, TaskSpec, UpgradeRef
from nodeupgrade.api.task.status import TaskPhase, TaskStatus
from nodeupgrade.api.upgrade.object import Upgrade
from nodeupgrade.api.upgrade.status import ConditionType, RolloutPhase, UpgradeStatus
from nodeupgrade.api.values import NodeName, RunId
from nodeupgrade.findings.finding import Finding
from nodeupgrade.fleet.decide import conditions
from nodeupgrade.fleet.decide.conditions import IMPEDED_AFTER, RolloutState
from nodeupgrade.fleet.snapshot import FleetSnapshot
from nodeupgrade.kubelethash import KubeletVersion

OBJECTION = Finding(reason=Reason.INVALID_SPEC, detail="the spec is wrong", remedy="")
IMPEDED = Finding(reason=Reason.AGENT_UNAVAILABLE, subject="node-0", detail="node node-0: refused", remedy="")


@pytest.mark.parametrize(
    ("stalled", "impeded_by", "reason"),
    [
        (True, (IMPEDED,), Reason.INVALID_SPEC),
        (False, (IMPEDED,), Reason.AGENT_UNAVAILABLE),
        (False, (), Reason.INVALID_SPEC),
    ],
    ids=["a person is needed", "something is in the way", "it progresses"],
)
def test_ready_says_what_matters_most(stalled: bool, impeded_by: tuple[Finding, ...], reason: Reason) -> None:
    state = RolloutState(phase=RolloutPhase.RUNNING, reason=OBJECTION.reason, message="as it stands", stalled=stalled)
    told = conditions.of_rejected(UpgradeStatus(), OBJECTION, state, impeded_by)
    assert told[ConditionType.READY].reason == reason
    others = [told[kind].reason for kind in (ConditionType.RECONCILING, ConditionType.STALLED, ConditionType.SUCCEEDED)]
    assert others == [OBJECTION.reason] * 3, "these tell how the rollout as a whole stands"


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
    upgrade = Upgrade(name="to-1-33", uid="u", resource_version="1", generation=1, spec=None)
    fleet = FleetSnapshot(upgrade=upgrade, server=KubeletVersion.parse("v1.33.13"), nodes={}, tasks={NODE: task})
    late = DEADLINE + IMPEDED_AFTER

    assert conditions.overdue(fleet, late) == ()
    [found] = conditions.overdue(fleet, late + timedelta(seconds=1))
    assert f"and still reports {told}" in found.detail
