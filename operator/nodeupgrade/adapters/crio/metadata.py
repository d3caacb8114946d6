"""Replaces the hashes in a container's ``config.json`` and leaves every other byte unchanged. Pure.

CRI-O keeps the kubelet's annotations twice in the OCI specification that it stores with each container: as annotations
of their own, and as JSON in the annotation ``io.kubernetes.cri-o.Annotations``, which is the one that it reads when it
starts. A container whose file it cannot read is *deleted* by a starting CRI-O, and cannot be brought back. So the file
is never parsed and serialized again: strings are replaced in the bytes, and everything else is proven to be unchanged.
"""

import base64
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import PurePosixPath
from typing import Any

from nodeupgrade.adapters.cri.stored import KEYS, OddMetadata, hash_in, odd, with_hashes
from nodeupgrade.api.values import ContainerId, SandboxId
from nodeupgrade.domain.node.inventory import Process, StoredHashes
from nodeupgrade.kubelethash import HashValue
from nodeupgrade.ports.runtime import BeforeImage

INNER = "io.kubernetes.cri-o.Annotations"
SANDBOX = "io.kubernetes.cri-o.SandboxID"
MANAGER = "io.container.manager"
NEEDED = ("Labels", "Metadata", "Annotations", "Created", "SandboxID", "Name")
"""Without one of these, each below ``io.kubernetes.cri-o.``, a starting CRI-O deletes the container."""
RUNTIME = "CRI-O"


def read_hashes(container_id: ContainerId, data: bytes) -> StoredHashes:
    """Return the hash annotations of a stored file, after proving that they can be replaced.

    Raises:
        OddMetadata: the file is not what CRI-O writes for a container.
    """
    container, without_resources = (_value(container_id, data, key) for key in KEYS)
    return StoredHashes(container=container, without_resources=without_resources)


def rewritten(container_id: ContainerId, data: bytes, wanted: StoredHashes) -> bytes:
    """Return the file with other hashes and every other byte unchanged.

    A hash that is ``None`` in ``wanted`` is kept; a missing annotation is never added.

    Raises:
        OddMetadata: as for read_hashes(), or a wanted value is not a hash.
    """

    def put(text: bytes, key: str, old: HashValue, new: HashValue) -> bytes:
        for place in (_inner(key, old), _outer(key, old)):
            text = place.sub(rb"\g<1>" + new.encode() + rb"\g<2>", text)
        return text

    return with_hashes(
        data,
        read_hashes(container_id, data),
        wanted,
        partial(_odd, container_id),
        put=put,
        rest=partial(_without_hashes, container_id),
    )


def sandbox_id(container_id: ContainerId, data: bytes) -> SandboxId:
    """Return the id of the sandbox of a container.

    Raises:
        OddMetadata: as for read_hashes().
    """
    outer, _ = _annotations(container_id, data)
    return SandboxId(str(outer[SANDBOX]))


def _value(container_id: ContainerId, data: bytes, key: str) -> HashValue | None:
    outer, inner = _annotations(container_id, data)
    if (value := hash_in(inner, key, partial(_odd, container_id))) is None:
        if key in outer:
            raise _odd(container_id, f"its annotation {key} is not among those that CRI-O reads")
        return None
    if outer.get(key, value) != value:
        raise _odd(container_id, f"its annotation {key} is {value} in one place and {outer[key]!r} in the other")
    found = len(_inner(key, value).findall(data)), len(_outer(key, value).findall(data))
    if found != (1, int(key in outer)):
        raise _odd(container_id, f"its annotation {key} is found {found[0]} and {found[1]} times in the text")
    return value


def _without_hashes(container_id: ContainerId, data: bytes) -> object:
    document = _parsed(container_id, data)
    outer, inner = _annotations(container_id, data)
    rest = {key: value for key, value in outer.items() if key not in {*KEYS, INNER}}
    return {**document, "annotations": rest}, {key: value for key, value in inner.items() if key not in KEYS}


def _annotations(container_id: ContainerId, data: bytes) -> tuple[Mapping[str, Any], Mapping[str, Any]]:
    """Return the annotations of the specification, and those of the kubelet that CRI-O reads."""
    match _parsed(container_id, data):
        case {"annotations": dict(outer)}:
            pass
        case _:
            raise _odd(container_id, "it has no annotations")
    if missing := [name for name in NEEDED if f"io.kubernetes.cri-o.{name}" not in outer]:
        raise _odd(container_id, f"it lacks what CRI-O needs to find it again: {', '.join(missing)}")
    if outer.get(MANAGER, "cri-o") != "cri-o":
        raise _odd(container_id, f"it is managed by {outer[MANAGER]}")
    try:
        inner = json.loads(outer[INNER])
    except (ValueError, TypeError) as error:
        raise _odd(container_id, f"its annotations for CRI-O are not JSON ({error})") from error
    if not isinstance(inner, dict):
        raise _odd(container_id, "its annotations for CRI-O are no map")
    return outer, inner


