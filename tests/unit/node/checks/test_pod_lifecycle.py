"""Tests the checks of Pods that a kubelet upgrade interrupts or loses."""

from dataclasses import replace

import pytest

from nodeupgrade.api.reasons import Reason
from nodeupgrade.api.run_settings import RejectedPod
from nodeupgrade.findings.check import ask, checks_of
from nodeupgrade.kubelet.layout import read_layout
from nodeupgrade.node.checks import pod_lifecycle
from nodeupgrade.node.checks.facts import NodeFacts
from nodeupgrade.node.checks.pod_lifecycle import sidecars_keep_to_their_storage
from nodeupgrade.node.checks.resizing import resizes_are_over
from tests.builders import node_cases, sound
from tests.builders.lifecycle_cases import CAUTIONS, OBJECTIONS, facts, pod, rejecting, shown, with_sidecar
from tests.builders.sound import readiness

CHECKS = (*checks_of(pod_lifecycle, warns=False), resizes_are_over)
WARNINGS = checks_of(pod_lifecycle, warns=True)


@pytest.mark.parametrize(("reason", "found", "told", "control"), OBJECTIONS.values(), ids=OBJECTIONS.keys())
def test_what_would_be_interrupted_forbids_a_run(
    reason: Reason, found: NodeFacts, told: str, control: NodeFacts
) -> None:
    [finding] = ask(CHECKS, found)

    assert (finding.reason, finding.forbids) == (reason, True)
    assert told in finding.detail
    assert ask(CHECKS, control) == ()


@pytest.mark.parametrize(("reason", "found", "told", "control"), CAUTIONS.values(), ids=CAUTIONS.keys())
def test_what_could_be_lost_is_told_of(reason: Reason, found: NodeFacts, told: str, control: NodeFacts) -> None:
    [finding] = ask(WARNINGS, found)

    assert (finding.reason, finding.forbids) == (reason, False)
    assert told in finding.detail
    assert (*ask(WARNINGS, control), *ask(CHECKS, found)) == ()


def test_pods_that_have_ended_and_times_that_are_none_are_no_matter() -> None:
    over = pod(
        {"terminated": {}}, status={"phase": "Failed"}, metadata={"ownerReferences": []}, activeDeadlineSeconds=1
    )
    odd = pod(activeDeadlineSeconds=1, status={"startTime": "yesterday"}, last={"terminated": {"finishedAt": 7}})

    zoneless = pod(activeDeadlineSeconds=1, status={"startTime": "2026-11-21T11:00:00"})

    for body in (over, odd, zoneless):
        assert (*ask(CHECKS, facts(body)), *ask(WARNINGS, facts(body))) == ()


def test_what_nobody_names_no_kubelet_rejects() -> None:
    assert ask(CHECKS, rejecting(shown(ready=False, restarts=2))) == ()
    assert ask(CHECKS, rejecting(shown(ready=False, restarts=0), RejectedPod.RESTARTED_AND_NOT_READY)) == ()


def test_every_check_is_tried_by_some_case() -> None:
    tried = [found for _, found, _, _ in (*OBJECTIONS.values(), *CAUTIONS.values())]
    tried.append(sound.facts(**node_cases.DEFECTS["an update in place"][1]))

    assert [check.name for check in (*CHECKS, *WARNINGS) if not any(any(check(found)) for found in tried)] == []


@pytest.mark.parametrize(
    "found",
    [
        with_sidecar(versions=("v1.35.4", "v1.36.3")),
        with_sidecar(versions=("v1.37.0", "v1.37.2")),
        with_sidecar(sidecar={"restartPolicy": None}),
        with_sidecar(state={"terminated": {"exitCode": 0}}),
        with_sidecar(priority=2_000_000_000),
        replace(with_sidecar(), readiness=readiness(layout=read_layout((), b"localStorageCapacityIsolation: false"))),
    ],
    ids=["not yet", "already", "an init container", "over", "critical", "no limit counts"],
)
def test_a_limit_of_storage_for_which_no_pod_is_evicted_is_no_matter(found: NodeFacts) -> None:
    assert list(sidecars_keep_to_their_storage(found)) == []
