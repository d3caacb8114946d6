"""Measure what a Service's clients notice of upgrades between pairs of versions, with and without the readiness guard.

``python -m e2e.clients 1.30.14-1.33.13-1.30.14`` sets up one lab for each argument and upgrades through its versions,
first without the guard and then, on a fresh node, with it; it prints a table. A version that follows itself stands for
a plain restart of its kubelet, in which nodeupgrade has no part. Run by hand, not by the test suite.
"""

import itertools
import json
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

import click

from e2e.cluster import Cluster, Object
from e2e.lab import Lab, LabSpec
from e2e.lab.binaries.versions import Version
from e2e.lab.cluster import deploy
from e2e.lab.nodes import nodefiles
from e2e.lab.process import wait_until
from e2e.lab.progress import Lines
from e2e.lab.runtimes import RUNTIMES
from e2e.lab.workloads import probed, traffic
from nodeupgrade.kubelet.probe_delay import exposure

CONTROL_PLANE = "1.33.13"
HEADINGS = (
    "kubelet", "guard", "pods", "endpoints lost", "endpoint-seconds lost", "requests failed", "slowest answer s",
    "node not Ready s", "without a kubelet s", "ended",
)  # fmt: skip


@dataclass(frozen=True)
class Swap:
    """One upgrade, and what was noticed of it."""

    pair: str
    guard: str
    seen: traffic.TrafficReport
    upgrade: Object
    status: Object  # the status of the node's task
    verdict: Object  # the control plane's verdict in that task

    def row(self) -> Sequence[str]:
        """Return it as a row of the table."""
        seen, said = self.seen, self.status.get("guard", {}).get("state", "")
        return (
            self.pair, self.guard + (f", {said}" if said else ""), str(seen.endpoints), str(len(seen.endpoints_lost)),
            f"{seen.endpoint_seconds_lost:.1f}", f"{seen.failed} of {seen.requests}", f"{seen.slowest:.2f}",
            f"{seen.nodes_not_ready:.1f}", str(self.status.get("kubelet", {}).get("downSeconds", "")),
            str(self.status.get("phase", "")),
        )  # fmt: skip


def with_clients(lab: Lab, pods: int, *, slowest: int = 30) -> Cluster:
    """Deploy the operator and pods with probes of every kind, and wait until all are Ready."""
    node = next(iter(lab.nodes.values()))
    # Its log then shows when it detects that a container has ended.
    node.exec("sed", "-i", 's/"$/ --v=2"/', nodefiles.KUBELET_FLAGS)
    node.exec("systemctl", "restart", "kubelet")
    deploy.deploy_operator(lab)
    probed.start(lab, pods, node.name, slowest=slowest, progress=Lines())
    return Cluster(lab, node)


def swap(
    cluster: Cluster, version: str, guard: str, *, pods: int, artifact: Object | None = None, **spec: object
) -> Swap:
    """Upgrade, and watch the traffic until the run is over and all pods are Ready.

    Args:
        cluster: A cluster from ``with_clients``.
        version: The target version.
        guard: ``spec.verify.readinessGuard``.
        pods: How many pods it has.
        artifact: What to install as that version; by default, the version itself.
        spec: Further fields of the NodeUpgrade.
    """
    old = cluster.kubelet_version()
    cluster.wait_settled()
    name = f"{guard}-to-{version}".lower().replace(".", "-")
    down = Version.parse(version).release < Version.parse(old).release
    verify = {"settle": "4s", "readinessGuard": guard}
    with traffic.watching(cluster.lab, port=probed.PORT) as watch:
        wanted: dict[str, object] = {"allowDowngrade": down, "verify": verify, **spec}
        cluster.apply(name, version, artifact or cluster.pre_staged(version), **wanted)
        upgrade = cluster.wait_for_end(name)
        task = cluster.task()
        status = task["status"]
        wait_until("the end of the slowest probes", lambda: _has_probed_all(cluster, status), timeout=300, interval=1)
        probed.wait_ready(cluster.lab, pods)
    cluster.delete(name)
    return Swap(f"{old} → {version}", guard, watch.result, upgrade, status, task["spec"]["verdict"])


