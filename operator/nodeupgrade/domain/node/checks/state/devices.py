"""Check of the kubelet's checkpoint of devices: does it know of every running pod that has one?"""

from collections.abc import Iterator

from nodeupgrade.api.reasons import Reason
from nodeupgrade.domain.check import Check, check
from nodeupgrade.domain.finding import Finding
from nodeupgrade.domain.hazards import Hazard
from nodeupgrade.domain.node.checks.admission import Admission
from nodeupgrade.domain.node.checks.admission.facts import rejected
from nodeupgrade.domain.pods import Role

RUNNING = frozenset({Role.REGULAR, Role.SIDECAR})


@check(Reason.POD_WOULD_NOT_BE_ADMITTED, covers=(Hazard.DEVICE_STATE_UNREADABLE, Hazard.DEVICES_LOST))
def devices_are_on_record(facts: Admission) -> Iterator[Finding]:
    """The checkpoint of devices, if it can be read, has every running container that asks for a device.

    A kubelet that starts takes the devices of other containers for free. A damaged checkpoint is reported by
    ``devices_are_kept``, for the pods that it concerns.
    """
    recorded = facts.devices
    if recorded is None:
        return
    for pod in facts.admitted():
        running = {name for name, _ in pod.running}
        for container in (each for each in pod.containers if each.role in RUNNING and each.name in running):
            limits = (container.spec.get("resources") or {}).get("limits") or {}
            wanted = {name for name, amount in limits.items() if str(amount) != "0"} & recorded.resources
            lacking = sorted(name for name in wanted if (pod.ref.uid, container.name, name) not in recorded.holdings)
            if lacking:
                detail = (
                    f"its container {container.name} has {', '.join(lacking)}, of which the kubelet's checkpoint of "
                    "devices says nothing, so that a kubelet that starts would give them away; delete the pod first"
                )
                yield rejected(pod, detail)


CHECKS: tuple[Check[Admission], ...] = (devices_are_on_record,)
