"""Where hashes are wrong and the shield is up, nothing restarts; the control shows what it prevented."""

import errno
import os
from dataclasses import replace

import pytest

from nodeupgrade.api.reasons import Reason
from nodeupgrade.api.task.step import Step
from nodeupgrade.kubelethash import HashValue
from nodeupgrade.node.failpoints.failpoints import KUBELET_STARTED
from nodeupgrade.node.journal.journal import Journal, Mark, Outcome, parse
from nodeupgrade.node.plan.plan import Limits
from nodeupgrade.node.runtimes.inventory import StoredHashes
from nodeupgrade.node.shield.call_admission import PATIENCE_SECONDS
from nodeupgrade.node.shield.harmful_calls import Method, RuntimeCall
from nodeupgrade.node.shield.shield import RefusedCall
from tests.doubles.node import Behaviour, Crash
from tests.doubles.node.kubelet import SYNC_PERIOD_SECONDS
from tests.scenario.node_run.test_node_run import START, Story, story
from tests.scenario.node_run.test_settling import delete, seconds_until_stopped, while_settling

WRONG = StoredHashes(container=HashValue("bad"))
STOP = "services.stop kubelet.service"
HOUR = 3600.0


def wrongly_planned(it: Story, *names: str) -> Story:
    """Have the hashes of these containers computed wrongly; of all, if none is named."""
    containers = tuple(
        replace(c, after=WRONG) if c.compared and (c.name in names or not names) else c for c in it.plan.containers
    )
    it.plan = it.node.shield.plan = replace(it.plan, containers=containers)
    return it


def journal_of(it: Story) -> Journal:
    return parse(it.node.journal.data)[0]


@pytest.mark.parametrize("names", [("nginx",), ()], ids=["one", "all"])
@pytest.mark.parametrize("shield", [True, False], ids=["shield", "control"])
def test_wrong_hashes_harm_nothing(names: tuple[str, ...], shield: bool) -> None:
    it = wrongly_planned(story(shield=shield), *names)

    report = it.tell()

    assert report.outcome is Outcome.ROLLED_BACK
    assert it.kubelet == "v1.30.14"
    assert it.nothing_restarted() is shield
    assert report.reason is (Reason.SHIELD_REFUSED_CALL if shield else Reason.CONTAINER_RESTARTED)
    if shield:
        assert report.message.startswith("kubelet v1.33.13 wanted to stop default/")
        assert "is guarded" in report.message
        assert report.restarted == 0


def test_the_first_refusal_turns_the_run_back_even_if_the_kubelet_never_becomes_healthy() -> None:
    it = wrongly_planned(story())
    it.node.kubelet.behaviour["v1.33.13"] = Behaviour.NEVER_HEALTHY

    report = it.tell()

    assert report.reason is Reason.SHIELD_REFUSED_CALL
    assert seconds_until_stopped(it) < PATIENCE_SECONDS + 2 * SYNC_PERIOD_SECONDS
    assert it.nothing_restarted()


def test_what_is_refused_while_no_executor_runs_turns_the_run_back() -> None:
    """A kubelet repeats a refused call after 10 s only, when a short settle period may be over."""
    it = story(limits=Limits(settle=0.5))

    def die() -> None:
        it.node.shield.refuse("default/web/nginx", it.container("nginx"))
        it.node.timeline.advance(1)
        raise Crash

    it.node.calls.failpoints[KUBELET_STARTED] = die

    report = it.tell()

    assert (report.outcome, report.reason) == (Outcome.ROLLED_BACK, Reason.SHIELD_REFUSED_CALL)
    assert it.nothing_restarted()


def test_a_call_that_still_waits_when_the_settle_period_is_over_is_waited_for() -> None:
    it = wrongly_planned(story(limits=Limits(settle=0.5)))

    report = it.tell()

    assert (report.outcome, report.reason) == (Outcome.ROLLED_BACK, Reason.SHIELD_REFUSED_CALL)
    assert it.nothing_restarted()


def test_the_old_kubelet_finds_the_shield_up_and_the_end_finds_it_down() -> None:
    it = story()
    it.node.kubelet.behaviour["v1.33.13"] = Behaviour.SICKENS

    report = it.tell()

    assert report.outcome is Outcome.ROLLED_BACK
    effects = it.node.calls.effects
    started = [number for number, name in enumerate(effects) if name == "services.start kubelet.service"][-1]
    exchanges = [name for name in effects[:started] if name.startswith("shield.")]
    assert exchanges[-1] == "shield.raise_up"
    assert "shield.lower" in effects[started:]
    assert (it.node.shield.running, it.node.shield.raised()) == (False, False)


