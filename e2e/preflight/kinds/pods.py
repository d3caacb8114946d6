"""Pods that another kubelet would treat in another way, or that are in no state to be left alone."""

import contextlib
import json
from collections.abc import Iterator
from typing import Any

from e2e import pods
from e2e.changes import changed
from e2e.cluster import Cluster, Object
from e2e.lab.nodes import nodefiles
from e2e.preflight.kinds.node import refusing, without_guard
from e2e.preflight.row import WARNED, Hazard, Row

PROBE = {"exec": {"command": ["test", "-e", "/tmp/well"]}, "periodSeconds": 1, "failureThreshold": 300}
BRIEF = {"key": "node.kubernetes.io/not-ready", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 1}
BOTH_HERE = frozenset({"budgets_are_kept"})
"""What warns without the guard, since both replicas of the operator are on the only node."""
SLOW_STOP = {"preStop": {"exec": {"command": ["sleep", "300"]}}}


def having(*containers: Object, ready: bool = True, **spec: Any) -> Hazard:
    """Run a pod that is as somebody's template says."""

    @contextlib.contextmanager
    def make(cluster: Cluster) -> Iterator[Object]:
        with pods.running(cluster, pods.pod(cluster, "hazard", *containers, **spec), ready=ready):
            yield {}

    return make


@contextlib.contextmanager
def ending(cluster: Cluster) -> Iterator[Object]:
    """Delete a pod that takes longer to end than an agent waits for it."""
    body = pods.pod(cluster, "ending", pods.container(lifecycle=SLOW_STOP), terminationGracePeriodSeconds=310)
    with pods.running(cluster, body):
        victim = next(c for c in cluster.node.snapshot().running() if c.pod == f"{pods.NAMESPACE}/ending")
        cluster.lab.kubectl("delete", "pod", "-n", pods.NAMESPACE, "ending", "--wait=false")
        try:
            yield {}
        finally:
            cluster.node.exec("kill", "-KILL", str(victim.pid), check=False)


@contextlib.contextmanager
def held_by_nobody(cluster: Cluster) -> Iterator[Object]:
    """Let the API server show a container that the runtime does not hold."""
    user, name = f"system:node:{cluster.node.name}", "elsewhere"
    with pods.running(cluster, pods.pod(cluster, name)), refusing(cluster, user, "", "pods/status", ("UPDATE",)):
        [status] = cluster.lab.api.get("pods", name, namespace=pods.NAMESPACE)["status"]["containerStatuses"]
        patch = {"status": {"containerStatuses": [status | {"containerID": f"containerd://{'0' * 64}"}]}}
        how = ("patch", "pod", "-n", pods.NAMESPACE, name, "--subresource=status", "--type=merge", "-p")
        cluster.lab.kubectl(*how, json.dumps(patch))
        yield {}


@contextlib.contextmanager
def manifest_not_editable(cluster: Cluster) -> Iterator[Object]:
    """Write a static pod's manifest so that no line can be added to its metadata; it is the same pod."""

    def with_merge_key(text: str) -> str:
        manifest = json.loads(text)
        metadata = {"metadata": manifest.pop("metadata")}
        return "".join(f"{key}: {json.dumps(value)}\n" for key, value in {"<<": metadata, **manifest}.items())

    with changed(cluster.node, f"{nodefiles.STATIC_PODS}/static-web.json", with_merge_key):
        yield {}


@contextlib.contextmanager
def left_alone(_cluster: Cluster) -> Iterator[Object]:
    """Leave the node as it is, with its static pod: the hazard is what the NodeUpgrade asks for."""
    yield {}


@contextlib.contextmanager
def only_endpoint(cluster: Cluster) -> Iterator[Object]:
    """Let a pod be the only endpoint of a Service, in a cluster without the readiness guard."""
    probe = {"exec": {"command": ["true"]}, "periodSeconds": 2}
    body = pods.pod(cluster, "alone", pods.container(readinessProbe=probe), metadata={"labels": {"app": "alone"}})
    service = {
        "apiVersion": "v1", "kind": "Service", "metadata": {"name": "alone", "namespace": pods.NAMESPACE},
        "spec": {"selector": {"app": "alone"}, "ports": [{"port": 80}]},
    }  # fmt: skip
    with without_guard(cluster), pods.running(cluster, body):
        cluster.lab.apply(service)
        try:
            yield {}
        finally:
            cluster.lab.kubectl("delete", "service", "-n", pods.NAMESPACE, "alone")


RESIZED = pods.container(
    resources={"requests": {"cpu": "5m"}}, resizePolicy=[{"resourceName": "cpu", "restartPolicy": "RestartContainer"}]
)
ROWS = (
    Row(name="pod/resize-policy", shows="nothing_is_resized", reason="ResizePolicyRestart", make=having(RESIZED)),
    Row(name="pod/ending", shows="hashes_are_reproduced", reason="PodInTransition", make=ending),
    Row(name="pod/held-by-nobody", shows="runtime_holds_the_pods", reason="PodInTransition", make=held_by_nobody),
    Row(name="pod/manifest", shows="static_pods_keep_their_uid", reason="StaticPodNotEditable",
        make=manifest_not_editable),
    Row(name="pod/recreated", shows="static_pods_run_on", reason="StaticPodsRecreated", ends=WARNED,
        make=left_alone, spec={"kubelet": {"staticPods": "Recreate"}}),
    Row(name="pod/leaves-at-once", shows="pods_outlast_a_node_that_is_not_ready", reason="TaintNotTolerated",
        ends=WARNED, new="1.29.15", make=having(tolerations=[BRIEF]),
        spec={"skewPolicy": "Warn", "verify": {"readinessGuard": "Off"}}),
    Row(name="probe/starting", shows="probes_let_containers_live", reason="PodInTransition",
        make=having(pods.container(startupProbe=PROBE), ready=False), spec={"verify": {"settle": "10m"}}),
    Row(name="probe/unready", shows="readiness_probes_succeed", reason="ReadinessProbeFailing", ends=WARNED,
        make=having(pods.container(readinessProbe=PROBE), ready=False)),
    Row(name="probe/starts-anew", shows="startup_probes_succeed_again", reason="StartupProbeRunsAgain", ends=WARNED,
        make=having(pods.container(script=f"touch /tmp/well; {pods.STAY}", startupProbe=PROBE))),
    Row(name="traffic/only-endpoint", shows="clients_notice_nothing", reason="EndpointsWouldBeLost", ends=WARNED,
        make=only_endpoint, also=BOTH_HERE),
)  # fmt: skip
