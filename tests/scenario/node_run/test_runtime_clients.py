"""Containers that use the runtime's socket themselves, when the runtime is restarted."""

from collections.abc import Callable
from dataclasses import replace
from functools import partial

import pytest

from nodeupgrade.api.reasons import Reason
from nodeupgrade.api.task.status import TaskPhase, TaskStatus
from nodeupgrade.api.task.step import Step
from nodeupgrade.errors import StepFailed
from nodeupgrade.kubelethash import HashValue
from nodeupgrade.node.failpoints.failpoints import KUBELET_STARTED, RUNTIME_RESTARTED, When, at
from nodeupgrade.node.journal.journal import Mark, Outcome, parse
from nodeupgrade.node.plan.plan import RunPlan
from nodeupgrade.node.run.report import RunReport
from nodeupgrade.node.run.steps.runtime import STARTS
from nodeupgrade.node.runtimes.description import RuntimeKind
from nodeupgrade.node.shield.harmful_calls import EXCUSE_SECONDS
from nodeupgrade.node.task_status.run_status import run_status
from tests.doubles.node import Crash, Moment, plan_for, pod_json
from tests.doubles.node.containers.runtime_restart import REMEMBERING, STOPPING
from tests.scenario.node_run.test_node_run import LIMITS, START, Story, story

FOLLOWER = "default/web/nginx"


def _die() -> None:
    raise Crash


def _fail() -> None:
    raise StepFailed("on request")


def following(exit_code: int | None = 1, name: str = "nginx", prepare: Callable[[Story], None] | None = None) -> Story:
    """A story in which a container is connected to the runtime, and ends so when that is restarted."""
    it = story()
    it.node.runtime.troubles.followers = {it.container(name): exit_code}
    if prepare is not None:
        prepare(it)
    it.plan = plan_for(it.node, "v1.33.13", limits=LIMITS)
    return it


def status_of(it: Story) -> TaskStatus:
    return run_status("run-1", it.plan, parse(it.node.journal.data)[0])


def warnings(plan: RunPlan, reason: Reason) -> list[str]:
    return [str(finding) for finding in plan.warnings if finding.reason is reason]


def test_a_container_that_ends_with_the_runtime_ends_nothing_else() -> None:
    it = following()

    report = it.tell()

    assert (report.outcome, report.restarted, report.listed) == (Outcome.UPGRADED, 0, ())
    assert (report.ended, report.with_runtime) == ((FOLLOWER,), (FOLLOWER,))
    assert it.kubelet == "v1.33.13"
    status = status_of(it)
    assert (status.phase, status.containers.ended_list) == (TaskPhase.SUCCEEDED, (FOLLOWER,))
    assert (status.containers.unchanged, status.containers.baseline) == (3, 4)
    assert f"when their connection to the restarted runtime broke: {FOLLOWER}" in status.message


def test_it_is_named_after_a_rollback_too() -> None:
    it = following()
    it.node.calls.failpoints[at(Step.VERIFY, When.ANNOUNCED)] = _fail

    assert it.tell().outcome is Outcome.ROLLED_BACK
    named = f"nothing restarted; ended, when their connection to the restarted runtime broke: {FOLLOWER}. Cause"
    assert named in status_of(it).message


def test_it_is_named_before_anything_is_touched() -> None:
    [warning] = warnings(following().plan, Reason.RUNTIME_CONNECTION_WOULD_BREAK)

    assert warning.startswith(f"{FOLLOWER}: it is connected to the runtime")
    assert "its kubelet starts it again" in warning


def test_the_control_a_container_that_was_not_connected_turns_the_run_back() -> None:
    it = story()
    it.node.calls.failpoints[RUNTIME_RESTARTED] = lambda: it.node.runtime.end(it.container("nginx"), 1)

    report = it.tell()

    assert (report.outcome, report.reason) == (Outcome.ROLLED_BACK, Reason.VERIFICATION_FAILED)
    assert (report.listed, report.ended) == ((FOLLOWER,), ())


def crashing(
    exit_code: int, then: int, seconds: float = 30.0, also: Callable[[Story], None] = lambda _: None
) -> RunReport:
    """Tell of a container that had ended so long before the upgrade, and ends again while the runtime restarts."""
    it = story()
    it.node.runtime.end(it.container("nginx"), exit_code)
    it.node.timeline.advance(seconds)
    again = next(c.id for c in it.node.inventory().running() if c.label == FOLLOWER)
    it.plan = plan_for(it.node, "v1.33.13", limits=LIMITS)

    def end() -> None:
        it.node.runtime.end(again, then)
        also(it)

    it.node.calls.failpoints[RUNTIME_RESTARTED] = end
    return it.tell()


