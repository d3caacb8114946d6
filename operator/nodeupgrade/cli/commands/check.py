"""`nodeupgrade check`: whether an installation could carry out a rollout."""

import click

from nodeupgrade.api.json import to_json
from nodeupgrade.cli.console import Text, show
from nodeupgrade.cli.inputs.cluster import World, on_cluster
from nodeupgrade.cli.inputs.completion import nodes
from nodeupgrade.cli.inputs.installation import State, examine, uninstallable
from nodeupgrade.cli.output import dump, output_option
from nodeupgrade.cli.program import NO, OK, command
from nodeupgrade.cli.screens.formatting import BAD, FAINT, GOOD, table
from nodeupgrade.ports.kube import ReviewingKube

_STYLES = {State.OK: GOOD, State.PROBLEM: BAD, State.UNKNOWN: FAINT}


@command("check", "nodeupgrade check", "nodeupgrade check --node node-17", "nodeupgrade check -o json")
@click.option("--node", shell_complete=nodes, help="Also try an agent pod on this node; none is created.")
@click.option("--before-uninstall", is_flag=True, help="Instead, say whether the operator may be uninstalled.")
@output_option()
@on_cluster
async def check_command(
    world: World, kube: ReviewingKube, *, node: str | None, before_uninstall: bool, output: str
) -> int:
    """Say whether the installation could carry out a rollout.

    One line each: whether the API server serves our objects; what you may do; whether an operator leads, and if none
    does, why its pods do not start; whether the admission policies are there; and, with --node, whether an agent pod
    would be admitted on that node, by quotas, pod security and webhooks. It changes nothing.

    With --before-uninstall, it only says whether nodes are in flight, which nobody would finish without an operator.

    The exit code is 1 when there is a problem. What you may not look at is no problem.
    """
    found = await (uninstallable(kube) if before_uninstall else examine(world, kube, node))
    if output != "text":
        dump([to_json(line) for line in found], output)
    else:
        drawn = table("STATE", "WHAT", "FOUND")
        for line in found:
            drawn.add_row(Text(line.state.value, _STYLES[line.state]), line.subject, line.message)
        show(drawn)
    return NO if any(line.state is State.PROBLEM for line in found) else OK
