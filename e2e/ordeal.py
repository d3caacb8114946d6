"""One run under a fault: what the fault may see and do, and what must hold once the run is over."""

import contextlib
import json
import os
import signal
import threading
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from e2e.cluster import Cluster, Object, conditions, disturbed
from e2e.lab import LabError, cgroups
from e2e.lab.deploy import NAMESPACE
from e2e.lab.process import wait_until
from e2e.lab.snapshot import NodeSnapshot
from nodeupgrade.adapters.failpoints import VARIABLE
from nodeupgrade.domain.node.run.failpoints import Failpoint
from nodeupgrade.domain.node.run.journal import Journal, Mark, Step, parse

EXECUTOR = "nodeupgrade-executor.service"
RUNS = Path("var/lib/nodeupgrade/runs")
MANIFESTS = "etc/kubernetes/manifests"
FAILPOINTS = "/var/lib/failpoints"
FAILPOINTS_DROP_IN = f"/usr/local/lib/systemd/system/{EXECUTOR}.d/failpoints.conf"
LOOK_SECONDS = 0.0005
END_SECONDS = 420.0
LEFT_OVER = (
    "etc/systemd/system/nodeupgrade-*", "etc/systemd/system/kubelet.service.d/*nodeupgrade*",
    "run/systemd/system/kubelet.service.d/*nodeupgrade*", "run/nodeupgrade/*",
    "run/systemd/system/nodeupgrade-*", "usr/bin/.kubelet*staged*",
    "usr/bin/.*.partial", "var/lib/nodeupgrade/bundles/.incoming*", "var/lib/nodeupgrade/runs/*/*.reserve",
    "etc/kubernetes/manifests/.*", "run/nodeupgrade-rescue*", "run/nodeupgrade-containerd*",
    "run/systemd/system/containerd.service.d/*nodeupgrade*",
)  # fmt: skip


