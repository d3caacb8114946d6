"""Somebody exchanges a kubelet program while a run goes on: nothing that was not planned for is ever put in place."""

from hashlib import sha256
from pathlib import PurePosixPath

import pytest

from nodeupgrade.api.reasons import Reason
from nodeupgrade.api.task.step import Step
from nodeupgrade.api.values import Digest
from nodeupgrade.errors import StepFailed
from nodeupgrade.node.host.packages.dpkg_database import STATUS
from nodeupgrade.node.journal.journal import Mark, Outcome
from nodeupgrade.node.names_beside import backup_path, staged_path
from nodeupgrade.node.run import start_preconditions
from nodeupgrade.node.run.steps import kubelet
from tests.crash.harness import CONFIG, LIMITS_DROP_IN, NEW, OLD, PACKAGES_HELD, READS, World, back, forward, wrongs
from tests.doubles.node import Moment
from tests.doubles.node.calls import Interrupt
from tests.doubles.node.kubelet import PROGRAM, program
from tests.doubles.node.planning import BACKUP, STAGED
from tests.doubles.node.storage.files import SimulatedFiles

STRANGER = program("v1.31.1")
SWAP = f"files.replace {PROGRAM}"
HOLD, UNHOLD = "packages.select kubelet hold", "packages.select kubelet install"
EDITED = b"kind: KubeletConfiguration\nmaxPods: 3\n"


def tampered(after: World, path: str, number: int, content: bytes = STRANGER) -> World:
    def interrupt(_name: str, at: int, moment: Moment) -> None:
        if (at, moment) == (number, Moment.BEFORE):
            after.node.disk[path] = content

    strike: Interrupt = interrupt
    return after.run(strike)


@pytest.mark.parametrize("path", [STAGED, PROGRAM])
def test_another_program_before_the_swap_turns_the_run_back(path: str) -> None:
    """The old one is put back as it was planned for, unless its place was taken before there was a backup of it."""
    effects = forward().run().effects
    wrong = {}
    for number in range(effects.index(SWAP)):
        after = tampered(forward(), path, number)
        report = after.report
        found = [] if report and report.reason is Reason.DIGEST_MISMATCH else [f"the report is {report}"]
        found += [] if report and report.outcome is Outcome.ROLLED_BACK else ["it is not rolled back"]
        theirs = path == PROGRAM and number <= effects.index(f"files.copy {BACKUP}")
        found += [w for w in wrongs(after, restarts_allowed=False) if not (theirs and w == f"{PROGRAM} differs")]
        if found:
            wrong[f"{number} {effects[number]}"] = found

    assert wrong == {}


def test_a_program_that_somebody_put_there_since_the_swap_is_not_replaced_without_a_word() -> None:
    """As a package upgrade does. Nobody sees what comes between the look and the replacement."""
    effects, digest = back().run().effects, sha256(STRANGER).hexdigest()
    away = effects.index("journal.append swap-binary undoing")
    moments = [*range(effects.index("services.start kubelet.service") + 1, away)]
    moments += range(away + 2, effects.index("journal.append stop-kubelet undoing") + 1)
    silent = []
    for number in moments:
        after = tampered(back(), PROGRAM, number)
        records = after.node.journal.load().records
        told = [r.error for r in records if r.mark is Mark.UNDONE and r.error and digest in r.error]
        found = wrongs(after, restarts_allowed=False)
        replaced = f"what was put at {PROGRAM} during the run (SHA-256 {digest}) was replaced by kubelet {OLD}"
        if found or told != [replaced]:
            silent.append((number, effects[number], told, found))

    assert silent == []


def test_a_program_that_cannot_be_read_is_replaced_all_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    """The disk fails where somebody has put it; the backup is elsewhere."""
    digest = SimulatedFiles.digest

    def unreadable(files: SimulatedFiles, path: PurePosixPath) -> Digest | None:
        if path == PurePosixPath(PROGRAM) and files.read(path) == STRANGER:
            raise StepFailed(f"cannot read {path}")
        return digest(files, path)

    monkeypatch.setattr(SimulatedFiles, "digest", unreadable)
    for moment in ("journal.append swap-binary undoing", "journal.append stop-kubelet undoing"):
        after = tampered(back(), PROGRAM, back().run().effects.index(moment))

        assert wrongs(after, restarts_allowed=False) == []


