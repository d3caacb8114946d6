"""The HealthProbe port, implemented against real servers."""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from datetime import datetime

from nodeupgrade.api.configuration import PrometheusServer
from nodeupgrade.api.upgrade.health import ClusterObjects, HealthCheck, PrometheusQuery
from nodeupgrade.api.wording import counted
from nodeupgrade.cluster.kube_api import KubeApi
from nodeupgrade.errors import NodeUpgradeError
from nodeupgrade.fleet.health.checks import HealthObservation, HealthState
from nodeupgrade.fleet.health.evaluation import HealthProbe
from nodeupgrade.fleet.health.expressions import find_failing
from nodeupgrade.fleet.health.objects import label, read
from nodeupgrade.fleet.health.prometheus import asking

JUDGED_AT_ONCE = 2
"""Checks whose data are in memory, to be read and judged: with the operator itself, they fit into its memory limit."""

MOST_SECONDS = 30
"""How long data may be read, whatever a check's timeout is: others wait for their turn meanwhile."""


@dataclass(eq=False)
class ClusterProbe(HealthProbe):
    """Evaluates checks with the Prometheus servers of the configuration, and with the cluster's objects."""

    kube: KubeApi  # the API server, with the identity that health checks read with
    servers: Sequence[PrometheusServer]  # those that may be queried
    utcnow: Callable[[], datetime]  # returns the wall-clock time, UTC
    _turns: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(JUDGED_AT_ONCE))

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
            return _broken(f"no answer came within its timeout, or it took more than {MOST_SECONDS} s to read it")

    async def _query(self, asked: PrometheusQuery, seconds: float) -> HealthObservation:
        server = next((server for server in self.servers if server.name == asked.server), None)
        if server is None:
            return _broken(f"the operator's configuration names no Prometheus {asked.server}")
        async with AsyncExitStack() as held:
            # A server that hangs takes nobody's turn: nothing of its answer is here yet.
            async with asyncio.timeout(seconds):
                answer = await held.enter_async_context(asking(server, asked.query))
            await held.enter_async_context(self._turns)
            async with asyncio.timeout(min(seconds, MOST_SECONDS)):
                samples = await answer.samples(self.utcnow)
            cases = [{"value": sample.value, "labels": sample.labels} for sample in samples]
            return await _judged(asked.expression, cases, [str(sample) for sample in samples], "sample")

    async def _read(self, wanted: ClusterObjects, seconds: float) -> HealthObservation:
        async with self._turns:
            async with asyncio.timeout(min(seconds, MOST_SECONDS)):
                found = await read(self.kube, wanted)
            cases = [{"object": body} for body in found]
            return await _judged(wanted.expression, cases, [label(body) for body in found], "object")


async def _judged(
    expression: str, cases: Sequence[Mapping[str, object]], labels: Sequence[str], what: str
) -> HealthObservation:
    """Evaluate an expression for each case; ``labels`` name the cases in messages."""
    failing = await find_failing(expression, cases)
    if not failing:
        return HealthObservation(state=HealthState.HOLDING)
    more = f" and {len(failing) - 1} more" if len(failing) > 1 else ""
    detail = f"{expression} is false for {len(failing)} of {counted(len(cases), what)}: {labels[failing[0]]}{more}"
    return HealthObservation(state=HealthState.FAILING, detail=detail)


def _broken(detail: str) -> HealthObservation:
    return HealthObservation(state=HealthState.BROKEN, detail=detail)
