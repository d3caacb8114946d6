"""While the new kubelet settles in: damage ends it at once; what would have happened anyway does not."""

from collections.abc import Callable
from dataclasses import replace

import pytest

from nodeupgrade.domain.node.failpoints import When, at
from nodeupgrade.domain.node.journal import Mark, Outcome, Step, parse
from nodeupgrade.domain.reasons import Reason
from nodeupgrade.domain.values import PodUid
from nodeupgrade.engine.steps.watch import LOOK_SECONDS, WORD_SECONDS
from nodeupgrade.kubelethash import HashValue
from nodeupgrade.simulation.node import Behaviour
from nodeupgrade.simulation.node.kubelet import SYNC_SECONDS
from tests.scenario.node_run.test_node_run import START, Story, story

SETTLING = 1.5


def while_settling(it: Story, action: Callable[[], object], seconds: float = SETTLING) -> None:
    def act() -> None:
        action()

    it.node.calls.before(START, lambda: it.node.timeline.after(seconds, act))


def delete(it: Story, name: str, told_after: float) -> None:
    """Delete a pod in the API; the kubelet hears at once, the agent later."""
    kubelet, told = it.node.kubelet, set[PodUid]()
    gone = next(pod for pod in kubelet.pods if pod.ref.name == name)
    it.node.ports = replace(it.node.ports, deleted_pods=lambda: frozenset(told))

    def act() -> None:
        kubelet.pods.remove(gone)
        it.node.timeline.after(told_after, lambda: told.add(gone.ref.uid))

    while_settling(it, act)


def seconds_until_stopped(it: Story) -> float:
    """From the start of the new kubelet to the order to stop it again."""
    journal = parse(it.node.journal.data)[0]
    start, undo = journal.first(Step.START_KUBELET, Mark.DOING), journal.first(Step.START_KUBELET, Mark.UNDOING)
    assert start is not None
    assert undo is not None
    return undo.monotonic - start.monotonic


def test_a_replaced_container_has_the_kubelet_stopped_at_once_with_its_name_hash_and_words() -> None:
    it = story()
    victim = it.container("nginx")
    it.node.calls.before(START, lambda: it.node.runtime.serve(victim, HashValue("bad")))

    report = it.tell()

    assert (report.outcome, report.reason) == (Outcome.ROLLED_BACK, Reason.CONTAINER_RESTARTED)
    assert seconds_until_stopped(it) < SYNC_SECONDS + 2 * LOOK_SECONDS
    planned = next(c for c in it.plan.containers if c.id == victim)
    for told in ("default/web/nginx restarted", str(planned.after.container), "definition changed, will be restarted"):
        assert told in report.message
    assert report.listed == ("default/web/nginx",)


def test_a_kubelet_that_kills_before_it_is_healthy_is_not_waited_for() -> None:
    it = story()
    it.node.kubelet.behaviour["v1.33.13"] = Behaviour.NEVER_HEALTHY
    it.node.calls.before(START, lambda: it.node.runtime.serve(it.container("nginx"), HashValue("bad")))

    report = it.tell()

    assert report.reason is Reason.CONTAINER_RESTARTED
    assert seconds_until_stopped(it) < 1


@pytest.mark.parametrize("exit_code", [0, 1, 143])
def test_a_container_that_ends_by_itself_ends_nothing_else(exit_code: int) -> None:
    it = story()
    while_settling(it, lambda: it.node.runtime.end(it.container("nginx"), exit_code))

    report = it.tell()

    assert (report.outcome, report.restarted, report.listed) == (Outcome.UPGRADED, 0, ())
    assert report.ended == ("default/web/nginx",)
    assert it.kubelet == "v1.33.13"


def test_a_runtime_that_has_yet_to_say_how_a_container_ended_is_heard() -> None:
    """Beside a pod that somebody deleted, of which there is no word yet either."""
    it = story()
    it.node.runtime.troubles.hears_late = WORD_SECONDS / 2
    delete(it, "job", told_after=WORD_SECONDS / 2)
    while_settling(it, lambda: it.node.runtime.end(it.container("nginx"), 1))

    report = it.tell()

    assert (report.outcome, report.restarted) == (Outcome.UPGRADED, 0)
    assert {"default/web/nginx"} < set(report.ended)


