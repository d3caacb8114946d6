"""How many running containers of a fleet carry which kubelet's hash, from what its nodes have counted."""

from collections import Counter
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from datetime import datetime

from nodeupgrade.api.json import Json, to_json
from nodeupgrade.api.task.census import UNKNOWN_KUBELET
from nodeupgrade.api.task.object import Task


@dataclass(frozen=True, slots=True, kw_only=True)
class Carried:
    """Containers that carry the hash of one kubelet, and the number of nodes with such containers."""

    kubelet: str
    containers: int
    nodes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class FleetCensus:
    """The containers of some nodes.

    Attributes:
        kubelets: by kubelet, oldest first.
        counted: number of nodes that have counted their containers.
        uncounted: names of those that have not.
        oldest: when the first of them did so.
    """

    kubelets: tuple[Carried, ...]
    counted: int
    uncounted: tuple[str, ...]
    oldest: datetime | None

    def document(self) -> Json:
        """Return it as JSON."""
        document: Json = to_json(self)
        return document


def fleet_census(tasks: Iterable[Task], nodes: Collection[str]) -> FleetCensus:
    """Add up what the nodes of these names have counted last."""
    found = {task.name: task.status.hashes for task in tasks if task.status.hashes is not None and task.name in nodes}
    containers, on = Counter[str](), Counter[str]()
    for census in found.values():
        containers.update(census.kubelets)
        on.update(kubelet for kubelet, number in census.kubelets.items() if number)
    return FleetCensus(
        kubelets=tuple(
            Carried(kubelet=kubelet, containers=containers[kubelet], nodes=on[kubelet])
            for kubelet in sorted(on, key=_by_age)
        ),
        counted=len(found),
        uncounted=tuple(sorted(name for name in nodes if name not in found)),
        oldest=min((census.as_of for census in found.values() if census.as_of is not None), default=None),
    )


def _by_age(kubelet: str) -> tuple[bool, int, str]:
    return kubelet == UNKNOWN_KUBELET, len(kubelet), kubelet
