"""A plan that protects two pods: one that runs for ever, one that may complete."""

from functools import cache

from nodeupgrade.api.values import ContainerId, Digest, NodeName, PodRef, PodUid, RunId, SandboxId
from nodeupgrade.cluster.owner_changes import Planned, StaticSource
from nodeupgrade.node.host.processes.process import Process
from nodeupgrade.node.plan.plan import PLAN_SCHEMA, KubeletSwap, PlannedContainer, RunPlan, ShieldPlan, StopHook
from nodeupgrade.node.runtimes.inventory import (
    ContainerInstance,
    ContainerState,
    Inventory,
    SandboxInstance,
    StoredHashes,
)

WEB = PodRef(namespace="a", name="web", uid=PodUid("uid-web"))
JOB = PodRef(namespace="a", name="job", uid=PodUid("uid-job"))
AGENT = PodRef(namespace="a", name="agent", uid=PodUid("uid-agent"))
PODS = (WEB, JOB, AGENT)
MANIFEST = "/etc/kubernetes/manifests/web.yaml"
AS_FOUND, AS_PINNED, EDITED = Digest("0" * 64), Digest("1" * 64), Digest("2" * 64)
HOOK = ("sh", "-c", "leave")


def sandbox_of(pod: PodRef) -> SandboxId:
    return SandboxId(f"sandbox-{pod.name}")


def container_of(pod: PodRef) -> ContainerId:
    return ContainerId(f"container-{pod.name}")


def container(pod: PodRef, pid: int, state: ContainerState = ContainerState.RUNNING) -> ContainerInstance:
    return ContainerInstance(
        id=container_of(pod), name="c", sandbox_id=sandbox_of(pod), pod=pod, state=state, attempt=0, created_at=1,
        hashes=StoredHashes(container=None), process=Process(pid=pid, started=pid),
    )  # fmt: skip


def sandbox(pod: PodRef, pid: int) -> SandboxInstance:
    return SandboxInstance(
        id=sandbox_of(pod), pod=pod, ready=True, attempt=0, created_at=1, host_network=False,
        process=Process(pid=pid, started=pid),
    )  # fmt: skip


NO_HASHES = StoredHashes(container=None)


def planned(pod: PodRef) -> PlannedContainer:
    return PlannedContainer(
        id=container_of(pod), name="c", pod=pod, before=NO_HASHES, after=NO_HASHES, compared=True,
        may_complete=pod is JOB, expendable=pod is AGENT,
    )  # fmt: skip


@cache
def shielded_plan(*, socket: str = "/run/runtime.sock", static: bool = True) -> RunPlan:
    """The plan; the PIDs of containers are 10, 11, 12, those of sandboxes 20, 21, 22."""
    source = StaticSource(pod=WEB.uid, path=MANIFEST, digests=(AS_FOUND, AS_PINNED))
    hook = StopHook(container=container_of(WEB), command=HOOK)
    return RunPlan(
        schema=PLAN_SCHEMA, run_id=RunId("run-1"), node=NodeName("node-a"), upgrade="kubelet-1-33",
        from_version="v1.30.14", to_version="v1.33.13", runtime="containerd 1.7.2", runtime_unit="containerd.service",
        runtime_endpoint=socket, healthz_url="http://127.0.0.1:10248/healthz",
        swap=KubeletSwap(
            unit="kubelet.service", path="/usr/bin/kubelet", staged="/usr/bin/.new", backup="/usr/bin/.old",
            before=Digest("0" * 64), after=Digest("1" * 64),
        ),
        baseline=Inventory(
            containers=tuple(container(pod, 10 + number) for number, pod in enumerate(PODS)),
            sandboxes=tuple(sandbox(pod, 20 + number) for number, pod in enumerate(PODS)),
        ),
        containers=tuple(planned(pod) for pod in PODS),
        shield=ShieldPlan(socket=socket, hooks=(hook,)),
        owned=Planned(manifests=(source,) if static else ()),
    )  # fmt: skip
