"""The node's containers as the API showed them before a run, to be compared with what it shows after.

The node side compares far more (processes, their monitors, start times). This is the second opinion, from a source
that the node side does not control: container identity and restart count in pod status. It is written small, for it has
to outlive the operator in an annotation.
"""

import base64
import binascii
import json
import zlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime

from nodeupgrade.domain.pods import ContainerStatus, Pod

_ID_CHARACTERS = 12


@dataclass(frozen=True, slots=True)
class Baseline:
    """What ran on a node, and what of it was Ready.

    A mirror pod's UID is left empty: the kubelet may make the mirror anew without touching the static pod.

    Attributes:
        containers: running ones by ``namespace/pod/container``: pod UID, start of the container's ID, restart count.
        ready: UIDs of the pods that were Ready, by ``namespace/pod``.
    """

    containers: Mapping[str, tuple[str, str, int]]
    ready: Mapping[str, str] = field(default_factory=dict)


def capture(pods: Iterable[Pod]) -> Baseline:
    """Remember every running container of pods that are not on their way out, and which of these are Ready."""
    staying = [pod for pod in pods if not pod.terminating and not pod.finished]
    return Baseline(
        {
            f"{pod}/{container.name}": (_uid(pod), _short(container.container_id), container.restart_count)
            for pod in staying
            for container in pod.statuses
            if container.running
        },
        {str(pod): _uid(pod) for pod in staying if pod.ready},
    )


def restarted(
    baseline: Baseline, pods: Iterable[Pod], since: datetime | None, until: datetime | None = None
) -> tuple[str, ...]:
    """List the containers that are not the instance they were.

    A pod that is gone was deleted by somebody and is no restart; neither is a pod of the same name with another UID.

    Args:
        baseline: What ran before.
        pods: The node's pods as they are now.
        since: When the kubelet was stopped; an instance that ended before crashed by itself.
        until: When the new kubelet had settled; the one instance that ended after that does not count. With a startup
            probe it does: a kubelet that forgot its result asks that again, and kills what does not answer as it did.
    """
    changed = []
    for pod in pods:
        for container in pod.statuses:
            label = f"{pod}/{container.name}"
            before = baseline.containers.get(label)
            if before is None or before[0] != _uid(pod) or not container.container_id or _same(before, container):
                continue
            ended, once = container.previous_finished_at, container.restart_count == before[2] + 1
            earlier = since is not None and ended is not None and ended < since.replace(microsecond=0)
            later = until is not None and ended is not None and ended > until and once
            later = later and not container.startup_probed
            if not earlier and not later:
                changed.append(label)
    return tuple(sorted(changed))


def no_longer_ready(baseline: Baseline, pods: Iterable[Pod]) -> tuple[str, ...]:
    """List the pods that were Ready and are not, unless they are on their way out."""
    unready = (pod for pod in pods if not (pod.ready or pod.terminating or pod.finished))
    return tuple(sorted(str(pod) for pod in unready if baseline.ready.get(str(pod)) == _uid(pod)))


def render(baseline: Baseline) -> str:
    """Write a baseline as text for an annotation, compressed."""
    content = {"containers": baseline.containers, "ready": baseline.ready}
    document = json.dumps(content, separators=(",", ":"), sort_keys=True)
    return base64.b64encode(zlib.compress(document.encode(), 9)).decode()


def parse(text: str) -> Baseline | None:
    """Read what render wrote, or return None if it is not that.

    A run that an earlier version of this program has begun is judged by what that one wrote: containers alone.
    """
    try:
        document = json.loads(zlib.decompress(base64.b64decode(text, validate=True)))
        told = document if "containers" in document else {"containers": document}  # each label has a slash in it
        containers = {label: (uid, start, count) for label, (uid, start, count) in told["containers"].items()}
        return Baseline(containers, dict(told.get("ready") or {}))
    except (binascii.Error, zlib.error, ValueError, TypeError, AttributeError):
        return None


def _same(before: tuple[str, str, int], container: ContainerStatus) -> bool:
    return before[1:] == (_short(container.container_id), container.restart_count)


def _uid(pod: Pod) -> str:
    return "" if pod.mirror else pod.uid


def _short(container_id: str) -> str:
    return container_id.rpartition("/")[2][:_ID_CHARACTERS]
