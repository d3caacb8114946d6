"""Small types for things that must not be mistaken for one another."""

from dataclasses import dataclass
from typing import NewType

NodeName = NewType("NodeName", str)
"""Name of a Node object."""

ContainerId = NewType("ContainerId", str)
"""Identifier the runtime gave to a container, without a ``containerd://`` prefix."""

SandboxId = NewType("SandboxId", str)
"""Identifier the runtime gave to a pod sandbox."""

PodUid = NewType("PodUid", str)
"""UID under which the kubelet runs a pod (for a static pod: the hash of its manifest, not the mirror's UID)."""

Digest = NewType("Digest", str)
"""Lower-case hexadecimal SHA-256, 64 digits."""

RunId = NewType("RunId", str)
"""Identifier of one attempt at upgrading one node."""

BootIdentity = NewType("BootIdentity", str)
"""Changes whenever the node's init process is another one: after it changed, no container survived."""

MonotonicSeconds = NewType("MonotonicSeconds", float)
"""Seconds on a clock that never jumps; comparable only within one boot."""


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class PodRef:
    """A pod as the kubelet labels it in the runtime."""

    namespace: str
    name: str
    uid: PodUid

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}"