def test_a_backup_that_somebody_changes_before_the_file_is_exchanged_is_made_again() -> None:
    backup, effects = backup_path(CONFIG), back().run().effects
    wrong = {}
    for number in range(effects.index(f"files.copy {backup}") + 1, effects.index(f"files.copy {CONFIG}")):
        after = tampered(back(), backup, number, EDITED)
        if found := wrongs(after, restarts_allowed=False):
            wrong[f"{number} {effects[number]}"] = found

    assert wrong == {}


@pytest.mark.parametrize("path", [CONFIG, staged_path(CONFIG)], ids=["the file", "the new file"])
def test_a_file_that_somebody_edits_before_it_is_exchanged_turns_the_run_back(path: str) -> None:
    """What somebody wrote to the file stays, for the old kubelet too; the new one never sees it."""
    effects = forward().run().effects
    wrong = {}
    for number in range(effects.index(f"files.copy {CONFIG}")):
        world = forward()
        world.node.kubelet.reads = {NEW: READS[NEW]}
        after = tampered(world, path, number, EDITED)
        report = after.report
        found = [] if report and report.reason is Reason.DIGEST_MISMATCH else [f"the report is {report}"]
        found += [] if report and report.outcome is Outcome.ROLLED_BACK else ["it is not rolled back"]
        theirs = {f"{CONFIG} differs"} if path == CONFIG else set()
        if (differing := set(wrongs(after, restarts_allowed=False))) != theirs:
            found.append(f"{differing}")
        if found:
            wrong[f"{number} {effects[number]}"] = found

    assert wrong == {}


def test_a_file_that_somebody_edits_after_the_exchange_is_left_to_them() -> None:
    """The way back puts the other files back, and says which one it left."""
    effects = back().run().effects
    number = effects.index("services.start kubelet.service")
    world = back()
    world.node.kubelet.reads = {}
    after = tampered(world, CONFIG, number, EDITED)

    assert after.node.disk[CONFIG] == EDITED
    assert LIMITS_DROP_IN not in after.node.disk
    assert after.report is not None
    assert after.report.outcome is Outcome.ROLLED_BACK
    undone = [r.error for r in after.node.journal.load().records if (r.step, r.mark) == (Step.SWAP_FILES, Mark.UNDONE)]
    assert undone == [f"not restored, since changed during the run: {CONFIG}"]


@pytest.mark.parametrize("selection", [b"deinstall", b"install", b"purge"])
def test_what_somebody_wants_of_the_package_meanwhile_is_left_to_them(selection: bytes) -> None:
    """At every moment from our hold on until it would be taken back: an upgrade keeps it, a rollback says so."""
    theirs = PACKAGES_HELD.replace(b"kubelet\nStatus: hold", b"kubelet\nStatus: " + selection)
    effects = back().run().effects
    wrong = {}
    for number in range(effects.index(HOLD) + 1, effects.index(UNHOLD)):
        after = tampered(back(), str(STATUS), number, theirs)
        records = after.node.journal.load().records
        said = [r.error for r in records if (r.step, r.mark) == (Step.HOLD_PACKAGE, Mark.UNDONE)]
        expected = None if selection == b"install" else f"was set to {selection.decode()} during the run"
        found = [] if after.node.disk[str(STATUS)] == theirs else ["it was overwritten"]
        found += [] if (said == [None] if expected is None else expected in str(said)) else [f"it says {said}"]
        found += [w for w in wrongs(after, restarts_allowed=False) if w != f"{STATUS} differs"]
        if found:
            wrong[f"{number} {effects[number]}"] = found

    assert wrong == {}


def test_a_package_that_is_held_already_stays_held_after_a_rollback() -> None:
    """Somebody did so between the plan and the run; dpkg is not run at all."""
    after = tampered(back(), str(STATUS), 0, PACKAGES_HELD)

    assert wrongs(after, restarts_allowed=False) == [f"{STATUS} differs"]
    assert after.node.disk[str(STATUS)] == PACKAGES_HELD
    assert [name for name in after.effects if name.startswith("packages.")] == []


def test_it_is_the_look_before_the_swap_that_helps(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without it, and without the one before the start, the stranger runs until the API server shows its version."""
    monkeypatch.setattr(kubelet, "require_digest", lambda *_: None)
    monkeypatch.setattr(start_preconditions, "require_new_program", lambda *_: None)

    after = tampered(forward(), STAGED, forward().run().effects.index(SWAP))

    assert after.report is not None
    assert after.report.reason is Reason.KUBELET_NOT_SHOWN
    assert "the API server shows v1.31.1" in after.report.message
