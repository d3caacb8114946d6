"""Provides labels, records, and static Pods that admission depends on, each with a control."""

from typing import Any

from nodeupgrade.api.reasons import Reason
from nodeupgrade.node.checks.facts import Admission, HostFacts
from nodeupgrade.node.checks.registry import OF_ADMISSION
from tests.builders.admitted import (
    GPU,
    GUARANTEED,
    PLENTY,
    STATIC_MEMORY,
    admission,
    by_manifest,
    kept,
    pod,
    recorded,
    running,
    succeeded,
    userns,
)

CHECKS = [check for check in OF_ADMISSION if not check.warns]
WARNINGS = [check for check in OF_ADMISSION if check.warns]

USERNS: Any = {"hostUsers": False}
STATIC_CPUS = b"cpuManagerPolicy: static"
TO_STRICT = ("v1.35.4", "v1.36.3")
UNMASKED = [{"name": "app", "image": "i", "securityContext": {"procMount": "Unmasked"}}]
RESIZED_INIT = {
    "name": "init",
    "image": "i",
    "resizePolicy": [{"resourceName": "cpu", "restartPolicy": "RestartContainer"}],
}

ZONE = {"topology.kubernetes.io/zone": "b"}
RACK = ("--node-labels=topology.kubernetes.io/zone=a",)
NAMED = {"kubernetes.io/hostname": "other"}
NO_ZONE: Any = {
    "nodeAffinity": {
        "requiredDuringSchedulingIgnoredDuringExecution": {
            "nodeSelectorTerms": [
                {"matchExpressions": [{"key": "topology.kubernetes.io/zone", "operator": "DoesNotExist"}]}
            ]
        }
    }
}

