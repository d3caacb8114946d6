"""Checks of how volumes are mounted: in which place, by which plugin, and with which label."""

from collections.abc import Iterable, Iterator

from nodeupgrade.api.reasons import Reason, Severity, counted
from nodeupgrade.domain.check import check
from nodeupgrade.domain.finding import Finding, named
from nodeupgrade.domain.hazards import Hazard
from nodeupgrade.domain.node.checks.volumes.facts import Volumes, claims_of, volumes_of
from nodeupgrade.kubelet import volume_changes
from nodeupgrade.kubelethash import MinorChange

CSI = "kubernetes.io/csi"
MIGRATION_GATES = {
    "kubernetes.io/cinder": "CSIMigrationOpenStack",
    "kubernetes.io/aws-ebs": "CSIMigrationAWS",
    "kubernetes.io/gce-pd": "CSIMigrationGCE",
    "kubernetes.io/azure-disk": "CSIMigrationAzureDisk",
    "kubernetes.io/azure-file": "CSIMigrationAzureFile",
    "kubernetes.io/vsphere-volume": "CSIMigrationvSphere",
    "kubernetes.io/portworx-volume": "CSIMigrationPortworx",
}
"""Gates by which the migration of a plugin may be postponed."""


@check(
    Reason.VOLUME_NOT_KEPT,
    follows=(volume_changes.BLOCK_VOLUMES_MOVED, volume_changes.STAGED_VOLUMES_MOVED),
    covers=(Hazard.VOLUME_LAYOUT_CHANGES,),
)
def volumes_keep_their_place(facts: Volumes) -> Iterator[Finding]:
    """Every volume of a CSI driver is mounted where the new kubelet looks for it."""
    mounted = facts.mounted
    staging, blocks = volume_changes.STAGED_VOLUMES_MOVED, volume_changes.BLOCK_VOLUMES_MOVED
    for change, before, after in (
        (staging, mounted.staged_by_name, [f"of {driver}" for driver in mounted.staged_by_digest]),
        (blocks, mounted.published, mounted.published_for_pods),
    ):
        if change.begins_between(facts.current, facts.target):
            yield from _misplaced(facts, change, before)
        elif change.begins_between(facts.target, facts.current):
            yield from _misplaced(facts, change, after)


@check(
    Reason.VOLUME_NOT_KEPT,
    follows=(
        *volume_changes.CSI_MIGRATIONS.values(),
        *volume_changes.VOLUME_PLUGINS_REMOVED.values(),
        volume_changes.GIT_REPO_OFF,
    ),
    covers=(Hazard.VOLUME_LAYOUT_CHANGES, Hazard.VOLUME_PLUGIN_REMOVED),
)
def volumes_keep_their_plugin(facts: Volumes) -> Iterator[Finding]:
    """The new kubelet handles every mounted volume by the plugin that mounted it."""
    for pod, volume in facts.of_pods():
        migrated = volume_changes.CSI_MIGRATIONS.get(volume.plugin)
        removed = volume_changes.VOLUME_PLUGINS_REMOVED.get(volume.plugin)
        if migrated is not None and _is_migrated(facts, volume.plugin, migrated):
            detail = (
                f"its volume {volume.name} is mounted by {volume.plugin}, and kubelet {facts.target} leaves such "
                f"volumes to a CSI driver ({migrated.reference})"
            )
        elif removed is not None and removed.begins_between(facts.current, facts.target):
            detail = (
                f"its volume {volume.name} is mounted by {volume.plugin}, which kubelet {facts.target} does not have "
                f"({removed.reference})"
            )
        else:
            continue
        yield Finding(reason=Reason.VOLUME_NOT_KEPT, subject=str(pod.ref), detail=detail)
    yield from _git_repositories(facts)


@check(Reason.VOLUME_NOT_KEPT, follows=(volume_changes.SELINUX_MOUNTED,), covers=(Hazard.VOLUME_RELABELLED,))
def volumes_keep_their_label(facts: Volumes) -> Iterator[Finding]:
    """Under SELinux, the new kubelet is not the first to mount all volumes with the label of their pod."""
    change = volume_changes.SELINUX_MOUNTED
    claiming = [str(pod.ref) for pod in facts.alive() if any(claims_of(pod))]
    off = facts.gates.get("SELinuxMount") is False
    if facts.selinux and claiming and not off and change.begins_between(facts.current, facts.target):
        detail = (
            f"kubelet {facts.target} mounts volumes with the SELinux label of their pod ({change.reference}): pods "
            "that share a volume under different labels cannot both be started again; "
            f"{counted(len(claiming), 'pod')} with persistent volumes: {named(claiming)}"
        )
        remedy = "give these pods one label, or set seLinuxChangePolicy: Recursive in them"
        yield Finding(reason=Reason.VOLUME_NOT_KEPT, detail=detail, severity=Severity.WARN, remedy=remedy)


def _misplaced(facts: Volumes, change: MinorChange, names: Iterable[str]) -> Iterator[Finding]:
    """Report the pods that use these volumes, or the volume where its pod cannot be told."""
    why = f"is mounted where kubelet {facts.target} does not look for it ({change.reference})"
    users = {volume.name: str(pod.ref) for pod, volume in facts.of_pods() if volume.plugin == CSI}
    for name in names:
        subject = users.get(name, "")
        detail = f"its volume {name} {why}" if subject else f"a volume {name} {why}"
        yield Finding(reason=Reason.VOLUME_NOT_KEPT, subject=subject, detail=detail)


def _is_migrated(facts: Volumes, plugin: str, change: MinorChange) -> bool:
    gate = facts.gates.get(MIGRATION_GATES[plugin])
    return change.begins_between(facts.current, facts.target) and gate is None


def _git_repositories(facts: Volumes) -> Iterator[Finding]:
    change = volume_changes.GIT_REPO_OFF
    if facts.gates.get("GitRepoVolumeDriver") or not change.begins_between(facts.current, facts.target):
        return
    for pod in facts.alive():
        for volume in volumes_of(pod):
            if volume.get("gitRepo") is not None:
                detail = (
                    f"its volume {volume.get('name')} is a gitRepo, which kubelet {facts.target} does not set up "
                    f"({change.reference}), so that it would not start the pod's containers again"
                )
                yield Finding(reason=Reason.VOLUME_NOT_KEPT, subject=str(pod.ref), detail=detail)
