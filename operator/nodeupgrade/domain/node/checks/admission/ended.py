"""Check of pods that have ended: does the new kubelet leave them as they are?"""

from collections.abc import Iterator

from nodeupgrade.api.reasons import Reason, Severity, counted
from nodeupgrade.domain.check import check
from nodeupgrade.domain.finding import Finding, named
from nodeupgrade.domain.hazards import Hazard
from nodeupgrade.domain.node.checks.admission.amounts import allocatable, amounts
from nodeupgrade.domain.node.checks.admission.exclusive import asked
from nodeupgrade.domain.node.checks.admission.facts import Admission
from nodeupgrade.domain.node.checks.admission.fitting import devices, requests
from nodeupgrade.domain.nodes import view_node
from nodeupgrade.domain.placement import unmet_placement
from nodeupgrade.domain.pods import Pod
from nodeupgrade.kubelet import history


@check(Reason.KUBELET_DEFECT, follows=(history.ENDED_PODS_ADMITTED,), covers=(Hazard.FINALIZERS,))
def ended_pods_keep_their_phase(facts: Admission) -> Iterator[Finding]:
    """No pod that has succeeded becomes Failed because the new kubelet would not admit it now.

    Pods stay that way until their finalizers are removed or somebody deletes them, as those of Jobs. Other kubelets
    leave pods alone that have ended.
    """
    defect = history.ENDED_PODS_ADMITTED
    if not defect.affects(facts.target):
        return
    succeeded = [pod for pod in facts.pods if (pod.raw.get("status") or {}).get("phase") == "Succeeded"]
    if changed := [str(pod.ref) for pod in succeeded if not _would_be_admitted(facts, pod)]:
        detail = (
            f"kubelet {facts.target} would report {counted(len(changed), 'pod')} as Failed that have succeeded "
            f"({defect.reference}), which their Jobs may count: {named(changed)}; delete them first, or choose a later "
            "patch release"
        )
        yield Finding(reason=Reason.KUBELET_DEFECT, severity=Severity.WARN, detail=detail, remedy="")


def _would_be_admitted(facts: Admission, pod: Pod) -> bool:
    """Report whether a pod fits next to those that run; what cannot be read is reported by ``pods_fit``."""
    if unmet_placement(pod, view_node(dict(facts.node))) is not None:
        return False
    if any(devices(facts) & asked(container).keys() for container in pod.containers):
        return False  # the device plugin has not registered again by then
    try:
        given = allocatable(facts.settings, amounts((facts.node.get("status") or {}).get("capacity")))
        requested = requests(facts, pod)
    except ValueError:
        return True
    return all(amount <= given[name] for name, amount in requested.items() if name in given)
