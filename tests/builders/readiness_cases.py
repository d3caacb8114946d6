"""Provides defects that keep a kubelet from starting, or that affect its Pods when it starts."""

from typing import Any

from nodeupgrade.api.reasons import Reason
from nodeupgrade.kubelet.layout import read_layout
from nodeupgrade.kubelethash import KubeletVersion
from nodeupgrade.node.runtimes.description import RuntimeInfo
from tests.builders.sound import unit

V = KubeletVersion.parse
STATE = b'{"policyName":"none","defaultCpuSet":"","checksum":1353318690}'
OLD_STATE = b'{"policyName":"none","defaultCpuSet":"","checksum":3242152201}'
NUMA_NODE = (
    b'{"numberOfAssignments":0,"memoryMap":{"memory":'
    b'{"total":2048,"systemReserved":0,"allocatable":2048,"reserved":0,"free":2048}},"cells":[0]}'
)
MEMORY = b'{"policyName":"Static","machineState":{"0":%s},"checksum":857222175}' % NUMA_NODE
AS_TEXT = {"current": V("v1.36.3"), "target": V("v1.37.0")}
NEWEST = {"current": V("v1.34.0"), "target": V("v1.35.4"), "cgroup_v2": False}


def containerd(version: str, driver: str | None = None) -> RuntimeInfo:
    return RuntimeInfo(name="containerd", version=version, cri_versions=("v1",), cgroup_driver=driver)


DEFECTS: dict[str, tuple[Reason, dict[str, Any], str]] = {
    "a gate that is gone": (
        Reason.KUBELET_WOULD_NOT_START,
        {
            "dry_run": 'Flag --feature-gates has been deprecated\nE1120 12:39:33 run.go:72] "command failed" '
            'err="failed to set feature gates from initial flags-based config: unrecognized feature gate: CPUManager"'
        },
        "unrecognized feature gate: CPUManager",
    ),
    "a gate that is locked, in a stack trace": (
        Reason.KUBELET_WOULD_NOT_START,
        {
            "dry_run": "F1120 12:39:33 1 server.go:208] cannot set feature gate A to false, feature is locked to true"
            "\ngoroutine 1 [running]"
        },
        "cannot set feature gate A to false, feature is locked to true",
    ),
    "a setting that is no longer supported": (
        Reason.KUBELET_WOULD_NOT_START,
        {
            "dry_run": 'I1120 codec.go:100] "Using lenient decoding"\nE1120 12:39:33 1 run.go:72] "command failed" '
            'err="failed to validate kubelet configuration, error: invalid configuration: runOnce (--runOnce) true"'
        },
        "in a dry run: failed to validate kubelet configuration, error: invalid configuration: runOnce (--runOnce)",
    ),
    "a dry run that could not be made": (
        Reason.KUBELET_WOULD_NOT_START, {"dry_run": "unshare: Operation not permitted"}, "Operation not permitted",
    ),
    "unit files that systemd has not read": (
        Reason.KUBELET_WOULD_NOT_START,
        {"units": (unit("kubelet.service", needs_reload=True),)},
        "systemctl daemon-reload",
    ),
    "no place to start a program from": (
        Reason.EXECUTOR_UNAVAILABLE,
        {"unfit_for_programs": {"/var/lib/nodeupgrade": "mounted noexec", "/mnt": "mounted read-only"}},
        "/var/lib/nodeupgrade is mounted noexec; /mnt is mounted read-only; remount one",
    ),
    "units that a boot forgets": (
        Reason.RUN_DIRECTORY_NOT_PERSISTENT, {"volatile": ("/etc/systemd/system",)},
        "/etc/systemd/system is empty after a boot",
    ),
    "an immutable program": (
        Reason.KUBELET_BINARY_NOT_REPLACEABLE, {"unchangeable": ("/usr/bin/kubelet",)}, "chattr -ia /usr/bin/kubelet",
    ),
    "a program that is mounted where it lies": (
        Reason.KUBELET_BINARY_NOT_REPLACEABLE, {"mounted": ("/usr/bin/kubelet",)}, "/usr/bin/kubelet is a mount point",
    ),
    "a place where nothing can be written": (
        Reason.KUBELET_BINARY_NOT_REPLACEABLE, {"read_only": ("/usr/bin",)},
        "/usr/bin is on a filesystem that is mounted",
    ),
    "a driver that the runtime flips": (
        Reason.POD_CGROUP_WOULD_CHANGE, {"runtime": containerd("2.1.9", "cgroupfs")},
        "would use the cgroup driver cgroupfs",
    ),
    "a driver changed in the configuration": (
        Reason.POD_CGROUP_WOULD_CHANGE, {"layout": read_layout((), b"cgroupDriver: cgroupfs")},
        "from its configuration",
    ),
    "cgroup v1": (Reason.KUBELET_WOULD_NOT_START, NEWEST, "failCgroupV1: false"),
    "damaged state": (
        Reason.KUBELET_WOULD_NOT_START, {"state": {"memory_manager_state": STATE[:20]}}, "memory_manager_state",
    ),
    "state that is no object": (
        Reason.KUBELET_WOULD_NOT_START, {"state": {"cpu_manager_state": b"[]"}}, "it is damaged (it is not a JSON",
    ),
    "state that is empty": (
        Reason.KUBELET_WOULD_NOT_START, {"state": {"cpu_manager_state": b""}}, "it is damaged (Expecting value",
    ),
    "state with the checksum of another": (
        Reason.KUBELET_WOULD_NOT_START,
        {"state": {"cpu_manager_state": STATE.replace(b'"none"', b'"None"')}},
        "cpu_manager_state: it is damaged (its checksum is wrong)",
    ),
    "memory of another checksum": (
        Reason.KUBELET_WOULD_NOT_START,
        {
            "layout": read_layout(("--cgroup-driver=systemd", "--memory-manager-policy=Static")),
            "state": {"memory_manager_state": MEMORY.replace(b"2048", b"2049")},
        },
        "memory_manager_state: it is damaged (its checksum is wrong)",
    ),
    "text of another checksum": (
        Reason.KUBELET_WOULD_NOT_START,
        {**AS_TEXT, "state": {"cpu_manager_state": STATE[:-1] + b',"data":"{}","dataChecksum":1}'}},
        "its checksum is wrong",
    ),
    "state from before 1.18 for a kubelet from 1.37 on": (
        Reason.KUBELET_WOULD_NOT_START, {**AS_TEXT, "state": {"cpu_manager_state": OLD_STATE}}, "from 1.37 on refuse",
    ),
    "state from after 1.18 for a kubelet from before": (
        Reason.KUBELET_WOULD_NOT_START,
        {"current": V("v1.18.20"), "target": V("v1.17.17"), "state": {"cpu_manager_state": STATE}},
        "format of 1.18",
    ),
    "a CPU manager's policy that is not the state file's": (
        Reason.KUBELET_WOULD_NOT_START,
        {"layout": read_layout(("--cgroup-driver=systemd",), b"cpuManagerPolicy: static")},
        "cpuManagerPolicy is static in the kubelet's configuration, but cpu_manager_state was kept under none",
    ),
    "a memory manager's policy that was taken away": (
        Reason.KUBELET_WOULD_NOT_START,
        {"state": {"memory_manager_state": MEMORY}},
        "memoryManagerPolicy is None",
    ),
}  # fmt: skip
