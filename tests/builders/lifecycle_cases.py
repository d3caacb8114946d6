"""Provides Pods that a kubelet upgrade interrupts or loses, each with a control."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

from nodeupgrade.api.reasons import Reason
from nodeupgrade.api.run_settings import RejectedPod, VerifySettings
from nodeupgrade.kubelethash import KubeletVersion
from nodeupgrade.node.checks.facts import NodeFacts
from nodeupgrade.node.runtimes.inventory import ContainerInstance, ContainerState
from tests.builders import sound
from tests.builders.sound import SPEC, instance, inventory, kubelet, traffic

V = KubeletVersion.parse
NOW = datetime(2026, 11, 21, 12, 0, tzinfo=UTC)
REPLICAS = [{"kind": "ReplicaSet", "name": "web-1", "controller": True}]
HOOKED = {**SPEC, "lifecycle": {"postStart": {"exec": {"command": ["/warm-up"]}}}}
RESIZED = {**SPEC, "resizePolicy": [{"resourceName": "cpu", "restartPolicy": "RestartContainer"}]}
LENIENT = {**SPEC, "resizePolicy": [{"resourceName": "cpu", "restartPolicy": "NotRequired"}]}
INIT = [{"name": "first", "image": "i"}, {"name": "last", "image": "i"}]
DEBUGGER = {"name": "debugger", "image": "i"}
HELD = instance("1")
OWN_LABEL = {"nodeupgrade.dev/run": "r"}


def pod(
    state: dict[str, Any] | None = None,
    *,
    metadata: dict[str, Any] | None = None,
    status: dict[str, Any] | None = None,
    last: dict[str, Any] | None = None,
    container: str = HELD.id,
    **spec: Any,
) -> dict[str, Any]:
    shown = {
        "name": "nginx",
        "containerID": f"containerd://{container}",
        "state": {"running": {}} if state is None else state,
        "lastState": last or {},
    }
    owned = {"namespace": "default", "name": "web", "uid": "uid-web", "ownerReferences": REPLICAS}
    return {
        "metadata": {**owned, **(metadata or {})},
        "spec": {"containers": [SPEC], **spec},
        "status": {"phase": "Running", "containerStatuses": [shown], **(status or {})},
    }


def facts(
    body: dict[str, Any],
    *held: ContainerInstance,
    versions: tuple[str, str] = ("v1.33.1", "v1.34.2"),
    state: ContainerState = ContainerState.RUNNING,
) -> NodeFacts:
    current, target = map(V, versions)
    seen = traffic([body], current=current, target=target, settle=90 - VerifySettings().kubelet_down_budget.seconds)
    return sound.facts(
        inventory=inventory(replace(HELD, state=state), *held),
        kubelet=kubelet(current=current),
        target=target,
        traffic=seen,
        now=NOW,
    )


def rejecting(body: dict[str, Any], *rejected: RejectedPod) -> NodeFacts:
    seen = facts(body)
    return replace(seen, spec=replace(seen.spec, kubelet=replace(seen.spec.kubelet, also_rejects=rejected)))


def shown(*, ready: bool, restarts: int) -> dict[str, Any]:
    status = {"name": "nginx", "state": {"running": {}}, "restartCount": restarts}
    conditions = [{"type": "Ready", "status": str(ready)}]
    return pod(status={"containerStatuses": [status], "conditions": conditions})


def by_itself(versions: tuple[str, str] = ("v1.35.1", "v1.34.2"), of_pod: str = "Always", **own: Any) -> NodeFacts:
    """A node with a pod of whose containers one has a restart policy of its own."""
    once = {"name": "migrate", "image": "i", "restartPolicy": "Never", **own}
    return facts(pod(containers=[SPEC, once], restartPolicy=of_pod), versions=versions)


def initialising(exit_code: int) -> NodeFacts:
    statuses = [{"name": "wait", "state": {"terminated": {"exitCode": exit_code}}}]
    once = {"name": "wait", "image": "i", "restartPolicy": "Never"}
    return facts(
        pod(initContainers=[once], status={"initContainerStatuses": statuses}), versions=("v1.35.1", "v1.34.2")
    )


def with_sidecar(limit: str = "10Mi", versions: tuple[str, str] = ("v1.36.3", "v1.37.2"), **fields: Any) -> NodeFacts:
    """A node with a pod whose sidecar may use only so much ephemeral storage."""
    limits = {"resources": {"limits": {"ephemeral-storage": limit}}}
    statuses = [{"name": "logs", "state": fields.pop("state", {"running": {}})}]
    sidecar = {"name": "logs", "image": "i", "restartPolicy": "Always", **limits, **fields.pop("sidecar", {})}
    return facts(pod(initContainers=[sidecar], status={"initContainerStatuses": statuses}, **fields), versions=versions)


def resizing(container: dict[str, Any], reason: str = "Deferred", kind: str = "PodResizePending") -> dict[str, Any]:
    condition = {"type": kind, "status": "True", "reason": reason}
    return pod(containers=[container], status={"conditions": [condition]})


def ended(minutes: float) -> dict[str, Any]:
    return {"terminated": {"exitCode": 1, "finishedAt": (NOW - timedelta(minutes=minutes)).isoformat()}}


def began(seconds: float) -> dict[str, Any]:
    return {"startTime": (NOW - timedelta(seconds=seconds)).isoformat().replace("+00:00", "Z")}


OLD = ("v1.19.16", "v1.20.15")
LAST = replace(HELD, name="last", state=ContainerState.EXITED)
FIRST = replace(HELD, name="first", state=ContainerState.EXITED)

RULES: dict[str, Any] = {"restartPolicy": "Always", "restartPolicyRules": [{"action": "Restart"}]}

OBJECTIONS: dict[str, tuple[Reason, NodeFacts, str, NodeFacts]] = {
    "a restart policy that a kubelet does not know": (
        Reason.RESTART_POLICY_IGNORED,
        by_itself(),
        "migrate has a restart policy of its own, which kubelet v1.34.2 ignores",
        by_itself(restartPolicy="Always"),
    ),
    "a restart policy, and a kubelet that knows it": (
        Reason.RESTART_POLICY_IGNORED,
        by_itself(("v1.35.1", "v1.33.1"), "Never", restartPolicy="Always"),
        "it goes by that of the pod (Never)",
        by_itself(("v1.36.1", "v1.35.1")),
    ),
    "rules for the exit of a container": (
        Reason.RESTART_POLICY_IGNORED,
        by_itself(**RULES),
        "migrate",
        by_itself(("v1.34.2", "v1.33.1"), **RULES),
    ),
    "a restart policy of an init container": (
        Reason.RESTART_POLICY_IGNORED,
        initialising(1),
        "wait",
        initialising(0),
    ),
    "a pod that restarts as a whole": (
        Reason.POD_MAY_RESTART_AS_A_WHOLE,
        facts(pod(containers=[{**SPEC, "restartPolicyRules": [{"action": "RestartAllContainers"}]}])),
        "restartPolicyRules of nginx restart all of its containers",
        facts(pod(containers=[{**SPEC, "restartPolicyRules": [{"action": "Restart"}]}])),
    ),
    "a hook": (
        Reason.POD_IN_TRANSITION,
        facts(pod({"waiting": {"reason": "ContainerCreating"}}, containers=[HOOKED])),
        "its postStart hook has not finished",
        facts(pod(containers=[HOOKED])),
    ),
    "a container that is late to be shown": (
        Reason.POD_IN_TRANSITION,
        facts(pod({"waiting": {}}, containers=[HOOKED])),
        "postStart",
        facts(pod({"waiting": {"reason": "ContainerCreating"}})),
    ),
    "a hook of a container that was restarted": (
        Reason.POD_IN_TRANSITION,
        facts(pod({"terminated": {"exitCode": 0}}, containers=[HOOKED])),
        "its postStart hook has not finished",
        facts(pod({"terminated": {"exitCode": 0}}, containers=[HOOKED]), state=ContainerState.EXITED),
    ),
    "a hook of a container that is not shown yet": (
        Reason.POD_IN_TRANSITION,
        facts(pod(containers=[HOOKED], container="id-of-the-instance-before")),
        "its postStart hook has not finished",
        facts(pod(container="id-of-the-instance-before")),
    ),
    "a pending resize": (
        Reason.RESIZE_POLICY_RESTART,
        facts(resizing(RESIZED)),
        "its resize is not finished (PodResizePending), which restarts nginx",
        facts(resizing(LENIENT)),
    ),
    "a resize in progress": (
        Reason.RESIZE_POLICY_RESTART,
        facts(resizing(RESIZED, kind="PodResizeInProgress")),
        "PodResizeInProgress",
        facts(resizing(RESIZED, "Infeasible")),
    ),
    "an init container that was collected": (
        Reason.KUBELET_DEFECT,
        facts(pod(initContainers=INIT), FIRST, versions=OLD),
        "the runtime no longer holds its init container last",
        facts(pod(initContainers=INIT), LAST, versions=OLD),
    ),
    "an init container, and a kubelet that remembers": (
        Reason.KUBELET_DEFECT,
        facts(pod(initContainers=INIT), versions=("v1.21.1", "v1.20.15")),
        "choose 1.21 or later",
        facts(pod(initContainers=INIT), versions=("v1.20.15", "v1.21.1")),
    ),
}

CAUTIONS: dict[str, tuple[Reason, NodeFacts, str, NodeFacts]] = {
    "a crash loop": (
        Reason.POD_EXPECTED_TO_END,
        facts(pod({"waiting": {"reason": "CrashLoopBackOff"}})),
        "1 container ended within the last 10 minutes",
        facts(pod({"waiting": {"reason": "ImagePullBackOff"}})),
    ),
    "a container that crashed": (
        Reason.POD_EXPECTED_TO_END,
        facts(pod(last=ended(9))),
        "default/web/nginx",
        facts(pod(last=ended(11))),
    ),
    "a container between its end and the back-off": (
        Reason.POD_EXPECTED_TO_END,
        facts(pod(ended(1))),
        "default/web/nginx",
        facts(pod({"terminated": {**ended(1)["terminated"], "exitCode": 0}})),
    ),
    "a crash loop in a pod that does not restart by itself": (
        Reason.POD_EXPECTED_TO_END,
        facts(
            pod(last=ended(9), containers=[{**SPEC, "restartPolicy": "Always"}], restartPolicy="Never"),
            versions=("v1.35.1", "v1.36.1"),
        ),
        "default/web/nginx",
        facts(pod(last=ended(9), containers=[{**SPEC, "restartPolicy": "Never"}]), versions=("v1.35.1", "v1.36.1")),
    ),
    "a deadline": (
        Reason.POD_EXPECTED_TO_END,
        facts(pod(activeDeadlineSeconds=600, status=began(510))),
        "activeDeadlineSeconds ends 1 pod within 90 s",
        facts(pod(activeDeadlineSeconds=600, status=began(509))),
    ),
    "a sidecar's limit of storage": (
        Reason.POD_EXPECTED_TO_END,
        with_sidecar(),
        "(kubernetes #138462); 1 sidecar with such a limit: default/web/logs (10Mi)",
        with_sidecar("0"),
    ),
    "a sidecar's limit of storage, several minors on": (
        Reason.POD_EXPECTED_TO_END,
        with_sidecar(versions=("v1.34.4", "v1.37.2")),
        "kubelet v1.37.2 is the first to evict a pod for a sidecar",
        with_sidecar(versions=("v1.37.2", "v1.36.3")),
    ),
    "a bare pod": (
        Reason.POD_WITHOUT_CONTROLLER,
        facts(pod(metadata={"ownerReferences": []})),
        "1 pod without a controller would be gone for good",
        facts(pod(metadata={"ownerReferences": [], "annotations": {"kubernetes.io/config.mirror": "aa"}})),
    ),
    "a pod whose owner does not control it": (
        Reason.POD_WITHOUT_CONTROLLER,
        facts(pod(metadata={"ownerReferences": [{"kind": "Job", "name": "web"}]})),
        "default/web",
        facts(pod(restartPolicy="Never")),
    ),
    "a pod of our own": (
        Reason.POD_WITHOUT_CONTROLLER,
        facts(pod(metadata={"ownerReferences": None, "labels": OWN_LABEL})),
        "default/web",
        facts(pod(metadata={"ownerReferences": None, "labels": OWN_LABEL, "namespace": "nodeupgrade-system"})),
    ),
    "somebody who debugs": (
        Reason.DEBUG_SESSION_WOULD_END,
        facts(
            pod(
                ephemeralContainers=[DEBUGGER],
                status={"ephemeralContainerStatuses": [{"name": "debugger", "state": {"running": {}}}]},
            )
        ),
        "1 ephemeral container running: default/web/debugger",
        facts(
            pod(
                ephemeralContainers=[DEBUGGER],
                status={"ephemeralContainerStatuses": [{"name": "debugger", "state": {"terminated": {}}}]},
            )
        ),
    ),
}


OBJECTIONS |= {
    f"a pod that a vendor's kubelet rejects: {rejected}": (
        Reason.POD_WOULD_NOT_BE_ADMITTED,
        rejecting(shown(ready=ready, restarts=restarts), rejected),
        f"it is {rejected}, and kubelet.alsoRejects says",
        rejecting(shown(ready=well, restarts=never), rejected),
    )
    for rejected, ready, restarts, well, never in (
        (RejectedPod.NOT_READY, False, 0, True, 1),
        (RejectedPod.RESTARTED, True, 1, False, 0),
        (RejectedPod.RESTARTED_AND_NOT_READY, False, 2, True, 2),
    )
}
