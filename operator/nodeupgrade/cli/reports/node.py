"""Everything that is known about one node: its place in a rollout, what it waits for, and what was done to it."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from nodeupgrade.api.json import Json, timestamp, to_json
from nodeupgrade.api.task.object import Task
from nodeupgrade.api.upgrade.object import Upgrade
from nodeupgrade.api.upgrade.spec import RolloutAction
from nodeupgrade.api.upgrade.status import ConditionStatus, ConditionType
from nodeupgrade.api.upgrade.waves import ApprovalPolicy
from nodeupgrade.api.values import NodeName
from nodeupgrade.api.wording import counted
from nodeupgrade.cli.reports.account import account
from nodeupgrade.cli.reports.failures import found_by
from nodeupgrade.cli.reports.starts import expected_start, provided
from nodeupgrade.cluster.nodes import NodeView
from nodeupgrade.findings.finding import Finding, named
from nodeupgrade.fleet.decide.admission import accept
from nodeupgrade.fleet.decide.baseline import Baseline
from nodeupgrade.fleet.decide.budgets import StartDecision
from nodeupgrade.fleet.decide.node_state import NodeState, Place
from nodeupgrade.fleet.decide.rollout_view import RolloutView

OTHERS_NAMED = 5

COMPONENT = "nodeupgrade"
"""The source component of our events."""

NODE_EVENTS = frozenset({"NodeReady", "NodeNotReady", "NodeSchedulable", "NodeNotSchedulable", "Rebooted"})
"""Reasons of other components' events about a Node that matter to its upgrade."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeEvent:
    """An event about the node or its task."""

    time: str
    reason: str
    message: str
    count: int = 1
    warning: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeMembership:
    """A node's place in a rollout."""

    wave: str  # the node's wave: the ``wave_number``-th of ``waves``
    wave_number: int
    waves: int
    order: int  # its place among the ``wave_size`` nodes of the wave, counted from 1
    wave_size: int
    place: Place  # its state in the rollout, with reason and message
    reason: str = ""
    message: str = ""
    check: str = ""  # name of the check that found the reason; empty if none did, or if that is not known
    waits: str = ""  # why it is not being upgraded, as a sentence; empty if it does not wait


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeReport:
    """Everything that is shown about one node."""

    node: NodeView
    upgrade: Upgrade | None = None  # the rollout that it is shown for
    membership: NodeMembership | None = None  # None if the node is not a member of it
    task: Task | None = None
    selected_by: tuple[str, ...] = ()  # rollouts that have not ended and select the node, oldest first
    cordon: str = ""  # who cordoned it, in words
    events: tuple[NodeEvent, ...] = ()

    @property
    def recorded(self) -> int | None:
        """How many containers the baseline before the run has; None if there is none."""
        found = Baseline.parse(self.task.baseline) if self.task is not None and self.task.baseline else None
        return None if found is None else len(found.containers)

    def document(self) -> Json:
        """Return it as JSON."""
        task = self.task
        return {
            "node": self.node.name,
            "kubelet": self.node.kubelet_version,
            "ready": self.node.ready,
            "unschedulable": self.node.unschedulable,
            "cordon": self.cordon,
            "selectedBy": list(self.selected_by),
            "upgrade": None if self.upgrade is None else self.upgrade.name,
            "seat": to_json(self.membership),
            "task": None if task is None else {"spec": to_json(task.spec), "status": to_json(task.reported)},
            "seconds": {} if task is None else dict(account(task)),
            "recordedContainers": self.recorded,
            "events": to_json(self.events),
        }


def choose_upgrade(upgrades: Sequence[Upgrade], node: NodeView, task: Task | None) -> Upgrade | None:
    """Return the rollout to show: the one that claimed the node, else the oldest active that selects it, if any."""
    wanting = active_for(upgrades, node)
    holder = next((u for u in upgrades if task is not None and u.uid == task.spec.upgrade_ref.uid), None)
    if holder is not None and (not holder.finished or not wanting):
        return holder
    return wanting[0] if wanting else None


