"""Builds nodes with mounted volumes, and provides cases that the checks report."""

from dataclasses import replace
from typing import Any

from nodeupgrade.api.reasons import Reason
from nodeupgrade.api.values import PodRef, PodUid
from nodeupgrade.cluster.pods import parse_pod
from nodeupgrade.kubelet.layout import read_layout
from nodeupgrade.kubelethash import KubeletVersion
from nodeupgrade.node.checks.drift import Drift
from nodeupgrade.node.checks.facts import NodeFacts, Surroundings, VolumeClaim
from nodeupgrade.node.host.files.mounted_volumes import mounted_volumes
from tests.builders.sound import facts, kubelet, pod, readiness

UID = "0d6b3c7e-4f2f-4d0e-9a64-6a3cf6a5a001"
REF = PodRef(namespace="default", name="web", uid=PodUid(UID))
ROOT = "/var/lib/kubelet"
V = KubeletVersion.parse
CONTROLLED = {"annotations": {"volumes.kubernetes.io/controller-managed-attach-detach": "true"}}


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
    spec = {name: given.pop(name) for name in ("volumes", "containers", "securityContext") if name in given}
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


def labelled(current: str, target: str, *modes: str, **given: Any) -> NodeFacts:
    """A pod with an SELinux level, and a claim of these access modes."""
    default = {"takes_label": True, "unread": "", "mounted_label": None, "unfit": "", "passes": False}
    seen = {name: given.pop(name, usual) for name, usual in default.items()}
    claim = VolumeClaim(pod="default/web", name="data", volume="data", access_modes=modes, **seen)
    spec = {"containers": [MOUNTING], "securityContext": {"seLinuxOptions": LEVEL}, "claims": (claim,), "selinux": True}
    return volumes(current, target, **{**spec, **given})


LEVEL = {"level": "s0:c10,c20"}
MOUNTING = {"name": "web", "image": "web:1", "volumeMounts": [{"name": "data", "mountPath": "/data"}]}
SUPER = {**MOUNTING, "name": "super", "securityContext": {"seLinuxOptions": {"type": "spc_t"}}}
OPTED_OUT = {"seLinuxOptions": LEVEL, "seLinuxChangePolicy": "Recursive"}
SINGLE = "ReadWriteOncePod"
IMAGE = {"name": "model", "image": {"reference": "r/model:1"}}

