"""Detect readiness flaps: pods that were reported unready although nothing about them changed. A fold over a watch."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import timedelta

from nodeupgrade.domain.pods import Pod


@dataclass(frozen=True, slots=True, kw_only=True)
class PodState:
    """The state of a pod that flaps are detected by, at one moment.

    Attributes:
        name: ``namespace/name``.
        running: name and id of each running container and sidecar.
        whole: whether all its containers run.
        deleting: whether it is being deleted, or has finished.
        exposure: how long a new kubelet may take to probe it.
    """

    uid: str
    name: str
    ready: bool
    running: frozenset[tuple[str, str]]
    whole: bool
    deleting: bool
    exposure: timedelta

    @classmethod
    def of(cls, pod: Pod) -> "PodState":
        """Return the state of a pod.

        Raises:
            KeyError: the pod has no UID.
        """
        return cls(
            uid=pod.uid,
            name=str(pod),
            ready=pod.ready,
            running=frozenset((each.name, each.container_id) for each in pod.statuses if each.running),
            whole=pod.whole,
            deleting=pod.terminating or pod.finished,
            exposure=pod.exposure,
        )


@dataclass(frozen=True, slots=True)
class Flaps:
    """The last state of each pod of a node, and the names of the pods that flapped.

    A pod flaps if it was Ready and is no longer, is not being deleted, and all its containers keep running.
    """

    pods: Mapping[str, PodState] = field(default_factory=dict)
    flapped: frozenset[str] = frozenset()

    def after(self, pod: PodState) -> "Flaps":
        """Return the flaps after an event with a pod's present state."""
        known = {**self.pods, pod.uid: pod}
        before = self.pods.get(pod.uid)
        if before is None or not _for_no_reason(before, pod):
            return replace(self, pods=known)
        return Flaps(known, self.flapped | {pod.name})

    def without(self, uid: str) -> "Flaps":
        """Return the flaps after the deletion of a pod."""
        return replace(self, pods={known: pod for known, pod in self.pods.items() if known != uid})

    @property
    def unready(self) -> tuple[str, ...]:
        """Return the names of flapped pods that are still unready although they run."""
        pods = (pod for pod in self.pods.values() if pod.name in self.flapped)
        return tuple(sorted(pod.name for pod in pods if pod.whole and not pod.ready and not pod.deleting))

    @property
    def exposure(self) -> timedelta:
        """Return how long a new kubelet may take to probe every present pod."""
        return longest_exposure(self.pods.values())


def longest_exposure(pods: Iterable[PodState]) -> timedelta:
    """Return how long a new kubelet may take to probe all of these pods, except those being deleted."""
    return max((pod.exposure for pod in pods if not pod.deleting), default=timedelta())


def _for_no_reason(before: PodState, now: PodState) -> bool:
    return before.ready and not now.ready and not now.deleting and now.whole and before.running <= now.running
