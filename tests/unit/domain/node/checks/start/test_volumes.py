"""Volumes: what is mounted is read from the mount table, and whatever the new kubelet would not keep is named."""

from dataclasses import replace
from typing import Any

import pytest

from nodeupgrade.api.reasons import Reason
from nodeupgrade.api.values import PodRef, PodUid
from nodeupgrade.cluster.pods import parse_pod
from nodeupgrade.findings.check import ask, checks_of
from nodeupgrade.kubelet.layout import read_layout
from nodeupgrade.kubelethash import KubeletVersion
from nodeupgrade.node.checks import volumes as of_volumes
from nodeupgrade.node.checks.facts import NodeFacts, Surroundings, VolumeClaim
from nodeupgrade.node.host.files.mounted_volumes import MountedVolumes, mounted_volumes
from tests.unit.domain.node.checks.sound import facts, kubelet, pod, readiness

CHECKS, WARNINGS = checks_of(of_volumes, warns=False), checks_of(of_volumes, warns=True)

UID = "0d6b3c7e-4f2f-4d0e-9a64-6a3cf6a5a001"
REF = PodRef(namespace="default", name="web", uid=PodUid(UID))
ROOT = "/var/lib/kubelet"
V = KubeletVersion.parse
CONTROLLED = {"annotations": {"volumes.kubernetes.io/controller-managed-attach-detach": "true"}}
CLAIMED = [{"name": "data", "persistentVolumeClaim": {"claimName": "data"}}]


def table(*points: str) -> str:
    return "\n".join(
        f"{i} 25 0:{i} / {point} rw,relatime shared:1 - ext4 /dev/sdb rw" for i, point in enumerate(points)
    )


def of_pod(plugin: str, name: str, uid: str = UID) -> str:
    mount = "/mount" if plugin == "csi" else ""
    return f"{ROOT}/pods/{uid}/volumes/kubernetes.io~{plugin}/{name}{mount}"


STAGED = f"{ROOT}/plugins/kubernetes.io/csi/pv/pvc-1/globalmount"
STAGED_ANEW = f"{ROOT}/plugins/kubernetes.io/csi/ebs.csi.aws.com/{'a' * 64}/globalmount"
BLOCK = f"{ROOT}/plugins/kubernetes.io/csi/volumeDevices/publish/pvc-2"


def volumes(current: str, target: str, *points: str, **given: Any) -> NodeFacts:
    spec = {"volumes": given.pop("volumes")} if "volumes" in given else {}
    layout = replace(read_layout(()), gates=given.pop("gates", {}))
    seen = {name: given.pop(name) for name in ("claims", "selinux") if name in given}
    known: dict[str, Any] = {
        "pods": (parse_pod(pod(REF, **spec)),),
        "kubelet": kubelet(current=V(current)),
        "target": V(target),
        "readiness": readiness(layout=layout),
        "around": Surroundings(mounted=mounted_volumes(table("/", ROOT, *points)), **seen),
    }
    return facts(**{**known, **given})


def test_volumes_are_found_in_the_mount_table() -> None:
    found = mounted_volumes(
        table("/", of_pod("csi", "pvc-1"), of_pod("projected", "kube-api-access"), STAGED, STAGED_ANEW, BLOCK)
        + f"\n{table(f'{BLOCK}/{UID}', of_pod('csi', 'pvc-1'))}\ndamaged"
    )

    assert [(v.pod, v.plugin, v.name) for v in found.of_pods] == [
        (UID, "kubernetes.io/csi", "pvc-1"),
        (UID, "kubernetes.io/projected", "kube-api-access"),
    ]
    assert (found.staged_by_name, found.staged_by_digest) == (("pvc-1",), ("ebs.csi.aws.com",))
    assert (found.published, found.published_for_pods) == (("pvc-2",), ("pvc-2",))
    assert mounted_volumes("") == MountedVolumes()


REFUSED: dict[str, tuple[Reason, str, str, NodeFacts]] = {
    "staged by name, crossing 1.24": (
        Reason.VOLUME_NOT_KEPT, "default/web", "#107065",
        volumes("v1.23.17", "v1.24.17", of_pod("csi", "pvc-1"), STAGED),
    ),
    "staged by name, for nobody that is known": (
        Reason.VOLUME_NOT_KEPT, "", "a volume pvc-1 is mounted", volumes("v1.23.17", "v1.24.17", STAGED),
    ),
    "staged by digest, on the way back": (
        Reason.VOLUME_NOT_KEPT, "", "a volume of ebs.csi.aws.com", volumes("v1.24.17", "v1.23.17", STAGED_ANEW),
    ),
    "a block volume, crossing 1.17": (
        Reason.VOLUME_NOT_KEPT, "", "#74026", volumes("v1.16.15", "v1.17.17", BLOCK),
    ),
    "a plugin whose volumes migrate": (
        Reason.VOLUME_NOT_KEPT, "default/web", "#106098", volumes("v1.22.17", "v1.23.17", of_pod("aws-ebs", "pv-1")),
    ),
    "a plugin that is removed": (
        Reason.VOLUME_NOT_KEPT, "default/web", "#112015", volumes("v1.25.16", "v1.26.15", of_pod("glusterfs", "pv-1")),
    ),
    "a git repository": (
        Reason.VOLUME_NOT_KEPT, "default/web", "#129923",
        volumes("v1.32.13", "v1.33.13", volumes=[{"name": "site", "gitRepo": {"repository": "git://a"}}]),
    ),
    "a claim that is being deleted": (
        Reason.KUBELET_DEFECT, "default/web", "fixed in 1.32.4",
        volumes("v1.31.9", "v1.32.3", claims=(VolumeClaim(pod="default/web", name="data", deleting=True),)),
    ),
    "a claim that is being deleted, on the way back": (
        Reason.KUBELET_DEFECT, "default/web", "kubelet v1.30.11",
        volumes("v1.30.11", "v1.30.12", claims=(VolumeClaim(pod="default/web", name="data", deleting=True),)),
    ),
    "a claim that cannot be read": (
        Reason.KUBELET_DEFECT, "default/web", "HTTP 403",
        volumes("v1.31.9", "v1.32.3", claims=(VolumeClaim(pod="default/web", name="data", unread="HTTP 403"),)),
    ),
}  # fmt: skip


