"""What a run keeps on the node is removed in mid-run, as a cleaning tool does: it is made again, or done without."""

from collections.abc import Callable, Iterable
from fnmatch import fnmatch

import pytest

from nodeupgrade.node.journal.journal import Outcome
from nodeupgrade.node.names_beside import backup_path
from nodeupgrade.node.node import KUBELET_ENVIRONMENT
from tests.crash.harness import CONFIG, LEFTOVERS, World, back, erring, forward, wrongs
from tests.doubles.node import Moment
from tests.doubles.node.kubelet import PROGRAM
from tests.doubles.node.planning import BACKUP
from tests.doubles.node.services import FENCE_DROP_IN, FLAG, KUBELET_UNIT
from tests.enumeration import tried

EVERYTHING_IN_RUN = "/run/nodeupgrade*"
NEEDED_LATER = {BACKUP: f"files.replace {PROGRAM}", backup_path(CONFIG): f"files.copy {CONFIG}"}
"""What nothing on the node could make again, from the effect on that puts another file in its place."""


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
    """Return the announcement of each step and of each undo."""
    return (number for number, name in enumerate(effects) if name.startswith("journal.append") and "doing" in name)


@pytest.mark.parametrize("make", [forward, back, erring], ids=["forward", "back", "erring"])
def test_whatever_is_removed_a_run_ends_as_old_or_new(make: Callable[[], World]) -> None:
    """Each file before each step and undo; all at once, as ``rm -rf /run/nodeupgrade*`` does."""
    effects = make().run().effects
    wrong = {}
    for path in [*own(make), EVERYTHING_IN_RUN]:
        for number in tried(steps(effects)):
            after = without(make(), path, number)
            found = [w for w in wrongs(after, restarts_allowed=False) if w not in LEFTOVERS and path not in w]
            if found and not (path in NEEDED_LATER and number > effects.index(NEEDED_LATER[path])):
                wrong[f"{path} before {effects[number]} ({number})"] = found

    assert wrong == {}


@pytest.mark.parametrize("path", NEEDED_LATER)
def test_a_backup_that_is_removed_while_it_is_all_that_is_left_needs_a_person(path: str) -> None:
    """The run says which file; until then no kubelet of either version touches a container."""
    effects = back().run().effects
    after = without(back(), path, effects.index(NEEDED_LATER[path]) + 1)

    assert after.report is not None
    assert after.report.outcome is Outcome.DEGRADED
    assert path in after.report.message
    assert after.node.services.unit.fenced
    assert [*after.node.kubelet.violations, *after.node.kubelet.replaced] == []


@pytest.mark.parametrize("path", NEEDED_LATER)
def test_a_backup_is_not_missed_once_somebody_has_put_the_old_file_back(path: str) -> None:
    """A configuration management does both at once: what it manages is restored, and what else lies there purged."""
    effects, after = back().run().effects, back()
    place = NEEDED_LATER[path].rpartition(" ")[2]
    managed = bytes(after.node.disk[place])

    def manage(_name: str, at: int, moment: Moment) -> None:
        if (at, moment) == (effects.index(NEEDED_LATER[path]) + 1, Moment.BEFORE):
            after.node.disk[place] = managed
            del after.node.disk[path]

    after.run(manage)

    assert after.report is not None
    assert after.report.outcome is Outcome.ROLLED_BACK, after.report.message
    assert [w for w in wrongs(after, restarts_allowed=False) if w not in LEFTOVERS and path not in w] == []


@pytest.mark.parametrize("path", [FLAG, FENCE_DROP_IN], ids=["flag", "drop-in"])
def test_a_fence_that_is_removed_is_up_again_before_the_next_step(path: str) -> None:
    """Whoever removes its drop-in, as ``systemctl revert`` does, has systemd read its files as well."""
    effects = back().run().effects
    first, last = (effects.index(f"journal.append {name}") for name in ("stop-kubelet done", "start-kubelet doing"))
    open_at = {}
    for number in range(first + 1, last):
        world = back()
        seen: list[bool] = []

        def look(name: str, at: int, moment: Moment, world: World = world, seen: list[bool] = seen) -> None:
            services = world.node.services
            if (at, moment) == (number, Moment.BEFORE):  # noqa: B023 - called in this round only
                del world.node.disk[path]
                services.read_unit_files()
            elif at > number and moment is Moment.BEFORE and name.endswith(" doing"):  # noqa: B023
                loaded = services.status(KUBELET_UNIT).drop_ins
                seen.append(FLAG in world.node.disk and FENCE_DROP_IN in loaded)

        world.run(look)
        if seen[:1] != [True]:
            open_at[effects[number]] = seen

    assert open_at == {}


def test_a_fence_that_cannot_be_made_again_for_whatever_reason_ends_no_executor() -> None:
    """Started again, it would fail there again, and the node stay without a kubelet."""
    world = forward()

    def remove() -> None:
        del world.node.disk[FENCE_DROP_IN]
        world.node.services.scope_names = fail  # type: ignore[method-assign]

    def fail() -> frozenset[str]:
        if world.node.kubelet.process is None:
            raise ValueError("systemd says what nobody has foreseen")
        return frozenset()

    world.node.calls.before("journal.append confirm-inventory doing", remove)

    after = world.run()

    assert after.report is not None
    assert after.node.kubelet.process is not None


@pytest.mark.parametrize("make", [forward, back], ids=["forward", "back"])
def test_the_kubelets_environment_does_not_outlive_the_run_although_no_agent_returns(
    make: Callable[[], World],
) -> None:
    """It may hold secrets of a program that prints credentials."""
    world = make()
    world.node.disk[str(KUBELET_ENVIRONMENT)] = b"{}"

    world.run()

    assert str(KUBELET_ENVIRONMENT) not in world.node.disk
