"""The node's containers as the API showed them before a run, to be compared with what it shows after.

The node side compares far more (processes, shims, start times). This is the second opinion, from a source that the
node side does not control: container identity and restart count in pod status. It is written small, for it has to
outlive the operator in an annotation.
"""

from __future__ import annotations

import base64
import binascii
import json
import zlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime

from nodeupgrade.domain.views import ContainerView, PodView

_ID_CHARACTERS = 12


@dataclass(frozen=True, slots=True)
class Baseline:
    """Running containers by ``namespace/pod/container``: pod UID, start of the container's ID, restart count.

    A mirror pod's UID is left empty: the kubelet may make the mirror anew without touching the static pod.
    """

    containers: Mapping[str, tuple[str, str, int]]


def capture(pods: Iterable[PodView]) -> Baseline:
    """Remember every running container of pods that are not on their way out."""
    return Baseline(
        {
            f"{pod}/{container.name}": (_uid(pod), _short(container.container_id), container.restart_count)
            for pod in pods
            if not pod.deleting and not pod.finished
            for container in pod.containers
            if container.running
        }
    )


def restarted(baseline: Baseline, pods: Iterable[PodView], since: datetime | None) -> tuple[str, ...]:
    """List the containers that are not the instance they were.

    A pod that is gone was deleted by somebody and is no restart; neither is a pod of the same name with another UID.
    An instance that ended before ``since`` (when the kubelet was stopped) crashed by itself.
    """
    changed = []
    for pod in pods:
        for container in pod.containers:
            label = f"{pod}/{container.name}"
            before = baseline.containers.get(label)
            if before is None or before[0] != _uid(pod) or not container.container_id or _same(before, container):
                continue
            ended = container.previous_finished_at
            if since is None or ended is None or ended >= since.replace(microsecond=0):
                changed.append(label)
    return tuple(sorted(changed))


def render(baseline: Baseline) -> str:
    """Write a baseline as text for an annotation, compressed."""
    document = json.dumps(baseline.containers, separators=(",", ":"), sort_keys=True)
    return base64.b64encode(zlib.compress(document.encode(), 9)).decode()


def parse(text: str) -> Baseline | None:
    """Read what render wrote, or return None if it is not that."""
    try:
        document = json.loads(zlib.decompress(base64.b64decode(text, validate=True)))
        return Baseline({label: (uid, start, count) for label, (uid, start, count) in document.items()})
    except (binascii.Error, zlib.error, ValueError, TypeError, AttributeError):
        return None


def _same(before: tuple[str, str, int], container: ContainerView) -> bool:
    return before[1:] == (_short(container.container_id), container.restart_count)


def _uid(pod: PodView) -> str:
    return "" if pod.mirror else pod.uid


def _short(container_id: str) -> str:
    return container_id.rpartition("/")[2][:_ID_CHARACTERS]