def test_a_container_that_ends_as_it_ended_before_the_upgrade_has_not_ended_with_the_runtime() -> None:
    report = crashing(1, 1)

    assert (report.outcome, report.restarted, report.ended) == (Outcome.UPGRADED, 0, (FOLLOWER,))
    assert report.with_runtime == ()


def test_one_that_has_run_for_long_may_have_ended_because_of_the_restart_both_times() -> None:
    report = crashing(1, 1, seconds=3600.0)

    assert (report.outcome, report.listed) == (Outcome.ROLLED_BACK, (FOLLOWER,))


@pytest.mark.parametrize("before", [0, 1])
def test_how_it_ended_again_may_be_lost_too(before: int) -> None:
    report = crashing(before, 255)

    assert (report.outcome, report.restarted, report.ended) == (Outcome.UPGRADED, 0, (FOLLOWER,))
    assert report.with_runtime == ()


def test_one_that_was_lost_with_its_monitor_again_turns_the_run_back() -> None:
    report = crashing(1, 255, also=lose_monitor)

    assert (report.outcome, report.reason) == (Outcome.ROLLED_BACK, Reason.VERIFICATION_FAILED)
    assert FOLLOWER in report.listed


@pytest.mark.parametrize(("before", "now"), [(1, 2), (137, 137), (143, 143), (255, 255), (137, 255)])
def test_one_that_ends_in_another_way_or_was_ended_turns_the_run_back(before: int, now: int) -> None:
    report = crashing(before, now)

    assert (report.outcome, report.reason) == (Outcome.ROLLED_BACK, Reason.VERIFICATION_FAILED)
    assert FOLLOWER in report.listed


WORKER = "default/job/work"


def completing(exit_code: int, also: Callable[[Story], None] = lambda _: None) -> tuple[Story, RunReport]:
    """Tell of a container of a pod that nothing starts again, which ends so while the runtime restarts."""
    it = story()

    def end() -> None:
        it.node.runtime.end(it.container("work"), exit_code)
        also(it)

    it.node.calls.failpoints[RUNTIME_RESTARTED] = end
    return it, it.tell()


def test_a_container_may_complete_while_the_runtime_restarts_and_does_not_learn_how_it_ended() -> None:
    it, report = completing(255)

    assert (report.outcome, report.restarted, report.ended) == (Outcome.UPGRADED, 0, (WORKER,)), report.message
    assert report.with_runtime == ()
    assert it.kubelet == "v1.33.13"


@pytest.mark.parametrize(
    ("exit_code", "also"),
    [
        (1, lambda _: None),
        (137, lambda _: None),
        (143, lambda _: None),
        (255, lambda it: lose_monitor(it, "work")),
        (255, lambda it: it.node.runtime.stop_container(it.container("work"))),
    ],
    ids=["failed", "killed", "terminated", "lost with its monitor", "stopped"],
)
def test_one_that_did_not_complete_turns_the_run_back(exit_code: int, also: Callable[[Story], None]) -> None:
    _, report = completing(exit_code, also)

    assert (report.outcome, report.reason) == (Outcome.ROLLED_BACK, Reason.VERIFICATION_FAILED)
    assert WORKER in report.listed


def lose_monitor(it: Story, name: str = "nginx") -> None:
    """The sandbox gets another monitor with the runtime's restart."""
    sandbox = next(c.sandbox_id for c in it.plan.baseline.containers if c.id == it.container(name))
    before = it.node.runtime.sandboxes[sandbox]
    assert before.monitor is not None
    monitor = replace(before.monitor, started=before.monitor.started + 1)
    it.node.runtime.sandboxes[sandbox] = replace(before, monitor=monitor)


def test_how_it_ended_may_be_lost_with_the_runtime_that_was_being_stopped() -> None:
    """As containerd 1.6 does: it deletes the task, and ends before it has written down with which exit code."""
    report = following(255).tell()

    assert (report.outcome, report.ended, report.with_runtime) == (Outcome.UPGRADED, (FOLLOWER,), (FOLLOWER,))


def test_one_that_was_lost_with_its_monitor_turns_the_run_back() -> None:
    it = following(255)
    it.node.calls.failpoints[RUNTIME_RESTARTED] = lambda: lose_monitor(it)

    report = it.tell()

    assert (report.outcome, report.reason) == (Outcome.ROLLED_BACK, Reason.VERIFICATION_FAILED)
    assert FOLLOWER in report.listed


@pytest.mark.parametrize("exit_code", [137, 143], ids=["killed", "terminated"])
def test_one_that_somebody_ended_turns_the_run_back(exit_code: int) -> None:
    report = following(exit_code).tell()

    assert (report.outcome, report.reason) == (Outcome.ROLLED_BACK, Reason.VERIFICATION_FAILED)
    assert (report.listed, report.ended) == ((FOLLOWER,), ())


