"""A cluster that kubeadm made, with the operator, and one NodeUpgrade there that is watched all the time."""

import contextlib
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from e2e.cluster import Cluster, Object, apply_upgrade, conditions, disturbed, quickly
from e2e.faults.run import FaultRun
from e2e.fleet import Fleet
from e2e.kubeadm.watching import Watch, watching
from e2e.lab.errors import LabError
from e2e.lab.lab import Lab
from e2e.lab.nodes.node import Node
from e2e.lab.process import wait_until
from nodeupgrade.node.failpoints.failpoints import Failpoint

OLD, NEW = "1.30.14", "1.33.13"
ENDED = {"True", "False"}
END_SECONDS = 900.0

Held = tuple[Callable[[], None], Callable[[], None]]
"""Waits until an executor is at its failpoint, and lets it go on."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Upgraded:
    """How a NodeUpgrade ended."""

    ended: str  # ``Succeeded``, or outcome and reason of the first failure
    message: str  # what that failure says
    containers: int  # how many containers ran before, on all nodes
    disturbed: tuple[str, ...]  # what ran before and is not the same instance now, in words
    watch: Watch  # what was asked all the time
    seconds: float  # how long it took

    def wrong(self, ended: str = "Succeeded") -> Iterator[str]:
        """Yield what is not as it must be: another end, a container that is not the same, a control plane away."""
        if self.ended != ended:
            yield f"ended as {self.ended}: {self.message}"
        if self.disturbed:
            yield f"{len(self.disturbed)} instances disturbed, first: {self.disturbed[0]}"
        yield from self.unanswered()

    def unanswered(self) -> Iterator[str]:
        """Yield which questions were not answered as they must be."""
        for what, asked in (("an API server", self.watch.servers), ("etcd", self.watch.etcd)):
            if asked.failures:
                yield f"{what} did not answer {len(asked.failures)} times, first: {asked.failures[0][:300]}"


@dataclass(frozen=True)
class Stage:
    """The cluster."""

    fleet: Fleet  # its nodes, with the operator
    etcd: bool = True  # whether etcd is asked for its health during runs

    @property
    def lab(self) -> Lab:
        """The lab."""
        return self.fleet.lab

    @property
    def control(self) -> list[Node]:
        """The nodes with a control plane."""
        return list(self.fleet.nodes.values())[: self.lab.spec.control_planes]

    @property
    def worker(self) -> Node:
        """The first node without one."""
        return list(self.fleet.nodes.values())[self.lab.spec.control_planes]

    def apply(self, name: str, version: str, on: Sequence[Node], **spec: object) -> None:
        """`kubectl apply -f` a NodeUpgrade for these nodes."""
        artifacts = [Cluster(self.lab, node).pre_staged(version) for node in on]
        selected = {"names": [node.name for node in on]}
        given = {"artifact": artifacts[0], "nodes": selected, "allowDowngrade": True, "verify": quickly(), **spec}
        apply_upgrade(self.lab, name, version, given)

    def upgrade(
        self,
        name: str,
        version: str,
        on: Sequence[Node],
        *,
        meanwhile: Callable[[], None] = lambda: None,
        **spec: object,
    ) -> Upgraded:
        """Upgrade nodes, watch the cluster, and tell how it ended; the NodeUpgrade is deleted.

        Args:
            name: name of the NodeUpgrade.
            version: that of the kubelets.
            on: the nodes, unless ``spec`` says which.
            meanwhile: what is done once the NodeUpgrade is applied.
            spec: what it says besides.
        """
        before, began = self.fleet.settled(), time.monotonic()
        with watching(self.lab, self.control, name, etcd=self.etcd) as watch:
            self.apply(name, version, on, **spec)
            meanwhile()
            upgrade = self.fleet.wait(name, "its end", _is_over, timeout=END_SECONDS)
        seconds = time.monotonic() - began
        self.delete(name)
        there = self.fleet.versions()  # a node that was removed from the cluster runs nothing
        changed = [
            str(difference)
            for node, snapshot in before.items()
            if node in there
            for difference in disturbed(snapshot, self.lab.node(node).settled(quiet=2))
        ]
        ended, message = _end_of(upgrade)
        containers = sum(len(snapshot.running()) for snapshot in before.values())
        return Upgraded(
            ended=ended, message=message, containers=containers, disturbed=tuple(changed), watch=watch, seconds=seconds
        )

    def delete(self, name: str) -> None:
        """Delete a NodeUpgrade, and wait until it and the agents are gone."""
        self.lab.kubectl("delete", "nodeupgrade", name, "--wait=true", timeout=180)
        for node in self.fleet.nodes.values():
            if node.alive:
                Cluster(self.lab, node).wait_without_agent()

    def bring(self, node: Node, version: str) -> None:
        """Bring a node to a version, unless it has that.

        Raises:
            LabError: that did not go well.
        """
        if self.fleet.versions()[node.name] == version:
            return
        run = self.upgrade(f"bring-{node.name}-{int(time.monotonic())}", version, [node])
        if wrong := list(run.wrong()):
            raise LabError(f"{node.name} does not come to {version}: {'; '.join(wrong)}")

    @contextlib.contextmanager
    def held(self, node: Node, name: str, version: str, place: Failpoint) -> Iterator[Held]:
        """Let the executor of the next run on a node wait at a failpoint; yields what it takes to go on.

        Args:
            node: the node.
            name: name of the NodeUpgrade.
            version: that of the kubelet.
            place: the failpoint.
        """
        run = FaultRun(Cluster(self.lab, node), name, OLD, version, {})
        run.arm(place, "hang")
        try:
            yield (lambda: run.wait_hit(place, timeout=300)), (lambda: run.release(place))
        finally:
            run.disarm()


def _is_over(upgrade: Object) -> bool:
    states = conditions(upgrade)
    over = states.get("Succeeded", {}).get("status") in ENDED
    stuck = states.get("Stalled", {}).get("status") == "True"
    return (over or stuck) and not upgrade["status"].get("inFlight")


def _end_of(upgrade: Object) -> tuple[str, str]:
    for failure in upgrade["status"].get("failures", ()):
        outcome = failure.get("outcome", "no verdict")  # of a node that is gone there is none
        return f"{outcome} (`{failure['reason']}`)", str(failure.get("message", ""))
    succeeded = conditions(upgrade)["Succeeded"]
    ended = "Succeeded" if succeeded["status"] == "True" else f"`{succeeded.get('reason')}`"
    return ended, str(succeeded.get("message", ""))


def wait_for_version(stage: Stage, node: Node, version: str) -> None:
    """Wait until a node reports a version."""
    wait_until(f"kubelet {version}", lambda: stage.fleet.versions()[node.name] == version, timeout=60)
