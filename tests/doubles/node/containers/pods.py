"""Pods as a kubelet of a given version understands them: their UIDs, and the hashes that it computes for them."""

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from functools import cache
from hashlib import md5

import yaml

from nodeupgrade.api.json import Json
from nodeupgrade.api.values import PodUid
from nodeupgrade.api.yaml import read_one
from nodeupgrade.cluster.pods import Pod, PodContainer, Role, parse_pod
from nodeupgrade.kubelethash import (
    HashValue,
    KubeletVersion,
    compared_containers,
    default_static_container,
    hash_container,
    hash_manifest_container,
)
from nodeupgrade.node.runtimes.inventory import ContainerInstance, ContainerState
from tests.doubles.node.storage.reading import readable

MANIFESTS = "/etc/kubernetes/manifests"


def pod_json(
    name: str,
    *containers: str,
    sidecars: tuple[str, ...] = (),
    ephemeral: tuple[str, ...] = (),
    restart_policy: str = "Always",
    uid: str | None = None,
) -> Json:
    """Return a pod as the API serves it, of a ReplicaSet in namespace ``default``."""
    return {
        "metadata": {
            "namespace": "default",
            "name": name,
            "uid": uid or f"uid-{name}",
            "ownerReferences": [{"kind": "ReplicaSet", "name": name, "controller": True}],
        },
        "spec": {
            "restartPolicy": restart_policy,
            "initContainers": [{**_container(sidecar), "restartPolicy": "Always"} for sidecar in sidecars],
            "containers": [_container(container) for container in containers],
            "ephemeralContainers": [_container(container) for container in ephemeral],
        },
    }


def manifest(name: str, *containers: str) -> bytes:
    """Return a static pod's manifest, without a UID."""
    lines = [
        "apiVersion: v1",
        "kind: Pod",
        "metadata:",
        f"  name: {name}",
        "spec:",
        "  hostNetwork: true",
        "  containers:",
    ]
    lines += [f"  - {{name: {container}, image: 'registry.example/{container}:1'}}" for container in containers]
    return "\n".join([*lines, ""]).encode()


def static_pods(disk: Mapping[str, bytes], kubelet: KubeletVersion, node: str) -> Iterator[Pod]:
    """Yield the pods that a kubelet makes of its manifest directory.

    Without ``metadata.uid`` the UID depends on the decoded manifest and the kubelet's minor. Files whose name begins
    with a dot are ignored, and so is what cannot be read or parsed.
    """
    for path in sorted(disk):
        if path.startswith(f"{MANIFESTS}/") and not path.startswith(f"{MANIFESTS}/."):
            data = readable(disk, path)
            pod = None if data is None else _static_pod(data, kubelet.minor, node)
            if pod is not None:
                yield pod


def computed_hash(pod: Pod, container: PodContainer, kubelet: KubeletVersion) -> HashValue:
    """Return the hash that this kubelet stores and expects for a container of a pod."""
    return _hash(json.dumps(container.spec, sort_keys=True), str(kubelet), pod.from_manifest)


def accepted(pod: Pod, kubelet: KubeletVersion, also: Iterable[str] = ()) -> Iterator[tuple[str, frozenset[HashValue]]]:
    """Yield the containers of a pod whose hash this kubelet compares, with every hash that it leaves alone.

    Args:
        also: the versions whose hashes it accepts besides its own, because it was built to.
    """
    kubelets = (kubelet, *map(KubeletVersion.parse, also))
    names = compared_containers(pod.raw, kubelet)
    for container in pod.containers:
        if container.name in names:
            yield container.name, frozenset(computed_hash(pod, container, each) for each in kubelets)


def is_over(pod: Pod, instances: Iterable[ContainerInstance]) -> bool:
    """Return whether all regular containers of a pod have ended, and none is started again."""
    newest = {each.name: each for each in instances if each.pod == pod.ref}
    regular = [container for container in pod.containers if container.role is Role.REGULAR]
    found = [(container, newest.get(container.name)) for container in regular]
    return pod.restart_policy != "Always" and all(
        each is not None and each.state is ContainerState.EXITED and not is_restarted(pod, container, each)
        for container, each in found
    )


def is_restarted(pod: Pod, container: PodContainer, ended: ContainerInstance) -> bool:
    """Return whether an ended container is started again: by a rule, or by the restart policy."""
    if action_after(container, ended) is not None:
        return True
    return pod.restart_policy == "Always" or (pod.restart_policy == "OnFailure" and ended.exit_code != 0)


def action_after(container: PodContainer, ended: ContainerInstance) -> str | None:
    """Return the action of the first restart rule for an exit code."""
    for rule in container.spec.get("restartPolicyRules", ()):
        codes = rule["exitCodes"]
        if (ended.exit_code in codes["values"]) is (codes["operator"] == "In"):
            return str(rule["action"])
    return None


@cache
def _static_pod(data: bytes, minor: int, node: str) -> Pod | None:
    try:
        document = read_one(data)
    except (yaml.YAMLError, UnicodeDecodeError):
        return None
    if not isinstance(document, dict) or not {"metadata", "spec"} <= document.keys():
        return None
    derived = md5(f"{minor} {json.dumps(document, sort_keys=True)}".encode(), usedforsecurity=False).hexdigest()
    shown = parse_pod(document)
    uid = document["metadata"].get("uid") or derived
    host_network = bool(document["spec"].get("hostNetwork"))
    return replace(
        shown,
        ref=replace(shown.ref, name=f"{shown.ref.name}-{node}", uid=PodUid(uid)),
        containers=tuple(
            replace(c, spec=default_static_container(c.spec, host_network=host_network)) for c in shown.containers
        ),
        from_manifest=True,
    )


@cache
def _hash(spec: str, kubelet: str, from_manifest: bool) -> HashValue:
    return (hash_manifest_container if from_manifest else hash_container)(json.loads(spec), kubelet)


def _container(name: str) -> dict[str, object]:
    return {
        "name": name,
        "image": f"registry.example/{name}:1",
        "resources": {"requests": {"cpu": "100m"}},
        "terminationMessagePath": "/dev/termination-log",
        "terminationMessagePolicy": "File",
        "imagePullPolicy": "IfNotPresent",
    }
