"""A runtime that does not show what still runs never gets a kubelet: the run waits, fenced, for as long as it takes."""

from collections.abc import Callable, Collection
from dataclasses import replace

import pytest

from nodeupgrade.api.json import from_json, to_json
from nodeupgrade.api.reasons import Reason
from nodeupgrade.api.task.status import ContainerCounts
from nodeupgrade.api.task.step import Step
from nodeupgrade.api.values import PodUid
from nodeupgrade.errors import StepFailed, Unimplemented
from nodeupgrade.node.failpoints.failpoints import RUNTIME_RESTARTED, When, at
from nodeupgrade.node.journal.journal import Mark, Outcome, Record, parse
from nodeupgrade.node.node import LEASE_KEEPER
from nodeupgrade.node.run.report import RunReport
from nodeupgrade.node.runtimes.inventory import Inventory
from nodeupgrade.node.task_status.run_status import run_status
from tests.doubles.node import Behaviour, Crash, plan_for, pod_json, supervise
from tests.scenario.node_run.test_node_run import START, Story, story

HOUR = 3600.0
RESTART = "services.restart containerd.service"


class EnoughError(Exception):
    """Somebody has seen enough."""


def lost(*, restart: str = RESTART) -> Story:
    """Somebody has changed the runtime's ``root``; whatever restarts it next finds nothing there."""
    it = story()
    it.plan = replace(it.plan, kubeconfig="/etc/kubernetes/kubelet.conf")
    it.node.calls.before(restart, lambda: setattr(it.node.runtime.troubles, "elsewhere", True))
    return it


def repair(it: Story) -> None:
    """What a person does."""
    it.node.runtime.troubles.elsewhere = False
    it.node.runtime.restart()


def later(it: Story, seconds: float, action: Callable[[], object]) -> None:
    """Let something happen so long after the run began to wait."""

    def begun() -> None:
        def act() -> None:
            action()

        it.node.timeline.after(seconds, act)

    def interrupt(name: str, _number: int, _moment: object) -> None:
        if name.endswith(" held"):
            it.node.calls.interrupt = lambda *_: None
            begun()

    it.node.calls.interrupt = interrupt


def held(it: Story) -> list[Record]:
    return [record for record in parse(it.node.journal.data)[0].records if record.mark is Mark.HELD]


def well_again(it: Story, report: RunReport) -> bool:
    return (
        report.outcome is Outcome.ROLLED_BACK
        and it.kubelet == "v1.30.14"
        and it.nothing_restarted()
        and it.node.kubelet.violations == []
        and not it.node.services.unit.fenced
    )


def test_a_run_whose_runtime_came_back_empty_goes_on_once_it_is_repaired() -> None:
    it = lost()
    later(it, 2 * HOUR, lambda: repair(it))

    report = it.tell()

    assert well_again(it, report)
    assert (report.reason, report.restarted) == (Reason.VERIFICATION_FAILED, 0)
    assert [(record.step, record.reason) for record in held(it)] == [(Step.REWRITE_HASHES, Reason.RUNTIME_LOST_PODS)]


def test_until_then_it_stands_fenced_says_so_once_and_has_the_lease_renewed() -> None:
    it = lost()

    def stop() -> None:
        raise EnoughError

    later(it, 2 * HOUR, stop)
    with pytest.raises(EnoughError):
        supervise(it.node, it.plan)

    effects = it.node.calls.effects
    assert it.node.services.unit.fenced
    assert effects.count(START) == 0
    assert effects.count(f"services.start {LEASE_KEEPER}") >= 2 * HOUR / 10, "it ends by itself, and is started anew"
    assert len(held(it)) == 1
    for told in ("default/web/nginx", "4 of the instances", "touch /var/lib/nodeupgrade/runs/run-1/go-on"):
        assert told in (held(it)[0].error or "")


def test_control_a_kubelet_on_an_empty_runtime_makes_every_pod_a_second_time() -> None:
    it = lost()
    it.node.ports = replace(it.node.ports, go_on=lambda: True)

    report = it.tell()

    assert (report.outcome, report.restarted) == (Outcome.ROLLED_BACK, 4)
    assert held(it) == []
    assert "beside" in it.node.kubelet.violations[0]


def unlisted_once_hashes_are_back(it: Story) -> None:
    """From then on, what the runtime answers cannot be read."""
    it.node.kubelet.behaviour["v1.33.13"] = Behaviour.EXITS
    error = StepFailed("cannot read dockerd's list of containers")
    trouble = it.node.runtime.troubles
    it.node.calls.before("journal.append confirm-inventory undone", lambda: setattr(trouble, "unlisted", error))


