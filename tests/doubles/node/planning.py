"""Plan a run for a simulated node with the product's own inspection and planning, as the agent does."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import timedelta
from pathlib import PurePosixPath
from typing import Any

from nodeupgrade.api.json import Json
from nodeupgrade.api.run_settings import (
    KubeletSettings,
    PackagePolicy,
    PreflightSettings,
    RejectedPod,
    StaticPodPolicy,
    VerifySettings,
)
from nodeupgrade.api.task.spec import ArtifactKind, TaskArtifact, TaskSpec, UpgradeRef
from nodeupgrade.api.values import ContainerId, NodeName, PodRef, RunId
from nodeupgrade.cluster.pods import Pod, parse_pod
from nodeupgrade.errors import Refused
from nodeupgrade.node.checks.traffic import Clients
from nodeupgrade.node.examination.arrivals import plan_arrivals
from nodeupgrade.node.examination.planning import Examination, examine
from nodeupgrade.node.facts import gather
from nodeupgrade.node.facts.next_start import with_files
from nodeupgrade.node.facts.static_pod_manifests import read_manifests
from nodeupgrade.node.host.packages.dpkg_database import Package
from nodeupgrade.node.names_beside import staged_path
from nodeupgrade.node.plan.amendment import Arrivals, PlannedArrivals
from nodeupgrade.node.plan.exchanged_files import NewFile
from nodeupgrade.node.plan.plan import Limits, RunPlan
from nodeupgrade.node.plan.request import Replacement, RunRequest
from tests.doubles.node.containers.pods import MANIFESTS
from tests.doubles.node.kubelet import program
from tests.doubles.node.services import KUBELET_UNIT
from tests.doubles.node.simulated import SimulatedNode

STAGED = "/usr/bin/.kubelet.staged"
BACKUP = "/usr/bin/.kubelet.before"

DEVICE = "example.com/device"
_ROOM = {"cpu": "8", "memory": "16Gi", "ephemeral-storage": "100Gi", "pods": "110", DEVICE: "2"}


def plan_for(node: SimulatedNode, version: str, **how: Any) -> RunPlan:
    """Return the plan of an examination; see there."""
    plan = examination_of(node, version, **how).plan
    assert plan is not None
    node.shield.plan = plan
    return plan


def agent_for(node: SimulatedNode, examination: Examination) -> Callable[[Arrivals], PlannedArrivals]:
    """Return an agent that plans at once what came since an examination."""

    def answer(asked: Arrivals) -> PlannedArrivals:
        manifests = read_manifests(node.files, examination.layout)
        pods = _with_ids(node)
        facts = gather.since_examined(node.ports, examination.facts, asked.inventory, pods)
        return plan_arrivals(replace(examination, facts=facts), pods, manifests, asked)

    return answer


def _with_ids(node: SimulatedNode) -> list[Pod]:
    """Return the pods as the API server shows them: where a test says that a container runs, it is what runs now."""
    ids = {(c.pod, c.name): c.id for c in node.inventory().running()}
    return [_with_id(pod, ids) if any(i == "" for _, i in pod.running) else pod for pod in node.kubelet.pods]


def _with_id(pod: Pod, ids: Mapping[tuple[PodRef, str], ContainerId]) -> Pod:
    shown = [
        {"containerID": f"containerd://{ids.get((pod.ref, status['name']), '')}", **status}
        for status in pod.status["containerStatuses"]
    ]
    return parse_pod({**pod.raw, "status": {**pod.status, "containerStatuses": shown}})


def examination_of(
    node: SimulatedNode,
    version: str,
    *,
    run: str = "run-1",
    limits: Limits | None = None,
    files: tuple[NewFile, ...] = (),
    package: Package | None = None,
    static_pods: StaticPodPolicy = StaticPodPolicy.PIN,
    also_accepted: tuple[str, ...] = (),
    accept: tuple[str, ...] = (),
    also_rejects: tuple[RejectedPod, ...] = (),
) -> Examination:
    """Stage program and files, and plan the node's upgrade to ``version``; hold a package that it belongs to.

    Raises:
        Refused: a check forbids it, for example because a hash could not be proven.
    """
    node.disk[STAGED] = program(version)
    limits = limits or Limits()
    running = gather.running_kubelet(node.services, node.kubelet, KUBELET_UNIT)
    layout = gather.kubelet_layout(node.files, running)
    # Whatever its configuration, a simulated kubelet has one manifest directory.
    layout = replace(layout, manifests=MANIFESTS)
    staged = PurePosixPath(STAGED)
    spec = _spec(node, RunId(run), version, limits, static_pods)
    request = RunRequest(
        spec=replace(
            spec,
            kubelet=replace(spec.kubelet, also_rejects=also_rejects),
            hash_also_accepted=also_accepted,
            preflight=PreflightSettings(accept=accept),
        ),
        run_id=RunId(run),
        namespace="nodeupgrade-system",
        replacement=Replacement(program=staged, digest=node.files.digest(staged)),
        staged=STAGED,
        backup=BACKUP,
        files=files,
    )
    then = with_files(node.files, running.words, files)
    for file in files:
        node.disk[staged_path(file.path)] = file.content
    pods = [dict(pod.raw) for pod in _with_ids(node)]
    shown, clients, manifests = _shown(node.name), Clients(), read_manifests(node.files, layout)
    facts = gather.gather(
        node.ports, running, request, node_object=shown, pods=pods, clients=clients, manifests=manifests, then=then
    )
    facts = replace(facts, readiness=replace(facts.readiness, cgroup_v2=True))  # which its disk does not say
    around = replace(facts.around, package=package, dpkg=node.packages.state() if package else None)
    facts = replace(facts, around=around)
    found = examine(request, facts, layout, manifests)
    if found.plan is None:
        raise Refused(found.findings[0].reason, "; ".join(str(finding) for finding in found.findings))
    return replace(found, plan=replace(found.plan, limits=limits))


def _spec(node: SimulatedNode, run: RunId, version: str, limits: Limits, static_pods: StaticPodPolicy) -> TaskSpec:
    return TaskSpec(
        node_name=NodeName(node.name),
        node_uid="node-uid",
        upgrade_ref=UpgradeRef(name="upgrade", uid="upgrade-uid"),
        run_id=run,
        from_version="",
        to_version=version,
        artifact=TaskArtifact(kind=ArtifactKind.PRE_STAGED, path=STAGED),
        allow_downgrade=True,
        kubelet=KubeletSettings(package=PackagePolicy.HOLD, static_pods=static_pods),
        verify=VerifySettings(settle=timedelta(seconds=limits.settle)),
    )


def _shown(name: str) -> Json:
    """Return the Node as the API server shows it, with room for every pod."""
    status = {"capacity": _ROOM, "allocatable": _ROOM, "nodeInfo": {"containerRuntimeVersion": "containerd://2.1.9"}}
    return {"metadata": {"name": name, "uid": "node-uid", "resourceVersion": "1", "labels": {}}, "status": status}
