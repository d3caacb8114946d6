"""What evidence says of static pods that were replaced on request."""

from dataclasses import replace
from datetime import UTC, datetime

from nodeupgrade.api.task.status import ContainerCounts, TaskPhase, TaskStatus
from nodeupgrade.api.upgrade.status import Condition, ConditionStatus
from nodeupgrade.api.values import NodeName, RunId
from nodeupgrade.cli.screens import evidence
from nodeupgrade.cli.screens.formatting import is_bad
from tests.scenario.agent.given import upgrade_task

COUNTS = ContainerCounts(baseline=3, unchanged=2, recreated=1, recreated_list=("kube-system/etcd-a/etcd",))
TASK = replace(
    upgrade_task(NodeName("a"), RunId("run"), "v1.30.14", "v1.33.13", source="/opt/kubelet"),
    status=TaskStatus(run_id="run", phase=TaskPhase.SUCCEEDED, containers=COUNTS),
)


def test_they_are_named_beside_what_was_restarted() -> None:
    said = dict(evidence._containers(TASK))

    assert str(said["Restarted"]) == "none"
    assert said["Replaced"] == "1 container of static pods, on request: kube-system/etcd-a/etcd"


def test_without_any_nothing_is_said() -> None:
    none = ContainerCounts(baseline=3, unchanged=3)
    task = replace(TASK, status=replace(TASK.reported, containers=none))

    assert "Replaced" not in dict(evidence._containers(task))


def test_the_condition_is_no_alarm() -> None:
    told = Condition(
        type="ZeroRestart",
        status=ConditionStatus.FALSE,
        reason="StaticPodsRecreated",
        message="1 container of static pods replaced",
        last_transition_time=datetime(2026, 1, 1, tzinfo=UTC),
    )

    assert not is_bad(told)
    assert is_bad(replace(told, reason="RestartsDetected"))