def active_for(upgrades: Sequence[Upgrade], node: NodeView) -> list[Upgrade]:
    """List the rollouts that have not ended and select the node, oldest first."""
    meant = [
        u for u in upgrades if not u.finished and u.spec is not None and u.spec.nodes.selects(node.name, node.labels)
    ]
    return sorted(meant, key=lambda u: (timestamp(u.created_at) if u.created_at else "", u.name))


def membership(rollout: RolloutView, name: NodeName, now: datetime) -> NodeMembership | None:
    """Find a node's place in a rollout, and what it waits for; None if it is not a member."""
    member = rollout.members.get(name)
    if member is None:
        return None
    number = next(index for index, wave in enumerate(rollout.waves, 1) if wave.name == member.wave)
    wave = [each.node for each in rollout.waves[number - 1].members]
    has_reason = member.place in {Place.HELD, Place.SKIPPED, Place.REFUSED, Place.FINISHED}
    return NodeMembership(
        wave=member.wave,
        wave_number=number,
        waves=len(rollout.waves),
        order=wave.index(name) + 1,
        wave_size=len(wave),
        place=member.place,
        reason=member.reason.value if has_reason else "",
        message=member.message,
        check=member.check or (found_by(member.task) if has_reason and member.task is not None else ""),
        waits=_waits(rollout, member, number, now) if member.place is Place.PENDING else "",
    )


def cordon_of(node: NodeView, upgrades: Sequence[Upgrade]) -> str:
    """Return who cordoned a node, in words."""
    if not node.unschedulable:
        return "not cordoned"
    if not node.cordoned_by:
        return "cordoned by another user or tool; nodeupgrade leaves it so"
    name = next((upgrade.name for upgrade in upgrades if upgrade.uid == node.cordoned_by), None)
    return f"cordoned for {name}" if name else f"cordoned for a NodeUpgrade that is gone (UID {node.cordoned_by})"


def event(body: Json) -> NodeEvent:
    """Parse an Event."""
    return NodeEvent(
        time=str(body.get("lastTimestamp") or body.get("eventTime") or body.get("firstTimestamp") or ""),
        reason=str(body.get("reason", "")),
        message=str(body.get("message", "")),
        count=int(body.get("count") or 1),
        warning=body.get("type") == "Warning",
    )


def is_ours(body: Json) -> bool:
    """Report whether nodeupgrade reported an Event, or it concerns the kubelet's health."""
    return (body.get("source") or {}).get("component") == COMPONENT or body.get("reason") in NODE_EVENTS


def _waits(rollout: RolloutView, member: NodeState, number: int, now: datetime) -> str:
    """Explain what a node waits for, with the planner's own functions."""
    upgrade = rollout.upgrade
    if upgrade.finished:
        return "the rollout has ended"
    if isinstance(objection := accept(upgrade, now), Finding):
        return f"the spec to be accepted: {objection.message}"
    accepted = upgrade.status.condition(ConditionType.ACCEPTED)
    if accepted.status is ConditionStatus.FALSE and accepted.observed_generation == upgrade.generation:
        return f"the spec to be accepted: {accepted.message}"  # what the operator's configuration allows, only it knows
    decision = expected_start(rollout)
    chosen = [each.node for each in decision.nodes]
    if member.node in chosen:
        condition = provided(rollout)
        return f"nothing: the operator starts it with its next pass{f', if {condition}' if condition else ''}"
    if rollout.spec.action is not RolloutAction.PLAN and number - 1 > rollout.position.index >= 0:
        return _wave_waits(rollout, number - 1, decision)
    if chosen:
        return f"other nodes go first: {named(chosen, OTHERS_NAMED)}"
    return decision.message or f"{counted(len(rollout.flying), 'node')} in flight, and no more are allowed"


def _wave_waits(rollout: RolloutView, index: int, decision: StartDecision) -> str:
    own, ahead = rollout.waves[index], rollout.waves[rollout.position.index]
    left = sum(each.holds_wave for each in ahead.members)
    before = f"wave {own.name} comes after wave {ahead.name}, where {left} of {len(ahead.members)} are left"
    if own.terms.approval is ApprovalPolicy.MANUAL and own.approved_by is None:
        before += ", and needs approval"
    return f"{before}; {decision.message}" if decision.message and not decision.nodes else before
