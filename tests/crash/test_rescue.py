"""The rescue script brings the old kubelet back at any failpoint; then an executor returns and ends the run.

What the script does is played here by hand, from what was laid down for it; the script itself is run by a real
shell in tests/unit/node/rescue/test_script.py.
"""

from contextlib import suppress
from dataclasses import replace
from functools import partial

import pytest

from nodeupgrade.api.reasons import Reason
from nodeupgrade.api.task.step import Step
from nodeupgrade.node.failpoints.failpoints import FAILPOINTS, Failpoint, When, at
from nodeupgrade.node.journal.journal import Outcome
from nodeupgrade.node.journal.run_store import Rescue
from nodeupgrade.node.rescue import script
from nodeupgrade.node.run.run import NodeRun
from tests.crash.harness import COPY, WAYS, World, world, wrongs
from tests.doubles.node import Crash, Moment, supervise
from tests.doubles.node import reboot as reboot_node
from tests.doubles.node.calls import never
from tests.doubles.node.kubelet import PROGRAM


def play(world: World, *, through: bool) -> None:
    """Do what the script does, or only its first half."""
    node, plan = world.node, world.plan
    node.services.unit.fenced = True
    node.kubelet.stop()
    images = {c.id: c.before for c in plan.rewrites()}
    for number, (container_id, hashes) in enumerate(images.items()):
        if through or number % 2:
            node.runtime.containers[container_id].hashes = hashes
    if not through:
        return
    node.runtime.restart()
    node.timeline.advance(1)
    arguments = plan.swap.arguments
    assert arguments is not None
    changed = {PROGRAM, arguments.path, *plan.state_files, *(pin.path for pin in plan.pins)}
    changed |= {file.path for file in plan.exchanged}
    for path in changed:
        node.disk.pop(path, None)
    node.disk.update({path: data for path, data in world.disk.items() if path in changed})
    node.services.read_unit_files()
    node.services.unit.fenced = False
    node.services.start_kubelet()
    node.timeline.advance(5)


@pytest.mark.parametrize("through", [False, True], ids=["cut off in the middle", "through"])
@WAYS
def test_an_executor_that_returns_after_a_rescue_ends_the_run_as_old(make: object, through: bool) -> None:
    wrong = {}
    reached = 0
    for name in FAILPOINTS:
        after: World = make()  # type: ignore[operator]
        if not _lost_at(after, name) or _well(after):
            continue
        assert script.SCRIPT.as_posix() in after.node.disk
        reached += 1
        play(after, through=through)
        word = Rescue.DONE if through else Rescue.BEGUN
        after.node.ports = replace(after.node.ports, rescue=partial(Rescue, word))
        after.report = supervise(after.node, after.plan)
        found = wrongs(after, restarts_allowed=False)
        if after.report is None or after.report.outcome is not Outcome.ROLLED_BACK:
            found.append(f"ended as {after.report}")
        elif not after.node.kubelet.behaviour and after.report.reason is not Reason.EXECUTOR_LOST:
            found.append(f"for {after.report.reason}")
        if through and after.report is not None and after.report.down_seconds is not None:
            found.append(f"claims {after.report.down_seconds} s without a kubelet, which nobody measured")
        if found:
            wrong[name] = found

    assert wrong == {}
    assert reached > 15


COMMIT = "journal.append lower-shield done"


def test_a_run_does_not_end_as_upgraded_with_the_old_kubelet_even_if_the_rescue_is_forgotten() -> None:
    after = world()
    assert _lost_at(after, at(Step.VERIFY, When.ANNOUNCED))
    play(after, through=True)
    after.node.disk[COPY] = b""

    after.report = supervise(after.node, after.plan)

    assert after.report is not None
    assert (after.report.outcome, after.report.reason) == (Outcome.ROLLED_BACK, Reason.DIGEST_MISMATCH)
    assert wrongs(after, restarts_allowed=False) == []


@pytest.mark.parametrize("through", [False, True], ids=["cut off in the middle", "through"])
@pytest.mark.parametrize("reboot", [False, True], ids=["killed", "rebooted"])
def test_a_rescue_after_the_commit_ends_as_old_too(through: bool, reboot: bool) -> None:
    """None begins then; but if one did, the run must not end as upgraded with hashes of both eras and a fence."""
    after = world()

    def lost(name: str, _number: int, moment: Moment) -> None:
        if (name, moment) == (COMMIT, Moment.AFTER):
            raise Crash

    after.node.calls.interrupt = lost
    with suppress(Crash):
        NodeRun(node=after.node.ports, plan=after.plan, store=after.node.journal).carry_out()
    after.node.calls.interrupt = never
    play(after, through=through)
    word = Rescue.DONE if through else Rescue.BEGUN
    after.node.ports = replace(after.node.ports, rescue=partial(Rescue, word))
    if reboot:
        reboot_node(after.node, after.plan)

    after.report = supervise(after.node, after.plan)

    assert after.report is not None
    assert (after.report.outcome, after.report.reason is Reason.EXECUTOR_LOST) == (Outcome.ROLLED_BACK, not reboot)
    assert wrongs(after, restarts_allowed=reboot) == []


def _lost_at(world: World, name: Failpoint) -> bool:
    """Let the executor be killed with the kubelet down or unwell; whether it got there."""
    hit = []

    def strike() -> None:
        hit.append(world.node.journal.load().mark(Step.STOP_KUBELET))
        raise Crash

    world.node.calls.failpoints[name] = strike
    with suppress(Crash):
        NodeRun(node=world.node.ports, plan=world.plan, store=world.node.journal).carry_out()
    return bool(hit and hit[0] is not None)


def _well(world: World) -> bool:
    """A kubelet that is well keeps the script from doing anything."""
    process = world.node.kubelet.process
    return process is not None and process.healthy
