"""A pod whose regular containers have ended is over: a kubelet stops its sidecars, and no shield is in its way."""

from collections.abc import Callable
from dataclasses import replace
from math import inf
from typing import Any

import pytest

from nodeupgrade.api.reasons import Reason
from nodeupgrade.api.task.step import Step
from nodeupgrade.errors import StepFailed
from nodeupgrade.node.failpoints.failpoints import When, at
from nodeupgrade.node.journal.journal import Mark, Outcome, parse
from nodeupgrade.node.plan.plan import Limits
from nodeupgrade.node.run.container_watch import LOOK_SECONDS
from nodeupgrade.node.run.kubelet_health import STAYS_UP_SECONDS
from nodeupgrade.node.runtimes.inventory import ContainerState, Inventory
from nodeupgrade.node.shield.harmful_calls import EXCUSE_SECONDS
from tests.doubles.node import Behaviour, plan_for, pod_json, supervisor
from tests.scenario.node_run.test_node_run import Story, story
from tests.scenario.node_run.test_settling import SETTLING, seconds_until_stopped, while_settling
from tests.scenario.node_run.test_shield import wrongly_planned


def batch(restart_policy: str = "Never", *, regular: tuple[str, ...] = ("main",), shield: bool = True) -> Story:
    """A node with a Job that has a native sidecar; kubelet 1.30 has that feature."""
    return story(more=(pod_json("batch", *regular, sidecars=("proxy",), restart_policy=restart_policy),), shield=shield)


def states(it: Story) -> dict[str, ContainerState]:
    return {c.name: c.state for c in it.node.inventory().containers if c.pod.name == "batch"}


@pytest.mark.parametrize("shield", [True, False], ids=["shield", "no shield"])
@pytest.mark.parametrize(
    ("policy", "exit_code"), [("Never", 0), ("Never", 1), ("OnFailure", 0)], ids=["done", "failed", "on failure"]
)
def test_a_sidecar_goes_with_the_last_regular_container(policy: str, exit_code: int, shield: bool) -> None:
    it = batch(policy, shield=shield)
    while_settling(it, lambda: it.node.runtime.end(it.container("main"), exit_code))

    report = it.tell()

    assert (report.outcome, report.restarted) == (Outcome.UPGRADED, 0), report
    assert set(report.ended) >= {"default/batch/proxy"}
    assert states(it) == {"main": ContainerState.EXITED, "proxy": ContainerState.EXITED}
    assert it.node.shield.refused() == ()
    assert not any(s.ready for s in it.node.inventory().sandboxes if s.pod.name == "batch")


def test_a_pod_with_another_regular_container_is_not_over() -> None:
    it = batch(regular=("main", "other"))
    while_settling(it, lambda: it.node.runtime.end(it.container("main"), 0))

    report = it.tell()

    assert (report.outcome, report.restarted) == (Outcome.UPGRADED, 0)
    assert states(it)["proxy"] is ContainerState.RUNNING


def test_the_old_kubelet_may_end_it_too() -> None:
    it = batch()
    it.node.kubelet.behaviour["v1.33.13"] = Behaviour.SICKENS
    ends = at(Step.STOP_KUBELET, When.UNDONE)
    it.node.calls.failpoints[ends] = lambda: it.node.runtime.end(it.container("main"), 0)

    report = it.tell()

    assert (report.outcome, report.reason) == (Outcome.ROLLED_BACK, Reason.VERIFICATION_FAILED)
    assert states(it) == {"main": ContainerState.EXITED, "proxy": ContainerState.EXITED}
    assert it.node.shield.refused() == ()
    assert report.restarted == 0, report


def in_one_process(it: Story, pod: str) -> Story:
    """Let all containers of a pod share one process with its sandbox, as in a virtual machine."""
    runtime = it.node.runtime
    [sandbox] = [s for s in runtime.sandboxes.values() if s.pod.name == pod]
    for stored in runtime.containers.values():
        if stored.instance.pod.name == pod:
            stored.instance = replace(stored.instance, process=sandbox.process)
    it.plan = it.node.shield.plan = plan_for(it.node, "v1.33.13", limits=it.plan.limits)
    return it


@pytest.mark.parametrize("exit_code", [0, 1])
def test_a_container_that_shares_its_process_ends_for_the_runtime(exit_code: int) -> None:
    it = in_one_process(story(), "web")
    while_settling(it, lambda: it.node.runtime.end(it.container("nginx"), exit_code))

    report = it.tell()

    assert (report.outcome, report.restarted) == (Outcome.UPGRADED, 0), report
    assert report.ended == ("default/web/nginx",)
    assert it.node.shield.refused() == ()
    assert "nginx" in {c.name for c in it.node.inventory().running()}


def test_a_container_that_shares_its_process_and_ended_does_not_hold_the_rollback() -> None:
    it = in_one_process(story(), "web")
    it.node.kubelet.behaviour["v1.33.13"] = Behaviour.SICKENS
    it.node.calls.before("shield.lower", lambda: it.node.runtime.end(it.container("nginx"), 1))

    report = it.tell()

    assert report.outcome is Outcome.ROLLED_BACK
    assert parse(it.node.journal.data)[0].first(Step.STOP_KUBELET, Mark.HELD) is None
    assert it.kubelet == "v1.30.14"


