"""What pausing, resuming, approving, retrying and aborting change in a NodeUpgrade. Repeating a change is harmless."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from nodeupgrade.api.json import Json
from nodeupgrade.api.reasons import Reason
from nodeupgrade.api.upgrade.object import APPROVE_ANNOTATION, PAUSE_ANNOTATION, RETRY_ANNOTATION, Upgrade
from nodeupgrade.api.upgrade.spec import RolloutAction
from nodeupgrade.api.upgrade.status import ConditionType, WaveState, WaveStatus
from nodeupgrade.api.upgrade.waves import REMAINDER, ApprovalPolicy
from nodeupgrade.api.wording import counted
from nodeupgrade.cli.program import CannotError, called

_RETRIED = "the retry has begun"
_BEGUN = frozenset({WaveState.RUNNING, WaveState.SOAKING, WaveState.COMPLETED})


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """A change to one NodeUpgrade."""

    says: str  # its effect, or why there is nothing to do, as a sentence
    patch: Json | None = None  # the merge patch; None when there is nothing to do
    but: str = ""  # why it has no effect until a person acts elsewhere; empty if it has
    # reports for the rollout as it is later whether the control plane has carried out the change
    done: Callable[[Upgrade], bool] = lambda _upgrade: True
    waits_for: str = ""  # what `done` means in words


def pause(upgrade: Upgrade) -> Change:
    """Set the emergency brake, which needs no commit."""
    _require_active(upgrade, "pause")
    resting = "no node is in flight"
    if upgrade.paused_by_annotation:
        says = f"{upgrade.name} is already paused by annotation"
        return Change(says=says, done=lambda later: not later.status.in_flight, waits_for=resting)
    flying = len(upgrade.status.in_flight)
    also = f"; {counted(flying, 'node')} in flight will finish" if flying else ""
    return Change(
        says=f"no further node of {upgrade.name} is started until it is resumed{also}",
        patch=_annotate(PAUSE_ANNOTATION, "true"),
        done=lambda later: later.paused_by_annotation and not later.status.in_flight,
        waits_for=resting,
    )


def pause_unread(name: str, annotations: Mapping[str, str], problem: str) -> Change:
    """Set the emergency brake on a NodeUpgrade that this version cannot read, such as one of a newer operator."""
    unknown = f"whether nodes are in flight is unknown, since it cannot be read ({problem})"
    if annotations.get(PAUSE_ANNOTATION) == "true":
        return Change(says=f"{name} is already paused by annotation; {unknown}")
    says = f"no further node of {name} is started until it is resumed; {unknown}"
    return Change(says=says, patch=_annotate(PAUSE_ANNOTATION, "true"))


def resume(upgrade: Upgrade) -> Change:
    """Release the emergency brake."""
    _require_active(upgrade, "resume")
    but = ""
    if upgrade.spec is not None and upgrade.spec.action is RolloutAction.PAUSE:
        but = (
            "spec.action is Pause, so no node starts until it is Run; change it where the object is kept (Git), or: "
            f'kubectl patch nodeupgrade {upgrade.name} --type=merge --patch=\'{{"spec":{{"action":"Run"}}}}\''
        )
    if not upgrade.paused_by_annotation:
        return Change(says=f"{upgrade.name} is not paused by annotation", but=but)
    return Change(
        says=f"the annotation is removed from {upgrade.name}" if but else f"{upgrade.name} continues where it stopped",
        patch=_annotate(PAUSE_ANNOTATION, None),
        but=but,
        done=lambda later: later.status.condition(ConditionType.RECONCILING).reason != Reason.PAUSED,
        waits_for="it is no longer paused",
    )


def approve(upgrade: Upgrade, wave: str) -> Change:
    """Approve one wave; earlier approvals remain."""
    _require_active(upgrade, "approve a wave of")
    names = waves(upgrade)
    if wave not in names:
        raise CannotError(f"cannot approve wave {wave} because {upgrade.name} has only: {', '.join(names)}")
    if already := _needs_no_approval(upgrade, wave):
        return Change(says=already)
    says = f"wave {wave} of {upgrade.name} begins as soon as the waves before it are over"
    automatic = _is_automatic(upgrade, wave)
    return Change(
        says=f"{says}, even if no node of the last of them is upgraded" if automatic else says,
        patch=_annotate(APPROVE_ANNOTATION, ",".join([*upgrade.approvals, wave])),
        done=lambda later: _has_approval(_wave(later, wave), automatic=automatic),
        waits_for="the operator has seen the approval",
    )


def retry(upgrade: Upgrade, token: str, repaired: int = 0) -> Change:
    """Retry all nodes that failed or were refused, and those that were repaired after a failed rollback.

    Args:
        upgrade: The NodeUpgrade.
        token: What to write into the annotation.
        repaired: How many nodes are known to be repaired after a failed rollback.
    """
    if _aborted(upgrade):
        raise CannotError(f"cannot retry {upgrade.name} because it is aborted; create a new NodeUpgrade instead")
    if upgrade.deleting:
        raise CannotError(f"cannot retry {upgrade.name} because it is being deleted; create a new NodeUpgrade instead")
    if upgrade.retry and upgrade.retry != upgrade.status.last_handled_retry:
        return Change(
            says=f"{upgrade.name} already has a retry requested, which the operator is about to carry out",
            done=_retried(upgrade.retry),
            waits_for=_RETRIED,
        )
    counts = upgrade.status.counts
    lost = max(0, counts.rollback_failed - repaired)
    again = counts.failed + counts.rolled_back + counts.refused + counts.rollback_failed - lost
    if not again and not lost:
        return Change(says=f"no node of {upgrade.name} failed or was refused")
    says = f"{counted(again, 'node')} of {upgrade.name} that failed, were rolled back or refused are retried"
    only = f"{counted(lost, 'node')} could not be rolled back; such a node is retried only if it was"
    return Change(
        says=says if again else f"nodes of {upgrade.name} that were repaired are retried",
        patch=_annotate(RETRY_ANNOTATION, token),
        but=f"{only} repaired and uncordoned, and its NodeUpgradeTask deleted" if lost else "",
        done=_retried(token),
        waits_for=_RETRIED,
    )


def abort(upgrade: Upgrade) -> Change:
    """End the rollout for good."""
    if upgrade.spec is not None and upgrade.spec.action is RolloutAction.ABORT:
        says = f"{upgrade.name} is already aborted or being aborted"
        return Change(says=says, done=lambda later: later.finished, waits_for="no node is in flight")
    _require_active(upgrade, "abort")
    flying = counted(len(upgrade.status.in_flight), "node")
    also = (
        f"{flying} in flight will be rolled back unless committed" if upgrade.status.in_flight else "none is in flight"
    )
    return Change(
        says=(
            f"{upgrade.name} ends for good: no further node is started, {also}, and upgraded nodes stay upgraded; "
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


def _aborted(upgrade: Upgrade) -> bool:
    """Report whether it was aborted, by a person or by its failure threshold."""
    asked = upgrade.spec is not None and upgrade.spec.action is RolloutAction.ABORT
    return asked or upgrade.status.condition(ConditionType.SUCCEEDED).reason == Reason.ABORTED


def _retried(token: str) -> Callable[[Upgrade], bool]:
    return lambda later: later.status.last_handled_retry == token


def _require_active(upgrade: Upgrade, verb: str) -> None:
    why = "it is being deleted" if upgrade.deleting else "it has ended" if upgrade.finished else ""
    if upgrade.spec is not None and upgrade.spec.action is RolloutAction.ABORT:
        why = "it is aborted"
    if why:
        raise CannotError(f"cannot {verb} {upgrade.name} because {why}; look at {called()} status {upgrade.name}")


def _needs_no_approval(upgrade: Upgrade, name: str) -> str:
    """Explain why an approval would change nothing; empty if it would change something.

    Any wave but the first may need one: after a wave of which no node was upgraded.
    """
    spec, wave = upgrade.spec, _wave(upgrade, name)
    if spec is not None and _is_automatic(upgrade, name):
        if name == (spec.waves[0].name if spec.waves else REMAINDER):
            return f"wave {name} of {upgrade.name} begins without approval"
        if wave.state in _BEGUN:
            return f"wave {name} of {upgrade.name} needs no approval, since it is {wave.state.value}"
    if spec is not None and name in spec.approved_waves:
        return f"wave {name} of {upgrade.name} is already approved by spec.approvedWaves"
    if name in upgrade.approvals:
        by = upgrade.approvals[name]
        return f"wave {name} of {upgrade.name} is already approved{f', by {by}' if by else ''}"
    return ""


def _is_automatic(upgrade: Upgrade, name: str) -> bool:
    """Report whether a wave needs no approval by its policy."""
    written = () if upgrade.spec is None else upgrade.spec.waves
    manual = any(wave.name == name and wave.approval is ApprovalPolicy.MANUAL for wave in written)
    return upgrade.spec is not None and not manual


def _has_approval(wave: WaveStatus, *, automatic: bool) -> bool:
    """Report whether the status shows that a wave is approved; before its turn, that of an automatic one does not."""
    early = automatic and wave.state is WaveState.PENDING
    return early or wave.state in _BEGUN or wave.approved_by is not None


def _wave(upgrade: Upgrade, name: str) -> WaveStatus:
    return next((wave for wave in upgrade.status.waves if wave.name == name), WaveStatus(name=name))


def _annotate(name: str, value: str | None) -> Json:
    return {"metadata": {"annotations": {name: value}}}
