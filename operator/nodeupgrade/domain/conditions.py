"""What a NodeUpgrade reports: counters and conditions, recomputed from objects each time and never counted up.

The rules that tools rely on (kstatus: sigs.k8s.io/cli-utils): while work remains Reconciling is True and Ready is
False; when a human is needed Stalled is True; never both; done is Ready alone.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime

from nodeupgrade.domain.fleet import FleetSnapshot
from nodeupgrade.domain.reasons import Reason, counted, sentence
from nodeupgrade.domain.standing import Place, Standing
from nodeupgrade.domain.task import Verdict
from nodeupgrade.domain.upgrade import Upgrade
from nodeupgrade.domain.upgrade_status import Condition, ContainerTotals, Counts, NodeFailure, UpgradeStatus
from nodeupgrade.domain.upgrade_terms import RolloutAction, UpgradeSpec
from nodeupgrade.domain.values import NodeName

ACCEPTED, PLANNED, RECONCILING, STALLED = "Accepted", "Planned", "Reconciling", "Stalled"
READY, SUCCEEDED, DEGRADED, ZERO_RESTART = "Ready", "Succeeded", "Degraded", "ZeroRestart"

FAILURES_LISTED = 20
FAILURE_MESSAGE_LIMIT = 256
CONDITION_MESSAGE_LIMIT = 1024

WAITED_FOR = frozenset({Reason.NODE_NOT_READY, Reason.OVERLAP_CONFLICT, Reason.POD_IN_TRANSITION})
"""Refusals that usually pass by themselves: the rollout goes on waiting instead of calling a human."""

_NEVER = datetime.min.replace(tzinfo=UTC)
_FAILED = frozenset({Verdict.FAILED, Verdict.ROLLED_BACK, Verdict.ROLLBACK_FAILED})


@dataclass(frozen=True, slots=True, kw_only=True)
class _State:
    """How the rollout as a whole stands; exactly one of active, stalled and over is what it looks like."""

    phase: str
    reason: Reason
    message: str
    stalled: bool = False
    over: bool = False
    succeeded: bool = False


def count(standings: Mapping[NodeName, Standing], verdict: Verdict) -> int:
    """Count the finished nodes with one verdict."""
    return sum(_verdict(standing) is verdict for standing in standings.values())


def failures(standings: Mapping[NodeName, Standing]) -> int:
    """Count the nodes that failed or were rolled back; refused nodes were left untouched and do not count."""
    return sum(count(standings, verdict) for verdict in _FAILED)


def find(status: UpgradeStatus, kind: str) -> Condition:
    """Return one condition; one that was never set is Unknown."""
    for condition in status.conditions:
        if condition.type == kind:
            return condition
    return Condition(type=kind, status="Unknown", reason="", message="", last_transition_time=_NEVER)


def holds(status: UpgradeStatus, kind: str) -> bool:
    """Whether a condition is True."""
    return find(status, kind).status == "True"


def fails(status: UpgradeStatus, kind: str) -> bool:
    """Whether a condition is False."""
    return find(status, kind).status == "False"


def rejected(upgrade: Upgrade, reason: Reason, message: str, now: datetime) -> UpgradeStatus:
    """Report a spec that can never be acted upon."""
    state = _State(phase="Failed", reason=reason, message=message, stalled=True, over=True)
    told = (
        (ACCEPTED, "False", reason, message),
        (PLANNED, "False", reason, message),
        *_common(state),
        (DEGRADED, "False", Reason.NOT_YET_VERIFIED, "no node was touched"),
        (ZERO_RESTART, "Unknown", Reason.NOT_YET_VERIFIED, "no node was touched"),
    )
    return replace(
        upgrade.status,
        observed_generation=upgrade.generation,
        phase=state.phase,
        progress="0/0",
        completed_at=upgrade.status.completed_at or now,
        conditions=_conditions(upgrade, told, now),
    )


def summarise(
    fleet: FleetSnapshot,
    spec: UpgradeSpec,
    standings: Mapping[NodeName, Standing],
    slots: tuple[NodeName, ...],
    now: datetime,
) -> UpgradeStatus:
    """Report how the rollout stands; a rollout that ended keeps the report it ended with."""
    upgrade = fleet.upgrade
    if upgrade.finished:
        return replace(upgrade.status, in_flight=slots)
    counts = _counts(standings)
    state = _state(upgrade, spec, standings, counts)
    failed = counts.failed + counts.rolled_back + counts.rollback_failed
    totals = _containers(standings)
    before = upgrade.status
    return UpgradeStatus(
        observed_generation=upgrade.generation,
        phase=state.phase,
        progress=f"{counts.succeeded + counts.skipped}/{counts.total}",
        failed=failed,
        counts=counts,
        containers=totals,
        in_flight=slots,
        failures=_failures(standings, before, now),
        skips=dict(Counter(s.reason.value for s in standings.values() if s.place is Place.SKIPPED)),
        started_at=before.started_at or (now if slots else None),
        completed_at=now if state.over else None,
        conditions=_conditions(upgrade, _told(state, standings, counts, failed, totals), now),
    )


def _state(upgrade: Upgrade, spec: UpgradeSpec, standings: Mapping[NodeName, Standing], counts: Counts) -> _State:
    failed = counts.failed + counts.rolled_back + counts.rollback_failed
    done = f"{counts.succeeded + counts.skipped} of {counted(counts.total, 'node')} run {spec.version}"
    if upgrade.deleting:
        return _State(phase="Running", reason=Reason.DELETING, message=f"{done}, {counts.in_progress} in flight")
    if counts.in_progress:
        return _State(phase="Running", reason=Reason.PROGRESSING, message=f"{done}, {counts.in_progress} in flight")
    if counts.rollback_failed:
        lost = counted(counts.rollback_failed, "node")
        because = f"{lost} could not be rolled back ({_first(standings, Reason.ROLLBACK_FAILED)})"
        return _ended(Reason.ROLLBACK_FAILED, sentence(Reason.ROLLBACK_FAILED, because))
    if failed >= spec.strategy.failure_threshold.of(counts.total) and counts.pending:
        because = f"{counted(failed, 'node')} failed"
        return _ended(Reason.FAILURE_THRESHOLD_REACHED, sentence(Reason.FAILURE_THRESHOLD_REACHED, because))
    if counts.pending:
        if spec.action is RolloutAction.PAUSE or upgrade.braked:
            return _State(phase="Paused", reason=Reason.PAUSED, message=sentence(Reason.PAUSED, f"{done}; paused"))
        return _State(phase="Running", reason=Reason.PROGRESSING, message=f"{done}, {counts.pending} to go")
    if counts.total == 0:
        message = sentence(Reason.NO_MATCHING_NODES, "no node matches spec.nodes")
        return _State(phase="Stalled", reason=Reason.NO_MATCHING_NODES, message=message, stalled=True)
    if blocking := [s for s in standings.values() if s.place is Place.REFUSED]:
        return _blocked(blocking)
    return _concluded(standings, counts, failed, done)


def _ended(reason: Reason, message: str) -> _State:
    return _State(phase="Failed", reason=reason, message=message, stalled=True, over=True)


def _blocked(blocking: list[Standing]) -> _State:
    """Only refused nodes are left: wait for what passes, call a human for what does not."""
    reasons = {standing.reason for standing in blocking}
    first = next((s for s in blocking if s.reason not in WAITED_FOR), blocking[0])
    reason = first.reason if len(reasons - WAITED_FOR or reasons) == 1 else Reason.NODES_REFUSED
    more = f" ({counted(len(blocking) - 1, 'more node')} refused)" if len(blocking) > 1 else ""
    stalled = not reasons <= WAITED_FOR
    return _State(
        phase="Stalled" if stalled else "Pending", reason=reason, message=first.message + more, stalled=stalled
    )


def _concluded(standings: Mapping[NodeName, Standing], counts: Counts, failed: int, done: str) -> _State:
    """Every node reached its end."""
    unsuccessful = [s for s in standings.values() if _verdict(s) not in {None, Verdict.SUCCEEDED}]
    if unsuccessful:
        reasons = {standing.reason for standing in unsuccessful}
        only = next(iter(reasons)) if len(reasons) == 1 else Reason.NODES_FAILED if failed else Reason.NODES_REFUSED
        more = f" ({counted(len(unsuccessful) - 1, 'more node')} did not succeed)" if len(unsuccessful) > 1 else ""
        return _ended(only, unsuccessful[0].message + more)
    if counts.skipped == counts.total:
        reasons = {standing.reason for standing in standings.values()}
        reason = next(iter(reasons)) if len(reasons) == 1 else Reason.COMPLETED_WITH_SKIPS
    else:
        reason = Reason.COMPLETED_WITH_SKIPS if counts.skipped else Reason.ALL_NODES_UPGRADED
    return _State(phase="Succeeded", reason=reason, message=done, over=True, succeeded=True)


_Told = tuple[str, str, Reason, str]


def _told(
    state: _State, standings: Mapping[NodeName, Standing], counts: Counts, failed: int, totals: ContainerTotals
) -> tuple[_Told, ...]:
    planned = (PLANNED, "True", Reason.PLAN_READY, f"{counted(counts.total, 'node')} are selected")
    if not counts.total:
        planned = (PLANNED, "False", Reason.NO_MATCHING_NODES, state.message)
    degraded = (DEGRADED, "False", Reason.PROGRESSING, "no node failed")
    if failed:
        degraded = (DEGRADED, "True", Reason.NODES_FAILED, f"{counted(failed, 'node')} failed or were rolled back")
    verified = any(_verdict(standing) is not None for standing in standings.values())
    if totals.restarted:
        zero = (
            ZERO_RESTART,
            "False",
            Reason.RESTARTS_DETECTED,
            f"{counted(totals.restarted, 'container')} were restarted",
        )
    elif verified:
        zero = (ZERO_RESTART, "True", Reason.VERIFIED, "no container was restarted")
    else:
        zero = (ZERO_RESTART, "Unknown", Reason.NOT_YET_VERIFIED, "no node has been verified yet")
    return (
        (ACCEPTED, "True", Reason.VALID, "the spec is valid"),
        planned,
        *_common(state),
        degraded,
        zero,
    )


def _common(state: _State) -> tuple[_Told, ...]:
    active = not state.stalled and not state.over
    ended = "Unknown" if not state.over else "True" if state.succeeded else "False"
    return (
        (RECONCILING, str(active), state.reason, state.message),
        (STALLED, str(state.stalled), state.reason, state.message),
        (READY, str(state.succeeded), state.reason, state.message),
        (SUCCEEDED, ended, state.reason, state.message),
    )


def _conditions(upgrade: Upgrade, told: tuple[_Told, ...], now: datetime) -> tuple[Condition, ...]:
    """Build conditions; the transition time moves only when the status does, as the API conventions demand."""
    built = []
    for kind, status, reason, message in told:
        before = find(upgrade.status, kind)
        built.append(
            Condition(
                type=kind,
                status=status,
                reason=reason.value,
                message=message[:CONDITION_MESSAGE_LIMIT],
                last_transition_time=before.last_transition_time if before.reason and before.status == status else now,
                observed_generation=upgrade.generation,
            )
        )
    return tuple(built)


def _counts(standings: Mapping[NodeName, Standing]) -> Counts:
    places = Counter(standing.place for standing in standings.values())
    verdicts = Counter(_verdict(standing) for standing in standings.values())
    return Counts(
        total=len(standings),
        pending=places[Place.PENDING],
        in_progress=places[Place.IN_FLIGHT],
        succeeded=verdicts[Verdict.SUCCEEDED],
        skipped=places[Place.SKIPPED],
        refused=places[Place.REFUSED] + verdicts[Verdict.REFUSED],
        failed=verdicts[Verdict.FAILED],
        rolled_back=verdicts[Verdict.ROLLED_BACK],
        rollback_failed=verdicts[Verdict.ROLLBACK_FAILED],
    )


def _verdict(standing: Standing) -> Verdict | None:
    if standing.place is not Place.FINISHED or standing.task is None or standing.task.verdict is None:
        return None
    return standing.task.verdict.outcome


def _containers(standings: Mapping[NodeName, Standing]) -> ContainerTotals:
    finished = [s.task for s in standings.values() if s.task is not None and _verdict(s) is not None]
    counted = [task.reported.containers for task in finished]
    return ContainerTotals(
        baseline=sum(each.baseline for each in counted),
        rewritten=sum(each.rewritten for each in counted),
        unchanged=sum(each.unchanged for each in counted),
        restarted=sum(task.verdict.restarted for task in finished if task.verdict is not None),
    )


def _failures(standings: Mapping[NodeName, Standing], before: UpgradeStatus, now: datetime) -> tuple[NodeFailure, ...]:
    """List what went wrong, failed nodes first; an entry keeps the time at which it was first seen."""
    since = {(failure.node, failure.reason): failure.time for failure in before.failures}
    troubled = [
        s for s in standings.values() if s.place is Place.REFUSED or _verdict(s) not in {None, Verdict.SUCCEEDED}
    ]
    troubled.sort(key=lambda standing: standing.place is Place.REFUSED)
    return tuple(
        NodeFailure(
            node=standing.node,
            reason=standing.reason.value,
            step=_step(standing),
            message=standing.message[:FAILURE_MESSAGE_LIMIT],
            time=since.get((standing.node, standing.reason.value)) or now,
        )
        for standing in troubled[:FAILURES_LISTED]
    )


def _step(standing: Standing) -> str:
    """Name the step that failed, as far as the node side has said."""
    if standing.task is None or standing.place is Place.REFUSED:
        return "admission"
    failed = (step.name for step in standing.task.reported.steps if step.result == "Failed")
    return next(failed, "preflight" if _verdict(standing) is Verdict.REFUSED else "run")


def _first(standings: Mapping[NodeName, Standing], reason: Reason) -> str:
    return next((s.node for s in standings.values() if s.reason is reason), "see status.failures")
