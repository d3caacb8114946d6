"""Small types for values that must not be confused with one another."""

from dataclasses import dataclass
from enum import StrEnum
from typing import NewType

NodeName = NewType("NodeName", str)
"""Name of a Node object."""

ContainerId = NewType("ContainerId", str)
"""ID that the runtime gave to a container, without a prefix such as ``containerd://``."""

SandboxId = NewType("SandboxId", str)
"""ID that the runtime gave to a pod sandbox."""

PodUid = NewType("PodUid", str)
"""UID under which the kubelet runs a pod (for a static pod: the hash of its manifest, not the mirror pod's UID)."""

Digest = NewType("Digest", str)
"""Lower-case hexadecimal SHA-256, 64 digits."""

RunId = NewType("RunId", str)
"""ID of one attempt at upgrading one node."""

BootIdentity = NewType("BootIdentity", str)
"""Changes whenever the node's init process is a new one. If it has changed, no container has survived."""

MonotonicSeconds = NewType("MonotonicSeconds", float)
"""Seconds since boot, including time spent suspended (CLOCK_BOOTTIME); comparable only within one boot."""


@dataclass(frozen=True, slots=True, order=True)
class AwakeTime:
    """A moment on the clock that stands still while the node is suspended (CLOCK_MONOTONIC), as systemd uses it.

    A type of its own, since on a node that was ever suspended it cannot be compared with MonotonicSeconds.
    Comparable only within one boot.
    """

    seconds: float

    def __add__(self, seconds: float) -> "AwakeTime":
        return AwakeTime(self.seconds + seconds)

    def __sub__(self, earlier: "AwakeTime") -> float:
        return self.seconds - earlier.seconds


FullName = tuple[str, str]
"""Namespace and name of a pod, by which a kubelet pairs static pods and mirror pods."""


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class PodRef:
    """A pod as the kubelet labels it in the runtime."""

    namespace: str
    name: str
    uid: PodUid

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}"

    @property
    def full_name(self) -> FullName:
        """Return its namespace and name."""
        return self.namespace, self.name


class Verdict(StrEnum):
    """How the control plane counts a finished run."""

    PRECHECKED = "Prechecked"
    SUCCEEDED = "Succeeded"
    REFUSED = "Refused"
    FAILED = "Failed"
    ROLLED_BACK = "RolledBack"
    ROLLBACK_FAILED = "RollbackFailed"


class RunKind(StrEnum):
    """The purpose of a run. Encoded in its ID, so that it stays the same when the task's action changes."""

    UPGRADE = "Upgrade"
    PRECHECK = "Precheck"
    """Only checks the node, for ``action: Plan``."""
