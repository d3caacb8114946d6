"""Restarts, computed from the pods as the API server shows them."""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from nodeupgrade.api.json import Json
from nodeupgrade.api.task.status import RestartForecast
from nodeupgrade.kubelethash import Era, HashError, KubeletVersion, era_of, explain_pod, is_sidecar


@dataclass(frozen=True, slots=True, kw_only=True)
class PodForecast:
    """The forecast for one pod."""

    running: tuple[str, ...]  # its running containers
    restarts: Mapping[str, tuple[str, ...]]  # those of them that would restart, and why
    whole_pod: tuple[str, ...]  # the reasons that concern the pod as a whole


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeForecast:
    """The forecast for one node."""

    node: str
    from_version: str
    to_version: str
    containers: int  # how many containers run
    restarts: tuple[RestartForecast, ...] = ()  # those of them that would restart
    # pods without a certain forecast, each with the reason; the node would be refused because of them
    unknown: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class EraForecast:
    """The forecast for all nodes that go from one kubelet minor to another; ``causes`` counts restarts by reason."""

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
    """Compute the old and the new hash of every running container of a node; where they differ, it would restart.

    The hashes of both versions must be known.
    """
    containers, restarts, unknown = 0, list[RestartForecast](), list[str]()
    for pod in pods:
        containers += len(_running(pod))
        try:
            found = pod_forecast(pod, from_version, to_version)
            restarts += (
                RestartForecast(container=f"{_name(pod)}/{name}", why="; besides, ".join(why))
                for name, why in found.restarts.items()
            )
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
    """Return the first release of a version's minor, which stands for all of them: patches never changed a hash."""
    parsed = KubeletVersion.parse(version)
    return KubeletVersion.parse(f"v{parsed.series}.0")


def pod_forecast(pod: Json, from_version: KubeletVersion | str, to_version: KubeletVersion | str) -> PodForecast:
    """Find the running containers of a pod that would restart.

    Raises:
        HashError: a hash, or the QoS class, is not certain.
    """
    running = _running(pod)
    if not running:
        return PodForecast(running=(), restarts={}, whole_pod=())
    change = explain_pod(pod, from_version, to_version)
    reasons = {name: change.whole_pod or change.reasons(name) for name in running}
    return PodForecast(
        running=running, restarts={name: why for name, why in reasons.items() if why}, whole_pod=change.whole_pod
    )


def _running(pod: Json) -> tuple[str, ...]:
    """Return the containers that run according to the status; for a pod without a status, those that would run."""
    spec, status = as_map(pod.get("spec")), as_map(pod.get("status"))
    if not status:
        sidecars = [each for each in _maps(spec.get("initContainers")) if is_sidecar(each)]
        return tuple(str(each.get("name")) for each in (*sidecars, *_maps(spec.get("containers"))))
    every = [*_maps(status.get("initContainerStatuses")), *_maps(status.get("containerStatuses"))]
    return tuple(str(each.get("name")) for each in every if "running" in as_map(each.get("state")))


def as_map(given: object) -> Mapping[str, Any]:
    """Return the value if it is a map, else an empty one: the pod is not validated."""
    return given if isinstance(given, Mapping) else {}


def _maps(given: object) -> list[Mapping[str, Any]]:
    return [each for each in given if isinstance(each, Mapping)] if isinstance(given, list) else []


def _name(pod: Json) -> str:
    return f"{pod['metadata'].get('namespace', 'default')}/{pod['metadata']['name']}"
