"""What is wanted of the nodes that hold no slot: writes that prepare them, and which of them are started now."""

from dataclasses import dataclass
from datetime import datetime

from nodeupgrade.api.reasons import Reason
from nodeupgrade.api.upgrade.spec import RolloutAction, UpgradeSpec
from nodeupgrade.api.values import NodeName
from nodeupgrade.domain.rollout.actions import Admit, Hold, NodeAction
from nodeupgrade.domain.rollout.backoff import is_held_back
from nodeupgrade.domain.rollout.inflight import claims, retry
from nodeupgrade.domain.rollout.pace.budgets import NOBODY, Choice
from nodeupgrade.domain.rollout.pace.overlap import queued
from nodeupgrade.domain.rollout.pace.starting import choose, front_of
from nodeupgrade.domain.rollout.select.admission import warnings
from nodeupgrade.domain.rollout.select.node_state import NodeState, Place, candidate
from nodeupgrade.domain.rollout.select.rollout_view import RolloutView, view_rollout
from nodeupgrade.domain.rollout.select.waves import Front
from nodeupgrade.domain.rollout.snapshot import FleetSnapshot


@dataclass(frozen=True, slots=True, kw_only=True)
class Intent:
    """What is to be done next, and what it rests upon.

    Attributes:
        front: the wave whose turn it is.
        preparations: writes to tasks that come before any admission.
        held_back: such writes that were refused and are not due again; no other node waits for them.
        choice: nodes that may be started now, or what they wait for.
    """

    rollout: RolloutView
    front: Front
    preparations: tuple[NodeAction, ...] = ()
    held_back: tuple[NodeAction, ...] = ()
    choice: Choice = NOBODY

    @property
    def unread(self) -> tuple[NodeName, ...]:
        """Nodes whose pods must be read before they are admitted; a look needs none."""
        if self.rollout.spec.action is RolloutAction.PLAN:
            return ()
        return tuple(s.node for s in self.choice.nodes if s.node not in self.rollout.fleet.pods)

    @property
    def admissions(self) -> tuple[Admit | Hold, ...]:
        """Nodes that take a slot now, or why nodes that could take one do not."""
        ready = [member for member in self.choice.nodes if member.node not in self.unread]
        if ready or not self.choice.message:
            return tuple(_admit(self.rollout, member) for member in ready)
        if not any(member.place is Place.PENDING for member in self.rollout.members.values()):
            return ()
        return (Hold(reason=self.choice.reason, message=self.choice.message),)


def intend(fleet: FleetSnapshot, spec: UpgradeSpec, now: datetime) -> Intent:
    """Find out what is to be done next."""
    rollout = view_rollout(fleet, spec, now)
    at = front_of(rollout, now)
    if fleet.upgrade.finished and not retry.retry_asked(fleet.upgrade):
        return Intent(rollout=rollout, front=at)
    if (behind := queued(fleet, spec)) is not None:
        preparations, waiting = _parted(claims.let_go(fleet), fleet, now)
        return Intent(rollout=rollout, front=at, preparations=preparations, held_back=waiting, choice=behind)
    choice = choose(rollout, at, now)
    preparations, waiting = _parted(claims.prepare(rollout, now, stalled=choice.stalls), fleet, now)
    unprepared = preparations or fleet.upgrade.finished or (rollout.unclaimed and claims.may_claim(rollout))
    return Intent(
        rollout=rollout,
        front=at,
        preparations=preparations,
        held_back=waiting,
        choice=NOBODY if unprepared else choice,
    )


def _parted(
    due: tuple[NodeAction, ...], fleet: FleetSnapshot, now: datetime
) -> tuple[tuple[NodeAction, ...], tuple[NodeAction, ...]]:
    """Tell what can be done from what was refused and is not due again."""
    waiting = tuple(each for each in due if is_held_back(each, fleet.setbacks, now))
    return tuple(each for each in due if each not in waiting), waiting


def _admit(rollout: RolloutView, member: NodeState) -> Admit:
    if member.view is None:
        raise AssertionError("only nodes that exist are pending")
    facts = candidate(rollout.fleet, rollout.spec, member.view, rollout.now)
    notes = "".join(f" ({note.reason}: {note.message})" for note in warnings(facts))
    purpose = "be looked at for" if rollout.spec.action is RolloutAction.PLAN else f"go from {facts.current} to"
    message = f"node {member.node} takes a slot to {purpose} {facts.target}{notes}"
    return Admit(node=member.node, reason=Reason.ADMITTED, message=message)