def test_a_runtime_that_never_says_how_a_container_ended_is_not_waited_for_longer() -> None:
    it = story()
    it.node.runtime.troubles.hears_late = 60
    while_settling(it, lambda: it.node.runtime.end(it.container("nginx"), 1))

    report = it.tell()

    assert (report.outcome, report.reason) == (Outcome.ROLLED_BACK, Reason.CONTAINER_RESTARTED)
    assert "default/web/nginx ending: process" in report.message
    assert seconds_until_stopped(it) < SETTLING + WORD_SECONDS + 2 * LOOK_SECONDS


@pytest.mark.parametrize("told_after", [0.5, 60], ids=["told in time", "never told"])
def test_the_report_waits_for_what_the_runtime_has_yet_to_say(told_after: float) -> None:
    """A container that ends after the last look of the run, and before the one that is for the report."""
    it = story()
    it.node.runtime.troubles.hears_late = told_after
    it.node.calls.failpoints[at(Step.VERIFY, When.DONE)] = lambda: it.node.runtime.end(it.container("nginx"), 1)

    report = it.tell()

    assert report.outcome is Outcome.UPGRADED
    assert (report.ended, report.listed)[told_after > WORD_SECONDS] == ("default/web/nginx",)


@pytest.mark.parametrize(("exit_code", "silent"), [(137, False), (1, True)], ids=["killed", "no log"])
def test_a_container_of_which_it_is_not_sure_turns_the_run_back(exit_code: int, silent: bool) -> None:
    it = story()
    it.node.runtime.troubles.silent = silent
    while_settling(it, lambda: it.node.runtime.end(it.container("nginx"), exit_code))

    report = it.tell()

    assert (report.outcome, report.reason) == (Outcome.ROLLED_BACK, Reason.CONTAINER_RESTARTED)
    assert (report.listed, report.ended) == (("default/web/nginx",), ())


def test_the_runtimes_log_says_nothing_about_the_time_before_its_restart() -> None:
    it = story()

    def stopped_and_forgotten() -> None:
        it.node.runtime.stop_container(it.container("nginx"))
        it.node.runtime.restart()

    while_settling(it, stopped_and_forgotten)

    assert it.tell().reason is Reason.CONTAINER_RESTARTED


def test_a_pod_that_somebody_deletes_is_no_damage() -> None:
    it = story()
    delete(it, "web", told_after=WORD_SECONDS / 2)

    report = it.tell()

    assert (report.outcome, report.restarted) == (Outcome.UPGRADED, 0)
    assert sorted(report.ended) == ["default/web/log", "default/web/mesh", "default/web/nginx"]


def test_a_pod_that_ends_without_word_of_its_deletion_turns_the_run_back_in_time() -> None:
    it = story()
    delete(it, "web", told_after=60)

    report = it.tell()

    assert (report.outcome, report.reason) == (Outcome.ROLLED_BACK, Reason.CONTAINER_RESTARTED)
    assert seconds_until_stopped(it) < SETTLING + 1 + WORD_SECONDS + 2 * LOOK_SECONDS


def test_after_a_rollback_nothing_is_taken_to_have_ended_by_itself() -> None:
    """The new kubelet stopped it, and the runtime, restarted on the way back, does not remember that."""
    it = story()
    it.node.calls.before(START, lambda: it.node.runtime.serve(it.container("work"), HashValue("bad")))

    report = it.tell()

    assert report.outcome is Outcome.ROLLED_BACK
    assert it.node.runtime.asked == set()
    assert (report.listed, report.ended) == (("default/job/work",), ())


def test_a_listing_that_lacks_something_once_proves_nothing() -> None:
    it = story()
    runtime, looks = it.node.runtime, iter(range(10**6))

    def forgetful(name: str, _number: int, _moment: object) -> None:
        hidden = name == "runtime.inventory" and next(looks) == 6
        runtime.troubles.overlooks = {it.container("nginx")} if hidden else set()

    it.node.calls.interrupt = forgetful

    assert it.tell().outcome is Outcome.UPGRADED
