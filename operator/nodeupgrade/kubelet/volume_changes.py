"""Changes of volumes between releases of the kubelet; a part of `kubelet.history`."""

from collections.abc import Mapping

from nodeupgrade.kubelet.history import ReleaseDefect
from nodeupgrade.kubelethash import MinorChange
from nodeupgrade.kubelethash.changes import pull

BLOCK_VOLUMES_MOVED = MinorChange(
    what="CSI drivers publish block volumes below a directory for each volume.",
    link=pull(74026),
    first=17,
)
STAGED_VOLUMES_MOVED = MinorChange(
    what="CSI drivers stage volumes in a directory that is named after driver and volume, not after the PV.",
    link=pull(107065),
    first=24,
)
CSI_MIGRATIONS: Mapping[str, MinorChange] = {
    plugin: MinorChange(
        what=f"The CSI driver takes over volumes of the plugin `{plugin}` by default.", link=pull(number), first=first
    )
    for plugin, first, number in (
        ("kubernetes.io/cinder", 21, 98538),
        ("kubernetes.io/aws-ebs", 23, 106098),
        ("kubernetes.io/gce-pd", 23, 104722),
        ("kubernetes.io/azure-disk", 23, 104670),
        ("kubernetes.io/azure-file", 24, 105070),
        ("kubernetes.io/vsphere-volume", 25, 103523),
        ("kubernetes.io/portworx-volume", 31, 125016),
    )
}
"""Plugins whose volumes a CSI driver takes over, by name."""

VOLUME_PLUGINS_REMOVED: Mapping[str, MinorChange] = {
    plugin: MinorChange(what=f"The volume plugin `{plugin}` is removed.", link=pull(number), first=first)
    for plugin, first, number in (
        ("kubernetes.io/scaleio", 22, 101685),
        ("kubernetes.io/flocker", 25, 111618),
        ("kubernetes.io/quobyte", 25, 111619),
        ("kubernetes.io/storageos", 25, 111620),
        ("kubernetes.io/glusterfs", 26, 112015),
        ("kubernetes.io/cephfs", 31, 124544),
        ("kubernetes.io/rbd", 31, 124546),
    )
}
"""Plugins that no CSI driver takes over by default, by name."""

GIT_REPO_OFF = MinorChange(
    what="Volumes of the type `gitRepo` are not set up unless the gate `GitRepoVolumeDriver` is on.",
    link=pull(129923),
    first=33,
)
SELINUX_MOUNTED = MinorChange(
    what="Under SELinux, volumes of every access mode are mounted with the label of their pod.",
    link=pull(139956),
    first=37,
)
CLAIMS_UNMOUNTED = ReleaseDefect(
    what="A starting kubelet unmounts volumes of running pods whose PersistentVolumeClaim is being deleted.",
    link=pull(130335),
    releases=(((10, 0), (30, 11)), ((31, 0), (31, 7)), ((32, 0), (32, 3))),
)
