"""A rollback that cannot restore the hash of one container, interrupted anywhere: the others and the node come back."""

from dataclasses import replace

from nodeupgrade.node.journal.journal import Outcome
from tests.crash.harness import LIMITS, World, back, crashing, mixtures, recorded
from tests.crash.states import single_strikes
from tests.enumeration import tried

ODD = "default/web/nginx"
START = "services.start kubelet.service"


def odd() -> World:
    """Once the new kubelet is to be started, nothing can read what is stored of one container any more."""
    world = back(small=True)
    world.plan = replace(world.plan, limits=replace(LIMITS, shield_hold=0.0))
    garbled = [c.id for c in world.plan.containers if c.label == ODD]
    world.node.calls.before(START, lambda: world.node.runtime.troubles.garbled.update(garbled))
    return world


def wrongs_elsewhere(after: World, *, restarts_allowed: bool = False) -> list[str]:
    """Everything wrong that the one container does not explain."""
    report = after.report
    if report is None or report.outcome is not Outcome.ROLLED_BACK:
        return [f"the report is {report}"]
    found = [wrong for wrong in mixtures(after, upgraded=False) if ODD not in wrong]
    if not restarts_allowed:
        found += [label for label in (*after.node.kubelet.replaced, *report.listed) if label != ODD]
    return found


def test_uninterrupted() -> None:
    after = odd().run()

    assert wrongs_elsewhere(after) == []
    assert after.node.kubelet.replaced == [ODD]
    assert after.report is not None
    assert after.report.listed == (ODD,)


def test_one_interruption_anywhere_costs_nobody_else_anything() -> None:
    wrong = {}
    for strike in tried(single_strikes(recorded(odd()))):
        after = odd().run(crashing(strike))
        if found := wrongs_elsewhere(after, restarts_allowed=strike.reboot):
            wrong[f"{strike}, {after.effects[strike.number]}"] = found

    assert wrong == {}
