"""Which pods were reported unready although nothing about them changed: a fold over what a watch tells of them."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import timedelta

from nodeupgrade.domain.pods import Pod


@dataclass(frozen=True, slots=True, kw_only=True)
class PodState:
    """What matters of a pod, as it is reported at one moment.

    Attributes:
        name: ``namespace/name``.
        running: containers and sidecars that run, each with its identity.
        whole: whether all its containers run.
        deleting: whether it is being deleted, or has come to its end.
        exposure: how long a fresh kubelet may need to have probed it.
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
        """Keep of a pod what is compared with what it is later.

        Raises:
            KeyError: it has no UID.
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
    """All pods of a node as they were last reported, and the names of those that became unready for no reason.

    A pod counts if it was Ready, is not any more, is not going away, and each of its containers runs on.
    """

    pods: Mapping[str, PodState] = field(default_factory=dict)
    flapped: frozenset[str] = frozenset()

    def after(self, pod: PodState) -> "Flaps":
        """Take in what is reported of a pod now."""
        known = {**self.pods, pod.uid: pod}
        before = self.pods.get(pod.uid)
        if before is None or not _for_no_reason(before, pod):
            return replace(self, pods=known)
        return Flaps(known, self.flapped | {pod.name})

    def without(self, uid: str) -> "Flaps":
        """Take in that a pod is gone."""
        return replace(self, pods={known: pod for known, pod in self.pods.items() if known != uid})

    @property
    def unready(self) -> tuple[str, ...]:
        """Those of them that are unready still although they run, by name."""
        pods = (pod for pod in self.pods.values() if pod.name in self.flapped)
        return tuple(sorted(pod.name for pod in pods if pod.whole and not pod.ready and not pod.deleting))

    @property
    def exposure(self) -> timedelta:
        """How long a fresh kubelet may need to have probed every pod that is here now."""
        return longest_exposure(self.pods.values())


def longest_exposure(pods: Iterable[PodState]) -> timedelta:
    """How long a fresh kubelet may need to have probed all of them that stay."""
    return max((pod.exposure for pod in pods if not pod.deleting), default=timedelta())


def _for_no_reason(before: PodState, now: PodState) -> bool:
    return before.ready and not now.ready and not now.deleting and now.whole and before.running <= now.running
