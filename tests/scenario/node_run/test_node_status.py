"""The settle period begins when the API server shows the new kubelet: before, that kubelet knows no pods."""

from dataclasses import replace

import pytest

from nodeupgrade.api.reasons import Reason
from nodeupgrade.api.task.step import Step
from nodeupgrade.kubelethash import HashValue
from nodeupgrade.node.failpoints.failpoints import When, at
from nodeupgrade.node.journal.journal import Mark, Outcome, parse
from nodeupgrade.node.node import LEASE_KEEPER
from nodeupgrade.node.plan.plan import Limits, ShownKubelet
from nodeupgrade.node.run.node_status import AGENT_SECONDS, FRESH_SECONDS, KEEP_LEASE_SECONDS
from tests.doubles.node import Behaviour, Crash, supervise
from tests.doubles.node.kubelet import REPORT_SECONDS
from tests.scenario.node_run.test_node_run import LIMITS, START, Story, story
from tests.scenario.node_run.test_settling import while_settling

NEW = "v1.33.13"
AWAY = 75.0


def away(it: Story, seconds: float = AWAY) -> None:
    """Let the API server answer nobody from the start of the new kubelet on."""
    api, timeline = it.node.kubelet.api, it.node.timeline
    it.node.calls.before(START, lambda: setattr(api, "answers", False))
    it.node.calls.before(START, lambda: timeline.after(seconds, lambda: setattr(api, "answers", True)))


def took(it: Story, step: Step, end: Mark = Mark.DONE) -> float:
    journal = parse(it.node.journal.data)[0]
    began, ended = journal.first(step, Mark.DOING), journal.first(step, end)
    assert began is not None
    assert ended is not None
    return ended.monotonic - began.monotonic


def test_a_kubelet_that_was_without_pods_is_watched_once_it_has_them() -> None:
    it = story()
    away(it)
    it.node.calls.before(START, lambda: it.node.runtime.serve(it.container("nginx"), HashValue("bad")))

    report = it.tell()

    assert (report.outcome, report.reason) == (Outcome.ROLLED_BACK, Reason.SHIELD_REFUSED_CALL), report
    assert it.node.kubelet.replaced == []


def test_a_healthy_api_server_is_not_waited_for() -> None:
    it = story()

    report = it.tell()

    assert report.outcome is Outcome.UPGRADED
    assert took(it, Step.AWAIT_NODE_STATUS) <= REPORT_SECONDS
    assert took(it, Step.VERIFY) < LIMITS.settle + 1


def test_while_nobody_reaches_the_api_server_the_run_waits_with_the_shield_up() -> None:
    it = story()
    away(it)

    report = it.tell()

    effects = it.node.calls.effects
    assert (report.outcome, report.restarted) == (Outcome.UPGRADED, 0), report
    assert took(it, Step.AWAIT_NODE_STATUS) >= AWAY - 2
    assert took(it, Step.VERIFY) >= LIMITS.settle
    assert effects.index("journal.append await-node-status done") < effects.index("shield.lower")


def test_no_settle_period_means_no_wait_after_the_kubelet_is_shown() -> None:
    it = story(limits=Limits(settle=0.0))
    away(it)

    assert it.tell().outcome is Outcome.UPGRADED
    assert took(it, Step.AWAIT_NODE_STATUS) >= AWAY - 2
    assert took(it, Step.VERIFY) < 1


def test_a_kubelet_that_cannot_reach_the_api_server_is_turned_back_with_its_own_words() -> None:
    it = story(limits=Limits(settle=5.0, node_status=20.0))
    it.node.kubelet.api.cut_off.add(NEW)
    line = 'E1127 12:00:00.000000 1 kubelet_node_status.go:99] "Unable to register node" err="tls: bad certificate"'
    while_settling(it, lambda: it.node.kubelet.wrote.append(line))

    report = it.tell()

    assert (report.outcome, report.reason) == (Outcome.ROLLED_BACK, Reason.KUBELET_NOT_SHOWN), report
    assert f"kubelet {NEW} has run for 20 s, and the API server shows v1.30.14" in report.message
    assert "tls: bad certificate" in report.message
    assert it.kubelet == "v1.30.14"
    assert it.nothing_restarted()


def test_a_node_that_was_deleted_is_not_the_new_kubelets() -> None:
    it = story(limits=Limits(settle=5.0, node_status=20.0))
    it.node.kubelet.api.cut_off.add(NEW)
    it.node.calls.before(START, lambda: setattr(it.node.kubelet.api, "shows", None))

    report = it.tell()

    assert (report.outcome, report.reason) == (Outcome.ROLLED_BACK, Reason.KUBELET_NOT_SHOWN), report
    assert "the API server shows no Node" in report.message


