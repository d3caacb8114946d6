"""Tests the checks of the kubelet's state files."""

import json
from typing import Any

import pytest

from nodeupgrade.api.reasons import Reason
from nodeupgrade.cluster.pods import parse_pod
from nodeupgrade.findings.check import ask, checks_of
from nodeupgrade.kubelet.layout import DEVICE_STATE
from nodeupgrade.kubelet.settings import Configured
from nodeupgrade.node.checks import state_files
from nodeupgrade.node.checks.facts import Admission
from nodeupgrade.node.checks.startup import Readiness, StartingHost
from nodeupgrade.node.checks.state_files import devices_are_on_record, memory_is_as_recorded
from tests.builders.admitted import checkpoint
from tests.builders.sound import readiness
from tests.builders.state_file_cases import (
    CLAIM,
    DEFECTS,
    DOWN,
    FIRST_FORMAT,
    POD_LEVEL,
    REAL,
    STRICT,
    V,
    dra,
    layout,
    memory,
    old_claims,
    pods,
    resized,
    sealed,
    static,
)

CHECKS = tuple(check for check in checks_of(state_files, warns=False) if check.facts is Readiness)


LEFT: dict[str, dict[str, Any]] = {
    "state of pods": pods(sealed('{"entries":{"u":{"ContainerResources":{"a":{}}}}}')),
    "state of no pods": pods(sealed("{}")),
    "state of resized pods": resized(FIRST_FORMAT, "v1.30.14", "v1.31.1"),
    "state of resized pods from 1.32 on": resized(sealed("{}"), "v1.32.0", "v1.32.1"),
    "state of resized pods that nobody reads": resized(FIRST_FORMAT, "v1.31.1", "v1.32.0", "NoSuchGate=true"),
    "state of resized pods before 1.33": resized(FIRST_FORMAT, "v1.31.1", "v1.33.0"),
    "state of pods that nobody reads": {**pods(b""), "current": V("v1.31.0"), "target": V("v1.32.0")},
    "state of pods whose gate is off": {
        **pods(b""), "layout": layout("--feature-gates=InPlacePodVerticalScaling=false"),
    },
    "state of claims": {**dra(), "current": V("v1.32.0")},
    "state of claims that nobody reads": {**dra(gate=False), "current": V("v1.30.14"), "target": V("v1.34.0")},
    "state of no claims from before 1.30": {**old_claims(), "current": V("v1.29.14"), "target": V("v1.30.14")},
    "state of claims from before 1.28": {**old_claims(CLAIM), "current": V("v1.27.14"), "target": V("v1.28.14")},
    "state of claims of the same kind": {**old_claims(CLAIM), "current": V("v1.28.14"), "target": V("v1.29.14")},
    "state of claims before it is on by default": {
        "state": {"dra_manager_state": b"["}, "current": V("v1.32.0"), "target": V("v1.33.0"),
    },
    "resources of pods on the way up": {**POD_LEVEL, "current": V("v1.35.4"), "target": V("v1.36.1")},
    "no resources of pods": {**POD_LEVEL, **DOWN, "layout": layout()},
    "all CPUs": static(),
    "CPUs by container, as up to 1.17": static(entries={"c": "4-7"}),
    "no CPU pinned": static(entries={}, defaultCpuSet="0-7"),
    "a fresh state": static(entries={}, defaultCpuSet=""),
    "fields that are not known": static(entries={}, podEntries={"u": {"cpuSet": "4-7"}}),
    "reserved CPUs": static(b"reservedSystemCPUs: 0-1"),
    "strictly reserved CPUs": static(STRICT + b"reservedSystemCPUs: 0", defaultCpuSet="1-3"),
    "strictly reserved amounts": static(STRICT, defaultCpuSet="1-3"),
    "all memory": memory([REAL, REAL], REAL, REAL),
    "memory of nobody's": {**memory([REAL, REAL], REAL), "layout": layout(), "state": {}},
    "memory before the first start": memory([REAL]),
    "memory without NUMA nodes": memory([], {"memory": 0}),
    "memory that cannot be read": memory([{"hugepages-2Mi": 2**30}], REAL),
    "a group of NUMA nodes that is filled": {
        **memory([REAL], REAL, reserved=(2**30,)), "current": V("v1.30.14"), "target": V("v1.31.14"),
    },
    "a group of NUMA nodes from 1.32 on": {
        **memory([], REAL, REAL, reserved=(2**30, 2**30)), "current": V("v1.32.0"), "target": V("v1.33.13"),
    },
    "a full NUMA node, and one that is not": {
        **memory([], {"memory": 2**30}, REAL, reserved=(2**30, 2**20)),
        "current": V("v1.30.14"), "target": V("v1.31.14"),
    },
    "CPUs that cannot be counted": {**static(defaultCpuSet="0"), "host": StartingHost()},
}  # fmt: skip


