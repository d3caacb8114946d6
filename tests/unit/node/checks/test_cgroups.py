"""Tests the checks of cgroups."""

from nodeupgrade.findings.check import ask
from tests.builders.surroundings_cases import CHECKS, around, group


def test_a_pod_whose_cgroup_is_incomplete_is_named() -> None:
    (finding,) = ask(CHECKS, around(cgroups=group(incomplete={"default/web": ("cpuset",)})))

    assert finding.subject == "default/web"
    assert "delete the pod first" in finding.message
