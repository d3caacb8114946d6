"""The deschedulers of the cluster that would evict the pods of a cordoned node, as far as the operator may see them.

Nothing but its pods and its ConfigMap shows one, and the operator may read ConfigMaps of the usual names only.
"""

import asyncio
import math
from collections.abc import Collection, Mapping

from nodeupgrade.cluster.descheduler_policy import Descheduler, evicts_from_cordoned
from nodeupgrade.cluster.kube_api import CONFIGMAPS, PODS, ForbiddenError, KubeApi, NotFoundError, RejectedError
from nodeupgrade.cluster.pods import Pod, parse_pod

RECENT_SECONDS = 60.0
"""How old what is known of deschedulers may be: its pods are looked for in all namespaces."""

_LABELS = ({"app.kubernetes.io/name": "descheduler"}, {"app": "descheduler"})
"""Labels that its Helm chart and its Kustomizations give to pods."""

_USUAL = tuple(("kube-system", name) for name in ("descheduler", "descheduler-policy-configmap"))
"""Where both keep the policy by default. A CronJob that keeps no finished pod, or without labels, is found by it."""

_MOST = 10


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
    """Return the deschedulers that evict, or may evict, the pods of cordoned nodes."""
    pods = [pod for found in await asyncio.gather(*(_pods(kube, each) for each in _LABELS)) for pod in found]
    acting = [pod for pod in pods if not _only_reports(pod)]
    used = [*dict.fromkeys(place for pod in acting for place in _places(pod))]
    idle = {place for pod in pods for place in _places(pod)} - {*used}
    places = [*used, *(place for place in _USUAL if place not in used and place not in idle)]
    policies = await asyncio.gather(*(_policy(kube, place, used) for place in places[:_MOST]))
    unread = [*places[_MOST:], *((pod.ref.namespace, pod.ref.name) for pod in acting if not _places(pod))]
    unknown = (Descheduler(name="/".join(place), known=False) for place in unread)
    return (*(each for each in policies if each is not None), *unknown)


async def _pods(kube: KubeApi, labels: Mapping[str, str]) -> list[Pod]:
    try:
        return [parse_pod(body) for body in await kube.list(PODS, labels=labels, recent=True)]
    except RejectedError:  # somebody who may not see these pods can plan nevertheless
        return []


async def _policy(kube: KubeApi, place: tuple[str, str], used: Collection[tuple[str, str]]) -> Descheduler | None:
    namespace, name = place
    try:
        body = await kube.get(CONFIGMAPS.within(namespace), name)
    except (NotFoundError, RejectedError) as error:
        denied = isinstance(error, ForbiddenError)
        return Descheduler(name="/".join(place), known=False, denied=denied) if place in used else None
    evicts = evicts_from_cordoned(body.get("data"))
    if evicts is False or (evicts is None and place not in used):
        return None
    return Descheduler(name="/".join(place), known=evicts is not None)


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
