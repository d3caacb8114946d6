"""Pods that run to completion while their node is upgraded: how they ended is known after their sandbox is stopped."""

from dataclasses import replace

import pytest

from nodeupgrade.api.values import ContainerId, SandboxId
from nodeupgrade.cluster.pods import parse_pod
from nodeupgrade.node.failpoints.failpoints import RUNTIME_RESTARTED
from nodeupgrade.node.journal.journal import Outcome
from nodeupgrade.node.verification.ended_pods import completing
from tests.doubles.node import pod_json
from tests.scenario.node_run.test_changes_until_the_stop import CHECKPOINT, recorded_devices, running, with_devices
from tests.scenario.node_run.test_changes_until_the_stop import story as before_the_stop
from tests.scenario.node_run.test_node_run import START, Story, story
from tests.scenario.node_run.test_settling import while_settling


def beginning(regular: str) -> tuple[Story, ContainerId, SandboxId]:
    """A pod of which `clone` runs: its regular container, or the init container of another that is to come."""
    it = story(more=(pod_json("ci", "clone", restart_policy="Never"),))
    whole = pod_json("ci", regular, restart_policy="Never")
    initial = [] if regular == "clone" else [{"name": "clone", "image": "registry.example/git:1"}]
    pod = completing(parse_pod({**whole, "spec": {**whole["spec"], "initContainers": initial}}))
    assert pod is not None
    it.plan = replace(it.plan, completing=(*(c for c in it.plan.completing if c.pod != pod.pod), pod))
    it.node.shield.plan = it.plan
    clone = it.container("clone")
    return it, clone, next(c.sandbox_id for c in it.plan.baseline.containers if c.id == clone)


def forget_pod(it: Story) -> None:
    """The double's kubelet does not know init containers, and would start it again."""
    it.node.kubelet.pods[:] = [pod for pod in it.node.kubelet.pods if pod.ref.name != "ci"]


@pytest.mark.parametrize("regular", ["clone", "build"], ids=["control", "init container"])
def test_an_init_container_that_fails_ends_its_pod(regular: str) -> None:
    it, clone, sandbox = beginning(regular)

    def fails() -> None:
        it.node.runtime.end(clone, 1)
        forget_pod(it)
        it.node.timeline.advance(0.1)
        it.node.runtime.stop_sandbox(sandbox)

    while_settling(it, fails)

    report = it.tell()

    assert (report.outcome, report.restarted) == (Outcome.UPGRADED, 0), report.message


@pytest.mark.parametrize("regular", ["clone", "build"], ids=["control", "init container"])
def test_one_of_which_the_runtime_has_lost_how_it_ended_does_too(regular: str) -> None:
    it, clone, sandbox = beginning(regular)

    def lost() -> None:
        it.node.runtime.end(clone, 255)
        forget_pod(it)

    it.node.calls.failpoints[RUNTIME_RESTARTED] = lost
    while_settling(it, lambda: it.node.runtime.stop_sandbox(sandbox))

    report = it.tell()

    assert (report.outcome, report.restarted) == (Outcome.UPGRADED, 0), report.message


@pytest.mark.parametrize("sidecars", [(), ("proxy",)], ids=["alone", "with a sidecar"])
@pytest.mark.parametrize("shield", [True, False], ids=["shield", "no shield"])
@pytest.mark.parametrize("completes", [True, False], ids=["completes", "control"])
def test_a_container_that_fails_once_and_then_completes_was_ended_by_nobody(
    completes: bool, shield: bool, sidecars: tuple[str, ...]
) -> None:
    it = story(more=(pod_json("batch", "main", sidecars=sidecars, restart_policy="OnFailure"),), shield=shield)
    first = it.container("main")

    def complete() -> None:
        [again] = [c.id for c in it.node.inventory().running() if c.name == "main"]
        assert again != first
        it.node.runtime.end(again, 0)

    def fail() -> None:
        it.node.timeline.after(1.0, lambda: it.node.runtime.end(first, 1))
        if completes:
            it.node.timeline.after(3.0, complete)

    it.node.calls.before(START, fail)

    report = it.tell()

    assert (report.outcome, report.restarted) == (Outcome.UPGRADED, 0), report.message


@pytest.mark.parametrize("policy", ["Never", "OnFailure"])
def test_a_sidecar_that_crashes_once_before_its_pod_is_over_was_ended_by_nobody(policy: str) -> None:
    it = story(more=(pod_json("batch", "main", sidecars=("proxy",), restart_policy=policy),))
    proxy, main = it.container("proxy"), it.container("main")

    def end() -> None:
        it.node.timeline.after(1.0, lambda: it.node.runtime.end(proxy, 1))
        it.node.timeline.after(3.0, lambda: it.node.runtime.end(main, 0))

    it.node.calls.before(START, end)

    report = it.tell()

    assert (report.outcome, report.restarted) == (Outcome.UPGRADED, 0), report.message


@pytest.mark.parametrize(("policy", "over"), [("Never", True), ("OnFailure", False)])
def test_a_container_with_devices_that_fails_before_the_stop_ends_its_pod_unless_it_is_retried(
    policy: str, over: bool
) -> None:
    """A kubelet that starts would reject the pod."""
    pod = with_devices("train")
    pod = parse_pod({**pod.raw, "spec": {**pod.spec, "restartPolicy": policy}})
    it = before_the_stop("v1.35.4", new="v1.36.0", more=(pod,), disk={CHECKPOINT: recorded_devices(pod)})
    it.node.calls.before("services.mask kubelet.service", lambda: it.node.runtime.end(running(it)["train"], 1))

    assert (it.tell().outcome is Outcome.UPGRADED) is over
