"""Reads and rewrites the hashes that CRI-O stores: compare, replace the file atomically, read back.

CRI-O reads ``config.json`` only when it starts and writes it only when it creates a container, so it may run meanwhile.
"""

import json
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import PurePosixPath

from nodeupgrade.adapters.cri._pb import runtime_pb2 as cri
from nodeupgrade.adapters.cri.client import Listing, Statuses, inventory_of, uses_host_network
from nodeupgrade.adapters.cri.stored import HashStore, OddMetadata
from nodeupgrade.adapters.crio.metadata import (
    CONFIG,
    STATE,
    STOPPED,
    StoredContainer,
    StoredSpecification,
    StoredState,
    decoded,
    encoded,
)
from nodeupgrade.adapters.proc.processes import ProcessTable, Stat
from nodeupgrade.api.values import ContainerId
from nodeupgrade.domain.errors import StepFailed
from nodeupgrade.domain.node.inventory import Inventory, Process
from nodeupgrade.ports.files import Files
from nodeupgrade.ports.runtime import BeforeImage

NAME = re.compile(r"[0-9A-Za-z]+")
USER_DATA = "userdata"


@dataclass(frozen=True, slots=True)
class SpecificationStore(HashStore[StoredSpecification]):
    """The files in CRI-O's storage."""

    files: Files  # the node's
    storage: Callable[[], PurePosixPath]  # returns the directory with one directory for each container

    def before_images(self, ids: Iterable[ContainerId]) -> Mapping[ContainerId, BeforeImage]:
        storage = self.storage()
        found = ((container_id, self._stored(storage, container_id)) for container_id in ids)
        return {container_id: encoded(container_id, stored) for container_id, stored in found if stored is not None}

    def text(self, image: BeforeImage) -> StoredSpecification:
        before = decoded(image)
        return StoredSpecification(image.container_id, before.config, before.path(CONFIG))

    def present(self, texts: Iterable[StoredSpecification]) -> Iterable[StoredSpecification]:
        for text in texts:
            if (data := self.files.read(text.path)) is None:
                raise text.gone()
            self.files.tidy(text.path)
            yield replace(text, data=data)

    def put(self, texts: Iterable[StoredSpecification]) -> None:
        for text in texts:
            self.replace(text.path, text.data, text.container_id)

    def _stored(self, storage: PurePosixPath, container_id: ContainerId) -> StoredContainer | None:
        directory = _directory(storage, container_id)
        config = self.files.read(directory / CONFIG)
        if config is None:
            return None
        state = self.files.read(directory / STATE)
        if state is None:
            raise OddMetadata(f"there is no {STATE} of container {container_id}, without which CRI-O would delete it")
        sandbox = self._sandbox(storage, container_id, config)
        return StoredContainer(directory=str(directory), config=config, state=state, sandbox=sandbox)

    def _sandbox(self, storage: PurePosixPath, container_id: ContainerId, config: bytes) -> StoredState | None:
        """Return what is stored of a container's pod, if that has a process of its own and was not stopped."""
        directory = _directory(storage, StoredSpecification(container_id, config).sandbox())
        state = self.files.read(directory / STATE)
        found = None if state is None else StoredState(directory=str(directory), state=state)
        if found is None or found.process is None or self.files.read(directory / STOPPED) is not None:
            return None
        return found

    def replace(self, path: PurePosixPath, data: bytes, container_id: ContainerId) -> None:
        """Replace a file of a container, and read it back.

        Raises:
            StepFailed: the file does not hold the data now.
        """
        self.files.write(path, data)
        if self.files.read(path) != data:
            raise StepFailed(
                f"cannot trust {path} of container {container_id} because it does not hold what was just "
                "written; the bytes to put back are in the journal"
            )


def _directory(storage: PurePosixPath, identity: str) -> PurePosixPath:
    if not NAME.fullmatch(identity):
        raise OddMetadata(f"cannot look for {identity!r} in CRI-O's storage because that is not an id of CRI-O's")
    return storage / identity / USER_DATA


# Builds the Inventory of a node from the answers of the CRI, and from ``/proc``.
#
# Each container has a conmon of its own, the parent of its first process, which keeps its output and its exit code. A
# pod has a process of its own only if its containers share their PIDs; otherwise CRI-O keeps nothing but its
# namespaces.

CONMON = "conmon"


def pid_in(info: Mapping[str, str]) -> int:
    """Return the PID in a verbose status; 0 if there is none, as for a pod without a process of its own."""
    try:
        pid = json.loads(info["info"]).get("pid", 0)
        return int(pid)
    except (KeyError, ValueError, TypeError, AttributeError):
        return 0


@dataclass(slots=True)
class Known:
    """What was asked of CRI-O once about each container and pod, by id."""

    pids: dict[str, int] = field(default_factory=dict)  # PID of the first process; 0 if there is none
    # when the OCI runtime created a container, in nanoseconds since the epoch. The time in CRI-O's *list* is another
    # one before CRI-O's first restart than after it.
    created: dict[str, int] = field(default_factory=dict)
    networks: dict[str, bool] = field(default_factory=dict)  # whether a pod is in the node's network

    def learn(
        self,
        containers: Mapping[str, cri.ContainerStatusResponse],
        sandboxes: Mapping[str, cri.PodSandboxStatusResponse],
    ) -> None:
        """Keep what verbose statuses say."""
        self.pids |= {i: pid_in(status.info) for i, status in containers.items()}
        self.pids |= {i: pid_in(status.info) for i, status in sandboxes.items()}
        self.date(containers)
        self.networks |= {i: uses_host_network(status) for i, status in sandboxes.items()}

    def date(self, containers: Mapping[str, cri.ContainerStatusResponse]) -> None:
        """Keep when containers were created."""
        self.created |= {i: status.status.created_at for i, status in containers.items()}


def to_inventory(listing: Listing, statuses: Statuses, known: Known, processes: ProcessTable) -> Inventory:
    """Build the inventory; ``known`` is what was asked before."""

    def conmon(stat: Stat, identity: str) -> Process | None:
        """Return the conmon of a process: its parent, if that was started for this container and still watches it.

        Whoever adopted the process of a conmon that died is not one.
        """
        parent = processes.stat(stat.parent)
        if parent is None or parent.command != CONMON or identity not in (processes.arguments(parent.pid) or ()):
            return None
        return parent.process

    return inventory_of(
        listing,
        statuses,
        processes,
        monitor=conmon,
        pod_monitor=conmon,
        host_network=lambda _stat, sandbox: known.networks.get(sandbox, False),
        created=known.created,
    )
