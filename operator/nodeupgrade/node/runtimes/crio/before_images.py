"""The before-image of a container of CRI-O: several files as one document. Pure."""

import json
from dataclasses import dataclass
from pathlib import PurePosixPath

from nodeupgrade.api.json import from_json, to_json
from nodeupgrade.api.values import ContainerId
from nodeupgrade.node.host.processes.process import Process
from nodeupgrade.node.runtimes.cri.hash_text import UnexpectedMetadata
from nodeupgrade.node.runtimes.crio.metadata import StoredSpecification
from nodeupgrade.node.runtimes.runtime import BeforeImage
from nodeupgrade.text import integer, number, parse_json

ENCODING = "cri-o/config+state"
CONFIG, STATE, STOPPED = "config.json", "state.json", "stopped"


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredState:
    """CRI-O's record of a pod that has a process of its own, since its containers share their PIDs."""

    directory: str  # where it is on the node
    state: bytes  # the state of its process when CRI-O last checked it

    def path(self, name: str) -> PurePosixPath:
        return PurePosixPath(self.directory) / name

    @property
    def ended(self) -> bool:
        """Whether the state says that it ended, so CRI-O never checks it again.

        Raises:
            UnexpectedMetadata: the state is not what CRI-O writes.
        """
        try:
            document = parse_json(self.state)
            return bool(document["status"] == "stopped" or document.get("exitCode") is not None)
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise UnexpectedMetadata(f"cannot read {self.path(STATE)}: {error}") from error

    @property
    def process(self) -> Process | None:
        """The process; ``None`` if there is none, or it has ended.

        Raises:
            UnexpectedMetadata: the state is not what CRI-O writes.
        """
        try:
            document = parse_json(self.state)
            pid, started = integer(document.get("initPid", 0)), number(document.get("initStartTime") or "0")
        except (ValueError, TypeError, AttributeError) as error:
            raise UnexpectedMetadata(f"cannot read {self.path(STATE)}: {error}") from error
        if started is None:
            raise UnexpectedMetadata(f"cannot read {self.path(STATE)}: its initStartTime is not a number")
        return None if not (pid and started) or self.ended else Process(pid=pid, started=started)


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredContainer(StoredState):
    """The files that CRI-O keeps of one container and reads when it starts."""

    config: bytes  # the OCI specification, with the kubelet's annotations
    sandbox: StoredState | None = None  # the pod's own, if it has a process and was not stopped


def encode(container_id: ContainerId, stored: StoredContainer) -> BeforeImage:
    """Return the before-image.

    Raises:
        UnexpectedMetadata: one of the files is not what CRI-O writes.
    """
    _ = stored.ended  # which reads the state
    return BeforeImage(
        container_id=container_id,
        encoding=ENCODING,
        data=json.dumps(to_json(stored, strict=True)).encode(),
        hashes=StoredSpecification(container_id, stored.config).hashes(),
    )


def decode(image: BeforeImage) -> StoredContainer:
    """Return the files of a before-image.

    Raises:
        UnexpectedMetadata: it is not one of encode().
    """
    if image.encoding != ENCODING:
        raise UnexpectedMetadata(
            f"cannot read the before-image of container {image.container_id}: it is {image.encoding!r}"
        )
    try:
        return from_json(StoredContainer, parse_json(image.data), strict=True)
    except ValueError as error:
        raise UnexpectedMetadata(f"cannot read the before-image of container {image.container_id}: {error}") from error
