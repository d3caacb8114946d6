"""Tests the checks of Pods that a starting kubelet would reject, each with a control."""

from dataclasses import replace
from typing import Any

import pytest

from nodeupgrade.api.reasons import Reason
from nodeupgrade.cluster.pods import parse_pod
from nodeupgrade.findings.check import ask
from nodeupgrade.node.checks.facts import Admission
from nodeupgrade.node.checks.registry import OF_ADMISSION
from tests.builders.admission_cases import BACK_OFF, CASES
from tests.builders.admitted import GPU, PLENTY, admission, beside, pod

CHECKS = [check for check in OF_ADMISSION if not check.warns]


@pytest.mark.parametrize(("found", "told", "control"), CASES.values(), ids=CASES.keys())
def test_a_pod_that_would_be_killed_is_told_of_and_no_other(found: Admission, told: str, control: Admission) -> None:
    [finding] = ask(CHECKS, found)

    assert finding.reason is Reason.POD_WOULD_NOT_BE_ADMITTED
    assert told in finding.detail
    assert list(ask(CHECKS, control)) == []


def test_pods_that_have_ended_count_for_nothing() -> None:
    ended = {**pod("b", os={"name": "windows"}), "status": {"phase": "Failed"}}

    assert list(ask(CHECKS, admission(pod("a"), ended, config=b"maxPods: 1"))) == []


WITH_DEVICES = admission(pod(resources=GPU), capacity=PLENTY, versions=("v1.35.4", "v1.36.1"))


@pytest.mark.parametrize(
    "state",
    [
        {"waiting": {"reason": "ContainerCreating"}},
        {"waiting": {"reason": "PodInitializing"}},
        {"terminated": {"exitCode": 0}},
        {"running": {}},
    ],
    ids=["being started", "behind init containers", "over, as its pod is soon", "running until a moment ago"],
)
def test_a_container_with_devices_that_does_not_run_beside_another_one_is_waited_for(state: dict[str, Any]) -> None:
    found = beside(WITH_DEVICES, **state)
    [finding] = ask(CHECKS, replace(found, running=frozenset({(found.pods[0].ref, "app")})))

    assert finding.reason is Reason.POD_IN_TRANSITION
    assert "not all containers that hold them run (other)" in finding.detail


def of(found: Admission, states: dict[str, Any], *, sandbox: bool = True, **metadata: str) -> Admission:
    """The same, where no container of its pod runs; the API server shows these states."""
    [web] = found.pods
    statuses = [{"name": name, "state": state} for name, state in states.items()]
    body = {**web.raw, "metadata": {**web.metadata, **metadata}, "status": {"containerStatuses": statuses}}
    return replace(found, pods=(parse_pod(body),), begun=frozenset({web.ref} if sandbox else ()))


@pytest.mark.parametrize(
    ("state", "reason"),
    [
        ({"waiting": {"reason": "ImagePullBackOff"}}, Reason.POD_WOULD_NOT_BE_ADMITTED),
        ({"waiting": {"reason": "ContainerCreating"}}, Reason.POD_IN_TRANSITION),
        ({"terminated": {"exitCode": 1}}, Reason.POD_IN_TRANSITION),
    ],
    ids=["backs off", "image is pulled", "crashed"],
)
def test_a_pod_with_devices_of_which_nothing_runs_would_be_rejected_too(state: dict[str, Any], reason: Reason) -> None:
    """Its sandbox is there, and the kubelet would stop that."""
    [finding] = ask(CHECKS, of(WITH_DEVICES, {"app": state}))

    assert (finding.reason, "not all containers that hold them run (app)" in finding.detail) == (reason, True)


@pytest.mark.parametrize(
    "found",
    [
        of(WITH_DEVICES, {}, sandbox=False),
        of(WITH_DEVICES, {"app": {"waiting": {"reason": "ContainerCreating"}}}, sandbox=False),
        of(WITH_DEVICES, {"app": {"terminated": {"exitCode": 0}}}, sandbox=False),
        of(WITH_DEVICES, {"app": {"waiting": BACK_OFF}}, deletionTimestamp="2026-01-01T00:00:00Z"),
        of(replace(WITH_DEVICES, running=frozenset({(WITH_DEVICES.pods[0].ref, "app")})), {}),
    ],
    ids=["nothing has begun", "its volumes are mounted", "over as a whole", "being deleted", "running"],
)
def test_a_pod_with_devices_to_which_their_allocation_does_no_harm_is_none(found: Admission) -> None:
    assert list(ask(CHECKS, found)) == []
