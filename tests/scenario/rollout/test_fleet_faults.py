"""Rollouts with two operators behind the fault proxy, at random; more of them by ``python -m e2e.fleet_faults``.

``FLEET_FAULTS_SEED`` is that of the first trial (by hand, any), ``FLEET_FAULTS_TRIALS`` says how many there are.
"""

import os

import pytest

from e2e.fleet_faults.__main__ import told
from e2e.fleet_faults.trial import try_out
from e2e.fleet_faults.weather import Fault

TRIALS = int(os.environ.get("FLEET_FAULTS_TRIALS", "8"))
SEED = int(os.environ.get("FLEET_FAULTS_SEED", "520276300"))
PARTS = 8


@pytest.mark.timeout(1500)
@pytest.mark.parametrize("part", range(PARTS))
def test_budgets_hold_and_the_end_is_the_undisturbed_one(part: int) -> None:
    """P3, P4, P6 at every write; in the end nothing of ours is left, and each node is as without any fault."""
    failed = []
    for seed in range(SEED + part, SEED + TRIALS, PARTS):
        outcome = try_out(seed)
        failed += [told(outcome)] if outcome.problems else []
    assert failed == []


@pytest.mark.parametrize("fault", list(Fault), ids=lambda fault: fault.name)
def test_each_fault_alone(fault: Fault) -> None:
    """And the control: each of them does happen."""
    happened = 0
    for seed in range(40):
        outcome = try_out(seed, frozenset({fault}))
        assert outcome.problems == [], told(outcome)
        happened += sum(outcome.happened.values())
        if happened >= 3:
            return
    raise AssertionError(f"{fault.name} has happened {happened} times only")
