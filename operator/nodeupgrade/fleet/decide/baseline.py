"""The baseline: a node's containers as the API shows them before a run, for comparison afterwards.

The node side compares far more (processes, their monitors, start times). The baseline is a second opinion from a
source that the node side does not control: container identity and restart count in pod status. It is compact because
it is kept in an annotation, so that it outlives the operator.
"""

import base64
import binascii
import json
import zlib
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from datetime import datetime, timedelta

from nodeupgrade.api.task.status import BetweenAttempts
from nodeupgrade.api.values import PodUid
from nodeupgrade.cluster.owner_changes import ContainerSpec, Planned, specs_of
from nodeupgrade.cluster.pods import ContainerStatus, Pod
from nodeupgrade.text import known_time

_ID_CHARACTERS = 12
_EVICTED, _LOW = "Evicted", "low on resource"
_DEADLINE = "DeadlineExceeded"
"""Reason of a pod that has run for ``activeDeadlineSeconds``."""


@dataclass(frozen=True, slots=True)
class Baseline:
    """The running containers and the Ready pods of a node.

    The UID of a mirror pod is left empty: the kubelet may recreate the mirror without touching the static pod.
    """

    # running ones by ``namespace/pod/container``: pod UID, prefix of the container ID, restart count
    containers: Mapping[str, tuple[str, str, int]]
    ready: Mapping[str, str] = field(default_factory=dict)  # UIDs of the pods that were Ready, by ``namespace/pod``
    # what their owners wanted, as digests of image and resources, by ``namespace/pod/container``; not of mirror pods
    wanted: Mapping[str, tuple[str, str]] = field(default_factory=dict)
    # generations by ``namespace/pod``: the API server counts changes of a pod's spec (1.33+, KEP-5067)
    generations: Mapping[str, int] = field(default_factory=dict)

    @classmethod
    def capture(cls, pods: Iterable[Pod]) -> "Baseline":
        """Return the baseline of pods that are neither terminating nor finished."""
        staying = [pod for pod in pods if not pod.terminating and not pod.finished]
        return cls(
            {
                f"{pod}/{container.name}": (cls._uid(pod), *cls._instance(container))
                for pod in staying
                for container in pod.statuses
                if container.running
            },
            {str(pod): cls._uid(pod) for pod in staying if pod.ready},
            {
                f"{pod}/{spec.name}": (spec.image, spec.resources)
                for pod in staying
                for spec in specs_of((pod,))
                if any(spec.name == container.name and container.running for container in pod.statuses)
            },
            {str(pod): pod.generation for pod in staying if pod.generation and not pod.mirror},
        )

    @classmethod
    def parse(cls, text: str) -> "Baseline | None":
        """Decode a baseline; return None if the text is not one.

        A run that an earlier version of this program began may have a baseline of containers alone.
        """
        try:
            document = json.loads(zlib.decompress(base64.b64decode(text, validate=True)))
            content = document if "containers" in document else {"containers": document}  # its keys contain slashes
            containers = {label: (uid, start, count) for label, (uid, start, count) in content["containers"].items()}
            wanted = {label: (image, resources) for label, (image, resources) in content.get("wanted", {}).items()}
            ready, generations = (dict(content.get(name) or {}) for name in ("ready", "generations"))
            return cls(containers, ready, wanted, generations)
        except (binascii.Error, zlib.error, ValueError, TypeError, AttributeError):
            return None

    def render(self) -> str:
        """Encode the baseline as compressed text for an annotation."""
        document = json.dumps(asdict(self), separators=(",", ":"), sort_keys=True)
        return base64.b64encode(zlib.compress(document.encode(), 9)).decode()

    def restarted(
        self, pods: Iterable[Pod], since: datetime | None, between: Iterable[BetweenAttempts] = ()
    ) -> tuple[str, ...]:
        """Return the containers that are no longer the same instance, as ``namespace/pod/container``.

        A pod that is gone was deleted and does not count as a restart; nor does a pod of the same name with another
        UID.

        Args:
            since: When the kubelet was stopped; an instance that ended earlier crashed by itself.
            between: When the old kubelet ran meanwhile; so did one that ended then.
        """
        changed, between = [], tuple(between)
        for pod in pods:
            for container in pod.statuses:
                label = f"{pod}/{container.name}"
                before = self.containers.get(label)
                if before is None or before[0] != self._uid(pod) or not container.container_id:
                    continue
                if before[1:] == self._instance(container):
                    continue
                if _is_meanwhile(container.previous_finished_at, since, between):
                    changed.append(label)
        return tuple(sorted(changed))

    def failed_by_kubelet(
        self, pods: Iterable[Pod], since: datetime | None, between: Iterable[BetweenAttempts] = ()
    ) -> tuple[str, ...]:
        """Return the containers that have ended because a kubelet rejected or evicted their pod, named likewise.

        Each may be the instance that it was, since it is not started again, and it may have exited with code 0. A
        kubelet may leave the statuses of a rejected pod's containers out.
        """
        between = tuple(between)
        failed = [pod for pod in pods if pod.status.get("phase") == "Failed" and _is_by_kubelet(pod)]
        return tuple(
            sorted(
                label
                for pod in failed
                for label, (uid, *_) in self.containers.items()
                if label.rpartition("/")[0] == str(pod) and uid == self._uid(pod)
                if _is_meanwhile(_ended_at(pod, label.rpartition("/")[2]), since, between)
            )
        )

    @property
    def owned(self) -> Planned:
        """Return what owners wanted before the run."""
        specs = (
            ContainerSpec(
                pod=PodUid(self.containers[label][0]), name=label.rpartition("/")[2], image=image, resources=resources
            )
            for label, (image, resources) in self.wanted.items()
            if label in self.containers
        )
        return Planned(containers=tuple(specs))

    def spec_was_changed(self, pod: Pod) -> bool:
        """Report whether somebody has changed a pod's spec since, and perhaps taken that back; False if unknown."""
        before = self.generations.get(str(pod))
        return isinstance(before, int) and pod.generation > before

    def no_longer_ready(self, pods: Iterable[Pod]) -> tuple[str, ...]:
        """Return the pods that were Ready and are not now, except those that are terminating or finished."""
        unready = (pod for pod in pods if not (pod.ready or pod.leaving))
        return tuple(sorted(str(pod) for pod in unready if self.ready.get(str(pod)) == self._uid(pod)))

    @staticmethod
    def _uid(pod: Pod) -> str:
        return "" if pod.mirror else pod.uid

    @staticmethod
    def _instance(container: ContainerStatus) -> tuple[str, int]:
        return container.container_id.rpartition("/")[2][:_ID_CHARACTERS], container.restart_count


