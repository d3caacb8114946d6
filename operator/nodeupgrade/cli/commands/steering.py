"""`nodeupgrade pause`, `resume`, `approve`, `retry` and `abort`: each explains its change, made as one patch."""

import asyncio
import json
import sys
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass
from datetime import timedelta
from functools import partial
from typing import Any, Protocol, TypeVar

import click

from nodeupgrade.api.json import timestamp
from nodeupgrade.api.printable import printable
from nodeupgrade.api.upgrade.object import Upgrade
from nodeupgrade.api.wording import counted
from nodeupgrade.cli import changes
from nodeupgrade.cli.changes import Change
from nodeupgrade.cli.console import say
from nodeupgrade.cli.inputs import cluster_objects
from nodeupgrade.cli.inputs.cluster import Seconds, World, command_error, on_cluster
from nodeupgrade.cli.inputs.clusters import Answer, Clusters, on_clusters
from nodeupgrade.cli.inputs.completion import rollouts, waves
from nodeupgrade.cli.program import NO, NO_CLUSTER, OK, TIME_IS_OVER, CannotError, command
from nodeupgrade.cluster.kube_api import UPGRADES, ConflictError, KubeApi
from nodeupgrade.errors import NodeUpgradeError

MANAGER = "nodeupgrade-cli"
"""Field manager of everything that this program writes; the status names it as the approver of a wave.

It must not begin with ``kubectl``: Flux takes over what such a manager wrote, and so it would release the brake.
"""

ATTEMPTS = 10
"""How often to try in all: the control plane updates the status often, and each update may cause a conflict."""

SECONDS_BETWEEN_READS = 1.0

F = TypeVar("F", bound=Callable[..., Any])
Decide = Callable[[Upgrade], Change]


