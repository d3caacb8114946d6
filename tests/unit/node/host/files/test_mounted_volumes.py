"""Tests how mounted volumes are read from the mount table."""

from nodeupgrade.node.host.files.mounted_volumes import MountedVolumes, mounted_volumes
from tests.builders.volume_cases import BLOCK, STAGED, STAGED_ANEW, UID, of_pod, table


def test_volumes_are_found_in_the_mount_table() -> None:
    found = mounted_volumes(
        table("/", of_pod("csi", "pvc-1"), of_pod("projected", "kube-api-access"), STAGED, STAGED_ANEW, BLOCK)
        + f"\n{table(f'{BLOCK}/{UID}', of_pod('csi', 'pvc-1'))}"
    )

    assert [(v.pod, v.plugin, v.name) for v in found.of_pods] == [
        (UID, "kubernetes.io/csi", "pvc-1"),
        (UID, "kubernetes.io/projected", "kube-api-access"),
    ]
    assert (found.staged_by_name, found.staged_by_digest) == (("pvc-1",), ("ebs.csi.aws.com",))
    assert (found.published, found.published_for_pods) == (("pvc-2",), ("pvc-2",))
    assert mounted_volumes("") == MountedVolumes()
