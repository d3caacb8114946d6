"""Gates: each decides whether any node may be started now, and if not, why."""

from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta

from nodeupgrade.api.duration import render_duration
from nodeupgrade.api.json import timestamp
from nodeupgrade.api.reasons import Reason
from nodeupgrade.api.task.object import Task
from nodeupgrade.api.upgrade.object import Upgrade
from nodeupgrade.api.upgrade.spec import RolloutAction, UpgradeSpec
from nodeupgrade.api.upgrade.status import NodeFailure, Slot
from nodeupgrade.api.upgrade.waves import Wave
from nodeupgrade.api.upgrade.windows import is_open, next_opening
from nodeupgrade.api.values import RunKind, Verdict
from nodeupgrade.api.wording import counted
from nodeupgrade.findings.finding import Finding
from nodeupgrade.fleet import failures
from nodeupgrade.fleet.decide.rollout_view import RolloutView
from nodeupgrade.fleet.health import checks
from nodeupgrade.fleet.snapshot import FleetSnapshot

_REPEATED = frozenset({Reason.AGENT_NOT_STARTED, Reason.AGENT_UNAVAILABLE, Reason.ARTIFACT_UNAVAILABLE})
"""Reasons that most often have one cause for all nodes."""

IN_A_ROW = 3
"""How many nodes in a row may end for one of these reasons."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GateInput:
    """The input of the gates: of a rollout, or of one node that has a slot and was not touched."""

    upgrade: Upgrade
    spec: UpgradeSpec
    now: datetime
    tasks: tuple[Task, ...]  # all tasks of the rollout
    failures: tuple[NodeFailure, ...]  # all that count
    total: int  # number of nodes
    waves: tuple[tuple[Wave, int], ...]  # the waves with the numbers of their nodes
    current: str  # name of the current wave
    ended_by: str | None  # the health check that ends the rollout
    unhealthy: Finding | None  # which health check fails or cannot be evaluated
    turn: Finding | None = None  # why the current wave has to wait
    awaited: Finding | None = None  # which health check has yet to hold


Gate = Callable[[GateInput], Finding | None]


def of_rollout(rollout: RolloutView) -> GateInput:
    """Return the input of the gates for a rollout."""
    at, waves = rollout.position, rollout.waves
    return GateInput(
        upgrade=rollout.upgrade,
        spec=rollout.spec,
        now=rollout.now,
        tasks=rollout.ledger.tasks,
        failures=rollout.ledger.failures,
        total=len(rollout.members) + len(rollout.departed),
        waves=tuple((wave.terms, wave.total) for wave in waves),
        current=waves[at.index].name if 0 <= at.index < len(waves) else "",
        ended_by=rollout.ended_by,
        unhealthy=rollout.health_objection,
        turn=Finding(reason=at.reason, detail=at.message, remedy="") if at.message else None,
        awaited=rollout.health_awaited,
    )


def of_slot(fleet: FleetSnapshot, spec: UpgradeSpec, slot: Slot, now: datetime) -> GateInput:
    """Return the input of the gates for a node that has a slot; numbers of nodes are those that the status reports."""
    upgrade, tasks, terms = fleet.upgrade, fleet.own_tasks, {wave.name: wave for wave in spec.waves}
    status = upgrade.status
    current = slot.wave if status.current_wave is None else status.current_wave.name
    return GateInput(
        upgrade=upgrade,
        spec=spec,
        now=now,
        tasks=tasks,
        failures=failures.failures_of(status, tasks, status.last_handled_retry),
        total=status.counts.total,
        waves=tuple((terms[wave.name], wave.total) for wave in status.waves if wave.name in terms),
        current=current,
        ended_by=checks.ended_by(upgrade, spec, fleet.health, now),
        unhealthy=checks.objection(spec.health_checks, fleet.health, now),
    )


def object_stays(at: GateInput) -> Finding | None:
    """Start nothing while the NodeUpgrade is being deleted."""
    if not at.upgrade.deleting:
        return None
    return Finding(reason=Reason.DELETING, detail="the NodeUpgrade is being deleted", remedy="")


def not_aborted(at: GateInput) -> Finding | None:
    """Start nothing in an aborted rollout."""
    if at.spec.action is not RolloutAction.ABORT:
        return None
    return Finding(reason=Reason.ABORTED, detail="spec.action is Abort")


def not_ended_by_a_check(at: GateInput) -> Finding | None:
    """Start nothing once a health check with ``onFailure: Abort`` has ended the rollout."""
    return Finding(reason=Reason.ABORTED, detail=checks.describe_end(at.ended_by)) if at.ended_by else None


def no_node_is_lost(at: GateInput) -> Finding | None:
    """Start nothing while a node could not be rolled back: a person must repair it first."""
    lost = [failure.node for failure in at.failures if failure.outcome is Verdict.ROLLBACK_FAILED]
    if not lost:
        return None
    detail = f"{counted(len(lost), 'node')} could not be rolled back ({lost[0]})"
    return Finding(reason=Reason.ROLLBACK_FAILED, detail=detail)


def threshold(at: GateInput) -> Finding | None:
    """Stop when ``strategy.failureThreshold`` nodes of the rollout have failed."""
    failed = sum(failure.outcome in failures.FAILURES for failure in at.failures)
    if failed < max(1, at.spec.strategy.failure_threshold.of(at.total)):
        return None
    return Finding(reason=Reason.FAILURE_THRESHOLD_REACHED, detail=f"{counted(failed, 'node')} failed")


def wave_threshold(at: GateInput) -> Finding | None:
    """Stop when as many nodes of one wave have failed as its own threshold says."""
    failed = Counter(failure.wave for failure in at.failures if failure.outcome in failures.FAILURES)
    for wave, total in at.waves:
        limit = wave.failure_threshold
        if limit is not None and failed[wave.name] >= max(1, limit.of(total)):
            detail = f"{counted(failed[wave.name], 'node')} of wave {wave.name} failed"
            return Finding(reason=Reason.FAILURE_THRESHOLD_REACHED, detail=detail)
    return None


def causes_differ(at: GateInput) -> Finding | None:
    """Stop when several nodes in a row have ended for the same reason, of those that most often have one cause."""
    verdicts = [task.verdict for task in at.tasks if task.verdict is not None and task.kind is RunKind.UPGRADE]
    last = sorted(verdicts, key=lambda verdict: (str(verdict.decided_at), verdict.run_id))[-IN_A_ROW:]
    if len(last) < IN_A_ROW or len({verdict.reason for verdict in last}) > 1 or last[0].reason not in _REPEATED:
        return None
    detail = f"{len(last)} nodes in a row ended with {last[0].reason}: {last[-1].message.removesuffix('.')}"
    return Finding(reason=Reason.SAME_CAUSE_REPEATED, detail=detail)


def not_paused(at: GateInput) -> Finding | None:
    """Start nothing under ``action: Pause`` or, whatever the action, under the pause annotation."""
    if at.upgrade.paused_by_annotation:
        detail = "paused by the annotation nodeupgrade.dev/pause"
        return Finding(reason=Reason.PAUSED, detail=detail, remedy="remove it to continue")
    if at.spec.action is RolloutAction.PAUSE:
        return Finding(reason=Reason.PAUSED, detail="paused")
    return None


def in_time(at: GateInput) -> Finding | None:
    """Start nothing once the rollout or the current wave has exceeded ``spec.timeouts``."""
    timeouts, status = at.spec.timeouts, at.upgrade.status
    began = next((wave.started_at for wave in status.waves if wave.name == at.current), None)
    late = _late("the rollout", status.started_at, timeouts.total, at.now)
    return late or _late(f"wave {at.current}", began, timeouts.wave, at.now)


def no_health_check_fails(at: GateInput) -> Finding | None:
    """Start nothing while a health check fails or cannot be evaluated; this is reported while a wave soaks, too."""
    return at.unhealthy


def wave_has_its_turn(at: GateInput) -> Finding | None:
    """Wait for the previous wave to soak, for an approval, or for a node of the current wave."""
    return at.turn


def window_is_open(at: GateInput) -> Finding | None:
    """Start nodes only inside windows, and never in a blackout."""
    spec, now = at.spec, at.now
    if is_open(spec.windows, spec.blackouts, now):
        return None
    opens = next_opening(spec.windows, spec.blackouts, now)
    until = "no window opens any more" if opens is None else f"the next window opens at {timestamp(opens)}"
    return Finding(reason=Reason.WAITING_FOR_WINDOW, detail=until)


def health_checks_have_held(at: GateInput) -> Finding | None:
    """Start nothing until every health check has held for long enough, also since the last node was finished."""
    return at.awaited


GATES: tuple[Gate, ...] = (
    object_stays,
    not_aborted,
    not_ended_by_a_check,
    no_node_is_lost,
    threshold,
    wave_threshold,
    causes_differ,
    not_paused,
    in_time,
    no_health_check_fails,
    wave_has_its_turn,
    window_is_open,
    health_checks_have_held,
)
"""Gates for upgrades, asked before a node takes a slot and again before it is touched; the first closed one decides."""

PRECHECK_GATES: tuple[Gate, ...] = (object_stays, not_paused)
"""Gates for ``action: Plan``, which changes nothing."""


def closed(gates: Iterable[Gate], at: GateInput) -> Finding | None:
    """Return why the first closed gate is closed; None if all are open."""
    return next((finding for gate in gates if (finding := gate(at)) is not None), None)


def _late(what: str, since: datetime | None, limit: timedelta | None, now: datetime) -> Finding | None:
    if since is None or limit is None or now <= since + limit:
        return None
    return Finding(reason=Reason.TIMED_OUT, detail=f"{what} has taken longer than {render_duration(limit)}")
