"""A lab of several nodes with the operator, for rollouts in waves."""

from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

from e2e.cluster import Cluster, Object, apply_upgrade, conditions, disturbed, reported
from e2e.lab import Lab
from e2e.lab.binaries import components
from e2e.lab.cluster import deploy
from e2e.lab.nodes.node import Node
from e2e.lab.oracle.snapshot import Difference, NodeSnapshot
from e2e.lab.process import wait_until
from e2e.lab.workloads import workload

OPERATOR = "app.kubernetes.io/name=nodeupgrade-operator"
LEASE = "nodeupgrade-operator"
WAVE_SECONDS = 600.0

Snapshots = Mapping[str, NodeSnapshot]


@dataclass(frozen=True)
class Fleet:
    """A lab whose nodes are upgraded together."""

    lab: Lab

    @classmethod
    def with_operator(cls, lab: Lab, *, pods: int) -> "Fleet":
        """Deploy the operator and ``pods`` pods on each node, and wait until they run."""
        deploy.deploy_operator(lab)
        for name in lab.nodes:
            workload.start(lab, workload.mixed_workload(pods, name, kubelet=lab.spec.kubelet, suffix=f"-{name}"))
        workload.wait_running(lab, count=pods * len(lab.nodes), timeout=600)
        return cls(lab)

    @property
    def nodes(self) -> dict[str, Node]:
        """Its nodes by name."""
        return self.lab.nodes

    # ── user actions ────────────────────────────────────────────────────────────────────────────────────────────

    def apply(self, name: str, version: str, **spec: object) -> None:
        """`kubectl apply -f` a NodeUpgrade for all nodes; its kubelet is already on each of them."""
        artifact = self.pre_staged(version)
        apply_upgrade(self.lab, name, version, {"artifact": artifact, "nodes": {"all": True}, **spec})

    def annotate(self, name: str, key: str, value: str | None) -> None:
        """Set one of our annotations, or remove it."""
        word = f"nodeupgrade.dev/{key}-" if value is None else f"nodeupgrade.dev/{key}={value}"
        self.lab.kubectl("annotate", "--overwrite", "nodeupgrade", name, word)

    def pre_staged(self, version: str) -> Object:
        """A kubelet that is already on every node."""
        artifacts = [Cluster(self.lab, node).pre_staged(version) for node in self.nodes.values()]
        return artifacts[0]

    def kill_operator(self) -> None:
        """Delete the operator's pod by force; its Deployment creates another."""
        self.lab.kubectl(
            "delete", "pods", "--namespace", deploy.NAMESPACE, "--selector", OPERATOR, "--force", "--grace-period=0",
            timeout=120,
        )  # fmt: skip

    # ── state ───────────────────────────────────────────────────────────────────────────────────────────────────

    def get(self, name: str) -> Object:
        """Return the NodeUpgrade."""
        return self.lab.api.get("nodeupgrades", name)

    def task(self, node: str) -> Object:
        """Return a node's NodeUpgradeTask."""
        return self.lab.api.get("nodeupgradetasks", node)

    def versions(self) -> dict[str, str]:
        """Return the kubelet version by node, as reported, without ``v``."""
        found = self.lab.api.list("nodes")
        return {n["metadata"]["name"]: n["status"]["nodeInfo"]["kubeletVersion"].removeprefix("v") for n in found}

    def cordoned(self) -> set[str]:
        """Return the nodes that are cordoned, by anyone."""
        found = self.lab.api.list("nodes")
        return {n["metadata"]["name"] for n in found if n["spec"].get("unschedulable")}

    def operator_node(self) -> str:
        """Return the node of the replica that leads, which is upgraded last."""

        def leads() -> str | None:
            leases = self.lab.api.list("leases", namespace=deploy.NAMESPACE)
            pods = self.lab.api.list("pods", namespace=deploy.NAMESPACE, labels=OPERATOR)
            holders = (each["spec"].get("holderIdentity") for each in leases if each["metadata"]["name"] == LEASE)
            leader = str(next(holders, "")).partition("_")[0]
            return next((str(pod["spec"]["nodeName"]) for pod in pods if pod["metadata"]["name"] == leader), None)

        return wait_until("a replica of the operator that leads", leads, timeout=120, interval=0.5)

    def settled(self) -> Snapshots:
        """Wait until nothing changes any more on any node; all are watched at once, since each takes its time."""
        nodes = self.nodes
        with ThreadPoolExecutor(max_workers=len(nodes)) as watching:
            return dict(zip(nodes, watching.map(lambda node: node.settled(quiet=2), nodes.values()), strict=True))

    def disturbed(self, before: Snapshots, *, but: str = "") -> list[Difference]:
        """List everything that ran and is not the same instance now; pods with ``but`` in their name do not count."""
        found = [each for name, now in self.settled().items() for each in disturbed(before[name], now)]
        return [difference for difference in found if not but or but not in difference.pod]

    def wait(self, name: str, what: str, holds: Callable[[Object], Any], timeout: float = WAVE_SECONDS) -> Object:
        """Wait until something holds for a NodeUpgrade, and return the NodeUpgrade."""

        def looked() -> Object | None:
            upgrade = self.get(name)
            return upgrade if holds(upgrade) else None

        return wait_until(f"NodeUpgrade {name}: {what}", looked, timeout=timeout, interval=0.25)

    def wait_condition(self, name: str, kind: str, status: str, reason: str | None = None) -> Object:
        """Wait until a condition is as expected, for the object's own generation."""

        def holds(upgrade: Object) -> bool:
            found = conditions(upgrade).get(kind, {})
            fresh = found.get("observedGeneration") == upgrade["metadata"]["generation"]
            return fresh and found["status"] == status and reason in {None, found["reason"]}

        return self.wait(name, f"{kind}={status} {reason or ''}", holds)

    def wait_in_flight(self, name: str, node: str | None = None) -> str:
        """Wait until a node is in flight and its agent is running; return the node's name."""

        def at_work(upgrade: Object) -> bool:
            flying = upgrade.get("status", {}).get("inFlight", [])
            return any(node in {None, each["node"]} and self._reports(each["node"]) for each in flying)

        return str(self.wait(name, f"{node or 'a node'} in flight", at_work)["status"]["inFlight"][0]["node"])

    def _reports(self, node: str) -> bool:
        return bool(reported(self.task(node)))


def kill_new_kubelet(node: Node, version: str) -> None:
    """Wait until a node's new kubelet is in place and healthy, and kill it: the run has to roll back."""
    wanted = components.resolve("kubelet", version).stat().st_size
    program = node.disk / "usr/bin/kubelet"

    def swapped() -> bool:
        return program.stat().st_size == wanted and node.kubelet_healthy()

    wait_until(f"kubelet {version} on node {node.name}", swapped, timeout=WAVE_SECONDS, interval=0.2)
    node.exec("systemctl", "kill", "--signal=KILL", "kubelet")
