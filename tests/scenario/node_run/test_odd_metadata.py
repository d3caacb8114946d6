"""Stored metadata that somebody changed while a run went on: it costs that container at most, never the node."""

import pytest

from nodeupgrade.api.reasons import Reason
from nodeupgrade.api.task.step import Step
from nodeupgrade.kubelethash import HashValue
from nodeupgrade.node.journal.journal import Mark, Outcome, parse
from nodeupgrade.node.plan.plan import Limits
from nodeupgrade.node.runtimes.inventory import StoredHashes
from nodeupgrade.node.task_status.run_status import run_status
from tests.doubles.node import Behaviour
from tests.scenario.node_run.test_node_run import START, Story, story
from tests.scenario.node_run.test_owner_changes import undone
from tests.scenario.node_run.test_shield import journal_of

NGINX = "default/web/nginx"
HOLD = Limits(settle=5.0, shield_hold=120.0)


def odd(*, shield: bool = True, **changes: object) -> Story:
    """A rollback that finds the metadata of one container changed."""
    it = story(limits=HOLD, shield=shield)
    it.node.kubelet.behaviour["v1.33.13"] = Behaviour.SICKENS
    victim = it.node.runtime.containers[it.container("nginx")]

    def change() -> None:
        for name, value in changes.items():
            setattr(victim, name, value)

    it.node.calls.before(START, change)
    return it


def garbled(*, shield: bool = True) -> Story:
    it = odd(shield=shield)
    it.node.calls.before(START, lambda: it.node.runtime.troubles.garbled.add(it.container("nginx")))
    return it


@pytest.mark.parametrize("shield", [True, False], ids=["shield", "no shield"])
def test_a_container_whose_hash_cannot_be_restored_is_named_and_the_others_come_back(shield: bool) -> None:
    it = garbled(shield=shield)

    report = it.tell()

    assert (report.outcome, report.reason) == (Outcome.ROLLED_BACK, Reason.VERIFICATION_FAILED)
    assert it.kubelet == "v1.30.14"
    assert it.node.kubelet.replaced == [NGINX]
    assert (report.restarted, report.listed) == (1, (NGINX,))
    assert (
        f"their stored hash could not be restored, since another process changed their metadata, so the old "
        f"kubelet may restart them: {NGINX}" == undone(it)
    )
    details = {step.name: step.detail for step in run_status("run-1", it.plan, journal_of(it)).steps}
    assert NGINX in str(details[Step.REWRITE_HASHES])


def test_it_waits_behind_the_shield_for_as_long_as_that_is_held() -> None:
    it = garbled()

    report = it.tell()

    held, lowered = (journal_of(it).first(Step.ARM_DEAD_MAN, mark) for mark in (Mark.HELD, Mark.UNDONE))
    assert held is not None
    assert lowered is not None
    assert f"kubelet v1.30.14 runs again and wants to stop {NGINX}" in str(held.error)
    assert lowered.monotonic - held.monotonic >= HOLD.shield_hold - 1
    assert f"the shield was lowered while kubelet v1.30.14 wanted to stop {NGINX}" in report.message


def test_the_hash_is_restored_within_what_another_process_wrote_and_that_stays() -> None:
    it = odd(other="written by somebody else")

    assert it.tell().outcome is Outcome.ROLLED_BACK

    assert it.node.runtime.containers[it.container("nginx")].other == "written by somebody else"
    assert it.nothing_restarted()
    assert undone(it) is None


def test_a_hash_that_is_neither_kubelets_is_left_alone() -> None:
    theirs = StoredHashes(container=HashValue("bad"))
    it = odd(other="written by somebody else", hashes=theirs)

    assert it.tell().outcome is Outcome.ROLLED_BACK

    assert it.node.kubelet.replaced == [NGINX]
    assert NGINX in str(undone(it))


def test_metadata_that_is_being_written_is_waited_for() -> None:
    it = garbled()
    troubles = it.node.runtime.troubles
    it.node.calls.before(
        "journal.append rewrite-hashes undoing", lambda: it.node.timeline.after(1, troubles.garbled.clear)
    )

    assert it.tell().outcome is Outcome.ROLLED_BACK

    assert it.nothing_restarted()
    assert undone(it) is None


def test_a_container_that_the_new_kubelet_created_in_a_planned_pod_is_named_as_well() -> None:
    it = odd()
    ends = it.container("nginx")
    it.node.calls.before(START, lambda: it.node.timeline.after(0.3, lambda: it.node.runtime.end(ends, 0)))

    def garble() -> None:
        created = [c.id for c in it.node.inventory().running() if c.name == "nginx"]
        assert created != [ends]
        it.node.runtime.troubles.garbled.update(created)

    it.node.calls.before("journal.append rewrite-hashes undoing", garble)

    assert it.tell().outcome is Outcome.ROLLED_BACK

    assert it.node.kubelet.replaced == [NGINX]
    assert NGINX in str(undone(it))


def test_metadata_that_becomes_odd_before_it_is_rewritten_turns_the_run_back_unharmed() -> None:
    it = story()
    it.node.calls.before(
        "journal.append confirm-inventory done", lambda: it.node.runtime.troubles.garbled.add(it.container("nginx"))
    )

    assert it.tell().outcome is Outcome.ROLLED_BACK

    assert it.nothing_restarted()
    assert parse(it.node.journal.data)[0].first(Step.REWRITE_HASHES, Mark.DOING) is None
