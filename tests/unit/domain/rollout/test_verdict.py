"""What the control plane makes of a container that restarted, by when it ended."""

from datetime import UTC, datetime, timedelta

import pytest

from nodeupgrade.api.task.object import Task
from nodeupgrade.api.task.spec import ArtifactKind, RunVerdict, TaskAction, TaskArtifact, TaskSpec, UpgradeRef, Verdict
from nodeupgrade.api.task.status import StepResult, StepStatus, TaskPhase, TaskStatus
from nodeupgrade.api.values import NodeName, RunId
from nodeupgrade.domain.nodes import NodeView
from nodeupgrade.domain.pods import parse_pod
from nodeupgrade.domain.rollout.inflight import baseline
from nodeupgrade.domain.rollout.inflight.verdict import decide_verdict
from nodeupgrade.simulation.kube import merged
from nodeupgrade.simulation.kube_fleet import pod_object

STOPPED = datetime(2026, 1, 1, 12, tzinfo=UTC)
SETTLED = STOPPED + timedelta(seconds=20)
END = SETTLED + timedelta(minutes=1)
NODE = NodeView(
    name=NodeName("node-0"),
    uid="n",
    resource_version="1",
    labels={},
    taints=(),
    unschedulable=False,
    cordoned_by="",
    ready=True,
    kubelet_version="v1.33.13",
    runtime="containerd://2.1.9",
    platform="linux-amd64",
)
BEFORE = parse_pod(merged(pod_object("web", "node-0"), {"metadata": {"uid": "p", "resourceVersion": "1"}}))
TASK = Task(
    name=NODE.name,
    uid="t",
    resource_version="1",
    generation=1,
    spec=TaskSpec(
        node_name=NODE.name,
        node_uid=NODE.uid,
        upgrade_ref=UpgradeRef(name="to-1-33", uid="u"),
        run_id=RunId("run"),
        from_version="v1.30.14",
        to_version=NODE.kubelet_version,
        artifact=TaskArtifact(kind=ArtifactKind.PRE_STAGED),
        action=TaskAction.UPGRADE,
    ),
    status=TaskStatus(
        run_id="run",
        phase=TaskPhase.SUCCEEDED,
        steps=(
            StepStatus(name="stop-kubelet", result=StepResult.DONE, started_at=STOPPED, finished_at=STOPPED),
            StepStatus(name="verify", result=StepResult.DONE, started_at=STOPPED, finished_at=SETTLED),
        ),
        finished_at=END,
    ),
    baseline=baseline.render(baseline.capture([BEFORE])),
)


@pytest.mark.parametrize(
    ("ended", "outcome", "told"),
    [
        (SETTLED - timedelta(seconds=1), Verdict.FAILED, "1 of its containers restarted: default/web/main"),
        (
            SETTLED + timedelta(seconds=1),
            Verdict.SUCCEEDED,
            "restarted after the kubelet had settled: default/web/main",
        ),
    ],
    ids=["while the kubelet settled", "while its probes were waited for"],
)
def test_a_restart(ended: datetime, outcome: Verdict, told: str) -> None:
    [container] = BEFORE.raw["status"]["containerStatuses"]
    before = {"lastState": {"terminated": {"finishedAt": ended.isoformat()}}}
    again = {**container, "containerID": "containerd://bbbbbbbbbbbb", "restartCount": 1, **before}
    after = parse_pod({**BEFORE.raw, "status": {**BEFORE.raw["status"], "containerStatuses": [again]}})

    verdict = decide_verdict(NODE, TASK, (after,), END)

    assert isinstance(verdict, RunVerdict)
    assert verdict.outcome is outcome
    assert told in verdict.message
