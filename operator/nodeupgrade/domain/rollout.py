"""The rollout planner: what to do next with a fleet, and why. Stateless, deterministic, replayed from objects."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace
from datetime import datetime

from nodeupgrade.domain import conditions
from nodeupgrade.domain.actions import (
    AddFinalizer,
    Admit,
    FreeSlot,
    Hold,
    NodeAction,
    Refuse,
    RemoveFinalizer,
    Report,
    Skip,
    WriteStatus,
)
from nodeupgrade.domain.admission import unsupported_version, warnings
from nodeupgrade.domain.fleet import FleetSnapshot
from nodeupgrade.domain.flight import advance
from nodeupgrade.domain.reasons import Reason, counted, sentence
from nodeupgrade.domain.standing import Place, Standing, candidate, in_flight, stand
from nodeupgrade.domain.task import Verdict
from nodeupgrade.domain.upgrade_status import UpgradeStatus
from nodeupgrade.domain.upgrade_terms import SLOTS, RolloutAction, UpgradeSpec
from nodeupgrade.domain.values import NodeName


def plan(fleet: FleetSnapshot, now: datetime) -> tuple[NodeAction, ...]:
    """Decide everything that can be decided now.

    Nodes in flight come first, then admissions, then the report. A node is admitted by the status write of one
    plan and first touched by a later one, which has read that status: without the slot on record nothing happens.
    """
    upgrade, spec = fleet.upgrade, fleet.upgrade.spec
    flying = in_flight(fleet)
    if upgrade.deleting and not flying:
        message = "no node is in flight any more"
        return (RemoveFinalizer(reason=Reason.DELETING, message=message),) if upgrade.has_finalizer else ()
    if upgrade.finished and not flying:
        return ()
    if spec is None or (unknown := unsupported_version(spec.version)) is not None:
        reason = Reason.INVALID_SPEC if spec is None else Reason.UNSUPPORTED_VERSION
        because = upgrade.problem if spec is None else str(unknown)
        return _reported(fleet, conditions.rejected(upgrade, reason, sentence(reason, because), now))
    if not upgrade.has_finalizer and not upgrade.deleting:
        return (AddFinalizer(reason=Reason.VALID, message="deletion will wait for nodes in flight"),)

    standings = stand(fleet, spec)
    advances = tuple(advance(fleet, spec, name, now) for name in flying)
    freed = {action.node for action in advances if isinstance(action, FreeSlot)}
    entries = () if upgrade.finished else _admissions(fleet, spec, standings, len(flying))
    admitted = {action.node for action in entries if isinstance(action, Admit)}
    slots = tuple(sorted((set(flying) - freed) | admitted))
    settled = _settle(standings, freed, slots)
    status = conditions.summarise(fleet, spec, settled, slots, now)
    news = _news(upgrade.status, settled, status)
    return (*advances, *entries, *news, *_reported(fleet, status, {action.reason for action in news}))


def unread(fleet: FleetSnapshot) -> tuple[NodeName, ...]:
    """Name the nodes whose pods must be read before the plan can be made; ask again after reading them."""
    upgrade, spec = fleet.upgrade, fleet.upgrade.spec
    if spec is None or unsupported_version(spec.version) is not None:
        return ()
    flying = in_flight(fleet)
    missing = [name for name in flying if name in fleet.nodes and name not in fleet.pods]
    if upgrade.finished or upgrade.deleting or not upgrade.has_finalizer:
        return tuple(missing)
    standings = stand(fleet, spec)
    slots = _slots(spec, standings) - len(flying)
    for standing in standings.values():
        if slots <= 0:
            break
        if standing.place is Place.PENDING:
            slots -= 1
            if standing.node not in fleet.pods:
                missing.append(standing.node)
    return tuple(missing)


def _admissions(
    fleet: FleetSnapshot, spec: UpgradeSpec, standings: Mapping[NodeName, Standing], flying: int
) -> tuple[NodeAction, ...]:
    pending = [standing.node for standing in standings.values() if standing.place is Place.PENDING]
    if not pending:
        return ()
    if hold := _hold(fleet, spec, standings, flying):
        return (hold,)
    free = _slots(spec, standings) - flying
    readable = [name for name in pending if name in fleet.pods]
    return tuple(_admit(fleet, spec, name) for name in readable[:free])


def _admit(fleet: FleetSnapshot, spec: UpgradeSpec, name: NodeName) -> Admit:
    facts = candidate(fleet, spec, fleet.nodes[name])
    notes = "".join(f" ({note.reason}: {note.message})" for note in warnings(facts))
    message = f"node {name} takes a slot to go from {facts.current} to {facts.target}{notes}"
    return Admit(node=name, reason=Reason.ADMITTED, message=message)


def _hold(fleet: FleetSnapshot, spec: UpgradeSpec, standings: Mapping[NodeName, Standing], flying: int) -> Hold | None:
    """Say why no node is admitted now, or None."""
    upgrade = fleet.upgrade
    if upgrade.deleting:
        return Hold(reason=Reason.DELETING, message="the NodeUpgrade is being deleted")
    if lost := conditions.count(standings, Verdict.ROLLBACK_FAILED):
        return Hold(reason=Reason.ROLLBACK_FAILED, message=f"{counted(lost, 'node')} could not be rolled back")
    failures = conditions.failures(standings)
    if failures >= spec.strategy.failure_threshold.of(len(standings)):
        message = f"{counted(failures, 'node')} failed and {spec.strategy.failure_threshold} may"
        return Hold(reason=Reason.FAILURE_THRESHOLD_REACHED, message=message)
    if spec.action is not RolloutAction.RUN or upgrade.braked:
        return Hold(reason=Reason.PAUSED, message="the rollout is paused")
    if flying >= _slots(spec, standings):
        message = f"{flying} of {counted(_slots(spec, standings), 'slot')} taken"
        return Hold(reason=Reason.PROGRESSING, message=message)
    return None


def _slots(spec: UpgradeSpec, standings: Mapping[NodeName, Standing]) -> int:
    """Nodes that may be in flight at the same time."""
    return min(SLOTS, spec.strategy.max_concurrent.of(len(standings)))


def _settle(
    standings: Mapping[NodeName, Standing], freed: set[NodeName], slots: tuple[NodeName, ...]
) -> Mapping[NodeName, Standing]:
    """Look at the standings as they will be once this plan's status is written."""
    settled = dict(standings)
    for name, standing in standings.items():
        if name in slots:
            settled[name] = replace(standing, place=Place.IN_FLIGHT)
        elif name in freed and standing.task is not None and (verdict := standing.task.verdict) is not None:
            settled[name] = replace(standing, place=Place.FINISHED, reason=verdict.reason, message=verdict.message)
        elif name in freed:
            settled[name] = replace(standing, place=Place.PENDING)
    return settled