def restart(cluster: Cluster, *, pods: int) -> Swap:
    """Restart the kubelet as anyone would, and watch the traffic until it has probed all pods and they are Ready."""
    version = cluster.kubelet_version()
    cluster.wait_settled()
    with traffic.watching(cluster.lab, port=probed.PORT) as watch:
        cluster.node.exec("systemctl", "restart", "kubelet")
        cluster.node.wait_kubelet_healthy()
        time.sleep(_longest_exposure(cluster).total_seconds())
        probed.wait_ready(cluster.lab, pods)
    return Swap(f"{version} → {version}", "a plain restart", watch.result, {}, {}, {})


def _has_probed_all(cluster: Cluster, status: Object) -> bool:
    """Report whether the kubelet that a run started, if any, has run for as long as any pod's probes may need."""
    started = [s["finishedAt"] for s in status.get("steps", ()) if s["name"] == "start-kubelet" and "finishedAt" in s]
    needed = _longest_exposure(cluster)
    return all(datetime.fromisoformat(moment) + needed < datetime.now(UTC) for moment in started)


def _longest_exposure(cluster: Cluster) -> timedelta:
    return max(map(exposure, cluster.lab.api.list("pods", namespace=probed.NAMESPACE)))


def served(pods: Sequence[str]) -> list[str]:
    """Return those of the pods that have clients; an agent's pod completes, and is not Ready then."""
    return [pod for pod in pods if pod.startswith(f"{probed.NAMESPACE}/")]


@click.command()
@click.argument("walks", nargs=-1, required=True)
@click.option("--guard", "guards", multiple=True, default=("Off", "Auto"), show_default=True, help="Repeatable.")
@click.option("--name", default="clients", show_default=True, help="Name of the labs that are made for it, one by one.")
@click.option("--pods", default=60, show_default=True, help="Pods behind the Service.")
@click.option("--slowest", default=30, show_default=True, help="Seconds between two probes of the slowest kind.")
@click.option("--control-plane", default=CONTROL_PLANE, show_default=True, help="Version of the API server.")
@click.option("--runtime", type=click.Choice([*RUNTIMES]), default="containerd", show_default=True,
              help="Container runtime of the nodes.")  # fmt: skip
@click.option("--skew", default="Enforce", show_default=True, help="spec.skewPolicy of the NodeUpgrades.")
def main(
    *,
    walks: tuple[str, ...],
    guards: tuple[str, ...],
    name: str,
    pods: int,
    slowest: int,
    control_plane: str,
    runtime: str,
    skew: str,
) -> None:
    """Upgrade from version to version on real nodes, and print what a Service's clients noticed."""
    swaps: list[Swap] = []
    try:
        for walk, guard in itertools.product(walks, guards):
            first, *versions = walk.split("-")
            spec = LabSpec(name=name, nodes=1, kubelet=first, control_plane=control_plane, runtime=runtime)
            with _lab(spec) as lab:
                cluster = with_clients(lab, pods, slowest=slowest)
                for old, new in itertools.pairwise((first, *versions)):
                    if old == new:
                        swaps.append(restart(cluster, pods=pods))
                    else:
                        swaps.append(swap(cluster, new, guard, pods=pods, skewPolicy=skew))
                    click.echo(f"{_line(swaps[-1].row())}\n{json.dumps(swaps[-1].status)}")
    finally:
        click.echo("\n".join((_line(HEADINGS), _line("---" for _ in HEADINGS), *(_line(s.row()) for s in swaps))))


def _line(cells: Sequence[str] | Iterator[str]) -> str:
    return f"| {' | '.join(cells)} |"


@contextmanager
def _lab(spec: LabSpec) -> Iterator[Lab]:
    lab = Lab.up(spec, Lines())
    try:
        yield lab
    finally:
        lab.down()


if __name__ == "__main__":
    main()
