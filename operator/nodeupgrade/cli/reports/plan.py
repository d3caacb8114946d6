"""What a NodeUpgrade would do to a cluster, computed with the planner's own functions. Read-only."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from nodeupgrade.api.task.status import Preview, ReportedHazard
from nodeupgrade.api.upgrade.spec import RolloutAction, UpgradeSpec
from nodeupgrade.api.upgrade.waves import Wave
from nodeupgrade.api.upgrade.windows import is_open, next_opening
from nodeupgrade.api.values import Verdict
from nodeupgrade.api.wording import counted
from nodeupgrade.cli.reports.duration import Expectation, expect
from nodeupgrade.cli.reports.restarts import EraForecast, NodeForecast, by_era
from nodeupgrade.cli.reports.starts import expected_start, provided
from nodeupgrade.cli.reports.todo import Todo, todo
from nodeupgrade.cluster.pod_owner import with_owners
from nodeupgrade.cluster.pods import Pod
from nodeupgrade.findings.finding import Finding
from nodeupgrade.fleet.decide.admission import findings
from nodeupgrade.fleet.decide.budgets import concurrency
from nodeupgrade.fleet.decide.candidate import Candidate
from nodeupgrade.fleet.decide.membership import after_checks, view_rollout
from nodeupgrade.fleet.decide.node_state import NodeState, Place
from nodeupgrade.fleet.decide.rollout_view import RolloutView
from nodeupgrade.fleet.snapshot import FleetSnapshot


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedWave:
    """How many nodes of a wave would be upgraded, waited for, skipped and refused."""

    total: int
    to_upgrade: int
    held: int
    skipped: int
    refused: int
    nodes: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class RuntimeInUse:
    """A kind of container runtime, and the selected nodes that report it; the name is empty where none is reported."""

    name: str
    nodes: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanReport:
    """What would happen."""

    name: str
    spec: UpgradeSpec  # with the action Run instead of Plan
    action: RolloutAction  # the actual action
    now: datetime
    on_cluster: bool
    unselected: int  # how many nodes of the cluster are not selected
    members: tuple[NodeState, ...]  # the state of every selected node, wave by wave
    waves: tuple[tuple[Wave, PlannedWave], ...]
    open_now: bool  # whether nodes may be started now
    opens: datetime | None  # when nodes may be started; None if no window ever opens
    first: tuple[str, ...] = ()  # nodes that would be started at once if the object were applied now
    provided: str = ""  # on what that still depends
    waits: str = ""  # why none would be started; empty if some would
    approvals: Mapping[str, str]  # who or what approved the waves that need approval
    forecasts: Mapping[str, NodeForecast]  # by node, for the nodes that would be upgraded
    previews: Mapping[str, Preview]  # what nodes have reported for ``action: Plan``
    # what nodes have found that forbids their upgrade or deserves attention
    hazards: Mapping[str, tuple[ReportedHazard, ...]]
    todo: tuple[Todo, ...] = ()  # what people must do, as far as it is known
    expected: Expectation | None = None  # how long the rollout would take; None if nothing is to be upgraded

    @property
    def runtimes(self) -> tuple[RuntimeInUse, ...]:
        """The runtimes of the selected nodes, the most frequent first."""
        by_name: dict[str, list[str]] = {}
        for member in self.members:
            if member.view is not None:
                by_name.setdefault(member.view.runtime_name, []).append(member.node)
        found = (RuntimeInUse(name=name, nodes=tuple(nodes)) for name, nodes in by_name.items())
        return tuple(sorted(found, key=lambda each: (-len(each.nodes), each.name)))

    @property
    def eras(self) -> tuple[EraForecast, ...]:
        """The forecasts, summed up."""
        return by_era(self.forecasts.values())

    def placed(self, *places: Place) -> tuple[NodeState, ...]:
        """List the nodes in one of these places."""
        return tuple(member for member in self.members if member.place in places)


UPGRADED = (Place.PENDING, Place.IN_FLIGHT, Place.CHECKED)
"""Places of nodes that would be upgraded, or are being upgraded."""


def as_run(fleet: FleetSnapshot) -> FleetSnapshot:
    """Return the snapshot as if the action of its rollout were Run instead of Plan."""
    upgrade = fleet.upgrade
    if upgrade.spec is None or upgrade.spec.action is not RolloutAction.PLAN:
        return fleet
    return replace(fleet, upgrade=replace(upgrade, spec=replace(upgrade.spec, action=RolloutAction.RUN)))


def rollout(fleet: FleetSnapshot, now: datetime) -> RolloutView | None:
    """Return the view of the rollout; None if its spec is not valid."""
    return None if fleet.upgrade.spec is None else view_rollout(fleet, fleet.upgrade.spec, now)


def with_pods(member: NodeState, pods: Sequence[Pod]) -> NodeState:
    """Judge a node again with its pods, and with the node's own verdict if it was examined by ``action: Plan``."""
    if member.place is not Place.PENDING or member.candidate is None:
        return member
    if (task := member.task) is not None and task.verdict is not None and task.verdict.outcome is Verdict.REFUSED:
        return replace(member, place=Place.REFUSED, reason=task.verdict.reason, message=task.verdict.message)
    return after_checks(replace(member, candidate=replace(member.candidate, pods=tuple(pods))))


