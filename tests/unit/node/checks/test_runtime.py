"""Tests the checks of the container runtime."""

from dataclasses import replace

from nodeupgrade.api.reasons import Reason
from nodeupgrade.node.checks import registry
from nodeupgrade.node.checks.runtime import logs_are_in_the_journal, runtime_is_proven
from nodeupgrade.node.runtimes.description import RuntimeInfo
from tests.builders.sound import facts, socket, unit


def test_a_runtime_that_does_not_log_to_the_journal_is_warned_of() -> None:
    (finding,) = logs_are_in_the_journal(facts(runtime_unit=unit("containerd.service", output="StandardError=append")))

    assert (finding.reason, finding.forbids) == (Reason.POD_EXPECTED_TO_END, False)
    assert "containerd.service has StandardError=append," in finding.detail
    assert tuple(logs_are_in_the_journal(facts())) == ()


def test_a_runtime_that_was_never_run_is_refused_until_somebody_accepts_that() -> None:
    found = facts()
    assert list(runtime_is_proven(found)) == []

    found = replace(found, runtime_found=replace(found.runtime_found, unproven="never tried"))
    (finding,) = runtime_is_proven(found)
    assert (finding.reason, "never tried" in finding.detail) == (Reason.RUNTIME_UNPROVEN, True)
    assert runtime_is_proven.acceptable


def test_nothing_is_said_of_the_socket_of_another_runtime() -> None:
    seen = facts(runtime=RuntimeInfo(name="cri-o", version="1", cri_versions=("v1",)), socket=socket(mounted=True))

    assert registry.warnings(seen) == ()
