"""Checks of resizing in place: would the new kubelet restart a container, as its resizePolicy says?"""

from collections.abc import Iterator

from nodeupgrade.api.reasons import Reason
from nodeupgrade.cluster.pods import Pod
from nodeupgrade.findings.check import Found, check
from nodeupgrade.findings.hazards import Hazard
from nodeupgrade.kubelet import history
from nodeupgrade.kubelet.feature_gates import RESIZE_GATE
from nodeupgrade.kubelethash import UnhashableContainer, UnsupportedKubelet, changes, resize_may_restart
from nodeupgrade.node.checks.facts import NodeFacts
from nodeupgrade.node.checks.pod_lifecycle import active


@check(
    Reason.RESIZE_POLICY_RESTART,
    Hazard.RESIZE_RESTARTS,
    changes.RESIZE_POLICY_ACTED_ON,
    changes.STATIC_PODS_RESIZED,
    changes.POD_RESOURCES_ALLOCATED,
)
def nothing_is_resized(facts: NodeFacts) -> Iterator[Found]:
    """No running container has a resize policy RestartContainer by which the new kubelet may restart it.

    It acts on the policy where it compares resources that the old one did not, or leaves some out that are recorded.
    """
    current = facts.current
    if current is None or facts.gates.get(RESIZE_GATE) is False:
        return
    for instance, pod, container in facts.running_containers():
        try:
            restarted = resize_may_restart(
                container.spec,
                current,
                facts.target,
                pod_resources=pod.spec.get("resources"),
                static=pod.static,
                recorded=facts.recorded,
                allocates=facts.allocating,
            )
        except UnsupportedKubelet:  # reported by versions_are_known
            return
        except UnhashableContainer as error:
            yield instance.label, str(error)
            continue
        if restarted:
            detail = (
                f"its resizePolicy says RestartContainer, so kubelet {facts.target} may restart it once; "
                "delete the pod first, or change the policy in its template"
            )
            yield instance.label, detail


_RESIZING = frozenset({"PodResizeInProgress", "PodResizePending"})


@check(Reason.RESIZE_POLICY_RESTART, Hazard.RESIZE_RESTARTS, history.RESIZE_POLICY_ACTED_ON)  # fmt: skip
def resizes_are_over(facts: NodeFacts) -> Iterator[Found]:
    """No resize is pending or in progress that restarts a container once the new kubelet gets to it."""
    if facts.current is None or not history.RESIZE_POLICY_ACTED_ON.applies_to(facts.current):
        return
    for pod in active(facts):
        restarting = [
            container.name
            for container in pod.containers
            if any(each.get("restartPolicy") == "RestartContainer" for each in container.spec.get("resizePolicy") or ())
        ]
        if restarting and (condition := _resize(pod)) is not None:
            detail = (
                f"its resize is not finished ({condition}), which restarts {', '.join(restarting)} as resizePolicy says"
            )
            yield pod, detail


def _resize(pod: Pod) -> str | None:
    """Return the condition of a resize that a kubelet may still carry out, or ``None``."""
    conditions = pod.status.get("conditions") or ()
    going_on = (each for each in conditions if each.get("type") in _RESIZING and each.get("status") == "True")
    return next((str(each["type"]) for each in going_on if each.get("reason") != "Infeasible"), None)
