"""Tests the checks of a kubelet's startup."""

from nodeupgrade.api.reasons import Reason
from nodeupgrade.findings.check import ask, checks_of
from nodeupgrade.node.checks import changed_settings, startup
from tests.builders.sound import readiness


def test_a_setting_that_is_ignored_is_warned_of() -> None:
    said = 'I1120 codec.go:100] "Using lenient decoding" err="strict decoding error: unknown field \\"runOnce\\""'

    [finding] = ask(
        checks_of(startup, changed_settings, warns=True), readiness(dry_run=f"{said}\n{readiness().dry_run}")
    )

    assert finding.reason is Reason.SETTING_IGNORED
    assert finding.detail.endswith("of its configuration: runOnce")