def _parsed(container_id: ContainerId, data: bytes) -> dict[str, Any]:
    try:
        document = json.loads(data)
    except ValueError as error:
        raise _odd(container_id, f"its config.json is not JSON ({error})") from error
    if not isinstance(document, dict):
        raise _odd(container_id, "its config.json is no map")
    return document


def _outer(key: str, value: str) -> re.Pattern[bytes]:
    return re.compile(rb'((?<!\\)"%b"\s*:\s*")%b(")' % (re.escape(key).encode(), value.encode()))


def _inner(key: str, value: str) -> re.Pattern[bytes]:
    return re.compile(rb'((?<!\\)\\"%b\\"\s*:\s*\\")%b(\\")' % (re.escape(key).encode(), value.encode()))


def _odd(container_id: ContainerId, why: str) -> OddMetadata:
    return odd(container_id, why, runtime=RUNTIME)


# The before-image of a container of CRI-O: several files as one document. Pure.

ENCODING = "cri-o/config+state"
CONFIG, STATE, STOPPED = "config.json", "state.json", "stopped"


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredSandbox:
    """What CRI-O keeps of a pod that has a process of its own, since its containers share their PIDs.

    Attributes:
        directory: where it is on the node.
        state: what CRI-O took that process for when it looked last.
        process: that process.
    """

    directory: PurePosixPath
    state: bytes
    process: Process

    @property
    def state_path(self) -> PurePosixPath:
        """Path of the state."""
        return self.directory / STATE

    @property
    def marker(self) -> PurePosixPath:
        """Path of the empty file by which CRI-O knows for good that the pod was stopped."""
        return self.directory / STOPPED


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredContainer:
    """The files that CRI-O keeps of one container and reads when it starts.

    Attributes:
        directory: where they are on the node.
        config: the OCI specification, with the kubelet's annotations.
        state: what CRI-O took it for when it looked last.
        sandbox: the pod's own, if it has a process and was not stopped.
    """

    directory: PurePosixPath
    config: bytes
    state: bytes
    sandbox: StoredSandbox | None = None

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
        OddMetadata: one of the files is not what CRI-O writes.
    """
    is_ended(container_id, stored.state)
    document: dict[str, object] = {
        "directory": str(stored.directory),
        "config": base64.b64encode(stored.config).decode(),
        "state": base64.b64encode(stored.state).decode(),
    }
    if stored.sandbox is not None:
        state = base64.b64encode(stored.sandbox.state).decode()
        document["sandbox"] = {"directory": str(stored.sandbox.directory), "state": state}
    return BeforeImage(
        container_id=container_id,
        encoding=ENCODING,
        data=json.dumps(document).encode(),
        hashes=read_hashes(container_id, stored.config),
    )


def decoded(image: BeforeImage) -> StoredContainer:
    """Return the files of a before-image.

    Raises:
        OddMetadata: it is not one of encoded().
    """
    if image.encoding != ENCODING:
        raise OddMetadata(f"cannot read the before-image of container {image.container_id}: it is {image.encoding!r}")
    try:
        document = json.loads(image.data)
        return StoredContainer(
            directory=PurePosixPath(str(document["directory"])),
            config=base64.b64decode(document["config"], validate=True),
            state=base64.b64decode(document["state"], validate=True),
            sandbox=_sandbox(image.container_id, document.get("sandbox")),
        )
    except (ValueError, KeyError, TypeError) as error:
        raise OddMetadata(f"cannot read the before-image of container {image.container_id}: {error}") from error


def _sandbox(container_id: ContainerId, document: Mapping[str, str] | None) -> StoredSandbox | None:
    if document is None:
        return None
    state = base64.b64decode(document["state"], validate=True)
    return stored_sandbox(container_id, PurePosixPath(document["directory"]), state)


def stored_sandbox(container_id: ContainerId, directory: PurePosixPath, state: bytes) -> StoredSandbox | None:
    """Return what is stored of the pod of a container; ``None`` if it has no process of its own, or that has ended.

    Raises:
        OddMetadata: the state is not what CRI-O writes.
    """
    try:
        document = json.loads(state)
        pid, started = int(document.get("initPid", 0)), int(document.get("initStartTime") or 0)
    except (ValueError, TypeError, AttributeError) as error:
        raise OddMetadata(f"cannot read the {STATE} of the pod of container {container_id}: {error}") from error
    if not (pid and started) or is_ended(container_id, state):
        return None
    return StoredSandbox(directory=directory, state=state, process=Process(pid=pid, started=started))


def is_ended(container_id: ContainerId, data: bytes) -> bool:
    """Report whether a ``state.json`` says that the container ended, so that CRI-O asks nobody about it any more.

    Raises:
        OddMetadata: it is not what CRI-O writes.
    """
    try:
        document = json.loads(data)
        return bool(document["status"] == "stopped" or document.get("exitCode") is not None)
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise OddMetadata(f"cannot read the {STATE} of container {container_id}: {error}") from error
