"""The view of a whole rollout, made once for a plan: every member with its state, and what follows for all of them."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Self

from nodeupgrade.api.reasons import Reason
from nodeupgrade.api.task.object import Task
from nodeupgrade.api.upgrade.object import Upgrade
from nodeupgrade.api.upgrade.spec import RolloutAction, UpgradeSpec
from nodeupgrade.api.upgrade.status import NodeFailure
from nodeupgrade.api.upgrade.waves import REMAINDER
from nodeupgrade.api.values import NodeName, RunKind, Verdict
from nodeupgrade.findings.finding import Finding
from nodeupgrade.fleet.decide.ledger import Ledger
from nodeupgrade.fleet.decide.node_state import NodeState, Place
from nodeupgrade.fleet.decide.waves import WavePosition, WaveRoster, rosters, wave_position
from nodeupgrade.fleet.failures import records_failure
from nodeupgrade.fleet.health import checks

RETRIED = frozenset({Verdict.FAILED, Verdict.ROLLED_BACK, Verdict.REFUSED})
"""Verdicts that a retry clears; a node that could not be rolled back needs a person."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Reopening:
    """A node that waits for its turn again."""

    task: Task
    retry: str  # the retry to record in its task
    because: str
    automatic: bool = False  # whether its time has come, without a request


@dataclass(frozen=True, slots=True, kw_only=True)
class RolloutView:
    """A rollout at one moment, as it will be once the slots that can be freed are free."""

    ledger: Ledger
    spec: UpgradeSpec
    members: Mapping[NodeName, NodeState]  # by node name, in upgrade order: wave by wave
    freed: frozenset[NodeName]  # nodes whose slots the plan frees; in this view, they hold none
    departed: tuple[NodeFailure, ...]  # the failures that no member shows
    waves: tuple[WaveRoster, ...]  # the members, by wave
    position: WavePosition  # the current wave; ``action: Plan`` ignores waves
    flying: tuple[NodeName, ...]  # the nodes that hold a slot, sorted by name
    # the members that hold no slot now; a slot that is about to be freed is still held
    waiting: tuple[NodeState, ...]
    held: tuple[NodeState, ...]  # the members that another rollout holds
    unclaimed: tuple[NodeState, ...]  # the members that must be claimed before the plan is made
    stale: tuple[Task, ...]  # of nodes not in flight whose Nodes are gone, and which no claim is about to take over
    strays: tuple[Task, ...]  # the idle claims on nodes that do not belong to the rollout any more
    reopenings: tuple[Reopening, ...]  # the waiting members to reopen
    planned: bool  # whether every member that needs a claim has one
    may_claim: bool  # whether nodes may be claimed now: not while the rollout is paused or aborted
    is_called_off: bool  # whether it is being aborted or deleted, so that no node is prepared or tried again
    is_retried: bool  # whether every node that the retry concerns is claimed (again) and waits for its turn
    # whether freeing slots completes a wave, so that the next one to start nodes has not begun yet
    completes_wave: bool
    unknown_waves: tuple[str, ...]  # the approved waves that do not exist, sorted by name
    ended_by: str | None  # see ``checks.ended_by``
    health_objection: Finding | None  # which health check fails or cannot be evaluated
    # which health check has yet to hold for as long as it must, also since the last verdict
    health_awaited: Finding | None

    @classmethod
    def of(
        cls, ledger: Ledger, spec: UpgradeSpec, members: Mapping[NodeName, NodeState], freed: frozenset[NodeName]
    ) -> Self:
        """Return what follows from the ledger and the states of the members."""
        upgrade, now, states = ledger.upgrade, ledger.now, tuple(members.values())
        planning = spec.action is RolloutAction.PLAN
        shown = {member.failure_uid for member in states}
        departed = tuple(failure for failure in ledger.failures if failure.uid not in shown)
        waves = rosters(ledger, spec.waves, members, departed)
        if planning:
            position = WavePosition(index=-1, pending=tuple(m for m in states if m.place is Place.PENDING))
        else:
            position = wave_position(waves, now)
        flying = tuple(sorted(member.node for member in states if member.place is Place.IN_FLIGHT))
        waiting = tuple(m for m in states if m.place is not Place.IN_FLIGHT and m.node not in freed)
        held = tuple(member for member in states if _is_held(member))
        unclaimed = tuple(member for member in states if member.needs_claim and _is_to_be_claimed(member, upgrade))
        claimed = not unclaimed and (upgrade.status.planned_at is not None or not held)
        kept = {*flying, *(member.node for member in unclaimed)}
        stale = tuple(task for task in ledger.lost_tasks if task.name not in kept)
        ours = {*members, *freed, *ledger.unreadable, *(task.name for task in ledger.lost_tasks)}
        found = (_reopening(member, upgrade, spec, now) for member in waiting)
        reopenings = tuple(each for each in found if each is not None)
        called_off = upgrade.deleting or spec.action is RolloutAction.ABORT
        without_task = (member.node for member in unclaimed if member.record is not None)
        reopened = freed.issuperset(without_task) and all(each.automatic for each in reopenings)
        begun = {wave.name for wave in upgrade.status.waves if wave.started_at is not None}
        names = {wave.name for wave in spec.waves}
        return cls(
            ledger=ledger,
            spec=spec,
            members=members,
            freed=freed,
            departed=departed,
            waves=waves,
            position=position,
            flying=flying,
            waiting=waiting,
            held=held,
            unclaimed=unclaimed,
            stale=stale,
            strays=tuple(task for task in ledger.idle_claims if task.name not in ours),
            reopenings=reopenings,
            planned=bool(states or departed) and claimed,
            may_claim=spec.action in {RolloutAction.PLAN, RolloutAction.RUN} and not upgrade.paused_by_annotation,
            is_called_off=called_off,
            is_retried=reopened and not any(map(records_failure, stale)) and not called_off,
            completes_wave=any(name not in members or not members[name].prechecked for name in freed)
            and not planning
            and not any(wave.name in begun for wave in waves[position.index :]),
            unknown_waves=tuple(sorted({*spec.approved_waves, *upgrade.approvals} - {REMAINDER, *names})),
            ended_by=checks.ended_by(upgrade, spec, ledger.health, now),
            health_objection=checks.objection(spec.health_checks, ledger.health, now),
            health_awaited=checks.awaited(spec.health_checks, ledger.health, now, _last_end(states, waves)),
        )

    @property
    def upgrade(self) -> Upgrade:
        """The NodeUpgrade."""
        return self.ledger.upgrade

    @property
    def now(self) -> datetime:
        """The moment of the ledger, UTC."""
        return self.ledger.now

    def with_members(self, members: Mapping[NodeName, NodeState]) -> Self:
        """Return the view once the members are in these states."""
        return self.of(self.ledger, self.spec, members, self.freed)


