"""Which nodes belong to a rollout, to which wave, and in which state each is.

Nodes that are selected belong to it and, once the plan is made, those that are claimed. The node that the operator runs
on comes last in its wave.
"""

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from functools import partial

from nodeupgrade.api.json import timestamp
from nodeupgrade.api.reasons import Reason, Severity, known_reason
from nodeupgrade.api.task.run_id import kind_of
from nodeupgrade.api.upgrade.nodes import Membership
from nodeupgrade.api.upgrade.object import Upgrade
from nodeupgrade.api.upgrade.spec import RolloutAction, UpgradeSpec
from nodeupgrade.api.upgrade.status import Slot
from nodeupgrade.api.upgrade.waves import REMAINDER, Wave
from nodeupgrade.api.values import NodeName, RunKind, Verdict
from nodeupgrade.api.wording import sentence
from nodeupgrade.cluster.pods import Pod
from nodeupgrade.fleet import failures
from nodeupgrade.fleet.actions import FreeSlot
from nodeupgrade.fleet.decide.admission import judge
from nodeupgrade.fleet.decide.candidate import Candidate
from nodeupgrade.fleet.decide.ledger import Ledger, ledger_of
from nodeupgrade.fleet.decide.node_state import NodeState, Place
from nodeupgrade.fleet.decide.rollout_view import RolloutView
from nodeupgrade.fleet.snapshot import FleetSnapshot, KnownNode


@dataclass(frozen=True, slots=True, kw_only=True)
class Unassigned:
    """A member before it is assigned to a wave."""

    node: NodeName
    labels: Mapping[str, str]
    wave: str = ""  # the wave that its slot or claim records; empty if it has neither
    idle: bool = False  # whether it needs nothing, and so does not count against the size of a wave
    late: bool = False  # whether the plan was made without it


def view_rollout(
    fleet: FleetSnapshot, spec: UpgradeSpec, now: datetime, freed: Collection[FreeSlot] = ()
) -> RolloutView:
    """Return the rollout as it will be once these slots are free, and a retry that can be carried out has been."""
    later, nodes = fleet.without_slots(freed), frozenset(slot.node for slot in freed)
    rollout = _view(later, spec, now, nodes)
    if fleet.upgrade.retry_requested and rollout.is_retried:
        return _view(later.after_retry(), spec, now, nodes)
    return rollout


def add_pods(rollout: RolloutView, pods: Mapping[NodeName, tuple[Pod, ...]]) -> RolloutView:
    """Return the rollout once the pods of more nodes are known: only these nodes are judged again.

    Where pods object, what they object to is kept, and not the pods: there may be many such nodes.
    """
    pending = ((m, m.candidate) for name in pods if (m := rollout.members.get(name)) and m.place is Place.PENDING)
    judged = {
        member.node: after_checks(replace(member, candidate=_with_pods(candidate, pods[member.node])))
        for member, candidate in pending
        if candidate is not None and candidate.pods is None
    }
    return rollout.with_members({**rollout.members, **judged})


def without_objecting_pods(fleet: FleetSnapshot, rollout: RolloutView) -> FleetSnapshot:
    """Return a snapshot with what pods object to in the place of the pods themselves."""
    known = {name: member.candidate for name, member in rollout.members.items() if member.candidate is not None}
    return replace(
        fleet,
        objections={name: each.objection for name, each in known.items() if each.objection is not None},
        pods={name: pods for name, pods in fleet.pods.items() if name in known and known[name].pods is not None},
    )


def _with_pods(candidate: Candidate, pods: tuple[Pod, ...]) -> Candidate:
    known = replace(candidate, pods=pods)
    objection = judge(known)
    return known if objection is None else replace(known, pods=None, objection=objection)


