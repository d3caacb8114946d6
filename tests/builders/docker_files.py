"""dockerd's files as it writes them: one line, Go's escapes, its own notes around what a container was made with."""

import json

from nodeupgrade.api.values import ContainerId
from nodeupgrade.node.runtimes.docker.metadata import HASH_LABEL

ID = ContainerId("c" * 64)
OTHER = ContainerId("d" * 64)


def written(document: object) -> bytes:
    text = json.dumps(document, separators=(",", ":"), ensure_ascii=False)
    for sign in "<>&":
        text = text.replace(sign, f"\\u{ord(sign):04x}")
    return text.encode("utf-8", "surrogatepass")


def content(labels: dict[str, str], container_id: str = ID, *, pid: int = 4711, **config: object) -> bytes:
    """A whole file; dockerd's own notes may contain anything, even what looks like a label."""
    return written({
        "StreamConfig": {},
        "State": {"Running": True, "Pid": pid, "Error": f'"{HASH_LABEL}":"aaaa0000"', "Config": {}},
        "ID": container_id,
        "Created": "2026-11-20T10:00:00.000000001Z",
        "Path": "sh",
        "Config": {"Hostname": "web", "Labels": labels, **config},
        "Image": "sha256:00",
        "NetworkSettings": {"Ports": {}, "Config": None},
        "RestartCount": 0,
    })  # fmt: skip
