"""Provides state files that the kubelet cannot use."""

import json
from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias
from zlib import crc32

from nodeupgrade.kubelet.layout import KubeletLayout, read_layout
from nodeupgrade.kubelet.state_files.checksums import memory_checksum, text_checksum
from nodeupgrade.kubelet.state_files.fields import read_fields
from nodeupgrade.kubelethash import KubeletVersion
from nodeupgrade.node.checks.startup import StartingHost

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


Totals: TypeAlias = Mapping[str, int]


def memory(numa: Sequence[Totals], *recorded: Totals, reserved: Sequence[int] = ()) -> dict[str, Any]:
    """What the host has by NUMA node, and what the state file accounts for: one group if something is reserved."""

    def table(total: int, taken: int) -> dict[str, int]:
        return {"total": total, "systemReserved": 0, "allocatable": total, "reserved": taken, "free": total - taken}

    machine = {
        str(at): {
            "numberOfAssignments": len(reserved),
            "memoryMap": {name: table(total, reserved[at] if reserved else 0) for name, total in totals.items()},
            "cells": [*range(len(recorded))] if reserved else [at],
        }
        for at, totals in enumerate(recorded)
    }
    document = {"policyName": "Static", "machineState": machine}
    checksum = memory_checksum(read_fields(json.dumps(document).encode()))
    return {
        "layout": layout(config=b"memoryManagerPolicy: Static"),
        "state": {"memory_manager_state": json.dumps({**document, "checksum": checksum}).encode()},
        "host": StartingHost(numa=dict(enumerate(numa))),
    }


def dra(text: str = CLAIMS, checksum: int | None = None, gate: bool = True) -> dict[str, Any]:
    state = {"Data": text, "Checksum": crc32(text.encode()) if checksum is None else checksum}
    return {
        "state": {"dra_manager_state": json.dumps(state).encode()},
        "layout": layout(f"--feature-gates=DynamicResourceAllocation={str(gate).lower()}"),
    }


def old_claims(*entries: dict[str, Any]) -> dict[str, Any]:
    """As kubelets up to 1.30 write it; their checksum is not looked at."""
    return {
        "state": {"dra_manager_state": json.dumps({"version": "v1", "entries": entries, "checksum": 1}).encode()},
        "layout": layout("--feature-gates=DynamicResourceAllocation=true"),
    }


CLAIM = {"DriverName": "gpu", "ClaimUID": "u", "ResourceHandles": [{"driverName": "gpu", "data": "x"}]}


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


PAGES = "hugepages-2Mi"
REAL = {"memory": 135233794048, PAGES: 2**30, "hugepages-1Gi": 0}
"""As a kubelet wrote them: of a NUMA node with 132064252 kB, of which huge pages are a part (kubernetes #131253)."""
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
        {**old_claims(), "current": V("v1.30.14"), "target": V("v1.31.1")},
        "its format changed in 1.31 (kubernetes #127653)",
    ),
    "state of claims from before 1.30": (
        {**old_claims(CLAIM), "current": V("v1.29.14"), "target": V("v1.30.14")},
        "its format changed in 1.30 (kubernetes #123552)",
    ),
    "state of claims for a kubelet before 1.28": (
        {**old_claims(CLAIM), "current": V("v1.28.14"), "target": V("v1.27.14")},
        "its format changed in 1.28 (kubernetes #119307)",
    ),
    "fields of a newer kubelet": (
        {**static(podEntries={"u": {}}), "current": V("v1.36.0"), "target": V("v1.35.0")},
        "cpu_manager_state: it has fields of kubelet v1.36.0 (podentries); drain",
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
    "huge pages that went to another NUMA node": (
        memory([{PAGES: 2**21}, {PAGES: 2**22}], {PAGES: 2**22}, {PAGES: 2**21}),
        "accounts for 4194304 bytes of hugepages-2Mi in NUMA node 0, which has 2097152; drain",
    ),
    "memory that came": (
        memory([{"memory": 135277490176}], {"memory": 135233794048}),
        "accounts for 135233794048 bytes of memory in NUMA node 0, which has 135277490176; drain",
    ),
    "a NUMA node that came": (memory([REAL, REAL], REAL), "accounts for NUMA nodes 0, and the host has 0-1; drain"),
    "a group of NUMA nodes for a kubelet before 1.32": (
        {**memory([REAL, REAL], REAL, REAL, reserved=(2**30, 2**30)), "target": V("v1.31.14")},
        "as kubelet v1.31.14 does not compute it (kubernetes #127074); drain",
    ),
    "a group of NUMA nodes on the way back": (
        {**memory([], REAL, REAL, reserved=(2**30, 2**30)), "current": V("v1.31.14"), "target": V("v1.33.13")},
        "some left in one before it in its group, as kubelet v1.31.14 does not",
    ),
}  # fmt: skip
