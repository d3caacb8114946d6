"""Pods with probes of every kind behind one Service, for tests of what its clients notice."""

from collections.abc import Iterator
from typing import Any

from e2e.lab.binaries.versions import Version
from e2e.lab.lab import Lab
from e2e.lab.process import wait_until
from e2e.lab.progress import Progress
from e2e.lab.workloads import answerer
from e2e.lab.workloads.splitpods import make_anew

NAMESPACE = "probed"
APP = "probed"
PORT = 8080
UNREADY = "/tmp/unready"
"""A file that makes the pods with exec probes unready as soon as it exists."""

Object = dict[str, Any]

_HTTP: Object = {"httpGet": {"path": "/", "port": PORT}}
_TCP: Object = {"tcpSocket": {"port": PORT}}
_GRPC: Object = {"grpc": {"port": PORT}}
_EXEC: Object = {"exec": {"command": ["test", "!", "-e", UNREADY]}}


def start(lab: Lab, pods: int, node: str, *, slowest: int = 30, progress: Progress | None = None) -> None:
    """Start the Service and its pods on a node, and wait until every pod and every endpoint is Ready.

    Args:
        lab: the lab.
        pods: how many; the kinds take turns.
        node: name of the node.
        slowest: seconds between two probes of the slowest kind.
        progress: receives a message when something is built.
    """
    lab.import_image(answerer.archive(progress))
    lab.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}})
    account = ("get", "serviceaccount", "default", "--namespace", NAMESPACE)
    wait_until("a service account for the pods", lambda: lab.kubectl(*account).returncode == 0, timeout=60)
    lab.apply(_service(), *workload(pods, node, kubelet=lab.spec.kubelet, slowest=slowest))
    wait_ready(lab, pods)


def wait_ready(lab: Lab, pods: int, *, timeout: float = 600) -> None:
    """Wait until so many pods are Ready, and as many endpoints; pods that the runtime has split are made anew.

    Raises:
        LabError: after ``timeout`` seconds.
    """

    def ready() -> bool:
        found = lab.api.list("pods", namespace=NAMESPACE, labels=f"app={APP}")
        slices = lab.api.list("endpointslices", namespace=NAMESPACE, labels=f"kubernetes.io/service-name={APP}")
        endpoints = [e for s in slices for e in s.get("endpoints") or ()]
        all_are = pods == sum(map(is_ready, found)) == sum(bool(e["conditions"].get("ready")) for e in endpoints)
        return all_are and not make_anew(lab, NAMESPACE)

    wait_until(f"{pods} Ready pods and endpoints", ready, timeout=timeout, interval=0.3)


def is_ready(body: Object) -> bool:
    """Report whether a pod's or node's condition Ready is True."""
    found = body.get("status", {}).get("conditions") or ()
    return any(c["type"] == "Ready" and c["status"] == "True" for c in found)


def workload(pods: int, node: str, *, kubelet: str, slowest: int) -> list[Object]:
    """Return the pods, without fields and kinds that the kubelet does not know."""
    kinds = tuple(_kinds(Version.parse(kubelet).release, slowest))
    return [_pod(f"{name}-{number}", spec, node) for number, (name, spec) in zip(range(1, pods + 1), kinds * pods)]  # noqa: B905 - the kinds take turns


def _kinds(release: tuple[int, int], slowest: int) -> Iterator[tuple[str, Object]]:
    """Yield names and specs of the kinds of pods."""
    yield "http-1", _only(readiness=_probe(_HTTP, 1))
    yield "http-slow", _only(readiness=_probe(_HTTP, slowest))
    yield "tcp-2", _only(readiness=_probe(_TCP, 2), liveness=_probe(_TCP, 10))
    yield "tcp-twice", _only(readiness=_probe(_TCP, 5, successThreshold=2))
    yield "exec-5", _only(readiness=_probe(_EXEC, 5))
    yield "two", {"containers": [_server(readiness=_probe(_HTTP, 3)), _helper(readiness=_probe(_EXEC, 10))]}
    yield "unprobed", _only()
    if release >= (1, 18):
        yield "exec-startup", _only(readiness=_probe(_EXEC, 10), startup=_probe(_EXEC, 2, failureThreshold=60))
        yield "only-startup", _only(startup=_probe(_HTTP, 3, failureThreshold=60), liveness=_probe(_HTTP, 10))
    if release >= (1, 24):
        yield "grpc-10", _only(readiness=_probe(_GRPC, 10))
        yield "grpc-startup", _only(readiness=_probe(_HTTP, 5), startup=_probe(_GRPC, 1, failureThreshold=60))
    if release >= (1, 29):
        sidecar = _helper(readiness=_probe(_EXEC, 5)) | {"restartPolicy": "Always"}
        yield "sidecar", {"initContainers": [sidecar], "containers": [_server(readiness=_probe(_TCP, 5))]}


def _probe(kind: Object, period: int, **more: int) -> Object:
    return {**kind, "periodSeconds": period, "timeoutSeconds": 3, **more}


def _only(**probes: Object) -> Object:
    return {"containers": [_server(**probes)]}


def _server(**probes: Object) -> Object:
    return _container("answer", [answerer.PROGRAM, "-port", str(PORT)], probes)


def _helper(**probes: Object) -> Object:
    return _container("helper", [answerer.PROGRAM, "-port", str(PORT + 1)], probes)


def _container(name: str, command: list[str], probes: Object) -> Object:
    named = {f"{kind}Probe": probe for kind, probe in probes.items()}
    return {"name": name, "image": answerer.IMAGE, "imagePullPolicy": "Never", "command": command, **named}


def _pod(name: str, spec: Object, node: str) -> Object:
    return {
        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "namespace": NAMESPACE, "labels": {"app": APP}},
        "spec": {"nodeName": node, "terminationGracePeriodSeconds": 1, **spec},
    }  # fmt: skip


def _service() -> Object:
    return {
        "apiVersion": "v1", "kind": "Service", "metadata": {"name": APP, "namespace": NAMESPACE},
        "spec": {"selector": {"app": APP}, "ports": [{"port": 80, "targetPort": PORT}]},
    }  # fmt: skip
