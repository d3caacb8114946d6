"""Power fails between any two system calls of a run, and whatever may then be on the disk is recovered from.

How the number of states stays small without leaving one out: everything is synchronised soon after it is written, so
that at any moment only a few changes can have been lost, and these are combined without exception (ModelDisk says how,
and refuses to go on if there were too many). What is found on the disk and kept by the runtime is all that a recovery
can see, so each combination of both is recovered from once, however many moments lead to it.
"""

import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from random import Random

import pytest

from nodeupgrade.api.task.step import Step
from nodeupgrade.errors import Inconsistent
from nodeupgrade.node.host.files import atomic
from nodeupgrade.node.host.files.system_calls import Disk
from nodeupgrade.node.journal import journal_file
from nodeupgrade.node.journal.journal import Mark, Outcome
from tests.crash.machine import Machine, Wreck
from tests.doubles.node import Crash
from tests.doubles.node.storage.disk import ModelDisk
from tests.enumeration import tried

PARTS = 8
ENDS = {False: Outcome.UPGRADED, True: Outcome.ROLLED_BACK}


def wrecks_of(machine: Machine, life: Callable[[], None]) -> dict[object, Wreck]:
    """Everything that a power cut at any moment of this life may leave."""
    found: dict[object, Wreck] = {}

    def strike() -> None:
        for wreck in machine.wrecks():
            found.setdefault(wreck.key, wreck)

    machine.interrupt(strike)
    life()
    strike()
    return found


def recovered(wreck: Wreck, *, turns_back: bool) -> Machine:
    machine = Machine(turns_back=turns_back)
    machine.boot(wreck)
    machine.finish()
    return machine


def wrongs_after(wreck: Wreck, *, turns_back: bool) -> list[str]:
    try:
        machine = recovered(wreck, turns_back=turns_back)
        found = machine.wrongs()
        once = machine.state()
        machine.finish()
    except Inconsistent as error:
        return [f"a human is needed: {error}"]
    return found if machine.state() == once else [*found, "a second recovery changed something"]


@pytest.mark.parametrize("turns_back", [False, True], ids=["forward", "back"])
def test_power_fails_at_any_system_call(turns_back: bool, capsys: pytest.CaptureFixture[str]) -> None:
    machine = Machine(turns_back=turns_back)
    wrecks = wrecks_of(machine, machine.upgrade)
    assert machine.report is not None
    assert machine.report.outcome is ENDS[turns_back]
    assert machine.wrongs() == []
    if turns_back:  # the way to there is the same, and tried already
        forward = Machine(turns_back=False)
        wrecks = {key: wrecks[key] for key in wrecks.keys() - wrecks_of(forward, forward.upgrade).keys()}

    several = tried(enumerate(wrecks.values()), 12)
    wrong = {n: found for n, wreck in several if (found := wrongs_after(wreck, turns_back=turns_back))}

    with capsys.disabled():
        print(f" {machine.calls} system calls, {len(wrecks)} states after a power cut", end=" ")
    assert wrong == {}
    assert len(wrecks) > 200


@pytest.mark.parametrize("part", tried(range(PARTS), PARTS))
def test_power_fails_again_at_any_system_call_of_the_recovery(part: int, capsys: pytest.CaptureFixture[str]) -> None:
    """The first cut is right after a step was announced, with everything written; for each step there is."""
    wrecks: dict[object, Wreck] = {}
    calls = 0
    for first in _wrecks_at_announcements()[part::PARTS]:
        again = Machine(turns_back=False)
        again.boot(first)
        wrecks |= wrecks_of(again, again.finish)
        calls += again.calls
        assert again.wrongs() == []

    wrong = {n: found for n, w in tried(enumerate(wrecks.values()), 12) if (found := wrongs_after(w, turns_back=False))}

    with capsys.disabled():
        print(f" {calls} system calls, {len(wrecks)} states after a second power cut", end=" ")
    assert wrong == {}
    assert len(wrecks) > 1000 // PARTS


def _wrecks_at_announcements() -> list[Wreck]:
    machine = Machine(turns_back=False)
    found: dict[Step, Wreck] = {}

    def strike() -> None:
        last = machine.runs.read_journal(machine.plan.run_id).last
        if last is not None and last.step is not None and last.mark is Mark.DOING and last.step not in found:
            *_, found[last.step] = machine.wrecks()

    machine.interrupt(strike)
    machine.upgrade()
    assert set(found) == set(Step)
    return list(found.values())


