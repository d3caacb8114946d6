"""The deschedulers of the cluster that would evict the pods of a cordoned node, as far as the operator may see them.

Nothing but its pods and its ConfigMap shows one, and the operator may read ConfigMaps of the usual names only. Whoever
may create a pod anywhere can give it the labels of one, so what such a pod says is marked as not believed.
"""

import asyncio
import math
from collections.abc import Collection, Mapping
from contextlib import suppress

from nodeupgrade.api.json import Json
from nodeupgrade.cluster.descheduler_policy import Descheduler, evicts_from_cordoned
from nodeupgrade.cluster.kube_api import (
    CONFIGMAPS,
    PODS,
    ForbiddenError,
    KubeApi,
    NotFoundError,
    RejectedError,
    TooLargeError,
)
from nodeupgrade.cluster.pods import Pod, parse_pod

RECENT_SECONDS = 60.0
"""How old what is known of deschedulers may be: its pods are looked for in all namespaces."""

_LABELS = ({"app.kubernetes.io/name": "descheduler"}, {"app": "descheduler"})
"""Labels that its Helm chart and its Kustomizations give to pods."""

_SYSTEM = "kube-system"

_CRITICAL = ("system-cluster-critical", "system-node-critical")
"""Priority classes of Kubernetes; its chart, its Kustomizations and OpenShift give it the first of them.

Whoever may use these, above which no other ranks, ends the pods of others anyway, by preemption.
"""

_USUAL = tuple((_SYSTEM, name) for name in ("descheduler", "descheduler-policy-configmap"))
"""Where both keep the policy by default. A CronJob that keeps no finished pod, or without labels, is found by it."""

_MOST = 10

_LEFT_OUT = Descheduler(name="other namespaces, whose pods are too large to read,", known=False, believed=False)


class KnownDeschedulers:
    """What was found lately."""

    def __init__(self) -> None:
        self._found: tuple[Descheduler, ...] = ()
        self._at = -math.inf

    async def read(self, kube: KubeApi, now: float) -> tuple[Descheduler, ...]:
        """Return the deschedulers of the cluster; ``now`` is in seconds, monotonic."""
        if now - self._at >= RECENT_SECONDS:
            self._found, self._at = await read_deschedulers(kube), now
        return self._found


async def read_deschedulers(kube: KubeApi) -> tuple[Descheduler, ...]:
    """Return deschedulers that evict, or may evict, the pods of cordoned nodes; those that are believed come first."""
    read = await asyncio.gather(*(_pods(kube, each) for each in _LABELS))
    pods = [pod for found, _ in read for pod in found]
    acting = sorted((pod for pod in pods if not _only_reports(pod)), key=_believed, reverse=True)
    used = {place: _believed(pod) for pod in reversed(acting) for place in _places(pod)}
    idle = {place for pod in pods for place in _places(pod)} - used.keys()
    usual = {place: True for place in _USUAL if place not in used and place not in idle}
    places = sorted((used | usual).items(), key=lambda each: not each[1])
    policies = await asyncio.gather(*(_policy(kube, place, used, believed) for place, believed in places[:_MOST]))
    unread = [*places[_MOST:], *(((p.ref.namespace, p.ref.name), _believed(p)) for p in acting if not _places(p))]
    unknown = (Descheduler(name="/".join(place), known=False, believed=believed) for place, believed in unread)
    left_out = () if all(whole for _, whole in read) else (_LEFT_OUT,)
    every = (*(each for each in policies if each is not None), *unknown, *left_out)
    return tuple(sorted(every, key=lambda each: not each.believed)[:_MOST])


async def _pods(kube: KubeApi, labels: Mapping[str, str]) -> tuple[list[Pod], bool]:
    """Return pods that may be deschedulers, and whether these are all."""
    found, whole = list[Json](), True
    try:
        found = await kube.list(PODS, labels=labels, recent=True)
    except TooLargeError:  # where only administrators create pods, they are not
        whole = False
        with suppress(RejectedError):
            found = await kube.list(PODS.within(_SYSTEM), labels=labels, recent=True)
    except RejectedError:  # somebody who may not see these pods can plan nevertheless
        pass
    pods = map(parse_pod, found)
    return [pod for pod in pods if _believed(pod) or pod.spec.get("nodeName")], whole  # others never ran


def _believed(pod: Pod) -> bool:
    return pod.ref.namespace == _SYSTEM or pod.spec.get("priorityClassName") in _CRITICAL


async def _policy(
    kube: KubeApi, place: tuple[str, str], used: Collection[tuple[str, str]], believed: bool
) -> Descheduler | None:
    namespace, name = place
    try:
        body = await kube.get(CONFIGMAPS.within(namespace), name)
    except (NotFoundError, RejectedError) as error:
        denied, name = isinstance(error, ForbiddenError), "/".join(place)
        return Descheduler(name=name, known=False, believed=believed, denied=denied) if place in used else None
    evicts = evicts_from_cordoned(body.get("data"))
    if evicts is False or (evicts is None and place not in used):
        return None
    return Descheduler(name="/".join(place), known=evicts is not None, believed=believed)


def _places(pod: Pod) -> list[tuple[str, str]]:
    """Return namespace and name of the ConfigMaps that a pod mounts."""
    maps = (volume.get("configMap") or {} for volume in pod.spec.get("volumes") or ())
    return [(pod.ref.namespace, str(each["name"])) for each in maps if each.get("name")]


def _only_reports(pod: Pod) -> bool:
    """Report whether the program evicts nothing and only says what it would evict."""
    words = (
        word for container in pod.containers for key in ("command", "args") for word in container.spec.get(key) or ()
    )
    return any(word in {"--dry-run", "--dry-run=true"} for word in words)