def test_a_container_that_shares_its_process_is_protected_while_it_runs() -> None:
    it = wrongly_planned(in_one_process(story(), "web"), "nginx")

    report = it.tell()

    assert (report.outcome, report.reason) == (Outcome.ROLLED_BACK, Reason.SHIELD_REFUSED_CALL)
    assert it.node.kubelet.replaced == []


def collect(it: Story, pod: str) -> None:
    """Let a kubelet remove what a runtime keeps of a pod that is over and was deleted, as it does at once or later."""
    runtime, gone = it.node.runtime, {s.id for s in it.node.inventory().sandboxes if s.pod.name == pod}
    it.node.kubelet.pods = [each for each in it.node.kubelet.pods if each.ref.name != pod]
    runtime.containers = {k: v for k, v in runtime.containers.items() if v.instance.sandbox_id not in gone}
    runtime.sandboxes = {k: v for k, v in runtime.sandboxes.items() if k not in gone}


def collect_containers(it: Story, pod: str) -> None:
    """Let a kubelet remove the containers of such a pod and stop its sandbox, which it removes up to a minute later."""
    stopped = {k: replace(s, ready=False, process=None) for k, s in it.node.runtime.sandboxes.items()
               if s.pod.name == pod}  # fmt: skip
    collect(it, pod)
    it.node.runtime.sandboxes |= stopped


@pytest.mark.parametrize("collected", [collect, collect_containers])
@pytest.mark.parametrize("shield", [True, False], ids=["shield", "no shield"])
@pytest.mark.parametrize("exit_code", [0, 1])
def test_what_is_left_of_a_pod_that_is_over_may_be_removed(
    exit_code: int, shield: bool, collected: Callable[[Story, str], None]
) -> None:
    """A finished pod that is deleted: its end was seen, so that nothing is damaged once its containers are gone."""
    it = story(shield=shield)

    def ends() -> None:
        it.node.runtime.end(it.container("work"), exit_code)
        it.node.timeline.after(2.0, lambda: collected(it, "job"))

    while_settling(it, ends, seconds=1.0)

    report = it.tell()

    assert (report.outcome, report.restarted) == (Outcome.UPGRADED, 0), report


@pytest.mark.parametrize("exit_code", [0, 1])
def test_control_what_is_gone_and_was_not_seen_to_end_is_damage(exit_code: int) -> None:
    it = story()

    def ends() -> None:
        it.node.runtime.end(it.container("work"), exit_code)
        collect(it, "job")

    while_settling(it, ends, seconds=1.0)

    report = it.tell()

    assert (report.outcome, report.restarted) == (Outcome.ROLLED_BACK, 1), report


def test_the_old_kubelet_may_remove_it_too() -> None:
    """The last look at a node that was turned back comes seconds after the old kubelet runs again."""
    it = story()
    it.node.kubelet.behaviour["v1.33.13"] = Behaviour.SICKENS

    def ends() -> None:
        it.node.runtime.end(it.container("work"), 0)
        it.node.timeline.after(2.0, lambda: collect(it, "job"))

    it.node.calls.failpoints[at(Step.STOP_KUBELET, When.UNDONE)] = lambda: it.node.timeline.after(1.0, ends)

    report = it.tell()

    assert (report.outcome, report.restarted) == (Outcome.ROLLED_BACK, 0), report


@pytest.mark.parametrize("shield", [True, False], ids=["shield", "no shield"])
def test_a_look_on_the_way_that_fails_ends_no_executor(monkeypatch: pytest.MonkeyPatch, shield: bool) -> None:
    """No decision depends on it: the old kubelet runs again, and its shield is to be lowered."""
    it = story(shield=shield)
    it.node.kubelet.behaviour["v1.33.13"] = Behaviour.SICKENS
    lists, until, failed = it.node.runtime.inventory, [inf, inf], list[float]()

    def fails(**how: Any) -> Inventory:
        if until[0] <= it.node.timeline.monotonic < until[1]:
            failed.append(it.node.timeline.monotonic)
            raise StepFailed("cannot list containers: the answer is too large")
        return lists(**how)

    def begins() -> None:
        longest = 3.0 if shield else STAYS_UP_SECONDS + 1.0  # without a shield nobody looks until it has stayed up
        until[:] = [it.node.timeline.monotonic + 0.1, it.node.timeline.monotonic + longest]

    monkeypatch.setattr(it.node.runtime, "inventory", fails)
    monkeypatch.setattr(supervisor, "ATTEMPTS", 1)
    it.node.calls.failpoints[at(Step.STOP_KUBELET, When.UNDONE)] = begins

    report = it.tell()

    assert failed
    assert (report.outcome, report.restarted, report.looked) == (Outcome.ROLLED_BACK, 0, True), report


