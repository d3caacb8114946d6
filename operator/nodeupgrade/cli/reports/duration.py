"""How long a rollout is expected to take: its rounds of nodes, one after the other, inside its windows."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from statistics import median

from nodeupgrade.api.task.object import Task
from nodeupgrade.api.upgrade.spec import UpgradeSpec
from nodeupgrade.api.upgrade.strategy import TopologyMode
from nodeupgrade.api.upgrade.windows import next_opening
from nodeupgrade.api.values import Verdict
from nodeupgrade.fleet.decide.budgets import grown
from nodeupgrade.fleet.decide.node_state import NodeState, Place
from nodeupgrade.fleet.decide.waves import WaveRoster


@dataclass(frozen=True, slots=True, kw_only=True)
class Expectation:
    """When a rollout would end if every node succeeded and every approval were there at once."""

    node: timedelta  # time of one node
    runs: int  # how many runs on record that time is the median of; 0 if it is assumed
    end: datetime | None  # None if the windows end before the rollout does
    took: timedelta | None  # time until then


ASSUMED = timedelta(seconds=30)
"""Time of a run besides its settle period where no run is on record: copying, checks, and the swap itself."""

LEFT = frozenset({Place.PENDING, Place.HELD, Place.IN_FLIGHT, Place.CHECKED})


def expect(
    spec: UpgradeSpec, waves: Sequence[WaveRoster], concurrency: int, tasks: Iterable[Task], now: datetime
) -> Expectation | None:
    """Return the expected duration of what is left, by the finished runs among the tasks; None if nothing is left."""
    node, runs = _time_of_a_node(spec, tasks)
    moment: datetime | None = now
    due = [(wave, left) for wave in waves if (left := [each for each in wave.members if each.place in LEFT])]
    for number, (wave, left) in enumerate(due):
        for _ in range(_rounds(spec, wave, left, concurrency)):
            moment = None if moment is None else next_opening(spec.windows, spec.blackouts, moment)
            moment = None if moment is None else moment + node + spec.strategy.node_interval
        if moment is not None and number < len(due) - 1:
            moment += wave.terms.soak
    if not due:
        return None
    return Expectation(node=node, runs=runs, end=moment, took=None if moment is None else moment - now)


def _time_of_a_node(spec: UpgradeSpec, tasks: Iterable[Task]) -> tuple[timedelta, int]:
    """Return the median time of successful runs without their settle period, plus the settle period wanted now."""
    besides = [
        max(0.0, (task.reported.finished_at - task.reported.started_at - task.spec.verify.settle).total_seconds())
        for task in tasks
        if task.verdict is not None
        and task.verdict.outcome is Verdict.SUCCEEDED
        and task.reported.started_at is not None
        and task.reported.finished_at is not None
    ]
    return spec.verify.settle + (timedelta(seconds=round(median(besides))) if besides else ASSUMED), len(besides)


def _rounds(spec: UpgradeSpec, wave: WaveRoster, left: Sequence[NodeState], concurrency: int) -> int:
    """Return how many rounds a wave takes: as many nodes at once as its budgets allow, each round as long as a node."""
    strategy, own = spec.strategy, wave.terms.max_concurrent
    limit = concurrency if own is None else min(concurrency, own.of(len(wave.members)))
    domains = [_domain(spec, member) for member in left]
    rounds, done = 0, 0
    while domains:
        taken, width = list[str](), grown(strategy.growth, limit, [True] * done)
        current = min(domains, key=lambda name: (name == "", name))
        for domain in domains:
            if len(taken) == width:
                break
            full = strategy.topology is not None and (
                taken.count(domain) >= strategy.topology.max_per_domain
                or (strategy.topology.mode is TopologyMode.ZONE_BY_ZONE and domain != current)
            )
            if not full:
                taken.append(domain)
        for domain in taken:
            domains.remove(domain)
        rounds, done = rounds + 1, done + len(taken)
    return rounds


def _domain(spec: UpgradeSpec, member: NodeState) -> str:
    rule = spec.strategy.topology
    return "" if rule is None or member.view is None else member.view.labels.get(rule.key, "")
