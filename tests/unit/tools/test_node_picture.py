"""Tests that the picture of a node's way has the steps in their order."""

from nodeupgrade.api.task.step import Step
from tools.node_picture import STEPS


def test_steps_are_drawn_in_the_order_of_a_run() -> None:
    drawn = [words[0].split()[0] for _, words in STEPS[1:-1]]
    in_run = [step.value.split("-")[0] for step in Step if step is not Step.SWAP_FILES]

    assert [at for at, _ in STEPS] == sorted(at for at, _ in STEPS)
    assert drawn[-1] == "verify,"
    assert [name for name in in_run if name in drawn] == drawn[:-1]