CASES: dict[str, tuple[Admission, str, Admission]] = {
    "labels that the kubelet does not set": (
        admission(pod(nodeSelector={"disk": "ssd"}), labels={"disk": "ssd"}, versions=("v1.17.17", "v1.18.15")),
        "kubelet v1.18.15 may admit it before it has read the Node",
        admission(pod(nodeSelector={"disk": "ssd"}), labels={"disk": "ssd"}, versions=("v1.17.17", "v1.18.16")),
    ),
    "labels of which only some are the kubelet's": (
        admission(
            pod(nodeSelector={"kubernetes.io/arch": "amd64", "topology.kubernetes.io/zone": "a"}),
            labels={"kubernetes.io/arch": "amd64", "topology.kubernetes.io/zone": "a"},
            versions=("v1.19.8", "v1.20.2"),
        ),
        "requires topology.kubernetes.io/zone=a",
        admission(
            pod(nodeSelector={"disk": "ssd", "topology.kubernetes.io/zone": "a"}),
            labels={"disk": "ssd", "topology.kubernetes.io/zone": "a"},
            words=("--node-labels=disk=ssd,a=b", "--cloud-provider=aws"),
            versions=("v1.19.8", "v1.20.2"),
        ),
    ),
    "a label of another architecture": (
        admission(pod(nodeSelector={"kubernetes.io/arch": "arm64"}), labels={"kubernetes.io/arch": "arm64"}),
        "sets labels of its Node again (beta.kubernetes.io/arch",
        admission(pod(nodeSelector={"kubernetes.io/arch": "amd64"}), labels={"kubernetes.io/arch": "amd64"}),
    ),
    "a zone that --node-labels names otherwise": (
        admission(pod(nodeSelector=ZONE), labels=ZONE, words=RACK),
        "requires topology.kubernetes.io/zone=b and the node has topology.kubernetes.io/zone=a",
        admission(pod(nodeSelector={"rack": "b"}), labels={"rack": "b"}, words=("--node-labels=rack=a",)),
    ),
    "a zone that --node-labels names otherwise, which a cloud provider overrides": (
        admission(pod(nodeSelector=ZONE), labels=ZONE, words=(*RACK, "--cloud-provider=external")),
        "topology.kubernetes.io/zone",
        admission(pod(nodeSelector=ZONE), labels=ZONE, words=(*RACK, "--cloud-provider=aws")),
    ),
    "a zone of a Node that its kubelet registers": (
        admission(pod(nodeSelector=ZONE), labels=ZONE, words=RACK, config=b"registerNode: true"),
        "topology.kubernetes.io/zone",
        admission(pod(nodeSelector=ZONE), labels=ZONE, words=RACK, config=b"registerNode: false"),
    ),
    "a zone that a pod must not find": (
        admission(pod(affinity=NO_ZONE), words=RACK),
        "topology.kubernetes.io/zone DoesNotExist",
        admission(pod(affinity=NO_ZONE), words=("--node-labels=topology.kubernetes.io/zone=",)),
    ),
    "a hostname that the host does not have": (
        admission(pod(nodeSelector=NAMED), labels=NAMED, hostname="node-a"),
        "requires kubernetes.io/hostname=other and the node has kubernetes.io/hostname=node-a",
        admission(pod(nodeSelector=NAMED), labels=NAMED, hostname="node-a", words=("--hostname-override=Other",)),
    ),
    "a hostname beside the name of the Node": (
        admission(pod(nodeSelector=NAMED), labels=NAMED, hostname="ip-10-0-0-1", words=("--cloud-provider=aws",)),
        "kubernetes.io/hostname=ip-10-0-0-1",
        admission(pod(nodeSelector=NAMED), labels=NAMED, hostname="Other", words=("--cloud-provider=aws",)),
    ),
    "a strict policy of groups": (
        admission(pod(securityContext={"supplementalGroupsPolicy": "Strict"})),
        "SupplementalGroupsPolicyNotSupported",
        admission(
            pod(securityContext={"supplementalGroupsPolicy": "Strict"}), features={"supplementalGroupsPolicy": True}
        ),
    ),
    "a strict policy of groups on the way to 1.33": (
        admission(pod(securityContext={"supplementalGroupsPolicy": "Strict"}), versions=("v1.32.1", "v1.33.0")),
        "kubelet v1.33.0 would kill it",
        admission(pod(securityContext={"supplementalGroupsPolicy": "Strict"}), versions=("v1.31.1", "v1.32.0")),
    ),
    "CPUs that nobody noted": (
        admission(running(pod(resources=GUARANTEED)), config=STATIC_CPUS, state=kept("cpu_manager_state", {})),
        "has CPUs of its own that cpu_manager_state does not name",
        admission(
            running(pod(resources=GUARANTEED)),
            config=STATIC_CPUS,
            state=kept("cpu_manager_state", {"web": {"app": "2"}}),
        ),
    ),
    "CPUs in a damaged file": (
        admission(
            running(pod(resources=GUARANTEED)), config=STATIC_CPUS, state={"cpu_manager_state": b"{"}
        ),
        "cpu_manager_state does not name",
        admission(
            running(pod(resources=GUARANTEED)), config=STATIC_CPUS, state=kept("cpu_manager_state", {"id of it": "2"})
        ),
    ),
    "memory that nobody noted": (
        admission(running(pod(resources=GUARANTEED)), config=STATIC_MEMORY, state=kept("memory_manager_state", {})),
        "has memory of its own that memory_manager_state does not name",
        admission(
            running(pod(resources=GUARANTEED)),
            config=STATIC_MEMORY,
            state=kept("memory_manager_state", {"web": {"app": [{"type": "memory"}]}}),
        ),
    ),
    "a static pod with a ServiceAccount": (
        by_manifest(admission(pod(serviceAccountName="admin"), versions=("v1.33.1", "v1.34.0"))),
        "it is a static pod and refers to a ServiceAccount, so kubelet v1.34.0 would kill it",
        by_manifest(admission(pod(serviceAccountName="admin"), versions=("v1.32.1", "v1.33.13"))),
    ),
    "a static pod with a Secret": (
        by_manifest(admission(pod(volumes=[{"name": "v", "secret": {}}]), versions=("v1.34.0", "v1.33.13"))),
        "secret in a volume",
        admission(pod(volumes=[{"name": "v", "secret": {}}]), versions=("v1.34.0", "v1.33.13")),
    ),
    "a static pod that sees all of /proc": (
        by_manifest(admission(pod(containers=UNMASKED), versions=("v1.29.15", "v1.30.14"))),
        "has procMount: Unmasked without hostUsers: false, so kubelet v1.30.14 would kill it",
        by_manifest(admission(pod(containers=UNMASKED), versions=("v1.30.14", "v1.31.14"))),
    ),
    "a static pod with an address that has leading zeros": (
        by_manifest(admission(pod(hostAliases=[{"ip": "10.0.0.1"}, {"ip": "010.0.0.1"}]), versions=TO_STRICT)),
        "it is a static pod and has the address 010.0.0.1, so kubelet v1.36.3 would kill it",
        by_manifest(admission(pod(hostAliases=[{"ip": "10.0.0.1"}, {"ip": "fe80:0::1"}]), versions=TO_STRICT)),
    ),
    "a static pod with a name server that is written as IPv6": (
        by_manifest(admission(pod(dnsConfig={"nameservers": ["::ffff:10.0.0.1"]}), versions=TO_STRICT)),
        "has the address ::ffff:10.0.0.1",
        by_manifest(
            admission(
                pod(dnsConfig={"nameservers": ["::ffff:10.0.0.1"]}), versions=TO_STRICT,
                gates={"StrictIPCIDRValidation": False},
            )
        ),
    ),
    "a static pod that would resize an init container": (
        by_manifest(admission(pod(initContainers=[RESIZED_INIT]), versions=TO_STRICT)),
        "has resizePolicy: RestartContainer in an init container",
        by_manifest(admission(pod(initContainers=[{**RESIZED_INIT, "resizePolicy": []}]), versions=TO_STRICT)),
    ),
}  # fmt: skip


