"""Checks of volumes: would the new kubelet find every volume that is mounted, and leave it alone?

Everything is taken from the node's mount table, from the pods, their claims and the Node.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from nodeupgrade.api.json import Json
from nodeupgrade.api.reasons import Reason
from nodeupgrade.api.wording import counted
from nodeupgrade.cluster.pods import Pod, PodContainer
from nodeupgrade.findings.check import Found, check
from nodeupgrade.findings.finding import Finding, named
from nodeupgrade.findings.hazards import Hazard
from nodeupgrade.kubelet import history, known_defects
from nodeupgrade.kubelethash import KubeletVersion, MinorChange
from nodeupgrade.node.checks.facts import NodeFacts, VolumeClaim
from nodeupgrade.node.host.files.mounted_volumes import PodVolume


def _of_pods(facts: NodeFacts) -> Iterator[tuple[Pod, PodVolume]]:
    """Return the mounted volumes of pods that have not ended."""
    pods = {str(pod.ref.uid): pod for pod in _alive(facts)}
    return ((pods[volume.pod], volume) for volume in facts.around.mounted.of_pods if volume.pod in pods)


def _alive(facts: NodeFacts) -> Iterator[Pod]:
    return (pod for pod in facts.pods if not pod.finished)


def claims_of(pod: Pod) -> Iterator[tuple[str, str]]:
    """Return the volumes of a pod that are claims, and the name of each claim.

    Those of ephemeral volumes are named after pod and volume. What no container uses is not set up, from 1.16 on.
    """
    used = {name for container in pod.containers for name in _uses(container, "volumeMounts", "volumeDevices")}
    for volume in volumes_of(pod):
        if (name := str(volume.get("name"))) not in used:
            continue
        if isinstance(claimed := volume.get("persistentVolumeClaim"), dict):
            yield name, str(claimed.get("claimName") or "")
        elif volume.get("ephemeral") is not None:
            yield name, f"{pod.ref.name}-{name}"


def _uses(container: PodContainer, *ways: str) -> Iterator[str]:
    return (str(each.get("name")) for way in ways for each in container.spec.get(way) or () if isinstance(each, dict))


def volumes_of(pod: Pod) -> Iterator[Json]:
    """Return the volumes of a pod's spec."""
    listed = pod.spec.get("volumes") or ()
    return (volume for volume in listed if isinstance(volume, dict))


CSI = "kubernetes.io/csi"


@check(
    Reason.VOLUME_NOT_SUPPORTED,
    Hazard.VOLUME_LAYOUT_CHANGES,
    history.BLOCK_VOLUMES_MOVED,
    history.STAGED_VOLUMES_MOVED,
)
def volumes_keep_their_place(facts: NodeFacts) -> Iterator[Found]:
    """Every volume of a CSI driver is mounted where the new kubelet looks for it."""
    mounted = facts.around.mounted
    staging, blocks = history.STAGED_VOLUMES_MOVED, history.BLOCK_VOLUMES_MOVED
    for change, before, after in (
        (staging, mounted.staged_by_name, [f"of {driver}" for driver in mounted.staged_by_digest]),
        (blocks, mounted.published, mounted.published_for_pods),
    ):
        if change.begins_between(facts.current, facts.target):
            yield from _misplaced(facts, change, before)
        elif change.begins_between(facts.target, facts.current):
            yield from _misplaced(facts, change, after)


@check(
    Reason.VOLUME_NOT_SUPPORTED,
    Hazard.VOLUME_LAYOUT_CHANGES,
    Hazard.VOLUME_PLUGIN_REMOVED,
    *history.CSI_MIGRATIONS.values(),
    *history.VOLUME_PLUGINS_REMOVED.values(),
    history.GIT_REPO_OFF,
    history.IMAGE_VOLUMES,
    history.IMAGE_VOLUMES_BY_DEFAULT,
)
def volumes_keep_their_plugin(facts: NodeFacts) -> Iterator[Found]:
    """The new kubelet handles every mounted volume by the plugin that mounted it."""
    for pod, volume in _of_pods(facts):
        migrated = history.CSI_MIGRATIONS.get(volume.plugin)
        removed = history.VOLUME_PLUGINS_REMOVED.get(volume.plugin)
        postponable = facts.gates.get(history.CSI_MIGRATION_GATES.get(volume.plugin, "")) is not None
        if migrated is not None and not postponable and migrated.begins_between(facts.current, facts.target):
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
        yield pod, detail
    for kind, change in _types_gone(facts).items():
        for pod in _alive(facts):
            for name in (each.get("name") for each in volumes_of(pod) if each.get(kind) is not None):
                detail = (
                    f"its volume {name} is of the type {kind}, which kubelet {facts.target} does not set up "
                    f"({change.reference}), so it would not start the pod's containers again"
                )
                yield pod, detail


