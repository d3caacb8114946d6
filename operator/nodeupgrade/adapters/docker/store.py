"""The stored hashes of all containers: labels in dockerd's files, written while dockerd is stopped."""

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import PurePosixPath

from nodeupgrade.adapters.cri.stored import conflict, gone
from nodeupgrade.adapters.docker import labels
from nodeupgrade.api.values import ContainerId
from nodeupgrade.domain.errors import StepFailed
from nodeupgrade.domain.node.inventory import StoredHashes
from nodeupgrade.ports.files import Files
from nodeupgrade.ports.runtime import BeforeImage

FILE = "config.v2.json"
CONTAINER_ID = re.compile(r"[0-9a-f]{64}")


@dataclass(frozen=True, slots=True, kw_only=True)
class LabelStore:
    """The files of one dockerd.

    Attributes:
        files: the node's files.
        root: returns dockerd's directory.
        stop: stops dockerd, unless it is stopped; dockerd writes its files while it runs, and overwrites ours.
        stopped: reports whether it is stopped.
    """

    files: Files
    root: Callable[[], PurePosixPath]
    stop: Callable[[], None]
    stopped: Callable[[], bool]

    def before_images(self, ids: Iterable[ContainerId]) -> Mapping[ContainerId, BeforeImage]:
        """Return the stored configurations by container; containers without a file are left out.

        Raises:
            OddMetadata: that of a container cannot be rewritten.
        """
        root = self.root()
        found = ((i, self._read(root, i)) for i in ids)
        return {i: _image(i, stored.data) for i, stored in found if stored is not None}

    def rewrite(self, changes: Iterable[tuple[BeforeImage, StoredHashes]]) -> None:
        """Replace the hashes of the before-images. Nothing is written unless every change can be made.

        Raises:
            MetadataConflict: a stored configuration is neither the before-image nor the wanted one.
            ContainerGone: there is no such container.
            OddMetadata: a before-image cannot be rewritten.
        """
        wanted = {
            image.container_id: (image, labels.StoredConfig(image.container_id, image.data).rewritten(hashes))
            for image, hashes in changes
        }

        def pending(root: PurePosixPath) -> dict[PurePosixPath, bytes]:
            writes = {}
            for container_id, (image, config) in wanted.items():
                stored = self._held(root, container_id)
                if stored.data == config:
                    continue
                if stored.data != image.data:
                    raise conflict(container_id, "configuration")
                writes[path_of(root, container_id)] = stored.holding(config)
            return writes

        self._write(pending)

    def restore(self, image: BeforeImage) -> None:
        """Store the configuration of the before-image again; what dockerd has noted since stays as it is.

        Raises:
            MetadataConflict: the stored configuration differs from the before-image in more than its hashes.
            ContainerGone: there is no such container.
        """
        container_id = image.container_id

        def pending(root: PurePosixPath) -> dict[PurePosixPath, bytes]:
            stored = self._held(root, container_id)
            if stored.data == image.data:
                return {}
            config = labels.StoredConfig(container_id, stored.data)
            config.require_other_hashes_only(image.hashes, image.data, "configuration")
            return {path_of(root, container_id): stored.holding(image.data)}

        self._write(pending)

    def _write(self, pending: Callable[[PurePosixPath], Mapping[PurePosixPath, bytes]]) -> None:
        """Write what is pending once dockerd, which may write until then, is stopped."""
        root = self.root()
        if not pending(root):
            return
        self.stop()
        writes = pending(root)
        for path, data in writes.items():
            self.files.write(path, data)
        if not self.stopped():
            raise StepFailed(
                "somebody started dockerd while its files were written, so that it may serve and write back old hashes"
            )

    def _held(self, root: PurePosixPath, container_id: ContainerId) -> labels.StoredFile:
        if (stored := self._read(root, container_id)) is None:
            raise gone(container_id, runtime="dockerd")
        return stored

    def _read(self, root: PurePosixPath, container_id: ContainerId) -> labels.StoredFile | None:
        content = self.files.read(path_of(root, container_id))
        return None if content is None else labels.split(container_id, content)


def path_of(root: PurePosixPath, container_id: ContainerId) -> PurePosixPath:
    """Return the file of a container.

    Raises:
        StepFailed: this is not an id that Docker gives, and may lead anywhere.
    """
    if not CONTAINER_ID.fullmatch(container_id):
        raise StepFailed(f"cannot look for container {container_id!r}: Docker gives no such ids")
    return root / "containers" / container_id / FILE


def _image(container_id: ContainerId, config: bytes) -> BeforeImage:
    hashes = labels.StoredConfig(container_id, config).hashes()
    return BeforeImage(container_id=container_id, encoding=labels.ENCODING, data=config, hashes=hashes)
