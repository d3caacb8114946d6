"""Provides sound nodes and nodes with a single defect."""

from dataclasses import replace
from typing import Any

from nodeupgrade.api.reasons import Reason
from nodeupgrade.api.run_settings import GuardPolicy, ShieldPolicy, VerifySettings
from nodeupgrade.api.task.spec import GuardGrant, TaskSpec
from nodeupgrade.api.values import Digest, SandboxId
from nodeupgrade.cluster.pods import parse_pod
from nodeupgrade.kubelet.flags import Arguments
from nodeupgrade.kubelet.layout import read_layout
from nodeupgrade.kubelethash import KubeletVersion, hash_container
from nodeupgrade.node.checks.facts import Surroundings
from nodeupgrade.node.host.processes.process import Process
from nodeupgrade.node.host.systemd.start_obstacles import StartObstacles
from nodeupgrade.node.host.systemd.unit_start import UnitStart
from nodeupgrade.node.runtimes.description import NextStart, RuntimeInfo
from tests.builders.sound import (
    OLD,
    SPEC,
    command,
    facts,
    instance,
    inventory,
    kubelet,
    pod,
    readiness,
    runtime_found,
    sandbox,
    socket,
    start,
    task_spec,
    traffic,
    unit,
)

WHY = "cannot use the credentials in /etc/k.conf: program aws: there is no such program"


def kept_down(**obstacles: tuple[str, ...]) -> UnitStart:
    return replace(start("kubelet.service"), obstacles=StartObstacles(**obstacles))


def guarded(policy: GuardPolicy, *, wanted: bool = True) -> TaskSpec:
    return replace(task_spec(), verify=VerifySettings(readiness_guard=policy), guard=GuardGrant(wanted=wanted))


RUNNING = instance(hash_container(SPEC, OLD))
V = KubeletVersion.parse

CONTAINERD = RuntimeInfo(name="containerd", version="1.7.2", cri_versions=("v1", "v1alpha2"), binary_version="1.7.2")
STRIPPED = Arguments(words=("--v=2",), removed=("--foo",))
EXTENDED = Arguments(words=("--v=2", "--foo"), added=("--foo",))
LINKED = unit("kubelet.service", program="/usr/local/bin/kubelet")
RESIZED = {**SPEC, "resizePolicy": [{"resourceName": "cpu", "restartPolicy": "RestartContainer"}]}
STARTING = {
    **pod(containers=[{**SPEC, "startupProbe": {"tcpSocket": {"port": 80}}}]),
    "status": {"containerStatuses": [{"name": "nginx", "state": {"running": {}}, "started": False}]},
}
VERSION_2_1_3: dict[str, Any] = {"version": "2.1.3", "binary_version": "2.1.3"}
LENIENT = [{"resourceName": "cpu", "restartPolicy": "NotRequired"}]
MEMORY = {"limits": {"memory": "1Gi"}}
GUARANTEED = {"resources": {"limits": {"cpu": "1", "memory": "1Gi"}, "requests": {"cpu": "1", "memory": "1Gi"}}}


def of_yesterday(target: str) -> dict[str, Any]:
    """A node with containerd 2, on the way back from kubelet 1.24."""
    current = V("v1.24.17")
    return {
        "runtime": replace(CONTAINERD, version="2.1.4", binary_version="2.1.4", cri_versions=("v1",)),
        "target": V(target), "allow_downgrade": True, "kubelet": kubelet(current=current, staged_version=target),
        "inventory": inventory(instance(hash_container(SPEC, current))),
    }  # fmt: skip


def pods(**spec: Any) -> tuple[Any, ...]:
    return (parse_pod(pod(**spec)),)


def shown(state: str, container_id: str = "id-web-nginx", phase: str = "Running") -> tuple[Any, ...]:
    container = {"name": "nginx", "containerID": f"containerd://{container_id}", "state": {state: {}}}
    return (
        parse_pod({**pod(), "status": {"phase": phase, "qosClass": "Burstable", "containerStatuses": [container]}}),
    )


def with_condition(kind: str, status: str) -> tuple[Any, ...]:
    body = pod()
    return (parse_pod({**body, "status": {**body["status"], "conditions": [{"type": kind, "status": status}]}}),)


def without_status(**spec: Any) -> tuple[Any, ...]:
    body = pod(**spec)
    del body["status"]
    return (parse_pod(body),)


def held(*sandboxes: Any) -> dict[str, Any]:
    return {"inventory": inventory(RUNNING, sandboxes=sandboxes)}