def test_a_list_that_cannot_be_read_is_waited_for_on_the_way_back() -> None:
    it = story()
    unlisted_once_hashes_are_back(it)
    later(it, 2 * HOUR, lambda: setattr(it.node.runtime.troubles, "unlisted", None))

    report = it.tell()

    assert well_again(it, report)
    assert [(record.step, record.reason) for record in held(it)] == [(Step.STOP_KUBELET, Reason.STEP_FAILED)]
    assert "touch /var/lib/nodeupgrade/runs/run-1/go-on" in (held(it)[0].error or "")


def test_somebody_may_start_the_old_kubelet_although_the_list_cannot_be_read() -> None:
    it, wishes = story(), list[bool]()
    unlisted_once_hashes_are_back(it)
    later(it, HOUR, lambda: wishes.append(True))
    it.node.ports = replace(it.node.ports, go_on=lambda: bool(wishes))

    report = it.tell()

    assert (report.outcome, report.looked) == (Outcome.ROLLED_BACK, False)
    assert it.kubelet == "v1.30.14"
    assert it.nothing_restarted()


def test_a_runtime_that_cannot_be_started_is_one_that_does_not_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody may overrule that: what it shows once it runs is not known."""
    it = story()
    it.node.kubelet.behaviour["v1.33.13"] = Behaviour.EXITS
    start = it.node.services.start
    repaired = list[bool]()

    def starts_later(unit: str, *, wait: bool = True) -> None:
        if unit == "containerd.service" and not repaired:
            raise StepFailed("cannot start containerd.service because its dependency failed")
        start(unit, wait=wait)

    monkeypatch.setattr(it.node.services, "start", starts_later)
    it.node.calls.before("journal.append confirm-inventory undone", lambda: setattr(it.node.runtime, "broken", True))
    later(it, HOUR, lambda: repaired.append(True))
    it.node.ports = replace(it.node.ports, go_on=lambda: True)

    report = it.tell()

    assert well_again(it, report)
    assert [(record.step, record.reason) for record in held(it)] == [(Step.STOP_KUBELET, Reason.RUNTIME_DID_NOT_ANSWER)]
    assert "dependency failed" in (held(it)[0].error or "")


def test_somebody_may_say_go_on_later() -> None:
    it, wishes = lost(), list[bool]()
    later(it, 60, lambda: wishes.append(True))
    it.node.ports = replace(it.node.ports, go_on=lambda: bool(wishes))

    assert (it.tell().outcome, len(held(it))) == (Outcome.ROLLED_BACK, 1)


def test_what_has_provably_ended_is_not_waited_for() -> None:
    it = lost()

    def kill() -> None:
        [(containers, sandboxes)] = it.node.runtime.unseen.values()
        for stored in containers.values():
            stored.instance = replace(stored.instance, process=None)
        for name, sandbox in sandboxes.items():
            sandboxes[name] = replace(sandbox, process=None)

    later(it, 60, kill)

    assert it.tell().outcome is Outcome.ROLLED_BACK
    assert it.node.kubelet.violations == []


def test_after_a_reboot_nothing_is_expected() -> None:
    it = lost()

    def reboot() -> None:
        raise Crash(reboot=True)

    later(it, 60, reboot)
    report = supervise(it.node, it.plan)

    assert report is not None
    assert (report.outcome, report.rebooted) == (Outcome.ROLLED_BACK, True)


def test_a_runtime_that_was_restarted_again_while_the_executor_was_away_gets_no_new_kubelet() -> None:
    """Between the look at it and the start of the kubelet."""
    it = story()

    def away() -> None:
        it.node.runtime.troubles.elsewhere = True
        it.node.runtime.restart()
        later(it, 60, lambda: repair(it))
        raise Crash

    it.node.calls.before(START, away)

    report = it.tell()

    assert well_again(it, report)
    assert report.reason is Reason.RUNTIME_LOST_PODS


def test_a_runtime_that_loses_pods_after_the_hashes_were_put_back_gets_no_old_kubelet_either() -> None:
    it = story()
    it.node.kubelet.behaviour["v1.33.13"] = Behaviour.EXITS

    def lose() -> None:
        it.node.runtime.troubles.elsewhere = True
        it.node.runtime.restart()
        later(it, 60, lambda: repair(it))

    it.node.calls.before("journal.append confirm-inventory undone", lose)

    assert well_again(it, it.tell())
    assert [record.step for record in held(it)] == [Step.STOP_KUBELET]


@pytest.mark.parametrize("seconds", [30.0, 2 * HOUR])
def test_a_runtime_that_hangs_on_the_way_back_is_waited_for(seconds: float) -> None:
    it = story()
    troubles = it.node.runtime.troubles

    def hang() -> None:
        troubles.hangs = True
        it.node.timeline.after(seconds, lambda: setattr(troubles, "hangs", False))

    it.node.calls.before(RESTART, hang)

    report = it.tell()

    assert well_again(it, report)
    assert report.reason is Reason.RUNTIME_DID_NOT_ANSWER
    assert {record.reason for record in held(it)} <= {Reason.RUNTIME_DID_NOT_ANSWER}


def test_a_runtime_that_has_ended_and_that_systemd_has_given_up_is_started() -> None:
    """As after too many starts while its configuration was gone."""
    it = story()
    it.node.calls.before("journal.append read-back doing", lambda: setattr(it.node.runtime, "broken", True))

    report = it.tell()

    assert well_again(it, report)
    assert "services.start containerd.service" in it.node.calls.effects
    assert held(it) == []


def test_a_runtime_that_was_killed_under_the_shield_is_started() -> None:
    """Its socket is still there, and nobody listens at it, so that the shield cannot be lowered."""
    it = story(shield=True)
    it.node.kubelet.behaviour["v1.33.13"] = Behaviour.NEVER_HEALTHY
    it.node.calls.before("journal.append raise-shield undoing", lambda: setattr(it.node.runtime, "broken", True))

    report = it.tell()

    assert report.outcome is Outcome.ROLLED_BACK
    assert it.node.calls.effects.count("services.start containerd.service") == 1
    assert it.nothing_restarted()


def test_pods_whose_containers_crash_are_lost_besides_the_containers_that_ran() -> None:
    """More instances restart then than containers ran; what the node reports is valid all the same."""
    it = story(more=tuple(pod_json(f"loop-{number}", "main") for number in range(9)))
    for container in it.node.inventory().containers:
        if container.pod.name.startswith("loop-"):
            it.node.runtime.end(container.id, 1)
    it.plan = plan_for(it.node, "v1.33.13")
    ran = len(tuple(it.plan.baseline.running()))

    def reboot() -> None:
        raise Crash(reboot=True)

    it.node.calls.before(RESTART, reboot)
    report = supervise(it.node, it.plan)

    assert report is not None
    assert (report.rebooted, report.baseline, report.same) == (True, ran, 0)
    assert report.restarted > ran
    status = run_status("run", it.plan, parse(it.node.journal.data)[0])
    assert from_json(ContainerCounts, to_json(status.containers)) == status.containers
    assert f"{report.restarted} containers and sandboxes restarted, {ran} containers ran before" in status.message


def test_a_fence_that_is_removed_while_the_run_waits_to_start_the_old_kubelet_is_made_again() -> None:
    it, fenced = story(), list[bool]()
    it.node.kubelet.behaviour["v1.33.13"] = Behaviour.SICKENS

    def lose() -> None:
        it.node.runtime.troubles.elsewhere = True
        it.node.runtime.restart()

    it.node.calls.failpoints[at(Step.REWRITE_HASHES, When.UNDONE)] = lose

    def look() -> None:
        fenced.append(it.node.services.unit.fenced)
        repair(it)

    def remove() -> None:
        it.node.services.unit.fenced = False
        it.node.timeline.after(HOUR, look)

    later(it, HOUR, remove)

    report = it.tell()

    assert [record.step for record in held(it)] == [Step.STOP_KUBELET]
    assert fenced == [True]
    assert well_again(it, report)


def serve_no_cri_while_it_hangs(it: Story, monkeypatch: pytest.MonkeyPatch) -> None:
    runtime = it.node.runtime
    listed = runtime.inventory

    def inventory(*, full: bool = False, of: Collection[PodUid] = (), addresses: bool = False) -> Inventory:
        if runtime.troubles.hangs:
            raise Unimplemented("unknown service runtime.v1.RuntimeService")
        return listed(full=full, of=of, addresses=addresses)

    monkeypatch.setattr(runtime, "inventory", inventory)


def test_a_runtime_that_has_started_without_its_cri_is_restarted(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its plugin could not be loaded, as without inotify instances: it is active all the same, and stays like that."""
    it, waited = story(), list[bool]()
    runtime = it.node.runtime
    serve_no_cri_while_it_hangs(it, monkeypatch)

    def without_cri() -> None:
        runtime.troubles.hangs = True
        it.node.calls.before(RESTART, lambda: setattr(runtime.troubles, "hangs", False))

    def an_hour_later() -> None:
        waited.append(runtime.troubles.hangs)
        runtime.troubles.hangs = False

    it.node.calls.failpoints[RUNTIME_RESTARTED] = without_cri
    later(it, HOUR, an_hour_later)

    report = it.tell()

    assert well_again(it, report)
    assert report.reason is Reason.RUNTIME_DID_NOT_ANSWER
    assert True not in waited, "nobody has tried anything"
    assert it.node.calls.effects.count(RESTART) <= 3, "and not again and again"
