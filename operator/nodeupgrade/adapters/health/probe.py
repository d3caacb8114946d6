"""The HealthProbe port, implemented against real servers."""

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime

from nodeupgrade.adapters.health import objects, prometheus
from nodeupgrade.adapters.health.expression import which_fail
from nodeupgrade.api.configuration import PrometheusServer
from nodeupgrade.api.reasons import counted
from nodeupgrade.api.upgrade.health import ClusterObjects, HealthCheck, PrometheusQuery
from nodeupgrade.domain.errors import NodeUpgradeError
from nodeupgrade.domain.rollout.health import HealthObservation, HealthState
from nodeupgrade.ports.health import HealthProbe
from nodeupgrade.ports.kube import KubeApi


class ClusterProbe(HealthProbe):
    """Evaluates checks with the Prometheus servers of the configuration, and with the cluster's objects.

    Args:
        kube: The API server, with the identity that health checks read with.
        servers: The Prometheus servers that may be queried.
        utcnow: Returns the wall-clock time, UTC.
    """

    def __init__(self, kube: KubeApi, servers: Sequence[PrometheusServer], utcnow: Callable[[], datetime]) -> None:
        self._kube, self._utcnow = kube, utcnow
        self._servers = {server.name: server for server in servers}

    async def observe(self, check: HealthCheck) -> HealthObservation:
        """Evaluate a check once."""
        try:
            match check:
                case HealthCheck(prometheus=PrometheusQuery() as asked):
                    return await self._query(asked, check.timeout.total_seconds())
                case HealthCheck(objects=ClusterObjects() as wanted):
                    return await self._read(wanted, check.timeout.total_seconds())
                case _:
                    return _broken("it says neither prometheus nor objects")
        except NodeUpgradeError as error:
            return _broken(str(error))

    async def _query(self, asked: PrometheusQuery, seconds: float) -> HealthObservation:
        server = self._servers.get(asked.server)
        if server is None:
            return _broken(f"the operator's configuration names no Prometheus {asked.server}")
        samples = await prometheus.query(server, asked.query, self._utcnow)
        cases = [{"value": sample.value, "labels": sample.labels} for sample in samples]
        return await _judged(asked.expression, cases, [str(sample) for sample in samples], "sample", seconds)

    async def _read(self, wanted: ClusterObjects, seconds: float) -> HealthObservation:
        found = await objects.read(self._kube, wanted)
        cases = [{"object": body} for body in found]
        return await _judged(wanted.expression, cases, [objects.label(body) for body in found], "object", seconds)


async def _judged(
    expression: str, cases: Sequence[Mapping[str, object]], labels: Sequence[str], what: str, seconds: float
) -> HealthObservation:
    """Evaluate an expression for each case; ``labels`` name the cases in messages."""
    failing = await which_fail(expression, cases, seconds)
    if not failing:
        return HealthObservation(state=HealthState.HOLDING)
    more = f" and {len(failing) - 1} more" if len(failing) > 1 else ""
    detail = f"{expression} is false for {len(failing)} of {counted(len(cases), what)}: {labels[failing[0]]}{more}"
    return HealthObservation(state=HealthState.FAILING, detail=detail)


def _broken(detail: str) -> HealthObservation:
    return HealthObservation(state=HealthState.BROKEN, detail=detail)
