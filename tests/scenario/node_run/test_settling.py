"""While the new kubelet settles in: damage ends it at once; what would have happened anyway does not.

Damage that the shield prevents is in test_shield.py; here it is lowered where damage has to happen.
"""

import errno
import os
from collections.abc import Callable, Collection
from dataclasses import replace
from typing import NoReturn

import pytest

from nodeupgrade.api.reasons import Reason
from nodeupgrade.api.task.step import Step
from nodeupgrade.api.values import PodUid
from nodeupgrade.cluster.owner_changes import Evidence
from nodeupgrade.errors import StepFailed, Unimplemented
from nodeupgrade.kubelethash import HashValue
from nodeupgrade.node.failpoints.failpoints import When, at
from nodeupgrade.node.journal.journal import Mark, Outcome, parse
from nodeupgrade.node.plan.plan import Limits
from nodeupgrade.node.run.container_watch import LOOK_SECONDS
from nodeupgrade.node.run.report import RunReport
from nodeupgrade.node.runtimes.inventory import ContainerState, Inventory
from nodeupgrade.node.shield.harmful_calls import EXCUSE_SECONDS
from tests.doubles.node import Behaviour, Moment, manifest, pod_json
from tests.doubles.node.containers.records import Troubles
from tests.doubles.node.kubelet import SYNC_SECONDS
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
    it.node.ports = replace(it.node.ports, owner_changes=lambda: Evidence(deleted=tuple(told)))

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
    it = story(shield=False)
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
    it = story(shield=False)
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
    it.node.runtime.troubles.hears_late = EXCUSE_SECONDS / 2
    delete(it, "job", told_after=EXCUSE_SECONDS / 2)
    while_settling(it, lambda: it.node.runtime.end(it.container("nginx"), 1))

    report = it.tell()

    assert (report.outcome, report.restarted) == (Outcome.UPGRADED, 0)
    assert (report.ended, report.changed) == (("default/web/nginx",), ("default/job/work",))


def test_a_runtime_that_never_says_how_a_container_ended_is_not_waited_for_longer() -> None:
    it = story()
    it.node.runtime.troubles.hears_late = 60
    while_settling(it, lambda: it.node.runtime.end(it.container("nginx"), 1))

    report = it.tell()

    assert (report.outcome, report.reason) == (Outcome.ROLLED_BACK, Reason.CONTAINER_RESTARTED)
    assert "default/web/nginx ending: process" in report.message
    assert seconds_until_stopped(it) < SETTLING + EXCUSE_SECONDS + 2 * LOOK_SECONDS


@pytest.mark.parametrize("told_after", [0.5, 60], ids=["told in time", "never told"])
def test_the_report_waits_for_what_the_runtime_has_yet_to_say(told_after: float) -> None:
    """A container that ends after the last look of the run, and before the one that is for the report."""
    it = story()
    it.node.runtime.troubles.hears_late = told_after
    it.node.calls.failpoints[at(Step.VERIFY, When.DONE)] = lambda: it.node.runtime.end(it.container("nginx"), 1)

    report = it.tell()

    assert report.outcome is Outcome.UPGRADED
    assert (report.ended, report.listed)[told_after > EXCUSE_SECONDS] == ("default/web/nginx",)


@pytest.mark.parametrize(
    ("exit_code", "troubles"),
    [(137, Troubles()), (1, Troubles(silent=True)), (1, Troubles(forgotten=True))],
    ids=["killed", "no log", "a log that has lost its beginning"],
)
def test_a_container_of_which_it_is_not_sure_turns_the_run_back(exit_code: int, troubles: Troubles) -> None:
    it = story()
    it.node.runtime.troubles = troubles
    while_settling(it, lambda: it.node.runtime.end(it.container("nginx"), exit_code))

    report = it.tell()

    assert (report.outcome, report.reason) == (Outcome.ROLLED_BACK, Reason.CONTAINER_RESTARTED)
    assert (report.listed, report.ended) == (("default/web/nginx",), ())


