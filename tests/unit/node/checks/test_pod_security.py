"""Tests the checks of user namespaces."""

import pytest

from nodeupgrade.api.reasons import Reason
from nodeupgrade.findings.check import ask
from nodeupgrade.node.checks.facts import Admission, HostFacts
from tests.builders.admission_record_cases import CHECKS, NAMESPACES, USERNS, WARNINGS
from tests.builders.admitted import admission, pod, recorded, running, userns


@pytest.mark.parametrize(("reason", "found", "told"), NAMESPACES.values(), ids=NAMESPACES.keys())
def test_a_record_of_a_user_namespace_is_refused(reason: Reason, found: Admission, told: str) -> None:
    [finding] = ask(CHECKS, found)

    assert (finding.reason, finding.forbids) == (reason, True)
    assert told in finding.detail


def test_a_user_whose_ids_nobody_lists_keeps_a_kubelet_from_starting() -> None:
    without = HostFacts(lacks_getsubids=True)

    [finding] = ask(CHECKS, admission(pod(), host=without, versions=("v1.32.2", "v1.33.1")))
    assert (finding.reason, "no program getsubids" in finding.detail) == (Reason.KUBELET_WOULD_NOT_START, True)
    assert not ask(CHECKS, admission(pod(), host=without, versions=("v1.31.1", "v1.32.2")))
    assert not ask(CHECKS, admission(pod(), host=without, versions=("v1.33.1", "v1.34.2"))), "the old one has started"
    off = admission(pod(), host=without, versions=("v1.32.2", "v1.33.1"), gates={"UserNamespacesSupport": False})
    assert not ask(CHECKS, off)


@pytest.mark.parametrize(
    "sound",
    [
        admission(running(pod(**USERNS)), host=recorded(web=userns(65536)), versions=("v1.33.1", "v1.34.2")),
        admission(
            running(pod(**USERNS)),
            host=recorded(web=userns(131072, 131072)),
            config=b"userNamespaces: {idsPerPod: 131072}",
            versions=("v1.33.1", "v1.34.2"),
        ),
        admission(running(pod(**USERNS)), host=recorded(web=b"{"), versions=("v1.31.1", "v1.32.2")),
        admission(pod(**USERNS), versions=("v1.33.1", "v1.34.2")),
        admission(running(pod(hostUsers=True)), versions=("v1.33.1", "v1.34.2")),
    ],
    ids=["as written", "of another length", "without the feature", "not started yet", "of the host"],
)
def test_a_sound_user_namespace_is_no_matter(sound: Admission) -> None:
    assert (*ask(CHECKS, sound), *ask(WARNINGS, sound)) == ()
