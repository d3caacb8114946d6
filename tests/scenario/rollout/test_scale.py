"""A fleet of 5,000 nodes: the status stays small, and a pass does no more work per node than in a small fleet."""

import json
from cProfile import Profile
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from nodeupgrade.api.json import to_json
from nodeupgrade.api.reasons import Reason
from nodeupgrade.api.task.object import Task
from nodeupgrade.api.task.spec import RunVerdict, TaskAction
from nodeupgrade.api.upgrade.object import FINALIZER, parse_upgrade
from nodeupgrade.api.upgrade.status import UpgradeStatus
from nodeupgrade.api.values import NodeName, Verdict
from nodeupgrade.cluster.nodes import NodeView, view_node
from nodeupgrade.fleet.actions import Admit, Claim, WriteStatus
from nodeupgrade.fleet.decide import claims
from nodeupgrade.fleet.decide.claims import WRITES_AT_ONCE
from nodeupgrade.fleet.decide.planner import plan
from nodeupgrade.fleet.snapshot import FleetSnapshot
from nodeupgrade.kubelethash import KubeletVersion
from tests.doubles.kube_fleet import node_object
from tests.scenario.rollout.harness import check_status, upgrade_object

NODES = 5000
NOW = datetime(2026, 1, 1, tzinfo=UTC)
STATUS_LIMIT = 96 * 1024
FEW = 500


def long_name(number: int) -> NodeName:
    return NodeName(f"node-{number:04}-".ljust(253, "x"))


def node(number: int) -> NodeView:
    body = node_object(long_name(number), "v1.30.14")
    body["metadata"] |= {"uid": f"uid-{number}", "resourceVersion": "1"}
    return view_node(body)


def fleet(count: int = NODES) -> FleetSnapshot:
    waves = [{"name": f"wave-{n}".ljust(63, "w"), "size": "5%", "soak": "1h"} for n in range(20)]
    body = upgrade_object(
        "x" * 63, waves=waves, strategy={"maxConcurrent": 100, "maxUnavailable": "100%", "failureThreshold": "100%"}
    )
    body["metadata"] |= {"uid": "u" * 36, "resourceVersion": "1", "generation": 1, "finalizers": [FINALIZER]}
    nodes = {view.name: view for view in map(node, range(count))}
    upgrade = parse_upgrade(body)
    return FleetSnapshot(upgrade=upgrade, server=KubeletVersion.parse("v1.33.13"), nodes=nodes)


def after(snapshot: FleetSnapshot, now: datetime) -> tuple[FleetSnapshot, UpgradeStatus]:
    """Carry out what a plan decides about claims and status, as an API server would."""
    actions = plan(snapshot, now).actions
    made = {
        claim.node: Task(name=claim.node, uid=claim.node, resource_version="1", generation=1, spec=claim.spec)
        for claim in actions
        if isinstance(claim, Claim)
    }
    written = [action.status for action in actions if isinstance(action, WriteStatus)]
    status = written[0] if written else snapshot.upgrade.status
    upgrade = replace(snapshot.upgrade, status=status)
    return replace(snapshot, upgrade=upgrade, tasks={**snapshot.tasks, **made}), status


def failed(task: Task) -> Task:
    message = "ä" * 512
    verdict = RunVerdict(
        run_id=task.spec.run_id,
        outcome=Verdict.ROLLED_BACK,
        reason=Reason.KUBELET_DID_NOT_START,
        message=message,
        decided_at=NOW,
    )
    return replace(task, spec=replace(task.spec, action=TaskAction.RELEASE, verdict=verdict))


def succeeded(task: Task) -> Task:
    verdict = RunVerdict(
        run_id=task.spec.run_id, outcome=Verdict.SUCCEEDED, reason=Reason.SUCCEEDED, message="", decided_at=NOW
    )
    return replace(task, spec=replace(task.spec, action=TaskAction.RELEASE, verdict=verdict))


def planned(snapshot: FleetSnapshot) -> tuple[FleetSnapshot, UpgradeStatus]:
    """Pass after pass, until each node has a task."""
    with pytest.MonkeyPatch.context() as patched:
        for number in range(5):
            if number == 3:  # it would go on like that; for a test, once is enough
                assert len(snapshot.tasks) == min(2 * WRITES_AT_ONCE, len(snapshot.nodes))
                patched.setattr(claims, "WRITES_AT_ONCE", NODES)
            snapshot, status = after(snapshot, NOW + timedelta(seconds=number))
    assert len(snapshot.tasks) == len(snapshot.nodes)
    return snapshot, status


def first_wave_failed(snapshot: FleetSnapshot) -> FleetSnapshot:
    """All nodes but one of the first wave fail, each with the longest message that there can be.

    A wave in which every node fails is not followed by the next without an approval.
    """
    first, *others = (name for name, task in snapshot.tasks.items() if task.spec.wave.startswith("wave-0"))
    tasks = {name: failed(task) if name in others else task for name, task in snapshot.tasks.items()}
    tasks[first] = succeeded(tasks[first])
    return replace(snapshot, tasks=tasks, pods=dict.fromkeys(snapshot.nodes, ()))


def test_five_thousand_nodes() -> None:
    snapshot, status = planned(fleet())
    assert status.planned_at is not None

    snapshot = first_wave_failed(snapshot)
    actions = plan(snapshot, NOW + timedelta(hours=2)).actions
    assert sum(isinstance(action, Admit) for action in actions) == 100
    status = next(action.status for action in actions if isinstance(action, WriteStatus))
    assert len(status.in_flight) == 100
    assert len(status.failures) == 20
    size = len(json.dumps(to_json(status), ensure_ascii=False).encode())
    assert size <= STATUS_LIMIT, size
    check_status(replace(snapshot.upgrade, status=status))


def calls(snapshot: FleetSnapshot, now: datetime) -> int:
    """How many functions a pass calls: its work, however fast the machine is."""
    with Profile() as profile:
        plan(snapshot, now)
    return sum(entry.callcount for entry in profile.getstats())


def test_a_pass_over_ten_times_the_nodes_is_ten_times_the_work() -> None:
    few, many = fleet(FEW), fleet(NODES)
    assert calls(many, NOW) < 1.2 * NODES / FEW * calls(few, NOW)
    few, many = (first_wave_failed(planned(each)[0]) for each in (few, many))
    later = NOW + timedelta(hours=2)
    assert calls(many, later) < 1.2 * NODES / FEW * calls(few, later)
