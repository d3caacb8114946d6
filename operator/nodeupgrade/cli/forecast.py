"""What a plain kubelet swap would restart, computed from the pods that the API server shows."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from nodeupgrade.domain.wire import Json
from nodeupgrade.kubelethash import Era, HashError, KubeletVersion, era_of, explain_pod


@dataclass(frozen=True, slots=True, kw_only=True)
class Restart:
    """A container that would restart, as ``namespace/pod/container``, and why."""

    container: str
    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeForecast:
    """One node.

    Attributes:
        containers: that run now.
        restarts: those of them that would restart.
        unknown: pods that cannot be told, each with the reason; the node would be refused for them.
    """

    node: str
    from_version: str
    to_version: str
    containers: int
    restarts: tuple[Restart, ...] = ()
    unknown: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class EraForecast:
    """All nodes that go from one kubelet minor to another; ``causes`` counts restarts by reason."""

    from_series: str
    from_era: Era
    to_series: str
    to_era: Era
    nodes: int
    containers: int
    restarts: int
    unknown: int
    causes: Mapping[str, int]


def forecast(node: str, pods: Iterable[Json], from_version: str, to_version: str) -> NodeForecast:
    """Compute both hashes of every running container of a node; where they differ, it would restart.

    Args:
        node: Its name.
        pods: All of its pods, as the API server shows them.
        from_version: Its kubelet, whose hashes must be known.
        to_version: The kubelet to come, likewise.
    """
    containers, restarts, unknown = 0, list[Restart](), list[str]()
    for pod in pods:
        running = _running(pod)
        containers += len(running)
        try:
            restarts += _restarts(pod, running, from_version, to_version)
        except HashError as error:
            unknown.append(f"{_name(pod)}: {error}")
    return NodeForecast(
        node=node,
        from_version=from_version,
        to_version=to_version,
        containers=containers,
        restarts=tuple(restarts),
        unknown=tuple(unknown),
    )


def by_era(forecasts: Iterable[NodeForecast]) -> tuple[EraForecast, ...]:
    """Sum up nodes by the minors they go from and to, so that a fleet of any size fits on a screen."""
    groups: dict[tuple[KubeletVersion, KubeletVersion], list[NodeForecast]] = {}
    for each in forecasts:
        minors = tuple(_minor(version) for version in (each.from_version, each.to_version))
        groups.setdefault((minors[0], minors[1]), []).append(each)
    return tuple(_summed(before, after, groups[before, after]) for before, after in sorted(groups))


def _summed(before: KubeletVersion, after: KubeletVersion, nodes: list[NodeForecast]) -> EraForecast:
    causes = Counter(restart.why for node in nodes for restart in node.restarts)
    return EraForecast(
        from_series=before.series,
        from_era=era_of(before),
        to_series=after.series,
        to_era=era_of(after),
        nodes=len(nodes),
        containers=sum(node.containers for node in nodes),
        restarts=sum(len(node.restarts) for node in nodes),
        unknown=sum(len(node.unknown) for node in nodes),
        causes=dict(causes.most_common()),
    )


def _minor(version: str) -> KubeletVersion:
    """The first release of a version's minor, which stands for all of them: patches never changed a hash."""
    parsed = KubeletVersion.parse(version)
    return KubeletVersion.parse(f"v{parsed.series}.0")


def _restarts(pod: Json, running: set[str], from_version: str, to_version: str) -> Iterator[Restart]:
    if not running:
        return
    change = explain_pod(pod, from_version, to_version)
    if change.whole_pod:
        for name in sorted(running):
            yield Restart(container=f"{_name(pod)}/{name}", why="; ".join(change.whole_pod))
        return
    for each in change.containers:
        if each.container in running:
            yield Restart(container=f"{_name(pod)}/{each.container}", why=each.sentence())


def _running(pod: Json) -> set[str]:
    status = pod.get("status") or {}
    every = [*(status.get("initContainerStatuses") or ()), *(status.get("containerStatuses") or ())]
    return {each["name"] for each in every if "running" in (each.get("state") or {})}


def _name(pod: Json) -> str:
    return f"{pod['metadata'].get('namespace', 'default')}/{pod['metadata']['name']}"