SOUND: dict[str, dict[str, Any]] = {
    "as it is": {},
    "a downgrade that is meant": {
        "target": V("v1.28.15"), "allow_downgrade": True, "kubelet": kubelet(staged_version="v1.28.15"),
    },
    "an image's digest stands for the kubelet's": {"promised": None},
    "flags go from the unit's own command": {"kubelet": kubelet(arguments=STRIPPED)},
    "flags go from a command that names it by a link": {"kubelet": kubelet(arguments=STRIPPED, unit=LINKED)},
    "no flag goes, whatever starts the kubelet": {"kubelet": kubelet(unit=unit("k.service", program="/bin/sh"))},
    "no word about the runtime's program": {"runtime": replace(CONTAINERD, binary_version=None)},
    "new CRI for a kubelet that speaks both": of_yesterday("v1.23.17"),
    "both for a kubelet that speaks one": {**of_yesterday("v1.22.17"), "runtime": CONTAINERD},
    "old CRI for an old kubelet": {
        "runtime": replace(CONTAINERD, cri_versions=("v1alpha2",)),
        "target": V("v1.25.16"), "allow_downgrade": True, "kubelet": kubelet(staged_version="v1.25.16"),
    },
    "the kubelet and targets are bound to the runtime": {
        "runtime_unit": unit("containerd.service", bound_by=("kubelet.service", "multi-user.target")),
    },
    "the API shows what runs": {"pods": shown("running")},
    "the API shows what ended": {"pods": shown("terminated", "long gone")},
    "the API shows an evicted pod's last state": {"pods": shown("running", "long gone", phase="Failed")},
    "a sandbox of the host's network": held(sandbox(ip="", host_network=True)),
    "an older sandbox that is over": held(sandbox(created_at=2), sandbox(id=SandboxId("old"), ready=False)),
    "a pod that does not run any more": {
        "pods": (*pods(), parse_pod({"metadata": {"uid": "over"}, "spec": {"containers": [RESIZED]}})),
    },
    "a resize policy that restarts nothing": {"pods": pods(containers=[{**RESIZED, "resizePolicy": LENIENT}])},
    "a resize policy without resources": {"pods": pods(containers=[{**RESIZED, "resources": {}}])},
    "a resize policy for another resource": {"pods": pods(containers=[{**RESIZED, "resources": MEMORY}])},
    "a resize policy, with the feature turned off": {
        "pods": pods(containers=[RESIZED]),
        "readiness": readiness(
            layout=read_layout(("--cgroup-driver=systemd", "--feature-gates=InPlacePodVerticalScaling=false"))
        ),
    },
    "a resize policy of an init container that has ended": {
        "pods": pods(initContainers=[{**RESIZED, "name": "init"}]),
    },
    "a resize policy between kubelets that both act on it": {
        "kubelet": kubelet(current=V("v1.33.1")), "pods": pods(containers=[RESIZED]),
        "inventory": inventory(instance(hash_container(RESIZED, "v1.33.1"))),
    },
}  # fmt: skip


TAINTED = {**facts().node, "spec": {"taints": [{"key": "maintenance", "effect": "NoExecute"}]}}

