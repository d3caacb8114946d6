"""What the API server shows of the node."""

import contextlib
import json
from collections.abc import Iterator
from contextlib import AbstractContextManager
from datetime import UTC, datetime, timedelta
from uuid import UUID

from e2e import pods
from e2e.cluster import Cluster, Object
from e2e.lab.binaries import components
from e2e.lab.cluster import deploy
from e2e.lab.process import wait_until
from e2e.preflight.row import SKIPPED, Hazard, Row
from nodeupgrade.api.node_annotations import SKIP_ANNOTATION

GUARD = "nodeupgrade-readiness-guard"
MANAGER = "kube-controller-manager"
PROGRAMS = ("kube-apiserver", MANAGER, "kube-scheduler")
LABEL = "nodeupgrade.test/pool"
TAINT = "nodeupgrade.test/leave"
PROBE = "nodeupgrade-test-probe"
USUAL = frozenset({"startup_probes_succeed_again", "pods_would_be_replaced", "settings_are_known"})
"""What warns about a node of the lab for its own version, for which it cannot be examined without a hazard."""
OPERATOR = f"system:serviceaccount:{deploy.NAMESPACE}:nodeupgrade-operator"


def posing(**info: str) -> Hazard:
    """Let the Node say other things of itself than its kubelet does."""

    @contextlib.contextmanager
    def make(cluster: Cluster) -> Iterator[Object]:
        with refusing(cluster, f"system:node:{cluster.node.name}", "", "nodes/status", ("UPDATE",)):
            before = cluster.node_object()["status"]["nodeInfo"]
            patch_status(cluster, {"nodeInfo": info})
            try:
                yield {}
            finally:
                patch_status(cluster, {"nodeInfo": {key: before[key] for key in info}})

    return make


@contextlib.contextmanager
def refusing(cluster: Cluster, user: str, group: str, resource: str, operations: tuple[str, ...]) -> Iterator[None]:
    """Let the API server refuse writes of one kind by one user, as a policy of the cluster's owner may."""
    name = "nodeupgrade-test"
    rules = [
        {"apiGroups": [group], "apiVersions": ["*"], "operations": list(operations), "resources": [resource]},
        {"apiGroups": [""], "apiVersions": ["*"], "operations": ["CREATE"], "resources": ["configmaps"]},
    ]
    common: Object = {"apiVersion": "admissionregistration.k8s.io/v1", "metadata": {"name": name}}
    expression = f"request.userInfo.username != '{user}' && request.name != '{PROBE}'"
    policy = {
        "failurePolicy": "Fail", "matchConstraints": {"resourceRules": rules},
        "validations": [{"expression": expression, "message": "not now"}],
    }  # fmt: skip
    bound = {"policyName": name, "validationActions": ["Deny"]}
    cluster.lab.apply(
        common | {"kind": "ValidatingAdmissionPolicy", "spec": policy},
        common | {"kind": "ValidatingAdmissionPolicyBinding", "spec": bound},
    )
    try:
        wait_until("the policy", lambda: _is_in_force(cluster) or None, timeout=60)
        yield
    finally:
        for each in ("validatingadmissionpolicybinding", "validatingadmissionpolicy"):
            cluster.lab.kubectl("delete", each, name, "--ignore-not-found")
        wait_until("the end of it", lambda: not _is_in_force(cluster) or None, timeout=60)


def _is_in_force(cluster: Cluster) -> bool:
    """Report whether the policy refuses what it refuses to everybody, so that this can be seen."""
    return cluster.lab.kubectl("create", "configmap", PROBE, "--dry-run=server", check=False).returncode != 0


def patch_status(cluster: Cluster, status: Object) -> None:
    """Change a part of the Node's status; conditions are merged by type."""
    patch = json.dumps({"status": status})
    how = ("--subresource=status", "--type=strategic", "-p", patch)
    cluster.lab.kubectl("patch", "node", cluster.node.name, *how)


@contextlib.contextmanager
def commanded(cluster: Cluster, *command: str, undo: tuple[str, ...]) -> Iterator[Object]:
    """Run a command of kubectl, and another one at the end."""
    cluster.lab.kubectl(*command)
    try:
        yield {}
    finally:
        cluster.lab.kubectl(*undo)


def cordoned(cluster: Cluster) -> AbstractContextManager[Object]:
    """Cordon the node."""
    return commanded(cluster, "cordon", cluster.node.name, undo=("uncordon", cluster.node.name))


def taint(cluster: Cluster, key: str, value: str) -> AbstractContextManager[Object]:
    """Taint the node; ``value`` is that of the taint, with its effect."""
    nodes = ("taint", "nodes", cluster.node.name)
    return commanded(cluster, *nodes, f"{key}={value}", undo=(*nodes, f"{key}-"))


@contextlib.contextmanager
def to_be_skipped(cluster: Cluster) -> Iterator[Object]:
    """Annotate the node to be left out."""
    cluster.lab.kubectl("annotate", "node", cluster.node.name, f"{SKIP_ANNOTATION}=true")
    try:
        yield {}
    finally:
        cluster.lab.kubectl("annotate", "node", cluster.node.name, f"{SKIP_ANNOTATION}-")


