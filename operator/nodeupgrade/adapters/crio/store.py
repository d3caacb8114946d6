"""Reads and rewrites the hashes that CRI-O stores: compare, replace the file atomically, read back.

CRI-O reads ``config.json`` only when it starts and writes it only when it creates a container, so it may run meanwhile.
"""

import json
import re
from collections.abc import Iterable, Mapping
from pathlib import PurePosixPath

from nodeupgrade.adapters.cri._pb import runtime_pb2 as cri
from nodeupgrade.adapters.cri.client import (
    Listing,
    Statuses,
    container_of,
    in_order,
    is_ready,
    is_running,
    sandbox_of,
)
from nodeupgrade.adapters.crio.metadata import (
    CONFIG,
    STATE,
    OddSpecification,
    StoredContainer,
    decoded,
    encoded,
    is_ended,
    rewritten,
)
from nodeupgrade.adapters.proc import ProcessTable
from nodeupgrade.adapters.proc.processes import Stat
from nodeupgrade.api.values import ContainerId
from nodeupgrade.domain.errors import ContainerGone, MetadataConflict, StepFailed
from nodeupgrade.domain.node.inventory import Inventory, Process, StoredHashes
from nodeupgrade.ports.files import Files
from nodeupgrade.ports.runtime import BeforeImage

NAME = re.compile(r"[0-9A-Za-z]+")
USER_DATA = "userdata"


class SpecificationStore:
    """The hashes stored in CRI-O's storage."""

    def __init__(self, files: Files) -> None:
        self._files = files

    def before_images(self, storage: PurePosixPath, ids: Iterable[ContainerId]) -> Mapping[ContainerId, BeforeImage]:
        """Return the stored files by container; missing containers are left out.

        Args:
            storage: directory with one directory for each container.
            ids: of the containers.

        Raises:
            OddSpecification: the files of a container cannot be rewritten.
        """
        found = ((container_id, self._stored(storage, container_id)) for container_id in ids)
        return {container_id: encoded(container_id, stored) for container_id, stored in found if stored is not None}

    def rewrite(self, changes: Iterable[tuple[BeforeImage, StoredHashes]]) -> None:
        """Replace the hashes of the before-images. Nothing is written unless every change can be made.

        A container that already has the wanted file is left alone.

        Raises:
            MetadataConflict: the stored file is neither the before-image's nor the wanted one.
            ContainerGone: there is no such container.
            OddSpecification: a before-image cannot be rewritten.
        """
        writes: dict[PurePosixPath, tuple[BeforeImage, bytes]] = {}
        for image, hashes in changes:
            before = decoded(image)
            wanted = rewritten(image.container_id, before.config, hashes)
            present = self._present(image, before)
            if present not in {before.config, wanted}:
                raise _conflict(image)
            if present != wanted:
                writes[before.config_path] = image, wanted
        for path, (image, wanted) in writes.items():
            self._put(path, wanted, image)

    def restore(self, image: BeforeImage) -> None:
        """Store the specification of the before-image again. See reinstate() for the state.

        Raises:
            MetadataConflict: the stored file differs from the before-image's in more than its hashes.
            ContainerGone: there is no such container.
        """
        before = decoded(image)
        present = self._present(image, before)
        self._files.tidy(before.config_path)
        if present == before.config:
            return
        try:
            restored = rewritten(image.container_id, present, image.hashes)
        except OddSpecification as error:
            raise _conflict(image) from error
        if restored != before.config:
            raise _conflict(image)
        self._put(before.config_path, before.config, image)

    def taken_for_ended(self, images: Iterable[BeforeImage]) -> tuple[BeforeImage, ...]:
        """Return the images of containers that CRI-O has come to take for ended."""
        return tuple(image for image in images if self._is_taken_for_ended(image, decoded(image)))

    def _is_taken_for_ended(self, image: BeforeImage, before: StoredContainer) -> bool:
        now = self._files.read(before.state_path)
        ran = not is_ended(image.container_id, before.state)
        return ran and now is not None and is_ended(image.container_id, now)

    def reinstate(self, image: BeforeImage) -> None:
        """Store the state of the before-image again. CRI-O must be stopped.

        Raises:
            ContainerGone: there is no such container.
        """
        before = decoded(image)
        self._present(image, before)
        self._put(before.state_path, before.state, image)

    def _stored(self, storage: PurePosixPath, container_id: ContainerId) -> StoredContainer | None:
        if not NAME.fullmatch(container_id):
            raise OddSpecification(f"cannot look for container {container_id!r} because that is not an id of CRI-O's")
        directory = storage / container_id / USER_DATA
        config = self._files.read(directory / CONFIG)
        if config is None:
            return None
        state = self._files.read(directory / STATE)
        if state is None:
            raise OddSpecification(
                f"there is no {STATE} of container {container_id}, without which CRI-O would delete it"
            )
        return StoredContainer(directory=directory, config=config, state=state)

    def _present(self, image: BeforeImage, before: StoredContainer) -> bytes:
        if (present := self._files.read(before.config_path)) is None:
            raise ContainerGone(
                f"cannot change the stored hash of container {image.container_id} because CRI-O no longer holds it"
            )
        return present

    def _put(self, path: PurePosixPath, data: bytes, image: BeforeImage) -> None:
        self._files.write(path, data)
        if self._files.read(path) != data:
            raise StepFailed(
                f"cannot trust {path} of container {image.container_id} because it does not hold what was just "
                "written; the bytes to put back are in the journal"
            )


