"""A lab with the operator on a node in namespaces, and the machine that is upgraded."""

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from e2e.cluster import Cluster, Object, conditions, disturbed, quickly
from e2e.lab import Lab, LabError, LabSpec
from e2e.lab.cluster import deploy
from e2e.lab.machines.machine import Machine
from e2e.lab.machines.vmnode import VmNode
from e2e.lab.nodes import nodefiles
from e2e.lab.oracle.snapshot import NodeSnapshot
from e2e.lab.process import wait_until
from e2e.lab.progress import Progress
from e2e.lab.workloads import workload

OLD, NEW = "1.30.14", "1.33.13"
MACHINE = "machine1"
PODS = 5
PROBED_EVERY = 15
BOUNDS: Object = {
    "allowDowngrade": True, "verify": quickly(kubeletDownBudget="600s"), "timeouts": {"node": "1h"},
}  # fmt: skip
"""What suits a NodeUpgrade of an emulated machine, which is a dozen times slower than any other."""
END_SECONDS = 600.0

Hashes = dict[tuple[str, str], str]
"""The stored hash of each container, by pod and name."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Upgraded:
    """How a NodeUpgrade ended."""

    ended: str  # ``Succeeded``, or outcome and reason of the failure
    message: str  # what that failure says
    containers: int  # how many containers ran before
    disturbed: tuple[str, ...]  # what ran before and is not the same instance now, in words
    seconds: float  # how long it took
    without_kubelet: float | None  # for how many of these there was no kubelet, as the task says; None if it does not

    def wrong(self, *ended: str) -> Iterator[str]:
        """Yield what is not as it must be: another end, a container that is not the same."""
        if self.ended not in (ended or ("Succeeded",)):
            yield f"ended as {self.ended}: {self.message}"
        if self.disturbed:
            yield f"{len(self.disturbed)} instances disturbed, first: {self.disturbed[0]}"


@dataclass(frozen=True)
class Stage:
    """The lab."""

    cluster: Cluster  # the machine that is upgraded, and its lab
    most_copies: int  # how many copies of a run's disk are booted as machines
    # the hashes of the machine's containers by version, as far as they were seen
    hashes: dict[str, Hashes] = field(default_factory=dict)

    @classmethod
    def up(cls, lab: str, machine: Machine, progress: Progress, *, most_copies: int) -> "Stage":
        """Make the lab: the operator first, so that it is not on the machine."""
        made = Lab.anew(LabSpec(name=lab, nodes=1, kubelet=OLD, control_plane=NEW), progress)
        try:
            deploy.deploy_operator(made, progress)
            made.add_node(MACHINE, machine=machine)
            made.wait_ready(timeout=300)
            stage = cls(Cluster(made, made.node(MACHINE)), most_copies)
            stage.start_workload()
        except BaseException:
            made.down()
            raise
        return stage

    @property
    def lab(self) -> Lab:
        """The lab."""
        return self.cluster.lab

    @property
    def node(self) -> VmNode:
        """The machine."""
        node = self.cluster.node
        assert isinstance(node, VmNode)
        return node

    def start_workload(self) -> None:
        """Start the pods and the static pod, all of which are seldom probed, and wait until they run."""
        pods = workload.mixed_workload(PODS, self.node.name, kubelet=OLD)
        workload.start(self.lab, workload.calm(pods, PROBED_EVERY))
        static = workload.static_pod(every=PROBED_EVERY)
        self.node.write(f"{nodefiles.STATIC_PODS}/static-web.json", static)
        self.wait_workload()

    def wait_workload(self, timeout: float = 600) -> None:
        """Wait until every pod of the machine runs; those that containerd has split are made anew."""
        workload.wait_running(self.lab, count=PODS + 1, node=self.node.name, timeout=timeout)

    def settled(self) -> NodeSnapshot:
        """Wait until nothing on the machine changes any more, and learn the hashes of its kubelet's version."""
        found = self.node.settled(quiet=10, limit=60)
        known = self.hashes.setdefault(self.version(), {})
        known.update({(c.pod, c.name): c.stored_hash for c in found.running()})
        return found

    def version(self) -> str:
        """The kubelet's version, as the API server knows it."""
        return self.cluster.kubelet_version()

    def other(self) -> str:
        """The version that it does not have."""
        return NEW if self.version() == OLD else OLD

    # ── upgrades ────────────────────────────────────────────────────────────────────────────────────────────────

    def apply(self, name: str, version: str, **spec: object) -> None:
        """`kubectl apply -f` a NodeUpgrade for the machine, with bounds that suit it."""
        self.cluster.apply(name, version, self.cluster.pre_staged(version), **{**BOUNDS, **spec})

    def is_over(self, name: str) -> bool:
        """Report whether a NodeUpgrade has ended."""
        return conditions(self.cluster.get(name)).get("Succeeded", {}).get("status") in {"True", "False"}

    def upgrade(
        self, name: str, version: str, *, meanwhile: Callable[[], None] = lambda: None, **spec: object
    ) -> Upgraded:
        """Upgrade the machine, and tell how it ended; the NodeUpgrade is deleted.

        Args:
            name: name of the NodeUpgrade.
            version: that of the kubelet.
            meanwhile: what is done once the NodeUpgrade is applied.
            spec: what it says besides.
        """
        self.wait_workload()
        before, began = self.settled(), time.monotonic()
        self.apply(name, version, **spec)
        meanwhile()
        upgrade = self.cluster.wait_for_end(name, timeout=END_SECONDS)
        seconds = time.monotonic() - began
        down = self.cluster.task()["status"].get("kubelet", {}).get("downSeconds")
        self.delete(name)
        after = self.settled()
        ended, message = end_of(upgrade)
        return Upgraded(
            ended=ended, message=message, containers=len(before.running()), seconds=seconds,
            disturbed=tuple(map(str, disturbed(before, after))), without_kubelet=down,
        )  # fmt: skip

    def delete(self, name: str) -> None:
        """Delete a NodeUpgrade, and wait until it and the agent are gone."""
        self.lab.kubectl("delete", "nodeupgrade", name, "--wait=true", timeout=180)
        self.cluster.wait_without_agent()

    def bring(self, version: str) -> None:
        """Bring the machine to a version, unless it has that.

        Raises:
            LabError: that did not go well.
        """
        if self.version() == version:
            return
        run = self.upgrade(f"bring-{int(time.time())}", version)
        if wrong := list(run.wrong()):
            raise LabError(f"{self.node.name} does not come to {version}: {'; '.join(wrong)}")


def end_of(upgrade: Object) -> tuple[str, str]:
    """Return how a NodeUpgrade of one node ended, and what that node's failure says."""
    for failure in upgrade["status"].get("failures", ()):
        return f"{failure.get('outcome', 'no verdict')} (`{failure['reason']}`)", str(failure.get("message", ""))
    succeeded = conditions(upgrade)["Succeeded"]
    ended = "Succeeded" if succeeded["status"] == "True" else f"`{succeeded.get('reason')}`"
    return ended, str(succeeded.get("message", ""))


def wait_for_version(stage: Stage, version: str) -> None:
    """Wait until the API server knows the machine's kubelet by a version."""
    wait_until(f"kubelet {version}", lambda: stage.version() == version, timeout=60)
