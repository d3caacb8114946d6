"""Runs that are interrupted on a node whose containers carry the hashes of two kubelets: each keeps its own value."""

from functools import cache

import pytest

from nodeupgrade.kubelethash import HashValue
from nodeupgrade.node.journal.journal import Outcome
from nodeupgrade.node.plan.plan import RunPlan
from nodeupgrade.node.verification.verification import differences
from tests.crash.harness import LIMITS, NEW, crashing
from tests.crash.states import States, Strike, recording, single_strikes
from tests.doubles.node import Behaviour, SimulatedNode, plan_for, supervise
from tests.doubles.node.dual_hash import LISTED, hashes, mixed
from tests.doubles.node.kubelet import program
from tests.doubles.node.planning import STAGED
from tests.doubles.node.simulated import SECONDS_TO_SETTLE
from tests.enumeration import tried

Stored = dict[str, HashValue | None]


@cache
def the_plan() -> RunPlan:
    """The same for every such node, since nothing in it is left to chance."""
    return plan_for(mixed(), NEW, limits=LIMITS, also_accepted=LISTED)


def planned(*, fails: bool) -> tuple[SimulatedNode, RunPlan, Stored]:
    """A node that is planned already: its kubelet need not run for as long as a plan demands."""
    node, plan = mixed(ran=SECONDS_TO_SETTLE), the_plan()
    node.disk[STAGED] = program(NEW)
    node.shield.plan = plan
    if fails:
        node.kubelet.behaviour[NEW] = Behaviour.NEVER_HEALTHY
    return node, plan, hashes(node)


def wrong_after(strike: Strike, *, fails: bool) -> list[str]:
    node, plan, stored = planned(fails=fails)
    node.calls.interrupt = crashing(strike)
    report = supervise(node, plan)
    if report is None:
        return ["the run did not end"]
    wanted = stored
    if report.outcome is Outcome.UPGRADED:
        wanted = {c.name: c.after.container for c in plan.containers}
    found = list(node.kubelet.violations)
    if not strike.reboot:
        found += [f"{name}: {value}" for name, value in hashes(node).items() if value != wanted[name]]
        found += [*node.kubelet.replaced, *(str(each) for each in differences(plan.baseline, node.inventory()))]
    return found


@pytest.mark.parametrize("fails", [False, True], ids=["goes forward", "goes back"])
def test_one_interruption_anywhere_leaves_the_old_values_or_the_new(fails: bool) -> None:
    node, plan, _ = planned(fails=fails)
    states: States = {}
    node.calls.interrupt = recording(node, states)
    report = supervise(node, plan)
    assert report is not None
    assert report.outcome is (Outcome.ROLLED_BACK if fails else Outcome.UPGRADED)

    wrong = {}
    for strike in tried(single_strikes(states)):
        if found := wrong_after(strike, fails=fails):
            wrong[str(strike)] = found

    assert wrong == {}
