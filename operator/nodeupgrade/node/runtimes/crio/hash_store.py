"""Reads and rewrites the hashes that CRI-O stores: compare, replace the file atomically, read back.

CRI-O reads ``config.json`` only when it starts and writes it only when it creates a container, so it may run meanwhile.
"""

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import PurePosixPath

from nodeupgrade.api.values import ContainerId
from nodeupgrade.errors import StepFailed
from nodeupgrade.node.host.files.files import Files
from nodeupgrade.node.runtimes.cri.hash_store import HashStore
from nodeupgrade.node.runtimes.cri.hash_text import UnexpectedMetadata
from nodeupgrade.node.runtimes.crio.before_images import (
    CONFIG,
    STATE,
    STOPPED,
    StoredContainer,
    StoredState,
    decode,
    encode,
)
from nodeupgrade.node.runtimes.crio.metadata import StoredSpecification
from nodeupgrade.node.runtimes.runtime import BeforeImage

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
        return {container_id: encode(container_id, stored) for container_id, stored in found if stored is not None}

    def text(self, image: BeforeImage) -> StoredSpecification:
        before = decode(image)
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
            raise UnexpectedMetadata(
                f"there is no {STATE} of container {container_id}, without which CRI-O would delete it"
            )
        sandbox = self._sandbox(storage, container_id, config)
        return StoredContainer(directory=str(directory), config=config, state=state, sandbox=sandbox)

    def _sandbox(self, storage: PurePosixPath, container_id: ContainerId, config: bytes) -> StoredState | None:
        """Return the record of a container's pod, if that has a process of its own and was not stopped."""
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
        raise UnexpectedMetadata(
            f"cannot look for {identity!r} in CRI-O's storage because that is not an id of CRI-O's"
        )
    return storage / identity / USER_DATA
