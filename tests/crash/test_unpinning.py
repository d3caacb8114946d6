"""A run that takes the UIDs of an earlier one out of manifests, interrupted: it takes out all of them, or none."""

from collections.abc import Iterator

import pytest

from nodeupgrade.node.journal.journal import Outcome
from nodeupgrade.node.plan.plan import Limits, RunPlan
from tests.crash.harness import crashing, moments
from tests.crash.states import Strike
from tests.doubles.node import SimulatedNode, manifest, plan_for, supervise
from tests.doubles.node.calls import never
from tests.doubles.node.containers.pods import MANIFESTS

OLD, NEW = "v1.30.14", "v1.33.13"
LIMITS = Limits(settle=2.0)
ORIGINAL = {f"{MANIFESTS}/{name}.yaml": manifest(name, name) for name in ("etcd", "proxy")}


def on_the_way_back() -> tuple[SimulatedNode, RunPlan]:
    """A node that went from 1.30 to 1.33, and its run back."""
    node = SimulatedNode(version=OLD, pods=(), manifests={path.rpartition("/")[2]: ORIGINAL[path] for path in ORIGINAL})
    supervise(node, plan_for(node, NEW, limits=LIMITS))
    node.timeline.advance(5.0)
    node.journal.data = b""
    plan = plan_for(node, OLD, run="run-2", limits=LIMITS)
    assert [pin.removes for pin in plan.pins] == [True, True]
    return node, plan


def strikes(*, reboot: bool) -> Iterator[Strike]:
    node, plan = on_the_way_back()
    began = len(node.calls.effects)
    supervise(node, plan)
    for number, name in enumerate(node.calls.effects[began:], began):
        if MANIFESTS in name or number % 5 == 0:  # the other tests of crashes try them all
            yield from (Strike(number, moment, reboot) for moment in moments(name))


@pytest.mark.parametrize("reboot", [False, True], ids=["killed", "rebooted"])
def test_every_manifest_is_as_the_kubelet_that_runs_needs_it(reboot: bool) -> None:
    wrong, ends = {}, set()
    for strike in strikes(reboot=reboot):
        node, plan = on_the_way_back()
        pinned = {path: node.disk[path] for path in ORIGINAL}
        node.calls.interrupt = crashing(strike)
        report = supervise(node, plan)
        node.calls.interrupt = never
        node.timeline.advance(5.0)
        assert report is not None
        ends.add(report.outcome)
        wanted = ORIGINAL if report.outcome is Outcome.UPGRADED else pinned
        found = [path for path in wanted if node.disk[path] != wanted[path]]
        found += [] if reboot else node.kubelet.replaced
        if found:
            wrong[str(strike)] = found

    assert wrong == {}
    assert ends == {Outcome.UPGRADED, *({Outcome.ROLLED_BACK} if reboot else ())}, "or the test tried too little"
