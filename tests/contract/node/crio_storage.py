"""The storage of a CRI-O as real ones leave it, and what a real one does to it when it starts.

The forms are those of CRI-O 1.30 and 1.33: of real files, and of its sources (internal/lib/container_server.go,
internal/oci/container.go, containers/storage). What it deletes, and when, was seen on real nodes.
"""

import json
import shutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any

from nodeupgrade.node.host.processes.process import Process

PREFIX = "io.kubernetes.cri-o."
CREATED = "2026-11-20T10:00:00.123456789Z"
"""In the annotation, which is what a restarted CRI-O lists."""
CREATED_BY_DAEMON = "2026-11-20T10:00:00.119000321Z"
"""By the clock of the CRI-O that created the container, which is what that one lists."""
CREATED_BY_HANDLER = "2026-11-20T10:00:00.181456789Z"
"""According to the OCI runtime, which is what the status says for good."""
NEVER = "0001-01-01T00:00:00Z"
LOST = 255


def nanoseconds(text: str) -> int:
    """The nanoseconds since the epoch of a time as Go writes it."""
    seconds, _, fraction = text.removesuffix("Z").partition(".")
    return int(datetime.fromisoformat(f"{seconds}+00:00").timestamp()) * 10**9 + int(fraction.ljust(9, "0"))


def go_json(document: object, *, indent: bool = False) -> str:
    """JSON as Go's encoder writes it: ``<``, ``>`` and ``&`` are escaped, others are not."""
    separators = (",", ": ") if indent else (",", ":")
    text = json.dumps(document, ensure_ascii=False, separators=separators, indent="\t" if indent else None)
    for sign in "<>&":
        text = text.replace(sign, f"\\u{ord(sign):04x}")
    return text


def specification(
    identity: str, annotations: Mapping[str, str], *, sandbox: str, name: str = "main", env: tuple[str, ...] = ()
) -> dict[str, Any]:
    """The OCI specification that CRI-O stores of a container, with the annotations of the kubelet in both places."""
    labels = {"io.kubernetes.container.name": name, "io.kubernetes.pod.uid": sandbox}
    own = {
        "Annotations": go_json(annotations),
        "ContainerID": identity,
        "ContainerType": "container",
        "Created": CREATED,
        "Labels": go_json(labels),
        "LogPath": f"/var/log/pods/{sandbox}/{name}/0.log",
        "Metadata": go_json({"name": name}),
        "Name": f"k8s_{name}_{sandbox}",
        "SandboxID": sandbox,
    }
    return {
        "ociVersion": "1.2.0",
        "process": {"user": {"uid": 0, "gid": 0}, "args": ["/bin/sh", "-c", "a < b && c"], "env": [*env]},
        "root": {"path": "merged"},
        "annotations": {
            "io.container.manager": "cri-o",
            **annotations,
            **{f"{PREFIX}{key}": value for key, value in own.items()},
        },
        "linux": {"resources": {"memory": {"limit": 1048576}}},
    }


@dataclass
class Loaded:
    """A container as CRI-O has it in memory."""

    identity: str
    sandbox: str
    annotations: dict[str, str]
    labels: dict[str, str]
    state: dict[str, Any]
    created: str = CREATED


