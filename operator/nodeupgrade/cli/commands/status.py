"""`nodeupgrade status`: show the state of rollouts, once or until they end."""

from collections import defaultdict
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any

import click
from rich.console import Group, RenderableType
from rich.live import Live

from nodeupgrade.api.task.object import Task
from nodeupgrade.api.upgrade.object import Upgrade
from nodeupgrade.cli.console import console, say, show
from nodeupgrade.cli.inputs import cluster_objects
from nodeupgrade.cli.inputs.cluster import Seconds, World
from nodeupgrade.cli.inputs.clusters import Clusters, on_clusters
from nodeupgrade.cli.inputs.completion import rollouts
from nodeupgrade.cli.inputs.fleet import read_fleet
from nodeupgrade.cli.output import dump, output_option
from nodeupgrade.cli.program import NO, NO_CLUSTER, OK, TIME_IS_OVER, called, command
from nodeupgrade.cli.reports.clusters import ClusterReport
from nodeupgrade.cli.reports.overview import Overview, overview
from nodeupgrade.cli.screens import status
from nodeupgrade.cli.screens.clusters import screen_of_clusters
from nodeupgrade.cli.screens.formatting import to_the_second
from nodeupgrade.cluster.kube_api import ForbiddenError, KubeApi, UnavailableError
from nodeupgrade.fleet.decide.membership import view_rollout
from nodeupgrade.fleet.decide.node_state import Place

Look = Callable[[], Awaitable[Sequence[Overview]]]
Draw = Callable[[Sequence[Overview]], RenderableType]

SECONDS_BETWEEN_LOOKS = 2.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Until:
    """How long to watch: seconds between reads, seconds in all, and whether to stop when the rollout stalls."""

    interval: float | None = None
    limit: float | None = None
    stop_when_stalled: bool = False


async def watch(world: World, look: Look, draw: Draw, until: Until, *, named: bool) -> int:
    """Show rollouts until all of them have ended, and return the exit code.

    An API server that does not answer for a while is waited for: it may be being upgraded itself.

    ``named`` says that one rollout was asked for by name; then it counts even if it had ended before.
    """
    screen = console()
    if not screen.is_terminal:
        return await _follow(world, look, _lines(world, named=named), until, named=named)
    with Live(console=screen, auto_refresh=False, vertical_overflow="visible") as live:
        return await _follow(world, look, lambda seen: live.update(draw(seen), refresh=True), until, named=named)


def _lines(world: World, *, named: bool) -> Callable[[Sequence[Overview]], None]:
    """Return what prints a line for each rollout whenever it differs from the last one."""
    last: dict[str, str] = {}

    def print_changes(rollouts: Sequence[Overview]) -> None:
        for seen in rollouts:
            name, text = seen.upgrade.name, status.line(seen)
            if text != last.get(name):
                moment = to_the_second(world.now())
                say(f"{moment} {text}" if named else f"{moment} {name}: {text}")
            last[name] = text

    return print_changes


async def _follow(
    world: World, look: Look, show: Callable[[Sequence[Overview]], None], until: Until, *, named: bool
) -> int:
    end = None if until.limit is None else world.now() + timedelta(seconds=until.limit)
    silent, seen_active = False, set[str]()
    while True:
        try:
            rollouts = await look()
        except UnavailableError as error:
            if not silent:
                say(f"waiting: {error}", err=True)
            silent = True
        else:
            silent = False
            show(rollouts)
            seen_active |= {each.upgrade.name for each in rollouts if named or not each.ended}
            if all(_is_over(each, until) for each in rollouts):
                counted = (each for each in rollouts if each.upgrade.name in seen_active)
                return OK if all(each.succeeded for each in counted) else NO
        if end is not None and world.now() >= end:
            say("error: cannot wait any longer because --timeout has expired; the rollout continues", err=True)
            return TIME_IS_OVER
        await world.sleep(SECONDS_BETWEEN_LOOKS if until.interval is None else until.interval)


def _positive(_context: click.Context, _option: click.Parameter, value: float | None) -> float | None:
    if value is not None and value <= 0:
        raise click.BadParameter("specify a time longer than 0s")
    return value


def _is_over(seen: Overview, until: Until) -> bool:
    return seen.ended or (until.stop_when_stalled and seen.stalled and not seen.flying)


async def _of_several(clusters: Clusters, *, name: str | None, watched: bool, output: str, **others: Any) -> int:
    """Show a line for each cluster, which costs it one request: tasks of nodes in flight would cost one each."""
    if watched or any(others.values()):
        raise click.UsageError("--watch and --verbose, and what belongs to them, show one cluster; give one --context")
    world = clusters.connection.world

    async def look(_context: str, kube: KubeApi) -> list[Overview]:
        listed = await cluster_objects.upgrades(kube) if name is None else [await cluster_objects.upgrade(kube, name)]
        return [overview(each, {}, world.now()) for each in listed]

    answers = await clusters.ask(look)
    reports = [
        ClusterReport(
            context=each.context,
            rollouts=tuple(each.value or ()),
            error=each.error.format_message() if each.error else "",
            silent=each.silent,
        )
        for each in answers
    ]
    if output != "text":
        dump([each.document() for each in reports], output)
    else:
        show(screen_of_clusters(reports, world.now()))
    if any(each.silent for each in reports):
        return NO_CLUSTER
    return OK if all(each.well for each in reports) else NO