def test_however_much_a_runtime_has_logged_before_what_ends_by_itself_is_no_damage() -> None:
    it = story()
    it.node.runtime.troubles.talkative = True
    while_settling(it, lambda: it.node.runtime.end(it.container("nginx"), 1))

    report = it.tell()

    assert (report.outcome, report.restarted, report.ended) == (Outcome.UPGRADED, 0, ("default/web/nginx",))


def test_the_runtimes_log_says_nothing_about_the_time_before_its_restart() -> None:
    it = story()

    def stopped_and_forgotten() -> None:
        it.node.runtime.stop_container(it.container("nginx"))
        it.node.runtime.restart()

    while_settling(it, stopped_and_forgotten)

    assert it.tell().reason is Reason.CONTAINER_RESTARTED


def test_a_pod_that_somebody_deletes_is_no_damage() -> None:
    it = story()
    delete(it, "web", told_after=EXCUSE_SECONDS / 2)

    report = it.tell()

    assert (report.outcome, report.restarted) == (Outcome.UPGRADED, 0)
    assert sorted(report.changed) == ["default/web/log", "default/web/mesh", "default/web/nginx"]
    assert list(map(str, report.owner_changes)) == ["default/web (pod deleted)"]


def test_a_pod_that_ends_without_word_of_its_deletion_turns_the_run_back_in_time() -> None:
    it = story(shield=False)
    delete(it, "web", told_after=60)

    report = it.tell()

    assert (report.outcome, report.reason) == (Outcome.ROLLED_BACK, Reason.CONTAINER_RESTARTED)
    assert seconds_until_stopped(it) < SETTLING + 1 + EXCUSE_SECONDS + 2 * LOOK_SECONDS


def test_after_a_rollback_nothing_is_taken_to_have_ended_by_itself() -> None:
    """The new kubelet stopped it, and the runtime, restarted on the way back, does not remember that."""
    it = story(shield=False)
    it.node.calls.before(START, lambda: it.node.runtime.serve(it.container("work"), HashValue("bad")))

    report = it.tell()

    assert report.outcome is Outcome.ROLLED_BACK
    assert it.node.runtime.asked == set()
    assert (report.listed, report.ended) == (("default/job/work",), ())


def test_a_listing_that_lacks_something_once_proves_nothing() -> None:
    it = story()
    runtime, looks = it.node.runtime, iter(range(10**6))

    def forgetful(name: str, _number: int, _moment: object) -> None:
        hidden = name == "runtime.inventory" and next(looks) == 7
        runtime.troubles.overlooks = {it.container("nginx")} if hidden else set()

    it.node.calls.interrupt = forgetful

    assert it.tell().outcome is Outcome.UPGRADED


def falls_silent(it: Story, seconds: float) -> None:
    """From soon after the start of the new kubelet, and for so long."""
    troubles = it.node.runtime.troubles

    def speak() -> None:
        troubles.hangs = False

    def hang() -> None:
        troubles.hangs = True
        it.node.timeline.after(seconds, speak)

    while_settling(it, hang)


def everything_ends(it: Story) -> None:
    """All processes are killed behind the runtime's back: it will know when it is itself again."""
    for container in it.plan.containers:
        it.node.runtime.end(container.id, 255)


@pytest.mark.parametrize("seconds", [8.0, 80.0])
def test_nothing_is_committed_before_the_runtime_has_shown_everything(seconds: float) -> None:
    it = story()
    falls_silent(it, seconds)
    while_settling(it, lambda: everything_ends(it), SETTLING + seconds / 2)

    report = it.tell()

    assert (report.outcome, report.reason) == (Outcome.ROLLED_BACK, Reason.CONTAINER_RESTARTED)
    assert report.restarted == 4


@pytest.mark.parametrize("seconds", [8.0, 80.0])
def test_control_a_runtime_that_speaks_again_is_waited_for(seconds: float) -> None:
    it = story()
    falls_silent(it, seconds)

    assert (it.tell().outcome, it.nothing_restarted()) == (Outcome.UPGRADED, True)