def test_one_that_somebody_had_the_runtime_stop_turns_the_run_back() -> None:
    """It exits with another code than that of the signal."""
    it = following(None)

    def stop() -> None:
        it.node.runtime.end(it.container("nginx"), 1)
        it.node.runtime.stop_container(it.container("nginx"))

    it.node.calls.failpoints[RUNTIME_RESTARTED] = stop

    report = it.tell()

    assert (report.outcome, report.listed) == (Outcome.ROLLED_BACK, (FOLLOWER,))


@pytest.mark.parametrize("exit_code", [1, 255])
def test_one_that_nothing_starts_again_turns_the_run_back(exit_code: int) -> None:
    it = following(exit_code, name="work")

    [warning] = warnings(it.plan, Reason.RUNTIME_CONNECTION_WOULD_BREAK)
    report = it.tell()

    assert "nothing starts it again" in warning
    assert (report.outcome, report.listed) == (Outcome.ROLLED_BACK, ("default/job/work",))


def test_one_whose_sandbox_ended_too_turns_the_run_back() -> None:
    it = following()

    def lose() -> None:
        sandbox = next(c.sandbox_id for c in it.plan.baseline.containers if c.id == it.container("nginx"))
        it.node.runtime.sandboxes[sandbox] = replace(it.node.runtime.sandboxes[sandbox], ready=False, process=None)

    it.node.calls.failpoints[RUNTIME_RESTARTED] = lose

    assert it.tell().outcome is Outcome.ROLLED_BACK


@pytest.mark.parametrize("told_after", [EXCUSE_SECONDS / 3, 60], ids=["told in time", "never told"])
def test_the_runtime_gets_a_moment_to_tell_how_it_ended(told_after: float) -> None:
    it = following()
    it.node.runtime.troubles.hears_late = told_after

    report = it.tell()

    assert report.outcome is (Outcome.UPGRADED if told_after < EXCUSE_SECONDS else Outcome.ROLLED_BACK)


@pytest.mark.parametrize("told_after", [EXCUSE_SECONDS / 3, 60], ids=["told in time", "never told"])
def test_it_gets_a_moment_to_tell_that_one_completed_which_was_not_connected(told_after: float) -> None:
    """Seen on a real node: the process of a short job was gone, and the runtime had yet to report its exit code."""
    it = story()
    it.node.runtime.troubles.hears_late = told_after
    it.node.calls.failpoints[RUNTIME_RESTARTED] = lambda: it.node.runtime.end(it.container("work"), 0)

    report = it.tell()

    assert report.outcome is (Outcome.UPGRADED if told_after < EXCUSE_SECONDS else Outcome.ROLLED_BACK)


@pytest.mark.parametrize("missed", [1, 2, 3])
def test_a_runtime_that_misses_what_ends_while_it_starts_is_started_again(missed: int) -> None:
    """It would show the pod as running for ever."""
    it = story(more=tuple(pod_json(f"job-{number}", f"work-{number}", restart_policy="Never") for number in range(4)))
    it.node.runtime.kind = REMEMBERING
    it.node.runtime.troubles.hears_late = 1e6
    left = [it.container(f"work-{number}") for number in range(missed)]

    def end_one() -> None:
        if left:
            it.node.runtime.end(left.pop(), 0)
            it.node.calls.failpoints[RUNTIME_RESTARTED] = end_one

    it.node.calls.failpoints[RUNTIME_RESTARTED] = end_one

    report = it.tell()

    assert report.outcome is (Outcome.UPGRADED if missed < STARTS else Outcome.ROLLED_BACK), report.message
    assert report.restarted == 0
    assert [c.label for c in it.node.inventory().running() if c.process is None] == []


@pytest.mark.parametrize("missed", [1, 2])
def test_what_ends_while_a_runtime_starts_on_the_way_back_is_not_missed_either(missed: int) -> None:
    it = story(more=tuple(pod_json(f"batch-{each}", f"last-{each}", restart_policy="Never") for each in range(missed)))
    it.node.runtime.kind = REMEMBERING
    it.node.runtime.troubles.hears_late = 1e6
    restart, left = "services.restart containerd.service", [it.container(f"last-{each}") for each in range(missed)]

    def end_one() -> None:
        it.node.timeline.after(0.1, partial(it.node.runtime.end, left.pop(), 0))
        if left:
            it.node.calls.before(restart, end_one)

    def turned_back() -> None:
        it.node.calls.before(restart, end_one)
        _fail()

    it.node.calls.failpoints[at(Step.VERIFY, When.ANNOUNCED)] = turned_back

    report = it.tell()

    assert (report.outcome, report.restarted) == (Outcome.ROLLED_BACK, 0), report.message
    assert [c.label for c in it.node.inventory().running() if c.process is None] == []


