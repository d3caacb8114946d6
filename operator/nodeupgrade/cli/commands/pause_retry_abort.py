"""`nodeupgrade pause`, `resume`, `approve`, `retry` and `abort`: each explains its change and applies it as one patch.

Running a command again is harmless.
"""

import json
import sys
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, TypeVar

import click

from nodeupgrade.api.json import Json, timestamp
from nodeupgrade.api.printable import printable
from nodeupgrade.api.reasons import Reason
from nodeupgrade.api.upgrade.object import APPROVE_ANNOTATION, PAUSE_ANNOTATION, RETRY_ANNOTATION, Upgrade
from nodeupgrade.api.upgrade.spec import RolloutAction
from nodeupgrade.api.upgrade.status import ConditionType, WaveState, WaveStatus
from nodeupgrade.api.upgrade.waves import REMAINDER, ApprovalPolicy
from nodeupgrade.api.wording import counted
from nodeupgrade.cli.console import say
from nodeupgrade.cli.inputs import cluster_objects
from nodeupgrade.cli.inputs.cluster import Seconds, World, on_cluster
from nodeupgrade.cli.inputs.completion import rollouts
from nodeupgrade.cli.program import NO, OK, TIME_IS_OVER, CannotError, called, command
from nodeupgrade.cluster.kube_api import UPGRADES, ConflictError, KubeApi

MANAGER = "nodeupgrade-cli"
"""Field manager of everything that this program writes; the status names it as the approver of a wave.

It must not begin with ``kubectl``: Flux takes over what such a manager wrote, and so it would release the brake.
"""

_BEGUN = frozenset({WaveState.RUNNING, WaveState.SOAKING, WaveState.COMPLETED})


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """A change to one NodeUpgrade."""

    says: str  # what it does, or why there is nothing to do, as a sentence
    patch: Json | None = None  # the merge patch; None when there is nothing to do
    but: str = ""  # what prevents its effect and must be done elsewhere; empty if nothing does
    # reports for the rollout as it is later whether the control plane has carried out the change
    done: Callable[[Upgrade], bool] = lambda _upgrade: True
    waits_for: str = ""  # what `done` means in words


def pause(upgrade: Upgrade) -> Change:
    """Set the emergency brake, which needs no commit."""
    _must_go_on(upgrade, "pause")
    resting = "no node is in flight"
    if upgrade.paused_by_annotation:
        says = f"{upgrade.name} is paused by annotation already"
        return Change(says=says, done=lambda later: not later.status.in_flight, waits_for=resting)
    flying = len(upgrade.status.in_flight)
    also = f"; {counted(flying, 'node')} in flight will finish" if flying else ""
    return Change(
        says=f"no further node of {upgrade.name} is started until it is resumed{also}",
        patch=_annotate(PAUSE_ANNOTATION, "true"),
        done=lambda later: later.paused_by_annotation and not later.status.in_flight,
        waits_for=resting,
    )


def resume(upgrade: Upgrade) -> Change:
    """Release the emergency brake."""
    _must_go_on(upgrade, "resume")
    but = ""
    if upgrade.spec is not None and upgrade.spec.action is RolloutAction.PAUSE:
        but = (
            "spec.action is Pause, so nothing goes on until it is Run; change it where the object is kept (Git), or: "
            f'kubectl patch nodeupgrade {upgrade.name} --type=merge --patch=\'{{"spec":{{"action":"Run"}}}}\''
        )
    if not upgrade.paused_by_annotation:
        return Change(says=f"{upgrade.name} is not paused by annotation", but=but)
    return Change(
        says=f"{upgrade.name} goes on where it stopped"
        if not but
        else f"the annotation is removed from {upgrade.name}",
        patch=_annotate(PAUSE_ANNOTATION, None),
        but=but,
        done=lambda later: later.status.condition(ConditionType.RECONCILING).reason != Reason.PAUSED,
        waits_for="it is no longer paused",
    )


def approve(upgrade: Upgrade, wave: str) -> Change:
    """Approve one wave; earlier approvals remain."""
    _must_go_on(upgrade, "approve a wave of")
    names = waves(upgrade)
    if wave not in names:
        raise CannotError(f"cannot approve wave {wave} because {upgrade.name} has only: {', '.join(names)}")
    if already := _needs_no_approval(upgrade, wave):
        return Change(says=already)
    approved = [*upgrade.approvals, wave]
    return Change(
        says=f"wave {wave} of {upgrade.name} begins as soon as the waves before it are over",
        patch=_annotate(APPROVE_ANNOTATION, ",".join(approved)),
        done=lambda later: _wave(later, wave).state in _BEGUN or _wave(later, wave).approved_by is not None,
        waits_for="the approval is taken note of",
    )