@pytest.mark.parametrize(("reason", "subject", "told", "found"), REFUSED.values(), ids=REFUSED.keys())
def test_what_forbids_a_run(reason: Reason, subject: str, told: str, found: NodeFacts) -> None:
    (finding,) = ask(CHECKS, found)

    assert (finding.reason, finding.subject, finding.forbids) == (reason, subject, True)
    assert told in finding.detail


LET_PASS: dict[str, NodeFacts] = {
    "CSI volumes, within minors that place them alike": volumes(
        "v1.30.14", "v1.33.13", of_pod("csi", "pvc-1"), of_pod("projected", "token"), STAGED_ANEW, f"{BLOCK}/{UID}",
        volumes=CLAIMED,
    ),
    "old places, that the running kubelet does not use either": volumes("v1.24.17", "v1.25.16", STAGED, BLOCK),
    "new places from before, crossing": volumes("v1.23.17", "v1.24.17", STAGED_ANEW),
    "a migration that is postponed": volumes(
        "v1.22.17", "v1.23.17", of_pod("aws-ebs", "pv-1"), gates={"CSIMigrationAWS": False}
    ),
    "a volume of a pod that is gone": volumes("v1.25.16", "v1.26.15", of_pod("glusterfs", "pv-1", uid="0" * 32)),
    "a git repository, with its gate": volumes(
        "v1.32.13", "v1.33.13", volumes=[{"name": "site", "gitRepo": {}}], gates={"GitRepoVolumeDriver": True}
    ),
    "a claim that is being deleted, and kubelets that keep its volume": volumes(
        "v1.30.12", "v1.32.4", claims=(VolumeClaim(pod="default/web", name="data", deleting=True),)
    ),
    "a claim that is kept": volumes("v1.31.9", "v1.32.3", claims=(VolumeClaim(pod="default/web", name="data"),)),
    "attached volumes": volumes(
        "v1.30.14", "v1.33.13",
        node={
            "metadata": CONTROLLED,
            "status": {"volumesInUse": ["csi^1"], "volumesAttached": [{"name": "csi^1", "devicePath": ""}]},
        },
    ),
    "volumes that the kubelet attaches": volumes(
        "v1.30.14", "v1.33.13", node={"metadata": {}, "status": {"volumesInUse": ["csi^1"]}}
    ),
    "SELinux, with opting out": volumes(
        "v1.36.1", "v1.37.0", volumes=CLAIMED, selinux=True, gates={"SELinuxMount": False}
    ),
    "SELinux, and no claim": volumes("v1.36.1", "v1.37.0", selinux=True),
    "a kubelet of an unknown version": replace(
        volumes("v1.23.17", "v1.24.17", STAGED, BLOCK), kubelet=kubelet(current=None)
    ),
}  # fmt: skip


@pytest.mark.parametrize("found", LET_PASS.values(), ids=LET_PASS.keys())
def test_what_does_no_harm_is_let_pass(found: NodeFacts) -> None:
    assert ask((*CHECKS, *WARNINGS), found) == ()


CAUTIONS: dict[str, tuple[Reason, str, NodeFacts]] = {
    "SELinux": (
        Reason.VOLUME_NOT_KEPT, "1 pod with persistent volumes: default/web",
        volumes("v1.36.1", "v1.37.0", volumes=[{"name": "scratch", "ephemeral": {}}], selinux=True),
    ),
    "a volume that is not attached": (
        Reason.POD_IN_TRANSITION, "volume csi^2 is in use and not attached",
        volumes("v1.30.14", "v1.33.13", node={"metadata": CONTROLLED, "status": {"volumesInUse": ["csi^2"]}}),
    ),
}  # fmt: skip


@pytest.mark.parametrize(("reason", "told", "found"), CAUTIONS.values(), ids=CAUTIONS.keys())
def test_what_deserves_attention(reason: Reason, told: str, found: NodeFacts) -> None:
    assert ask(CHECKS, found) == ()
    (finding,) = ask(WARNINGS, found)

    assert (finding.reason, finding.forbids) == (reason, False)
    assert told in finding.detail
