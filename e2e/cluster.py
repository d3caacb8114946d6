"""A lab with the operator, for the end-to-end tests, the demonstration and the benchmark."""

import contextlib
import functools
import hashlib
import json
import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from e2e.lab import Lab, naming
from e2e.lab.binaries import components
from e2e.lab.binaries.versions import Version
from e2e.lab.cluster import deploy, images
from e2e.lab.nodes.node import Node
from e2e.lab.oracle.snapshot import Difference, NodeSnapshot, compare
from e2e.lab.process import PATIENCE, wait_until
from e2e.lab.workloads import workload

SETTLE = "5s"
UNGUARDED = {"readinessGuard": "Off"}
"""For runs whose guard is not what is tested: they need not wait for what the kubelet reports when it has ended."""
GUARDED = {"readinessGuard": "Require"}
"""For runs that end untouched unless the guard is confirmed, with the kubelet's own credentials."""
BUDGET: dict[str, Any] = {"kubeletDownBudget": f"{30 * PATIENCE:.0f}s"} if PATIENCE > 1 else {}
"""On a busy machine a run may spend the budget of 30 s, and go back before what is tested happens."""
HELD_UP: dict[str, Any] = {"kubeletDownBudget": f"{60 * PATIENCE:.0f}s"}
"""For runs that are held up while no kubelet runs, and meet something that takes its time."""
NOTICED = "90s"
"""Settle period of runs that the first act of a kubelet ends; on a busy machine it comes late."""
TERMINAL_SECONDS = 420.0
AGENT = f"{deploy.NAMESPACE}/nodeupgrade-agent", f"{deploy.NAMESPACE}/nodeupgrade-artifact"
"""How the pods of every run begin, as ``namespace/name``: its agent, and what takes its kubelet out of an image."""
Object = dict[str, Any]


@dataclass(frozen=True)
class Cluster:
    """A lab, and the one of its nodes that is upgraded."""

    lab: Lab
    node: Node

    @classmethod
    def with_operator(cls, lab: Lab, *, pods: int, static: bool = True, oldest: str | None = None) -> "Cluster":
        """Deploy the operator and the mixed workload, and wait until nothing changes any more.

        The workload suits the kubelet ``oldest``; by default, the one that the lab begins with.
        """
        deploy.deploy_operator(lab)
        cluster = cls(lab, next(iter(lab.nodes.values())))
        cluster.start_workload(pods, static=static, oldest=oldest)
        return cluster

    def start_workload(self, pods: int, *, static: bool = True, suffix: str = "", oldest: str | None = None) -> None:
        """Start the mixed workload on this node, and wait until nothing changes any more; pods get the suffix."""
        lab, kubelet = self.lab, self.lab.spec.kubelet
        workload.start(lab, workload.mixed_workload(pods, self.node.name, kubelet=oldest or kubelet, suffix=suffix))
        if static:
            self.node.write("/etc/kubernetes/manifests/static-web.json", workload.static_pod())
        # Kubelets before 1.16 cannot create mirror pods on a current API server: only the runtime knows the static pod.
        mirrored = static and Version.parse(kubelet).release >= (1, 16)
        workload.wait_running(lab, count=pods + mirrored, node=self.node.name, timeout=600)
        if static:
            wait_until("the static pod", lambda: self.runs("static-web") or None, timeout=120)

    # ── user actions ────────────────────────────────────────────────────────────────────────────────────────────

    def apply(self, name: str, version: str, artifact: Object, **spec: object) -> None:
        """`kubectl apply -f` a NodeUpgrade for this node."""
        apply_upgrade(self.lab, name, version, {"artifact": artifact, "nodes": {"names": [self.node.name]}, **spec})

    def get(self, name: str) -> Object:
        """Return the NodeUpgrade."""
        return self.lab.api.get("nodeupgrades", name)

    def task(self) -> Object:
        """Return the node's NodeUpgradeTask."""
        return self.lab.api.get("nodeupgradetasks", self.node.name)

    def reported(self, name: str) -> Object:
        """Return what the node's task reports about its run for a NodeUpgrade; empty as long as it reports nothing.

        The task keeps the status of the run before until the node reports on the new one.
        """
        task = self.task()
        return reported(task) if task["spec"]["upgradeRef"]["name"] == name else {}

    def wait_settling(self, name: str) -> None:
        """Wait until the new kubelet of a NodeUpgrade is being watched."""
        settles = ("task that settles", lambda: self.reported(name).get("phase") == "Verifying" or None)
        wait_until(*settles, timeout=180, interval=0.3)

    def wait_for_end(self, name: str, timeout: float = TERMINAL_SECONDS) -> Object:
        """Wait until the NodeUpgrade has ended or needs a person, and return it."""

        def ended() -> Object | None:
            found = self.get(name)
            states = conditions(found)
            over = states.get("Succeeded", {}).get("status") in {"True", "False"}
            stuck = states.get("Stalled", {}).get("status") == "True" and not found["status"].get("inFlight")
            return found if over or stuck else None

        return wait_until(f"the end of NodeUpgrade {name}", ended, timeout=timeout, interval=0.25)

    def delete(self, name: str) -> None:
        """Delete a NodeUpgrade and wait until it is gone."""
        self.lab.kubectl("delete", "nodeupgrade", name, "--wait=true", timeout=180)

    def events(self, name: str) -> list[Object]:
        """Return the events about a NodeUpgrade."""
        found = self.lab.api.list("events")
        return [
            e for e in found if e["involvedObject"]["kind"] == "NodeUpgrade" and e["involvedObject"]["name"] == name
        ]

    # ── artifacts ───────────────────────────────────────────────────────────────────────────────────────────────

    def pre_staged(self, version: str) -> Object:
        """A kubelet that is already on the node."""
        return self.pre_staged_file(components.resolve("kubelet", version), version)

    def pre_staged_file(self, program: Path, version: str) -> Object:
        """Any program as the kubelet of a version, already on the node."""
        path = f"/opt/kubelet/v{version}/{program.name}"
        self.node.put(program, path)
        return {"preStaged": {"linux-amd64": {"path": path, "sha256": _sha256(program)}}}

    def image(self, version: str) -> Object:
        """A kubelet in an image, pinned by digest."""
        image = images.artifact(components.resolve("kubelet", version), version)
        deploy.import_pinned(self.lab, image, [self.node.name])
        return {"image": {"ref": image.pinned, "path": "/kubelet"}}

    @contextlib.contextmanager
    def url(self, version: str) -> Iterator[Object]:
        """A kubelet at a URL that is served inside the lab's network as long as the context lasts."""
        program = components.resolve("kubelet", version)
        with serving(self.lab, self.node, program.parent) as address:
            yield {"platforms": {"linux-amd64": {"url": f"{address}/{program.name}", "sha256": _sha256(program)}}}

    # ── state ───────────────────────────────────────────────────────────────────────────────────────────────────

    def node_object(self) -> Object:
        """The Node as the API server has it."""
        return self.lab.api.get("nodes", self.node.name)

    def kubelet_version(self) -> str:
        """The kubelet version that the node reports, without ``v``."""
        return str(self.node_object()["status"]["nodeInfo"]["kubeletVersion"]).removeprefix("v")

    def runtime_version(self) -> str:
        """The version of the runtime that the node reports, without what a packager added."""
        version = str(self.node_object()["status"]["nodeInfo"]["containerRuntimeVersion"]).partition("://")[2]
        return re.split(r"[^0-9.]", version.removeprefix("v"), maxsplit=1)[0]

    def schedulable(self) -> bool:
        """Report whether the node is not cordoned."""
        return not self.node_object()["spec"].get("unschedulable", False)

    def runs(self, pod: str) -> bool:
        """Report whether the runtime runs a container of a pod whose name has this prefix."""
        return any(c.pod.partition("/")[2].startswith(pod) for c in self.node.snapshot().running())

    def wait_without_agent(self) -> None:
        """Wait until no agent of an earlier run is left."""
        pods = ("nodeupgrade-agent", "nodeupgrade-artifact")
        wait_until("the end of the agent's pod", lambda: not any(map(self.runs, pods)) or None, timeout=120)

    def wait_settled(self) -> NodeSnapshot:
        """Wait until nothing on the node changes any more."""
        return self.node.settled(quiet=2)


