"""How long a node is without a kubelet, against the floor: a bare kubelet restart plus a bare runtime restart.

Everything is measured on one node, in one run, from inside the node with the same instruments; what counts are the
ratios, since absolute times say more about the machine. ``make bench`` prints the table.
"""

import contextlib
import json
import shutil
import statistics
from collections.abc import Sequence
from pathlib import PurePosixPath

import click
from rich.console import Console
from rich.table import Table

from e2e.cluster import Cluster, conditions
from e2e.lab import Lab, LabSpec, hostcheck
from e2e.lab.progress import Lines
from nodeupgrade.agent import bundle

OLD, NEW, CONTROL_PLANE = "1.30.14", "1.33.13", "1.33.13"
TARGET = 1.5
BUNDLES = PurePosixPath("/var/lib/nodeupgrade/bundles")

# Runs inside the node, on the bundle that the first upgrade left there.
PROBE = """
import json, subprocess, sys, time
from pathlib import Path
from nodeupgrade.adapters.containerd import ContainerdRuntime
from nodeupgrade.adapters.kubelet import HostKubelet
from nodeupgrade.adapters.proc import ProcessTable
processes = ProcessTable(Path("/proc"))
kubelet, runtime = HostKubelet(processes), ContainerdRuntime(processes=processes)
runtime.inventory(full=False)
def timed(unit, ready):
    began = time.monotonic()
    subprocess.run(["systemctl", "restart", unit], check=True)
    ready()
    return time.monotonic() - began
def healthy():
    while not kubelet.healthy():
        time.sleep(0.005)
print(json.dumps({
    "kubelet": timed("kubelet", healthy),
    "runtime": timed("containerd", lambda: runtime.wait_until_answering(60)),
}))
"""


@click.command()
@click.option("--pods", default=60, show_default=True, help="Pods on the node.")
@click.option("--rounds", default=3, show_default=True, help="Upgrades there and back, and pairs of bare restarts.")
@click.option("--name", default="bench", show_default=True, help="Name of the lab that is made for it.")
def main(pods: int, rounds: int, name: str) -> None:
    """Measure the time without a kubelet on one real node, and compare it with the floor."""
    hostcheck.require(hostcheck.for_lab())
    lab = Lab.up(LabSpec(name=name, nodes=1, kubelet=OLD, control_plane=CONTROL_PLANE), Lines())
    with contextlib.ExitStack() as stack:
        stack.callback(lab.down)
        cluster = Cluster.with_operator(lab, pods=pods)
        ours: list[float] = []
        floors: list[dict[str, float]] = []
        for number in range(1, rounds + 1):
            for version, down in ((NEW, False), (OLD, True)):
                ours.append(_upgrade(cluster, f"round-{number}-to-{version.replace('.', '-')}", version, down=down))
                floors.append(_floor(cluster))
                click.echo(f"to {version}: {ours[-1]:.2f} s, floor {sum(floors[-1].values()):.2f} s")
        _print(cluster, ours, floors)


def _upgrade(cluster: Cluster, name: str, version: str, *, down: bool) -> float:
    cluster.wait_settled()
    cluster.apply(name, version, cluster.pre_staged(version), allowDowngrade=down)
    upgrade = cluster.wait_for_end(name)
    if conditions(upgrade).get("Succeeded", {}).get("status") != "True":
        raise click.ClickException(f"{name} did not succeed: {json.dumps(upgrade['status'])}")
    return float(cluster.task()["status"]["kubelet"]["downSeconds"])


def _floor(cluster: Cluster) -> dict[str, float]:
    cluster.wait_settled()
    root = BUNDLES / cluster.node.exec("ls", str(BUNDLES)).stdout.split()[0]
    python = bundle.command(root, "this")[:-2]
    found: dict[str, float] = json.loads(cluster.node.exec(*python, "-c", PROBE, timeout=120).stdout)
    return found


def _print(cluster: Cluster, ours: Sequence[float], floors: Sequence[dict[str, float]]) -> None:
    kubelet, runtime = ([floor[what] for floor in floors] for what in ("kubelet", "runtime"))
    ratios = [mine / sum(floor.values()) for mine, floor in zip(ours, floors, strict=True)]
    table = Table(
        title=f"Seconds, {len(cluster.node.snapshot().running())} containers, {OLD} ↔ {NEW}, {len(ours)} swaps"
    )
    for heading in ("", "min", "median", "max"):
        table.add_column(heading, justify="left" if not heading else "right")
    rows = (
        ("bare kubelet restart until healthy", kubelet),
        ("bare runtime restart until the CRI answers", runtime),
        ("our time without a healthy kubelet", ours),
        ("ratio ours ÷ (sum of both)", ratios),
    )
    for title, values in rows:
        table.add_row(title, *(f"{v:.2f}" for v in (min(values), statistics.median(values), max(values))))
    console = Console(width=min(100, shutil.get_terminal_size().columns))
    console.print(table)
    verdict = "met" if statistics.median(ratios) <= TARGET else "MISSED"
    console.print(f"target: median ratio ≤ {TARGET}: {verdict}")


if __name__ == "__main__":
    main()