@pytest.mark.parametrize(("defect", "told"), DEFECTS.values(), ids=DEFECTS.keys())
def test_a_defect_is_named_once_with_what_to_do(defect: dict[str, Any], told: str) -> None:
    [finding] = ask(CHECKS, readiness(**defect))

    assert finding.reason is Reason.KUBELET_WOULD_NOT_START
    assert told in finding.detail


@pytest.mark.parametrize("fine", LEFT.values(), ids=LEFT.keys())
def test_what_does_no_harm_is_let_pass(fine: dict[str, Any]) -> None:
    assert list(ask(CHECKS, readiness(**fine))) == []


@pytest.mark.parametrize(
    "machine",
    [
        None, [], "0", {"x": {}}, {"0": 7}, {"0": {"memoryMap": []}}, {"0": {"memoryMap": {"memory": 7}, "cells": "0"}},
        {"0": {"memoryMap": {"memory": {"total": "1", "free": [], "reserved": {}}}, "cells": [0, "0", None, {}, 7]}},
    ],
)  # fmt: skip
def test_a_state_of_memory_that_no_kubelet_wrote_is_not_stumbled_over(machine: Any) -> None:
    written = {"policyName": "Static", "machineState": machine}
    given = {**memory([], REAL), "state": {"memory_manager_state": json.dumps(written).encode()}}

    assert list(ask([memory_is_as_recorded], readiness(**given, target=V("v1.31.14")))) == []


ENTRY = {"PodUID": "u", "ContainerName": "app", "ResourceName": "example.com/gpu", "DeviceIDs": {"0": ["a"]}}


def with_device(*entries: dict[str, Any], raw: bytes | None = None, state: str = "running") -> Admission:
    content = {"PodDeviceEntries": list(entries), "RegisteredDevices": {"example.com/gpu": ["a"]}}
    body = {
        "metadata": {"namespace": "default", "name": "web", "uid": "u"},
        "spec": {"containers": [{"name": "app", "image": "i", "resources": {"limits": {"example.com/gpu": "1"}}}]},
        "status": {
            "phase": "Running",
            "containerStatuses": [{"name": "app", "containerID": "x://1", "state": {state: {}}}],
        },
    }
    return Admission(
        node={}, pods=(parse_pod(body),), settings=Configured(), gates={}, current=None, target=V("v1.33.13"),
        state={DEVICE_STATE: checkpoint(content) if raw is None else raw},
    )  # fmt: skip


def test_a_running_pod_whose_device_is_not_on_record_would_lose_it() -> None:
    [finding] = ask((devices_are_on_record,), with_device({**ENTRY, "ContainerName": "other"}))

    assert (finding.reason, finding.subject) == (Reason.POD_WOULD_NOT_BE_ADMITTED, "default/web")
    assert "its container app has example.com/gpu, of which" in finding.detail


@pytest.mark.parametrize(
    "fine",
    [
        with_device(ENTRY),
        with_device(state="waiting"),
        with_device(raw=b"damaged"),
        with_device(raw=b'{"Data":[]}'),
        with_device(raw=checkpoint({"RegisteredDevices": {"example.com/gpu": ["a"]}}).replace(b'"a"', b'"b"')),
    ],
)
def test_devices_that_are_on_record_or_elsewhere_reported_are_let_pass(fine: Admission) -> None:
    assert list(ask((devices_are_on_record,), fine)) == []
