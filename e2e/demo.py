"""The demonstration: the same kubelet swap twice, on two nodes of one real cluster.

The first node is upgraded the usual way: stop, replace the binary, start. The second is upgraded by ``kubectl apply``.
What happens to the containers is read from the runtime and the kernel, not from any program's report.
"""

import contextlib
import json
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import click
from rich.console import Console
from rich.live import Live
from rich.panel import Panel
from rich.table import Table

from e2e.cluster import Cluster, conditions
from e2e.lab import Lab, LabSpec
from e2e.lab.cluster import deploy
from e2e.lab.errors import LabError
from e2e.lab.host import hostcheck
from e2e.lab.nodes.node import Node
from e2e.lab.oracle.snapshot import NodeSnapshot
from e2e.lab.process import wait_until
from e2e.lab.progress import Lines
from e2e.lab.workloads import workload

OLD, NEW, CONTROL_PLANE = "1.30.14", "1.33.13", "1.33.13"
WATCH_SECONDS = 45.0


@dataclass(frozen=True)
class Score:
    """What became of the containers that ran before."""

    before: int
    same: int

    @property
    def restarted(self) -> int:
        """How many are not the same instance any more."""
        return self.before - self.same


@click.command()
@click.option("--pods", default=30, show_default=True, help="Pods on each of the two nodes.")
@click.option("--name", default="demo", show_default=True, help="Name of the lab that is made for it.")
@click.option("--keep/--no-keep", default=False, help="Leave the cluster there afterwards, to look around in it.")
def main(pods: int, name: str, *, keep: bool) -> None:
    """Show a naive kubelet swap that restarts everything, and one by nodeupgrade that restarts nothing."""
    console = Console()
    hostcheck.require(hostcheck.for_lab())
    console.rule(f"a real cluster: 2 nodes, kubelet {OLD}, API server {CONTROL_PLANE}")
    lab = Lab.up(LabSpec(name=name, nodes=2, kubelet=OLD, control_plane=CONTROL_PLANE), Lines())
    with contextlib.ExitStack() as stack:
        if not keep:
            stack.callback(lab.down)
        naive, careful = lab.nodes.values()
        deploy.deploy_operator(lab, Lines())
        _fill(lab, pods, naive, careful)
        first = _naively(console, lab, naive)
        second = _with_nodeupgrade(console, lab, careful)
        _sum_up(console, first, second)
        if keep:
            console.print(f"the cluster stays: python -m e2e.lab kubectl --name {name} -- get nodes,nodeupgrades")


def _fill(lab: Lab, pods: int, *nodes: Node) -> None:
    for node, suffix in zip(nodes, ("", "-b"), strict=True):
        workload.start(lab, workload.mixed_workload(pods, node.name, suffix=suffix))
    workload.wait_running(lab, count=2 * pods, timeout=600)


def _naively(console: Console, lab: Lab, node: Node) -> Score:
    console.rule(f"{node.name}: systemctl stop kubelet; cp kubelet-{NEW} /usr/bin/kubelet; systemctl start kubelet")
    before = node.settled(quiet=5)
    with _watching(console, node, before, lambda: "a plain binary swap") as score:
        node.swap_naively(NEW)
        _wait_while_changing(score)
    _show(console, lab, "get", "pods", "-n", workload.NAMESPACE, "--field-selector", f"spec.nodeName={node.name}")
    return score()


def _with_nodeupgrade(console: Console, lab: Lab, node: Node) -> Score:
    console.rule(f"{node.name}: kubectl apply -f nodeupgrade.yaml")
    cluster = Cluster(lab, node)
    before = node.settled(quiet=5)
    artifact = cluster.pre_staged(NEW)
    spec = {"version": f"v{NEW}", "artifact": artifact, "nodes": {"names": [node.name]}}
    console.print_json(json.dumps(spec))
    with _watching(console, node, before, lambda: _phase(cluster)) as score:
        cluster.apply("demo", NEW, artifact)
        upgrade = cluster.wait_for_end("demo")
    _show(console, lab, "get", "nodeupgrades")
    _show(console, lab, "get", "nodeupgradetasks")
    if conditions(upgrade)["Succeeded"]["status"] != "True":
        raise LabError(f"the upgrade did not succeed: {json.dumps(upgrade['status'], indent=1)}")
    return score()


def _phase(cluster: Cluster) -> str:
    try:
        status = cluster.task()["status"]
    except (LabError, KeyError):
        return "waiting for the operator"
    return f"{status.get('phase', '')}: {status.get('message', '')}"


@contextlib.contextmanager
def _watching(
    console: Console, node: Node, before: NodeSnapshot, say: Callable[[], str]
) -> Iterator[Callable[[], Score]]:
    """Draw once a second what is still the same instance and what is not, while the body runs."""
    running = {c.id: (c.pid, c.process_start, c.started_at) for c in before.running()}

    def score() -> Score:
        now = {c.id: (c.pid, c.process_start, c.started_at) for c in node.snapshot().running()}
        return Score(before=len(running), same=sum(now.get(i) == was for i, was in running.items()))

    done = threading.Event()
    with Live(console=console, refresh_per_second=2) as live:

        def draw() -> None:
            while not done.is_set():
                with contextlib.suppress(LabError, OSError):  # the runtime is being restarted
                    live.update(_panel(node.name, score(), say()))
                done.wait(1)

        thread = threading.Thread(target=draw)
        thread.start()
        try:
            yield score
        finally:
            done.set()
            thread.join()
        live.update(_panel(node.name, score(), say()))


def _panel(node: str, score: Score, what: str) -> Panel:
    width = 50
    same = round(width * score.same / max(1, score.before))
    bar = f"[green]{'█' * same}[/][red]{'█' * (width - same)}[/]"
    return Panel(f"{bar}\n{score.same} of {score.before} containers are the same instance\n{what}", title=node)


def _wait_while_changing(score: Callable[[], Score]) -> None:
    """Watch until nothing is left to restart, or the time is over."""
    end = time.monotonic() + WATCH_SECONDS
    wait_until(
        "the end of the restarts", lambda: score().same == 0 or time.monotonic() > end or None, WATCH_SECONDS + 30, 1
    )


def _show(console: Console, lab: Lab, *argv: str) -> None:
    console.print(f"\n[bold]$ kubectl {' '.join(argv)}[/]")
    console.print(lab.kubectl(*argv).stdout, highlight=False)


def _sum_up(console: Console, naive: Score, careful: Score) -> None:
    table = Table(title=f"kubelet {OLD} → {NEW}")
    for heading in ("", "containers before", "same instance after", "restarted"):
        table.add_column(heading, justify="left" if not heading else "right")
    for title, score in (("plain binary swap", naive), ("kubectl apply -f nodeupgrade.yaml", careful)):
        colour = "red" if score.restarted else "green"
        table.add_row(title, str(score.before), str(score.same), f"[{colour}]{score.restarted}[/]")
    console.print(table)


if __name__ == "__main__":
    main()
