"""The before-image of a container of CRI-O: several files as one document. Pure."""

import base64
import json
from dataclasses import dataclass
from pathlib import PurePosixPath

from nodeupgrade.adapters.crio.metadata import OddSpecification, read_hashes
from nodeupgrade.api.values import ContainerId
from nodeupgrade.ports.node.runtime import BeforeImage

ENCODING = "cri-o/config+state"
CONFIG, STATE = "config.json", "state.json"


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredContainer:
    """The files that CRI-O keeps of one container and reads when it starts.

    Attributes:
        directory: where they are on the node.
        config: the OCI specification, with the kubelet's annotations.
        state: what CRI-O took it for when it looked last.
    """

    directory: PurePosixPath
    config: bytes
    state: bytes

    @property
    def config_path(self) -> PurePosixPath:
        """Path of the specification."""
        return self.directory / CONFIG

    @property
    def state_path(self) -> PurePosixPath:
        """Path of the state."""
        return self.directory / STATE


def encoded(container_id: ContainerId, stored: StoredContainer) -> BeforeImage:
    """Return the before-image.

    Raises:
        OddSpecification: one of the files is not what CRI-O writes.
    """
    is_ended(container_id, stored.state)
    document = {
        "directory": str(stored.directory),
        "config": base64.b64encode(stored.config).decode(),
        "state": base64.b64encode(stored.state).decode(),
    }
    return BeforeImage(
        container_id=container_id,
        encoding=ENCODING,
        data=json.dumps(document).encode(),
        hashes=read_hashes(container_id, stored.config),
    )


def decoded(image: BeforeImage) -> StoredContainer:
    """Return the files of a before-image.

    Raises:
        OddSpecification: it is not one of encoded().
    """
    if image.encoding != ENCODING:
        raise OddSpecification(
            f"cannot read the before-image of container {image.container_id}: it is {image.encoding!r}"
        )
    try:
        document = json.loads(image.data)
        return StoredContainer(
            directory=PurePosixPath(str(document["directory"])),
            config=base64.b64decode(document["config"], validate=True),
            state=base64.b64decode(document["state"], validate=True),
        )
    except (ValueError, KeyError, TypeError) as error:
        raise OddSpecification(f"cannot read the before-image of container {image.container_id}: {error}") from error


def is_ended(container_id: ContainerId, data: bytes) -> bool:
    """Report whether a ``state.json`` says that the container ended, so that CRI-O asks nobody about it any more.

    Raises:
        OddSpecification: it is not what CRI-O writes.
    """
    try:
        document = json.loads(data)
        return bool(document["status"] == "stopped" or document.get("exitCode") is not None)
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise OddSpecification(f"cannot read the {STATE} of container {container_id}: {error}") from error
