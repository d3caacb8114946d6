"""The view of a whole rollout: every member with its state and its wave."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime

from nodeupgrade.api.task.object import Task
from nodeupgrade.api.task.run_id import RunKind
from nodeupgrade.api.upgrade.object import Upgrade
from nodeupgrade.api.upgrade.spec import RolloutAction, UpgradeSpec
from nodeupgrade.api.upgrade.status import NodeFailure
from nodeupgrade.api.upgrade.waves import REMAINDER
from nodeupgrade.api.values import NodeName, Verdict
from nodeupgrade.findings.finding import Finding
from nodeupgrade.fleet.decide.failures import records_failure
from nodeupgrade.fleet.decide.node_state import NodeState, Place
from nodeupgrade.fleet.decide.waves import WavePosition, WaveRoster
from nodeupgrade.fleet.health import checks
from nodeupgrade.fleet.snapshot import FleetSnapshot

RETRIED = frozenset({Verdict.FAILED, Verdict.ROLLED_BACK, Verdict.REFUSED})
"""Verdicts that a retry clears; a node that could not be rolled back needs a person."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RolloutView:
    """A rollout at one moment."""

    fleet: FleetSnapshot
    spec: UpgradeSpec
    now: datetime  # that moment, UTC
    members: Mapping[NodeName, NodeState]  # by node name, in upgrade order: wave by wave
    waves: tuple[WaveRoster, ...]  # the members, by wave
    position: WavePosition  # the current wave
    flying: tuple[NodeName, ...]  # nodes that hold a slot
    unclaimed: tuple[NodeState, ...]  # members that must be claimed before the plan is made
    held: tuple[NodeState, ...]  # members that another rollout holds
    failures: tuple[NodeFailure, ...]  # all that count, see ``failures_of``
    departed: tuple[NodeFailure, ...]  # those of them that no member shows
    freed: frozenset[NodeName]  # nodes whose slots the plan frees; in this view, they hold none

    @property
    def upgrade(self) -> Upgrade:
        """The NodeUpgrade."""
        return self.fleet.upgrade

    @property
    def total(self) -> int:
        """Number of members."""
        return len(self.members)

    @property
    def planned(self) -> bool:
        """Whether every member that needs a claim has one."""
        return (
            bool(self.members or self.departed)
            and not self.unclaimed
            and (self.upgrade.status.planned_at is not None or not self.held)
        )

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
        return checks.ended_by(self.upgrade, self.spec, self.fleet.health, self.now)

    @property
    def health_objection(self) -> Finding | None:
        """Which health check fails or cannot be evaluated; None if there is none."""
        return checks.objection(self.spec.health_checks, self.fleet.health, self.now)

    @property
    def health_awaited(self) -> Finding | None:
        """Which health check has yet to hold for as long as it must, also since the last verdict; None if none has."""
        verdicts = (m.task.verdict for m in self.members.values() if m.judged is not None and m.task is not None)
        times = [verdict.decided_at for verdict in verdicts if verdict is not None and verdict.decided_at is not None]
        times += [failure.time for failure in self.departed if failure.time is not None]
        return checks.awaited(self.spec.health_checks, self.fleet.health, self.now, max(times, default=None))

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
        handled = self.freed.issuperset(without_task) and not any(map(self.reopening, self.waiting))
        return handled and not any(map(records_failure, self.stale)) and not self.is_called_off

    @property
    def stale(self) -> list[Task]:
        """The tasks of nodes that are not in flight, whose Nodes are gone, and which no claim is about to take over."""
        nodes, uid = self.fleet.nodes, self.upgrade.uid
        kept = {*self.flying, *self.fleet.unreadable, *(member.node for member in self.unclaimed)}
        return [
            task
            for name, task in self.fleet.tasks.items()
            if ((node := nodes.get(name)) is None or node.uid != task.spec.node_uid)
            and task.spec.upgrade_ref.uid == uid
            and name not in kept
        ]

    def reopening(self, member: NodeState) -> tuple[str, str] | None:
        """Return the retry to record in a waiting member's task, and why it is reopened; None if it is not.

        Prechecked nodes are reopened once the action is Run, failed ones on request.
        """
        task, wanted = member.task, self.upgrade.retry
        if task is None or task.verdict is None or member.view is None:
            return None
        if task.kind is RunKind.PRECHECK and self.spec.action is RolloutAction.RUN:
            return task.spec.retry, "its plan was made"
        if self.upgrade.retry_requested and wanted != task.spec.retry and task.verdict.outcome in RETRIED:
            return wanted, f"retry {wanted} is requested"
        return None
