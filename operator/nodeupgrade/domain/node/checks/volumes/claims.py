"""Checks of volumes that somebody is about to delete or detach."""

from collections.abc import Iterator

from nodeupgrade.api.reasons import Reason, Severity
from nodeupgrade.domain.check import check
from nodeupgrade.domain.finding import Finding
from nodeupgrade.domain.hazards import Hazard
from nodeupgrade.domain.node.checks.volumes.facts import Volumes
from nodeupgrade.kubelet import volume_changes

ATTACHED_BY_CONTROLLER = "volumes.kubernetes.io/controller-managed-attach-detach"
"""Annotation on a Node whose attached volumes its status lists."""
REMEDY = "choose a later patch release, or delete the pod first"


@check(Reason.KUBELET_DEFECT, follows=(volume_changes.CLAIMS_UNMOUNTED,), covers=(Hazard.VOLUME_IN_TRANSITION,))
def claims_are_kept(facts: Volumes) -> Iterator[Finding]:
    """No pod uses a PersistentVolumeClaim that is being deleted, if a starting kubelet unmounts its volume then.

    Such a kubelet unmounts it too if it cannot read the claim, so a claim that cannot be read with its credentials
    counts as one.
    """
    defect = volume_changes.CLAIMS_UNMOUNTED
    harmful = [kubelet for kubelet in (facts.target, facts.current) if kubelet is not None and defect.affects(kubelet)]
    for claim in facts.claims if harmful else ():
        if claim.deleting:
            detail = (
                f"its claim {claim.name} is being deleted, and kubelet {harmful[0]} unmounts the volume under the "
                f"running pod when it starts ({defect.reference}, fixed in {defect.fixed_after(harmful[0])})"
            )
        elif claim.unread:
            detail = (
                f"its claim {claim.name} cannot be read with the kubelet's credentials ({claim.unread}), and kubelet "
                f"{harmful[0]} unmounts volumes whose claim it cannot read when it starts"
            )
        else:
            continue
        yield Finding(reason=Reason.KUBELET_DEFECT, subject=claim.pod, detail=detail, remedy=REMEDY)


@check(Reason.POD_IN_TRANSITION, covers=(Hazard.VOLUME_IN_TRANSITION,))
def volumes_are_attached(facts: Volumes) -> Iterator[Finding]:
    """Every volume that the node reports as in use is attached to it, where a controller attaches volumes."""
    annotations = (facts.node.get("metadata") or {}).get("annotations") or {}
    if annotations.get(ATTACHED_BY_CONTROLLER) != "true":
        return
    status = facts.node.get("status") or {}
    attached = {str(volume.get("name")) for volume in status.get("volumesAttached") or () if isinstance(volume, dict)}
    for name in status.get("volumesInUse") or ():
        if name not in attached:
            detail = f"volume {name} is in use and not attached: it is being attached, or was detached under its pod"
            yield Finding(reason=Reason.POD_IN_TRANSITION, detail=detail, severity=Severity.WARN)
