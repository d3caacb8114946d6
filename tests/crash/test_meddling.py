"""Somebody else changes a path in mid-run: a run ends as OLD or NEW, or says what has to be put right, and then does.

Every path that a run touches, in every form that a disk knows, each time before it is touched. Which paths these are is
found by running: also those that systemd, the runtime and the kubelet read.
"""

import re
from collections.abc import Callable, Iterator
from fnmatch import fnmatch
from functools import cache
from pathlib import PurePath
from types import ModuleType

import pytest

from nodeupgrade.api.task.step import Step
from nodeupgrade.node.failpoints.failpoints import When, at
from nodeupgrade.node.host.packages.dpkg_database import PROGRAM as DPKG_PROGRAM
from nodeupgrade.node.host.packages.dpkg_database import STATUS
from nodeupgrade.node.journal.run_store import JOURNAL
from nodeupgrade.node.names_beside import backup_path
from nodeupgrade.node.rescue import script
from nodeupgrade.node.run import file_exchange, restart_tuning, start_preconditions
from tests.crash.harness import CONFIG, LIMITS_DROP_IN
from tests.crash.machine import RUNS
from tests.crash.meddling import DIRECTORY, FORMS, READ_ONLY, Case, Meddled, case_at, cases
from tests.doubles.node.containers.pods import MANIFESTS
from tests.doubles.node.containers.runtime_restart import RUNTIME_CONFIG, RUNTIME_PROGRAM, RUNTIME_UNIT, TUNED_CONFIG
from tests.doubles.node.kubelet import PROGRAM, STATE
from tests.doubles.node.planning import BACKUP
from tests.doubles.node.services import FENCE_DROP_IN, FLAG, KUBELET_UNIT, UNIT_DIRECTORY
from tests.enumeration import tried

ARGUMENTS = "/etc/systemd/system/kubelet.service.d/90-nodeupgrade.conf"
MANIFEST = f"{MANIFESTS}/etcd.yaml"
RECORDS = str(RUNS / "run-1" / JOURNAL)
WRITTEN_IN_PLACE = frozenset({"emptied", "garbage in place", "unreadable"})
SAME_CONTENT = frozenset({"a link to it", READ_ONLY})
NEEDS_A_PERSON = (
    ("*", {READ_ONLY}, "what the run has put there cannot be taken back"),
    (BACKUP, FORMS, "it is the only copy of the old program, while the new one is in its place"),
    (PROGRAM, WRITTEN_IN_PLACE, "once put back, it is its own backup, by two names"),
    (backup_path(CONFIG), FORMS, "it is the only copy of the old file, while the new one is in its place"),
    (CONFIG, FORMS, "what somebody wrote there is left to them, and a kubelet may not start with it"),
    (STATE, FORMS, "the old kubelet would not start with it either: what was there before its stop is unknown"),
    (MANIFEST, {"a link to itself", "unreadable", "huge"}, "a kubelet would end the static pod, be it ours or not"),
    (f"{UNIT_DIRECTORY}/{KUBELET_UNIT}", FORMS, "systemd starts no kubelet without it"),
    (f"{UNIT_DIRECTORY}/{RUNTIME_UNIT}", FORMS, "a runtime that is restarted would come back otherwise, or not at all"),
    (RUNTIME_PROGRAM, FORMS, "a runtime that is restarted would come back otherwise, or not at all"),
    (RECORDS, {*WRITTEN_IN_PLACE, "a directory"}, "nothing else tells an executor that is started what was done"),
    (RUNTIME_CONFIG, FORMS, "a runtime that is restarted would come back otherwise, or not at all"),
)
"""What nothing on the node can make again, or nobody but a person may decide."""
UNRECORDED = tuple(
    f"the executor died: {why}"
    for why in (
        "exit code 3",
        "StepFailed: the end of the run cannot be recorded",
        "StepFailed: cannot write the journal",  # the commit
    )
)
"""Started again, it goes on once its records can be written."""
OWN_LEFTOVER = re.compile(r"(nodeupgrade[^/]*|/\.kubelet\.staged) differs$")


def is_left_out(case: Case) -> bool:
    """Nobody makes a file with the temporary name of another; a directory in memory does not become read-only.

    What is a flag to the simulated systemd may only vanish.
    """
    return (
        case.path.endswith(".nodeupgrade-new")
        or (case.form == READ_ONLY and case.path.startswith("/run/"))
        or (case.form != "removed" and case.path in {FLAG, FENCE_DROP_IN})
    )


@cache
def all_cases() -> tuple[Case, ...]:
    back = [case for case in cases(turns_back=True) if not is_left_out(case)]
    forward = [case for case in cases(turns_back=False) if not is_left_out(case)]
    fork = next(case.moment for case in forward if case.name == at(Step.VERIFY, When.ANNOUNCED))
    return (*back, *(case for case in forward if case.moment >= fork))