def test_an_upgrade_ends_with_the_shield_lowered_before_the_commit_and_its_process_gone() -> None:
    it = story()

    assert it.tell().outcome is Outcome.UPGRADED

    effects = it.node.calls.effects
    assert effects.index("shield.raise_up") < effects.index("services.start kubelet.service")
    assert effects.index("journal.append verify done") < effects.index("shield.lower")
    assert effects.index("shield.lower") < effects.index("journal.append lower-shield done")
    assert (it.node.shield.running, it.node.shield.raised()) == (False, False)


def old_kubelet_is_not_quiet(it: Story) -> None:
    """Somebody edits a hash while the run goes back, so that the old kubelet wants to replace a container."""
    it.node.kubelet.behaviour["v1.33.13"] = Behaviour.SICKENS
    victim = it.container("nginx")
    it.node.calls.before("journal.append stop-kubelet undone", lambda: it.node.runtime.serve(victim, HashValue("bad")))


def test_a_rollback_waits_for_as_long_as_the_old_kubelet_wants_to_end_something() -> None:
    it = story()
    old_kubelet_is_not_quiet(it)
    right = next(c.before for c in it.plan.containers if c.name == "nginx")

    def repair() -> None:
        assert right.container is not None
        it.node.runtime.serve(it.container("nginx"), right.container)

    it.node.calls.before("journal.append arm-dead-man held", lambda: it.node.timeline.after(60, repair))

    report = it.tell()

    assert report.outcome is Outcome.ROLLED_BACK
    assert it.node.kubelet.replaced == []
    held = journal_of(it).first(Step.ARM_DEAD_MAN, Mark.HELD)
    assert held is not None
    assert held.reason == Reason.SHIELD_REFUSED_CALL
    assert "kubelet v1.30.14 runs again and wants to stop default/web/nginx" in (held.error or "")
    assert f"touch /var/lib/nodeupgrade/runs/{it.plan.run_id}/go-on" in (held.error or "")


@pytest.mark.parametrize("away", [False, True])
def test_a_runtime_that_is_away_for_a_moment_does_not_end_the_hold(away: bool) -> None:
    """The shield has left its path, and is back with it; until then the old kubelet reaches nobody."""
    it = story(limits=Limits(settle=5.0, shield_hold=120.0))
    old_kubelet_is_not_quiet(it)

    def leave() -> None:
        it.node.shield.aside = away
        it.node.timeline.after(10, lambda: setattr(it.node.shield, "aside", False))

    it.node.calls.before("journal.append arm-dead-man held", lambda: it.node.timeline.after(20, leave))

    report = it.tell()

    held, lowered = (journal_of(it).first(Step.ARM_DEAD_MAN, mark) for mark in (Mark.HELD, Mark.UNDONE))
    assert report.listed == ("default/web/nginx",)
    assert held is not None
    assert lowered is not None
    assert lowered.monotonic - held.monotonic >= 110


def test_a_person_may_let_the_old_kubelet_go_on() -> None:
    it = story()
    old_kubelet_is_not_quiet(it)
    it.node.ports = replace(it.node.ports, go_on=lambda: it.node.timeline.monotonic > 200)

    report = it.tell()

    assert report.outcome is Outcome.ROLLED_BACK
    assert it.node.kubelet.replaced == ["default/web/nginx"], "it is lowered, and the kubelet has its way"
    assert report.listed == ("default/web/nginx",), "what it ended is counted"