REFUSED: dict[str, tuple[Reason, str, str, NodeFacts]] = {
    "staged by name, crossing 1.24": (
        Reason.VOLUME_NOT_SUPPORTED, "default/web", "#107065",
        volumes("v1.23.17", "v1.24.17", of_pod("csi", "pvc-1"), STAGED),
    ),
    "staged by name, for nobody that is known": (
        Reason.VOLUME_NOT_SUPPORTED, "", "a volume pvc-1 is mounted", volumes("v1.23.17", "v1.24.17", STAGED),
    ),
    "staged by digest, on the way back": (
        Reason.VOLUME_NOT_SUPPORTED, "", "a volume of ebs.csi.aws.com", volumes("v1.24.17", "v1.23.17", STAGED_ANEW),
    ),
    "a block volume, crossing 1.17": (
        Reason.VOLUME_NOT_SUPPORTED, "", "#74026", volumes("v1.16.15", "v1.17.17", BLOCK),
    ),
    "a plugin whose volumes migrate": (
        Reason.VOLUME_NOT_SUPPORTED, "default/web", "#106098",
        volumes("v1.22.17", "v1.23.17", of_pod("aws-ebs", "pv-1")),
    ),
    "a plugin that is removed": (
        Reason.VOLUME_NOT_SUPPORTED, "default/web", "#112015",
        volumes("v1.25.16", "v1.26.15", of_pod("glusterfs", "pv-1")),
    ),
    "a git repository": (
        Reason.VOLUME_NOT_SUPPORTED, "default/web", "#129923",
        volumes("v1.32.13", "v1.33.13", volumes=[{"name": "site", "gitRepo": {"repository": "git://a"}}]),
    ),
    "an image, on the way back": (
        Reason.VOLUME_NOT_SUPPORTED, "default/web", "its volume model is of the type image, which kubelet v1.34.2",
        volumes("v1.35.1", "v1.34.2", volumes=[IMAGE]),
    ),
    "an image, on the way back to a kubelet that knows none": (
        Reason.VOLUME_NOT_SUPPORTED, "default/web", "enhancements #4639",
        volumes("v1.35.1", "v1.30.14", volumes=[IMAGE]),
    ),
    "an image, and the gate is turned off": (
        Reason.VOLUME_NOT_SUPPORTED, "default/web", "its volume model",
        volumes(
            "v1.34.2", "v1.35.1", volumes=[IMAGE], gates={"ImageVolume": False},
            drift=Drift(gates={"ImageVolume": True}),
        ),
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
        Reason.KUBELET_DEFECT, "default/web", "no credentials",
        volumes("v1.31.9", "v1.32.3", claims=(VolumeClaim(pod="default/web", name="data", unread="no credentials"),)),
    ),
    "a claim that cannot be read now": (
        Reason.POD_IN_TRANSITION, "default/web", "HTTP 500",
        volumes(
            "v1.31.9", "v1.32.3", claims=(VolumeClaim(pod="default/web", name="data", unread="HTTP 500", passes=True),)
        ),
    ),
    "a claim that no kubelet takes for bound": (
        Reason.VOLUME_NOT_SUPPORTED, "default/web", "its claim data is Lost, not Bound, so every kubelet that starts",
        volumes(
            "v1.33.13", "v1.36.3",
            claims=(VolumeClaim(pod="default/web", name="data", unfit="is Lost, not Bound", deleting=True),),
        ),
    ),
    "a claim that an API server denies, which may have just started": (
        Reason.POD_IN_TRANSITION, "default/web", "its claim data cannot be read by the kubelet (HTTP 403), so every",
        volumes(
            "v1.33.13", "v1.36.3",
            claims=(
                VolumeClaim(
                    pod="default/web", name="data", unfit="cannot be read by the kubelet (HTTP 403)", passes=True
                ),
            ),
        ),
    ),
    "two labels of a volume whose plugin takes none, crossing 1.37": (
        Reason.VOLUME_NOT_SUPPORTED, "default/web", "different SELinux labels, or without a level, so kubelet v1.37.0",
        labelled("v1.36.3", "v1.37.0", "ReadWriteMany", takes_label=False, containers=[MOUNTING, SUPER]),
    ),
    "two labels of a volume for a single pod whose plugin takes none, crossing 1.32": (
        Reason.VOLUME_NOT_SUPPORTED, "default/web", "different SELinux labels, or without a level, so kubelet v1.32.13",
        labelled("v1.31.14", "v1.32.13", SINGLE, takes_label=False, containers=[MOUNTING, SUPER]),
    ),
    "two labels of a pod that opts out, crossing 1.37": (
        Reason.VOLUME_NOT_SUPPORTED, "default/web", "different SELinux labels, or without a level, so kubelet v1.37.0",
        labelled("v1.36.3", "v1.37.0", "ReadWriteOnce", securityContext=OPTED_OUT, containers=[MOUNTING, SUPER]),
    ),
    "a label without a level, which both kubelets draw": (
        Reason.VOLUME_NOT_SUPPORTED, "default/web", "whose level every kubelet draws anew, so kubelet v1.34.4",
        labelled("v1.33.13", "v1.34.4", SINGLE, securityContext={"seLinuxOptions": {"type": "spc_t"}}),
    ),
    "a label of a volume for a single pod, crossing 1.28": (
        Reason.VOLUME_NOT_SUPPORTED, "default/web",
        "only kubelet v1.28.15 mounts its volume data with an SELinux label, so kubelet v1.28.15 would unmount it",
        labelled("v1.27.16", "v1.28.15", SINGLE),
    ),
    "a label of a volume for a single pod, that the old kubelet has forgotten after a rollback": (
        Reason.VOLUME_NOT_SUPPORTED, "default/web",
        "only kubelet v1.28.15 mounts its volume data with an SELinux label, so kubelet v1.28.15 would unmount it",
        labelled("v1.28.15", "v1.27.16", SINGLE),
    ),
    "a label of a volume of which nothing is known, crossing 1.37": (
        Reason.VOLUME_NOT_SUPPORTED, "default/web", "(no credentials), and kubelet v1.37.0 may unmount its volume data",
        labelled("v1.36.3", "v1.37.0", unread="no credentials"),
    ),
    "a label of a volume of which nothing is known now, crossing 1.37": (
        Reason.POD_IN_TRANSITION, "default/web", "enhancements #1710",
        labelled("v1.36.3", "v1.37.0", unread="nobody answers", passes=True),
    ),
    "a label of a volume whose claim the API server denies, crossing 1.37": (
        Reason.POD_IN_TRANSITION, "default/web", "so every kubelet that starts",
        labelled("v1.36.3", "v1.37.0", unfit="cannot be read by the kubelet (HTTP 403)", passes=True),
    ),
    "a label of any volume, crossing 1.37": (
        Reason.VOLUME_NOT_SUPPORTED, "default/web", "so kubelet v1.37.0 would unmount it under the running pod",
        labelled("v1.36.3", "v1.37.0", "ReadWriteOnce"),
    ),
    "a label of any volume, on the way back": (
        Reason.VOLUME_NOT_SUPPORTED, "default/web", "so kubelet v1.36.3 would unmount it under the running pod",
        labelled("v1.37.0", "v1.36.3", "ReadWriteOnce"),
    ),
    "a label of any volume, by a container": (
        Reason.VOLUME_NOT_SUPPORTED, "default/web", "its volume data",
        labelled(
            "v1.36.3", "v1.37.0", "ReadWriteMany", securityContext=None,
            containers=[{**MOUNTING, "securityContext": {"seLinuxOptions": LEVEL}}],
        ),
    ),
    "a label, of a volume that was mounted before its driver took any": (
        Reason.VOLUME_NOT_SUPPORTED, "default/web", "was mounted without an SELinux label, with which kubelet v1.34.4",
        labelled("v1.33.13", "v1.34.4", SINGLE, mounted_label=""),
    ),
    "a label, of a volume whose driver takes none any more": (
        Reason.VOLUME_NOT_SUPPORTED, "default/web", "was mounted with an SELinux label, without which kubelet v1.34.4",
        labelled("v1.33.13", "v1.34.4", SINGLE, mounted_label="system_u:object_r:c:s0:c10,c20", takes_label=False),
    ),
    "a label that the new kubelet is the first to leave out": (
        Reason.VOLUME_NOT_SUPPORTED, "default/web", "only kubelet v1.32.13 mounts",
        labelled("v1.32.13", "v1.33.13", SINGLE, securityContext=OPTED_OUT),
    ),
}  # fmt: skip


CAUTIONS: dict[str, tuple[Reason, str, NodeFacts]] = {
    "a group that the new kubelet is the first to give all files to": (
        Reason.CONTAINER_WOULD_NOT_RESTART, "fsGroup of 1 pod read and write every file in them (kubernetes #88759)",
        volumes("v1.19.16", "v1.20.15", of_pod("csi", "pvc-1"), securityContext={"fsGroup": 0}),
    ),
    "a volume that is not attached": (
        Reason.POD_IN_TRANSITION, "volume csi^2 is in use and not attached",
        volumes("v1.30.14", "v1.33.13", node={"metadata": CONTROLLED, "status": {"volumesInUse": ["csi^2"]}}),
    ),
}  # fmt: skip