def retry(upgrade: Upgrade, token: str) -> Change:
    """Retry all nodes that failed or were refused."""
    if _aborted(upgrade):
        raise CannotError(f"cannot retry {upgrade.name} because it is aborted; create a new NodeUpgrade instead")
    if upgrade.deleting:
        raise CannotError(f"cannot retry {upgrade.name} because it is being deleted; create a new NodeUpgrade instead")
    if upgrade.retry and upgrade.retry != upgrade.status.last_handled_retry:
        return Change(
            says=f"{upgrade.name} has a retry requested already, which the operator is about to carry out",
            done=_retried(upgrade.retry),
            waits_for=_RETRIED,
        )
    counts = upgrade.status.counts
    again = counts.failed + counts.rolled_back + counts.refused
    lost = counted(counts.rollback_failed, "node")
    but = f"{lost} could not be rolled back and must be repaired by hand" if counts.rollback_failed else ""
    if not again:
        return Change(says=f"no node of {upgrade.name} failed or was refused", but=but)
    return Change(
        says=f"{counted(again, 'node')} of {upgrade.name} that failed, were rolled back or refused are tried once more",
        patch=_annotate(RETRY_ANNOTATION, token),
        but=but,
        done=_retried(token),
        waits_for=_RETRIED,
    )


def abort(upgrade: Upgrade) -> Change:
    """End the rollout for good."""
    if upgrade.spec is not None and upgrade.spec.action is RolloutAction.ABORT:
        says = f"{upgrade.name} is aborted already, or is being aborted"
        return Change(says=says, done=lambda later: later.finished, waits_for="no node is in flight")
    _must_go_on(upgrade, "abort")
    flying = len(upgrade.status.in_flight)
    also = (
        f"{counted(flying, 'node')} in flight will be rolled back unless committed" if flying else "none is in flight"
    )
    return Change(
        says=(
            f"{upgrade.name} ends for good: no further node is started, {also}, and nodes that are upgraded stay so; "
            "put action: Abort into Git too, or a tool that syncs from there will report a conflict"
        ),
        patch={"spec": {"action": RolloutAction.ABORT.value}},
        done=lambda later: later.finished,
        waits_for="no node is in flight",
    )


def waves(upgrade: Upgrade) -> list[str]:
    """Return the names of all waves: those of the spec, and the remainder."""
    written = [] if upgrade.spec is None else [wave.name for wave in upgrade.spec.waves]
    return list(dict.fromkeys([*written, *(wave.name for wave in upgrade.status.waves), REMAINDER]))


_RETRIED = "the retry has begun"


def _aborted(upgrade: Upgrade) -> bool:
    """Report whether it was aborted, by a person or by its failure threshold."""
    asked = upgrade.spec is not None and upgrade.spec.action is RolloutAction.ABORT
    return asked or upgrade.status.condition(ConditionType.SUCCEEDED).reason == Reason.ABORTED


def _retried(token: str) -> Callable[[Upgrade], bool]:
    return lambda later: later.status.last_handled_retry == token


def _must_go_on(upgrade: Upgrade, verb: str) -> None:
    why = "it is being deleted" if upgrade.deleting else "it has ended" if upgrade.finished else ""
    if upgrade.spec is not None and upgrade.spec.action is RolloutAction.ABORT:
        why = "it is aborted"
    if why:
        raise CannotError(f"cannot {verb} {upgrade.name} because {why}; look at {called()} status {upgrade.name}")


def _needs_no_approval(upgrade: Upgrade, name: str) -> str:
    """Explain why an approval would change nothing; empty if it would."""
    spec = upgrade.spec
    written = next((wave for wave in spec.waves if wave.name == name), None) if spec is not None else None
    if spec is not None and (written is None or written.approval is ApprovalPolicy.AUTO):
        return f"wave {name} of {upgrade.name} begins without approval"
    if spec is not None and name in spec.approved_waves:
        return f"wave {name} of {upgrade.name} is approved by spec.approvedWaves already"
    if name in upgrade.approvals:
        by = upgrade.approvals[name]
        return f"wave {name} of {upgrade.name} is approved already{f', by {by}' if by else ''}"
    return ""


def _wave(upgrade: Upgrade, name: str) -> WaveStatus:
    return next((wave for wave in upgrade.status.waves if wave.name == name), WaveStatus(name=name))


def _annotate(name: str, value: str | None) -> Json:
    return {"metadata": {"annotations": {name: value}}}


ATTEMPTS = 10
"""How often to try in all: the control plane updates the status often, and each update may cause a conflict."""

SECONDS_BETWEEN_LOOKS = 1.0

F = TypeVar("F", bound=Callable[..., Any])
Decide = Callable[[Upgrade], Change]


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangeOptions:
    """Options of a change: dry run, whether to wait for its effect, and for how many seconds at most."""

    dry_run: bool
    wait: bool
    limit: float


def _changing(function: F) -> F:
    """Add the argument and the options that all mutating commands share."""
    limited = click.option(
        "--timeout", "limit", type=Seconds(), default="10m", show_default=True, help="Limit of --wait."
    )
    waiting = click.option("--wait", is_flag=True, help="Wait until the control plane has carried it out.")
    dry = click.option("--dry-run", is_flag=True, help="Print the patch, have the API server check it, change nothing.")
    return click.argument("name", shell_complete=rollouts)(dry(waiting(limited(function))))