@pytest.mark.parametrize("turns_back", [False, True], ids=["forward", "back"])
def test_the_executor_is_killed_at_any_system_call(turns_back: bool) -> None:
    """What it would still have done while it dies, such as removing a temporary file, is not done."""
    machine = Machine(turns_back=turns_back)
    machine.interrupt(lambda: None)
    machine.upgrade()
    wrong = {}
    for number in tried(range(1, machine.calls + 1), 12):
        killed = Machine(turns_back=turns_back)
        killed.interrupt(partial(_die_at, killed, number))
        with suppress(Crash):
            killed.upgrade()
        killed.interrupt(lambda: None)
        killed.finish()
        if found := killed.wrongs():
            wrong[number] = found

    assert wrong == {}


def _die_at(machine: Machine, number: int) -> None:
    if machine.calls >= number:
        raise Crash


def not_synchronised(kind: Callable[[int], bool], where: str, patch: pytest.MonkeyPatch) -> None:
    """Leave one fsync out: of files (or directories) whose path ends like this."""
    really = {name: getattr(ModelDisk, name) for name in ("fsync", "fdatasync")}

    def mutant(name: str, disk: ModelDisk, descriptor: int) -> None:
        if not (kind(disk.fstat(descriptor).st_mode) and disk.path(descriptor).endswith(where)):
            really[name](disk, descriptor)

    for name in really:
        patch.setattr(ModelDisk, name, lambda disk, descriptor, name=name: mutant(name, disk, descriptor))


def renamed_before_it_is_synchronised(patch: pytest.MonkeyPatch) -> None:
    fresh_beside = atomic.fresh_beside

    @contextmanager
    def mutant(target: Path, *, mode: int, place: Path | None = None, disk: Disk) -> Iterator[int]:
        with fresh_beside(target, mode=mode, place=place, disk=_Unsynchronised(disk)) as fresh:  # type: ignore[arg-type]
            yield fresh

    class _Unsynchronised:
        """Puts the synchronising of content off until the rename is done."""

        def __init__(self, disk: Disk) -> None:
            self._disk = disk
            self._late: list[int] = []

        def __getattr__(self, name: str) -> object:
            return getattr(self._disk, name)

        def fsync(self, descriptor: int) -> None:
            if stat.S_ISDIR(self._disk.fstat(descriptor).st_mode):
                self._disk.fsync(descriptor)
            else:
                self._late.append(descriptor)

        def close(self, descriptor: int) -> None:
            if descriptor not in self._late:
                self._disk.close(descriptor)

        def rename(self, source: Path, target: Path) -> None:
            self._disk.rename(source, target)
            for descriptor in self._late:
                self._disk.fsync(descriptor)
                self._disk.close(descriptor)
            self._late.clear()

    patch.setattr(atomic, "fresh_beside", mutant)


file, directory = partial(not_synchronised, stat.S_ISREG), partial(not_synchronised, stat.S_ISDIR)
MUTANTS: dict[str, Callable[[pytest.MonkeyPatch], None]] = {
    "records": partial(file, "/journal"),
    "announcements": lambda patch: patch.setattr(journal_file, "may_be_lost", lambda record: record.mark is Mark.DOING),
    "the plan": partial(file, "/.plan.json.nodeupgrade-new"),
    "manifests": partial(file, ".yaml.nodeupgrade-new"),
    "the drop-in": partial(file, "90-nodeupgrade.conf.nodeupgrade-new"),
    "units": partial(file, ".service.nodeupgrade-new"),
    "exchanged files": partial(file, "/.config.yaml.nodeupgrade-new"),
    "copies of old files": partial(file, ".config.yaml.nodeupgrade-previous.nodeupgrade-new"),
    "state files": partial(file, "cpu_manager_state.nodeupgrade-new"),
    "names of the run": partial(directory, "/run-1"),
    "names of programs": partial(directory, "/usr/bin"),
    "names of manifests": partial(directory, "/manifests"),
    "names of drop-ins": partial(directory, "kubelet.service.d"),
    "names of units": partial(directory, "/systemd/system"),
    "names of state files": partial(directory, "/var/lib/kubelet"),
    "rename first": renamed_before_it_is_synchronised,
}


@pytest.mark.parametrize("mutation", [pytest.param(mutant, id=name) for name, mutant in tried(MUTANTS.items())])
def test_what_is_not_synchronised_is_missed(
    mutation: Callable[[pytest.MonkeyPatch], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    mutation(monkeypatch)

    assert any(_goes_wrong(turns_back=turns_back) for turns_back in (False, True))


def _goes_wrong(*, turns_back: bool) -> bool:
    machine = Machine(turns_back=turns_back)
    wrecks = wrecks_of(machine, machine.upgrade)
    tried = Random(0).sample(list(wrecks.values()), len(wrecks))  # noqa: S311 - found sooner than in time order
    return any(wrongs_after(wreck, turns_back=turns_back) for wreck in tried)