@contextlib.contextmanager
def cordon_left_behind(cluster: Cluster) -> Iterator[Object]:
    """Leave the node as a NodeUpgrade would that was deleted by force."""
    mark = "nodeupgrade.dev/cordoned-by"
    cluster.lab.kubectl("delete", "nodeupgradetasks", "--all", "--wait=true")
    node = ("annotate", "node", cluster.node.name)
    with cordoned(cluster), commanded(cluster, *node, f"{mark}={UUID(int=0)}", undo=(*node, f"{mark}-")) as more:
        yield more


@contextlib.contextmanager
def not_ready(cluster: Cluster) -> Iterator[Object]:
    """Stop the kubelet, and report the node as not ready, as it would be ten minutes later."""
    cluster.node.exec("systemctl", "stop", "kubelet")
    since = (datetime.now(UTC) - timedelta(minutes=10)).strftime("%Y-%m-%dT%H:%M:%SZ")
    condition = {"type": "Ready", "status": "Unknown", "reason": "Test", "lastTransitionTime": since}
    patch_status(cluster, {"conditions": [condition]})
    try:
        yield {}
    finally:
        cluster.node.exec("systemctl", "start", "kubelet")
        cluster.node.wait_kubelet_healthy()


@contextlib.contextmanager
def label_gone(cluster: Cluster) -> Iterator[Object]:
    """Take a label from the node that a pod was placed by."""
    label = ("label", "node", cluster.node.name)
    cluster.lab.kubectl(*label, f"{LABEL}=web")
    body = pods.pod(cluster, "placed", nodeSelector={LABEL: "web"})
    try:
        with pods.running(cluster, body):
            cluster.lab.kubectl(*label, f"{LABEL}-")
            yield {}
    finally:
        cluster.lab.kubectl(*label, f"{LABEL}-")


@contextlib.contextmanager
def without_controllers(cluster: Cluster) -> Iterator[None]:
    """Let no controller see what is done to the node."""
    lab = cluster.lab
    lab.control_plane.stop(MANAGER)
    try:
        yield
    finally:
        program = components.resolve(MANAGER, lab.spec.control_plane)
        lab.control_plane.start_again(MANAGER, dict.fromkeys(PROGRAMS, program))


@contextlib.contextmanager
def tainted(cluster: Cluster) -> Iterator[Object]:
    """Taint the node while the controller that evicts pods because of taints is not there."""
    with without_controllers(cluster), taint(cluster, TAINT, ":NoExecute") as more:
        yield more


@contextlib.contextmanager
def tasks_refused(cluster: Cluster) -> Iterator[Object]:
    """Let a policy refuse the operator's tasks."""
    cluster.lab.kubectl("delete", "nodeupgradetasks", "--all", "--wait=true")
    with refusing(cluster, OPERATOR, "nodeupgrade.dev", "nodeupgradetasks", ("CREATE", "UPDATE")):
        yield {}


@contextlib.contextmanager
def without_guard(cluster: Cluster) -> Iterator[Object]:
    """Take the readiness guard out of the cluster."""
    before = cluster.lab.api.get("configmaps", GUARD, namespace=deploy.NAMESPACE)
    cluster.lab.kubectl("delete", "configmap", GUARD, "--namespace", deploy.NAMESPACE)
    try:
        yield {}
    finally:
        cluster.lab.apply({key: before[key] for key in ("apiVersion", "kind")} | {
            "metadata": {key: before["metadata"][key] for key in ("name", "namespace")}, "data": {},
        })  # fmt: skip


ROWS = (
    Row(name="node/version", shows="node_version_is_known", reason="UnsupportedVersion",
        make=posing(kubeletVersion="v1.99.0")),
    Row(name="node/embedded", shows="kubelet_can_be_replaced", reason="UnsupportedNode",
        make=posing(kubeletVersion="v1.30.14+k3s1")),
    Row(name="node/runtime", shows="runtime_is_supported", reason="UnsupportedRuntime",
        make=posing(containerRuntimeVersion="rkt://1.30.0")),
    Row(name="node/another-version", shows="versions_are_known", reason="AlreadyAtTarget", new="1.30.14",
        make=posing(kubeletVersion="v1.29.15"), also=USUAL),
    Row(name="node/cordoned", shows="node_is_not_cordoned_by_others", reason="CordonedByOthers", ends=SKIPPED,
        make=cordoned),
    Row(name="node/cordon-left-behind", shows="node_is_not_cordoned_by_others", reason="CordonLeftBehind",
        make=cordon_left_behind),
    Row(name="node/skipped", shows="node_is_not_to_be_skipped", reason="SkippedByAnnotation", ends=SKIPPED,
        make=to_be_skipped),
    Row(name="node/not-ready", shows="node_is_ready", reason="NodeNotReady", ends=SKIPPED, make=not_ready),
    Row(name="node/label-gone", shows="placements_are_met", reason="NodeAffinityNotMet", make=label_gone),
    Row(name="node/tainted", shows="taints_are_tolerated", reason="TaintNotTolerated", make=tainted),
    Row(name="node/tasks-refused", shows="writes_are_accepted", reason="WriteRefused", make=tasks_refused),
    Row(name="node/no-guard", shows="required_guard_is_possible", reason="ReadinessGuardUnavailable",
        make=without_guard, spec={"verify": {"readinessGuard": "Require"}}),
)  # fmt: skip