@dataclass
class Storage:
    """One graph root and run root."""

    root: Path
    shown: str  # the same directory, as the node names it
    find: Callable[[int], Process | None]  # finds a process that runs, as the OCI runtime would
    handler_fails: bool = False  # the program that is asked about containers cannot be run
    # name, UID, PID (0 where the pod has no process of its own) and readiness of each
    sandboxes: dict[str, dict[str, Any]] = field(default_factory=dict)

    @property
    def containers(self) -> Path:
        return self.root / "overlay-containers"

    def directory(self, identity: str) -> Path:
        return self.containers / identity / "userdata"

    def create(self, identity: str, specified: dict[str, Any], pid: int) -> None:
        """What creating and starting a container leaves."""
        directory = self.directory(identity)
        directory.mkdir(parents=True)
        (directory / "config.json").write_text(go_json(specified, indent=True))
        self._write_state(identity, self._running(identity, pid))
        self._records("containers", lambda listed: [*listed, {"id": identity, "layer": f"l{identity}"}])
        self._records("layers", lambda listed: [*listed, {"id": f"l{identity}"}])

    def create_sandbox(self, identity: str, name: str, uid: str, pid: int) -> None:
        """What creating a pod leaves; without a process of its own, its state says nothing."""
        self.directory(identity).mkdir(parents=True)
        self.sandboxes[identity] = {"name": name, "uid": uid, "pid": pid, "ready": True}
        nothing = {"ociVersion": "", "id": "", "status": "", "bundle": "", "created": CREATED, "started": CREATED,
                   "finished": NEVER}  # fmt: skip
        self._write_state(identity, self._running(identity, pid) if pid else nothing)

    def _running(self, identity: str, pid: int) -> dict[str, Any]:
        process = self.find(pid)
        assert process is not None
        return {"ociVersion": "1.2.0", "id": identity, "status": "running", "pid": pid, "bundle": "/run/x",
                "created": CREATED_BY_HANDLER, "started": CREATED, "finished": NEVER, "initPid": pid,
                "initStartTime": str(process.started)}  # fmt: skip

    def delete(self, identity: str) -> None:
        """What removing a container leaves, be it on request or because it cannot be loaded: nothing."""
        shutil.rmtree(self.containers / identity, ignore_errors=True)
        self._records("containers", lambda listed: [r for r in listed if r["id"] != identity])
        self._records("layers", lambda listed: [r for r in listed if r["id"] != f"l{identity}"])

    def load(self) -> dict[str, Loaded]:
        """Start: load every pod, and every container that has a record; delete those that cannot be loaded."""
        for identity in self.sandboxes:
            self._load_sandbox(identity)
        found = {}
        for record in self._listed("containers"):
            try:
                found[record["id"]] = self._loaded(record["id"])
            except (OSError, ValueError, KeyError, TypeError):
                self.delete(record["id"])
        return found

    def _load_sandbox(self, identity: str) -> None:
        """Load a pod. One that was stopped once stays so, whatever its process does."""
        directory = self.directory(identity)
        state = json.loads((directory / "state.json").read_bytes())
        if state.get("initPid") and state.get("exitCode") is None:
            state = self._asked(state)
        self._write_state(identity, state)
        if state["status"] == "stopped":
            (directory / "stopped").touch()
        self.sandboxes[identity]["ready"] = not (directory / "stopped").exists()

    def _loaded(self, identity: str) -> Loaded:
        directory = self.directory(identity)
        annotations = json.loads((directory / "config.json").read_bytes())["annotations"]
        inner, labels = (json.loads(annotations[f"{PREFIX}{name}"]) for name in ("Annotations", "Labels"))
        json.loads(annotations[f"{PREFIX}Metadata"])
        state = json.loads((directory / "state.json").read_bytes())
        if state.get("exitCode") is None:
            state = self._asked(state)
        self._write_state(identity, state)
        return Loaded(identity, annotations[f"{PREFIX}SandboxID"], inner, labels, state)

    def _asked(self, state: dict[str, Any]) -> dict[str, Any]:
        if self.handler_fails or self.find(state["initPid"]) is None:
            return {**state, "status": "stopped", "finished": CREATED, "exitCode": LOST}
        return {**state, "status": "running"}

    def _write_state(self, identity: str, state: dict[str, Any]) -> None:
        fresh = self.directory(identity) / ".tmp-state.json"
        fresh.write_text(go_json(state) + "\n")
        fresh.rename(self.directory(identity) / "state.json")

    def _listed(self, what: str) -> list[dict[str, Any]]:
        path = self.root / f"overlay-{what}" / f"{what}.json"
        return list(json.loads(path.read_bytes())) if path.exists() else []

    def _records(self, what: str, change: Callable[[list[dict[str, Any]]], list[dict[str, Any]]]) -> None:
        path = self.root / f"overlay-{what}" / f"{what}.json"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(go_json(change(self._listed(what))))
