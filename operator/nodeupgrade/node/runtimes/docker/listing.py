"""Builds the Inventory of a node from dockerd's answers and from ``/proc``."""

import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from math import trunc
from typing import Any

from nodeupgrade.api.values import ContainerId, PodRef, PodUid, SandboxId
from nodeupgrade.errors import StepFailed
from nodeupgrade.node.host.processes.process import Process
from nodeupgrade.node.host.processes.processes import ProcessTable, Stat
from nodeupgrade.node.runtimes.cri.hash_annotations import served_hashes
from nodeupgrade.node.runtimes.cri.listing import sort_inventory
from nodeupgrade.node.runtimes.docker.client import TYPE_LABEL, Document
from nodeupgrade.node.runtimes.docker.metadata import ANNOTATION, HASH_LABELS
from nodeupgrade.node.runtimes.inventory import ContainerInstance, ContainerState, Inventory, SandboxInstance
from nodeupgrade.text import integer, lines, number, parse_time, words

CONTAINER, SANDBOX = "container", "podsandbox"
"""Values of TYPE_LABEL."""
LABELS = "io.kubernetes."
UID_LABEL = f"{LABELS}pod.uid"
SHIM = "containerd-shim"
"""The first 15 bytes of the names of shims, of which each container has one."""
STATES = {
    "created": ContainerState.CREATED,
    "running": ContainerState.RUNNING,
    "paused": ContainerState.RUNNING,
    "exited": ContainerState.EXITED,
    "dead": ContainerState.EXITED,
}
NAME = re.compile(r"/k8s(?:_[^_]*){4}_([0-9]{1,10})(?:_[^_]*)?")
"""k8s_CONTAINER_POD_NAMESPACE_UID_ATTEMPT; after a conflict of names, a number more. As dockershim parses it."""
FRACTION = re.compile("[.,]([0-9]+)")


@dataclass(frozen=True, slots=True, kw_only=True)
class Details:
    """The details of a container. Only its end changes them once it runs."""

    created_at: int  # nanoseconds since the epoch, as is ``started_at``
    pid: int  # of its first process; 0 unless it runs
    started_at: int | None
    exit_code: int


def read_details(inspected: Document) -> Details:
    """Read the details of a container.

    Raises:
        StepFailed: dockerd's answer has an unknown form.
    """
    try:
        state = inspected["State"]
        return Details(
            created_at=parse_nanoseconds(inspected["Created"]) or 0,
            pid=integer(state["Pid"]) if state["Running"] else 0,
            started_at=parse_nanoseconds(state["StartedAt"]),
            exit_code=integer(state["ExitCode"]),
        )
    except (KeyError, TypeError, ValueError) as error:
        raise StepFailed(f"cannot read dockerd's details of a container: {error!r}") from error


def shown_to_kubelets(listed: Iterable[Document]) -> list[Document]:
    """Return what kubelets see of the containers that dockerd lists; dockershim leaves out the others, by their names.

    Any container has the labels of its image, which may be one of a pod's container (``docker commit``). A container
    that dockerd has begun to remove has no name.

    Raises:
        StepFailed: dockerd's answer has an unknown form.
    """
    with _reading():
        return [entry for entry in listed if _name(entry) is not None]


def is_running(listed: Document) -> bool:
    """Report whether a listed container has a process."""
    return STATES.get(str(listed.get("State"))) is ContainerState.RUNNING


def pod_uid(listed: Document) -> PodUid:
    """Return the UID of a listed container's pod; empty if it has none."""
    labels = listed.get("Labels")
    return PodUid(str(labels.get(UID_LABEL, ""))) if isinstance(labels, Mapping) else PodUid("")


def to_inventory(
    listed: Iterable[Document],
    known: Mapping[str, Details],
    processes: ProcessTable,
    *,
    requested: frozenset[str],
    addresses: bool,
) -> Inventory:
    """Build the inventory.

    Args:
        listed: the containers, as shown_to_kubelets() returns them.
        known: their details; containers without details are gone, and left out.
        processes: the node's.
        requested: ids of which to include start times, exit codes and addresses.
        addresses: include the addresses of sandboxes.

    Raises:
        StepFailed: dockerd's answer has an unknown form.
    """
    containers, sandboxes = [], []
    with _reading():
        for entry in listed:
            if (about := known.get(entry["Id"])) is None:
                continue
            if entry["Labels"].get(TYPE_LABEL) == CONTAINER:
                containers.append(_container(entry, about, processes, full=entry["Id"] in requested))
            elif entry["Labels"].get(TYPE_LABEL) == SANDBOX:
                sandboxes.append(_sandbox(entry, about, processes, addresses=addresses or entry["Id"] in requested))
    return sort_inventory(containers, sandboxes)


