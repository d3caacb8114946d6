"""Tests the checks of whatever keeps a kubelet from starting."""

from collections.abc import Mapping
from typing import Any

import pytest

from nodeupgrade.api.reasons import Reason
from nodeupgrade.findings.check import ask, checks_of
from nodeupgrade.kubelet.layout import read_layout
from nodeupgrade.node.checks import cgroups, changed_settings, credentials, host, startup, state_files
from nodeupgrade.node.checks.startup import Readiness
from tests.builders import starting_cases, state_file_cases
from tests.builders.readiness_cases import AS_TEXT, DEFECTS, MEMORY, NEWEST, OLD_STATE, STATE, V, containerd
from tests.builders.sound import readiness

CHECKS = tuple(
    each
    for each in checks_of(cgroups, startup, changed_settings, credentials, host, state_files, warns=False)
    if each.facts is Readiness
)


@pytest.mark.parametrize(("reason", "defect", "told"), DEFECTS.values(), ids=DEFECTS.keys())
def test_a_defect_is_named_once_with_what_to_do(reason: Reason, defect: dict[str, Any], told: str) -> None:
    [finding] = ask(CHECKS, readiness(**defect))

    assert finding.reason is reason
    assert told in finding.detail


def told(table: Mapping[str, tuple[Any, ...]]) -> list[dict[str, Any]]:
    return [next(cell for cell in row if isinstance(cell, dict)) for row in table.values()]


def test_every_check_is_tried_by_some_defect() -> None:
    silent = {check.name for check in CHECKS} - {
        check.name
        for check in CHECKS
        for defect in (*told(DEFECTS), *told(starting_cases.DEFECTS), *told(state_file_cases.DEFECTS))
        if any(check(readiness(**defect)))
    }

    assert silent == set()


@pytest.mark.parametrize(
    "fine",
    [
        {},
        {"dry_run": None},
        {"cgroup_driver": None},
        {"runtime": containerd("2.1.9", "systemd"), "layout": read_layout(())},
        {"runtime": containerd("2.1.9", "cgroupfs"), "target": V("v1.30.14"), "current": V("v1.29.0")},
        {**NEWEST, "layout": read_layout(("--cgroup-driver=systemd",), b"failCgroupV1: false")},
        {**NEWEST, "cgroup_v2": True},
        {
            "layout": read_layout(
                ("--cgroup-driver=systemd", "--cpu-manager-policy=static"), b"cpuManagerPolicy: none"
            ),
            "state": {"cpu_manager_state": b'{"policyName":"static","checksum":0}'},
        },
        {"current": V("v1.19.0"), "target": V("v1.20.15"), "state": {"memory_manager_state": b"left by a later one"}},
        {
            "layout": read_layout(("--cgroup-driver=systemd", "--memory-manager-policy=Static")),
            "state": {"memory_manager_state": MEMORY},
        },
        {"layout": read_layout(("--cgroup-driver=systemd",), b"cpuManagerPolicyOptions: [1]")},
        {"state": {"cpu_manager_state": OLD_STATE}},
        {**AS_TEXT, "state": {"cpu_manager_state": STATE}},
        {"state": {"cpu_manager_state": STATE[:-1] + b',"data":"","dataChecksum":1}'}},
        {"state": {"cpu_manager_state": STATE[:-1].replace(b"none", b"") + b',"podEntries":{}}'}},
    ],
)
def test_what_does_no_harm_is_let_pass(fine: dict[str, Any]) -> None:
    assert list(ask(CHECKS, readiness(**fine))) == []
