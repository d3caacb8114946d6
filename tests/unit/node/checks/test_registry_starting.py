"""Tests the checks of the host and the settings that a kubelet starts with."""

from datetime import timedelta
from typing import Any

import pytest

from nodeupgrade.api.reasons import Reason
from nodeupgrade.findings.check import ask
from nodeupgrade.node.checks.host import PROCESS_BYTES
from nodeupgrade.node.checks.startup import Identity, StartingHost
from nodeupgrade.node.host.files.files import DiskUsage
from tests.builders.sound import readiness, unit
from tests.builders.starting_cases import (
    BORN,
    CERT,
    CHECKS,
    DEFECTS,
    END,
    KERNEL,
    LIMITED,
    MIB,
    OLDER,
    START_WARNINGS,
    SWAPPING,
    SWAPS,
    TOKENS,
    V,
    disks,
    given,
    identity,
    layout,
    memory,
    provider,
    providers,
)

THROTTLED = layout(config=b"memoryThrottlingFactor: 0.8")
TO_1_37 = {"current": V("v1.36.3"), "target": V("v1.37.2")}


LEFT = {
    "no cloud": {"layout": layout("--cloud-provider=external"), **OLDER},
    "a cloud that was turned on": {
        "layout": layout("--cloud-provider=azure", "--feature-gates=DisableCloudProviders=false"),
        "current": V("v1.29.0"), "target": V("v1.30.14"),
    },
    "a cloud that is still there": {
        "layout": layout("--cloud-provider=gce"), "current": V("v1.26.15"), "target": V("v1.28.15")
    },
    "a usable credential provider": {"host": providers(provider(args=["x"], env=[]))},
    "a credential provider that gets tokens": {
        "host": providers(provider(tokenAttributes=TOKENS)), "current": V("v1.34.4"), "target": V("v1.36.3"),
    },
    "tokens for credential providers before unknown fields were refused": {
        "host": providers(provider(tokenAttributes=TOKENS)), **OLDER,
    },
    "tokens for credential providers by a gate that is turned on": {
        "host": providers(provider(tokenAttributes={"serviceAccountTokenAudience": "a"})),
        "layout": layout("--feature-gates=KubeletServiceAccountTokenForCredentialProviders=true"),
    },
    "a misspelt field before 1.32": {"host": providers(provider(more=1)), **OLDER},
    "credential providers that are not used yet": {
        "host": given(b"]"), "current": V("v1.20.15"), "target": V("v1.22.0"),
    },
    "no swap": {"host": StartingHost(swaps=b"Filename\tType\n")},
    "swap that is meant": {"host": StartingHost(swaps=SWAPS), "layout": layout(config=b"failSwapOn: false")},
    "swap that is limited on cgroup v2": {**SWAPPING, "cgroup_v2": True},
    "swap that is limited before 1.30": {**SWAPPING, "current": V("v1.28.1"), "target": V("v1.29.1")},
    "swap whose gate is off": {**SWAPPING, "layout": layout("--feature-gates=NodeSwap=false", config=LIMITED)},
    "kernel settings that the kubelet sets itself": {"host": StartingHost(kernel={"kernel/panic": "0"})},
    "kernel settings that are right": {
        "layout": layout("--protect-kernel-defaults=true"), "host": StartingHost(kernel=KERNEL),
    },
    "a certificate": {"host": identity(END - timedelta(hours=2))},
    "a token": {"host": StartingHost(identity=Identity(now=BORN))},
    "an old certificate beside a new one": {
        "host": StartingHost(identity=Identity(now=END - timedelta(hours=2), certificates={"a": b"old", "b": CERT})),
    },
    "a watchdog": {
        "units": (unit("kubelet.service", watchdog="30s"),), "current": V("v1.32.0"), "target": V("v1.33.13"),
    },
    "room": {"host": disks()},
    "few inodes before 1.30": {
        "host": disks(imagefs=DiskUsage(size=1000, free=500, inodes=1000, free_inodes=0)),
        "current": V("v1.28.0"), "target": V("v1.29.0"),
    },
    "memory that huge pages of another size have before 1.37": {
        "host": memory(available=PROCESS_BYTES + 99 * MIB, Hugetlb=1024 * MIB),
        "current": V("v1.35.4"), "target": V("v1.36.3"),
    },
    "memory that huge pages have before 1.37": {
        "host": memory(available=PROCESS_BYTES + 99 * MIB, pages=512),
        "current": V("v1.35.4"), "target": V("v1.36.3"),
    },
    "memory without a threshold": {
        "host": memory(available=0), "layout": layout(config=b"evictionHard: {nodefs.available: 5%}"),
    },
    "a status that a restart resets before 1.35": {
        "layout": layout("--feature-gates=ChangeContainerStatusOnKubeletRestart=true"),
    },
    "events without a limit that are none yet": {"layout": layout(config=b"eventRecordQPS: 0")},
    "a factor that is not used on cgroup v1": {
        **TO_1_37, "cgroup_v2": False,
        "layout": layout(config=b"memoryThrottlingFactor: 0.8\nfailCgroupV1: false"),
    },
    "a factor that is used already": {"layout": THROTTLED, "current": V("v1.37.0"), "target": V("v1.37.2")},
    "thresholds that are off": {
        "host": disks(nodefs=DiskUsage(size=1000, free=0, inodes=1, free_inodes=0)),
        "layout": layout(config=b"evictionHard: {nodefs.available: 0%}"),
    },
}  # fmt: skip