def _view(fleet: FleetSnapshot, spec: UpgradeSpec, now: datetime, freed: frozenset[NodeName]) -> RolloutView:
    """Return the view with the members in upgrade order: wave by wave."""
    upgrade, slots, ledger = fleet.upgrade, fleet.slots, ledger_of(fleet, now)
    known = {name: fleet.known(name) for name in {*fleet.names, *spec.nodes.names}}
    taking_part = [
        _unassigned(upgrade, spec, node, slots.get(name))
        for name, node in known.items()
        if name in slots or _is_member(spec, node)
    ]
    waves, late = assign(spec.waves, taking_part, last=fleet.operator_node), {m.node for m in taking_part if m.late}
    members = {
        name: node_state(fleet, spec, ledger, known[name], wave, late=name in late) for name, wave in waves.items()
    }
    return RolloutView.of(ledger, spec, members, freed)


def assign(
    waves: Sequence[Wave], members: Iterable[Unassigned], last: NodeName | None = None
) -> Mapping[NodeName, str]:
    """Return the wave of every member, in upgrade order: wave by wave, then by name; ``last`` comes last in its wave.

    The slot or the claim decides; without one, it is the first wave, in the order of ``waves``, that selects the member
    or has room for it. All others belong to the remainder.
    """
    ordered = sorted(members, key=lambda member: (member.node == last, member.node))
    names = [*(wave.name for wave in waves), REMAINDER]
    assigned = {member.node: member.wave for member in ordered if member.wave in names}
    sizes = Counter(assigned.values())
    for wave in waves:
        left = [member for member in ordered if member.node not in assigned]
        if wave.selector is not None:
            chosen = [member.node for member in left if wave.selector.matches(member.labels)]
        else:
            size = wave.size.of(len(ordered)) if wave.size is not None else 0
            chosen = [member.node for member in left if not member.idle][: max(0, size - sizes[wave.name])]
        assigned |= dict.fromkeys(chosen, wave.name)
    wave_of = {member.node: assigned.get(member.node, REMAINDER) for member in ordered}
    return dict(sorted(wave_of.items(), key=lambda item: names.index(item[1])))


def _unassigned(upgrade: Upgrade, spec: UpgradeSpec, node: KnownNode, slot: Slot | None) -> Unassigned:
    if slot is not None:
        return Unassigned(node=node.name, labels={}, wave=slot.wave or REMAINDER)
    needs = needs_claim(spec, node)
    late = (needs or _was_created_later(upgrade, node)) and _came_too_late(upgrade, spec, node)
    return Unassigned(
        node=node.name,
        labels={} if node.view is None else node.view.labels,
        wave="" if node.claim is None else node.claim.spec.wave,
        idle=node.claim is None and (late or not needs),
        late=late,
    )


def _is_member(spec: UpgradeSpec, node: KnownNode) -> bool:
    """Report whether a node without a slot belongs to the rollout.

    It does if its upgrade has a verdict, failed, matches now, or is named although it does not exist. A Node that
    cannot be read may match, and does if the rollout has claimed it.
    """
    selection = spec.nodes
    if node.own is not None and node.own.verdict is not None and node.own.kind is RunKind.UPGRADE:
        return node.view is not None or node.own.verdict.outcome in failures.RECORDED
    if node.view is not None:
        return selection.selects(node.name, node.view.labels) or node.record is not None
    if node.name in selection.exclude.names:
        return False
    may_match = node.claim is not None or (node.task is None and selection.beyond_names)
    return node.name in selection.names or (node.problem is not None and may_match)


def _came_too_late(upgrade: Upgrade, spec: UpgradeSpec, node: KnownNode) -> bool:
    """Report whether a node joined after the plan was made: only nodes that were claimed for it take part.

    A node that is selected by name always takes part, and so does one that has had a run of the rollout, one that
    replaces a failed node of the same name, and one that left and has returned before another rollout claimed it.
    """
    status, earlier = upgrade.status, node.task
    if status.planned_at is None or spec.nodes.membership is not Membership.SNAPSHOT or node.name in spec.nodes.names:
        return False
    ours = earlier is not None and earlier.spec.upgrade_ref.uid == upgrade.uid and not earlier.released
    had_a_run = earlier is not None and any(run.upgrade_uid == upgrade.uid for run in earlier.spec.history)
    if ours or had_a_run or node.own is not None:
        return False
    return all(each.node != node.name or each.outcome is None for each in status.failures)


