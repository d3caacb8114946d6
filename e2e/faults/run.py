"""One run of an upgrade with a fault: what the fault may see and do."""

import contextlib
import os
import signal
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from e2e import packages
from e2e.cluster import AGENT, Cluster, Object, conditions
from e2e.faults.files import FileState
from e2e.lab import LabError
from e2e.lab.cluster import deploy
from e2e.lab.cluster.deploy import FAILPOINTS, NAMESPACE
from e2e.lab.host import cgroups
from e2e.lab.oracle.snapshot import NodeSnapshot
from e2e.lab.process import PATIENCE, wait_until
from e2e.lab.workloads import workload
from nodeupgrade.api.task.step import Step
from nodeupgrade.cluster.agent_pods import VARIABLE
from nodeupgrade.node.failpoints.failpoints import FIRST_PUT_BACK, FIRST_RESTORED, Failpoint, When, at
from nodeupgrade.node.journal.journal import Journal, Mark, parse
from nodeupgrade.node.runtimes.crio.next_start import CRIO

EXECUTOR = "nodeupgrade-executor.service"
RUNS = Path("var/lib/nodeupgrade/runs")
MANIFESTS = "etc/kubernetes/manifests"
SETTLE = "4s"
VERIFY: Object = {"settle": SETTLE}
FAILPOINTS_DROP_IN = f"/usr/local/lib/systemd/system/{EXECUTOR}.d/failpoints.conf"
LOOK_SECONDS = 0.0005
END_SECONDS = 420.0
ASK_SECONDS = 60.0
TURN_BACK = at(Step.LOWER_SHIELD, When.ANNOUNCED)
"""A run that fails here rolls back every step."""

NOTHING = NodeSnapshot(node="", containers=(), sandboxes=())