class Tell(Protocol):
    """Prints one line for people."""

    def __call__(self, line: str, *, err: bool = False) -> None:
        """Print it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangeOptions:
    """Options of a change: dry run, whether to wait for its effect, and for how many seconds at most."""

    dry_run: bool
    wait: bool
    limit: float


def _changing(function: F) -> F:
    """Add the argument and the options that all mutating commands share."""
    return click.argument("name", shell_complete=rollouts)(_options(function))


def _changing_one_or_all(function: F) -> F:
    """As _changing(), with ``--all`` instead of a name."""
    everything = click.option("--all", "everything", is_flag=True, help="All rollouts that have not ended.")
    return click.argument("name", required=False, shell_complete=rollouts)(everything(_options(function)))


def _options(function: F) -> F:
    limited = click.option(
        "--timeout", "limit", type=Seconds(), default="10m", show_default=True, help="How long --wait waits."
    )
    waiting = click.option("--wait", is_flag=True, help="Wait until the control plane has carried it out.")
    dry = click.option("--dry-run", is_flag=True, help="Print the patch, have the API server check it, change nothing.")
    return dry(waiting(limited(function)))


def _everywhere(decide: Decide) -> Callable[..., Coroutine[Any, Any, int]]:
    """Return what makes a change in several clusters at once, and names those where it was not made."""

    async def change(clusters: Clusters, *, name: str | None, everything: bool, **given: Any) -> int:
        how, which = ChangeOptions(**given), _which(name, everything=everything)

        async def one(context: str, kube: KubeApi) -> int:
            def tell(line: str, *, err: bool = False) -> None:
                say(f"{context}: {line}", err=err)

            return await _change_each(clusters.connection.world, kube, which, decide, how, tell=tell)

        def answered(answer: Answer[int]) -> None:
            if answer.error is not None:
                say(f"{answer.context}: error: {answer.error.format_message()}", err=True)

        answers = await clusters.ask(one, answered, waits=how.limit if how.wait else 0)
        return _summed_up(answers)

    return change


def _summed_up(answers: Sequence[Answer[int]]) -> int:
    """Name the clusters where something is not as it was asked for, and return the exit code."""
    silent = [each.context for each in answers if each.silent]
    undone = [each.context for each in answers if not each.silent and (each.value or each.error)]
    if silent:
        say(f"error: no answer from {len(silent)} of {counted(len(answers), 'cluster')}: {', '.join(silent)}", err=True)
    if undone:
        say(f"error: not done in {len(undone)} of {counted(len(answers), 'cluster')}: {', '.join(undone)}", err=True)
    if silent:
        return NO_CLUSTER
    return max((each.value or NO for each in answers if each.context in undone), default=OK)


@command(
    "pause",
    "nodeupgrade pause kubelet-1-33-13",
    "nodeupgrade pause kubelet-1-33-13 --wait --timeout 20m",
    "nodeupgrade pause --all --context 'prod-*'",
)
@_changing_one_or_all
@on_clusters(_everywhere(changes.pause))
async def pause_command(world: World, kube: KubeApi, *, name: str | None, everything: bool, **how: Any) -> int:
    """Pause a rollout, or all of them: no further node is started until it is resumed.

    Sets the annotation nodeupgrade.dev/pause, which takes effect at once, without a commit; tools that sync
    from Git leave it alone. Nodes in flight finish. With --wait it returns when none is in flight.

    With several contexts, all clusters are paused at once, and none gets longer than twice --request-timeout to do
    so. Clusters that did not answer are named, and the exit code is then 3; it is 1 when one has no such rollout, or
    it has ended there. Repeat the command until the code is 0: to pause again is harmless.
    """
    which = _which(name, everything=everything)
    return await _change_each(world, kube, which, changes.pause, ChangeOptions(**how))


@command("resume", "nodeupgrade resume kubelet-1-33-13", "nodeupgrade resume kubelet-1-33-13 --context 'prod-*'")
@_changing_one_or_all
@on_clusters(_everywhere(changes.resume))
async def resume_command(world: World, kube: KubeApi, *, name: str | None, everything: bool, **how: Any) -> int:
    """Resume a paused rollout, or all of them.

    Removes the annotation nodeupgrade.dev/pause. If spec.action itself is Pause, it reports that and exits with code 1:
    that has to be changed where the object is kept. With several contexts as `nodeupgrade pause`.
    """
    which = _which(name, everything=everything)
    return await _change_each(world, kube, which, changes.resume, ChangeOptions(**how))


@command("approve", "nodeupgrade approve kubelet-1-33-13 rest", "nodeupgrade approve kubelet-1-33-13 rest --dry-run")
@_changing
@click.argument("wave", shell_complete=waves)
@on_cluster
async def approve_command(world: World, kube: KubeApi, *, name: str, wave: str, **how: Any) -> int:
    """Approve a wave, so that it can begin.

    Appends WAVE to the annotation nodeupgrade.dev/approve; the status will name nodeupgrade-cli as approver.
    A wave can be approved before its turn. Approvals in Git are made in spec.approvedWaves instead.
    """
    return await _change(world, kube, name, lambda upgrade: changes.approve(upgrade, wave), ChangeOptions(**how))


@command("retry", "nodeupgrade failures kubelet-1-33-13", "nodeupgrade retry kubelet-1-33-13 --wait")
@_changing
@on_cluster
async def retry_command(world: World, kube: KubeApi, *, name: str, **how: Any) -> int:
    """Retry nodes that failed, were rolled back or refused.

    Writes a fresh token into the annotation nodeupgrade.dev/retry. Remove the cause first: `nodeupgrade failures`
    names it. A rollout that ended with failures is opened again. A node that could not be rolled back is retried
    only if it was repaired by hand and uncordoned, and its NodeUpgradeTask deleted. To retry one node alone, first
    annotate the others with nodeupgrade.dev/skip.
    """
    token = timestamp(world.now().replace(microsecond=0))
    repaired = await cluster_objects.repaired(kube, await cluster_objects.upgrade(kube, name))
    return await _change(
        world, kube, name, lambda upgrade: changes.retry(upgrade, token, repaired), ChangeOptions(**how)
    )


@command("abort", "nodeupgrade abort kubelet-1-33-13 --dry-run", "nodeupgrade abort kubelet-1-33-13 --yes --wait")
@_changing
@click.option("--yes", "-y", is_flag=True, help="Do not ask for confirmation.")
@on_cluster
async def abort_command(world: World, kube: KubeApi, *, name: str, yes: bool, **how: Any) -> int:
    """End a rollout for good.

    Sets spec.action: Abort. No further node is started, nodes in flight are rolled back unless they are past the
    point of no return, and upgraded nodes stay upgraded. It cannot be undone; to continue, create a new
    NodeUpgrade. To stop for a while use `nodeupgrade pause`.
    """
    if not yes and not how["dry_run"]:
        if not sys.stdin.isatty():
            raise click.UsageError("an abort cannot be undone; confirm it with --yes")
        click.confirm(printable(f"End {name} for good?"), abort=True)
    return await _change(world, kube, name, changes.abort, ChangeOptions(**how))


def _which(name: str | None, *, everything: bool) -> str | None:
    """Return the name of the rollout; ``None`` for all.

    Raises:
        UsageError: both were given, or neither.
    """
    if everything == (name is not None):
        raise click.UsageError("name one rollout, or write --all")
    return name


async def _change_each(
    world: World, kube: KubeApi, name: str | None, decide: Decide, how: ChangeOptions, *, tell: Tell = say
) -> int:
    """Change one rollout, or all that have not ended; return the worst exit code."""
    if name is not None:
        return await _change(world, kube, name, decide, how, tell=tell)
    names = await cluster_objects.unfinished(kube)
    if not names:
        tell("Nothing to do: there is no rollout that has not ended.")

    async def one(name: str) -> int:
        told = partial(_told_of, tell, name)
        try:
            return await _change(world, kube, name, decide, how, tell=told)
        except (CannotError, NodeUpgradeError) as error:  # the others are changed all the same
            failed = error if isinstance(error, CannotError) else command_error(error)
            told(f"error: {failed.format_message()}", err=True)
            return failed.exit_code

    return max(await asyncio.gather(*map(one, names)), default=OK)


def _told_of(tell: Tell, name: str, line: str, *, err: bool = False) -> None:
    tell(f"{name}: {line}", err=err)


async def _change(
    world: World, kube: KubeApi, name: str, decide: Decide, how: ChangeOptions, *, tell: Tell = say
) -> int:
    change = await _write(kube, name, decide, how)
    if change.patch is None:
        tell(f"Nothing to do: {change.says}.")
    elif how.dry_run:
        tell(f"Would patch nodeupgrade {name} with {json.dumps(change.patch)}")
        tell(f"The API server accepts it. Then {change.says}.")
    else:
        tell(f"Done: {change.says}.")
    if change.but:
        tell(f"But {change.but}.", err=True)
        return NO
    return await _wait(world, kube, name, change, how, tell=tell) if how.wait and not how.dry_run else OK


async def _write(kube: KubeApi, name: str, decide: Decide, how: ChangeOptions) -> Change:
    """Patch exactly the revision that the change was decided on; after a conflict, read the object and decide again."""
    for _ in range(ATTEMPTS):
        change, version = await _decided(kube, name, decide)
        if change.patch is None:
            return change
        try:
            await kube.merge(
                UPGRADES, name, change.patch, resource_version=version, field_manager=MANAGER, dry_run=how.dry_run
            )
        except ConflictError:
            continue
        return change
    raise CannotError(f"cannot change {name} because it is changed too often; try again")


async def _decided(kube: KubeApi, name: str, decide: Decide) -> tuple[Change, str]:
    """Return the change, and the revision of the object that it was decided on. The brake needs nothing of a status."""
    try:
        upgrade = await cluster_objects.upgrade(kube, name)
    except cluster_objects.UnreadableError as error:
        if decide is not changes.pause:
            raise
        metadata = error.body["metadata"]
        change = changes.pause_unread(name, metadata.get("annotations") or {}, error.problem)
        return change, metadata["resourceVersion"]
    return decide(upgrade), upgrade.resource_version


async def _wait(world: World, kube: KubeApi, name: str, change: Change, how: ChangeOptions, *, tell: Tell) -> int:
    end = world.now() + timedelta(seconds=how.limit)
    while not change.done(await cluster_objects.upgrade(kube, name)):
        if world.now() >= end:
            tell(f"error: cannot wait any longer until {change.waits_for} because --timeout has expired", err=True)
            return TIME_IS_OVER
        await world.sleep(SECONDS_BETWEEN_READS)
    if change.waits_for:
        tell(f"Now {change.waits_for}.")
    return OK