@pytest.mark.parametrize(("reason", "defect", "told"), DEFECTS.values(), ids=DEFECTS.keys())
def test_a_defect_is_named_once_with_what_to_do(reason: Reason, defect: dict[str, Any], told: str) -> None:
    [finding] = ask(CHECKS, readiness(**defect))

    assert finding.reason is reason
    assert told in finding.detail


@pytest.mark.parametrize("fine", LEFT.values(), ids=LEFT.keys())
def test_what_does_no_harm_is_let_pass(fine: dict[str, Any]) -> None:
    assert list(ask((*CHECKS, *START_WARNINGS), readiness(**fine))) == []


def test_thresholds_are_merged_with_the_default_where_that_is_asked_for() -> None:
    nearly_full = disks(nodefs=DiskUsage(size=1000, free=1, inodes=0, free_inodes=0))
    apart = b"evictionHard: {memory.available: 1Gi}"

    assert not list(ask(CHECKS, readiness(host=nearly_full, layout=layout(config=apart))))
    assert list(
        ask(CHECKS, readiness(host=nearly_full, layout=layout(config=apart + b"\nmergeDefaultEvictionSettings: true")))
    )


@pytest.mark.parametrize(
    ("changed", "told"),
    [
        ({"layout": layout(config=b"eventRecordQPS: 0")}, "eventRecordQPS: 0 is no limit for kubelet v1.37.2"),
        ({"layout": layout("--event-qps=0")}, "eventRecordQPS: 0 is no limit"),
        (
            {"layout": THROTTLED, "cgroup_v2": True},
            "throttles containers for their memory by memoryThrottlingFactor: 0",
        ),
    ],
)
def test_a_setting_with_another_meaning_is_told(changed: dict[str, Any], told: str) -> None:
    assert list(ask(CHECKS, readiness(**TO_1_37, **changed))) == []
    [finding] = ask(START_WARNINGS, readiness(**TO_1_37, **changed))
    assert (finding.reason, told in finding.detail) == (Reason.KUBELET_DEFAULT_CHANGES, True)


POLICY = b"imagePullCredentialsVerificationPolicy: AlwaysVerify"
TO_1_35 = {"current": V("v1.34.0"), "target": V("v1.35.4")}


@pytest.mark.parametrize(
    ("found", "fields"),
    [
        ("AllAlpha: true turns on", {"layout": layout("--feature-gates=AllAlpha=true")}),
        ("verifies pulled images by AlwaysVerify", {"layout": layout(config=POLICY), **TO_1_35}),
        (None, {"layout": layout("--feature-gates=AllBeta=false")}),
        (None, {"layout": layout(config=POLICY)}),
        (None, {"layout": layout(config=POLICY), "current": V("v1.35.0"), "target": V("v1.36.0")}),
        (None, {"layout": layout(config=b"imagePullCredentialsVerificationPolicy: NeverVerify"), **TO_1_35}),
        (
            None,
            {"layout": layout("--feature-gates=KubeletEnsureSecretPulledImages=false", config=POLICY), **TO_1_35},
        ),
    ],
)
def test_a_default_that_changes_is_warned_of(found: str | None, fields: dict[str, Any]) -> None:
    findings = list(ask(START_WARNINGS, readiness(**fields)))

    assert [finding.reason for finding in findings] == ([] if found is None else [Reason.KUBELET_DEFAULT_CHANGES])
    assert all(found is not None and found in finding.detail for finding in findings)