def test_a_runtime_that_is_back_before_its_cri_is_waited_for() -> None:
    it = story()
    troubles = it.node.runtime.troubles

    def without_cri() -> None:
        troubles.unlisted = Unimplemented("unknown service runtime.v1.RuntimeService")
        it.node.timeline.after(8.0, lambda: setattr(troubles, "unlisted", None))

    while_settling(it, without_cri)

    assert (it.tell().outcome, it.nothing_restarted()) == (Outcome.UPGRADED, True)


def test_a_runtime_that_stays_silent_is_a_failure_in_the_end() -> None:
    it = story(limits=Limits(settle=5.0, runtime_restart=60.0))
    falls_silent(it, 200.0)

    report = it.tell()

    assert (report.outcome, report.reason) == (Outcome.ROLLED_BACK, Reason.RUNTIME_DID_NOT_ANSWER)
    assert it.nothing_restarted()
    assert "has not answered for" in report.message


def silent_at_second_look(it: Story, seconds: float) -> None:
    """The runtime shows damage once, and falls silent before it is asked again."""
    troubles = it.node.runtime.troubles
    damaged = iter(range(10**6))

    def speak() -> None:
        troubles.hangs = False

    def interrupt(name: str, _number: int, _moment: object) -> None:
        ended = it.node.kubelet.process is not None and not it.nothing_restarted()
        if name == "runtime.inventory" and ended and next(damaged) == 1:
            troubles.hangs = True
            it.node.timeline.after(seconds, speak)

    it.node.calls.interrupt = interrupt


@pytest.mark.parametrize(
    ("seconds", "reason"), [(40, Reason.CONTAINER_RESTARTED), (200, Reason.RUNTIME_DID_NOT_ANSWER)]
)
def test_damage_seen_once_is_not_forgotten_when_the_runtime_falls_silent(seconds: float, reason: Reason) -> None:
    it = story(limits=Limits(settle=5.0, runtime_restart=60.0))
    silent_at_second_look(it, seconds)
    while_settling(it, lambda: everything_ends(it))

    report = it.tell()

    assert (report.outcome, report.reason, report.restarted) == (Outcome.ROLLED_BACK, reason, 4)
    assert "default/web/nginx stopped" in report.message


def test_what_lacked_once_is_named_when_the_runtime_stays_silent() -> None:
    it = story(limits=Limits(settle=5.0, runtime_restart=60.0))
    runtime, victim = it.node.runtime, it.container("nginx")
    while_settling(it, lambda: runtime.troubles.overlooks.add(victim))

    def speak() -> None:
        runtime.troubles.hangs = False

    looks = iter(range(10**6))

    def interrupt(name: str, _number: int, _moment: object) -> None:
        if name == "runtime.inventory" and runtime.troubles.overlooks and next(looks) == 1:
            runtime.troubles.hangs = True
            runtime.troubles.overlooks.clear()
            it.node.timeline.after(200, speak)

    it.node.calls.interrupt = interrupt

    report = it.tell()

    assert (report.outcome, report.reason) == (Outcome.ROLLED_BACK, Reason.RUNTIME_DID_NOT_ANSWER)
    assert "default/web/nginx gone" in report.message


def at_the_very_end(it: Story, outcome: Outcome, begin: Callable[[], object]) -> RunReport:
    """Something begins when everything is decided, and the runtime is asked once more for the report."""
    effect = "lower-shield done" if outcome is Outcome.UPGRADED else "confirm-binaries undone"
    if outcome is Outcome.ROLLED_BACK:
        it.node.kubelet.behaviour["v1.33.13"] = Behaviour.EXITS

    def interrupt(name: str, _number: int, moment: Moment) -> None:
        if (name, moment) == (f"journal.append {effect}", Moment.AFTER):
            begin()

    it.node.calls.interrupt = interrupt
    return it.tell()


@pytest.mark.parametrize("outcome", [Outcome.UPGRADED, Outcome.ROLLED_BACK])
@pytest.mark.parametrize("why", ["", "cannot read dockerd's list of containers"])
def test_a_report_that_could_not_look_does_not_say_that_nothing_restarted(outcome: Outcome, why: str) -> None:
    it = story()
    troubles = it.node.runtime.troubles

    def begin() -> None:
        troubles.hangs, troubles.unlisted = not why, StepFailed(why) if why else None

    report = at_the_very_end(it, outcome, begin)

    assert report.outcome is outcome
    assert not report.looked
    assert why in report.message


