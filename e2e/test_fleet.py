"""Rollouts over three real nodes: waves, approval, failures, user actions and crashes, without any restart.

The tests share the nodes and alternate between two versions; the control, which restarts everything on one node, comes
last. Failures and what people do meanwhile are run by hand (``-m slow``): tests/contract/kube tells these stories on a
real API server.
"""

import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from e2e.cluster import conditions, quickly
from e2e.conftest import MakeLab
from e2e.fleet import Fleet, kill_new_kubelet
from e2e.lab.cluster import deploy
from e2e.lab.nodes.nodeimages import BUSYBOX
from e2e.naive import survivors

pytestmark = pytest.mark.long

OLD, NEW = "1.30.14", "1.33.13"
PODS = 4
GOLDEN = Path(__file__).parent / "golden"


@pytest.fixture(scope="module")
def fleet(make_lab: MakeLab) -> Fleet:
    return Fleet.with_operator(make_lab("e2e-fleet", OLD, nodes=3), pods=PODS)


@contextmanager
def nothing_restarts(fleet: Fleet, *, but: str = "") -> Iterator[None]:
    """Assert that every container and sandbox of every node is the same instance after the body."""
    before = fleet.settled()
    yield
    assert fleet.disturbed(before, but=but) == []


def hooks(fleet: Fleet) -> list[dict[str, object]]:
    """Create the templates of two hooks, and return what a NodeUpgrade says of them."""
    script = 'test -n "$NODEUPGRADE_NODE" && echo "$NODEUPGRADE_HOOK: $NODEUPGRADE_NODE $NODEUPGRADE_RESULT"'
    container = {"name": "flag", "image": BUSYBOX, "imagePullPolicy": "Never", "command": ["sh", "-c", script]}
    pod = {"restartPolicy": "Never", "tolerations": [{"operator": "Exists"}], "containers": [container]}
    for name in deploy.HOOKS:
        fleet.lab.apply(
            {
                "apiVersion": "batch/v1",
                "kind": "CronJob",
                "metadata": {"name": name, "namespace": deploy.NAMESPACE},
                "spec": {
                    "suspend": True,
                    "schedule": "0 0 1 1 *",
                    "jobTemplate": {"spec": {"backoffLimit": 0, "template": {"spec": pod}}},
                },
            }
        )
    return [{"template": name, "timeout": "5m"} for name in deploy.HOOKS]


def order(fleet: Fleet) -> list[str]:
    """Return the nodes in the order of their upgrade: by name, the operator's own last."""
    own = fleet.operator_node()
    return sorted(fleet.nodes, key=lambda name: (name == own, name))


def test_canary_then_approval_then_the_rest_although_the_operator_dies(fleet: Fleet) -> None:
    with nothing_restarts(fleet, but="nodeupgrade-operator"):
        first, *_ = order(fleet)
        set_flag, unset_flag = hooks(fleet)
        waves = [{"name": "canary", "size": 1, "soak": "5s"}, {"name": "rest", "size": "100%", "approval": "Manual"}]
        fleet.apply(
            "canary",
            NEW,
            waves=waves,
            strategy={"maxConcurrent": 1},
            hooks={"before": [set_flag], "after": [unset_flag]},
        )
        waiting = fleet.wait_condition("canary", "Reconciling", "True", "AwaitingApproval")
        assert fleet.versions() == {name: NEW if name == first else OLD for name in fleet.nodes}
        assert [w["state"] for w in waiting["status"]["waves"]] == ["Completed", "AwaitingApproval"]
        assert waiting["status"].get("inFlight", []) == []
        golden("kubectl-get-awaiting-approval", shown(fleet))

        fleet.annotate("canary", "approve", "rest")
        fleet.wait_in_flight("canary")
        fleet.kill_operator()
        waited = fleet.lab.kubectl_wait("wait", "nodeupgrade/canary", "--for=condition=Succeeded", timeout=600)

    assert "condition met" in waited.stdout
    upgrade = fleet.get("canary")
    assert set(fleet.versions().values()) == {NEW}
    assert fleet.cordoned() == set()
    assert upgrade["status"]["progress"] == "3/3"
    assert upgrade["status"]["containers"]["restarted"] == 0
    assert [w["state"] for w in upgrade["status"]["waves"]] == ["Completed", "Completed"]
    assert upgrade["status"]["waves"][1]["approvedBy"].startswith("kubectl")
    golden("kubectl-get-succeeded", shown(fleet))
    ran = {
        node: [(hook["phase"], hook["result"]) for hook in fleet.task(node)["spec"]["hooks"]] for node in fleet.nodes
    }
    assert set(map(tuple, ran.values())) == {(("Before", "Succeeded"), ("After", "Succeeded"))}


