"""Who may read what a runtime locks when it starts may lock it as well, even before the run."""

from dataclasses import replace
from typing import NoReturn

import pytest

from nodeupgrade.api.reasons import Reason
from nodeupgrade.errors import Refused, StepFailed
from nodeupgrade.node.journal.journal import Outcome
from nodeupgrade.node.run import start_preconditions
from nodeupgrade.node.run.start_preconditions import restart_for_locks, start_runtime
from tests.doubles.node import plan_for
from tests.doubles.node.containers.runtime import MAIN_PID
from tests.doubles.node.containers.runtime_restart import DATABASE, PLACES
from tests.scenario.node_run.test_log_files import says
from tests.scenario.node_run.test_lost_pods import RESTART, well_again
from tests.scenario.node_run.test_node_run import Story, story

PATH = f"{PLACES.root}/{DATABASE}"
STRANGER = 4711
UNREADABLE = "cannot read /proc/locks because File too large"
NAMED = f"process {STRANGER} has locked {PATH}, or waits for it"


def with_database() -> Story:
    it = story()
    it.node.disk[PATH] = b"pages"
    it.node.files.locked[PATH] = (MAIN_PID,)
    return it


def lock(it: Story) -> None:
    it.node.files.locked[PATH] = (MAIN_PID, STRANGER)


def test_a_node_on_which_somebody_waits_for_the_runtime_to_end_is_refused() -> None:
    it = with_database()
    plan_for(it.node, "v1.33.13")
    lock(it)

    with pytest.raises(Refused, match=NAMED) as refused:
        plan_for(it.node, "v1.33.13")

    assert refused.value.finding.reason is Reason.RUNTIME_NOT_READY


def test_a_run_for_whose_runtime_somebody_waits_ends_before_the_kubelet_is_stopped() -> None:
    it = with_database()
    lock(it)

    report = it.tell()

    assert NAMED in report.message
    assert "services.stop kubelet.service" not in it.node.calls.effects


def test_no_runtime_is_restarted_for_which_somebody_waits() -> None:
    it = with_database()
    it.node.calls.before("services.stop kubelet.service", lambda: lock(it))

    report = it.tell()

    assert well_again(it, report)
    assert RESTART not in it.node.calls.effects
    assert NAMED in report.message


def test_who_has_the_lock_when_the_runtime_starts_holds_no_way_back() -> None:
    """It waits for a file that another one has taken the place of."""
    it = with_database()
    trouble = it.node.runtime.troubles

    def starts() -> None:
        lock(it)
        trouble.hangs = True
        it.node.calls.before(RESTART, started)

    def started() -> None:
        trouble.hangs = STRANGER in it.node.files.locked.get(PATH, ())

    it.node.calls.before(RESTART, starts)

    report = it.tell()

    assert well_again(it, report)
    assert report.outcome is Outcome.ROLLED_BACK
    assert NAMED in report.message
    assert f"{NAMED}: {it.plan.runtime_unit} was restarted with copies in their places" in says(it)
    effects = it.node.calls.effects
    stop, copy = (effects.index(each) for each in (f"services.stop {it.plan.runtime_unit}", f"files.copy {PATH}"))
    assert stop < copy, "once it has the lock, the runtime writes"
    assert effects[copy + 1] == RESTART, "one that its socket has started meanwhile waits for what lay there"


def unreadable(_paths: object, **_given: object) -> NoReturn:
    raise StepFailed(UNREADABLE)


def test_a_list_of_locks_that_somebody_has_blown_up_keeps_no_runtime_from_its_start(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    it = with_database()

    monkeypatch.setattr(it.node.files, "lockers", unreadable)
    it.node.runtime.stopped = True

    start_runtime(it.node.ports, it.plan)

    assert not it.node.runtime.stopped


def test_nor_does_it_hide_who_has_the_lock_once_a_runtime_has_had_its_time(monkeypatch: pytest.MonkeyPatch) -> None:
    it = with_database()
    lock(it)
    monkeypatch.setattr(it.node.files, "lockers", unreadable)
    it.node.runtime.restart()

    start_runtime(it.node.ports, it.plan)
    assert it.node.files.locked, "it may be about to answer"

    it.node.ports.clock.sleep(it.plan.limits.runtime_restart)
    with pytest.raises(StepFailed, match=f"{UNREADABLE}: .* was restarted with copies in their places") as restarted:
        start_runtime(it.node.ports, it.plan)

    assert restarted.value.reason is Reason.RUNTIME_DID_NOT_ANSWER
    assert not it.node.files.locked


def test_no_runtime_is_stopped_that_would_not_come_back(monkeypatch: pytest.MonkeyPatch) -> None:
    it = with_database()
    lock(it)

    def changed(*_given: object) -> NoReturn:
        raise StepFailed("its configuration was changed")

    monkeypatch.setattr(start_preconditions, "require_runtime_comes_back", changed)
    with pytest.raises(StepFailed, match="its configuration was changed"):
        restart_for_locks(it.node.ports, it.plan)

    assert not it.node.calls.effects


def test_where_another_process_writes_the_runtime_waits_for_it() -> None:
    """As podman may to the storage of CRI-O: with a copy of the lock, both would write at once."""
    it = with_database()
    lock(it)
    it.node.files.locked_for_writing.add(PATH)

    restart_for_locks(it.node.ports, replace(it.plan, runtime_root=PLACES.root))

    assert not it.node.calls.effects


def test_a_runtime_that_nobody_keeps_waiting_is_left_alone() -> None:
    it = with_database()
    restart_for_locks(it.node.ports, replace(it.plan, runtime_root=PLACES.root))
    lock(it)
    restart_for_locks(it.node.ports, replace(it.plan, runtime_root=None))

    assert not it.node.calls.effects
