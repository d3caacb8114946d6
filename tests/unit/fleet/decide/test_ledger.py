"""What the ledger says of a rollout's tasks; the stories tell the rest."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from nodeupgrade.api.task.object import Task
from nodeupgrade.api.task.spec import ArtifactKind, TaskAction, TaskArtifact, TaskSpec, UpgradeRef
from nodeupgrade.api.task.status import TaskPhase, TaskStatus
from nodeupgrade.api.upgrade.object import parse_upgrade
from nodeupgrade.api.values import NodeName, RunId
from nodeupgrade.cluster.nodes import view_node
from nodeupgrade.fleet.decide.ledger import IMPEDED_AFTER, ledger_of, overdue
from nodeupgrade.fleet.snapshot import FleetSnapshot
from nodeupgrade.kubelethash import KubeletVersion
from tests.doubles.kube_fleet import node_object
from tests.scenario.rollout.harness import upgrade_object

DEADLINE = datetime(2026, 1, 1, tzinfo=UTC)


def task_of(name: str, action: TaskAction, node_uid: str = "", upgrade_uid: str = "u") -> Task:
    spec = TaskSpec(
        node_name=NodeName(name),
        node_uid=node_uid or name,
        upgrade_ref=UpgradeRef(name="to-1-33", uid=upgrade_uid),
        run_id=RunId("run"),
        from_version="v1.30.14",
        to_version="v1.33.13",
        artifact=TaskArtifact(kind=ArtifactKind.PRE_STAGED),
        action=action,
        deadline=DEADLINE,
    )
    return Task(name=NodeName(name), uid="t", resource_version="1", generation=1, spec=spec, status=TaskStatus())


def snapshot(*tasks: Task, nodes: str, unreadable: str = "") -> FleetSnapshot:
    bodies = {NodeName(name): node_object(name, "v1.30.14") for name in nodes}
    for name, body in bodies.items():
        body["metadata"] |= {"uid": name, "resourceVersion": "1"}
    upgrade = upgrade_object()
    upgrade["metadata"] |= {"uid": "u", "resourceVersion": "1"}
    return FleetSnapshot(
        upgrade=parse_upgrade(upgrade),
        server=KubeletVersion.parse("v1.33.13"),
        nodes={name: view_node(body) for name, body in bodies.items()},
        tasks={task.name: task for task in tasks},
        unreadable={NodeName(name): "it is damaged" for name in unreadable},
    )


def names(tasks: tuple[Task, ...]) -> str:
    return "".join(task.name for task in tasks)


def test_where_tasks_stand() -> None:
    claims = [task_of(name, TaskAction.WAIT) for name in "dcb"]
    others = [
        task_of("a", TaskAction.UPGRADE),
        task_of("e", TaskAction.WAIT, node_uid="an earlier e"),
        task_of("f", TaskAction.RELEASE),
        task_of("g", TaskAction.WAIT, upgrade_uid="another rollout"),
        task_of("h", TaskAction.UPGRADE),
    ]
    ledger = ledger_of(snapshot(*claims, *others, nodes="abefg", unreadable="d"), DEADLINE)

    assert names(ledger.tasks) == "dcbaefh", "all of the rollout, and no other's"
    assert names(ledger.lost_tasks) == "ceh", "their Nodes are gone or replaced; of d it is not known"
    assert names(ledger.idle_claims) == "bcd", "not one for an earlier Node, nor one given back, nor a run"
    assert names(ledger.flying_tasks) == "ah"


def test_slots_say_since_when_their_nodes_are_missing() -> None:
    touched = task_of("h", TaskAction.UPGRADE)
    begun = replace(touched, spec=replace(touched.spec, resumes=True))
    ledger = ledger_of(snapshot(task_of("a", TaskAction.UPGRADE), begun, nodes="a"), DEADLINE)

    assert {slot.node: slot.missing_since for slot in ledger.slots.values()} == {"a": None, "h": DEADLINE}
    assert ledger.impeded_by == ()
    later = DEADLINE + IMPEDED_AFTER + timedelta(seconds=1)
    assert [each.subject for each in ledger_of(snapshot(begun, nodes="a"), later).impeded_by] == ["h"]


@pytest.mark.parametrize(("reports_on", "told"), [("run", "Running"), ("an earlier run", "nothing")])
def test_of_a_node_that_is_overdue_it_tells_what_it_reports_on_this_run(reports_on: str, told: str) -> None:
    status = TaskStatus(run_id=RunId(reports_on), phase=TaskPhase.RUNNING)
    task = replace(task_of("node-0", TaskAction.UPGRADE), status=status)
    late = DEADLINE + IMPEDED_AFTER

    assert overdue([task], late) == ()
    [found] = overdue([task], late + timedelta(seconds=1))
    assert f"and still reports {told}" in found.detail
