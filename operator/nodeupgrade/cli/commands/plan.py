"""`nodeupgrade plan`: report what an object would do to a cluster before it is applied."""

import asyncio
import sys
from typing import TextIO

import click
from rich.progress import Progress

from nodeupgrade.api.json import Json
from nodeupgrade.api.upgrade.spec import UpgradeSpec
from nodeupgrade.cli.console import console, say, show
from nodeupgrade.cli.inputs import cluster_objects
from nodeupgrade.cli.inputs.cluster import ClusterConnection, World, cluster_options
from nodeupgrade.cli.inputs.documents import Document, documents
from nodeupgrade.cli.inputs.fleet import as_if_applied, read_fleet
from nodeupgrade.cli.inputs.problems import is_upgrade, results
from nodeupgrade.cli.output import dump, output_option
from nodeupgrade.cli.program import NO, OK, CannotError, InputFile, command, name_of
from nodeupgrade.cli.reports.plan import UPGRADED, PlanReport, as_run, objections, report, rollout, with_pods
from nodeupgrade.cli.reports.restarts import NodeForecast, forecast
from nodeupgrade.cli.screens import plan
from nodeupgrade.cluster.kube_api import PODS, KubeApi
from nodeupgrade.cluster.pods import parse_pod
from nodeupgrade.findings.finding import Finding
from nodeupgrade.fleet.decide.node_state import NodeState, Place
from nodeupgrade.fleet.decide.rollout_view import RolloutView
from nodeupgrade.fleet.snapshot import FleetSnapshot

READS_AT_ONCE = 8
"""Nodes whose pods are listed concurrently: limits the load on the API server, and memory use on large fleets."""


@command(
    "plan",
    "nodeupgrade plan kubelet-1-33-13.yaml",
    "nodeupgrade plan kubelet-1-33-13.yaml --nodes",
    "kubectl get nodeupgrade kubelet-1-33-13 -o yaml | nodeupgrade plan -",
    "nodeupgrade plan kubelet-1-33-13.yaml -o json | jq '.nodes[] | select(.place == \"Refused\")'",
)
@click.argument("file", type=InputFile())
@click.option("--nodes", "long", is_flag=True, help="Add a line for every node.")
@output_option()
@cluster_options
def plan_command(connection: ClusterConnection, file: TextIO, long: bool, output: str) -> int:
    """Show what the NodeUpgrade in FILE would do to the cluster, without touching anything.

    Shows which nodes are selected, skipped and refused, and why; the waves, and when windows allow them;
    what would be started first; and which containers a plain kubelet swap would restart, and why,
    computed from the nodes' pods. It reads nodes, pods, NodeUpgrades and NodeUpgradeTasks, and writes nothing.
    What only the node itself knows (stored hashes, flags, disk space) is reported after an object with
    `action: Plan` is applied; if FILE has been applied with it, the reports of the nodes are shown too.

    The exit code is 1 when the file is not valid, selects nothing, or a node would be refused.
    """
    document = _only_upgrade(file)
    problems = [each for each in results(document, None, connection.world.now()) if not each.warning]
    if problems:
        if output != "text":
            dump({"problems": problems}, output)
        for problem in problems if output == "text" else ():
            say(str(problem))
        return NO
    made = connection.run(lambda world, kube: _plan(world, kube, document.body))
    if output == "text":
        show(plan.plan(made, long=long))
    else:
        dump(plan.document(made), output)
    return OK if made.members and not made.placed(Place.REFUSED) else NO


def _only_upgrade(file: TextIO) -> Document:
    found = [each for each in documents(file.read(), name_of(file)) if is_upgrade(each)]
    if len(found) != 1:
        names = ", ".join(each.name for each in found)
        there = f"it holds {len(found)}: {names}" if found else "it holds no NodeUpgrade"
        raise CannotError(f"cannot plan {name_of(file)} because {there}; give a file with one NodeUpgrade")
    return found[0]


async def _plan(world: World, kube: KubeApi, document: Json) -> PlanReport:
    live = (await cluster_objects.bodies(kube, {document["metadata"]["name"]})).get(document["metadata"]["name"])
    fleet = await read_fleet(kube, as_if_applied(document, live, world.now()))
    spec, running = fleet.upgrade.spec, as_run(fleet)
    seen = rollout(running, world.now())
    if spec is None or seen is None:
        raise CannotError(f"cannot plan {fleet.upgrade.name} because {fleet.upgrade.problem}")
    members = dict(seen.members)
    forecasts: dict[str, NodeForecast] = {}
    found: dict[str, tuple[Finding, ...]] = {
        node: objections(running, seen, member) for node, member in members.items()
    }
    wanted = [member for member in members.values() if member.place in UPGRADED and _is_older(member, spec)]
    with Progress(console=console(err=True), transient=True, disable=not sys.stderr.isatty()) as progress:
        bar = progress.add_task("reading pods", total=len(wanted))
        for start in range(0, len(wanted), READS_AT_ONCE):
            batch = (_examine(kube, running, seen, member) for member in wanted[start : start + READS_AT_ONCE])
            for member, expected, objecting in await asyncio.gather(*batch):
                members[member.node], found[member.node] = member, objecting
                if member.place in UPGRADED:
                    forecasts[member.node] = expected
                progress.advance(bar)
    ordered = [members[node] for node in seen.members]
    now, on_cluster = world.now(), live is not None
    return report(running, seen, ordered, forecasts, now, action=spec.action, on_cluster=on_cluster, found=found)


def _is_older(member: NodeState, spec: UpgradeSpec) -> bool:
    """Report whether the node's kubelet still has to be swapped; a node in flight may run the new one already."""
    return member.view is not None and member.view.kubelet_version != spec.version


async def _examine(
    kube: KubeApi, fleet: FleetSnapshot, seen: RolloutView, member: NodeState
) -> tuple[NodeState, NodeForecast, tuple[Finding, ...]]:
    """List the pods of a node, and keep only what is derived from them."""
    pods = await kube.list(PODS, fields={"spec.nodeName": member.node})
    version = "" if member.view is None else member.view.kubelet_version
    expected = forecast(member.node, pods, version, seen.spec.version)
    views = [parse_pod(pod) for pod in pods]
    return with_pods(member, views), expected, objections(fleet, seen, member, views)
