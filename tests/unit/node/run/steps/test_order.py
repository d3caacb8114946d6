"""Tests that every step is idempotent, and that undo reverses do."""

import pytest

from nodeupgrade.api.task.step import Step
from nodeupgrade.node.rescue import script
from nodeupgrade.node.run.steps.order import STEPS
from tests.builders.planned_run import WORK, planned
from tests.doubles.node import SimulatedNode
from tests.doubles.node.kubelet import STATE
from tests.doubles.node.planning import BACKUP
from tests.doubles.node.services import FENCE_DROP_IN

OTHERS = {BACKUP, STATE, FENCE_DROP_IN, str(script.RESERVE)}
"""Files that others put back, or that are gone once they were needed."""


def state(node: SimulatedNode) -> dict[str, object]:
    """What a step may change and has to put back; the runtime serves what is stored after its next restart."""
    return {
        "disk": {path: data for path, data in node.disk.items() if path not in OTHERS},
        "hashes": {container: stored.hashes for container, stored in node.runtime.containers.items()},
        "fenced": node.services.unit.fenced,
        "arguments": node.services.unit.arguments,
        "timers": set(node.services.active),
        "kubelet": node.kubelet.process and str(node.kubelet.process.version),
    }


@pytest.mark.parametrize("step", WORK)
def test_a_step_keeps_its_promises(step: Step) -> None:
    node, plan = planned()
    for earlier in WORK[: WORK.index(step)]:
        STEPS[earlier].do(node.ports, plan, STEPS[earlier].prepare(node.ports, plan))
    actions = STEPS[step]
    before = state(node)

    payload = actions.prepare(node.ports, plan)
    assert state(node) == before, "prepare only reads"

    actions.do(node.ports, plan, payload)
    done = state(node)
    actions.do(node.ports, plan, payload)
    assert state(node) == done, "done twice is done once"

    actions.undo(node.ports, plan, payload)
    assert state(node) == before, "undo mirrors do"
    actions.undo(node.ports, plan, payload)
    assert state(node) == before, "undone twice is undone once"
    assert node.kubelet.violations == []


@pytest.mark.parametrize("step", WORK)
def test_a_step_that_never_began_can_be_undone(step: Step) -> None:
    """A crash between the announcement and the effect looks like this."""
    node, plan = planned()
    for earlier in WORK[: WORK.index(step)]:
        STEPS[earlier].do(node.ports, plan, STEPS[earlier].prepare(node.ports, plan))
    before = state(node)

    STEPS[step].undo(node.ports, plan, STEPS[step].prepare(node.ports, plan))

    assert state(node) == before