@pytest.mark.slow
def test_a_failing_node_stops_the_rollout_until_retry_and_a_foreign_cordon_is_respected(fleet: Fleet) -> None:
    failing, foreign, last = order(fleet)
    fleet.lab.kubectl("cordon", foreign)
    with nothing_restarts(fleet):
        fleet.apply("failing", OLD, allowDowngrade=True, strategy={"maxUnavailable": 2}, verify=quickly())
        kill_new_kubelet(fleet.nodes[failing], OLD)
        stalled = fleet.wait_condition("failing", "Stalled", "True", "FailureThresholdReached")
        assert fleet.versions() == dict.fromkeys(fleet.nodes, NEW)
        assert [f["node"] for f in stalled["status"]["failures"]] == [failing]
        assert fleet.task(failing)["status"]["phase"] == "RolledBack"
        assert conditions(stalled)["ZeroRestart"]["status"] == "True"
        assert fleet.cordoned() == {foreign}

        fleet.annotate("failing", "retry", "cause-is-gone")
        done = fleet.wait_condition("failing", "Succeeded", "True", "CompletedWithSkips")

    assert fleet.versions() == {failing: OLD, foreign: NEW, last: OLD}
    assert done["status"]["skips"] == {"CordonedByOthers": 1}
    assert done["status"]["lastHandledRetry"] == "cause-is-gone"
    assert fleet.cordoned() == {foreign}
    fleet.lab.kubectl("uncordon", foreign)


@pytest.mark.slow
def test_deletion_in_mid_flight_finishes_that_node_and_touches_no_other(fleet: Fleet) -> None:
    behind = {name for name, version in fleet.versions().items() if version == OLD}
    with nothing_restarts(fleet):
        fleet.apply("deleted", NEW, verify=quickly())
        flying = fleet.wait_in_flight("deleted")
        fleet.lab.kubectl_wait("delete", "nodeupgrade", "deleted", "--wait=true", timeout=300)

    assert {name for name, version in fleet.versions().items() if version == OLD} == behind - {flying}
    assert fleet.cordoned() == set()
    pods = fleet.lab.api.list("pods", namespace="nodeupgrade-system")
    assert [p["metadata"]["name"] for p in pods if "agent" in p["metadata"]["name"]] == []


@pytest.mark.slow
def test_the_pause_annotation_wins_over_git_and_a_second_upgrade_queues(fleet: Fleet) -> None:
    with nothing_restarts(fleet):
        fleet.apply("paused", OLD, allowDowngrade=True, verify=quickly())
        flying = fleet.wait_in_flight("paused")
        fleet.annotate("paused", "pause", "true")
        paused = fleet.wait_condition("paused", "Reconciling", "True", "Paused")
        fleet.wait("paused", "nothing in flight", lambda upgrade: not upgrade["status"].get("inFlight"))
        assert paused["spec"]["action"] == "Run"
        assert fleet.versions()[flying] == OLD

        fleet.apply("second", NEW, nodes={"names": [flying]})
        queued = fleet.wait_condition("second", "Reconciling", "True", "Queued")
        assert "paused" in conditions(queued)["Reconciling"]["message"]
        fleet.lab.kubectl_wait("delete", "nodeupgrade", "second", "--wait=true", timeout=60)
        assert NEW in fleet.versions().values()

        fleet.annotate("paused", "pause", None)
        fleet.wait_condition("paused", "Succeeded", "True")

    assert set(fleet.versions().values()) == {OLD}
    assert fleet.cordoned() == set()


def test_control_a_naive_swap_restarts_everything(fleet: Fleet) -> None:
    first, *_ = order(fleet)
    assert survivors(fleet.nodes[first], OLD if fleet.versions()[first] == NEW else NEW) == set()


def shown(fleet: Fleet) -> str:
    """Return `kubectl get nu,nut -o wide` without what differs between runs."""
    blocks = fleet.lab.kubectl("get", "nodeupgrades,nodeupgradetasks", "-o", "wide").stdout.strip().split("\n\n")
    rollouts, tasks = (table(block.splitlines()) for block in blocks)
    # The operator may be on any node, which then is the last: name nodes by their position.
    turn = tasks[0].index("ORDER")
    tasks[1:] = sorted(tasks[1:], key=lambda row: int(row[turn]))
    for number, row in enumerate(tasks[1:], 1):
        row[0] = re.sub(r"node\d+$", f"node{number}", row[0])
        row[-1] = re.sub(r"(?<=-)node\d+", "node…", row[-1])
        # On a busy machine, the operator that was killed may not be back yet when its own node is planned.
        row[:] = [re.sub(r"; ended before[^;,]*/operator(?=,|;|$)", "", cell) for cell in row]
    return f"{steady(rollouts)}\n\n{steady(tasks)}\n"


def table(lines: list[str]) -> list[list[str]]:
    """Return the cells of a table that kubectl printed."""
    starts = [found.start() for found in re.finditer(r"\S+(?: \S+)*", lines[0])]
    spans = [slice(*span) for span in zip(starts, [*starts[1:], None], strict=True)]
    return [[line[span].strip() for span in spans] for line in lines]


def steady(rows: list[list[str]]) -> str:
    """Format a table, without ages, seconds, run identifiers and numbers of containers."""
    whole = re.compile(r"(?:\d+[smhd])+|\d+\.\d+|[0-9a-f]{8}-\d{14}")
    told = [["…" if whole.fullmatch(c) else re.sub(r"\d+ (?=containers|hashes)", "… ", c) for c in r] for r in rows]
    widths = [max(map(len, column)) for column in zip(*told, strict=True)]
    return "\n".join("   ".join(map(str.ljust, row, widths)).rstrip() for row in told)


def golden(name: str, text: str) -> None:
    """Compare with what the documentation shows; ``UPDATE_GOLDEN=1`` rewrites it."""
    file = GOLDEN / f"{name}.txt"
    if os.environ.get("UPDATE_GOLDEN"):
        file.parent.mkdir(exist_ok=True)
        file.write_text(text)
    assert text == file.read_text()
