"""Events about a rollout, each emitted once: when the previous status does not show it yet."""

from collections.abc import Iterable, Iterator
from typing import TypeAlias

from nodeupgrade.api.reasons import Reason
from nodeupgrade.api.upgrade.object import Upgrade
from nodeupgrade.api.upgrade.status import ConditionStatus, ConditionType, UpgradeStatus, WaveStatus
from nodeupgrade.api.wording import counted, sentence
from nodeupgrade.fleet.actions import Refuse, Report, ReportWave, Skip, WriteStatus
from nodeupgrade.fleet.decide.counting import ADMISSION
from nodeupgrade.fleet.decide.node_state import Place
from nodeupgrade.fleet.decide.rollout_view import RolloutView
from nodeupgrade.text import trimmed

EventAction: TypeAlias = Refuse | Skip | ReportWave | Report


def new_events(rollout: RolloutView, before: UpgradeStatus, after: UpgradeStatus) -> tuple[EventAction, ...]:
    """Return what the new status reports for the first time, except for the state of the rollout as a whole."""
    return (
        *_refusals(rollout, before, after),
        *_skips(rollout, before, after),
        *(_waves(before, after) if rollout.spec.waves else ()),
        *_unknown(rollout),
        *impediment_events(before, after),
        *_retries(before, after),
    )


def impediment_events(before: UpgradeStatus, after: UpgradeStatus) -> tuple[Report, ...]:
    """Report what keeps nodes from making progress, whenever that changes."""
    return _news(before, after, ConditionType.IMPEDED, ConditionStatus.TRUE)


def accepted_events(before: UpgradeStatus, after: UpgradeStatus) -> tuple[Report, ...]:
    """Report that a rollout that has ended is not retried because its spec is rejected."""
    return _news(before, after, ConditionType.ACCEPTED, ConditionStatus.FALSE)


def _news(before: UpgradeStatus, after: UpgradeStatus, kind: ConditionType, bad: ConditionStatus) -> tuple[Report, ...]:
    now = after.condition(kind)
    if now.status is not bad or now.message == before.condition(kind).message:
        return ()
    return (Report(reason=Reason(now.reason), message=now.message, warning=True),)


def _retries(before: UpgradeStatus, after: UpgradeStatus) -> tuple[Report, ...]:
    """Report that a retry was carried out."""
    if after.last_handled_retry == before.last_handled_retry:
        return ()
    return (Report(reason=Reason.RETRIED, message=f"retry {after.last_handled_retry} is carried out"),)


def reported(
    upgrade: Upgrade, status: UpgradeStatus, others: Iterable[EventAction] = ()
) -> tuple[WriteStatus | Report, ...]:
    """Write the status if it changed, and report a new reason or the end of the rollout, unless ``others`` do so.

    The reason is that of Reconciling; Ready may repeat that of Impeded, which has its own events.
    """
    before = upgrade.status
    if status == before:
        return ()
    now, known = (each.condition(ConditionType.RECONCILING) for each in (status, before))
    write = WriteStatus(status=status, reason=Reason(now.reason), message=trimmed(f"{status.phase} {status.progress}"))
    refused = (failure.reason for failure in before.failures if failure.step == ADMISSION)
    ends = status.fails(ConditionType.SUCCEEDED) and not before.fails(ConditionType.SUCCEEDED)
    if now.reason in {*(each.reason for each in others), *refused} or (now.reason == known.reason and not ends):
        return (write,)
    warning = status.holds(ConditionType.STALLED) or status.fails(ConditionType.SUCCEEDED)
    return (write, Report(reason=Reason(now.reason), message=now.message, warning=warning))


def _refusals(rollout: RolloutView, before: UpgradeStatus, after: UpgradeStatus) -> Iterator[Refuse]:
    known = {(failure.node, failure.reason) for failure in before.failures}
    listed = {(failure.node, failure.reason) for failure in after.failures} - known
    for member in rollout.members.values():
        untouched = member.place is Place.REFUSED and not member.begun
        if untouched and (member.node, member.reason.value) in listed:
            yield Refuse(node=member.node, reason=member.reason, message=member.message)


def _skips(rollout: RolloutView, before: UpgradeStatus, after: UpgradeStatus) -> Iterator[Skip]:
    """Yield one event for each reason for which more nodes are skipped than before."""
    known = before.skips or {}
    for reason, number in (after.skips or {}).items():
        if number <= known.get(reason, 0):
            continue
        places = (s for s in rollout.members.values() if s.place is Place.SKIPPED and s.reason == reason)
        more = f" (and {number - 1} more)" if number > 1 else ""
        yield Skip(reason=Reason(reason), message=next(places).message + more)


def _waves(before: UpgradeStatus, after: UpgradeStatus) -> Iterator[ReportWave]:
    known = {wave.name: wave for wave in before.waves}
    for wave in after.waves:
        previous = known.get(wave.name, WaveStatus(name=wave.name))
        if wave.started_at and not previous.started_at:
            by = f", approved by {wave.approved_by}" if wave.approved_by else ""
            message = f"wave {wave.name} of {counted(wave.total, 'node')} begins{by}"
            yield ReportWave(wave=wave.name, reason=Reason.WAVE_STARTED, message=message)
        if wave.started_at and wave.completed_at and not previous.completed_at:
            yield ReportWave(wave=wave.name, reason=Reason.WAVE_COMPLETED, message=_completed(wave))


def _completed(wave: WaveStatus) -> str:
    numbers = (
        (wave.succeeded, "upgraded"), (wave.skipped, "skipped"), (wave.refused, "refused"), (wave.failed, "failed"),
    )  # fmt: skip
    counts = ", ".join(f"{number} {word}" for number, word in numbers if number)
    return f"wave {wave.name} is over: {counts}"


def _unknown(rollout: RolloutView) -> Iterator[Report]:
    accepted = rollout.upgrade.status.condition(ConditionType.ACCEPTED).message
    for name in rollout.unknown_waves:
        if name not in accepted:
            message = sentence(Reason.UNKNOWN_WAVE, f"{name!r} is approved and not a wave of this rollout")
            yield Report(reason=Reason.UNKNOWN_WAVE, message=message, warning=True)
