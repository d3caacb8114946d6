"""Builds NodeUpgradeTasks."""

from datetime import UTC, datetime

from nodeupgrade.api.json import Json
from nodeupgrade.api.reasons import Reason
from nodeupgrade.api.task.spec import ArtifactKind, RunVerdict, TaskAction, TaskArtifact, TaskSpec, UpgradeRef
from nodeupgrade.api.values import NodeName, RunId, Verdict
from nodeupgrade.cluster.kube_api import TASKS


def task_object(name: str) -> Json:
    return {"apiVersion": TASKS.api_version, "kind": TASKS.kind, "metadata": {"name": name}}


def task_spec(name: str) -> TaskSpec:
    return TaskSpec(
        node_name=NodeName(name),
        node_uid="uid",
        upgrade_ref=UpgradeRef(name="up", uid="uid-of-up", generation=1),
        run_id=RunId("run-1"),
        action=TaskAction.UPGRADE,
        from_version="v1.30.14",
        to_version="v1.33.13",
        artifact=TaskArtifact(kind=ArtifactKind.PRE_STAGED, path="/opt/kubelet", sha256="a" * 64),
        deadline=datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC),
        verdict=RunVerdict(run_id=RunId("run-0"), outcome=Verdict.SUCCEEDED, reason=Reason.SUCCEEDED),
    )