@dataclass
class FaultRun:
    """A NodeUpgrade of the cluster's node, during which a fault happens."""

    cluster: Cluster
    name: str
    old: str  # version of the kubelet before, `new` the target version
    new: str
    known: dict[tuple[str, str], str]  # all containers' hashes seen so far: hash by (container id, version)
    free: set[str] = field(default_factory=set)  # prefixes of ``namespace/name`` of pods that may change by themselves
    # names of containers whose hash no kubelet compares, so that it does not change
    uncompared: set[str] = field(default_factory=set)
    all_change: bool = True  # whether every container has another hash in the new version
    stays: frozenset[str] = frozenset()  # what may be left behind: an earlier run did, too
    notes: list[str] = field(default_factory=list)  # observations during the run, for the table
    files: list[Object] = field(default_factory=list)  # ``spec.files``, and what was there before by path
    files_before: dict[str, FileState | None] = field(default_factory=dict)
    packaged: bool = False  # whether the kubelet belongs to a package that the run is to hold
    before: NodeSnapshot = NOTHING  # what ran when the NodeUpgrade was applied
    runs_before: set[str] = field(default_factory=set)
    manifests_before: dict[str, bytes] = field(init=False)

    # ── observing ───────────────────────────────────────────────────────────────────────────────────────────────

    def begin(self, artifact: Object | None = None, /, **spec: object) -> None:
        """Record the node's state, and apply the NodeUpgrade; by default, its kubelet is on the node already."""
        self.before = self.cluster.node.settled(quiet=2, limit=60, but=self.free)
        for container in self.before.running():
            self.known.setdefault((container.id, self.old), container.served_hash)
        self.runs_before = {path.name for path in self.runs()}
        self.manifests_before = self.manifests()
        wanted = {"allowDowngrade": True, "skewPolicy": "Warn", "verify": VERIFY, **self._accepted()} | spec
        wanted |= {"files": self.files} if self.files else {}
        wanted |= packages.HOLD if self.packaged else {}
        self.cluster.apply(self.name, self.new, artifact or self.cluster.pre_staged(self.new), **wanted)

    def _accepted(self) -> Object:
        """Accept a version of CRI-O that no run on a real node is known of; nothing where there are such runs."""
        version = self.cluster.node.runtime.version
        return {"preflight": {"accept": ["runtime_is_proven"]}} if version and CRIO.unproven(version) else {}

    def journal(self) -> Journal:
        """Read the journal of the newest attempt from the node's disk."""
        found = [path / "journal" for path in self.runs() if path.name not in self.runs_before]
        for path in sorted(found, key=lambda path: path.parent.name, reverse=True):
            with contextlib.suppress(FileNotFoundError):
                return parse(path.read_bytes())[0]
        return Journal()

    def wait_record(self, step: Step | None, mark: Mark, timeout: float = 180) -> None:
        """Return as soon as the journal has such a record, within ``timeout`` seconds (times PATIENCE).

        Raises:
            LabError: the run ended without it, or it did not come in time.
        """
        timeout *= PATIENCE
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
        return sum(_size(path / "journal") for path in self.runs() if path.name not in self.runs_before)

    def runs(self) -> list[Path]:
        """List the directories of all runs on the node's disk."""
        root = self.cluster.node.root if self.cluster.node.alive else self.cluster.node.disk
        return list((root / RUNS).glob("*"))

    def attempts(self) -> int:
        """Count the runs that an executor began for this NodeUpgrade; a node keeps the last five of all."""
        return len({path.name for path in self.runs()} - self.runs_before)

    def _newest(self) -> str:
        return max((path.name for path in self.runs()), default="")

    def phase(self) -> str:
        """Return the phase of the node's task; empty if there is none."""
        return str(self.status().get("phase", ""))

    def status(self) -> Object:
        """Return the status of the node's task, without its lists."""
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
        """Return once a failpoint has struck.

        Raises:
            LabError: the run ended without it, or it did not strike in time.
        """
        hit = self.cluster.node.disk / FAILPOINTS.lstrip("/") / f"{name}.hit"
        ask_at = time.monotonic() + ASK_SECONDS

        def struck_or_over() -> bool:
            nonlocal ask_at
            if hit.exists() or time.monotonic() < ask_at:
                return hit.exists()
            ask_at = time.monotonic() + ASK_SECONDS
            return self._over()

        wait_until(f"the executor to pass {name}", struck_or_over, timeout=timeout, interval=0.005)
        if not hit.exists():
            raise LabError(f"the run ended before the executor passed {name}; the task says {self.status()}")

    def release(self, name: Failpoint) -> None:
        """Let an executor that hangs at a failpoint go on."""
        self.cluster.node.exec("rm", f"{FAILPOINTS}/{name}.hit")

    @contextlib.contextmanager
    def armed(self, name: Failpoint, action: str) -> Iterator[None]:
        """Arm a failpoint while the context lasts; if it is in the rollback, let the run fail."""
        try:
            self.arm(name, action)
            if on_the_way_back(name):
                self.arm(TURN_BACK, "enospc")
            yield
        finally:
            self.disarm()

    def disarm(self) -> None:
        """Disarm all failpoints."""
        self.cluster.node.exec("rm", "-rf", FAILPOINTS, str(Path(FAILPOINTS_DROP_IN).parent))

    # ── injecting faults ────────────────────────────────────────────────────────────────────────────────────────

    def kill_unit(self, unit: str, number: int = signal.SIGKILL, *, program: str | None = None) -> int:
        """Send a signal to all processes of a unit, or to those of one program; return how many there were."""
        meant = self.processes(unit, program)
        for pid in meant:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, number)
        return len(meant)

    def kill_runtime(self, number: int = signal.SIGKILL) -> int:
        """Send a signal to the runtime's daemon alone; return how many processes that were."""
        runtime = self.cluster.node.runtime
        return self.kill_unit(runtime.unit, number, program=runtime.daemon)

    def processes_of_runtime(self) -> set[int]:
        """Return the host's PIDs of the runtime's daemon."""
        runtime = self.cluster.node.runtime
        return self.processes(runtime.unit, runtime.daemon)

    def processes(self, unit: str, program: str | None = None) -> set[int]:
        """Return the host's PIDs of all processes of a unit, or of those of one program."""
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

    # ── the end ─────────────────────────────────────────────────────────────────────────────────────────────────

    def wait_end(self) -> str:
        """Wait until the run has ended and everything is cleaned up; return the task's phase."""
        wait_until("the end of the run", self._over, timeout=END_SECONDS, interval=0.25)
        phase = str(self.cluster.task()["status"]["phase"])
        wait_until("the end of the agent pod", lambda: not self._agents(), timeout=90)
        wait_until("a healthy kubelet", self.cluster.node.kubelet_healthy, timeout=60)
        return phase

    def _agents(self) -> list[Object]:
        ours, here = "app.kubernetes.io/name=nodeupgrade-agent", f"spec.nodeName={self.cluster.node.name}"
        return self.cluster.lab.api.list("pods", namespace=NAMESPACE, labels=ours, fields=here)

    def _over(self) -> bool:
        listed = self.cluster.lab.api.list("nodeupgrades", fields=f"metadata.name={self.name}")
        if not listed:
            return True
        [upgrade] = listed
        states = conditions(upgrade)
        over = states.get("Succeeded", {}).get("status") in {"True", "False"}
        stuck = states.get("Stalled", {}).get("status") == "True"
        return (over or stuck) and not upgrade["status"].get("inFlight")

    def wait_workload(self) -> None:
        """Wait until every pod runs again after the power was cut."""
        lab = self.cluster.lab
        pods = lab.api.list("pods", namespace=workload.NAMESPACE)
        count = sum(pod["spec"].get("restartPolicy") == "Always" for pod in pods)
        workload.wait_running(lab, count=count, timeout=240)
        deploy.wait_available(lab)

    # ── state ───────────────────────────────────────────────────────────────────────────────────────────────────

    @property
    def version_after(self) -> str:
        """Return the kubelet version that the task reports for the node."""
        return self.new if self.cluster.task()["status"].get("kubelet", {}).get("after") else self.old

    def may_change(self, pod: str) -> bool:
        """Report whether a pod, as ``namespace/name``, may change by itself."""
        return any(pod.startswith(prefix) for prefix in (*self.free, *AGENT))

    def manifests(self) -> dict[str, bytes]:
        """Return the manifests of the node's static pods."""
        return {path.name: path.read_bytes() for path in (self.cluster.node.disk / MANIFESTS).glob("*")}


Harm = Callable[[FaultRun], Iterator[None]]
"""Before its first ``yield`` it prepares; then the NodeUpgrade is applied, and it injects the fault. After its second
``yield``, when the run has ended and was judged, it cleans up.
"""


def on_the_way_back(name: Failpoint) -> bool:
    """Report whether only a run that rolls back passes a failpoint."""
    return name in {FIRST_RESTORED, FIRST_PUT_BACK} or name.endswith((When.UNDOING, When.UNDONE))


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
