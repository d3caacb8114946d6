"""`nodeupgrade failures` and `evidence`: what went wrong, and what was proved."""

from __future__ import annotations

import click

from nodeupgrade.cli import evidence_view, reading
from nodeupgrade.cli.cluster import World, on_cluster
from nodeupgrade.cli.failures_view import by_reason, failures
from nodeupgrade.cli.program import NO, OK, command
from nodeupgrade.cli.screen import dump, output_option, show
from nodeupgrade.ports.kube import KubeApi


@command(
    "failures",
    "nodeupgrade failures kubelet-1-33-13",
    "nodeupgrade failures kubelet-1-33-13 -o json | jq -r '.[].node'",
)
@click.argument("name")
@output_option()
@on_cluster
async def failures_command(world: World, kube: KubeApi, *, name: str, output: str) -> int:
    """List the nodes of a rollout that failed, were rolled back or refused, and what to do.

    Nodes are grouped by reason. The exit code is 1 when there are any, 0 when there are none. After the cause is
    removed, `nodeupgrade retry` has all of them tried again.
    """
    upgrade = await reading.upgrade(kube, name)
    found = failures(upgrade, await reading.tasks_of(kube, name))
    if output != "text":
        dump([each.document() for each in found], output)
    elif found:
        show(by_reason(name, found, world.now()))
    else:
        click.echo(f"No node of {name} failed or was refused.")
    return NO if found else OK


@command(
    "evidence",
    "nodeupgrade evidence node-17",
    "nodeupgrade evidence node-17 -o json > node-17.json",
)
@click.argument("node")
@output_option()
@on_cluster
async def evidence_command(world: World, kube: KubeApi, *, node: str, output: str) -> int:
    """Show the proof of what was done to a node.

    Steps with their times, the kubelet's binary before and after with its digest, the seconds without a kubelet,
    how many containers were counted, rewritten and restarted (each by name), what the node said and what the
    control plane found when it looked for itself, and how earlier runs ended. All of it is in the node's
    NodeUpgradeTask; where the journal lies on the node itself is said at the end.
    """
    task = await reading.required_task(kube, node)
    if output == "text":
        show(evidence_view.proof(task, world.now()))
    else:
        dump(evidence_view.document(task), output)
    return OK