@pytest.mark.parametrize("broken", [60.0, HOUR])
def test_while_it_cannot_be_told_whether_the_shield_refuses_calls_it_stays_up(
    broken: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """For as long as it would for a call that it has refused, and without the end of an executor."""
    it = story(limits=Limits(settle=5.0, shield_hold=120.0))
    it.node.kubelet.behaviour["v1.33.13"] = Behaviour.SICKENS
    refused = it.node.shield.refused
    began: list[float] = []

    def unreadable() -> tuple[RefusedCall, ...]:
        if it.node.timeline.monotonic < began[0] + broken:
            raise OSError(errno.EFBIG, os.strerror(errno.EFBIG))
        return refused()

    def break_it() -> None:
        began.append(it.node.timeline.monotonic)
        monkeypatch.setattr(it.node.shield, "refused", unreadable)

    it.node.calls.before("journal.append stop-kubelet undone", break_it)

    report = it.tell()

    held, lowered = (journal_of(it).first(Step.ARM_DEAD_MAN, mark) for mark in (Mark.HELD, Mark.UNDONE))
    assert report.outcome is Outcome.ROLLED_BACK
    assert it.nothing_restarted()
    assert held is not None
    assert lowered is not None
    assert (held.reason, "File too large" in (held.error or "")) == (Reason.SHIELD_REFUSED_CALL, True)
    assert min(broken, 120.0) - 10 <= lowered.monotonic - began[0] < min(broken, 120.0) + 30


@pytest.mark.parametrize("hold", [0.0, 120.0, 600.0])
def test_an_old_kubelet_is_held_off_for_so_long_and_what_it_ends_then_is_counted(hold: float) -> None:
    it = story(limits=Limits(settle=5.0, shield_hold=hold))
    old_kubelet_is_not_quiet(it)
    began: list[float] = []
    it.node.calls.before("journal.append stop-kubelet undone", lambda: began.append(it.node.timeline.monotonic))

    report = it.tell()

    assert (report.outcome, report.reason) == (Outcome.ROLLED_BACK, Reason.VERIFICATION_FAILED)
    assert (report.restarted, report.listed) == (1, ("default/web/nginx",))
    for told in (
        "the shield was lowered while kubelet v1.30.14 wanted to stop default/web/nginx",
        "definition changed",
    ):
        assert told in report.message
    lowered = journal_of(it).first(Step.ARM_DEAD_MAN, Mark.UNDONE)
    assert lowered is not None
    assert hold <= lowered.monotonic - began[0] <= hold + 30
    assert (it.node.shield.running, it.node.shield.raised()) == (False, False)


def test_a_hold_is_as_long_as_it_is_however_often_the_executor_dies() -> None:
    it = story(limits=Limits(settle=5.0, shield_hold=120.0))
    old_kubelet_is_not_quiet(it)

    def die() -> None:
        raise Crash

    def die_again_and_again() -> None:
        for seconds in (20, 40, 60, 80):
            it.node.timeline.after(seconds, die)

    it.node.calls.before("journal.append arm-dead-man held", die_again_and_again)

    report = it.tell()

    lowered, held = (journal_of(it).first(Step.ARM_DEAD_MAN, mark) for mark in (Mark.UNDONE, Mark.HELD))
    assert report.listed == ("default/web/nginx",)
    assert lowered is not None
    assert held is not None
    assert 120 <= lowered.monotonic - held.monotonic <= 150


def test_an_old_kubelet_that_evicts_is_not_held_off() -> None:
    """Else it would choose pod after pod, and none of them would free anything."""
    it = story()
    old_kubelet_is_not_quiet(it)
    it.node.calls.before(
        "journal.append stop-kubelet undone",
        lambda: it.node.kubelet.write("eviction_manager.go", '"Eviction manager: must evict pod(s) to reclaim"'),
    )

    report = it.tell()

    assert journal_of(it).first(Step.ARM_DEAD_MAN, Mark.HELD) is None
    assert report.listed == ("default/web/nginx",)


def test_another_caller_is_named_and_does_not_hold_the_rollback() -> None:
    it = story()
    victim = it.container("nginx")
    crictl = "crictl (process 4711)"
    while_settling(it, lambda: it.node.shield.refuse("default/web/nginx", victim, caller=crictl))

    report = it.tell()

    assert (report.outcome, report.reason) == (Outcome.ROLLED_BACK, Reason.SHIELD_REFUSED_CALL)
    assert report.message.startswith(f"{crictl} wanted to stop default/web/nginx; the shield refused")
    assert "kubelet" not in report.message
    assert journal_of(it).first(Step.ARM_DEAD_MAN, Mark.HELD) is None
    assert it.nothing_restarted()


def test_a_refusal_that_cannot_be_written_down_is_not_committed_over() -> None:
    it = wrongly_planned(story(), "nginx")
    it.node.shield.unwritable = True

    report = it.tell()

    assert (report.outcome, report.reason) == (Outcome.ROLLED_BACK, Reason.SHIELD_REFUSED_CALL)
    assert "it is unknown whether it will be refused" in report.message
    assert it.nothing_restarted()


def test_a_deleted_pod_of_which_there_is_word_in_time_goes() -> None:
    it = story()
    delete(it, "web", told_after=1.5)

    report = it.tell()

    assert (report.outcome, report.restarted) == (Outcome.UPGRADED, 0)
    assert it.node.shield.refused() == ()


def test_a_deleted_pod_of_which_there_is_no_word_turns_the_run_back_and_goes_once_there_is() -> None:
    it = story()
    delete(it, "web", told_after=90)

    report = it.tell()

    assert (report.outcome, report.reason) == (Outcome.ROLLED_BACK, Reason.SHIELD_REFUSED_CALL)
    assert journal_of(it).first(Step.ARM_DEAD_MAN, Mark.HELD) is not None
    assert it.kubelet == "v1.30.14"


def test_a_container_that_crashes_is_restarted_as_usual() -> None:
    it = story()
    victim = it.container("nginx")
    while_settling(it, lambda: it.node.runtime.end(victim, 1))

    report = it.tell()

    assert (report.outcome, report.ended) == (Outcome.UPGRADED, ("default/web/nginx",))
    assert it.node.shield.refused() == ()
    assert "nginx" in {c.name for c in it.node.inventory().running()}


def test_a_process_that_dies_before_the_shield_is_raised_turns_the_run_back() -> None:
    it = story()
    it.node.calls.before("shield.raise_up", lambda: setattr(it.node.shield, "running", False))

    report = it.tell()

    assert (report.outcome, report.reason) == (Outcome.ROLLED_BACK, Reason.STEP_FAILED)
    assert "its process does not run" in report.message
    assert it.nothing_restarted()


@pytest.mark.parametrize("required", [True, False], ids=["required", "auto"])
def test_a_shield_that_does_not_start_ends_the_run_only_where_it_is_required(required: bool) -> None:
    it = story()
    assert it.plan.shield is not None
    it.plan = replace(it.plan, shield=replace(it.plan.shield, required=required))
    it.node.shield.unstartable = True

    report = it.tell()

    assert report.outcome is (Outcome.ROLLED_BACK if required else Outcome.UPGRADED)
    assert (report.reason is Reason.SHIELD_UNAVAILABLE) is required
    assert it.nothing_restarted()


def test_a_runtime_that_is_restarted_under_the_shield_is_told_of() -> None:
    it = story()

    def restart() -> None:
        it.node.runtime.restart()
        it.node.shield.runtime_restarted()

    while_settling(it, restart)

    report = it.tell()

    assert report.outcome is Outcome.UPGRADED
    assert "the runtime was restarted 1 time under the shield" in report.message


def test_a_node_that_shuts_down_ends_its_pods_and_keeps_its_kubelet_until_then() -> None:
    """A kubelet delays a shutdown, and ends its pods meanwhile: with their hooks, and with their grace periods."""
    it = story(limits=Limits(settle=20.0))
    victim = it.container("nginx")
    stop = RuntimeCall(method=Method.STOP_CONTAINER, container=victim)
    effects = it.node.calls.effects
    seen: dict[str, object] = {}

    def shut_down() -> None:
        seen["before"] = it.node.shield.refuses(stop)
        it.node.services.shutting_down = True
        seen["meanwhile"] = it.node.shield.refuses(stop)
        it.node.runtime.stop_container(victim)
        it.node.timeline.after(30, off)

    def off() -> None:
        seen["stopped"] = START in effects and effects[::-1].index(START) > effects[::-1].index(STOP)
        raise Crash(reboot=True)

    while_settling(it, shut_down)

    report = it.tell()

    assert seen == {"before": True, "meanwhile": False, "stopped": False}
    assert (report.outcome, report.reason) == (Outcome.ROLLED_BACK, Reason.NODE_REBOOTED)
    assert it.kubelet == "v1.30.14"


def test_a_shutdown_that_was_called_off_excuses_nothing() -> None:
    it = story(limits=Limits(settle=20.0))

    def shut_down() -> None:
        it.node.services.shutting_down = True
        it.node.runtime.stop_container(it.container("nginx"))
        it.node.timeline.after(5, lambda: setattr(it.node.services, "shutting_down", False))

    while_settling(it, shut_down)

    report = it.tell()

    assert (report.outcome, report.reason) == (Outcome.ROLLED_BACK, Reason.CONTAINER_RESTARTED)
    assert report.listed == ("default/web/nginx",)