DEFECTS: dict[str, tuple[Reason, dict[str, Any]]] = {
    # the kubelet
    "credentials with which no guard can be confirmed": (
        Reason.READINESS_GUARD_UNAVAILABLE, {"unusable_credentials": WHY, "spec": guarded(GuardPolicy.REQUIRE)},
    ),
    "no such unit": (
        Reason.UNSUPPORTED_SERVICE_MANAGER,
        {"kubelet": kubelet(unit=unit("kubelet.service", load_state="not-found", active_state="inactive", main_pid=0))},
    ),
    "a unit that does not run": (
        Reason.UNSUPPORTED_SERVICE_MANAGER,
        {"kubelet": kubelet(unit=unit("kubelet.service", active_state="activating", main_pid=0))},
    ),
    "a masked unit": (
        Reason.UNSUPPORTED_SERVICE_MANAGER, {"kubelet": kubelet(unit=unit("kubelet.service", load_state="masked"))},
    ),
    "a unit that is gone once it is stopped": (
        Reason.UNSUPPORTED_SERVICE_MANAGER, {"kubelet": kubelet(unit=unit("kubelet.service", transient=True))},
    ),
    "a program replaced on disk": (
        Reason.UNSUPPORTED_SERVICE_MANAGER, {"kubelet": kubelet(program=None, current=None)},
    ),
    "a program without a version": (Reason.UNSUPPORTED_SERVICE_MANAGER, {"kubelet": kubelet(current=None)}),
    # versions
    "an unknown target": (
        Reason.UNSUPPORTED_VERSION,
        {
            "target": V("v1.99.0"), "kubelet": kubelet(staged_version="v1.99.0"),
            "runtime": replace(CONTAINERD, cgroup_driver="systemd"),
        },
    ),
    "a pre-release": (
        Reason.UNSUPPORTED_VERSION, {"target": V("v1.33.0-rc.1"), "kubelet": kubelet(staged_version="v1.33.0-rc.1")},
    ),
    "an unknown kubelet on the node": (Reason.UNSUPPORTED_VERSION, {"kubelet": kubelet(current=V("v1.4.0"))}),
    "nothing to do": (Reason.ALREADY_AT_TARGET, {"target": OLD, "kubelet": kubelet(staged_version=str(OLD))}),
    "a downgrade": (
        Reason.DOWNGRADE_NOT_ALLOWED, {"target": V("v1.30.13"), "kubelet": kubelet(staged_version="v1.30.13")},
    ),
    # the new program
    "another digest": (Reason.DIGEST_MISMATCH, {"promised": Digest("2" * 64)}),
    "no file": (Reason.DIGEST_MISMATCH, {"kubelet": kubelet(after=None)}),
    "another version": (Reason.WRONG_VERSION_REPORTED, {"kubelet": kubelet(staged_version="v1.33.12")}),
    "no version": (
        Reason.WRONG_VERSION_REPORTED, {"kubelet": kubelet(staged_version="", staged_output="Exec format error")},
    ),
    "a script": (Reason.ARTIFACT_UNAVAILABLE, {"kubelet": kubelet(staged_is_elf=False)}),
    "flags it does not know": (
        Reason.KUBELET_FLAGS_REJECTED,
        {"kubelet": kubelet(arguments_status=1, arguments_output="unknown flag: --foo\nusage")},
    ),
    "flags that something else gives it": (
        Reason.KUBELET_FLAGS_REJECTED,
        {"kubelet": kubelet(arguments=STRIPPED, started="/usr/local/bin/wrapper")},
    ),
    "flags that something gives it which is not there": (
        Reason.KUBELET_FLAGS_REJECTED, {"kubelet": kubelet(arguments=STRIPPED, started=None)},
    ),
    "a flag that it needs, which something else does not give it": (
        Reason.KUBELET_FLAGS_REJECTED,
        {"kubelet": kubelet(arguments=EXTENDED, started="/usr/local/bin/wrapper")},
    ),
    # the runtime
    "another runtime": (Reason.UNSUPPORTED_RUNTIME, {"runtime": replace(CONTAINERD, name="cri-o")}),
    "a runtime that is no unit": (
        Reason.UNSUPPORTED_RUNTIME,
        {
            "runtime_unit": unit("containerd.service", load_state="not-found", active_state="inactive", main_pid=0),
            "runtime_found": runtime_found(unit=unit("containerd.service", active_state="inactive", main_pid=0)),
        },
    ),
    "a restart that kills": (
        Reason.UNSUPPORTED_RUNTIME, {"runtime_unit": unit("containerd.service", kill_mode="control-group")},
    ),
    "a restart that takes others along": (
        Reason.UNSUPPORTED_RUNTIME, {"runtime_unit": unit("containerd.service", bound_by=("docker.service",))},
    ),
    "a restart that loses something": (Reason.UNSUPPORTED_RUNTIME, {"runtime": replace(CONTAINERD, **VERSION_2_1_3)}),
    "a restart that loses something, and a file that would ask for one": (
        Reason.UNSUPPORTED_RUNTIME,
        {"runtime": replace(CONTAINERD, **VERSION_2_1_3), "runtime_found": runtime_found(changed=("/etc/c.toml",))},
    ),
    "a restart that upgrades": (Reason.UNSUPPORTED_RUNTIME, {"runtime": replace(CONTAINERD, binary_version="2.0.0")}),
    "a kubelet of yesterday": (Reason.UNSUPPORTED_RUNTIME, of_yesterday("v1.22.17")),
    "CRI of yesterday": (Reason.UNSUPPORTED_RUNTIME, {"runtime": replace(CONTAINERD, cri_versions=("v1alpha2",))}),
    "another hash stored than served": (
        Reason.STORED_HASH_NOT_REPRODUCED, {"stored": {RUNNING.id: instance("bad").hashes}},
    ),
    "nothing stored": (Reason.STORED_HASH_NOT_REPRODUCED, {"stored": {}}),
    # sandboxes
    "a sandbox that is not ready": (Reason.POD_IN_TRANSITION, held(sandbox(ready=False))),
    "two ready sandboxes": (Reason.POD_IN_TRANSITION, held(sandbox(), sandbox(id=SandboxId("second")))),
    "a newer sandbox": (
        Reason.POD_IN_TRANSITION, held(sandbox(), sandbox(id=SandboxId("newer"), created_at=2, ready=False)),
    ),
    "a sandbox without an address": (Reason.POD_IN_TRANSITION, held(sandbox(ip=""))),
    # pods
    "a container that the runtime does not hold": (Reason.POD_IN_TRANSITION, {"pods": shown("running", "elsewhere")}),
    "a cgroup that moves": (
        Reason.POD_CGROUP_WOULD_CHANGE,
        {
            "target": V("v1.17.17"),
            "kubelet": kubelet(current=V("v1.15.0"), staged_version="v1.17.17"),
            "pods": without_status(
                containers=[{**SPEC, **GUARANTEED}], initContainers=[{"name": "setup", "image": "i"}]
            ),
        },
    ),
    "a quantity that is none": (
        Reason.POD_CGROUP_WOULD_CHANGE,
        {"pods": without_status(containers=[{**SPEC, "resources": {"limits": {"cpu": "a lot"}}}])},
    ),
    "an update in place": (Reason.POD_IN_TRANSITION, {"pods": with_condition("InPlaceUpdateReady", "False")}),
    "a restarting resize policy": (Reason.RESIZE_POLICY_RESTART, {"pods": pods(containers=[RESIZED])}),
    # what the room startup looks at
    "a kubelet that would not start": (
        Reason.KUBELET_WOULD_NOT_START, {"readiness": readiness(dry_run="unrecognized feature gate: Foo")},
    ),
    # what the rooms runtime and units look at
    "a runtime that would not come back": (
        Reason.RUNTIME_CONFIGURATION_DRIFT,
        {"runtime_found": runtime_found(next=NextStart(program="/bin/containerd", complaint="failed to load TOML"))},
    ),
    "a socket that cannot be shielded though it must be": (
        Reason.SHIELD_UNAVAILABLE, {"shield": ShieldPolicy.REQUIRE, "socket": socket(mounted=True)},
    ),
    "a runtime that was never tried": (
        Reason.RUNTIME_UNPROVEN, {"runtime_found": runtime_found(unproven="never tried")},
    ),
    "a kubelet whose failure reboots the node": (
        Reason.KUBELET_STOP_AFFECTS_OTHERS,
        {"kubelet": kubelet(unit=unit("kubelet.service", ends_machine=("FailureAction=reboot",)))},
    ),
    "a kubelet whose log is a file": (
        Reason.KUBELET_WOULD_NOT_START,
        {"kubelet": kubelet(unit=unit("kubelet.service", log_files=("StandardOutput=append",)))},
    ),
    "a kubelet that requires a unit which is gone": (
        Reason.KUBELET_WOULD_NOT_START, {"kubelet_start": kept_down(certain=("it requires gone.service",))},
    ),
    "a kubelet that requires a unit which has failed": (
        Reason.KUBELET_WOULD_NOT_START, {"kubelet_start": kept_down(probable=("it requires bad.service",))},
    ),
    "a kubelet whose program other nodes may start": (
        Reason.KUBELET_BINARY_NOT_REPLACEABLE, {"around": Surroundings(remote_program="nfs4")},
    ),
    "a command before the kubelet": (
        Reason.UNSUPPORTED_UNIT_COMMAND,
        {"kubelet": kubelet(unit=unit("kubelet.service", commands=(command("/opt/prepare it"),)))},
    ),
    "a container with a shim of its own": (
        Reason.RUNTIME_RESTART_WOULD_KILL_POD,
        {
            "inventory": inventory(
                replace(RUNNING, monitor=Process(pid=5, started=1)),
                sandboxes=(sandbox(monitor=Process(pid=4, started=1)),),
            )
        },
    ),
    # clients
    "a startup probe that has not succeeded": (Reason.POD_IN_TRANSITION, {"traffic": traffic([STARTING])}),
    "a node that lost what a pod requires of it": (
        Reason.NODE_AFFINITY_NOT_MET, {"pods": pods(nodeSelector={"disk": "spinning"})},
    ),
    "a taint that a pod does not tolerate": (Reason.TAINT_NOT_TOLERATED, {"node": TAINTED}),
    # health
    "nobody can ask for the kubelet's health": (
        Reason.UNSUPPORTED_SERVICE_MANAGER,
        {"readiness": readiness(layout=read_layout(("--cgroup-driver=systemd", "--healthz-port=0")))},
    ),
    # space
    "no space for programs": (Reason.INSUFFICIENT_SPACE, {"kubelet": kubelet(free_bytes=64 * 1024 * 1024 - 1)}),
    "no space for the journal": (Reason.INSUFFICIENT_SPACE, {"state_free_bytes": 0}),
}  # fmt: skip