@dataclass
class Ordeal:
    """A NodeUpgrade of the cluster's node that something will happen to.

    Attributes:
        old: version of the kubelet before, `new` the one wanted.
        free: beginnings of ``namespace/name`` of pods that may change by themselves.
        uncompared: names of containers whose hash no kubelet compares, so that it stays as it was.
        notes: what was seen on the way, for the table.
        known: era of every container's hashes seen so far: hash by (container id, version).
    """

    cluster: Cluster
    name: str
    old: str
    new: str
    known: dict[tuple[str, str], str]
    free: set[str] = field(default_factory=set)
    uncompared: set[str] = field(default_factory=set)
    notes: list[str] = field(default_factory=list)
    before: NodeSnapshot = field(init=False)
    runs_before: set[str] = field(init=False)
    manifests_before: dict[str, bytes] = field(init=False)

    # ── watching ────────────────────────────────────────────────────────────────────────────────────────────────

    def begin(self, **spec: object) -> None:
        """Remember the node as it is, and apply the NodeUpgrade."""
        self.before = self.cluster.node.settled(quiet=2, limit=60)
        for container in self.before.running():
            self.known.setdefault((container.id, self.old), container.served_hash)
        self.runs_before = {path.name for path in self._runs()}
        self.manifests_before = self._manifests()
        wanted = {"allowDowngrade": True, "verify": {"settle": "4s"}} | spec
        self.cluster.apply(self.name, self.new, self.cluster.pre_staged(self.new), **wanted)

    def journal(self) -> Journal:
        """The journal of the newest attempt, as it lies on the node's disk."""
        found = [path / "journal" for path in self._runs() if path.name not in self.runs_before]
        for path in sorted(found, key=lambda path: path.parent.name, reverse=True):
            with contextlib.suppress(FileNotFoundError):
                return parse(path.read_bytes())[0]
        return Journal()

    def wait_record(self, step: Step | None, mark: Mark, timeout: float = 180) -> None:
        """Return as soon as the journal has such a record.

        Raises:
            LabError: it never will, since the run ended, or did not in time.
        """
        deadline = time.monotonic() + timeout
        size = -1
        while True:
            if (now := self._journal_bytes()) != size:
                size, journal = now, self.journal()
                if any(r.step is step and r.mark is mark for r in journal.records):
                    return
                if journal.finished is not None and mark is not Mark.FINISHED and ".3" in self._newest():
                    raise LabError(f"the run ended before {step} was {mark}")
            if time.monotonic() > deadline:
                raise LabError(f"{step} was not {mark} within {timeout:g} s; the task says {self.status()}")
            time.sleep(LOOK_SECONDS if now else 0.02)

    def _journal_bytes(self) -> int:
        return sum(_size(path / "journal") for path in self._runs() if path.name not in self.runs_before)

    def _runs(self) -> list[Path]:
        root = self.cluster.node.root if self.cluster.node.alive else self.cluster.node.disk
        return list((root / RUNS).glob("*"))

    def _newest(self) -> str:
        return max((path.name for path in self._runs()), default="")

    def status(self) -> Object:
        """The status of the node's task, without its lists."""
        try:
            found: Object = self.cluster.task().get("status", {})
        except LabError as error:
            return {"error": str(error)[:200]}
        return {key: value for key, value in found.items() if key in {"phase", "reason", "message"}}

    # ── failpoints ──────────────────────────────────────────────────────────────────────────────────────────────

    def arm(self, name: Failpoint, action: str) -> None:
        """Let the next executor that passes a failpoint be killed, meet a full disk, or hang."""
        node = self.cluster.node
        node.write(FAILPOINTS_DROP_IN, f"[Service]\nEnvironment={VARIABLE}={FAILPOINTS}\n")
        node.write(f"{FAILPOINTS}/{name}", action)

    def wait_hit(self, name: Failpoint, timeout: float = 180) -> None:
        """Return once a failpoint has struck."""
        hit = self.cluster.node.disk / FAILPOINTS.lstrip("/") / f"{name}.hit"
        wait_until(f"the executor to pass {name}", hit.exists, timeout=timeout, interval=0.005)

    def release(self, name: Failpoint) -> None:
        """Let an executor that hangs at a failpoint go on."""
        self.cluster.node.exec("rm", f"{FAILPOINTS}/{name}.hit")

    def disarm(self) -> None:
        """Let no failpoint strike any more."""
        self.cluster.node.exec("rm", "-rf", FAILPOINTS, str(Path(FAILPOINTS_DROP_IN).parent))

    # ── doing harm ──────────────────────────────────────────────────────────────────────────────────────────────

    def kill_unit(self, unit: str, number: int = signal.SIGKILL, *, program: str | None = None) -> int:
        """Send a signal to all processes of a unit, or to those of one program; return how many there were."""
        meant = self.processes(unit, program)
        for pid in meant:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, number)
        return len(meant)

    def processes(self, unit: str, program: str | None = None) -> set[int]:
        """PIDs, as the host sees them, of all processes of a unit, or of those of one program."""
        found = {pid for place in self._unit_cgroups(unit) for pid in _pids(place)}
        return {pid for pid in found if program in {None, _comm(pid)}}

    def _unit_cgroups(self, unit: str) -> Iterable[Path]:
        for hierarchy in cgroups.hierarchies():
            place = hierarchy.mount / self.cluster.node.cgroup / "system.slice" / unit
            if place.is_dir():
                yield place

    def kill_executor(self) -> None:
        """Kill the executor, and note how far it had got."""
        count = self.kill_unit(EXECUTOR)
        last = self.journal().last
        self.notes.append(f"{count} killed after {last.step or 'the end'} {last.mark}" if last else "killed")

    def cut_power_and_boot(self) -> None:
        """Cut the node's power, and boot it again."""
        last = self.journal().last
        self.cluster.node.power_cut()
        self.notes.append(f"off after {last.step or 'the end'} {last.mark}" if last else "off")
        self.cluster.node.boot()

    @contextlib.contextmanager
    def meanwhile(self, step: Step, mark: Mark) -> Iterator[threading.Event]:
        """Set an event once a record is there, while the caller does something else."""
        event = threading.Event()

        def watch() -> None:
            with contextlib.suppress(LabError):
                self.wait_record(step, mark)
            event.set()

        thread = threading.Thread(target=watch, daemon=True)
        thread.start()
        yield event
        thread.join(timeout=300)

    # ── the end ─────────────────────────────────────────────────────────────────────────────────────────────────

    def wait_end(self) -> str:
        """Wait until the run is over and everything is cleared away; return the task's phase."""
        wait_until("the end of the run", self._over, timeout=END_SECONDS, interval=1)
        phase = str(self.cluster.task()["status"]["phase"])
        here = f"--field-selector=spec.nodeName={self.cluster.node.name}"
        agents = ("get", "pods", "-n", NAMESPACE, "-l", "app.kubernetes.io/name=nodeupgrade-agent", "-o", "name", here)
        wait_until("the end of the agent pod", lambda: not self.cluster.lab.kubectl(*agents).stdout.strip(), timeout=90)
        wait_until("a healthy kubelet", self.cluster.node.kubelet_healthy, timeout=60)
        return phase

    def _over(self) -> bool:
        listed = self.cluster.lab.kubectl("get", "nodeupgrades", self.name, "--ignore-not-found", "-o", "json").stdout
        if not listed.strip():
            return True
        upgrade = json.loads(listed)
        states = conditions(upgrade)
        over = states.get("Succeeded", {}).get("status") in {"True", "False"}
        stuck = states.get("Stalled", {}).get("status") == "True"
        return (over or stuck) and not upgrade["status"].get("inFlight")

    def complaints(self, phase: str, expected: frozenset[str], *, reboots: bool) -> list[str]:
        """Everything that is not as it must be after the run."""
        return [*self._about_the_node(phase, expected), *self._about_containers(reboots=reboots)]

    def _version_after(self) -> str:
        """The version at which the task says that the node is."""
        return self.new if self.cluster.task()["status"].get("kubelet", {}).get("after") else self.old

    def _about_the_node(self, phase: str, expected: frozenset[str]) -> Iterator[str]:
        if phase not in expected:
            yield f"ended as {phase}, not {' or '.join(sorted(expected))}"
        version = self._version_after()
        with contextlib.suppress(LabError):
            wait_until("the version", lambda: self.cluster.kubelet_version() == version, timeout=30)
        if (found := self.cluster.kubelet_version()) != version:
            yield f"the node reports kubelet {found} after {phase}"
        on_disk = self.cluster.node.exec("/usr/bin/kubelet", "--version").stdout.strip()
        if on_disk != f"Kubernetes v{version}":
            yield f"the program on disk is {on_disk} after {phase}"
        node = self.cluster.node_object()
        if not self.cluster.schedulable() or "nodeupgrade.dev/cordoned-by" in node["metadata"].get("annotations", {}):
            yield "the node is still cordoned, or marked as cordoned by us"
        if left := self._left_over():
            yield f"left behind: {', '.join(left)}"
        if version == self.old and self._manifests() != self.manifests_before:
            yield "static pod manifests are not what they were"

    def _about_containers(self, *, reboots: bool) -> Iterator[str]:
        after = self.cluster.node.settled(quiet=3, limit=90)
        version = self._version_after()
        if not reboots:
            found = [d for d in disturbed(self.before, after) if not self._is_free(d.pod)]
            if found:
                yield f"{len({d.id for d in found})} instances disturbed, first: {found[0]}"
        for container in after.running():
            if self._is_free(container.pod):
                continue
            if container.served_hash != container.stored_hash:
                yield f"{container.pod}/{container.name} serves {container.served_hash}, stores {container.stored_hash}"
            known = self.known.setdefault((container.id, version), container.served_hash)
            if known != container.served_hash:
                yield f"{container.pod}/{container.name} serves {container.served_hash}, {known} is that of {version}"
            other = self.known.get((container.id, self.old if version == self.new else self.new))
            if known == other and container.name not in self.uncompared:
                yield f"{container.pod}/{container.name} serves the same hash in both eras"

    def _is_free(self, pod: str) -> bool:
        return any(pod.startswith(prefix) for prefix in self.free) or pod.startswith(f"{NAMESPACE}/nodeupgrade-agent")

    def _left_over(self) -> list[str]:
        root = self.cluster.node.root
        files = [f"/{path.relative_to(root)}" for pattern in LEFT_OVER for path in root.glob(pattern)]
        asked = ("systemctl", "list-units", "--all", "--plain", "--no-legend", "nodeupgrade*")
        units = [line.split()[0] for line in self.cluster.node.exec(*asked).stdout.splitlines() if line.split()]
        properties = "--property=DropInPaths,LoadState,ExecStart,NeedDaemonReload"
        shown = self.cluster.node.exec("systemctl", "show", "kubelet", "containerd", properties).stdout
        remembered = ["a drop-in that systemd remembers"] if "nodeupgrade" in shown else []
        unread = ["a unit file that systemd has not read"] if "NeedDaemonReload=yes" in shown else []
        return [*files, *units, *remembered, *unread]

    def _manifests(self) -> dict[str, bytes]:
        return {path.name: path.read_bytes() for path in (self.cluster.node.disk / MANIFESTS).glob("*")}


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError:
        return 0


def _comm(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/comm").read_text().strip()
    except OSError:
        return ""


def _pids(place: Path) -> list[int]:
    try:
        return [int(word) for word in (place / "cgroup.procs").read_text().split()]
    except OSError:
        return []