def _conflict(image: BeforeImage) -> MetadataConflict:
    return MetadataConflict(
        f"cannot change the stored hash of container {image.container_id} because its config.json is not what was "
        "read before; somebody else wrote it, and it was left as it is"
    )


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


def to_inventory(
    listing: Listing, statuses: Statuses, networks: Mapping[str, bool], processes: ProcessTable
) -> Inventory:
    """Build the inventory.

    Args:
        listing: all records.
        statuses: those that were requested.
        networks: whether a pod is in the node's network, by sandbox id.
        processes: the node's.
    """
    pods = listing.pods()
    containers = []
    for item in listing.containers:
        stat = processes.stat(listing.pids.get(item.id, 0)) if is_running(item) else None
        process, monitor = _process(stat), _conmon(item.id, stat, processes)
        status = statuses.containers.get(item.id)
        containers.append(container_of(item, status, pods, process=process, monitor=monitor))
    sandboxes = []
    for pod in listing.sandboxes:
        stat = processes.stat(listing.pids.get(pod.id, 0)) if is_ready(pod) else None
        sandboxes.append(
            sandbox_of(
                pod,
                statuses.sandboxes.get(pod.id),
                host_network=networks.get(pod.id, False),
                process=_process(stat),
                monitor=_conmon(pod.id, stat, processes),
            )
        )
    return in_order(containers, sandboxes)


def unknown(
    containers: tuple[cri.Container, ...], sandboxes: tuple[cri.PodSandbox, ...], known: Mapping[str, int]
) -> tuple[list[str], list[str]]:
    """Return the running containers and ready sandboxes whose process was not asked for yet."""
    return (
        [c.id for c in containers if is_running(c) and c.id not in known],
        [s.id for s in sandboxes if is_ready(s) and s.id not in known],
    )


def _process(stat: Stat | None) -> Process | None:
    return None if stat is None else stat.process


def _conmon(identity: str, stat: Stat | None, processes: ProcessTable) -> Process | None:
    """Return the conmon of a process: its parent, if that was started for this container and still watches it.

    Whoever adopted the process of a conmon that died is not one.
    """
    parent = None if stat is None else processes.stat(stat.parent)
    if parent is None or parent.command != CONMON or identity not in (processes.arguments(parent.pid) or ()):
        return None
    return parent.process
