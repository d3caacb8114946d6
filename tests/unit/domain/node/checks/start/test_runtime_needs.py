"""What a run, and a kubelet to come, need of the runtime."""

from dataclasses import replace

import pytest

from nodeupgrade.api.reasons import Reason
from nodeupgrade.findings.check import ask
from nodeupgrade.kubelethash import KubeletVersion
from nodeupgrade.node.checks.kubelet import runtime_is_understood
from nodeupgrade.node.checks.runtime import logs_are_in_the_journal
from tests.unit.domain.node.checks.sound import facts, unit

V = KubeletVersion.parse


@pytest.mark.parametrize(
    ("target", "driver", "told"),
    [("v1.37.2", None, 0), ("v1.38.0", None, 1), ("v1.38.0", "systemd", 0), ("v1.38.0", "cgroupfs", 0)],
)
def test_a_runtime_that_reports_no_cgroup_driver_is_not_enough_from_1_38_on(
    target: str, driver: str | None, told: int
) -> None:
    seen = facts(target=V(target))

    found = ask((runtime_is_understood,), replace(seen, runtime=replace(seen.runtime, cgroup_driver=driver)))

    assert [(each.reason, each.forbids) for each in found] == [(Reason.UNSUPPORTED_RUNTIME, True)] * told
    assert all("RuntimeConfig" in each.detail for each in found)


def test_a_runtime_that_does_not_log_to_the_journal_is_warned_of() -> None:
    (finding,) = logs_are_in_the_journal(facts(runtime_unit=unit("containerd.service", output="StandardError=append")))

    assert (finding.reason, finding.forbids) == (Reason.POD_ENDS_BY_ITSELF, False)
    assert "containerd.service has StandardError=append," in finding.detail
    assert tuple(logs_are_in_the_journal(facts())) == ()
