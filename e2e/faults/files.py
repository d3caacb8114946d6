"""Files that go along with the kubelet in a run with a fault: two of them, and what must be there afterwards."""

import hashlib
import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from e2e.changes import with_settings
from e2e.cluster import Cluster, Object
from e2e.lab.cluster.deploy import NAMESPACE
from e2e.lab.nodes import nodefiles
from e2e.lab.nodes.node import Node

if TYPE_CHECKING:
    from e2e.faults.fault import Harm
    from e2e.faults.run import FaultRun

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


def carrying(harm: "Harm") -> "Harm":
    """Let the NodeUpgrade of a fault bring the kubelet's configuration and a drop-in, each with another content."""

    def with_files(run: "FaultRun") -> Iterator[None]:
        run.files = files(run.cluster, run.name)
        run.files_before = {file["path"]: state(run.cluster.node, file["path"]) for file in run.files}
        yield from harm(run)

    return with_files


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


def wrong(run: "FaultRun") -> Iterator[str]:
    """Tell which files are neither the new ones with the new kubelet, nor exactly the old ones with the old one."""
    for file in run.files:
        new = run.version_after == run.new
        wanted = FileState(file["sha256"], 0, 0, MODE) if new else run.files_before[file["path"]]
        if (found := state(run.cluster.node, file["path"])) != wanted:
            yield f"{file['path']} is {found} with kubelet {run.version_after}, not {wanted}"


def _on_disk(node: Node, path: str) -> Path:
    return node.disk / path.lstrip("/")
