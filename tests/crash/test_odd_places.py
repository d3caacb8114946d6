"""Something that is no file lies in place of one of ours when a run is turned back: nothing of it is lost."""

from collections.abc import MutableMapping
from functools import partial

import pytest

from nodeupgrade.api.task.step import Step
from nodeupgrade.node.failpoints.failpoints import When, at
from nodeupgrade.node.journal.journal import Mark, Outcome, parse
from tests.crash.harness import CONFIG, LIMITS_DROP_IN, World, back, wrongs
from tests.doubles.node.kubelet import PROGRAM


def arguments(world: World) -> str:
    swap = world.plan.swap
    assert swap.arguments is not None
    return swap.arguments.path


@pytest.mark.parametrize("which", ["config", "drop-in", "arguments", "program"])
def test_a_directory_in_place_of_a_file_is_moved_aside_and_named(which: str) -> None:
    world = back()
    path = {"config": CONFIG, "drop-in": LIMITS_DROP_IN, "program": PROGRAM}.get(which) or arguments(world)
    step = {"arguments": Step.SET_ARGUMENTS, "program": Step.SWAP_BINARY}.get(which, Step.SWAP_FILES)
    parent, _, name = path.rpartition("/")
    aside = f"{parent}/.{name}.nodeupgrade-aside"

    def put(disk: MutableMapping[str, bytes]) -> None:
        del disk[path]
        disk[f"{path}/theirs"] = b"theirs"

    world.node.calls.failpoints[at(Step.START_KUBELET, When.UNDONE)] = partial(put, world.node.disk)

    after = world.run()

    assert after.report is not None
    assert after.report.outcome is Outcome.ROLLED_BACK
    assert after.node.disk.pop(f"{aside}/theirs") == b"theirs"
    assert wrongs(after, restarts_allowed=False) == []
    undone = parse(after.node.journal.data)[0].first(step, Mark.UNDONE)
    assert undone is not None
    assert aside in str(undone.error)
