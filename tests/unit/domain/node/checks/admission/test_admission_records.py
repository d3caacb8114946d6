"""What a kubelet that starts asks of the node's labels, its own records and static pods, and what it would forget."""

from typing import Any

import pytest

from nodeupgrade.api.json import Json
from nodeupgrade.api.reasons import Reason
from nodeupgrade.findings.check import ask
from nodeupgrade.node.checks.facts import Admission, HostFacts
from nodeupgrade.node.checks.registry import OF_ADMISSION
from tests.unit.domain.node.checks.admission import test_admission
from tests.unit.domain.node.checks.admission.admitted import (
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
        "wants topology.kubernetes.io/zone=a",
        admission(
            pod(nodeSelector={"disk": "ssd", "topology.kubernetes.io/zone": "a"}),
            labels={"disk": "ssd", "topology.kubernetes.io/zone": "a"},
            words=("--node-labels=disk=ssd,a=b", "--cloud-provider=aws"),
            versions=("v1.19.8", "v1.20.2"),
        ),
    ),
    "a label of another architecture": (
        admission(pod(nodeSelector={"kubernetes.io/arch": "arm64"}), labels={"kubernetes.io/arch": "arm64"}),
        "puts the labels of its platform right",
        admission(pod(nodeSelector={"kubernetes.io/arch": "amd64"}), labels={"kubernetes.io/arch": "amd64"}),
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
        "it is a static pod and refers to a ServiceAccount, so kubelet v1.34.0 would not run it",
        by_manifest(admission(pod(serviceAccountName="admin"), versions=("v1.32.1", "v1.33.13"))),
    ),
    "a static pod with a Secret": (
        by_manifest(admission(pod(volumes=[{"name": "v", "secret": {}}]), versions=("v1.34.0", "v1.33.13"))),
        "what a volume takes from secret",
        admission(pod(volumes=[{"name": "v", "secret": {}}]), versions=("v1.34.0", "v1.33.13")),
    ),
}  # fmt: skip


@pytest.mark.parametrize(("found", "told", "control"), CASES.values(), ids=CASES.keys())
def test_a_pod_that_would_be_killed_is_told_of_and_no_other(found: Admission, told: str, control: Admission) -> None:
    test_admission.test_a_pod_that_would_be_killed_is_told_of_and_no_other(found, told, control)


NAMESPACES: dict[str, tuple[Reason, Admission, str]] = {
    "of another length": (
        Reason.KUBELET_WOULD_NOT_START,
        admission(running(pod(**USERNS)), host=recorded(web=userns(65536, 1024))),
        "is not as kubelets write it",
    ),
    "that is no JSON": (
        Reason.KUBELET_WOULD_NOT_START,
        admission(running(pod(**USERNS)), host=recorded(web=b"[]")),
        "is not as kubelets write it",
    ),
    "of other groups than users": (
        Reason.KUBELET_WOULD_NOT_START,
        admission(running(pod(**USERNS)), host=recorded(web=userns(65536, groups=131072))),
        "is not as kubelets write it",
    ),
    "that begins in the middle": (
        Reason.KUBELET_WOULD_NOT_START,
        admission(running(pod(**USERNS)), host=recorded(web=userns(1000))),
        "is not as kubelets write it",
    ),
    "of two pods": (
        Reason.KUBELET_WOULD_NOT_START,
        admission(
            *(running(pod(name, **USERNS)) for name in "ab"), host=recorded(a=userns(65536), b=userns(65536))
        ),
        "names the user IDs of default/a too",
    ),
    "that is not there": (
        Reason.CONTAINER_COULD_NOT_RESTART,
        admission(running(pod(**USERNS)), versions=("v1.33.1", "v1.34.2")),
        "there is no record of its user namespace",
    ),
}  # fmt: skip


