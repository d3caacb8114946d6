"""Finds containers that a kubelet may restart only because their resources differ from those that are recorded."""

from collections.abc import Mapping

from . import changes
from .changes import supported_minor
from .errors import Misfit, UnhashableContainer
from .go import values
from .go.quantity import resource_amount
from .kubelet_version import KubeletVersion

_RESIZED = ("cpu", "memory")


def resize_may_restart(
    container: Mapping[str, object],
    from_: KubeletVersion | str,
    to: KubeletVersion | str,
    *,
    pod_resources: object = None,
    static: bool = False,
    recorded: bool = True,
    allocates: tuple[bool, bool] | None = None,
) -> bool:
    """Report whether a kubelet may restart a running container once, since it finds other resources than are recorded.

    Kubelets from 1.33 on (gate InPlacePodVerticalScaling) compare a container's CPU and memory with a record that older
    ones did not keep; a missing record counts as zero. The container is restarted if one that differs has the policy
    RestartContainer, so a policy for a resource that the container does not use does no harm. Kubelets before 1.36
    leave static pods out, and neither record nor expect the limits of the pod for containers that have none.

    Args:
        container: as it is in the pod.
        from_: the kubelet that started the container.
        to: the kubelet that would run next.
        pod_resources: the resources of the pod itself, whose limits count for containers that have none of their own.
        static: whether the pod is a static pod.
        recorded: whether ``from_`` has kept the record if it could; it does not with the gate turned off.
        allocates: whether ``from_`` and ``to`` allocate resources of the pod itself, by the gate
            InPlacePodLevelResourcesVerticalScaling; ``None`` if it is not set.

    Raises:
        UnsupportedKubelet: the tables do not cover one of the kubelets.
        UnhashableContainer: a field that should be a list or a map is not one.
    """
    before, after = supported_minor(from_), supported_minor(to)
    acted_on = changes.STATIC_PODS_RESIZED if static else changes.RESIZE_POLICY_ACTED_ON
    begins = not (recorded and acted_on.covers(before))
    handed_down_before, handed_down_after = allocates or map(changes.POD_RESOURCES_ALLOCATED.covers, (before, after))
    if not acted_on.covers(after) or not (begins or handed_down_before != handed_down_after):
        return False
    try:
        policies = [values.mapping(each) for each in values.sequence(container.get("resizePolicy") or ())]
        resources = values.mapping(container.get("resources") or {})
        limits, requests = (values.mapping(resources.get(kind) or {}) for kind in ("limits", "requests"))
        of_pod = values.mapping(values.mapping(pod_resources or {}).get("limits") or {})
    except Misfit as error:
        name = container.get("name")
        raise UnhashableContainer(name if isinstance(name, str) else "", "resizePolicy", error.reason) from None
    restarting = {each.get("resourceName") for each in policies if each.get("restartPolicy") == "RestartContainer"}
    handed_down = {name: amount for name, amount in of_pod.items() if not _counts(limits.get(name))}
    differing = (limits, requests, handed_down) if begins else (handed_down,)
    return any(name in restarting and _counts(given.get(name)) for given in differing for name in _RESIZED)


def _counts(amount: object) -> bool:
    """Report whether an amount is more than zero; one that cannot be read counts as more."""
    try:
        return amount is not None and resource_amount(str(amount)) > 0
    except ValueError:
        return True