NAMESPACES: dict[str, tuple[Reason, Admission, str]] = {
    "of another length": (
        Reason.KUBELET_WOULD_NOT_START,
        admission(running(pod(**USERNS)), host=recorded(web=userns(65536, 1024))),
        "has an unknown format",
    ),
    "that is no JSON": (
        Reason.KUBELET_WOULD_NOT_START,
        admission(running(pod(**USERNS)), host=recorded(web=b"[]")),
        "has an unknown format",
    ),
    "of other groups than users": (
        Reason.KUBELET_WOULD_NOT_START,
        admission(running(pod(**USERNS)), host=recorded(web=userns(65536, groups=131072))),
        "has an unknown format",
    ),
    "that begins in the middle": (
        Reason.KUBELET_WOULD_NOT_START,
        admission(running(pod(**USERNS)), host=recorded(web=userns(1000))),
        "has an unknown format",
    ),
    "of two pods": (
        Reason.KUBELET_WOULD_NOT_START,
        admission(
            *(running(pod(name, **USERNS)) for name in "ab"), host=recorded(a=userns(65536), b=userns(65536))
        ),
        "names the user IDs of default/a too",
    ),
    "that is not there": (
        Reason.CONTAINER_WOULD_NOT_RESTART,
        admission(running(pod(**USERNS)), versions=("v1.33.1", "v1.34.2")),
        "there is no record of its user namespace",
    ),
}  # fmt: skip


PROFILE: Any = {"securityContext": {"seccompProfile": {"type": "Localhost", "localhostProfile": "profiles/web.json"}}}
CLAIMING = {**running(pod(resources={"claims": [{"name": "gpu"}]})), "metadata": {"name": "web", "uid": "0123-uid"}}
CLAIMED = b'{"Data":"{\\"PodUIDs\\":{\\"0123-uid\\":{}}}"}'
CAUTIONS: dict[str, tuple[Admission, str, Admission]] = {
    "a seccomp profile": (
        admission(pod(**PROFILE)),
        "1 seccomp profile not on the node (profiles/web.json)",
        admission(pod(**PROFILE), host=HostFacts(seccomp=frozenset({"profiles/web.json"}))),
    ),
    "user namespaces turned off": (
        admission(running(pod(**USERNS)), host=recorded(web=userns(65536)), versions=("v1.33.1", "v1.32.2")),
        "user namespaces are off with kubelet v1.32.2",
        admission(
            running(pod(**USERNS)),
            host=recorded(web=userns(65536)),
            versions=("v1.33.1", "v1.32.2"),
            gates={"UserNamespacesSupport": True},
        ),
    ),
    "user namespaces turned on": (
        admission(running(pod(**USERNS))),
        "user namespaces are on with kubelet v1.33.13",
        admission(running(pod(**USERNS)), versions=("v1.30.14", "v1.32.1")),
    ),
    "claims that nobody noted": (
        admission(CLAIMING),
        "the claims of 1 pod are not in dra_manager_state",
        admission(CLAIMING, state={"dra_manager_state": CLAIMED}),
    ),
    "a pod that has succeeded and would not fit": (
        admission(pod("a"), succeeded(pod("b")), config=b"maxPods: 1", versions=("v1.28.14", "v1.29.8")),
        "kubelet v1.29.8 would report as Failed 1 pod",
        admission(pod("a"), succeeded(pod("b")), config=b"maxPods: 1", versions=("v1.28.14", "v1.29.9")),
    ),
    "a pod that has succeeded on a node with other labels": (
        admission(succeeded(pod(nodeSelector={"a": "b"})), versions=("v1.30.1", "v1.31.0")),
        "(kubernetes #126341)",
        admission(succeeded(pod(nodeSelector={"a": "b"})), labels={"a": "b"}, versions=("v1.30.1", "v1.31.0")),
    ),
    "a pod that has succeeded with a device": (
        admission(succeeded(pod(resources=GPU)), capacity=PLENTY, versions=("v1.30.1", "v1.31.0")),
        "(kubernetes #126341)",
        admission(succeeded(pod(resources=GPU)), capacity=PLENTY, versions=("v1.30.1", "v1.31.1")),
    ),
}  # fmt: skip


TRIED = [
    *(found for found, _, _ in (*CASES.values(), *CAUTIONS.values())),
    *(found for _, found, _ in NAMESPACES.values()),
]