def _is_held(member: NodeState) -> bool:
    return member.place is Place.REFUSED and member.reason is Reason.OVERLAP_CONFLICT


def _is_to_be_claimed(member: NodeState, upgrade: Upgrade) -> bool:
    if member.place is Place.IN_FLIGHT or (member.record is not None and not upgrade.retry_requested):
        return False
    if member.reason is Reason.WRITE_REFUSED and upgrade.status.planned_at is not None:
        return False
    return member.reason is not Reason.NOT_IN_PLAN and not _is_held(member)


def _last_end(members: Iterable[NodeState], waves: Iterable[WaveRoster]) -> datetime | None:
    """Return when the last node was finished, also while it still holds its slot; one to be tried again was not."""
    verdicts = (m.task.verdict for m in members if m.judged is not None and m.task is not None)
    times = [*(verdict.decided_at for verdict in verdicts if verdict is not None), *(w.last_touched for w in waves)]
    return max(filter(None, times), default=None)


def _reopening(member: NodeState, upgrade: Upgrade, spec: UpgradeSpec, now: datetime) -> Reopening | None:
    """Reopen prechecked nodes once the action is Run, failed ones on request, and refused ones once it is time."""
    task, wanted = member.task, upgrade.retry
    if task is None or (verdict := task.verdict) is None:
        return None
    retry = task.spec.retry
    if member.view is not None:
        if task.kind is RunKind.PRECHECK and spec.action is RolloutAction.RUN:
            return Reopening(task=task, retry=retry, because="its plan was made")
        if upgrade.retry_requested and wanted != retry and verdict.outcome in RETRIED:
            return Reopening(task=task, retry=wanted, because=f"retry {wanted} is requested")
    if member.again is None or member.again > now:
        return None
    return Reopening(task=task, retry=retry, because=f"{verdict.reason} may have passed", automatic=True)