def _types_gone(facts: NodeFacts) -> Mapping[str, MinorChange]:
    """Return the types of volumes that the new kubelet is the first not to set up."""
    git, image = history.GIT_REPO_OFF, history.IMAGE_VOLUMES
    gone = {}
    if git.begins_between(facts.current, facts.target) and not facts.gates.get("GitRepoVolumeDriver"):
        gone["gitRepo"] = git
    before = facts.current is not None and _sets_up_images(facts.current, facts.gates_before)
    if before and not _sets_up_images(facts.target, facts.gates):
        gone["image"] = image
    return gone


def _sets_up_images(kubelet: KubeletVersion, gates: Mapping[str, bool]) -> bool:
    by_default = history.IMAGE_VOLUMES_BY_DEFAULT.applies_to(kubelet)
    return history.IMAGE_VOLUMES.applies_to(kubelet) and gates.get("ImageVolume", by_default)


@check(
    Reason.VOLUME_NOT_SUPPORTED,
    Reason.POD_IN_TRANSITION,
    Hazard.VOLUME_RELABELLED,
    history.SELINUX_MOUNTED,
    history.SELINUX_MOUNTED_RWOP,
    history.SELINUX_COMPARED,
    history.SELINUX_CHANGE_POLICY,
    remedy="delete the pod first, or give both kubelets the same feature gates of SELinux",
)
def volumes_keep_their_label(facts: NodeFacts) -> Iterator[Found]:
    """Under SELinux, the two kubelets mount the same volumes with the label of their pod, as they are mounted now.

    A kubelet unmounts a volume whose label is not the one that it would mount it with. It knows none for a pod without
    ``seLinuxOptions`` in its spec, which therefore does not change. On the way back to a kubelet that mounts none with
    a label, only the rollback does harm, as that kubelet has forgotten the labels.
    """
    pods = {str(pod.ref): pod for pod in _alive(facts)}
    if not facts.around.selinux or facts.current is None:
        return
    kubelets = _Labelling(facts.current, facts.gates_before), _Labelling(facts.target, facts.gates)
    for claim in facts.around.claims:
        pod = None if claim.unfit else pods.get(claim.pod)  # of an unfit one, claims_are_kept tells
        if pod is None or not (options := _options_of_users(pod, claim)):
            continue
        if (found := _why_unmounted(*kubelets, pod, claim, options)) is not None:
            kubelet, why = found
            detail = (
                f"its claim {claim.name} cannot be read with the kubelet's credentials ({claim.unread}), and kubelet "
                f"{kubelet} may unmount its volume {claim.volume} when it starts, depending on SELinux labels"
                if claim.unread
                else f"{why}, so kubelet {kubelet} would unmount it under the running pod when it starts"
            )
            detail = f"{detail} ({history.SELINUX_MOUNTED_RWOP.reference})"
            reason = Reason.POD_IN_TRANSITION if claim.passes else Reason.VOLUME_NOT_SUPPORTED
            yield Finding(reason=reason, subject=claim.pod, detail=detail)


