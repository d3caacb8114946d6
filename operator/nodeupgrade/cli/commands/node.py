"""`nodeupgrade failures`, `explain-node` and `evidence`: failures and their causes, one node's state and proof."""

from dataclasses import replace

import click

from nodeupgrade.cli.console import say, show
from nodeupgrade.cli.inputs import cluster_objects
from nodeupgrade.cli.inputs.cluster import World, on_cluster
from nodeupgrade.cli.inputs.completion import claimed_nodes, nodes, rollouts
from nodeupgrade.cli.inputs.fleet import read_fleet
from nodeupgrade.cli.output import dump, output_option
from nodeupgrade.cli.program import NO, OK, command
from nodeupgrade.cli.reports.failures import failures
from nodeupgrade.cli.reports.node import NodeReport, active_for, choose_upgrade, cordon_of, event, is_ours, membership
from nodeupgrade.cli.screens import evidence
from nodeupgrade.cli.screens import node as screen
from nodeupgrade.cli.screens.status import by_reason
from nodeupgrade.cluster.kube_api import PODS, TASKS, KubeApi
from nodeupgrade.cluster.nodes import view_node
from nodeupgrade.cluster.pods import parse_pod
from nodeupgrade.fleet.decide.membership import view_rollout


@command(
    "failures",
    "nodeupgrade failures kubelet-1-33-13",
    "nodeupgrade failures kubelet-1-33-13 -o json | jq -r '.[].node'",
)
@click.argument("name", shell_complete=rollouts)
@output_option()
@on_cluster
async def failures_command(world: World, kube: KubeApi, *, name: str, output: str) -> int:
    """List the nodes of a rollout that failed, were rolled back or refused, and what to do.

    Nodes are grouped by reason. The exit code is 1 when there are any, 0 when there are none. After the cause is
    removed, `nodeupgrade retry` tries all of them again.
    """
    upgrade = await cluster_objects.upgrade(kube, name)
    tasks, unreadable = await cluster_objects.readable_tasks(kube, rollout=name)
    cluster_objects.warn_of(unreadable, TASKS)
    found = failures(upgrade, tasks)
    if output != "text":
        dump([each.document() for each in found], output)
    elif found:
        show(by_reason(name, found, world.now()))
    elif not unreadable:
        say(f"No node of {name} failed or was refused.")
    return NO if found or unreadable else OK


@command(
    "explain-node", "nodeupgrade explain-node node-17", "nodeupgrade explain-node node-17 --upgrade kubelet-1-33-13"
)
@click.argument("node", shell_complete=nodes)
@click.option(
    "--upgrade",
    "chosen",
    shell_complete=rollouts,
    help="The rollout to show it in.  [default: the one that holds the node]",
)
@output_option()
@on_cluster
async def explain_node_command(world: World, kube: KubeApi, *, node: str, chosen: str | None, output: str) -> int:
    """Show everything that is known about one node.

    Its place in the rollout (wave, order), what it waits for (an approval, a window, a budget, another rollout),
    computed with the operator's own rules; its phase, steps and hazards; whose cordon it carries; how
    earlier runs ended; recent events.
    """
    report = await _node_report(world, kube, node, chosen)
    if output == "text":
        show(screen.node_report(report, world.now()))
    else:
        dump(report.document(), output)
    return OK


async def _node_report(world: World, kube: KubeApi, name: str, chosen: str | None) -> NodeReport:
    view = view_node(await cluster_objects.node(kube, name))
    task, upgrades = await cluster_objects.task(kube, view.name), await cluster_objects.readable_upgrades(kube)
    upgrade = await cluster_objects.upgrade(kube, chosen) if chosen else choose_upgrade(upgrades, view, task)
    found = [
        *await cluster_objects.events_about(kube, "Node", name),
        *await cluster_objects.events_about(kube, "NodeUpgradeTask", name),
    ]
    events = sorted((event(body) for body in found if is_ours(body)), key=lambda each: each.time)
    report = NodeReport(
        node=view,
        upgrade=upgrade,
        task=task,
        selected_by=tuple(each.name for each in active_for(upgrades, view)),
        cordon=cordon_of(view, upgrades),
        events=tuple(events),
    )
    if upgrade is None or upgrade.spec is None:
        return report
    pods = [parse_pod(pod) for pod in await kube.list(PODS, fields={"spec.nodeName": name})]
    fleet = replace(await read_fleet(kube, upgrade), pods={view.name: tuple(pods)})
    now = world.now()
    return replace(report, membership=membership(view_rollout(fleet, upgrade.spec, now), view.name, now))


@command(
    "evidence",
    "nodeupgrade evidence node-17",
    "nodeupgrade evidence node-17 -o json > node-17.json",
    "jq -cS 'del(.digest)' node-17.json | sha256sum",
)
@click.argument("node", shell_complete=claimed_nodes)
@output_option()
@on_cluster
async def evidence_command(world: World, kube: KubeApi, *, node: str, output: str) -> int:
    """Show the proof of what was done to a node.

    Steps with their times, the kubelet's binary before and after with its digest, the seconds without a kubelet,
    how many containers were counted, rewritten and restarted (each by name), what the node reported and what the
    control plane's own check found, and how earlier runs ended. All of it is in the node's
    NodeUpgradeTask; the end says where the journal is on the node.

    With -o json or yaml, a digest covers everything else that is printed. It shows that a copy was not changed; it does
    not show who printed it. For that, sign the file, for example with `cosign sign-blob` or `ssh-keygen -Y sign`.
    """
    task = await cluster_objects.required_task(kube, node)
    if output == "text":
        show(evidence.proof(task, world.now()))
    else:
        dump(evidence.sealed(evidence.document(task)), output)
    return OK