@pytest.mark.parametrize("begins", [False, True], ids=["turned back at once", "after the new kubelet"])
def test_what_ends_by_itself_under_the_old_kubelet_is_no_damage_if_no_other_has_run(begins: bool) -> None:
    """A runtime's log covers all that one kubelet has requested, and not what another one has before a restart."""
    it = story()
    if begins:
        it.node.kubelet.behaviour["v1.33.13"] = Behaviour.SICKENS
    else:
        it.node.calls.failpoints[at(Step.CONFIRM_INVENTORY, When.ANNOUNCED)] = lambda: it.node.runtime.end(
            it.container("log"), 1
        )
    it.node.calls.failpoints[at(Step.STOP_KUBELET, When.UNDONE)] = lambda: it.node.timeline.after(
        1.0, lambda: it.node.runtime.end(it.container("work"), 1)
    )

    report = it.tell()

    assert report.outcome is Outcome.ROLLED_BACK
    assert ("default/job/work" in report.listed) is begins
    assert ("default/job/work" in report.ended) is not begins


@pytest.mark.parametrize(
    ("sidecar", "policy"), [(False, "OnFailure"), (True, "Never")], ids=["regular container", "sidecar"]
)
def test_what_is_gone_and_would_have_been_started_again_is_damage(sidecar: bool, policy: str) -> None:
    """It failed by itself, which ends no such pod: a kubelet starts it again, and nobody but its owner ends it."""
    pod = pod_json("single", "only", sidecars=("proxy",) if sidecar else (), restart_policy=policy)
    it = story(shield=False, more=(pod,))

    def ends() -> None:
        it.node.runtime.end(it.container("proxy" if sidecar else "only"), 1)
        it.node.timeline.after(2.0, lambda: collect(it, "single"))

    while_settling(it, ends, seconds=1.0)

    report = it.tell()

    assert report.outcome is Outcome.ROLLED_BACK, report
    assert f"default/single/{'proxy' if sidecar else 'only'}" in report.listed


def test_what_is_gone_of_a_pod_that_does_not_end_by_itself_is_damage() -> None:
    """Its container ended by itself, and runs again; nobody but its owner ends such a pod, and that is not shown."""
    it = story(shield=False, more=(pod_json("single", "only"),))

    def ends() -> None:
        it.node.runtime.end(it.container("only"), 1)
        it.node.timeline.after(2.0, lambda: collect(it, "single"))

    while_settling(it, ends, seconds=1.0)

    report = it.tell()

    assert (report.outcome, report.restarted) == (Outcome.ROLLED_BACK, 1), report


@pytest.mark.parametrize("asked", [True, False], ids=["asked to stop", "done"])
def test_a_job_that_exits_with_0_has_completed_unless_it_was_asked_to_stop(asked: bool) -> None:
    """Without the shield, only the runtime's log tells a Job that a kubelet has ended from one that is done."""
    it = story(shield=False)
    work = it.container("work")
    it.node.runtime.troubles.exits_when_stopped[work] = 0
    while_settling(it, lambda: it.node.runtime.stop_container(work) if asked else it.node.runtime.end(work, 0))

    report = it.tell()

    if asked:
        assert (report.outcome, report.reason) == (Outcome.ROLLED_BACK, Reason.CONTAINER_RESTARTED), report
        assert report.listed == ("default/job/work",)
    else:
        assert (report.outcome, report.restarted) == (Outcome.UPGRADED, 0), report


def test_a_kubelet_that_ends_a_job_is_stopped_at_once_and_not_at_the_end_of_the_settle_period() -> None:
    it = story(shield=False, limits=Limits(settle=60.0))
    work = it.container("work")
    it.node.runtime.troubles.exits_when_stopped[work] = 0
    while_settling(it, lambda: it.node.runtime.stop_container(work))

    assert it.tell().reason is Reason.CONTAINER_RESTARTED
    assert seconds_until_stopped(it) < SETTLING + EXCUSE_SECONDS + 2 * LOOK_SECONDS


def test_a_job_that_its_prestop_hook_ends_long_before_it_is_asked_to_stop_was_ended() -> None:
    """A kubelet executes the hook first, and then asks, whatever has become of the container."""
    it = story(shield=False, limits=Limits(settle=60.0))
    work = it.container("work")

    def hook() -> None:
        it.node.runtime.end(work, 0)
        it.node.timeline.after(30.0, lambda: it.node.runtime.asked.add(work))

    while_settling(it, hook)

    assert it.tell().reason is Reason.CONTAINER_RESTARTED


@pytest.mark.parametrize("starts", [True, False], ids=["shield", "no shield"])
def test_exit_code_0_of_a_pods_last_container_proves_nothing_unless_the_shield_was_raised(starts: bool) -> None:
    """The runtime logs nothing; only the shield shows that nobody asked the container to stop."""
    it = batch()
    assert it.plan.shield is not None
    it.plan = replace(it.plan, shield=replace(it.plan.shield, required=False))
    it.node.runtime.troubles.silent = True
    it.node.shield.unstartable = not starts
    while_settling(it, lambda: it.node.runtime.end(it.container("main"), 0))

    report = it.tell()

    assert report.outcome is (Outcome.UPGRADED if starts else Outcome.ROLLED_BACK), report
    assert ("default/batch/proxy" in report.ended) is starts
