"""Take one rule away, and a story comes out differently: no rule is there without a story that needs it."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from datetime import datetime
from typing import Any

import pytest

from nodeupgrade.api.upgrade.health import HealthCheck
from nodeupgrade.api.upgrade.status import UpgradeStatus
from nodeupgrade.api.upgrade.waves import ApprovalPolicy
from nodeupgrade.findings.finding import Finding
from nodeupgrade.fleet import failures
from nodeupgrade.fleet.decide import (
    admission,
    admission_checks,
    budgets,
    gates,
    ledger,
    phase,
    planner,
    request_checks,
    upgrade_status,
    verdict,
    waves,
)
from nodeupgrade.fleet.decide.budgets import Budget
from nodeupgrade.fleet.decide.gates import Gate
from nodeupgrade.fleet.decide.rollout_view import RolloutView
from nodeupgrade.fleet.guard import lifecycle
from nodeupgrade.fleet.health import checks
from nodeupgrade.fleet.snapshot import FleetSnapshot
from nodeupgrade.kubelet import history, probe_delay
from tests.scenario.rollout.storyfile import STORIES, read_story
from tests.scenario.rollout.storyplay import Player

Mutation = Callable[[pytest.MonkeyPatch], None]
Readings = Mapping[str, checks.HealthReading]


def without_budget(rule: Budget) -> Mutation:
    def mutate(patch: pytest.MonkeyPatch) -> None:
        assert rule in budgets.BUDGETS
        patch.setattr(budgets, "BUDGETS", tuple(each for each in budgets.BUDGETS if each is not rule))

    return mutate


def without_gate(rule: Gate) -> Mutation:
    def mutate(patch: pytest.MonkeyPatch) -> None:
        assert rule in gates.GATES
        patch.setattr(gates, "GATES", tuple(each for each in gates.GATES if each is not rule))

    return mutate


def without_required_guard(patch: pytest.MonkeyPatch) -> None:
    others = tuple(
        each for each in admission_checks.BEFORE_PODS if each is not request_checks.required_guard_is_possible
    )
    patch.setattr(admission, "BEFORE_PODS", others)


def with_function(module: Any, name: str, function: Callable[..., Any]) -> Mutation:
    assert callable(getattr(module, name))
    return lambda patch: patch.setattr(module, name, function)


def with_needs(needs_approval: Callable[[waves.WaveRoster], bool]) -> Mutation:
    """Let waves need an approval only if this says so."""
    return lambda patch: patch.setattr(waves.WaveRoster, "needs_approval", property(needs_approval))


_awaited = checks.awaited


def awaited_from_the_beginning(
    asked: Iterable[HealthCheck], readings: Readings, now: datetime, since: datetime | None
) -> Finding | None:
    del since
    return _awaited(asked, readings, now, None)


def summarised_as(change: Callable[[RolloutView], RolloutView]) -> Mutation:
    summarise = upgrade_status.summarise

    def mutated(before: UpgradeStatus, rollout: RolloutView, *others: Any, **options: Any) -> UpgradeStatus:
        return summarise(before, change(rollout), *others, **options)

    return lambda patch: patch.setattr(planner, "summarise", mutated)


def without_start_or_record(rollout: RolloutView) -> RolloutView:
    health = rollout.ledger.health
    return replace(rollout, ended_by=checks.ending(rollout.spec.health_checks, health, rollout.now))


BUDGETS: dict[Budget, str] = {
    budgets.max_concurrent: "many_at_a_time",
    budgets.wave_concurrency: "wave_with_its_own_concurrency",
    budgets.max_unavailable: "unavailable_nodes_count_whatever_the_reason",
    budgets.topology: "topology_spread",
    budgets.growth: "growth_linear_with_a_cap",
    budgets.node_interval: "rest_after_each_node",
}
GATES: dict[Gate, str] = {
    gates.object_stays: "deletion_in_mid_flight_finishes_the_node_and_starts_no_other",
    gates.not_aborted: "abort_with_nodes_in_flight",
    gates.not_ended_by_a_check: "health_check_ends_the_rollout",
    gates.no_health_check_fails: "health_check_cannot_be_evaluated",
    gates.health_checks_have_held: "health_check_fails_between_nodes",
    gates.no_node_is_lost: "failed_rollback_leaves_the_node_cordoned",
    gates.threshold: "threshold_pauses_and_retry_goes_on",
    gates.wave_threshold: "threshold_of_a_wave",
    gates.causes_differ: "agents_that_never_start_stall_the_rollout",
    gates.not_paused: "paused_by_annotation",
    gates.in_time: "wave_takes_too_long",
    gates.wave_has_its_turn: "not_ready_node_blocks_when_asked_to",
    gates.window_is_open: "windows_and_blackouts",
}
MUTATIONS: dict[str, tuple[Mutation, str]] = {
    **{rule.__name__: (without_budget(rule), story) for rule, story in BUDGETS.items()},
    **{rule.__name__: (without_gate(rule), story) for rule, story in GATES.items()},
    "one zone at a time": (without_budget(budgets.topology), "topology_zone_by_zone"),
    "total time": (without_gate(gates.in_time), "rollout_takes_too_long"),
    "soak": (with_function(waves, "soak_until", lambda _wave: None), "soak_after_a_wave"),
    "a guard that is required": (without_required_guard, "guard_required_and_not_there"),
    "a guard that is wanted": (with_function(probe_delay, "is_guarded", lambda _verify, _target: False), "guarded_run"),
    "a guard narrowed": (with_function(lifecycle, "_kubelet_runs", lambda _status: False), "guarded_run"),
    "pods that flap": (
        with_function(verdict, "_readiness", lambda _task, _before, _pods, _seen: ""),
        "guard_not_installed",
    ),
    "a guard lifted": (with_function(lifecycle, "lift", lambda _fleet, _task, _now: None), "guarded_run"),
    "a guard for the way back": (
        with_function(lifecycle, "_kubelet_runs", lambda _status: True),
        "guard_is_raised_again_for_the_way_back",
    ),
    "no guard from 1.35 on": (
        with_function(probe_delay, "keeps_probes", lambda _kubelet: False),
        "guard_is_not_needed_from_1_35",
    ),
    "no guard before 1.30": (
        lambda patch: patch.setattr(history, "ADMISSION_POLICIES", replace(history.ADMISSION_POLICIES, first=1)),
        "guard_where_the_api_server_is_too_old",
    ),
    "health at the end": (
        summarised_as(lambda rollout: replace(rollout, health_objection=None)),
        "health_check_fails_after_the_last_node",
    ),
    "health since the last node": (
        with_function(checks, "awaited", awaited_from_the_beginning),
        "health_check_fails_between_nodes",
    ),
    "nothing to end before the first node": (
        summarised_as(without_start_or_record),
        "health_check_fails_before_the_first_node",
    ),
    "what ended the rollout stays": (
        summarised_as(without_start_or_record),
        "health_check_ends_the_rollout",
    ),
    "approval": (with_needs(lambda _wave: False), "approval_by_annotation"),
    "approval after a wave without success": (
        with_needs(lambda wave: wave.terms.approval is ApprovalPolicy.MANUAL),
        "wave_without_success_is_followed_only_if_approved",
    ),
    "runs that never end": (
        with_function(phase, "overdue", lambda _tasks, _now, _after: ()),
        "machine_dies_in_mid_run",
    ),
    "runs that never end are told": (
        with_function(ledger, "overdue", lambda _tasks, _now: ()),
        "machine_dies_in_mid_run",
    ),
    "timeouts with nodes in flight": (
        with_function(phase, "_late", lambda _rollout, _decision, _done: None),
        "timeout_passes_with_a_node_in_flight",
    ),
    "claims on nodes that left": (
        with_function(planner, "release_strays", lambda _rollout, _decision: ()),
        "node_that_leaves_is_free_for_another_rollout",
    ),
    "failures of Nodes that are gone": (
        with_function(failures, "failures_of", lambda _status, _tasks, _retry: ()),
        "failed_node_is_deleted_and_still_counts",
    ),
    "waiting for a Node that is gone": (
        with_function(FleetSnapshot, "is_missing", lambda _fleet, _name: False),
        "node_is_lost_with_its_task",
    ),
    "asking a node that comes back": (
        with_function(FleetSnapshot, "is_missing", lambda _fleet, _name: False),
        "node_registers_again_after_its_run",
    ),
}


@pytest.mark.parametrize(("mutate", "told_in"), MUTATIONS.values(), ids=MUTATIONS.keys())
async def test_a_story_notices(mutate: Mutation, told_in: str, monkeypatch: pytest.MonkeyPatch) -> None:
    story = read_story(STORIES[told_in])
    mutate(monkeypatch)
    try:
        told = await Player(story, seed=1).play()
    except AssertionError:  # such a plan is never made
        return
    assert told != story.narration


def test_every_rule_has_its_story() -> None:
    elsewhere = {budgets.cluster}  # of several rollouts, see test_one_ledger
    assert set(BUDGETS) | elsewhere == set(budgets.BUDGETS)
    assert set(GATES) == set(gates.GATES)
