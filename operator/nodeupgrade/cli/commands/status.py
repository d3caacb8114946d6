"""`nodeupgrade status`: show the state of rollouts, once or until they end."""

import click

from nodeupgrade.api.upgrade.object import Upgrade
from nodeupgrade.cli.console import dump, output_option, show
from nodeupgrade.cli.inputs import reading
from nodeupgrade.cli.inputs.cluster import Seconds, World, on_cluster
from nodeupgrade.cli.program import OK, command
from nodeupgrade.cli.reports.overview import Overview, overview
from nodeupgrade.cli.screens import status
from nodeupgrade.cli.screens.watch import Until, watch
from nodeupgrade.ports.kube import KubeApi


@command(
    "status",
    "nodeupgrade status",
    "nodeupgrade status kubelet-1-33-13",
    "nodeupgrade status kubelet-1-33-13 --watch --timeout 6h || nodeupgrade failures kubelet-1-33-13",
    "nodeupgrade status kubelet-1-33-13 -o json | jq .estimate.completion",
)
@click.argument("name", required=False)
@click.option("--watch", "-w", "watched", is_flag=True, help="Keep showing it until the rollout ends.")
@click.option("--timeout", "limit", type=Seconds(), help="With --watch: give up after so long.")
@click.option("--interval", type=Seconds(), default="2s", show_default=True, help="With --watch: time between looks.")
@click.option(
    "--stop-when-stalled", is_flag=True, help="With --watch: end, with exit code 1, when somebody has to act."
)
@output_option()
@on_cluster
async def status_command(
    world: World,
    kube: KubeApi,
    *,
    name: str | None,
    watched: bool,
    limit: float | None,
    interval: float,
    stop_when_stalled: bool,
    output: str,
) -> int:
    """Show how rollouts stand.

    Without NAME all of them, one line each; with NAME one in detail: waves, nodes in flight, last failures, and
    what its conditions mean. Bars show nodes done (█), gone wrong or refused (▚), in flight (▒) and pending (·).

    With --watch it is shown again and again until the rollout ends: on a terminal as a live table, elsewhere one
    line for each change. The exit code is then 0 when the rollout succeeded (or the plan it was asked for is
    there), 1 when it ended otherwise, and 4 when --timeout was over first. A rollout that waits for an approval, a
    window or a person has not ended.
    """
    if watched and (name is None or output != "text"):
        raise click.UsageError("--watch needs the NAME of one rollout, and shows it as text")
    if not watched and (limit is not None or stop_when_stalled):
        raise click.UsageError("--timeout and --stop-when-stalled belong to --watch")
    if watched and name is not None:
        until = Until(interval=interval, limit=limit, stop_when_stalled=stop_when_stalled)
        return await watch(world, lambda: seen(world, kube, name), until)
    if name is None:
        await _all(world, kube, output)
        return OK
    found = await seen(world, kube, name)
    if output == "text":
        show(status.one(found, world.now()))
    else:
        dump(found.document(), output)
    return OK


async def seen(world: World, kube: KubeApi, name: str) -> Overview:
    """Read one rollout and sum it up."""
    return await _summed_up(world, kube, await reading.upgrade(kube, name))


async def _summed_up(world: World, kube: KubeApi, upgrade: Upgrade) -> Overview:
    tasks = await reading.tasks_named(kube, upgrade.status.in_flight)
    return overview(upgrade, tasks, world.now())


async def _all(world: World, kube: KubeApi, output: str) -> None:
    upgrades = await reading.upgrades(kube)
    if output != "text":
        dump([(await _summed_up(world, kube, each)).document() for each in upgrades], output)
    elif upgrades:
        show(status.many([overview(each, {}, world.now()) for each in upgrades], world.now()))
    else:
        click.echo("There are no NodeUpgrades. See `kubectl explain nodeupgrade.spec` and `nodeupgrade plan --help`.")