@command(
    "status",
    "nodeupgrade status",
    "nodeupgrade status kubelet-1-33-13",
    "nodeupgrade status --watch",
    "nodeupgrade status kubelet-1-33-13 --verbose",
    "nodeupgrade status kubelet-1-33-13 --watch --timeout 6h || nodeupgrade failures kubelet-1-33-13",
    "nodeupgrade status kubelet-1-33-13 -o json | jq .estimate.completion",
    "nodeupgrade status --context 'prod-*' --context staging",
)
@click.argument("name", required=False, shell_complete=rollouts)
@click.option("--watch", "-w", "watched", is_flag=True, help="Follow the rollouts shown until all of them end.")
@click.option(
    "--verbose",
    "-v",
    is_flag=True,
    help="With NAME: every node with its steps, who is skipped, and all conditions.",
)
@click.option("--timeout", "limit", type=Seconds(), help="With --watch: how long to wait.")
@click.option(
    "--interval", type=Seconds(), callback=_positive, help="With --watch: time between updates.  [default: 2s]"
)
@click.option("--stop-when-stalled", is_flag=True, help="With --watch: exit with code 1 when a person has to act.")
@output_option()
@on_clusters(_of_several)
async def status_command(
    world: World, kube: KubeApi, *, name: str | None, watched: bool, verbose: bool, output: str, **until: Any
) -> int:
    """Show the status of rollouts.

    Without NAME, shows all rollouts, one line each, and the nodes in flight; with NAME, one rollout as a tree: its
    waves, their nodes in flight with the step that each is at, and what went wrong. Conditions are shown when they
    say that something is wrong, and always with --verbose.

    With --watch, follows them until all rollouts shown have ended: on a terminal as a live screen, elsewhere one line
    for each change. The exit code is then 0 when they succeeded (or the report of an `action: Plan` is complete), 1
    when one ended otherwise, and 4 when --timeout expired first. A rollout that waits for an approval, a window or a
    person has not ended; without NAME, rollouts that had ended before do not count.

    With several contexts, shows a line for each cluster, and the failures of all. Rollouts that have ended count as
    long as none succeeded after them. Clusters are asked at once, and none gets longer than twice --request-timeout.
    The exit code is 3 when one did not answer; else 1 when in one nodes failed or were refused, a rollout stalls or
    ended without success, or there is no NAME; else 0. With --output, it is all rollouts of each cluster.
    """
    if watched and output != "text":
        raise click.UsageError("--watch shows text only")
    if verbose and (name is None or output != "text"):
        raise click.UsageError("--verbose needs the NAME of one rollout, and shows it as text")
    if not watched and Until(**until) != Until():
        raise click.UsageError("--timeout, --interval and --stop-when-stalled need --watch")

    async def look() -> list[Overview]:
        return await (
            _every(world, kube, whole=watched)
            if name is None
            else _named(world, kube, name, verbose=verbose, once=not watched)
        )

    def draw(found: Sequence[Overview]) -> RenderableType:
        if name is None:
            return status.many(found, world.now())
        return Group(*(status.one(each, world.now(), verbose=verbose) for each in found))

    if watched:
        return await watch(world, look, draw, Until(**until), named=name is not None)
    found = await look()
    if output != "text":
        dump([each.document() for each in found] if name is None else found[0].document(), output)
    elif found:
        show(draw(found))
    else:
        advice = f"See `kubectl explain nodeupgrade.spec` and `{called()} plan --help`."
        say(f"There are no NodeUpgrades. {advice}")
    return OK


async def _named(world: World, kube: KubeApi, name: str, *, verbose: bool, once: bool) -> list[Overview]:
    """Read one rollout; ``verbose`` with the tasks of all its nodes and, if it is done ``once``, those it skips."""
    upgrade = await cluster_objects.upgrade(kube, name)
    if verbose:
        read = await cluster_objects.tasks(kube, rollout=name)
    else:
        failed = (failure.node for failure in upgrade.status.failures)
        read = list((await cluster_objects.tasks_named(kube, {*upgrade.status.flying, *failed})).values())
    ours: dict[str, Task] = {task.name: task for task in read if task.spec.upgrade_ref.uid == upgrade.uid}
    seen = overview(upgrade, ours, world.now())
    return [replace(seen, skipped=await _skipped(world, kube, upgrade)) if verbose and once else seen]


async def _skipped(world: World, kube: KubeApi, upgrade: Upgrade) -> dict[str, tuple[str, ...]]:
    """Return the nodes that a rollout skips now, by reason; none where the user may not read what tells."""
    found = defaultdict[str, list[str]](list)
    if upgrade.spec is None or not upgrade.status.skips:
        return {}
    with suppress(ForbiddenError):
        rollout = view_rollout(await read_fleet(kube, upgrade, quiet=True), upgrade.spec, world.now())
        for member in rollout.members.values():
            if member.place is Place.SKIPPED:
                found[member.reason.value].append(member.node)
    return {reason: tuple(nodes) for reason, nodes in found.items()}


async def _every(world: World, kube: KubeApi, *, whole: bool) -> list[Overview]:
    """Read all rollouts with the tasks of their nodes in flight; ``whole`` if none may be left out."""
    found = []
    for upgrade in await (cluster_objects.upgrades if whole else cluster_objects.readable_upgrades)(kube):
        tasks = await cluster_objects.tasks_named(kube, upgrade.status.flying)
        found.append(overview(upgrade, tasks, world.now()))
    return found
