"""What runs on a node at one moment, and how two moments differ: the lab's own oracle for "nothing restarted".

It shares no code with the operator, so that a bug in one is not a bug in both.
"""

from dataclasses import dataclass, fields
from typing import TypeVar


@dataclass(frozen=True, slots=True, kw_only=True)
class ContainerInstance:
    """One container as the CRI, containerd's store and the kernel know it."""

    id: str
    name: str
    pod: str  # namespace/name of its pod
    pod_uid: str  # the pod's UID, as written into the container's labels
    sandbox_id: str
    state: str  # ``CONTAINER_RUNNING``, ``CONTAINER_EXITED``, ``CONTAINER_CREATED`` or ``CONTAINER_UNKNOWN``
    attempt: int
    created_at: int  # nanoseconds since 1970, as are ``started_at`` and ``finished_at``; 0 if it did not happen
    started_at: int
    finished_at: int
    exit_code: int
    pid: int  # in the node's PID namespace; 0 when it does not run
    # ``/proc/PID/stat`` field 22, clock ticks since the host's boot; None when there is no process
    process_start: int | None
    monitor_pid: int | None  # PID of its parent, the shim; None when there is no process
    stored_hash: str  # the kubelet's hash in containerd's store; empty if there is none
    served_hash: str  # the kubelet's hash as the CRI answers it, from containerd's memory

    @property
    def running(self) -> bool:
        """Whether it is running according to the CRI."""
        return self.state == "CONTAINER_RUNNING"


@dataclass(frozen=True, slots=True, kw_only=True)
class SandboxInstance:
    """One pod sandbox; the attributes are those of ``ContainerInstance``."""

    id: str
    name: str
    pod: str
    pod_uid: str
    state: str  # ``SANDBOX_READY`` or ``SANDBOX_NOTREADY``
    attempt: int
    created_at: int
    pid: int
    process_start: int | None
    monitor_pid: int | None
    address: str  # the pod's address; empty on the host's network

    @property
    def running(self) -> bool:
        """Whether it is ready according to the CRI."""
        return self.state == "SANDBOX_READY"


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeSnapshot:
    """All containers and sandboxes of a node, ordered by id."""

    node: str
    containers: tuple[ContainerInstance, ...]
    sandboxes: tuple[SandboxInstance, ...]

    def running(self) -> tuple[ContainerInstance, ...]:
        """The containers that run."""
        return tuple(container for container in self.containers if container.running)

    def split_pods(self) -> set[str]:
        """Return the pods of which a container runs under another monitor than their sandbox."""
        monitors = {sandbox.id: sandbox.monitor_pid for sandbox in self.sandboxes if sandbox.running}
        known = (c for c in self.running() if c.monitor_pid is not None and monitors.get(c.sandbox_id) is not None)
        return {c.pod for c in known if c.monitor_pid != monitors[c.sandbox_id]}


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """One way in which an instance differs."""

    kind: str  # ``container`` or ``sandbox``
    id: str
    pod: str
    name: str
    change: str  # ``gone``, ``new``, or the name of the attribute that changed
    before: str = ""
    after: str = ""

    def __str__(self) -> str:
        """One line for people."""
        values = f" {self.before} → {self.after}" if self.before or self.after else ""
        return f"{self.kind} {self.pod}/{self.name} ({self.id[:12]}): {self.change}{values}"


_Instance = TypeVar("_Instance", ContainerInstance, SandboxInstance)

# What rewriting the stored hash changes on purpose.
HASHES = frozenset({"stored_hash", "served_hash"})


def compare(before: NodeSnapshot, after: NodeSnapshot, *, hashes: bool = False) -> list[Difference]:
    """List every difference between two snapshots of a node.

    Args:
        before: the earlier one.
        after: the later one.
        hashes: whether to report changed hashes too.

    Returns:
        Differences; none means that every instance, dead ones included, is the same.
    """
    ignored = frozenset() if hashes else HASHES
    return [
        *_compare("container", before.containers, after.containers, ignored),
        *_compare("sandbox", before.sandboxes, after.sandboxes, ignored),
    ]


def _compare(
    kind: str, before: tuple[_Instance, ...], after: tuple[_Instance, ...], ignored: frozenset[str]
) -> list[Difference]:
    olds, news = ({entry.id: entry for entry in entries} for entries in (before, after))
    found = []
    for known in sorted({**olds, **news}.values(), key=lambda entry: (entry.pod, entry.name, entry.id)):
        about = {"kind": kind, "id": known.id, "pod": known.pod, "name": known.name}
        old, new = olds.get(known.id), news.get(known.id)
        if old is None or new is None:
            found.append(Difference(**about, change="new" if old is None else "gone"))
            continue
        for field in fields(old):
            was, now = getattr(old, field.name), getattr(new, field.name)
            if was != now and field.name not in ignored:
                found.append(Difference(**about, change=field.name, before=str(was), after=str(now)))
    return found
