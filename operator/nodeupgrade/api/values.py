"""Small types for values that must not be confused with one another."""

import re
from dataclasses import dataclass
from datetime import timedelta
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


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class PodRef:
    """A pod as the kubelet labels it in the runtime."""

    namespace: str
    name: str
    uid: PodUid

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}"


class Verdict(StrEnum):
    """How the control plane counts a finished run."""

    PRECHECKED = "Prechecked"
    SUCCEEDED = "Succeeded"
    REFUSED = "Refused"
    FAILED = "Failed"
    ROLLED_BACK = "RolledBack"
    ROLLBACK_FAILED = "RollbackFailed"


# Parses and renders durations as people write them in API objects: ``90s``, ``15m``, ``1h30m``.

PATTERN = r"(?=.)(?:(\d+)h)?(?:(\d+)m)?(?:(\d+)s)?"
_DURATION = re.compile(PATTERN)


def parse_duration(text: object) -> timedelta:
    """Parse a duration in whole seconds.

    Raises:
        ValueError: The text is not a duration.
    """
    match = _DURATION.fullmatch(text) if isinstance(text, str) else None
    if match is None:
        raise ValueError(f"{text!r} is not a duration such as 90s, 15m or 1h30m")
    hours, minutes, seconds = (int(part or 0) for part in match.groups())
    try:
        return timedelta(hours=hours, minutes=minutes, seconds=seconds)
    except OverflowError:
        raise ValueError(f"{text!r} is longer than any rollout") from None


def render_duration(duration: timedelta) -> str:
    """Write a duration in whole seconds, in the shortest form."""
    minutes, seconds = divmod(int(duration.total_seconds()), 60)
    hours, minutes = divmod(minutes, 60)
    parts = [(hours, "h"), (minutes, "m"), (seconds, "s")]
    return "".join(f"{number}{unit}" for number, unit in parts if number) or "0s"


# A number of nodes, as an integer or a percentage: Kubernetes' IntOrString with a fixed meaning.

_PERCENT = re.compile(r"(100|[1-9]?[0-9])%")


@dataclass(frozen=True, slots=True)
class IntOrPercent:
    """A number of nodes, or a percentage of all nodes."""

    number: int
    percent: bool = False

    @classmethod
    def parse(cls, value: object) -> "IntOrPercent":
        """Parse an integer such as ``2`` or a percentage such as ``"10%"``.

        Raises:
            ValueError: The value is neither, or negative.
        """
        if isinstance(value, int) and not isinstance(value, bool) and value >= 0:
            return cls(value)
        if isinstance(value, str) and (match := _PERCENT.fullmatch(value)):
            return cls(int(match[1]), percent=True)
        raise ValueError(f"{value!r} is neither a number of nodes nor a percentage such as 10%")

    def of(self, total: int) -> int:
        """Return the number of nodes out of ``total``. Percentages round down, but to at least 1 unless they are 0%."""
        if not self.percent:
            return self.number
        return max(1, total * self.number // 100) if self.number else 0

    def render(self) -> int | str:
        """Write the value in the form that `parse` reads."""
        return f"{self.number}%" if self.percent else self.number

    def __str__(self) -> str:
        return str(self.render())


# The base class of this project's errors, for packages below the domain.


class NodeUpgradeError(Exception):
    """Base class of all errors that this project raises on purpose."""