@pytest.mark.parametrize("outcome", [Outcome.UPGRADED, Outcome.ROLLED_BACK])
def test_whatever_cannot_be_read_at_the_end_keeps_no_run_from_its_report(
    outcome: Outcome, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else the executor would end, and be started again, for ever."""
    it = story(manifests={"etcd.yaml": manifest("etcd", "etcd")})

    def unreadable(*_: object) -> NoReturn:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    def failing(*_: object, **__: object) -> NoReturn:
        raise StepFailed("Input/output error")

    def begin() -> None:
        for name in ("refused", "restarts"):
            monkeypatch.setattr(it.node.shield, name, unreadable)
        monkeypatch.setattr(it.node.services, "status", failing)
        monkeypatch.setattr(it.node.files, "read", failing)

    report = at_the_very_end(it, outcome, begin)

    assert report.outcome is outcome


def completes_while_settling(it: Story, monkeypatch: pytest.MonkeyPatch) -> list[tuple[bool, frozenset[PodUid]]]:
    """Have Job ``work`` complete, and return what each look after that asks the runtime."""
    asked, listed, job = list[tuple[bool, frozenset[PodUid]]](), it.node.runtime.inventory, it.container("work")

    def inventory(*, full: bool = False, of: Collection[PodUid] = (), addresses: bool = False) -> Inventory:
        stored = it.node.runtime.containers.get(job)
        if stored is None or stored.instance.state is ContainerState.EXITED:
            asked.append((full, frozenset(of)))
        return listed(full=full, of=of, addresses=addresses)

    monkeypatch.setattr(it.node.runtime, "inventory", inventory)
    while_settling(it, lambda: it.node.runtime.end(job, 0))
    return asked


def test_once_a_job_has_completed_only_its_pod_is_asked_about(monkeypatch: pytest.MonkeyPatch) -> None:
    """A call for each container and sandbox of a full node takes a tenth of a second, four times a second."""
    it = story(limits=Limits(settle=60.0))
    asked = completes_while_settling(it, monkeypatch)

    report = it.tell()

    assert (report.outcome, report.restarted, report.ended) == (Outcome.UPGRADED, 0, ())
    job = next(c.pod.uid for c in it.plan.containers if c.name == "work")
    assert {pods for _, pods in asked} == {frozenset(), frozenset({job})}
    assert sum(full for full, _ in asked) <= 2, "those that are to be thorough"


def test_jobs_that_complete_while_another_is_asked_about_are_asked_about_as_well(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Without their exit codes they would look like containers that the new kubelet has ended."""
    it = story(shield=False, more=tuple(pod_json(name, name, restart_policy="Never") for name in ("late", "later")))
    listed, late = it.node.runtime.inventory, [it.container("late"), it.container("later")]
    while_settling(it, lambda: it.node.runtime.end(it.container("work"), 0))

    def inventory(*, full: bool = False, of: Collection[PodUid] = (), addresses: bool = False) -> Inventory:
        while of and late:
            it.node.runtime.end(late.pop(), 0)
        return listed(full=full, of=of, addresses=addresses)

    monkeypatch.setattr(it.node.runtime, "inventory", inventory)

    report = it.tell()

    assert (report.outcome, report.restarted, report.ended) == (Outcome.UPGRADED, 0, ())
    assert late == []


def test_a_job_that_is_ended_with_code_0_and_begun_anew_was_restarted() -> None:
    """No shield shows it, and a container that handles SIGTERM looks as if it had completed."""
    it = story(shield=False, more=(pod_json("batch", "main", restart_policy="OnFailure"),))
    victim = it.container("main")
    it.node.runtime.troubles.exits_when_stopped[victim] = 0
    it.node.calls.before(START, lambda: it.node.runtime.serve(victim, HashValue("bad")))

    report = it.tell()

    assert (report.outcome, report.reason) == (Outcome.ROLLED_BACK, Reason.CONTAINER_RESTARTED), report
    assert report.listed == ("default/batch/main",)
