"""Runs that are interrupted on a node whose containers carry the hashes of two kubelets: each keeps its own value."""

import pytest

from nodeupgrade.domain.node.journal import Outcome
from nodeupgrade.domain.node.plan import RunPlan
from nodeupgrade.domain.node.verification import differences
from nodeupgrade.kubelethash import HashValue
from tests.crash.harness import LIMITS, NEW, Strike, crashing, single_strikes
from tests.doubles.node import Behaviour, SimulatedNode, plan_for, supervise
from tests.doubles.node.dual_hash import LISTED, hashes, mixed

Stored = dict[str, HashValue | None]


def planned(*, fails: bool) -> tuple[SimulatedNode, RunPlan, Stored]:
    node = mixed()
    if fails:
        node.kubelet.behaviour[NEW] = Behaviour.NEVER_HEALTHY
    return node, plan_for(node, NEW, limits=LIMITS, also_accepted=LISTED), hashes(node)


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
    report = supervise(node, plan)
    assert report is not None
    assert report.outcome is (Outcome.ROLLED_BACK if fails else Outcome.UPGRADED)

    wrong = {}
    for strike in single_strikes(node.calls.effects):
        if found := wrong_after(strike, fails=fails):
            wrong[str(strike)] = found

    assert wrong == {}
