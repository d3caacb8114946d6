"""Measure how the operator keeps up with a fleet, beside the ideal. ``make bench-fleet`` prints the table.

A real kube-apiserver holds Nodes of 11 KB and 30 pods on each; the operator runs as its pod does, with its own
permissions, at a distance; simulated node sides keep to the task protocol. The ideal is what the nodes alone would
take: as many at a time as allowed, each for as long as its agent works and its kubelet is listened to afterwards.
"""

import asyncio
import contextlib
import itertools
import json
import os
import signal
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from pathlib import Path

import click
from rich.console import Console
from rich.table import Table

from e2e.bench_fleet.filling import WORKLOAD, fill, node_name
from e2e.bench_fleet.ideal import ends
from e2e.bench_fleet.watching import AUDIT_POLICY, Timeline, slowest_pass, spent, writes
from e2e.lab.cluster.definitions import OURS, wait_until_established
from nodeupgrade.cluster.client.client import KubeClient
from nodeupgrade.cluster.kube_api import PODS, UPGRADES
from nodeupgrade.fleet.guard.requirement import STATUS_REPORT
from tests.contract.kube.apiserver import ApiServer, free_ports, running
from tests.contract.kube.conftest import ROOT
from tests.contract.kube.kubelets import vanishing
from tests.contract.kube.test_operator_process import variables
from tests.doubles.kube_agents import SimulatedAgents, takes
from tests.scenario.rollout.harness import NAMESPACE, upgrade_object

NAME = "bench"
ETCD = ("--unsafe-no-fsync", "--quota-backend-bytes=8589934592", "--log-level=error", "--snapshot-count=100000")


STIR_SECONDS = 0.5

DIES_WITH_US = ("setpriv", "--pdeathsig", "KILL")


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """One row of the table: how many nodes, how many at a time, and how far away the API server is."""

    nodes: int
    in_flight: int
    pods: int
    milliseconds: float
    seconds: float  # what the agent of a node takes on average
    spread: float  # by what share of that nodes differ
    rounds: int | None  # after how many times the nodes in flight the measurement ends; None: with the rollout
    tree: Path  # the source tree of the operator

    @property
    def ideal(self) -> tuple[float, ...]:
        """When nodes would be done by an operator that takes no time, in seconds since the first began."""
        agents = (takes(node_name(number), self.seconds, self.spread) for number in range(self.nodes))
        nodes = (each + STATUS_REPORT.total_seconds() for each in agents)
        return tuple(itertools.islice(ends(nodes, self.in_flight), self.enough))

    @property
    def enough(self) -> int:
        """How many nodes are to be done."""
        return self.nodes if self.rounds is None else min(self.nodes, self.rounds * self.in_flight)


@contextmanager
def api_server() -> Iterator[ApiServer]:
    """An API server that records what the operator writes; its data is in memory."""
    memory = Path("/dev/shm")
    with tempfile.TemporaryDirectory(prefix="bench-fleet-", dir=memory) as name:
        policy, log = Path(name) / "policy.yaml", Path(name) / "audit.log"
        policy.write_text(AUDIT_POLICY)
        flags = (f"--audit-policy-file={policy}", f"--audit-log-path={log}", "--audit-log-mode=blocking")
        with running(etcd_flags=ETCD, apiserver_flags=flags, where=Path(name)) as server:
            yield server


@asynccontextmanager
async def far_away(server: ApiServer, milliseconds: float) -> AsyncIterator[Path]:
    """Yield the operator's kubeconfig for an API server at this distance."""
    if not milliseconds:
        yield server.kubeconfig("operator")
        return
    (port,) = free_ports(1)
    argv = (
        *DIES_WITH_US,
        sys.executable,
        "-m",
        "e2e.bench_fleet.latency",
        str(port),
        str(server.port),
        str(milliseconds),
    )
    proxy = await asyncio.create_subprocess_exec(*argv, stdout=asyncio.subprocess.PIPE)
    try:
        assert proxy.stdout is not None
        assert await proxy.stdout.readline() == b"ready\n"
        config = json.loads(server.kubeconfig("operator").read_text())
        config["clusters"][0]["cluster"]["server"] = f"https://127.0.0.1:{port}"
        path = server.directory / f"operator-{port}.kubeconfig"
        path.write_text(json.dumps(config))
        yield path
    finally:
        proxy.kill()
        await proxy.wait()


async def stir(kube: KubeClient) -> None:
    """Change a pod now and then: in a cluster with 150,000 of them, some pod always changes."""
    pods, name = PODS.within(WORKLOAD), f"web-0-on-{node_name(0)}"
    for number in itertools.count():
        await kube.merge(pods, name, {"metadata": {"annotations": {"example.com/stirred": str(number)}}})
        await asyncio.sleep(STIR_SECONDS)


