"""Take a snapshot of a node with Docker: from dockerd, from its files, and from the kernel."""

import http.client
import json
import re
import socket as sockets
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from e2e.lab.errors import LabError
from e2e.lab.oracle.snapshot import ContainerInstance, NodeSnapshot, SandboxInstance
from e2e.lab.process import PATIENCE, parent, start_time

_HASH = "annotation.io.kubernetes.container.hash"
_KIND = "io.kubernetes.docker.type"
_STATES = {"running": "CONTAINER_RUNNING", "created": "CONTAINER_CREATED", "exited": "CONTAINER_EXITED"}
_TIME = re.compile(r"(.{19})(?:\.(\d+))?Z")
_SECONDS = 20 * PATIENCE
_Object = dict[str, Any]


class _Connection(http.client.HTTPConnection):
    def __init__(self, path: Path) -> None:
        super().__init__("localhost", timeout=_SECONDS)
        self._path = path

    def connect(self) -> None:
        self.sock = sockets.socket(sockets.AF_UNIX)
        self.sock.settimeout(_SECONDS)
        self.sock.connect(str(self._path))


def _ask(socket: Path, path: str) -> tuple[int, Any]:
    connection = _Connection(socket)
    try:
        connection.request("GET", path)
        answer = connection.getresponse()
        return answer.status, json.loads(answer.read())
    finally:
        connection.close()


def ready(socket: Path) -> bool:
    """Report whether dockerd answers."""
    try:
        return socket.exists() and _ask(socket, "/info")[0] == http.client.OK
    except OSError:
        return False


def read(node: str, socket: Path, root: Path) -> NodeSnapshot:
    """Take a snapshot.

    Args:
        node: name to put into it.
        socket: dockerd's socket as seen from this process.
        root: the node's root as seen from this process.

    Raises:
        LabError: dockerd does not answer.
    """
    try:
        status, info = _ask(socket, "/info")
        if status != http.client.OK:
            raise LabError(f"cannot read the containers of node {node} because dockerd says: {info}")
        store = Path(f"{root}{info['DockerRootDir']}/containers")
        all_of = list(_each(socket))
    except OSError as error:
        raise LabError(f"cannot read the containers of node {node} because of {error}") from error
    ours = [one for one in all_of if _KIND in one["Config"]["Labels"]]
    made = (_container(one, store, root) for one in ours if _labels(one)[_KIND] == "container")
    containers = [container for container in made if container is not None]
    sandboxes = [_sandbox(one, root) for one in ours if _labels(one)[_KIND] == "podsandbox"]
    return NodeSnapshot(
        node=node,
        containers=tuple(sorted(containers, key=lambda entry: entry.id)),
        sandboxes=tuple(sorted(sandboxes, key=lambda entry: entry.id)),
    )


def _each(socket: Path) -> Iterator[_Object]:
    """Inspect everything listed, without what is removed meanwhile."""
    for listed in _ask(socket, "/containers/json?all=1")[1]:
        status, inspected = _ask(socket, f"/containers/{listed['Id']}/json")
        if status == http.client.OK:
            yield inspected


def _labels(one: _Object) -> dict[str, str]:
    found: dict[str, str] = one["Config"]["Labels"]
    return found


def _named(one: _Object) -> tuple[str, int]:
    """Return the pod's name and the attempt from the name: k8s_CONTAINER_POD_NAMESPACE_UID_ATTEMPT."""
    parts = one["Name"].removeprefix("/").split("_")
    return parts[2], int(parts[5])


def _common(one: _Object, root: Path) -> _Object:
    labels, state = _labels(one), one["State"]
    pid = state["Pid"] if state["Running"] else 0
    name, attempt = _named(one)
    return {
        "id": one["Id"],
        "pod": f"{labels.get('io.kubernetes.pod.namespace', '')}/{labels.get('io.kubernetes.pod.name', name)}",
        "pod_uid": labels.get("io.kubernetes.pod.uid", ""),
        "attempt": attempt,
        "created_at": _nanoseconds(one["Created"]),
        "pid": pid,
        "process_start": start_time(pid, root) if pid else None,
        "monitor_pid": parent(pid, root) if pid else None,
    }


def _container(one: _Object, store: Path, root: Path) -> ContainerInstance | None:
    """Return a container; ``None`` if it was removed meanwhile."""
    labels, state = _labels(one), one["State"]
    try:
        stored = json.loads((store / one["Id"] / "config.v2.json").read_text())
    except FileNotFoundError:
        return None
    return ContainerInstance(
        name=labels.get("io.kubernetes.container.name", ""),
        sandbox_id=labels.get("io.kubernetes.sandbox.id", ""),
        state=_STATES.get(state["Status"], "CONTAINER_UNKNOWN"),
        started_at=_nanoseconds(state["StartedAt"]),
        finished_at=_nanoseconds(state["FinishedAt"]),
        exit_code=state["ExitCode"],
        stored_hash=stored["Config"]["Labels"].get(_HASH, ""),
        served_hash=labels.get(_HASH, ""),
        **_common(one, root),
    )


def _sandbox(one: _Object, root: Path) -> SandboxInstance:
    # Docker does not know the addresses that CNI assigns; the kernel of the pod's network does.
    common = _common(one, root)
    return SandboxInstance(
        name=_named(one)[0],
        state="SANDBOX_READY" if one["State"]["Running"] else "SANDBOX_NOTREADY",
        address=_network(one, common["pid"], root),
        **common,
    )


def _network(one: _Object, pid: int, root: Path) -> str:
    """Return the name of the pod's network namespace: whoever replaces its network replaces that."""
    if not pid or one["HostConfig"]["NetworkMode"] == "host":
        return ""
    try:
        return str(Path(f"{root}/proc/{pid}/ns/net").readlink())
    except OSError:
        return ""


def _nanoseconds(text: str) -> int:
    found = _TIME.fullmatch(text)
    if found is None:
        raise LabError(f"dockerd says {text!r} where it should say a time")
    moment = datetime.fromisoformat(found[1]).replace(tzinfo=UTC)
    seconds = int(moment.timestamp())
    return 0 if seconds < 0 else seconds * 1_000_000_000 + int((found[2] or "0").ljust(9, "0"))