def objections(
    fleet: FleetSnapshot, seen: RolloutView, member: NodeState, pods: Sequence[Pod] | None = None
) -> tuple[Finding, ...]:
    """Return what the operator's own checks find about a node, from the API alone."""
    if member.view is None:
        return ()
    examined = fleet if pods is None else replace(fleet, pods={member.node: tuple(pods)})
    return with_owners(findings(Candidate.of(examined, seen.spec, member.view, seen.now)), pods or ())


def report(
    fleet: FleetSnapshot,
    seen: RolloutView,
    members: Sequence[NodeState],
    forecasts: Mapping[str, NodeForecast],
    now: datetime,
    *,
    action: RolloutAction,
    on_cluster: bool,
    found: Mapping[str, tuple[Finding, ...]],
) -> PlanReport:
    """Report what would happen if the action were Run, given every member's state and what the checks found on it."""
    spec, judged = seen.spec, seen.with_members({member.node: member for member in members})
    decision = expected_start(judged)
    reports = {member.node: member.task.reported for member in members if member.task is not None}
    hazards: dict[str, tuple[ReportedHazard, ...]] = {
        node: status.hazards for node, status in reports.items() if status.hazards
    }
    return PlanReport(
        name=fleet.upgrade.name,
        spec=spec,
        action=action,
        now=now,
        on_cluster=on_cluster,
        unselected=sum(not spec.nodes.selects(node.name, node.labels) for node in fleet.nodes.values()),
        members=tuple(members),
        waves=tuple((wave.terms, _wave(wave.members)) for wave in judged.waves),
        open_now=is_open(spec.windows, spec.blackouts, now),
        opens=next_opening(spec.windows, spec.blackouts, now),
        first=tuple(member.node for member in decision.nodes),
        provided=provided(judged) if decision.nodes else "",
        waits="" if decision.nodes else decision.message or _in_flight(judged),
        approvals={wave.name: wave.approved_by for wave in judged.waves if wave.approved_by is not None},
        forecasts=dict(forecasts),
        previews={node: status.preview for node, status in reports.items() if status.preview is not None},
        hazards=hazards,
        todo=todo(members, found, hazards),
        expected=expect(spec, judged.waves, concurrency(judged), fleet.tasks.values(), now),
    )


def _in_flight(seen: RolloutView) -> str:
    return f"{counted(len(seen.flying), 'node')} in flight already" if seen.flying else ""


def _wave(members: Sequence[NodeState]) -> PlannedWave:
    placed = Counter(member.place for member in members)
    return PlannedWave(
        total=len(members),
        to_upgrade=sum(placed[place] for place in UPGRADED),
        held=placed[Place.HELD],
        skipped=placed[Place.SKIPPED],
        refused=placed[Place.REFUSED],
        nodes=tuple(member.node for member in members),
    )