def test_the_limit_counts_from_the_moment_at_which_the_api_server_answers_again() -> None:
    it = story(limits=Limits(settle=5.0, node_status=20.0))
    it.node.kubelet.api.cut_off.add(NEW)
    away(it)

    report = it.tell()

    assert (report.outcome, report.reason) == (Outcome.ROLLED_BACK, Reason.KUBELET_NOT_SHOWN), report
    assert "has run for 20 s" in report.message
    assert took(it, Step.AWAIT_NODE_STATUS, Mark.FAILED) >= AWAY + 20 - 2


def test_without_an_agent_the_run_waits_for_the_next_one() -> None:
    it = story()
    api, timeline = it.node.kubelet.api, it.node.timeline
    api.agent = False
    it.node.calls.before(START, lambda: timeline.after(AGENT_SECONDS / 2, lambda: setattr(api, "agent", True)))

    assert it.tell().outcome is Outcome.UPGRADED
    assert took(it, Step.AWAIT_NODE_STATUS) > AGENT_SECONDS / 2 - 1


def test_an_agent_that_was_lost_with_the_api_server_is_not_waited_for_without_end() -> None:
    """Without pods from the API server, the new kubelet starts no agent again."""
    it = story()
    it.node.kubelet.api.agent = False

    report = it.tell()

    assert (report.outcome, report.reason) == (Outcome.ROLLED_BACK, Reason.KUBELET_NOT_SHOWN), report
    assert "no agent runs" in report.message
    assert took(it, Step.AWAIT_NODE_STATUS, Mark.FAILED) < AGENT_SECONDS + 2


@pytest.mark.parametrize("answered", [True, False])
def test_a_report_of_an_agent_that_has_gone_does_not_hold_the_run(answered: bool) -> None:
    it = story()
    stale = ShownKubelet(at=it.node.ports.clock.awake().seconds, answered=answered)
    it.node.ports = replace(it.node.ports, shown_kubelet=lambda: stale)

    assert it.tell().reason is Reason.KUBELET_NOT_SHOWN
    took_it = took(it, Step.AWAIT_NODE_STATUS, Mark.FAILED)
    assert AGENT_SECONDS <= took_it < AGENT_SECONDS + FRESH_SECONDS + 2


def test_an_abort_ends_the_wait() -> None:
    it = story()
    away(it, 10_000)
    timeline = it.node.timeline
    began = timeline.monotonic

    report = supervise(it.node, it.plan, abort=lambda: timeline.monotonic > began + 300)

    assert report is not None
    assert (report.outcome, report.reason) == (Outcome.ROLLED_BACK, Reason.ABORTED), report
    assert "before the API server showed the new kubelet" in report.message


def test_what_is_harmed_meanwhile_ends_the_wait() -> None:
    it = story(shield=False)
    away(it)
    while_settling(it, lambda: it.node.runtime.end(it.container("nginx"), 137), seconds=30)

    report = it.tell()

    assert (report.outcome, report.reason) == (Outcome.ROLLED_BACK, Reason.CONTAINER_RESTARTED), report


def test_a_kubelet_that_exits_meanwhile_ends_the_wait() -> None:
    it = story()
    it.node.kubelet.behaviour[NEW] = Behaviour.EXITS_HEALTHY
    away(it)

    assert it.tell().reason is Reason.VERIFICATION_FAILED


@pytest.mark.parametrize("reboot", [False, True])
def test_an_executor_that_is_lost_meanwhile_waits_on_and_a_reboot_goes_back(reboot: bool) -> None:
    it = story()
    away(it)
    moment = at(Step.AWAIT_NODE_STATUS, When.ANNOUNCED)

    def crash() -> None:
        raise Crash(reboot=reboot)

    it.node.calls.failpoints[moment] = crash

    report = it.tell()

    expected = (Outcome.ROLLED_BACK, Reason.NODE_REBOOTED) if reboot else (Outcome.UPGRADED, Reason.SUCCEEDED)
    assert (report.outcome, report.reason) == expected, report


def test_the_lease_is_renewed_meanwhile_for_longer_than_a_lease_keeper_runs() -> None:
    it = story()
    it.plan = replace(it.plan, kubeconfig="/etc/kubernetes/kubelet.conf")
    away(it)

    assert it.tell().outcome is Outcome.UPGRADED
    effects = it.node.calls.effects
    since = effects.index("journal.append await-node-status doing")
    assert effects[since:].count(f"services.start {LEASE_KEEPER}") >= AWAY / KEEP_LEASE_SECONDS - 2
