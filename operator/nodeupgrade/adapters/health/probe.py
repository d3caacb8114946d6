"""The HealthProbe port, implemented against real servers."""

import asyncio
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

JUDGED_AT_ONCE = 2
"""Expressions that are evaluated at the same time: with the operator itself, they fit into its memory limit."""


class ClusterProbe(HealthProbe):
    """Evaluates checks with the Prometheus servers of the configuration, and with the cluster's objects.

    Args:
        kube: The API server, with the identity that health checks read with.
        servers: The Prometheus servers that may be queried.
        utcnow: Returns the wall-clock time, UTC.
    """

    def __init__(self, kube: KubeApi, servers: Sequence[PrometheusServer], utcnow: Callable[[], datetime]) -> None:
        self._kube, self._utcnow = kube, utcnow
        self._judging = asyncio.Semaphore(JUDGED_AT_ONCE)
        self._servers = {server.name: server for server in servers}

    async def observe(self, check: HealthCheck) -> HealthObservation:
        """Evaluate a check once. Its timeout is that of its query; its expression has limits of its own."""
        seconds = check.timeout.total_seconds()
        try:
            match check:
                case HealthCheck(prometheus=PrometheusQuery() as asked):
                    return await self._query(asked, seconds)
                case HealthCheck(objects=ClusterObjects() as wanted):
                    return await self._read(wanted, seconds)
                case _:
                    return _broken("it says neither prometheus nor objects")
        except NodeUpgradeError as error:
            return _broken(str(error))
        except TimeoutError:
            return _broken("no answer came within its timeout")

    async def _query(self, asked: PrometheusQuery, seconds: float) -> HealthObservation:
        server = self._servers.get(asked.server)
        if server is None:
            return _broken(f"the operator's configuration names no Prometheus {asked.server}")
        async with asyncio.timeout(seconds):
            samples = await prometheus.query(server, asked.query, self._utcnow)
        cases = [{"value": sample.value, "labels": sample.labels} for sample in samples]
        return await self._judged(asked.expression, cases, [str(sample) for sample in samples], "sample")

    async def _read(self, wanted: ClusterObjects, seconds: float) -> HealthObservation:
        async with asyncio.timeout(seconds):
            found = await objects.read(self._kube, wanted)
        cases = [{"object": body} for body in found]
        return await self._judged(wanted.expression, cases, [objects.label(body) for body in found], "object")

    async def _judged(
        self, expression: str, cases: Sequence[Mapping[str, object]], labels: Sequence[str], what: str
    ) -> HealthObservation:
        """Evaluate an expression for each case; ``labels`` name the cases in messages."""
        async with self._judging:
            failing = await which_fail(expression, cases)
        if not failing:
            return HealthObservation(state=HealthState.HOLDING)
        more = f" and {len(failing) - 1} more" if len(failing) > 1 else ""
        detail = f"{expression} is false for {len(failing)} of {counted(len(cases), what)}: {labels[failing[0]]}{more}"
        return HealthObservation(state=HealthState.FAILING, detail=detail)


def _broken(detail: str) -> HealthObservation:
    return HealthObservation(state=HealthState.BROKEN, detail=detail)