@dataclass(frozen=True, slots=True)
class _Labelling:
    """How a kubelet labels volumes under SELinux; before 1.37 it does so by their access modes alone."""

    kubelet: KubeletVersion
    gates: Mapping[str, bool]

    @property
    def compares(self) -> bool:
        by_default = history.SELINUX_MOUNTED_RWOP.applies_to(self.kubelet)
        return self.gates.get("SELinuxMountReadWriteOncePod", by_default)

    def admits(self, claim: VolumeClaim) -> bool:
        every = self.gates.get("SELinuxMount", history.SELINUX_MOUNTED.applies_to(self.kubelet))
        return self.compares and (every or claim.access_modes == ("ReadWriteOncePod",))

    def refuses_several(self, claim: VolumeClaim) -> bool:
        """Report whether it mounts no volume for which the containers of a pod have several labels."""
        return self.admits(claim) and (claim.takes_label or history.SELINUX_COMPARED.applies_to(self.kubelet))

    def mounts(self, pod: Pod, claim: VolumeClaim) -> bool:
        heeds_policy = self.gates.get("SELinuxChangePolicy", history.SELINUX_CHANGE_POLICY.applies_to(self.kubelet))
        recursive = (pod.spec.get("securityContext") or {}).get("seLinuxChangePolicy") == "Recursive"
        return self.admits(claim) and not (heeds_policy and recursive)


def _why_unmounted(
    old: _Labelling, new: _Labelling, pod: Pod, claim: VolumeClaim, options: tuple[Json, ...]
) -> tuple[KubeletVersion, str] | None:
    """Return the kubelet that would unmount a volume because of its label, and why; ``None`` if neither would."""
    labelled = claim.takes_label and any(any(each.values()) for each in options)
    before, after = (labelled and each.mounts(pod, claim) for each in (old, new))
    volume, unmounting = f"its volume {claim.volume}", (new if new.compares else old).kubelet
    if before is not after:
        mounting = (new if after else old).kubelet
        return unmounting, f"only kubelet {mounting} mounts {volume} with an SELinux label"
    if (noted := claim.mounted_label) is not None and bool(noted) is not after and (new.compares or old.compares):
        was, now = ("with", "without which") if noted else ("without", "with which")
        why = f"{volume} was mounted {was} an SELinux label, {now} kubelet {unmounting} mounts it"
        return unmounting, f"{why} (its CSIDriver was changed or deleted since)"
    if not old.refuses_several(claim) and new.refuses_several(claim) and _differ(options):
        return new.kubelet, f"its containers mount {volume} with different SELinux labels, or without a level"
    if after and any(map(_is_at_random, options)):
        return new.kubelet, f"{volume} is mounted with an SELinux label whose level every kubelet draws anew"
    return None


def _options_of_users(pod: Pod, claim: VolumeClaim) -> tuple[Json, ...]:
    """Return the SELinux options, if only empty ones, of each container that mounts a volume and has any."""
    of_pod, users = _options(pod.spec), (c.spec for c in pod.containers if claim.volume in _uses(c, "volumeMounts"))
    options = (of_pod if (own := _options(spec)) is None else own for spec in users)
    return tuple(each for each in options if each is not None)


def _differ(options: tuple[Json, ...]) -> bool:
    """Report whether files would have several labels: kubelets refuse that, whatever the policy.

    The label of files has neither the role nor the type of the options.
    """
    labels = {(str(each.get("user") or ""), str(each.get("level") or "")) for each in options}
    return len(labels) > 1 or (len(options) > 1 and any(map(_is_at_random, options)))


def _is_at_random(options: Json) -> bool:
    return any(options.values()) and not options.get("level")


def _options(spec: Json) -> Json | None:
    return (spec.get("securityContext") or {}).get("seLinuxOptions")


@check(
    Reason.CONTAINER_WOULD_NOT_RESTART,
    Hazard.VOLUME_RELABELLED,
    history.CSI_PUBLISHED_AGAIN,
    remedy="make sure that the programs bear it, since every later start of a kubelet does the same",
)
def files_keep_their_modes(facts: NodeFacts) -> Iterator[Found]:
    """The new kubelet is not the first to apply fsGroup to mounted CSI volumes again."""
    change = history.CSI_PUBLISHED_AGAIN
    if not change.begins_between(facts.current, facts.target):
        return
    mounted = {str(pod.ref): pod for pod, volume in _of_pods(facts) if volume.plugin == CSI}
    changed = [name for name, pod in mounted.items() if _changes_modes(pod)]
    if changed:
        yield (
            f"kubelet {facts.target} publishes CSI volumes again when it starts, and lets the fsGroup of "
            f"{counted(len(changed), 'pod')} read and write every file in them ({change.reference}), which programs "
            f"may refuse for keys and cookies: {named(changed)}"
        )


