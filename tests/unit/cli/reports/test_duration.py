"""The expected duration follows from budgets, waves and windows, one round of nodes after the other."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from math import ceil

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nodeupgrade.api.int_or_percent import IntOrPercent
from nodeupgrade.api.upgrade.object import parse_upgrade
from nodeupgrade.api.upgrade.spec import UpgradeSpec
from nodeupgrade.api.upgrade.strategy import Growth, GrowthType, Topology, TopologyMode
from nodeupgrade.api.upgrade.waves import Wave
from nodeupgrade.api.upgrade.windows import Window
from nodeupgrade.api.values import NodeName
from nodeupgrade.cli.reports.duration import ASSUMED, Expectation, expect
from nodeupgrade.cluster.nodes import view_node
from nodeupgrade.fleet.decide.node_state import NodeState, Place
from nodeupgrade.fleet.decide.waves import WaveRoster
from tests.doubles.kube import merged
from tests.doubles.kube_fleet import node_object
from tests.scenario.rollout.harness import upgrade_object

NOW = datetime(2026, 3, 2, 22, tzinfo=UTC)
ZONE = "zone"


def spec(**strategy: object) -> UpgradeSpec:
    body = merged(upgrade_object(), {"metadata": {"uid": "u", "resourceVersion": "1", "generation": 1}})
    found = parse_upgrade(body).spec
    assert found is not None
    return replace(found, strategy=replace(found.strategy, **strategy))  # type: ignore[arg-type]


def wave(number: int, *, zones: int = 1, place: Place = Place.PENDING, **terms: object) -> WaveRoster:
    def member(index: int) -> NodeState:
        body = node_object(f"node-{index}", "v1.30.14")
        body["metadata"] |= {"uid": "u", "resourceVersion": "1", "labels": {ZONE: f"z{index % zones}"}}
        return NodeState(node=NodeName(f"node-{index}"), place=place, view=view_node(body))

    members = tuple(member(index) for index in range(number))
    return WaveRoster(terms=Wave(name="w", **terms), members=members)  # type: ignore[arg-type]


def told(wanted: UpgradeSpec, *waves: WaveRoster, at_once: int = 1) -> Expectation:
    found = expect(wanted, waves, at_once, (), NOW)
    assert found is not None
    return found


NODE = spec().verify.settle + ASSUMED


@given(st.integers(1, 40), st.integers(1, 10))
def test_as_many_rounds_as_the_budget_makes(nodes: int, at_once: int) -> None:
    assert told(spec(), wave(nodes), at_once=at_once).took == ceil(nodes / at_once) * NODE


@pytest.mark.parametrize(
    ("wanted", "waves", "rounds", "besides"),
    [
        (spec(growth=Growth(type=GrowthType.EXPONENTIAL)), [wave(7)], 3, 0),
        (spec(topology=Topology(key=ZONE)), [wave(6, zones=3)], 2, 0),
        (spec(topology=Topology(key=ZONE, mode=TopologyMode.ZONE_BY_ZONE)), [wave(6, zones=3)], 6, 0),
        (spec(), [wave(8, max_concurrent=IntOrPercent(2))], 4, 0),
        (spec(node_interval=timedelta(minutes=1)), [wave(10)], 1, 1),
        (spec(), [wave(1, soak=timedelta(minutes=9)), wave(1, soak=timedelta(minutes=9))], 2, 9),
        (spec(), [wave(5, place=Place.FINISHED), wave(1)], 1, 0),
    ],
    ids=["growth", "spread over zones", "zone by zone", "a wave's own limit", "interval", "soak", "what is over"],
)
def test_what_else_counts(wanted: UpgradeSpec, waves: list[WaveRoster], rounds: int, besides: int) -> None:
    assert told(wanted, *waves, at_once=10).took == rounds * NODE + timedelta(minutes=besides)


def test_a_round_that_comes_too_late_for_a_window_waits_for_the_next() -> None:
    wanted = replace(spec(), windows=(Window(start="0 22 * * *", duration=NODE),))
    assert told(wanted, wave(2)).end == NOW + timedelta(days=1) + NODE


def test_nothing_to_do_takes_no_time() -> None:
    assert expect(spec(), [wave(3, place=Place.SKIPPED)], 1, (), NOW) is None
