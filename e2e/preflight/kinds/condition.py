"""What is going on in pods, and what would not come back."""

import contextlib
import json
from collections.abc import Iterator

from e2e import pods
from e2e.cluster import Cluster, Object
from e2e.lab.nodes.nodeimages import BUSYBOX
from e2e.lab.process import wait_until
from e2e.preflight.kinds.node import LABEL
from e2e.preflight.kinds.pods import BOTH_HERE, having, only_endpoint
from e2e.preflight.row import WARNED, Row

ENDS = "PodExpectedToEnd"
LOST = "EndpointsWouldBeLost"
HOOK = {"postStart": {"exec": {"command": ["sleep", "300"]}}}


@contextlib.contextmanager
def crashing(cluster: Cluster) -> Iterator[Object]:
    """Run a container that ends again and again."""
    body = pods.pod(cluster, "crashing", pods.container(script="sleep 4; exit 1"))
    with pods.running(cluster, body, ready=False):
        wait_until("a crash loop", lambda: "CrashLoopBackOff" in _state(cluster, "crashing") or None, timeout=120)
        yield {}


@contextlib.contextmanager
def never_ready(cluster: Cluster) -> Iterator[Object]:
    """Run a container whose readiness probe fails."""
    probe = {"exec": {"command": ["false"]}, "periodSeconds": 1}
    with pods.running(cluster, pods.pod(cluster, "unready", pods.container(readinessProbe=probe)), ready=False):
        wait_until("a running container", lambda: '"running"' in _state(cluster, "unready") or None, timeout=60)
        yield {}


@contextlib.contextmanager
def hook_runs(cluster: Cluster) -> Iterator[Object]:
    """Have a postStart hook that takes longer than an agent waits for it."""
    with pods.running(cluster, pods.pod(cluster, "hooked", pods.container(lifecycle=HOOK)), ready=False):
        victim = next(c for c in cluster.node.snapshot().running() if c.pod == f"{pods.NAMESPACE}/hooked")
        try:
            yield {}
        finally:
            cluster.node.exec("kill", "-KILL", str(victim.pid))


@contextlib.contextmanager
def debugged(cluster: Cluster) -> Iterator[Object]:
    """Debug a pod."""
    with pods.running(cluster, pods.pod(cluster, "debugged")):
        debug = ("debug", "-n", pods.NAMESPACE, "debugged", f"--image={BUSYBOX}", "--image-pull-policy=Never")
        cluster.lab.kubectl(*debug, "-c", "look", "--", "sleep", "3600")
        wait_until("the session", lambda: '"running"' in _state(cluster, "debugged", "ephemeral") or None, timeout=60)
        yield {}


@contextlib.contextmanager
def ended_and_misplaced(cluster: Cluster) -> Iterator[Object]:
    """Let a pod succeed, and take the label away that it was placed by."""
    label = ("label", "node", cluster.node.name)
    cluster.lab.kubectl(*label, f"{LABEL}=web")
    body = pods.pod(cluster, "ended", pods.container(script="true"), restartPolicy="Never", nodeSelector={LABEL: "web"})
    cluster.lab.apply(body)
    phase = ("get", "pod", "-n", pods.NAMESPACE, "ended", "-o", "jsonpath={.status.phase}")
    try:
        wait_until("its end", lambda: cluster.lab.kubectl(*phase).stdout == "Succeeded" or None, timeout=60)
        cluster.lab.kubectl(*label, f"{LABEL}-")
        yield {}
    finally:
        pods.delete(cluster, "ended")
        cluster.lab.kubectl(*label, f"{LABEL}-")


@contextlib.contextmanager
def budget(cluster: Cluster) -> Iterator[Object]:
    """Let a disruption budget allow no unready pod, in a cluster without the readiness guard."""
    with only_endpoint(cluster):
        cluster.lab.apply({
            "apiVersion": "policy/v1", "kind": "PodDisruptionBudget",
            "metadata": {"name": "alone", "namespace": pods.NAMESPACE},
            "spec": {"minAvailable": 1, "selector": {"matchLabels": {"app": "alone"}}},
        })  # fmt: skip
        counted = ("get", "pdb", "-n", pods.NAMESPACE, "alone", "-o", "jsonpath={.status.observedGeneration}")
        wait_until("the count of the budget", lambda: cluster.lab.kubectl(*counted).stdout or None, timeout=60)
        try:
            yield {}
        finally:
            cluster.lab.kubectl("delete", "poddisruptionbudget", "-n", pods.NAMESPACE, "alone")


@contextlib.contextmanager
def webhook(cluster: Cluster) -> Iterator[Object]:
    """Let the API server call the only endpoint of a Service, in a cluster without the readiness guard."""
    rule = {"apiGroups": ["nodeupgrade.test"], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["none"]}
    with only_endpoint(cluster):
        cluster.lab.apply({
            "apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingWebhookConfiguration",
            "metadata": {"name": "alone"},
            "webhooks": [{
                "name": "alone.nodeupgrade.test", "rules": [rule], "failurePolicy": "Ignore", "sideEffects": "None",
                "admissionReviewVersions": ["v1"],
                "clientConfig": {"service": {"name": "alone", "namespace": pods.NAMESPACE, "port": 80}},
            }],
        })  # fmt: skip
        try:
            yield {}
        finally:
            cluster.lab.kubectl("delete", "validatingwebhookconfiguration", "alone")


def _state(cluster: Cluster, name: str, kind: str = "") -> str:
    key = f"{kind}ContainerStatuses" if kind else "containerStatuses"
    status = cluster.lab.api.get("pods", name, namespace=pods.NAMESPACE).get("status", {})
    return json.dumps([each.get("state") for each in status.get(key, ())])


ROWS = (
    Row(name="condition/hook", shows="hooks_are_over", reason="PodInTransition",
        make=hook_runs),
    Row(name="condition/crashing", shows="containers_do_not_crash", reason=ENDS, ends=WARNED, make=crashing),
    Row(name="condition/deadline", shows="deadlines_are_far", reason=ENDS, ends=WARNED,
        make=having(activeDeadlineSeconds=40)),
    Row(name="condition/vendor", shows="vendors_kubelet_admits_the_pods", reason="PodWouldNotBeAdmitted",
        make=never_ready, spec={"kubelet": {"alsoRejects": ["NotReady"]}},
        also=frozenset({"readiness_probes_succeed"})),
    Row(name="condition/bare", shows="pods_would_be_replaced", reason="PodWithoutController", ends=WARNED,
        make=having()),
    Row(name="condition/debugged", shows="nobody_is_debugging", reason="DebugSessionWouldEnd", ends=WARNED,
        make=debugged),
    Row(name="condition/ended", shows="ended_pods_keep_their_phase", reason="KubeletDefect", ends=WARNED,
        new="1.31.0", make=ended_and_misplaced, also=frozenset({"release_has_no_known_flaw"})),
    Row(name="release/flaw", shows="release_has_no_known_flaw", reason="KubeletDefect", ends=WARNED, new="1.32.2",
        make=having()),
    Row(name="traffic/budget", shows="budgets_are_kept", reason=LOST, ends=WARNED, make=budget,
        also=frozenset({"clients_notice_nothing"})),
    Row(name="traffic/webhook", shows="api_server_keeps_its_webhooks", reason=LOST, ends=WARNED, make=webhook,
        also=BOTH_HERE | {"clients_notice_nothing"}),
)  # fmt: skip