def _changes_modes(pod: Pod) -> bool:
    context = pod.spec.get("securityContext") or {}
    return context.get("fsGroup") is not None and context.get("fsGroupChangePolicy") != "OnRootMismatch"


def _misplaced(facts: NodeFacts, change: MinorChange, names: Iterable[str]) -> Iterator[Found]:
    """Report the pods that use these volumes, or the volume where its pod is unknown."""
    why = f"is mounted where kubelet {facts.target} does not look for it ({change.reference})"
    users = {volume.name: str(pod.ref) for pod, volume in _of_pods(facts) if volume.plugin == CSI}
    for name in names:
        subject = users.get(name, "")
        yield subject, f"{'its' if subject else 'a'} volume {name} {why}"


ATTACHED_BY_CONTROLLER = "volumes.kubernetes.io/controller-managed-attach-detach"
"""Annotation on a Node whose attached volumes its status lists."""


LATER = "choose a later patch release, or delete the pod first"


@check(
    Reason.VOLUME_NOT_SUPPORTED,
    Reason.KUBELET_DEFECT,
    Reason.POD_IN_TRANSITION,
    Hazard.VOLUME_IN_TRANSITION,
    known_defects.CLAIMS_UNMOUNTED,
    remedy="restore the claim and its PersistentVolume, or delete the pod first",
)
def claims_are_kept(facts: NodeFacts) -> Iterator[Found]:
    """Every PersistentVolumeClaim of a pod is bound, and none is being deleted if a kubelet unmounts its volume then.

    A kubelet that starts unmounts every volume that it cannot tell from its claim; the running one has read the claim
    before. Where nobody answers now, another kubelet than those of the defect may well get an answer when it starts.
    """
    defect = known_defects.CLAIMS_UNMOUNTED
    harmful = [kubelet for kubelet in (facts.target, facts.current) if kubelet is not None and defect.affects(kubelet)]
    for claim in facts.around.claims:
        if claim.unfit:
            why = f"{claim.unfit}, so every kubelet that starts unmounts its volume under the running pod"
            reason = Reason.POD_IN_TRANSITION if claim.passes else Reason.VOLUME_NOT_SUPPORTED
            detail = f"its claim {claim.name} {why} (kubernetes #120150)"
            yield Finding(reason=reason, subject=claim.pod, detail=detail)
        elif harmful and (claim.deleting or claim.unread):
            why = (
                f"is being deleted, and kubelet {harmful[0]} unmounts the volume under the running pod when it starts "
                f"({defect.reference}, fixed in {defect.fixed_after(harmful[0])})"
                if claim.deleting
                else f"cannot be read with the kubelet's credentials ({claim.unread}), and kubelet {harmful[0]} "
                "unmounts volumes whose claim it cannot read when it starts"
            )
            detail = f"its claim {claim.name} {why}"
            reason = Reason.POD_IN_TRANSITION if claim.passes else Reason.KUBELET_DEFECT
            yield Finding(reason=reason, subject=claim.pod, detail=detail, remedy=LATER)


@check(Reason.POD_IN_TRANSITION, Hazard.VOLUME_IN_TRANSITION, warns=True)
def volumes_are_attached(facts: NodeFacts) -> Iterator[Found]:
    """Every volume that the node reports as in use is attached to it, where a controller attaches volumes."""
    annotations = (facts.node.get("metadata") or {}).get("annotations") or {}
    if annotations.get(ATTACHED_BY_CONTROLLER) != "true":
        return
    status = facts.node.get("status") or {}
    attached = {str(volume.get("name")) for volume in status.get("volumesAttached") or () if isinstance(volume, dict)}
    for name in status.get("volumesInUse") or ():
        if name not in attached:
            yield f"volume {name} is in use and not attached: it is being attached, or was detached under its pod"