async def measure(server: ApiServer, setting: Setting) -> dict[str, str]:
    """Run a rollout and return a row of the table."""
    async with KubeClient.open(server.kubeconfig()) as admin, far_away(server, setting.milliseconds) as kubeconfig:
        vanish = vanishing(admin.session(), NAMESPACE)
        agents = SimulatedAgents(admin, NAMESPACE, setting.seconds, vanish, spread=setting.spread)
        background = asyncio.gather(agents.run(), stir(admin))
        strategy = {"maxConcurrent": setting.in_flight, "maxUnavailable": "100%"}
        await admin.create(UPGRADES, upgrade_object(NAME, strategy=strategy))
        liveness, metrics = free_ports(2)
        environment = {
            **os.environ,
            **variables(kubeconfig, liveness, metrics),
            "PYTHONPATH": str(setting.tree / "operator"),
        }
        began = time.monotonic()
        with (server.directory / "operator.log").open("wb") as log:
            argv = (*DIES_WITH_US, sys.executable, "-m", "nodeupgrade.controlplane")
            operator = await asyncio.create_subprocess_exec(*argv, env=environment, stdout=log, stderr=log)
        timeline = Timeline(lambda: time.monotonic() - began, lambda: spent(operator.pid).cpu)
        try:
            following = asyncio.ensure_future(timeline.follow(admin, setting.enough))
            flying = asyncio.ensure_future(timeline.flying.wait())
            await asyncio.wait({following, flying}, return_when=asyncio.FIRST_COMPLETED)
            flying.cancel()
            until_flying = spent(operator.pid)
            while not following.done():
                await asyncio.wait({following}, timeout=15)
                now = f"{timeline.clock():.0f} s: {len(timeline.done)} of {setting.enough} nodes"
                print(f"{now}, {spent(operator.pid)}", file=sys.stderr)
                assert operator.returncode is None, (server.directory / "operator.log").read_text()[-3000:]
            following.result()
            used, p99 = spent(operator.pid), await slowest_pass(metrics)
        finally:
            operator.terminate()
            await operator.wait()
            background.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await background
    return _row(server, setting, timeline, until_flying.cpu, used.cpu, used.memory, p99)


def _row(  # noqa: PLR0917
    server: ApiServer, setting: Setting, timeline: Timeline, early: float, cpu: float, memory: float, p99: float
) -> dict[str, str]:
    done = len(timeline.done)
    counted = writes(next(server.directory.parent.glob("audit.log")))
    events = sum(number for what, number in counted.items() if what.endswith(" events"))
    print(dict(counted), file=sys.stderr)
    total, ideal, first = timeline.done[done], setting.ideal, setting.in_flight
    steady, cpu_steady = "–", "–"
    if done > first:
        steady = f"{(ideal[done - 1] - ideal[first - 1]) / (total - timeline.done[first]):.2f}"
        cpu_steady = f"{(cpu - timeline.cpu[first]) / (done - first):.3f}"
    return {
        "nodes": str(setting.nodes),
        "RTT, ms": f"{setting.milliseconds:g}",
        "first pass, s": f"{timeline.first_pass:.1f}",
        "first in flight, s (CPU s)": f"{timeline.first_in_flight:.1f} ({early:.1f})",
        "all claimed, s": f"{timeline.planned or float('nan'):.1f}",
        "done": str(done),
        "took, s": f"{total:.0f}",
        "of the ideal": f"{ideal[done - 1] / total:.2f}",
        "of the ideal, steadily": steady,
        "writes a node": f"{(sum(counted.values()) - events) / done:.1f}",
        "events a node": f"{events / done:.1f}",
        "CPU a node, s": f"{(cpu - early) / done:.3f}",
        "CPU a node, steadily, s": cpu_steady,
        "memory, MB": f"{memory:.0f}",
        "status, KiB": f"{timeline.largest / 1024:.1f}",
        "p99 of a pass, s": f"≤ {p99:g}",
    }


async def run(setting: Setting) -> dict[str, str]:
    """Measure one setting on an API server of its own."""
    with api_server() as server:
        server.kubectl("apply", "-k", str(ROOT / "manifests"))
        wait_until_established(server.kubectl, *OURS)
        async with KubeClient.open(server.kubeconfig()) as admin:
            took = await fill(admin, server, setting.nodes, setting.pods)
        print(f"{setting.nodes} Nodes with {setting.pods} pods each made in {took:.0f} s", file=sys.stderr)
        return await measure(server, setting)


@click.command(help=__doc__)
@click.option("--nodes", type=int, multiple=True, default=(500, 1000, 2000, 5000), show_default=True)
@click.option("--latency", type=float, multiple=True, default=(0, 5, 20, 50), show_default=True, help="RTTs, ms")
@click.option("--pods", default=30, show_default=True, help="pods on each node")
@click.option("--in-flight", default=100, show_default=True)
@click.option("--seconds", default=40.0, show_default=True, help="what the agent of a node takes")
@click.option("--spread", default=0.0, show_default=True, help="by what share of that nodes differ; 0: all in step")
@click.option("--rounds", type=int, help="end after so many times the nodes in flight, not with the rollout")
@click.option("--tree", type=Path, default=ROOT, help="source tree of the operator")
def main(  # noqa: PLR0917
    nodes: tuple[int, ...],
    latency: tuple[float, ...],
    pods: int,
    in_flight: int,
    seconds: float,
    spread: float,
    rounds: int | None,
    tree: Path,
) -> None:
    """Measure and print."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # so that nothing is left behind
    table, rows = Table(), list[dict[str, str]]()
    for count in nodes:
        for milliseconds in latency:
            setting = Setting(
                nodes=count,
                in_flight=in_flight,
                pods=pods,
                milliseconds=milliseconds,
                seconds=seconds,
                spread=spread,
                rounds=rounds,
                tree=tree,
            )
            rows.append(asyncio.run(run(setting)))
            print(rows[-1], file=sys.stderr)
    for name in rows[0]:
        table.add_column(name, justify="right")
    for row in rows:
        table.add_row(*row.values())
    Console(width=240).print(table)


if __name__ == "__main__":
    main()
