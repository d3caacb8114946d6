"""The state files of a kubelet: those that the new one, or an older one, could not go on with."""

import json
from typing import Any
from zlib import crc32

import pytest

from nodeupgrade.api.reasons import Reason
from nodeupgrade.cluster.pods import parse_pod
from nodeupgrade.findings.check import ask, checks_of
from nodeupgrade.kubelet.layout import DEVICE_STATE, KubeletLayout, read_layout
from nodeupgrade.kubelet.settings import Configured
from nodeupgrade.kubelet.state_files.checksums import text_checksum
from nodeupgrade.kubelethash import KubeletVersion
from nodeupgrade.node.checks import state_files
from nodeupgrade.node.checks.facts import Admission
from nodeupgrade.node.checks.startup import Readiness, StartingHost
from nodeupgrade.node.checks.state_files import devices_are_on_record
from tests.unit.domain.node.checks.admission.admitted import checkpoint
from tests.unit.domain.node.checks.sound import readiness

CHECKS = tuple(check for check in checks_of(state_files, warns=False) if check.facts is Readiness)

V = KubeletVersion.parse
CLAIMS = json.dumps({"entries": []})
EIGHT = StartingHost(online_cpus="0-7")


def layout(*words: str, config: bytes = b"") -> KubeletLayout:
    return read_layout(("--cgroup-driver=systemd", *words), config)


def static(config: bytes = b"", **document: Any) -> dict[str, Any]:
    given = {"policyName": "static", "defaultCpuSet": "0-3", "entries": {"u": {"app": "4-7"}}, "checksum": 0}
    return {
        "layout": layout(config=b"cpuManagerPolicy: static\n" + config),
        "state": {"cpu_manager_state": json.dumps({**given, **document}).encode()},
        "host": EIGHT,
    }


def dra(text: str = CLAIMS, checksum: int | None = None, gate: bool = True) -> dict[str, Any]:
    state = {"Data": text, "Checksum": crc32(text.encode()) if checksum is None else checksum}
    return {
        "state": {"dra_manager_state": json.dumps(state).encode()},
        "layout": layout(f"--feature-gates=DynamicResourceAllocation={str(gate).lower()}"),
    }


def pods(content: bytes) -> dict[str, Any]:
    return {"state": {"actuated_pods_state": content}}


def sealed(text: str) -> bytes:
    return json.dumps({"data": text, "checksum": text_checksum(text)}).encode()


def resized(content: bytes, before: str, after: str, gates: str = "InPlacePodVerticalScaling=true") -> dict[str, Any]:
    return {
        "state": {"pod_status_manager_state": content},
        "current": V(before),
        "target": V(after),
        "layout": layout(f"--feature-gates={gates}"),
    }


FIRST_FORMAT = b'{"allocationEntries":{"u":{"app":{"cpu":"1"}}},"checksum":1}'


STRICT = b'cpuManagerPolicyOptions: {strict-cpu-reservation: "true"}\n'
POD_LEVEL = {
    "layout": layout("--feature-gates=PodLevelResourceManagers=true"),
    "state": {"cpu_manager_state": b'{"policyName":"none","checksum":0}'},
}
DOWN = {"current": V("v1.36.1"), "target": V("v1.35.4")}
DEFECTS: dict[str, tuple[dict[str, Any], str]] = {
    "state of pods that was cut off": (pods(b'{"data":"{'), "actuated_pods_state: it is damaged"),
    "state of pods that is empty": (pods(b""), "actuated_pods_state: it is damaged"),
    "state of pods whose content is damaged": (pods(b'{"data":"{","checksum":1}'), "it is damaged"),
    "state of pods without checksum": (pods(b'{"data":"{}"}'), "it is damaged"),
    "state of pods with another checksum": (pods(sealed("{}").replace(b"{}", b'{\\"entries\\":{}}')), "it is damaged"),
    "state of resized pods from before 1.32": (
        resized(FIRST_FORMAT, "v1.31.1", "v1.32.0"), "pod_status_manager_state: its format changed in 1.32",
    ),
    "state of resized pods for a kubelet before 1.32": (
        resized(sealed("{}"), "v1.32.1", "v1.31.1", "AllAlpha=true"), "its format changed in 1.32",
    ),
    "state of resized pods that is damaged": (resized(b"{", "v1.30.14", "v1.31.1"), "pod_status_manager_state: it is"),
    "state of claims from before 1.31": (
        {**dra(), "current": V("v1.30.14"), "target": V("v1.31.1")}, "its format changed in 1.31 (kubernetes #127653)",
    ),
    "state of claims for a kubelet before 1.31": (
        {**dra(), "current": V("v1.31.1"), "target": V("v1.30.14")}, "its format changed in 1.31",
    ),
    "state of claims with another checksum": (
        {**dra(checksum=7), "current": V("v1.32.0")}, "dra_manager_state: it is damaged",
    ),
    "state of claims that is none": (
        {"state": {"dra_manager_state": b"["}, "current": V("v1.33.0"), "target": V("v1.34.0")}, "it is damaged",
    ),
    "resources of pods on the way down from 1.36": ({**POD_LEVEL, **DOWN}, "while PodLevelResourceManagers is on"),
    "a CPU that is gone": (
        {**static(), "host": StartingHost(online_cpus="0-6")}, "accounts for CPUs 0-7, but those to share are 0-6",
    ),
    "a CPU that came": (static(entries={"u": {"app": "4,6"}}), "accounts for CPUs 0-4,6, but those to share are 0-7"),
    "a list of CPUs that is none": (static(defaultCpuSet="many"), "many is not a list of CPUs"),
    "reserved CPUs that are pinned": (static(b"reservedSystemCPUs: 0,7"), "the reserved CPUs 7 are pinned to pods"),
    "reserved CPUs that are shared although strict": (
        static(STRICT + b"reservedSystemCPUs: 0"), "accounts for CPUs 0-7, but those to share are 1-7",
    ),
}  # fmt: skip

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