@contextmanager
def _reading() -> Iterator[None]:
    try:
        yield
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise StepFailed(f"cannot read dockerd's list of containers: {error!r}") from error


def parse_nanoseconds(text: str) -> int | None:
    """Parse dockerd's notation of a time into nanoseconds since 1970; ``None`` for the zero time.

    Raises:
        ValueError: this is not a time.
    """
    moment = parse_time(text).replace(microsecond=0)
    if moment.year <= 1:
        return None
    found = FRACTION.search(text)
    return trunc(moment.timestamp()) * 1_000_000_000 + (number((found[1] if found else "")[:9].ljust(9, "0")) or 0)


def _container(entry: Document, about: Details, processes: ProcessTable, *, full: bool) -> ContainerInstance:
    labels = entry["Labels"]
    state = STATES.get(entry["State"], ContainerState.UNKNOWN)
    stat = processes.stat(about.pid) if state is ContainerState.RUNNING else None
    return ContainerInstance(
        id=ContainerId(entry["Id"]),
        name=str(labels.get(f"{LABELS}container.name", "")),
        sandbox_id=SandboxId(str(labels.get(f"{LABELS}sandbox.id", ""))),
        pod=_pod(labels),
        state=state,
        attempt=_attempt(entry),
        created_at=about.created_at,
        hashes=served_hashes(labels, HASH_LABELS),
        started_at=about.started_at if full else None,
        process=None if stat is None else stat.process,
        monitor=_shim(stat, processes),
        exit_code=about.exit_code if full and state is ContainerState.EXITED else None,
    )


def _sandbox(entry: Document, about: Details, processes: ProcessTable, *, addresses: bool) -> SandboxInstance:
    labels = entry["Labels"]
    ready = is_running(entry)
    stat = processes.stat(about.pid) if ready else None
    host_network = entry.get("HostConfig", {}).get("NetworkMode") == "host"
    return SandboxInstance(
        id=SandboxId(entry["Id"]),
        pod=_pod(labels),
        ready=ready,
        attempt=_attempt(entry),
        created_at=about.created_at,
        host_network=host_network,
        process=None if stat is None else stat.process,
        monitor=_shim(stat, processes),
        ip=_ip(stat, processes, host_network=host_network) if addresses else None,
        config_source=labels.get(f"{ANNOTATION}kubernetes.io/config.source"),
        static_hash=labels.get(f"{ANNOTATION}kubernetes.io/config.hash"),
    )


def _ip(stat: Stat | None, processes: ProcessTable, *, host_network: bool) -> str:
    """Return a pod's address from the kernel: Docker does not know the address that CNI assigned."""
    return "" if host_network or stat is None else pod_address(processes, stat.pid)


def _pod(labels: Mapping[str, Any]) -> PodRef:
    """Return the pod; of a container that only has a kubelet's name, an empty one, as kubelets take it."""
    return PodRef(
        namespace=str(labels.get(f"{LABELS}pod.namespace", "")),
        name=str(labels.get(f"{LABELS}pod.name", "")),
        uid=PodUid(str(labels.get(UID_LABEL, ""))),
    )


def _attempt(entry: Document) -> int:
    """Return the attempt, which is only in the container's name."""
    found = _name(entry)
    if found is None:
        raise ValueError(f"no kubelet names a container {entry['Names']}")
    return number(found[1]) or 0


def _name(entry: Document) -> re.Match[str] | None:
    """Return the name that a kubelet gave to a container. It has more if another one was made with ``--link``."""
    return next((match for name in entry["Names"] or () if (match := NAME.fullmatch(name))), None)


def _shim(stat: Stat | None, processes: ProcessTable) -> Process | None:
    """Return the parent of a process, if it is a shim; the adopter of an orphan is not."""
    parent = None if stat is None else processes.stat(stat.parent)
    return parent.process if parent is not None and parent.command == SHIM else None


LOCAL = re.compile(r"\|-- (\d+(?:\.\d+){3})\n +/32 host LOCAL", re.ASCII)
LOOPBACK = "127."
GLOBAL_SCOPE = "00"


def pod_address(processes: ProcessTable, pid: int) -> str:
    """Return the first address of a process's network other than the loopback; empty if it has none."""
    trie = processes.text(pid, "net/fib_trie")
    found = sorted({each for each in LOCAL.findall(trie) if not each.startswith(LOOPBACK)})
    return found[0] if found else _sixth(processes, pid)


def _sixth(processes: ProcessTable, pid: int) -> str:
    """Return the first IPv6 address with global scope, written as the kernel does: 32 digits."""
    addresses = map(words, lines(processes.text(pid, "net/if_inet6")))
    found = sorted(fields[0] for fields in addresses if len(fields) > 3 and fields[3] == GLOBAL_SCOPE)
    return found[0] if found else ""
