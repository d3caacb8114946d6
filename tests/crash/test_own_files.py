"""What a run keeps on the node is removed in mid-run, as a cleaning tool does: it is made again, or done without."""

from collections.abc import Callable, Iterable
from fnmatch import fnmatch

import pytest

from nodeupgrade.node.journal.journal import Outcome
from nodeupgrade.node.plan.exchanged_files import backup_path
from tests.crash.harness import CONFIG, LEFTOVERS, WAYS, World, back, erring, forward, stopping_back, wrongs
from tests.doubles.node import Moment
from tests.doubles.node.planning import BACKUP
from tests.doubles.node.services import FLAG

EVERYTHING_IN_RUN = "/run/nodeupgrade*"
NEEDED_LATER = (BACKUP, backup_path(CONFIG))
"""What nothing on the node could make again: the old program and the old files, once the new ones are in place."""


def own(make: Callable[[], World]) -> list[str]:
    """Return every file that a run makes and that is gone, or as before, when it has ended as it was."""
    world, seen = make(), set[str]()
    before = {*world.node.disk}

    def look(_name: str, _number: int, _moment: Moment) -> None:
        seen.update(world.node.disk)

    world.run(look)
    return sorted(seen - before)


def without(after: World, pattern: str, number: int) -> World:
    """Remove what matches right before an effect."""
    disk = after.node.disk

    def interrupt(_name: str, at: int, moment: Moment) -> None:
        if (at, moment) == (number, Moment.BEFORE):
            for path in [path for path in disk if fnmatch(path, pattern)]:
                del disk[path]

    return after.run(interrupt)


def steps(effects: list[str]) -> Iterable[int]:
    """Return the first effect of each step and of each undo: everything between them is what the step itself does."""
    return (number for number, name in enumerate(effects) if name.startswith("journal.append"))


@pytest.mark.parametrize("make", [forward, back, erring, stopping_back], ids=["forward", "back", "erring", "stopping"])
def test_whatever_is_removed_a_run_ends_as_old_or_new(make: Callable[[], World]) -> None:
    effects = make().run().effects
    wrong = {}
    for path in [*own(make), EVERYTHING_IN_RUN, FLAG]:
        for number in steps(effects):
            after = without(make(), path, number)
            if found := [w for w in wrongs(after, restarts_allowed=False) if w not in LEFTOVERS and path not in w]:
                wrong[f"{path} before {effects[number]} ({number})"] = found

    assert {k: v for k, v in wrong.items() if not k.startswith(NEEDED_LATER)} == {}
