"""The view of a whole rollout: every member with its state and its wave, and what rules ask about them."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property

from nodeupgrade.api.reasons import Reason
from nodeupgrade.api.task.object import Task
from nodeupgrade.api.task.run_id import RunKind
from nodeupgrade.api.task.spec import PastRun
from nodeupgrade.api.upgrade.object import Upgrade
from nodeupgrade.api.upgrade.spec import RolloutAction, UpgradeSpec
from nodeupgrade.api.upgrade.status import NodeFailure, Slot
from nodeupgrade.api.upgrade.waves import REMAINDER
from nodeupgrade.api.values import NodeName, Verdict
from nodeupgrade.findings.finding import Finding
from nodeupgrade.fleet.actions import FreeSlot, Wait
from nodeupgrade.fleet.cluster_budget import ClusterUse
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
    history: tuple[PastRun, ...]  # its runs so far
    because: str
    automatic: bool = False  # whether its time has come, without a request


@dataclass(frozen=True, kw_only=True)
class RolloutView:
    """A rollout at one moment, as it will be once the slots that can be freed are free."""

    upgrade: Upgrade
    spec: UpgradeSpec
    now: datetime  # that moment, UTC
    members: Mapping[NodeName, NodeState]  # by node name, in upgrade order: wave by wave
    slots: Mapping[NodeName, Slot]  # those that are held, sorted by name
    freed: frozenset[NodeName]  # nodes whose slots the plan frees; in this view, they hold none
    failures: tuple[NodeFailure, ...]  # all that count, see ``failures_of``
    tasks: tuple[Task, ...]  # all tasks of the rollout
    lost_tasks: tuple[Task, ...]  # those of them whose Nodes are gone or were replaced
    waiting_for: Mapping[NodeName, Wait | FreeSlot]  # what reconciled nodes in flight wait for
    rivals: tuple[Upgrade, ...]  # the other NodeUpgrades that have not ended
    cluster: ClusterUse | None  # what limits all rollouts together; None if nothing does
    health: Mapping[str, checks.HealthReading]  # by name of the health check
    guard_obstacle: str | None  # why nodes cannot be guarded; None if they can

    @cached_property
    def waves(self) -> tuple[WaveRoster, ...]:
        """The members, by wave."""
        return rosters(self.spec.waves, self.members, self.departed, self.upgrade.status.waves)

    @cached_property
    def position(self) -> WavePosition:
        """The current wave; ``action: Plan`` ignores waves."""
        if self.spec.action is not RolloutAction.PLAN:
            return wave_position(self.upgrade, self.waves, self.now)
        return WavePosition(index=-1, pending=tuple(m for m in self.members.values() if m.place is Place.PENDING))

    @cached_property
    def flying(self) -> tuple[NodeName, ...]:
        """The nodes that hold a slot, sorted by name."""
        return tuple(sorted(member.node for member in self.members.values() if member.place is Place.IN_FLIGHT))

    @property
    def flying_tasks(self) -> tuple[Task, ...]:
        """The tasks of the nodes that hold a slot, sorted by name."""
        return tuple(task for name in self.flying if (task := self.members[name].task) is not None)

    @cached_property
    def held(self) -> tuple[NodeState, ...]:
        """The members that another rollout holds."""
        refused = (member for member in self.members.values() if member.place is Place.REFUSED)
        return tuple(member for member in refused if member.reason is Reason.OVERLAP_CONFLICT)

    @cached_property
    def unclaimed(self) -> tuple[NodeState, ...]:
        """The members that must be claimed before the plan is made."""
        return tuple(member for member in self.members.values() if member.needs_claim and self._to_claim(member))

    def _to_claim(self, member: NodeState) -> bool:
        if member.place is Place.IN_FLIGHT or (member.record is not None and not self.upgrade.retry_requested):
            return False
        if member.reason is Reason.WRITE_REFUSED and self.upgrade.status.planned_at is not None:
            return False
        held = member.place is Place.REFUSED and member.reason is Reason.OVERLAP_CONFLICT
        return member.reason is not Reason.NOT_IN_PLAN and not held

    @cached_property
    def departed(self) -> tuple[NodeFailure, ...]:
        """The failures that no member shows."""
        shown = {member.failure_uid for member in self.members.values()}
        return tuple(failure for failure in self.failures if failure.uid not in shown)

    @property
    def total(self) -> int:
        """Number of members."""
        return len(self.members)

    @property
    def planned(self) -> bool:
        """Whether every member that needs a claim has one."""
        made = self.upgrade.status.planned_at is not None or not self.held
        return bool(self.members or self.departed) and not self.unclaimed and made

    @property
    def unknown_waves(self) -> tuple[str, ...]:
        """The approved waves that do not exist, sorted by name."""
        known = {REMAINDER, *(wave.name for wave in self.spec.waves)}
        return tuple(sorted({*self.spec.approved_waves, *self.upgrade.approvals} - known))

    @property
    def waiting(self) -> Iterator[NodeState]:
        """The members that hold no slot now; a slot that is about to be freed is still held."""
        return (m for m in self.members.values() if m.place is not Place.IN_FLIGHT and m.node not in self.freed)

    @property
    def ended_by(self) -> str | None:
        """The health check that ends the rollout, for good once it is on record; None before a node is started."""
        return checks.ended_by(self.upgrade, self.spec, self.health, self.now)

    @property
    def health_objection(self) -> Finding | None:
        """Which health check fails or cannot be evaluated; None if there is none."""
        return checks.objection(self.spec.health_checks, self.health, self.now)

    @property
    def health_awaited(self) -> Finding | None:
        """Which health check has yet to hold for as long as it must, also since the last verdict; None if none has."""
        verdicts = (m.task.verdict for m in self.members.values() if m.judged is not None and m.task is not None)
        times = [verdict.decided_at for verdict in verdicts if verdict is not None and verdict.decided_at is not None]
        times += [failure.time for failure in self.departed if failure.time is not None]
        return checks.awaited(self.spec.health_checks, self.health, self.now, max(times, default=None))

    @property
    def may_claim(self) -> bool:
        """Whether nodes may be claimed now: not while the rollout is paused or aborted."""
        return self.spec.action in {RolloutAction.PLAN, RolloutAction.RUN} and not self.upgrade.paused_by_annotation

    @property
    def is_called_off(self) -> bool:
        """Whether no node is prepared or tried again, because the rollout is being aborted or deleted."""
        return self.upgrade.deleting or self.spec.action is RolloutAction.ABORT

    @property
    def is_retried(self) -> bool:
        """Whether the retry is handled: every node that it concerns is claimed (again) and waits for its turn."""
        without_task = (member.node for member in self.unclaimed if member.record is not None)
        handled = self.freed.issuperset(without_task) and all(each.automatic for each in self.reopenings)
        return handled and not any(map(records_failure, self.stale)) and not self.is_called_off

    @property
    def stale(self) -> tuple[Task, ...]:
        """The tasks of nodes that are not in flight, whose Nodes are gone, and which no claim is about to take over."""
        kept = {*self.flying, *(member.node for member in self.unclaimed)}
        return tuple(task for task in self.lost_tasks if task.name not in kept)

    @cached_property
    def reopenings(self) -> tuple[Reopening, ...]:
        """The waiting members to reopen: prechecked ones once the action is Run, failed ones on request or by time."""
        return tuple(found for member in self.waiting if (found := self._reopening(member)) is not None)

    def _reopening(self, member: NodeState) -> Reopening | None:
        task, wanted = member.task, self.upgrade.retry
        if task is None or (verdict := task.verdict) is None:
            return None
        history, retry = task.past_runs(self.upgrade.status.last_handled_retry), task.spec.retry
        if member.view is not None:
            if task.kind is RunKind.PRECHECK and self.spec.action is RolloutAction.RUN:
                return Reopening(task=task, retry=retry, history=history, because="its plan was made")
            if self.upgrade.retry_requested and wanted != retry and verdict.outcome in RETRIED:
                return Reopening(task=task, retry=wanted, history=history, because=f"retry {wanted} is requested")
        if member.again is None or member.again > self.now:
            return None
        because = f"{verdict.reason} may have passed"
        return Reopening(task=task, retry=retry, history=history, because=because, automatic=True)

    @property
    def completes_wave(self) -> bool:
        """Whether freeing slots completes a wave, so that the next one to start nodes has not begun yet."""
        if not self.freed or self.spec.action is RolloutAction.PLAN:
            return False
        begun = {wave.name for wave in self.upgrade.status.waves if wave.started_at is not None}
        return not any(wave.name in begun for wave in self.waves[self.position.index :])
