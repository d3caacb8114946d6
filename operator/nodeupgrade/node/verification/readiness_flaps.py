"""Detect readiness flaps: pods that were reported unready although nothing about them changed. A fold over a watch."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import timedelta
from math import ceil

from nodeupgrade.api.json import Json
from nodeupgrade.cluster.pods import Pod, parse_pod
from nodeupgrade.kubelet.probe_delay import LONGEST_EXPOSURE


@dataclass(frozen=True, slots=True)
class Flaps:
    """The last state of each pod of a node, and the names of the pods that flapped.

    A pod flaps if it was Ready and is no longer, is not being deleted, and all its containers keep running.
    """

    pods: Mapping[str, Pod] = field(default_factory=dict)  # by UID in the API
    flapped: frozenset[str] = frozenset()  # as ``namespace/name``

    def after(self, pod: Pod) -> "Flaps":
        """Return the flaps after an event with a pod's present state.

        Raises:
            KeyError: the pod has no UID.
        """
        known = {**self.pods, pod.uid: pod}
        before = self.pods.get(pod.uid)
        if before is None or not _for_no_reason(before, pod):
            return replace(self, pods=known)
        return Flaps(known, self.flapped | {str(pod)})

    def without(self, uid: str) -> "Flaps":
        """Return the flaps after the deletion of a pod."""
        return replace(self, pods={known: pod for known, pod in self.pods.items() if known != uid})

    @property
    def unready(self) -> tuple[str, ...]:
        """Return the names of flapped pods that are still unready although they run."""
        pods = (pod for pod in self.pods.values() if str(pod) in self.flapped)
        return tuple(sorted(str(pod) for pod in pods if pod.whole and not pod.ready and not pod.leaving))

    @property
    def exposure(self) -> timedelta:
        """Return how long to wait until a new kubelet has probed every present pod."""
        return longest_exposure(self.pods.values())


def longest_exposure(pods: Iterable[Pod]) -> timedelta:
    """Return how long to wait until a new kubelet has probed all of these pods, except those being deleted."""
    return min(max((pod.exposure for pod in pods if not pod.leaving), default=timedelta()), LONGEST_EXPOSURE)


def _for_no_reason(before: Pod, now: Pod) -> bool:
    return before.ready and not now.ready and not now.leaving and now.whole and _instances(before) <= _instances(now)


def _instances(pod: Pod) -> set[tuple[str, str]]:
    """Return name and id of each running container and sidecar."""
    return {(each.name, each.container_id) for each in pod.statuses if each.running}


def exposure_seconds(pods: Iterable[Json]) -> int:
    """Return how many seconds after its start to wait until a new kubelet has probed every pod."""
    return ceil(longest_exposure(map(parse_pod, pods)).total_seconds())
