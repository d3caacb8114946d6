"""The files in which dockerd stores containers."""

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import PurePosixPath

from nodeupgrade.api.values import ContainerId
from nodeupgrade.errors import StepFailed
from nodeupgrade.node.host.files.files import Files
from nodeupgrade.node.runtimes.cri.hash_store import HashStore
from nodeupgrade.node.runtimes.docker.metadata import ENCODING, StoredConfig
from nodeupgrade.node.runtimes.runtime import BeforeImage

FILE = "config.v2.json"
CONTAINER_ID = re.compile(r"[0-9a-f]{64}")


@dataclass(frozen=True, slots=True, kw_only=True)
class LabelStore(HashStore[StoredConfig]):
    """The files of one dockerd."""

    files: Files  # the node's
    root: Callable[[], PurePosixPath]  # returns dockerd's directory
    stop: Callable[[], None]  # stops dockerd, unless it is stopped: a running dockerd overwrites its files
    stopped: Callable[[], bool]  # reports whether it is stopped

    def before_images(self, ids: Iterable[ContainerId]) -> Mapping[ContainerId, BeforeImage]:
        found = [stored for stored in map(self._read, ids) if stored is not None]
        return {each.container_id: each.image(ENCODING) for each in found}

    def text(self, image: BeforeImage) -> StoredConfig:
        return StoredConfig(image.container_id, image.data)

    def present(self, texts: Iterable[StoredConfig]) -> Iterable[StoredConfig]:
        for text in texts:
            if (stored := self._read(text.container_id)) is None:
                raise text.gone()
            yield stored

    def put(self, texts: Iterable[StoredConfig]) -> None:
        """Store configurations; the rest of each file stays unchanged."""
        for text in texts:
            self.files.write(config_path(self.root(), text.container_id), text.content)
        if not self.stopped():
            raise StepFailed(
                "another process started dockerd while its files were written; it may serve and write back old hashes"
            )

    def write(self, pending: Callable[[], list[StoredConfig]]) -> None:
        """Stop dockerd, which may write until then, and store the pending texts."""
        if pending():
            self.stop()
            self.put(pending())

    def _read(self, container_id: ContainerId) -> StoredConfig | None:
        content = self.files.read(config_path(self.root(), container_id))
        return None if content is None else StoredConfig.of(container_id, content)


def config_path(root: PurePosixPath, container_id: ContainerId) -> PurePosixPath:
    """Return the file of a container.

    Raises:
        StepFailed: this is not an id of Docker's, and may lead anywhere.
    """
    if not CONTAINER_ID.fullmatch(container_id):
        raise StepFailed(f"cannot look for container {container_id!r}: it is not an id of Docker's")
    return root / "containers" / container_id / FILE
