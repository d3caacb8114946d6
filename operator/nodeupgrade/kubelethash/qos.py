"""Computes the QoS class that a kubelet gives to a pod, which is part of the path of the pod's cgroup.

A kubelet that finds running containers but no cgroup at the path it computes kills the whole pod. So if two minors
compute different classes, containers restart although no hash has changed. Follows `GetPodQOS` in
`pkg/apis/core/v1/helper/qos` and its predecessors.
"""

from collections.abc import Iterable, Iterator, Mapping
from enum import StrEnum
from fractions import Fraction

from . import changes
from .changes import supported_minor
from .errors import Misfit, UnreadablePod
from .go import values
from .kubelet_version import KubeletVersion
from .pods import Container, Pod, container_name, init_containers, pod_name, pod_spec, regular_containers

Amounts = dict[str, Fraction]
Requirement = tuple[str, Mapping[str, object], tuple[str, ...]]
"""The path of the resources, the resources, and the keys in them that make up the requests."""

_BOTH = {"cpu", "memory"}
_HUGE_PAGES = "hugepages-"
# Only a manifest can omit a request where there is a limit; it then defaults to the limit. From 1.37 on this no longer
# holds for resources of the pod itself, since that default moved to the API server.
_FILLED_IN = ("limits", "requests")
_AS_GIVEN = ("requests",)


class QosClass(StrEnum):
    """The three classes, by their names in the API."""

    GUARANTEED = "Guaranteed"
    BURSTABLE = "Burstable"
    BEST_EFFORT = "BestEffort"


def qos_class(pod: Pod, kubelet: KubeletVersion | str, *, forgets: bool = False) -> QosClass:
    """Return the QoS class as a kubelet of that minor computes it.

    `changes` says in what the minors differ.

    Args:
        pod: as the API serves it. For a static pod, pass its manifest: kubelets see no status there.
        kubelet: the kubelet's version.
        forgets: whether it takes the resources of the pod itself from a record in which there are none.

    Raises:
        UnsupportedKubelet: the tables do not cover this kubelet.
        UnreadablePod: the object is not shaped like a pod, or a quantity in it is not one.
    """
    minor = supported_minor(kubelet)
    if changes.STATUS_TRUSTED.covers(minor) and (known := _class_in_status(pod)):
        return known
    requirements = list(_requirements(pod, minor, None if forgets else pod_spec(pod).get("resources")))
    limits = [_amounts(pod, path, resources, ("limits",), minor) for path, resources, _ in requirements]
    requests = [_amounts(pod, path, resources, keys, minor) for path, resources, keys in requirements]
    requested, limited = _sum(requests), _sum(limits)
    if not requested and not limited:
        return QosClass.BEST_EFFORT
    matched = requests == limits if changes.EACH_CONTAINER_MUST_MATCH.covers(minor) else requested == limited
    if matched and all(each.keys() >= _BOTH for each in limits):
        return QosClass.GUARANTEED
    return QosClass.BURSTABLE


def _class_in_status(pod: Pod) -> QosClass | None:
    status = pod.get("status")
    known = status.get("qosClass") if isinstance(status, Mapping) else None
    return QosClass(known) if known in list(QosClass) else None


def _requirements(pod: Pod, minor: int, of_pod: object) -> Iterator[Requirement]:
    """Yield the resources that count: those of the pod itself, or those of each container."""
    counted: Iterable[Container] = regular_containers(pod)
    if changes.INIT_CONTAINERS_COUNT.covers(minor):
        counted = (*counted, *init_containers(pod))
    if isinstance(of_pod, Mapping) and _pod_level_counts(of_pod, minor):
        only_if_set = changes.POD_RESOURCES_COUNT_ONLY_IF_SET.covers(minor)
        filled_in = not only_if_set and not any(each.get("resources") for each in counted)
        yield "spec.resources", of_pod, _FILLED_IN if filled_in else _AS_GIVEN
        return
    for container in counted:
        resources = container.get("resources")
        yield (
            f"{container_name(pod, container)}.resources",
            resources if isinstance(resources, Mapping) else {},
            _FILLED_IN,
        )


def _pod_level_counts(resources: Mapping[str, object], minor: int) -> bool:
    """Report whether resources of the pod itself take precedence over those of its containers, even if zero."""
    if not changes.POD_RESOURCES_COUNT_ONLY_IF_SET.covers(minor):
        return changes.POD_RESOURCES_COUNT.covers(minor)
    listed = (resources.get(key) for key in ("requests", "limits"))
    names = (name for each in listed if isinstance(each, Mapping) for name in each)
    return any(name in _BOTH or str(name).startswith(_HUGE_PAGES) for name in names)


def _amounts(pod: Pod, path: str, resources: Mapping[str, object], keys: tuple[str, ...], minor: int) -> Amounts:
    """Return the positive amounts that count for the class; amounts under a later key override earlier ones."""
    amounts: Amounts = {}
    for key in keys:
        try:
            listed = resources.get(key)
            given = {} if listed is None else values.mapping(listed)
            amounts |= {name: values.resource_quantity(given[name]).amount() for name in given if _counts(name, minor)}
        except Misfit as error:
            raise UnreadablePod(pod_name(pod), f"{path}.{key}", error.reason) from None
    return {name: amount for name, amount in amounts.items() if amount > 0}


def _counts(resource: str, minor: int) -> bool:
    return resource in _BOTH or (changes.HUGE_PAGES_COUNT.covers(minor) and resource.startswith(_HUGE_PAGES))


def _sum(lists: Iterable[Amounts]) -> Amounts:
    total: Amounts = {}
    for amounts in lists:
        for name, amount in amounts.items():
            total[name] = total.get(name, Fraction(0)) + amount
    return total