def _news(
    before: UpgradeStatus, standings: Mapping[NodeName, Standing], after: UpgradeStatus
) -> tuple[Refuse | Skip, ...]:
    """Tell of refusals and skips once: when the status does not mention them yet."""
    known = {(failure.node, failure.reason) for failure in before.failures}
    listed = {(failure.node, failure.reason) for failure in after.failures} - known
    refusals = tuple(
        Refuse(node=standing.node, reason=standing.reason, message=standing.message)
        for standing in standings.values()
        if standing.place is Place.REFUSED and (standing.node, standing.reason.value) in listed
    )
    skipped = [standing for standing in standings.values() if standing.place is Place.SKIPPED]
    if not skipped or dict(after.skips or {}) == dict(before.skips or {}):
        return refusals
    more = f" (and {len(skipped) - 1} more)" if len(skipped) > 1 else ""
    return (*refusals, Skip(reason=skipped[0].reason, message=skipped[0].message + more))


def _reported(fleet: FleetSnapshot, status: UpgradeStatus, told: Collection[Reason] = ()) -> tuple[NodeAction, ...]:
    """Write the status if it changed, and tell of a new reason unless a node's news tells of it already."""
    before = fleet.upgrade.status
    if status == before:
        return ()
    ready, known = conditions.find(status, conditions.READY), conditions.find(before, conditions.READY)
    write = WriteStatus(status=status, reason=Reason(ready.reason), message=f"{status.phase} {status.progress}".strip())
    if ready.reason in {known.reason, *told}:
        return (write,)
    warning = conditions.holds(status, conditions.STALLED) or conditions.fails(status, conditions.SUCCEEDED)
    return (write, Report(reason=Reason(ready.reason), message=ready.message, warning=warning))
