"""Reads and rewrites the hashes that containerd stores: compare, set, and check what containerd reports as written.

containerd has no compare-and-set, so this is safe only while nothing else writes the same record. That holds
while no kubelet runs: the only other writer is the CRI's UpdateContainerResources.
"""

import json
from collections.abc import Collection, Iterable, Mapping
from functools import partial
from pathlib import PurePosixPath
from typing import Any

from google.protobuf.any_pb2 import Any as Packed

from nodeupgrade.adapters.containerd._pb import containerd_pb2 as pb
from nodeupgrade.adapters.containerd.client import ContainerdClient
from nodeupgrade.adapters.cri._pb import runtime_pb2 as cri
from nodeupgrade.adapters.cri.client import (
    Listing,
    Statuses,
    container_of,
    in_order,
    is_ready,
    is_running,
    sandbox_of,
    uses_host_network,
)
from nodeupgrade.adapters.cri.stored import (
    OddMetadata,
    SingleHashes,
    conflict,
    gone,
    odd,
    require_other_hashes_only,
)
from nodeupgrade.adapters.proc import INIT, ProcessTable
from nodeupgrade.adapters.proc.processes import Stat
from nodeupgrade.api.values import ContainerId, PodRef
from nodeupgrade.domain.errors import StepFailed
from nodeupgrade.domain.node.inventory import ContainerInstance, Inventory, Process, SandboxInstance, StoredHashes
from nodeupgrade.ports.runtime import BeforeImage


class HashStore:
    """The hashes stored in one containerd."""

    def __init__(self, client: ContainerdClient) -> None:
        self._client = client

    def before_images(self, ids: Iterable[ContainerId]) -> Mapping[ContainerId, BeforeImage]:
        """Return the stored metadata by container; missing containers are left out.

        Raises:
            OddMetadata: the metadata of a container cannot be rewritten.
        """
        return {ContainerId(record.id): _image(record) for record in self._client.get_all(ids)}

    def rewrite(self, changes: Iterable[tuple[BeforeImage, StoredHashes]]) -> None:
        """Replace the hashes of the before-images. Nothing is written unless every change can be made.

        A container that already has the wanted document is left alone.

        Raises:
            MetadataConflict: the stored document is neither the before-image nor the wanted one.
            ContainerGone: there is no such container.
            OddMetadata: a before-image cannot be rewritten.
        """
        wanted = {
            image.container_id: (image, rewritten(image.container_id, image.encoding, image.data, hashes))
            for image, hashes in changes
        }
        records = self._records(wanted)
        writes: dict[ContainerId, Packed] = {}
        for container_id, (image, data) in wanted.items():
            stored = records[container_id].extensions[EXTENSION]
            if (stored.type_url, stored.value) == (image.encoding, data):
                continue
            if (stored.type_url, stored.value) != (image.encoding, image.data):
                raise conflict(container_id, "metadata")
            writes[container_id] = Packed(type_url=image.encoding, value=data)
        self._put(records, writes)

    def restore(self, image: BeforeImage) -> None:
        """Store the bytes of the before-image again.

        Raises:
            MetadataConflict: the stored document differs from the before-image in more than its hashes.
            ContainerGone: there is no such container.
        """
        records = self._records([image.container_id])
        stored = records[image.container_id].extensions[EXTENSION]
        if (stored.type_url, stored.value) == (image.encoding, image.data):
            return
        require_other_hashes_only(
            partial(rewritten, image.container_id, stored.type_url, stored.value, image.hashes),
            image.data,
            conflict(image.container_id, "metadata"),
        )
        self._put(records, {image.container_id: Packed(type_url=image.encoding, value=image.data)})

    def _records(self, ids: Collection[ContainerId]) -> dict[ContainerId, pb.Container]:
        return _all_of(ids, self._client.get_all(ids))

    def _put(self, before: Mapping[ContainerId, pb.Container], writes: Mapping[ContainerId, Packed]) -> None:
        after = _all_of(writes, self._client.update_extensions(EXTENSION, writes.items()))
        for container_id, value in writes.items():
            expected = pb.Container()
            expected.CopyFrom(before[container_id])
            expected.extensions[EXTENSION].CopyFrom(value)
            expected.updated_at.CopyFrom(after[container_id].updated_at)
            if after[container_id] != expected:
                raise StepFailed(
                    f"cannot trust the update of container {container_id} because containerd wrote something else "
                    "than it was asked to; the bytes to put back are in the journal"
                )


def _all_of(ids: Collection[ContainerId], records: Iterable[pb.Container]) -> dict[ContainerId, pb.Container]:
    found = {ContainerId(record.id): record for record in records}
    for container_id in ids:
        if container_id not in found:
            raise gone(container_id, runtime=RUNTIME)
    return found


def _image(record: pb.Container) -> BeforeImage:
    stored = record.extensions[EXTENSION]
    container_id = ContainerId(record.id)
    hashes = read_hashes(container_id, stored.type_url, stored.value)
    return BeforeImage(container_id=container_id, encoding=stored.type_url, data=stored.value, hashes=hashes)


# Builds the Inventory of a node from the answers of the CRI and containerd, and from ``/proc``.

