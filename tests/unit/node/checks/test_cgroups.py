"""Tests the checks of cgroups."""

from nodeupgrade.api.reasons import Reason
from nodeupgrade.findings.check import ask
from tests.builders.surroundings_cases import CHECKS, around, group


def test_a_pod_whose_cgroup_is_incomplete_is_named() -> None:
    (finding,) = ask(CHECKS, around(cgroups=group(incomplete={"default/web": ("cpuset",)})))

    assert finding.subject == "default/web"
    assert (finding.reason, "delete the pod first" in finding.message) == (Reason.POD_CGROUP_WOULD_CHANGE, True)


def test_a_pod_that_ended_meanwhile_is_a_reason_that_passes() -> None:
    lost = group(incomplete={"default/web": ("cpuset",)}, ended=frozenset({"default/web"}))

    assert [finding.reason for finding in ask(CHECKS, around(cgroups=lost))] == [Reason.POD_IN_TRANSITION]
