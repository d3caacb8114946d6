"""What a NodeUpgrade would do to a cluster, by the planner's own functions; nothing is touched."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from nodeupgrade.api.reasons import counted
from nodeupgrade.api.task.spec import Verdict
from nodeupgrade.api.task.status import Hazard, Preview
from nodeupgrade.api.upgrade.spec import RolloutAction, UpgradeSpec
from nodeupgrade.api.upgrade.waves import Wave
from nodeupgrade.api.upgrade.windows import is_open, next_opening
from nodeupgrade.cli.reports.forecast import EraForecast, NodeForecast, by_era
from nodeupgrade.domain.rollout.pace.overlap import queued
from nodeupgrade.domain.rollout.pace.starting import choose, survey_front
from nodeupgrade.domain.rollout.select.approvals import approved_by
from nodeupgrade.domain.rollout.select.membership import selects
from nodeupgrade.domain.rollout.select.node_state import Place, Standing, stand
from nodeupgrade.domain.rollout.select.rollout_view import Survey, take_survey
from nodeupgrade.domain.rollout.select.waves import rosters
from nodeupgrade.domain.rollout.snapshot import FleetSnapshot
from nodeupgrade.domain.views import PodView


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedWave:
    """A wave and how many of its nodes would be upgraded, skipped and refused."""

    terms: Wave
    total: int
    upgraded: int
    skipped: int
    refused: int
    nodes: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanReport:
    """What would happen.

    Attributes:
        spec: as if its action were Run, should it be Plan.
        action: what it really is.
        unselected: nodes of the cluster that are not meant.
        standings: of every node that is meant, wave by wave.
        opens: when nodes may be started; None when no window ever opens.
        open_now: whether that is now.
        first: nodes that would be started at once, were the object applied now.
        waits: why none would be started; empty when some would.
        approvals: who or what approved waves that need it.
        forecasts: by node, of those that would be upgraded.
        previews: what nodes themselves have reported for ``action: Plan``.
        hazards: what nodes have found that forbids their upgrade or deserves attention.
    """

    name: str
    spec: UpgradeSpec
    action: RolloutAction
    now: datetime
    on_cluster: bool
    unselected: int
    standings: tuple[Standing, ...]
    waves: tuple[PlannedWave, ...]
    open_now: bool
    opens: datetime | None
    first: tuple[str, ...] = ()
    waits: str = ""
    approvals: Mapping[str, str]
    forecasts: Mapping[str, NodeForecast]
    previews: Mapping[str, Preview]
    hazards: Mapping[str, tuple[Hazard, ...]]

    @property
    def eras(self) -> tuple[EraForecast, ...]:
        """The forecasts, summed up."""
        return by_era(self.forecasts.values())

    def placed(self, *places: Place) -> tuple[Standing, ...]:
        """List the nodes that stand so."""
        return tuple(standing for standing in self.standings if standing.place in places)


UPGRADED = (Place.PENDING, Place.IN_FLIGHT, Place.CHECKED)
"""Places of nodes that would be upgraded, or are about to be."""


def survey(fleet: FleetSnapshot, now: datetime) -> Survey | None:
    """Look at the rollout as if it were to run; None if its spec is not valid."""
    spec = fleet.upgrade.spec
    if spec is None:
        return None
    running = replace(spec, action=RolloutAction.RUN) if spec.action is RolloutAction.PLAN else spec
    return take_survey(replace(fleet, upgrade=replace(fleet.upgrade, spec=running)), running, now)


def with_pods(seen: Survey, standing: Standing, pods: Sequence[PodView]) -> Standing:
    """Judge a node once more, with its pods, and by what it said when it was asked to look only."""
    if standing.place is not Place.PENDING:
        return standing
    if (task := standing.task) is not None and task.verdict is not None and task.verdict.outcome is Verdict.REFUSED:
        return replace(standing, place=Place.REFUSED, reason=task.verdict.reason, message=task.verdict.message)
    fleet = replace(seen.fleet, pods={standing.node: tuple(pods)})
    return stand(fleet, seen.spec, standing.node, standing.wave, seen.now, flying=False)


def report(
    seen: Survey,
    standings: Sequence[Standing],
    forecasts: Mapping[str, NodeForecast],
    now: datetime,
    *,
    action: RolloutAction,
    on_cluster: bool,
) -> PlanReport:
    """Say what would happen, given how every member stands; ``action`` is what the object itself asks for."""
    fleet, spec = seen.fleet, seen.spec
    by_name = {standing.node: standing for standing in standings}
    judged = replace(seen, standings=by_name, waves=rosters(spec.waves, by_name))
    choice = queued(fleet, spec) or choose(judged, survey_front(judged, now), now)
    reports = {standing.node: standing.task.reported for standing in standings if standing.task is not None}
    return PlanReport(
        name=fleet.upgrade.name,
        spec=spec,
        action=action,
        now=now,
        on_cluster=on_cluster,
        unselected=sum(not selects(spec.nodes, node) for node in fleet.nodes.values()),
        standings=tuple(standings),
        waves=tuple(_wave(wave.terms, wave.standings) for wave in judged.waves),
        open_now=is_open(spec.windows, spec.blackouts, now),
        opens=next_opening(spec.windows, spec.blackouts, now),
        first=tuple(standing.node for standing in choice.nodes),
        waits="" if choice.nodes else choice.message or _in_flight(judged),
        approvals={wave.name: by for wave in judged.waves if (by := approved_by(fleet.upgrade, wave.name)) is not None},
        forecasts=dict(forecasts),
        previews={node: told.preview for node, told in reports.items() if told.preview is not None},
        hazards={node: told.hazards for node, told in reports.items() if told.hazards},
    )


def _in_flight(seen: Survey) -> str:
    return f"{counted(len(seen.flying), 'node')} in flight already" if seen.flying else ""


def _wave(terms: Wave, standings: Sequence[Standing]) -> PlannedWave:
    return PlannedWave(
        terms=terms,
        total=len(standings),
        upgraded=sum(standing.place in UPGRADED for standing in standings),
        skipped=sum(standing.place is Place.SKIPPED for standing in standings),
        refused=sum(standing.place is Place.REFUSED for standing in standings),
        nodes=tuple(standing.node for standing in standings),
    )