def _is_meanwhile(ended: datetime | None, since: datetime | None, between: Iterable[BetweenAttempts]) -> bool:
    """Report whether an instance may have ended since the kubelet's stop, and not while the old one ran again."""
    is_since = since is None or ended is None or ended >= since.replace(microsecond=0)
    return is_since and not any(_is_within(ended, each) for each in between)


def _is_within(ended: datetime | None, between: BetweenAttempts) -> bool:
    """Report whether an instance surely ended then: the API server tells its end in whole seconds."""
    until = between.until
    return ended is not None and between.since <= ended and (until is None or ended + timedelta(seconds=1) <= until)


def _is_by_kubelet(pod: Pod) -> bool:
    """Report whether a kubelet has failed a pod for a reason of its own; the pod's deadline and limits are its owner's.

    A pod that exceeds its own limit of storage is evicted as well, with another message than one of a node that is low
    on a resource.
    """
    reason, message = pod.status.get("reason"), str(pod.status.get("message") or "")
    is_own_limit = reason == _EVICTED and "exceed" in message and _LOW not in message
    return reason not in {None, "", _DEADLINE} and not is_own_limit


def _ended_at(pod: Pod, name: str) -> datetime | None:
    """Return when the present instance ended; None if unknown, as a kubelet may not know it of a pod that it evicts."""
    ended = ((pod.states.get(name) or {}).get("state") or {}).get("terminated") or {}
    return known_time(ended.get("finishedAt"))