@pytest.mark.parametrize("kind", [STOPPING, REMEMBERING], ids=["stopped for rewriting", "remembers ends"])
def test_a_runtime_that_logs_nothing_does_not_matter_since_no_kubelet_ran(kind: RuntimeKind) -> None:
    def silent(it: Story) -> None:
        it.node.runtime.kind = kind
        it.node.runtime.troubles.silent = True

    report = following(prepare=silent).tell()

    assert (report.outcome, report.ended, report.with_runtime) == (Outcome.UPGRADED, (FOLLOWER,), (FOLLOWER,))


def test_a_runtime_that_was_stopped_for_the_old_hashes_is_started_before_it_is_asked() -> None:
    it = following(prepare=lambda it: setattr(it.node.runtime, "kind", STOPPING))
    it.node.calls.failpoints[at(Step.VERIFY, When.ANNOUNCED)] = _fail

    report = it.tell()

    assert (report.outcome, report.restarted) == (Outcome.ROLLED_BACK, 0)
    assert [r.error for r in parse(it.node.journal.data)[0].records if r.mark is Mark.UNDO_FAILED] == []


def test_an_executor_that_is_killed_after_the_note_knows_it_still() -> None:
    it = following()
    it.node.calls.failpoints[KUBELET_STARTED] = _die

    report = it.tell()

    assert (report.outcome, report.ended) == (Outcome.UPGRADED, (FOLLOWER,))


def test_an_executor_that_is_killed_anywhere_names_it_all_the_same() -> None:
    yardstick = following()
    yardstick.tell()
    wrong = {}
    for number, name in enumerate(yardstick.node.calls.effects):
        it = following()
        struck: list[int] = []

        def strike(_name: str, passed: int, moment: Moment, at_number: int = number, seen: list[int] = struck) -> None:
            if passed == at_number and moment is Moment.BEFORE and not seen:
                seen.append(passed)
                raise Crash

        it.node.calls.interrupt = strike
        report = it.tell()
        if (report.outcome, report.restarted, report.ended) != (Outcome.UPGRADED, 0, (FOLLOWER,)):
            wrong[name] = report

    assert wrong == {}


def test_one_that_ended_is_not_counted_after_a_rollback_either() -> None:
    it = following()
    it.node.calls.failpoints[at(Step.VERIFY, When.ANNOUNCED)] = _fail

    report = it.tell()

    assert (report.outcome, report.restarted, report.ended) == (Outcome.ROLLED_BACK, 0, (FOLLOWER,))
    assert it.kubelet == "v1.30.14"


def test_one_that_a_kubelet_replaces_is_no_less_damage_because_it_was_connected() -> None:
    it = following(None)
    it.plan = replace(it.plan, shield=None)
    it.node.calls.before(START, lambda: it.node.runtime.serve(it.container("nginx"), HashValue("bad")))

    report = it.tell()

    assert (report.reason, report.listed, report.ended) == (Reason.CONTAINER_RESTARTED, (FOLLOWER,), ())


def test_what_cannot_be_told_is_said() -> None:
    it = story()
    it.node.runtime.troubles.unseen_followers = "Operation not permitted"

    plan = plan_for(it.node, "v1.33.13", limits=LIMITS)

    assert warnings(plan, Reason.RUNTIME_CONNECTION_WOULD_BREAK) == [
        "it is unknown which containers are connected to the runtime: Operation not permitted"
    ]


def mounting(version: str = "v1.33.13", old: str = "v1.30.14") -> Story:
    it = story(old, version)
    it.node.runtime.troubles.mounters = {it.container("nginx"): ("/run/containerd/containerd.sock",)}
    it.plan = plan_for(it.node, version, limits=LIMITS)
    return it


def test_a_pod_that_has_the_socket_mounted_is_named_before_and_after() -> None:
    it = mounting()

    [warning] = warnings(it.plan, Reason.RUNTIME_SOCKET_MOUNTED)
    report = it.tell()

    assert warning.startswith(f"{FOLLOWER}: it has mounted /run/containerd/containerd.sock as a file")
    assert (report.outcome, report.restarted) == (Outcome.UPGRADED, 0)
    assert "restart these pods, which have the runtime's former socket mounted: default/web" in status_of(it).message


def test_a_run_that_does_not_restart_the_runtime_says_nothing_of_it() -> None:
    it = mounting(old="v1.31.14")
    it.tell()

    assert warnings(it.plan, Reason.RUNTIME_SOCKET_MOUNTED) == []
    assert "socket" not in status_of(it).message
