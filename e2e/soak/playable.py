"""Specifications of pods as anybody may write them, changed so that a node of the lab can run them.

What enters a container's hash is kept wherever the container can still start: environment, arguments, ports, mounts,
probes, contexts, lifecycle. Images, programs and what needs other objects are replaced.
"""

import gzip
import json
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from e2e.lab.nodes.nodeimages import BUSYBOX
from e2e.pods import NAMESPACE, STAY

Object = dict[str, Any]

SPECS = Path(__file__).parents[2] / "tests" / "golden" / "generated-pods.jsonl.gz"
"""Generated specifications of pods; the first ones have the most fields."""
OF_POD = (
    "dnsConfig", "dnsPolicy", "enableServiceLinks", "hostAliases", "hostIPC", "hostNetwork", "hostPID", "hostname",
    "restartPolicy", "shareProcessNamespace", "subdomain",
)  # fmt: skip
OF_CONTAINER = (
    "env", "envFrom", "name", "stdin", "stdinOnce", "terminationMessagePath", "terminationMessagePolicy", "tty",
)  # fmt: skip
OF_CONTEXT = (
    "allowPrivilegeEscalation", "capabilities", "privileged", "readOnlyRootFilesystem", "runAsGroup", "runAsUser",
)  # fmt: skip
OF_PROBE = ("failureThreshold", "successThreshold", "terminationGracePeriodSeconds")
QUANTITIES: tuple[tuple[str, str], ...] = (
    ("1m", "16Mi"), ("0.001", "16777216"), ("2m", "2e7"), ("1000u", "20M"), ("1m", "33554432000m"),
)  # fmt: skip
"""Requests that fit many times into a node, written in as many ways."""
PROBED_EVERY = {"livenessProbe": 10, "readinessProbe": 3}
"""Seconds. A run lasts until the new kubelet can have probed the readiness of every pod, which takes some periods."""
TIMEOUTS = range(5, 9)
"""Seconds; a run waits for the longest, and a busy machine needs as many."""
HEALTH: Object = {"host": "127.0.0.1", "port": 10248}
"""The node's kubelet: the scripts of drawn containers serve nothing that a probe over the network could ask for."""


def drawn(rng: random.Random, count: int, node: str, *, sidecars: bool) -> list[Object]:
    """Return so many pods for a node.

    Args:
        rng: what draws.
        count: how many pods.
        node: the node that they are bound to.
        sidecars: whether the node's kubelets know restartable init containers.
    """
    specs = [json.loads(line)["spec"] for line in gzip.decompress(SPECS.read_bytes()).splitlines()]
    return [
        _pod(rng, f"drawn-{number}", spec, node, sidecars=sidecars)
        for number, spec in enumerate(rng.sample(specs, count))
    ]


def _pod(rng: random.Random, name: str, spec: Object, node: str, *, sidecars: bool) -> Object:
    volumes = sorted({mount["name"] for c in _containers(spec) for mount in c.get("volumeMounts", ())})
    inits = [c for c in spec.get("initContainers", ()) if sidecars or "restartPolicy" not in c]
    own_ports = not spec.get("hostNetwork", False)
    return {
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": name, "namespace": NAMESPACE, "labels": {"app": "drawn", "a": "1"}},
        "spec": {
            **{field: spec[field] for field in OF_POD if field in spec},
            "nodeName": node, "terminationGracePeriodSeconds": 2,
            "initContainers": [_container(rng, c, ports=own_ports, ends="restartPolicy" not in c) for c in inits],
            "containers": [_container(rng, c, ports=own_ports, ends=False) for c in spec["containers"]],
            "volumes": [{"name": volume, "emptyDir": {}} for volume in volumes],
        },
    }  # fmt: skip


def _containers(spec: Object) -> Iterator[Object]:
    yield from spec.get("initContainers", ())
    yield from spec["containers"]


def _container(rng: random.Random, found: Object, *, ports: bool, ends: bool) -> Object:
    made = {field: found[field] for field in OF_CONTAINER if field in found}
    made |= {"image": BUSYBOX, "imagePullPolicy": rng.choice(("Never", "IfNotPresent"))}
    # Further arguments are parameters of the script, which it never looks at.
    made |= {"command": ["sh", "-c", "exit 0" if ends else STAY], "args": found.get("args", [])}
    made["env"] = [_variable(each) for each in found.get("env", ())]
    made["envFrom"] = [_source(each) for each in found.get("envFrom", ())]
    if ports:
        made["ports"] = [{k: v for k, v in port.items() if k != "hostPort"} for port in found.get("ports", ())]
    made["volumeMounts"] = [
        {field: mount[field] for field in ("name", "mountPath", "readOnly", "subPath") if field in mount}
        for mount in found.get("volumeMounts", ())
    ]
    if found.get("resources"):
        cpu, memory = rng.choice(QUANTITIES)
        made["resources"] = {"requests": {"cpu": cpu, "memory": memory}, "limits": {"memory": "256Mi"}}
    if context := found.get("securityContext"):
        made["securityContext"] = {field: context[field] for field in OF_CONTEXT if field in context}
    if "restartPolicy" in found:
        made["restartPolicy"] = found["restartPolicy"]
    if not ends:
        made |= {kind: _probe(found[kind], every) for kind, every in PROBED_EVERY.items() if kind in found}
        if "lifecycle" in found:
            made["lifecycle"] = {hook: {"exec": {"command": ["true"]}} for hook in found["lifecycle"]}
    return made


def _variable(found: Object) -> Object:
    """Let a variable out of an object that is not there be optional."""
    source = found.get("valueFrom", {})
    for kind in ("configMapKeyRef", "secretKeyRef"):
        if kind in source:
            return {"name": found["name"], "valueFrom": {kind: {**source[kind], "optional": True}}}
    return found


def _source(found: Object) -> Object:
    return {kind: {**value, "optional": True} if isinstance(value, dict) else value for kind, value in found.items()}


def _probe(found: Object, every: int) -> Object:
    """Keep how it probes, in a way in which the container passes; old kubelets know no probe by gRPC."""
    handler: Object
    if "exec" in found:
        handler = {"exec": {"command": ["true"]}}
    elif "httpGet" in found:
        handler = {"httpGet": {**HEALTH, "path": "/healthz/ping"}}
    else:
        handler = {"tcpSocket": HEALTH}
    kept = {field: found[field] for field in OF_PROBE if field in found}
    timeout = TIMEOUTS[found.get("timeoutSeconds", 1) % len(TIMEOUTS)]
    return {**kept, **handler, "periodSeconds": every, "timeoutSeconds": timeout}