SHIM_OF_PODS = "containerd-shim-runc-v2"
"""The shim that serves a whole pod. Older shims serve one container each; containers in virtual machines are not
children of their shim."""
# The kernel keeps only the first 15 bytes of a program's name, which all shims share.
SHIM = "containerd-shim"


def to_inventory(listing: Listing, statuses: Statuses, processes: ProcessTable) -> Inventory:
    """Build the inventory."""
    pods, node_network = listing.pods(), processes.network(INIT)
    return in_order(
        (_container(c, listing, statuses, processes, pods) for c in listing.containers),
        (_sandbox(s, listing, statuses, processes, node_network) for s in listing.sandboxes),
    )


def _container(
    item: cri.Container, listing: Listing, statuses: Statuses, processes: ProcessTable, pods: Mapping[str, PodRef]
) -> ContainerInstance:
    status = statuses.containers.get(item.id)
    stat = processes.stat(listing.pids.get(item.id, 0)) if is_running(item) else None
    return container_of(
        item,
        status,
        pods,
        process=None if stat is None else stat.process,
        monitor=_shim_of_pods(stat, processes) if status and stat else None,
    )


def _shim_of_pods(stat: Stat, processes: ProcessTable) -> Process | None:
    """Return the parent shim of a process, if it is of the kind that serves a whole pod."""
    parent = processes.stat(stat.parent)
    arguments = processes.arguments(stat.parent) if parent is not None and parent.command == SHIM else None
    return parent.process if parent and arguments and PurePosixPath(arguments[0]).name == SHIM_OF_PODS else None


def _sandbox(
    item: cri.PodSandbox, listing: Listing, statuses: Statuses, processes: ProcessTable, node_network: str | None
) -> SandboxInstance:
    stat = processes.stat(listing.pids.get(item.id, 0)) if is_ready(item) else None
    # The shim starts the sandbox's first process and adopts orphans; another parent means that the shim died.
    parent = processes.stat(stat.parent) if stat else None
    status = statuses.sandboxes.get(item.id)
    in_node = stat is not None and processes.network(stat.pid) == node_network
    return sandbox_of(
        item,
        status,
        host_network=uses_host_network(status) if status else in_node,
        process=stat.process if stat else None,
        monitor=parent.process if parent and parent.command == SHIM else None,
    )


# Replaces the hashes in a container's stored metadata and leaves every other byte unchanged.
#
# containerd's CRI plugin keeps a container's configuration as JSON in a ``google.protobuf.Any`` under the extension
# key ``io.cri-containerd.container.metadata`` of the container's record; type URL, version and shape are the same
# from containerd 1.4 to 2.3. containerd does not validate such a document when it is stored, but a container whose
# document it cannot read vanishes from the CRI at its next start. So the document is never parsed and serialized
# again: two strings are replaced in the bytes, and everything else is proven to be unchanged.

EXTENSION = "io.cri-containerd.container.metadata"
TYPE_URL = "github.com/containerd/cri/pkg/store/container/Metadata"
VERSION = "v1"
RUNTIME = "containerd"


def read_hashes(container_id: ContainerId, type_url: str, data: bytes) -> StoredHashes:
    """Return the hash annotations of a stored document, after proving that they can be replaced.

    Raises:
        OddMetadata: the document is not what containerd's CRI plugin writes for this container.
    """
    if type_url != TYPE_URL:
        raise _odd(container_id, f"its type is {type_url!r}, not {TYPE_URL!r}")
    return _hashes(container_id).read(data)


def rewritten(container_id: ContainerId, type_url: str, data: bytes, wanted: StoredHashes) -> bytes:
    """Return the document with other hashes and every other byte unchanged.

    A hash that is ``None`` in ``wanted`` is kept; a missing annotation is never added.

    Raises:
        OddMetadata: as for read_hashes(), or a wanted value is not a hash.
    """
    read_hashes(container_id, type_url, data)
    return _hashes(container_id).rewritten(data, wanted)


def _hashes(container_id: ContainerId) -> SingleHashes:
    return SingleHashes(
        document=partial(_parsed, container_id),
        values=partial(_annotations, container_id),
        entry=_needle,
        complain=partial(_odd, container_id),
    )


def _parsed(container_id: ContainerId, data: bytes) -> dict[str, Any]:
    try:
        document = json.loads(data)
    except ValueError as error:
        raise _odd(container_id, f"it is not JSON ({error})") from error
    match document:
        case {"Version": version, "Metadata": {"ID": stored_id}}:
            if version != VERSION:
                raise _odd(container_id, f"its version is {version!r}, not {VERSION!r}")
            if stored_id != container_id:
                raise _odd(container_id, f"it belongs to container {stored_id}")
            return dict(document)
        case _:
            raise _odd(container_id, "it has no Version, Metadata and ID")


def _annotations(container_id: ContainerId, document: dict[str, Any]) -> dict[str, Any]:
    match document:
        case {"Metadata": {"Config": {"annotations": dict(annotations)}}}:
            return annotations
        case {"Metadata": {"Config": dict()}}:
            return {}
        case _:
            raise _odd(container_id, "it has no container configuration")


def _needle(key: str, value: str) -> bytes:
    return f'"{key}":"{value}"'.encode("ascii")


def _odd(container_id: ContainerId, why: str) -> OddMetadata:
    return odd(container_id, why, runtime=RUNTIME)
