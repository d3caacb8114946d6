"""Tests the checks of volumes."""

from dataclasses import replace

import pytest

from nodeupgrade.api.reasons import Reason
from nodeupgrade.findings.check import ask, checks_of
from nodeupgrade.node.checks import volumes as of_volumes
from nodeupgrade.node.checks.drift import Drift
from nodeupgrade.node.checks.facts import NodeFacts, VolumeClaim
from tests.builders.sound import kubelet
from tests.builders.volume_cases import (
    BLOCK,
    CAUTIONS,
    CONTROLLED,
    IMAGE,
    LEVEL,
    MOUNTING,
    OPTED_OUT,
    REFUSED,
    SINGLE,
    STAGED,
    STAGED_ANEW,
    SUPER,
    UID,
    labelled,
    of_pod,
    volumes,
)

CHECKS, WARNINGS = checks_of(of_volumes, warns=False), checks_of(of_volumes, warns=True)


CLAIMED = [{"name": "data", "persistentVolumeClaim": {"claimName": "data"}}]


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
    "an image, and both kubelets set it up": volumes("v1.36.1", "v1.35.1", volumes=[IMAGE]),
    "an image, with its gate": volumes("v1.35.1", "v1.34.2", volumes=[IMAGE], gates={"ImageVolume": True}),
    "an image that the running kubelet has not set up either": volumes("v1.34.2", "v1.33.13", volumes=[IMAGE]),
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
    "a claim of which nobody says anything, and kubelets that may get an answer": volumes(
        "v1.33.13", "v1.36.3", claims=(VolumeClaim(pod="default/web", name="data", unread="nobody answers"),)
    ),
    "a label, and no SELinux": labelled("v1.36.3", "v1.37.0", "ReadWriteOnce", selinux=False),
    "a label, within minors that mount alike": labelled("v1.28.15", "v1.36.3", SINGLE),
    "a label, with opting out": labelled("v1.36.3", "v1.37.0", "ReadWriteOnce", gates={"SELinuxMount": False}),
    "a label, and the old kubelet mounts with it already": labelled(
        "v1.36.3", "v1.37.0", "ReadWriteOnce", drift=Drift(gates={"SELinuxMount": True})
    ),
    "a label of a volume for a single pod, with opting out": labelled(
        "v1.27.16", "v1.28.15", SINGLE, gates={"SELinuxMountReadWriteOncePod": False}
    ),
    "a label of a volume for several pods, crossing 1.28": labelled("v1.27.16", "v1.28.15", SINGLE, "ReadWriteOnce"),
    "a label of a volume for a single pod, crossing 1.37": labelled("v1.36.3", "v1.37.0", SINGLE),
    "a label of a volume whose plugin takes none": labelled("v1.36.3", "v1.37.0", "ReadWriteMany", takes_label=False),
    "one label of files for two types, of a volume whose plugin takes none": labelled(
        "v1.36.3", "v1.37.0", "ReadWriteMany", takes_label=False,
        containers=[MOUNTING, {**SUPER, "securityContext": {"seLinuxOptions": {**LEVEL, "type": "spc_t"}}}],
    ),
    "two labels of a volume, which the running kubelet would not have mounted either": labelled(
        "v1.33.13", "v1.34.4", SINGLE,
        containers=[MOUNTING, {**SUPER, "securityContext": {"seLinuxOptions": {"level": "s0:c1,c2"}}}],
    ),
    "a label without a level, of a volume that neither kubelet mounts with one": labelled(
        "v1.33.13", "v1.34.4", "ReadWriteOnce", securityContext={"seLinuxOptions": {"type": "spc_t"}}
    ),
    "a label with which a volume was mounted": labelled(
        "v1.33.13", "v1.34.4", SINGLE, mounted_label="system_u:object_r:c:s0:c10,c20"
    ),
    "a label without which a volume was mounted": labelled("v1.33.13", "v1.34.4", "ReadWriteOnce", mounted_label=""),
    "a label of a volume that changed, and kubelets that do not look": labelled(
        "v1.33.13", "v1.34.4", SINGLE, mounted_label="", gates={"SELinuxMountReadWriteOncePod": False}
    ),
    "a label of a pod that opts out": labelled("v1.36.3", "v1.37.0", "ReadWriteOnce", securityContext=OPTED_OUT),
    "no label": labelled("v1.36.3", "v1.37.0", "ReadWriteOnce", securityContext={"seLinuxOptions": {"level": ""}}),
    "a label of a pod, which its container replaces by none": labelled(
        "v1.36.3", "v1.37.0", "ReadWriteOnce", containers=[{**MOUNTING, "securityContext": {"seLinuxOptions": {}}}]
    ),
    "a label of a container that does not mount the volume": labelled(
        "v1.36.3", "v1.37.0", "ReadWriteOnce", securityContext={},
        containers=[MOUNTING, {"name": "side", "securityContext": {"seLinuxOptions": LEVEL}}],
    ),
    "a label, and a kubelet of an unknown version": replace(
        labelled("v1.36.3", "v1.37.0", "ReadWriteOnce"), kubelet=kubelet(current=None)
    ),
    "a label of a pod that is gone": labelled("v1.36.3", "v1.37.0", "ReadWriteOnce", pods=()),
    "a group, and the running kubelet has given it the files": volumes(
        "v1.20.15", "v1.21.14", of_pod("csi", "pvc-1"), securityContext={"fsGroup": 7}
    ),
    "a group, and no CSI volume": volumes(
        "v1.19.16", "v1.20.15", of_pod("nfs", "pv-1"), securityContext={"fsGroup": 7}
    ),
    "a group that the root of the volume has": volumes(
        "v1.19.16", "v1.20.15", of_pod("csi", "pvc-1"),
        securityContext={"fsGroup": 7, "fsGroupChangePolicy": "OnRootMismatch"},
    ),
    "no group": volumes("v1.19.16", "v1.20.15", of_pod("csi", "pvc-1"), securityContext={}),
    "a kubelet of an unknown version": replace(
        volumes("v1.23.17", "v1.24.17", STAGED, BLOCK), kubelet=kubelet(current=None)
    ),
}  # fmt: skip


@pytest.mark.parametrize("found", LET_PASS.values(), ids=LET_PASS.keys())
def test_what_does_no_harm_is_let_pass(found: NodeFacts) -> None:
    assert ask((*CHECKS, *WARNINGS), found) == ()


@pytest.mark.parametrize(("reason", "told", "found"), CAUTIONS.values(), ids=CAUTIONS.keys())
def test_what_deserves_attention(reason: Reason, told: str, found: NodeFacts) -> None:
    assert ask(CHECKS, found) == ()
    (finding,) = ask(WARNINGS, found)

    assert (finding.reason, finding.forbids) == (reason, False)
    assert told in finding.detail
