"""Pods of every kind that a kubelet swap could restart, for tests on real nodes.

All of them use the lab's busybox image, end at once on request, and are in one namespace.
"""

import json
from collections.abc import Callable
from typing import Any

from e2e.lab.binaries.versions import Version
from e2e.lab.cluster.podstatus import is_mirror, runs
from e2e.lab.lab import Lab
from e2e.lab.nodes.nodeimages import BUSYBOX
from e2e.lab.process import wait_until
from e2e.lab.workloads.splitpods import make_anew

NAMESPACE = "workload"
Object = dict[str, Any]

# On the host's network the port may still be in use by a predecessor that is about to end.
_SERVE = "trap 'exit 0' TERM; until httpd -p 8080 -h /www; do sleep 1; done; while :; do sleep 3600 & wait $!; done"
_STAY = "trap 'exit 0' TERM; while :; do sleep 3600 & wait $!; done"
_HTTP = {"httpGet": {"path": "/", "port": 8080}}
STARTS_WITHIN = 240
"""Seconds after which a startup probe that fails ends its container; a busy machine takes long over each."""
PROBED_EVERY = 2
"""Seconds. A run lasts until the new kubelet can have probed every pod; usual periods would slow down the tests."""


def mixed_workload(pods: int, node: str | None = None, *, kubelet: str = "1.30.14", suffix: str = "") -> list[Object]:
    """Return a namespace, a config map and ``pods`` bare pods: mostly web servers, some of every unusual kind.

    Args:
        pods: how many pods, at least one; the unusual kinds come first as long as there is room for them.
        node: the node to bind them to, without the scheduler; any node by default.
        kubelet: version of the oldest kubelet that must run them; leaves out what it does not support
            (sizes of volumes before 1.10, startup probes before 1.18, restartable init containers before 1.29).
        suffix: of the pods' names, where several nodes get a workload.
    """
    version = Version.parse(kubelet)
    kinds: list[tuple[str, Callable[[Version], Object]]] = [
        ("init", _with_init), ("host-network", _on_host_network), ("never-running", _never_restarted),
        ("never-completed", _partly_completed), ("rich", _rich), ("two", _two_containers),
    ]  # fmt: skip
    if version.release >= (1, 29):
        kinds.insert(0, ("sidecar", _with_sidecar))
    chosen = kinds[: max(1, pods // 2)] if pods < 2 * len(kinds) else kinds * (1 + (pods >= 40))
    made = [_pod(f"{name}-{index}", make(version), node, suffix) for index, (name, make) in enumerate(chosen, 1)]
    made += [_pod(f"web-{index}", _web(version), node, suffix) for index in range(1, pods - len(made) + 1)]
    return [
        {"apiVersion": "v1", "kind": "Namespace",
         "metadata": {"name": NAMESPACE, "labels": {"pod-security.kubernetes.io/enforce": "privileged"}}},
        {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "settings", "namespace": NAMESPACE},
         "data": {"colour": "green", "text": "<&> \"quoted\" 'too'\n"}},
        *made[:pods],
    ]  # fmt: skip


def calm(objects: list[Object], every: int = 15) -> list[Object]:
    """Return these pods for a slow node: none is probed more often than that, in seconds, and all may take longer."""
    return [json.loads(json.dumps(each), object_hook=lambda found: _calm_probe(found, every)) for each in objects]


def _calm_probe(found: Object, every: int) -> Object:
    return (
        {**found, "periodSeconds": max(every, found["periodSeconds"]), "timeoutSeconds": every}
        if ("periodSeconds" in found)
        else found
    )


def static_pod(name: str = "static-web", *, every: int = PROBED_EVERY) -> str:
    """Return the manifest of a static pod on the host's network, to be put into ``/etc/kubernetes/manifests``.

    Args:
        name: of the pod.
        every: seconds from one probe to the next.
    """
    serve = _SERVE.replace("8080", "8099")
    probe = {"httpGet": {"path": "/", "port": 8099}, "periodSeconds": every}
    container = {**_container("web", serve), "readinessProbe": probe}
    pod = {
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": name, "namespace": NAMESPACE, "labels": {"app": name}},
        "spec": {"hostNetwork": True, "terminationGracePeriodSeconds": 1, "containers": [container]},
    }  # fmt: skip
    return json.dumps(pod, indent=2)


def service(app: str = "web") -> Object:
    """Return a Service in front of the workload's pods of one kind."""
    return {
        "apiVersion": "v1", "kind": "Service", "metadata": {"name": app, "namespace": NAMESPACE},
        "spec": {"selector": {"app": app}, "ports": [{"port": 80, "targetPort": 8080}]},
    }  # fmt: skip


def start(lab: Lab, objects: list[Object]) -> None:
    """Apply the objects of ``mixed_workload`` once the namespace's default service account exists."""
    lab.apply(objects[0])
    namespace = objects[0]["metadata"]["name"]
    ready = ["get", "serviceaccount", "default", "--namespace", namespace]
    wait_until("a service account for the pods", lambda: lab.kubectl(*ready).returncode == 0, timeout=60)
    lab.apply(*objects[1:])


def pod(name: str, spec: Object, node: str) -> Object:
    """Return a pod for a node; it stops within two seconds."""
    return _pod(name, spec, node)


def container(name: str, script: str, **more: object) -> Object:
    """Return a container that runs a shell script."""
    return _container(name, script, **more)


def start_pod(lab: Lab, name: str, script: str, *, node: str) -> None:
    """Start a pod whose container ``main`` runs a shell script, and wait until it is Ready."""
    lab.apply(pod(name, {"containers": [container("main", script)]}, node))
    lab.kubectl_wait("wait", "-n", NAMESPACE, f"pod/{name}", "--for=condition=Ready", timeout=60)


def renew(lab: Lab, objects: list[Object], *, keep: Callable[[Object], bool] = lambda _: False) -> None:
    """Delete all bare pods but those wanted ones that are to be kept, apply the objects, and wait until all pods run.

    Args:
        lab: the lab.
        objects: those of ``mixed_workload``.
        keep: tells of a pod whether it may stay.
    """
    names = {body["metadata"]["name"] for body in objects if body["kind"] == "Pod"}
    here = ("--namespace", NAMESPACE)
    found = lab.api.list("pods", namespace=NAMESPACE)
    bare = {pod["metadata"]["name"]: pod for pod in found if not is_mirror(pod)}
    if leaving := [name for name, pod in bare.items() if name not in names or not keep(pod)]:
        lab.kubectl("delete", "pods", *here, *leaving, timeout=180)
    start(lab, objects)
    wait_running(lab, count=len(names) + sum(map(is_mirror, found)), timeout=600)


def wait_running(
    lab: Lab, namespace: str = NAMESPACE, count: int = 1, *, node: str | None = None, timeout: float = 300
) -> None:
    """Wait until ``count`` pods of ``namespace`` (on ``node``) run, with every long-running container ready.

    Pods that the runtime has split are made anew.

    Raises:
        LabError: after ``timeout`` seconds; it says how many run.
    """
    here = f"spec.nodeName={node}" if node else ""

    def enough() -> bool:
        run = sum(runs(pod) for pod in lab.api.list("pods", namespace=namespace, fields=here))
        return run >= count and not make_anew(lab, namespace)

    wait_until(f"{count} running pods in namespace {namespace}", enough, timeout=timeout, interval=0.3)


def _pod(name: str, spec: Object, node: str | None, suffix: str = "") -> Object:
    common: Object = {"terminationGracePeriodSeconds": 2, **({"nodeName": node} if node else {})}
    return {
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": name + suffix, "namespace": NAMESPACE, "labels": {"app": name.rsplit("-", 1)[0]}},
        "spec": {**common, **spec},
    }  # fmt: skip


def _container(name: str, script: str, **more: object) -> Object:
    return {"name": name, "image": BUSYBOX, "imagePullPolicy": "Never", "command": ["sh", "-c", script], **more}


def _probes(version: Version) -> Object:
    probes: Object = {
        "readinessProbe": {**_HTTP, "periodSeconds": PROBED_EVERY},
        "livenessProbe": {"tcpSocket": {"port": 8080}, "periodSeconds": 10, "timeoutSeconds": 5},
    }
    if version.release >= (1, 18):
        probes["startupProbe"] = {**_HTTP, "periodSeconds": 1, "failureThreshold": STARTS_WITHIN}
    return probes


def _web(version: Version) -> Object:
    return {
        "containers": [_container("web", _SERVE, ports=[{"containerPort": 8080, "name": "http"}], **_probes(version))]
    }


def _with_init(version: Version) -> Object:
    mounts = {"volumeMounts": [{"name": "www", "mountPath": "/shared"}]}
    return {
        "initContainers": [_container("write", "echo init > /shared/index.html", **mounts)],
        "containers": [_container("web", _SERVE, **mounts, **_probes(version))],
        "volumes": [{"name": "www", "emptyDir": {}}],
    }


def _with_sidecar(version: Version) -> Object:
    probe = {
        "startupProbe": {
            "exec": {"command": ["true"]},
            "periodSeconds": 1,
            "failureThreshold": STARTS_WITHIN,
            "timeoutSeconds": 5,
        }
    }
    return {
        "initContainers": [
            _container("first", "true"),
            _container("sidecar", _STAY, restartPolicy="Always", **probe),
            _container("last", "true"),
        ],
        "containers": [_container("web", _SERVE, **_probes(version)), _container("helper", _STAY)],
    }


def _on_host_network(version: Version) -> Object:
    del version
    stop = {"preStop": {"exec": {"command": ["true"]}}}
    return {"hostNetwork": True, "containers": [_container("agent", _STAY, lifecycle=stop)]}


def _never_restarted(version: Version) -> Object:
    del version
    return {"restartPolicy": "Never", "containers": [_container("job", _STAY)]}


def _partly_completed(version: Version) -> Object:
    del version
    return {"restartPolicy": "Never", "containers": [_container("job", _STAY), _container("done", "exit 0")]}


def _two_containers(version: Version) -> Object:
    return {
        "shareProcessNamespace": True,
        "containers": [
            _container("web", _SERVE, **_probes(version)),
            _container("logger", _STAY, tty=True, stdin=True),
        ],
    }


def _rich(version: Version) -> Object:
    """Use as many fields that enter the container hash as one pod can have."""
    environment = [
        {"name": "POD_NAME", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}},
        {"name": "CPU", "valueFrom": {"resourceFieldRef": {"resource": "limits.cpu", "divisor": "1m"}}},
        {"name": "COLOUR", "valueFrom": {"configMapKeyRef": {"name": "settings", "key": "colour"}}},
        {"name": "ESCAPED", "value": "<&> \u2028 \u00fc"},
        {"name": "EMPTY"},
    ]
    container = _container(
        "web", _SERVE,
        env=environment,
        envFrom=[{"configMapRef": {"name": "settings"}, "prefix": "SET_"}],
        ports=[{"containerPort": 8080, "protocol": "TCP"}],
        resources={"requests": {"cpu": "5m", "memory": "8Mi"}, "limits": {"cpu": "500m", "memory": "64Mi"}},
        securityContext={
            "allowPrivilegeEscalation": False,
            "capabilities": {"drop": ["ALL"]},
            "readOnlyRootFilesystem": True,
            "runAsNonRoot": True,
            "runAsUser": 65534,
        },
        lifecycle={"preStop": {"exec": {"command": ["sh", "-c", "true"]}}},
        terminationMessagePolicy="FallbackToLogsOnError",
        volumeMounts=[
            {"name": "scratch", "mountPath": "/scratch"},
            {"name": "settings", "mountPath": "/settings", "readOnly": True},
            {"name": "settings", "mountPath": "/one/colour", "subPath": "colour"},
        ],
        workingDir="/tmp",
        **_probes(version),
    )  # fmt: skip
    volumes = [
        {"name": "scratch", "emptyDir": {"sizeLimit": "16Mi"} if version.release >= (1, 10) else {}},
        {"name": "settings", "configMap": {"name": "settings"}},
    ]
    return {"containers": [container], "securityContext": {"fsGroup": 65534}, "volumes": volumes}