@command("pause", "nodeupgrade pause kubelet-1-33-13", "nodeupgrade pause kubelet-1-33-13 --wait --timeout 20m")
@_changing
@on_cluster
async def pause_command(world: World, kube: KubeApi, *, name: str, **how: Any) -> int:
    """Start no further node until the rollout is resumed.

    Sets the annotation nodeupgrade.dev/pause, which takes effect at once, without a commit; tools that sync
    from Git leave it alone. Nodes in flight finish. With --wait it returns when none is in flight.
    """
    return await _change(world, kube, name, pause, ChangeOptions(**how))


@command("resume", "nodeupgrade resume kubelet-1-33-13")
@_changing
@on_cluster
async def resume_command(world: World, kube: KubeApi, *, name: str, **how: Any) -> int:
    """Take back a pause.

    Removes the annotation nodeupgrade.dev/pause. When spec.action itself is Pause it says so and exits with 1:
    that has to be changed where the object is kept.
    """
    return await _change(world, kube, name, resume, ChangeOptions(**how))


@command("approve", "nodeupgrade approve kubelet-1-33-13 rest", "nodeupgrade approve kubelet-1-33-13 rest --dry-run")
@_changing
@click.argument("wave")
@on_cluster
async def approve_command(world: World, kube: KubeApi, *, name: str, wave: str, **how: Any) -> int:
    """Let a wave begin that waits for approval.

    Appends WAVE to the annotation nodeupgrade.dev/approve; the status will name nodeupgrade-cli as approver.
    A wave can be approved before its turn. Approvals in Git are made in spec.approvedWaves instead.
    """
    return await _change(world, kube, name, lambda upgrade: approve(upgrade, wave), ChangeOptions(**how))


@command("retry", "nodeupgrade failures kubelet-1-33-13", "nodeupgrade retry kubelet-1-33-13 --wait")
@_changing
@on_cluster
async def retry_command(world: World, kube: KubeApi, *, name: str, **how: Any) -> int:
    """Try nodes once more that failed, were rolled back or refused.

    Writes a fresh token into the annotation nodeupgrade.dev/retry. Remove the cause first: `nodeupgrade failures`
    names it. A rollout that ended with failures is opened again; nodes that could not be rolled back stay as
    they are, and have to be repaired by hand.
    """
    token = timestamp(world.now().replace(microsecond=0))
    return await _change(world, kube, name, lambda upgrade: retry(upgrade, token), ChangeOptions(**how))


@command("abort", "nodeupgrade abort kubelet-1-33-13 --dry-run", "nodeupgrade abort kubelet-1-33-13 --yes --wait")
@_changing
@click.option("--yes", "-y", is_flag=True, help="Do not ask.")
@on_cluster
async def abort_command(world: World, kube: KubeApi, *, name: str, yes: bool, **how: Any) -> int:
    """End a rollout for good.

    Sets spec.action: Abort. No further node is started, nodes in flight are rolled back unless they are past the
    point of no return, and nodes that are upgraded stay so. It cannot be taken back; to go on, create a new
    NodeUpgrade. To stop for a while use `nodeupgrade pause`.
    """
    if not yes and not how["dry_run"]:
        if not sys.stdin.isatty():
            raise click.UsageError("an abort cannot be undone; confirm it with --yes")
        click.confirm(printable(f"End {name} for good?"), abort=True)
    return await _change(world, kube, name, abort, ChangeOptions(**how))


async def _change(world: World, kube: KubeApi, name: str, decide: Decide, how: ChangeOptions) -> int:
    change = await _write(kube, name, decide, how)
    if change.patch is None:
        say(f"Nothing to do: {change.says}.")
    elif how.dry_run:
        say(f"Would patch nodeupgrade {name} with {json.dumps(change.patch)}")
        say(f"The API server agrees. Then {change.says}.")
    else:
        say(f"Done: {change.says}.")
    if change.but:
        say(f"But {change.but}.", err=True)
        return NO
    return await _wait(world, kube, name, change, how) if how.wait and not how.dry_run else OK


async def _write(kube: KubeApi, name: str, decide: Decide, how: ChangeOptions) -> Change:
    """Patch exactly the revision that the change was decided on; after a conflict, read the object and decide again."""
    for _ in range(ATTEMPTS):
        upgrade = await cluster_objects.upgrade(kube, name)
        change = decide(upgrade)
        if change.patch is None:
            return change
        version = upgrade.resource_version
        try:
            await kube.merge(
                UPGRADES, name, change.patch, resource_version=version, field_manager=MANAGER, dry_run=how.dry_run
            )
        except ConflictError:
            continue
        return change
    raise CannotError(f"cannot change {name} because others change it all the time; try again")


async def _wait(world: World, kube: KubeApi, name: str, change: Change, how: ChangeOptions) -> int:
    end = world.now() + timedelta(seconds=how.limit)
    while not change.done(await cluster_objects.upgrade(kube, name)):
        if world.now() >= end:
            say(f"error: cannot wait any longer until {change.waits_for} because --timeout is over", err=True)
            return TIME_IS_OVER
        await world.sleep(SECONDS_BETWEEN_LOOKS)
    if change.waits_for:
        say(f"Now {change.waits_for}.")
    return OK