@pytest.mark.parametrize(("reason", "found", "told"), NAMESPACES.values(), ids=NAMESPACES.keys())
def test_a_record_of_a_user_namespace_is_refused(reason: Reason, found: Admission, told: str) -> None:
    [finding] = ask(CHECKS, found)

    assert (finding.reason, finding.forbids) == (reason, True)
    assert told in finding.detail


@pytest.mark.parametrize(
    "sound",
    [
        admission(running(pod(**USERNS)), host=recorded(web=userns(65536)), versions=("v1.33.1", "v1.34.2")),
        admission(
            running(pod(**USERNS)),
            host=recorded(web=userns(131072, 131072)),
            config=b"userNamespaces: {idsPerPod: 131072}",
            versions=("v1.33.1", "v1.34.2"),
        ),
        admission(running(pod(**USERNS)), host=recorded(web=b"{"), versions=("v1.31.1", "v1.32.2")),
        admission(pod(**USERNS), versions=("v1.33.1", "v1.34.2")),
        admission(running(pod(hostUsers=True)), versions=("v1.33.1", "v1.34.2")),
    ],
    ids=["as written", "of another length", "without the feature", "not started yet", "of the host"],
)
def test_a_sound_user_namespace_is_no_matter(sound: Admission) -> None:
    assert (*ask(CHECKS, sound), *ask(WARNINGS, sound)) == ()


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
        "kubelet v1.29.8 would report 1 pod as Failed",
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


@pytest.mark.parametrize(("found", "told", "control"), CAUTIONS.values(), ids=CAUTIONS.keys())
def test_what_forbids_nothing_is_told_of(found: Admission, told: str, control: Admission) -> None:
    [finding] = ask(WARNINGS, found)

    assert (finding.forbids, told in finding.detail) == (False, True), finding.detail
    assert (*ask(WARNINGS, control), *ask(CHECKS, found)) == ()


@pytest.mark.parametrize(
    ("spec", "told"),
    [
        ({"imagePullSecrets": [{"name": "s"}]}, "a Secret"),
        ({"resourceClaims": [{"name": "c"}]}, "a ResourceClaim"),
        ({"containers": [{"name": "c", "env": [{"valueFrom": {"configMapKeyRef": {}}}]}]}, None),
        ({"containers": [{"name": "c", "env": [{"valueFrom": {"configMapKeyRef": {"name": "m"}}}]}]}, "a ConfigMap"),
        ({"initContainers": [{"name": "c", "envFrom": [{"secretRef": {"name": "m"}}]}]}, "a Secret"),
        ({"containers": [{"name": "c", "env": [{"valueFrom": {"fieldRef": {"fieldPath": "x"}}}]}]}, None),
        ({"volumes": [{"name": "v", "hostPath": {}}, {"name": "e"}, {"name": "d", "emptyDir": {}}]}, None),
        ({"volumes": [{"name": "v", "iscsi": {"secretRef": {"name": "s"}}}]}, "a Secret"),
        ({"volumes": [{"name": "v", "persistentVolumeClaim": {}}]}, "a volume takes from persistentVolumeClaim"),
        ({"volumes": [{"name": "v", "projected": {"sources": [{"downwardAPI": {}}]}}]}, None),
        ({"volumes": [{"name": "v", "projected": {"sources": [{"configMap": {}}]}}]}, "takes from configMap"),
    ],
)
def test_what_a_static_pod_refers_to(spec: Json, told: str | None) -> None:
    found = list(ask(CHECKS, by_manifest(admission(pod(**spec), versions=("v1.33.1", "v1.34.0")))))

    assert [told in finding.detail for finding in found if told] == ([True] if told else [])
    assert len(found) == (told is not None)


TRIED = [
    *(found for found, _, _ in (*CASES.values(), *CAUTIONS.values())),
    *(found for _, found, _ in NAMESPACES.values()),
]


def test_every_check_is_tried_by_some_case() -> None:
    tried = [*(found for found, _, _ in test_admission.CASES.values()), *TRIED]

    assert [check.name for check in (*CHECKS, *WARNINGS) if not any(list(check(found)) for found in tried)] == []
