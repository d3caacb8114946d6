"""`nodeupgrade hashes`: how many running containers carry which kubelet's hash."""

from collections import Counter
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from datetime import datetime

import click

from nodeupgrade.api.json import timestamp
from nodeupgrade.api.task.object import Task
from nodeupgrade.api.task.status import UNKNOWN_KUBELET
from nodeupgrade.api.wording import counted
from nodeupgrade.cli.console import say, show
from nodeupgrade.cli.inputs import cluster_objects
from nodeupgrade.cli.inputs.cluster import World, on_cluster
from nodeupgrade.cli.inputs.completion import nodes
from nodeupgrade.cli.output import dump, output_option
from nodeupgrade.cli.program import OK, command
from nodeupgrade.cli.screens.formatting import Columns, lasting
from nodeupgrade.cluster.kube_api import KubeApi
from nodeupgrade.findings.finding import named


@dataclass(frozen=True, slots=True, kw_only=True)
class Carried:
    """Containers that carry the hash of one kubelet, and the number of nodes with such containers."""

    kubelet: str
    containers: int
    nodes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class FleetCensus:
    """The containers of some nodes."""

    kubelets: tuple[Carried, ...]  # by kubelet, oldest first
    counted: int  # number of nodes that have counted their containers
    uncounted: tuple[str, ...]  # names of those that have not
    oldest: datetime | None  # when the first of them did so


def fleet_census(tasks: Iterable[Task], nodes: Collection[str]) -> FleetCensus:
    """Add up what the nodes of these names have counted last."""
    found = {task.name: task.status.hashes for task in tasks if task.status.hashes is not None and task.name in nodes}
    containers, on = Counter[str](), Counter[str]()
    for census in found.values():
        containers += census.counted
        on.update((+census.counted).keys())
    return FleetCensus(
        kubelets=tuple(
            Carried(kubelet=kubelet, containers=containers[kubelet], nodes=on[kubelet])
            for kubelet in sorted(on, key=_by_age)
        ),
        counted=len(found),
        uncounted=tuple(sorted(name for name in nodes if name not in found)),
        oldest=min((census.as_of for census in found.values() if census.as_of is not None), default=None),
    )


def _by_age(kubelet: str) -> tuple[bool, int, str]:
    return kubelet == UNKNOWN_KUBELET, len(kubelet), kubelet


NAMED = 5


@command(
    "hashes",
    "nodeupgrade hashes --fleet",
    "nodeupgrade hashes node-17 node-18",
    "nodeupgrade hashes --fleet -o json | jq '.kubelets[] | select(.kubelet == \"1.12\").containers'",
)
@click.argument("names", nargs=-1, metavar="[NODE]...", shell_complete=nodes)
@click.option("--fleet", is_flag=True, help="All nodes of the cluster.")
@output_option()
@on_cluster
async def hashes_command(world: World, kube: KubeApi, *, names: tuple[str, ...], fleet: bool, output: str) -> int:
    """Count running containers by the kubelet whose hash they carry.

    The numbers are those that each node reported when it was last examined (`action: Plan`) or upgraded. Nodes that
    have reported none are named. A container counts as `unknown` if no known kubelet computes the hash that it
    carries for its present spec.
    """
    if fleet == bool(names):
        raise click.UsageError("specify either nodes or --fleet")
    if fleet:
        found = fleet_census(await cluster_objects.tasks(kube), await cluster_objects.node_names(kube))
    else:
        found = fleet_census((await cluster_objects.tasks_named(kube, names)).values(), frozenset(names))
        for name in found.uncounted:
            await cluster_objects.node(kube, name)  # or the name is misspelt
    if output != "text":
        dump(found, output)
        return OK
    drawn = Columns("KUBELET", "CONTAINERS", "NODES")
    for each in found.kubelets:
        drawn.add_row(each.kubelet, str(each.containers), str(each.nodes))
    if found.kubelets:
        show(drawn)
    for line in _closing(found, world):
        say(line)
    return OK


def _closing(found: FleetCensus, world: World) -> list[str]:
    containers = sum(each.containers for each in found.kubelets)
    oldest = found.oldest
    age = (
        "" if oldest is None else f"; the oldest count is of {timestamp(oldest)} ({lasting(world.now() - oldest)} ago)"
    )
    lines = [f"{counted(containers, 'container')} on {counted(found.counted, 'node')}{age}."]
    if found.uncounted:
        lines.append(
            f"Not counted: {counted(len(found.uncounted), 'node')} ({named(found.uncounted, NAMED)}); "
            "a NodeUpgrade with action: Plan counts them."
        )
    return lines
