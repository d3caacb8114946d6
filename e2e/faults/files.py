"""Two files of a node that go along with its kubelet: what is there, and what is to be there."""

import hashlib
import json
from dataclasses import dataclass
from pathlib import Path

from e2e.changes import with_settings
from e2e.cluster import Cluster, Object
from e2e.lab.cluster.deploy import NAMESPACE
from e2e.lab.nodes import nodefiles
from e2e.lab.nodes.node import Node

LIMITS = "/etc/systemd/system/kubelet.service.d/20-limits.conf"
MODE = 0o640


@dataclass(frozen=True)
class FileState:
    """A file of a node: its content's SHA-256, owner, group and permissions."""

    sha256: str
    uid: int
    gid: int
    mode: int


def state(node: Node, path: str) -> FileState | None:
    """Return what is at a path; None if nothing is."""
    place = _on_disk(node, path)
    try:
        content, found = place.read_bytes(), place.stat()
    except FileNotFoundError:
        return None
    return FileState(hashlib.sha256(content).hexdigest(), found.st_uid, found.st_gid, found.st_mode & 0o7777)


def files(cluster: Cluster, name: str) -> list[Object]:
    """Create a ConfigMap with new contents, and return ``spec.files``."""
    config = _on_disk(cluster.node, nodefiles.KUBELET_CONFIG).read_text()
    most = 120 if json.loads(config).get("maxPods") != 120 else 121
    limits = _on_disk(cluster.node, LIMITS)
    number = 999998 if limits.exists() and "999999" in limits.read_text() else 999999
    contents = {
        "config": (nodefiles.KUBELET_CONFIG, with_settings(maxPods=most)(config)),
        "limits": (LIMITS, f"[Service]\nLimitNOFILE={number}\n"),
    }
    cluster.node.exec("mkdir", "-p", str(Path(LIMITS).parent))
    cluster.lab.apply(
        {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {"name": name, "namespace": NAMESPACE},
            "data": {key: content for key, (_, content) in contents.items()},
        }
    )
    return [
        {
            "path": path,
            "mode": f"{MODE:04o}",
            "sha256": hashlib.sha256(content.encode()).hexdigest(),
            "configMapKeyRef": {"name": name, "key": key},
        }
        for key, (path, content) in contents.items()
    ]


def _on_disk(node: Node, path: str) -> Path:
    return node.disk / path.lstrip("/")