def quickly(**verify: object) -> Object:
    """Return ``verify`` of a run whose settle period and guard are not what is tested."""
    return {"settle": SETTLE, **UNGUARDED, **verify}


def apply_upgrade(lab: Lab, name: str, version: str, spec: Object) -> None:
    """`kubectl apply -f` a NodeUpgrade, by default with a short settle period, and with the budget of this machine."""
    verify: Object = spec.get("verify", {"settle": SETTLE})
    body = {"version": f"v{version}", **spec, "verify": {**BUDGET, **verify}}
    document = {
        "apiVersion": "nodeupgrade.dev/v1alpha1", "kind": "NodeUpgrade", "metadata": {"name": name}, "spec": body,
    }  # fmt: skip
    lab.kubectl("apply", "-f", "-", input=json.dumps(document))


def conditions(upgrade: Object) -> dict[str, Object]:
    """Return the conditions of a NodeUpgrade by type."""
    return {c["type"]: c for c in upgrade.get("status", {}).get("conditions", [])}


def reported(task: Object) -> Object:
    """Return what the node reports about the run that the task asks for; empty as long as it reports nothing."""
    status: Object = task.get("status", {})
    return status if status.get("runID") and status["runID"] == task["spec"].get("runID") else {}


def disturbed(before: NodeSnapshot, after: NodeSnapshot) -> list[Difference]:
    """List everything that ran before and is not the same instance now; new and ended instances do not count.

    Nor do agents: that of an earlier run may still be about to end.
    """
    ran = {c.id for c in before.containers if c.running} | {s.id for s in before.sandboxes if s.running}
    found = [difference for difference in compare(before, after) if difference.id in ran]
    return [difference for difference in found if not difference.pod.startswith(AGENT)]


def attach(directory: Path, name: str, script: str) -> Path:
    """Write an executable script."""
    path = directory / name
    path.write_text(script)
    path.chmod(0o755)
    return path


@contextlib.contextmanager
def serving(lab: Lab, node: Node, directory: Path) -> Iterator[str]:
    """Serve a directory over HTTP to the nodes, inside the lab's network only."""
    address = f"http://{naming.CONTROL_PLANE_ADDRESS}:{naming.HTTP_PORT}"
    argv = lab.command(
        sys.executable, "-m", "http.server", "--bind", naming.CONTROL_PLANE_ADDRESS, "--directory", str(directory),
        str(naming.HTTP_PORT),
    )  # fmt: skip
    with subprocess.Popen(
        argv, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    ) as server:
        try:
            asked = ("curl", "--silent", "--fail", "--output", "/dev/null", f"{address}/")
            wait_until("the HTTP server", lambda: node.exec(*asked, check=False).returncode == 0 or None, timeout=30)
            yield address
        finally:
            server.terminate()


def _sha256(path: Path) -> str:
    found = path.stat()
    return _digest(path, found.st_size, found.st_mtime_ns)


@functools.cache
def _digest(path: Path, _size: int, _modified: int) -> str:
    """Read a program's hundred megabytes once, as long as nobody writes to it."""
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()
