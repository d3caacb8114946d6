"""The control plane's static pods on a node: their manifests, and the lines that a run puts there."""

import re
from collections.abc import Mapping

from e2e.lab.lab import Lab
from e2e.lab.nodes import nodefiles
from e2e.lab.nodes.node import Node

STATIC_PODS = ("etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler")
UID_LINE = re.compile(r"^(?:  # nodeupgrade: .*\n)?  uid: .*\n", re.MULTILINE)
_CONFIG_HASH = "kubernetes.io/config.hash"


def place(component: str) -> str:
    """Return the path of a manifest."""
    return f"{nodefiles.STATIC_PODS}/{component}.yaml"


def manifests(node: Node) -> dict[str, str]:
    """Return the text of the control plane's manifests by component."""
    return {name: (node.disk / place(name).lstrip("/")).read_text() for name in STATIC_PODS}


def without_lines(texts: Mapping[str, str]) -> dict[str, str]:
    """Return manifests as they are without what a run adds."""
    return {name: UID_LINE.sub("", text) for name, text in texts.items()}


def releases(node: Node) -> dict[str, str]:
    """Return the tags of the control plane's images by component."""
    return {name: re.findall(r"image: \S+:(\S+)", text)[0] for name, text in manifests(node).items()}


def instances(node: Node) -> dict[str, str]:
    """Return the running containers of the control plane by component."""
    return {c.name: c.id for c in node.snapshot().running() if c.name in STATIC_PODS}


def config_hash(lab: Lab, node: Node, component: str) -> str:
    """Return the hash that the kubelet computed of a manifest, which is the UID of its pod."""
    pod = lab.api.get("pods", f"{component}-{node.name}", namespace="kube-system")
    return str(pod["metadata"]["annotations"][_CONFIG_HASH])


def pin(lab: Lab, node: Node) -> None:
    """Write the UIDs of the running pods into the manifests, as the operator does, unless they are there."""
    hashes = {name: config_hash(lab, node, name) for name in STATIC_PODS}
    node.exec("systemctl", "stop", "kubelet")
    for name, text in without_lines(manifests(node)).items():
        pinned = text.replace("metadata:\n", f'metadata:\n  uid: "{hashes[name]}"\n', 1)
        node.write(place(name), pinned, 0o600)
    node.exec("systemctl", "start", "kubelet")
    node.wait_kubelet_healthy()


def take_lines_out(node: Node) -> None:
    """Follow docs/upgrade-and-uninstall.md."""
    words = ("-e", "/# nodeupgrade: the next line/d", "-e", r'/^ *uid: "[0-9a-f]\{32\}"$/d')
    node.exec("systemctl", "stop", "kubelet")
    node.exec("sed", "-i", *words, *map(place, STATIC_PODS))
    node.exec("systemctl", "start", "kubelet")
    node.wait_kubelet_healthy()