def _was_created_later(upgrade: Upgrade, node: KnownNode) -> bool:
    """Report whether a Node was created after the plan was made, so that it is late although no plan would claim it."""
    created, planned = None if node.view is None else node.view.created_at, upgrade.status.planned_at
    return node.problem is None and created is not None and planned is not None and created > planned


def needs_claim(spec: UpgradeSpec, node: KnownNode) -> bool:
    """Report whether a member must be claimed: it runs another known version, and there is an artifact for it."""
    if (view := node.view) is None or node.problem is not None or view.unsupported is not None:
        return False
    return view.kubelet_version != spec.version and spec.artifact.serves(view.platform) and node.claim is None


def node_state(
    fleet: FleetSnapshot, spec: UpgradeSpec, ledger: Ledger, known: KnownNode, wave: str, *, late: bool
) -> NodeState:
    """Return the state of one member; ``late`` if the plan was made without it."""
    name, node, task, record = known.name, known.view, known.claim, known.record
    member = partial(NodeState, node=name, wave=wave, task=task, view=node, record=record)
    if name in ledger.slots:
        return member(place=Place.IN_FLIGHT, kind=kind_of(ledger.slots[name].run))
    if task is not None and (verdict := task.verdict) is not None:
        planning = spec.action is RolloutAction.PLAN
        member = partial(member, lingers=failures.lingers(task))
        continues = not planning and spec.action is not RolloutAction.ABORT and not fleet.upgrade.finished
        if continues and node is not None and (again := failures.next_look(task, ledger.last_judged)) is not None:
            message = f"{verdict.message.removesuffix('.')}; the node is looked at again at {timestamp(again)}."
            return member(place=Place.REFUSED, reason=verdict.reason, message=message, again=again)
        if task.kind is RunKind.UPGRADE or (planning and verdict.outcome is not Verdict.PRECHECKED):
            return member(place=Place.FINISHED, reason=verdict.reason, message=verdict.message)
        if planning:
            return member(place=Place.CHECKED)
    if node is None:
        unreadable = known.problem is not None
        reason = Reason.OBJECT_UNREADABLE if unreadable else Reason.NODE_NOT_FOUND
        because = f"node {name} cannot be read: {known.problem}" if unreadable else f"there is no node {name}"
        return member(place=Place.REFUSED, reason=reason, message=sentence(reason, because))
    candidate = Candidate.of(fleet, spec, node, ledger.now)
    member = partial(member, candidate=candidate, needs_claim=needs_claim(spec, known))
    if record is not None and not _is_held_at_retry(candidate):
        reason = known_reason(record.reason) or Reason.FAILED
        return member(place=Place.FINISHED, reason=reason, message=record.message)
    checked = after_checks(member(place=Place.PENDING))
    if late and checked.place is not Place.SKIPPED:
        message = sentence(Reason.NOT_IN_PLAN, f"node {name} holds no claim, and the plan was made without it")
        return member(place=Place.SKIPPED, reason=Reason.NOT_IN_PLAN, message=message)
    return checked


def after_checks(member: NodeState) -> NodeState:
    """Return a pending node as the checks find it."""
    if member.candidate is None or (finding := judge(member.candidate)) is None:
        return member
    place = Place.SKIPPED if finding.weight is Severity.SKIP else Place.REFUSED
    place = Place.HELD if finding.reason in {Reason.HELD_BY_ANNOTATION, Reason.HELD_BY_POD} else place
    return replace(member, place=place, reason=finding.reason, message=finding.message, check=finding.check)


def _is_held_at_retry(candidate: Candidate) -> bool:
    """Report whether a node to retry is held by another rollout by now, so that it waits for that one."""
    finding = judge(candidate) if candidate.upgrade.retry_requested else None
    return finding is not None and finding.reason is Reason.OVERLAP_CONFLICT
