"""Bring the pods of the API server up to date with the containers that the runtime shows running.

A kubelet reports a start a moment later, a second or two; one that was stopped reports none any more.
"""

from collections import defaultdict
from collections.abc import Iterable

from nodeupgrade.api.json import Json
from nodeupgrade.api.values import PodRef
from nodeupgrade.cluster.pods import Pod, parse_pod
from nodeupgrade.node.runtimes.inventory import ContainerInstance, Inventory

_UNREADY = {"type": "Ready", "status": "False"}


def as_they_run(pods: Iterable[Pod], inventory: Inventory) -> tuple[Pod, ...]:
    """Return the pods, where the status of each container is not that of an instance before the one that runs.

    Of that one only its start is known: it is neither started, as startup probes have it, nor ready.
    """
    running = defaultdict[PodRef, list[ContainerInstance]](list)
    for container in inventory.running():
        running[container.pod].append(container)
    return tuple(_as_it_runs(pod, running.get(pod.ref, ())) for pod in pods)


def _as_it_runs(pod: Pod, running: Iterable[ContainerInstance]) -> Pod:
    shown = dict(pod.running)
    begun = {container.name: container for container in running if shown.get(container.name) != container.id}
    if not begun:
        return pod
    others = (each for each in pod.status.get("containerStatuses") or () if each.get("name") not in begun)
    statuses = (_begun(name, pod.states.get(name) or {}, instance) for name, instance in begun.items())
    conditions = (each for each in pod.status.get("conditions") or () if each.get("type") != "Ready")
    status = {**pod.status, "containerStatuses": [*others, *statuses], "conditions": [*conditions, _UNREADY]}
    return parse_pod({**pod.raw, "status": status})


def _begun(name: str, before: Json, instance: ContainerInstance) -> Json:
    state, last = before.get("state") or {}, before.get("lastState") or {}
    if (ended := state.get("terminated")) is not None:
        last = {"terminated": ended}
    shown = before.get("containerID") if "running" in state else ""  # says which runtime the kubelet uses
    return {
        **before,
        "name": name,
        "containerID": shown,
        "state": {"running": {}},
        "lastState": last,
        "started": False,
        "ready": False,
        "restartCount": instance.attempt,
    }