def wrong_with(case: Case, node: Meddled) -> Iterator[str]:
    """Yield what is wrong at the end of a run, and what it should have said."""
    rows = [why for path, forms, why in NEEDS_A_PERSON if fnmatch(case.path, path) and case.form in forms]
    for wrong in node.wrongs():
        theirs = case.path in wrong or "/opt/moved/" in wrong
        # By two names. Of a program that runs, a kernel lets nobody write either.
        theirs = theirs or (case.path == BACKUP and case.form in WRITTEN_IN_PLACE and wrong == f"{PROGRAM} differs")
        static_pod = case.path == MANIFEST and case.form not in SAME_CONTENT and "etcd" in wrong
        leftover = OWN_LEFTOVER.search(wrong) and ("nodeupgrade" in case.path or case.form == READ_ONLY)
        held = case.path in {str(DPKG_PROGRAM), str(STATUS)} and wrong == f"{STATUS} differs"
        needs = rows and wrong.startswith(UNRECORDED)
        if not (theirs or static_pod or leftover or held or needs):
            yield wrong
    if (said := node.needed) is not None:
        place = PurePath(case.path).parent if case.form == READ_ONLY else case.path
        if not rows or (case.form == READ_ONLY and node.in_vain):
            yield f"a person had to put it right: {said}"
        elif str(place) not in said and PurePath(case.path).name not in said:
            yield f"it is not said what has to be put right: {said}"


BACK_TO_OLD = at(Step.START_KUBELET, When.UNDONE)
EXAMPLES = {
    "the program is a directory": (PROGRAM, DIRECTORY, BACK_TO_OLD),
    "the program is a directory once it was put back": (PROGRAM, DIRECTORY, at(Step.SWAP_BINARY, When.UNDONE)),
    "the program is a link to a stranger": (PROGRAM, "a link to it", BACK_TO_OLD),
    "the backup is replaced": (BACKUP, "replaced", at(Step.CONFIRM_BINARIES, When.DONE)),
    "a file is a directory": (CONFIG, DIRECTORY, BACK_TO_OLD),
    "a new file is a directory": (LIMITS_DROP_IN, DIRECTORY, BACK_TO_OLD),
    "a new file is a link to itself": (LIMITS_DROP_IN, "a link to itself", BACK_TO_OLD),
    "a new file cannot be read": (LIMITS_DROP_IN, "unreadable", BACK_TO_OLD),
    "the arguments are a directory": (ARGUMENTS, DIRECTORY, BACK_TO_OLD),
    "the arguments cannot be read": (ARGUMENTS, "unreadable", BACK_TO_OLD),
    "a manifest is moved and linked": (MANIFEST, "a link to it", at(Step.PIN_STATIC_PODS, When.DONE)),
    "a state file is a directory before it is saved": (STATE, DIRECTORY, at(Step.CONFIRM_INVENTORY, When.DONE)),
    "a state file is a directory": (STATE, DIRECTORY, BACK_TO_OLD),
    "the rescue script is a directory": (str(script.SCRIPT), DIRECTORY, at(Step.VERIFY, When.ANNOUNCED)),
    "the runtime's tuning is garbage": (TUNED_CONFIG, "garbage", at(Step.REWRITE_HASHES, When.DONE)),
}
"""What once kept a node without a kubelet, or a run from its end, until a person came."""


def wrong_with_example(which: str) -> list[str]:
    node, case = Meddled(turns_back=True), case_at(*EXAMPLES[which])
    assert node.meddle(case)
    return [*(wrong for wrong in node.wrongs() if case.path not in wrong), *([node.needed] if node.needed else [])]


@pytest.mark.parametrize("which", EXAMPLES)
def test_nobody_is_needed(which: str) -> None:
    assert wrong_with_example(which) == []


def nothing(*_: object) -> None:
    pass


@pytest.mark.parametrize(
    ("module", "name", "mutant", "which"),
    [
        (file_exchange, "set_aside", nothing, "a file is a directory"),
        (file_exchange, "set_aside", nothing, "the arguments are a directory"),
        (file_exchange, "set_aside", nothing, "a manifest is moved and linked"),
        (start_preconditions, "stranger", nothing, "the program is a directory once it was put back"),
        (restart_tuning, "_is_as_written", lambda *_: True, "the runtime's tuning is garbage"),
    ],
)
def test_mutant_is_caught(
    module: ModuleType, name: str, mutant: Callable[..., object], which: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, name, mutant)

    assert wrong_with_example(which) != []


def test_a_journal_that_cannot_be_read_at_the_end_keeps_nothing_from_being_cleaned_up() -> None:
    node = Meddled(turns_back=True)

    assert node.meddle(case_at(RECORDS, "unreadable", at(Step.STOP_KUBELET, When.UNDONE)))

    assert {why for why in node.died if "exit code" not in why} == set()


def test_whatever_somebody_changes_a_run_ends_as_old_or_new(capsys: pytest.CaptureFixture[str]) -> None:
    wrong, tries = {}, 0
    for case in tried(all_cases(), 251):
        node = Meddled(turns_back=case.turns_back)
        if node.meddle(case):
            tries += 1
            if found := [*wrong_with(case, node)]:
                wrong[str(case)] = found

    with capsys.disabled():
        print(f" {tries} of {len(all_cases())} changes", end=" ")
    assert wrong == {}
