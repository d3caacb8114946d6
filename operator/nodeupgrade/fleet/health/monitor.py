"""Evaluates the health checks of all rollouts, each at its interval, beside the passes that depend on them.

A pass only reads what is known, so that a Prometheus that hangs delays no node in flight. All is kept in memory: after
a restart, every check has to hold anew for as long as it must.
"""

import asyncio
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta

from nodeupgrade.api.upgrade.health import HealthCheck
from nodeupgrade.api.upgrade.object import Upgrade
from nodeupgrade.errors import NodeUpgradeError
from nodeupgrade.fleet.health.checks import HealthObservation, HealthReading, HealthState, reading_after
from nodeupgrade.fleet.health.evaluation import HealthProbe, HealthSource

AT_ONCE = 2
"""Checks of one NodeUpgrade that are evaluated at the same time; its others wait, and nobody else's."""

GRACE = timedelta(seconds=120)
"""How much longer than its timeout the evaluation of a check may take: its expression, and waiting for its turn."""


@dataclass(slots=True)
class _Watched:
    """One check of one NodeUpgrade: when it is due, by the event loop's clock, and what is known of it."""

    uid: str  # of the NodeUpgrade
    check: HealthCheck
    due: float
    running: bool = False
    reading: HealthReading | None = None


class HealthMonitor(HealthSource):
    """Keeps the readings of all health checks that were asked for.

    Args:
        probe: Evaluates a check.
        utcnow: Returns the wall-clock time, UTC.
        on_change: Called with the name of a NodeUpgrade when one of its checks comes to something else than before.
        grace: How much longer than its timeout the evaluation of a check may take.
    """

    def __init__(
        self,
        probe: HealthProbe,
        utcnow: Callable[[], datetime],
        on_change: Callable[[str], None],
        grace: timedelta = GRACE,
    ) -> None:
        self._probe, self._utcnow, self._on_change, self._grace = probe, utcnow, on_change, grace
        self._watched: dict[str, dict[str, _Watched]] = {}
        self._changed = asyncio.Event()
        self._slots = defaultdict[str, asyncio.Semaphore](lambda: asyncio.Semaphore(AT_ONCE))

    def readings(self, upgrade: Upgrade) -> Mapping[str, HealthReading]:
        """Return what is known of the checks of a rollout; a check that is new or was edited is evaluated at once."""
        checks = () if upgrade.spec is None or upgrade.finished else upgrade.spec.health_checks
        known = self._watched.get(upgrade.name, {})
        if not checks:
            self.forget(upgrade.name)
            return {}
        kept = {name: each for name, each in known.items() if each.uid == upgrade.uid and each.check in checks}
        wanted = {check.name: kept.get(check.name) or _Watched(upgrade.uid, check, due=0.0) for check in checks}
        if wanted != known:
            self._changed.set()
        self._watched[upgrade.name] = wanted
        return {name: each.reading for name, each in wanted.items() if each.reading is not None}

    def forget(self, name: str) -> None:
        """Stop evaluating the checks of a NodeUpgrade."""
        self._watched.pop(name, None)
        self._slots.pop(name, None)

    async def run(self) -> None:
        """Evaluate checks as they become due, until cancelled; then forget them all."""
        try:
            await self._evaluate_when_due()
        finally:
            self._watched.clear()
            self._slots.clear()

    async def _evaluate_when_due(self) -> None:
        clock = asyncio.get_running_loop().time
        async with asyncio.TaskGroup() as group:
            while True:
                self._changed.clear()
                idle = [(upgrade, each) for upgrade, each in self._all() if not each.running]
                for upgrade, each in idle:
                    if each.due <= clock():
                        each.running = True
                        group.create_task(self._evaluate(upgrade, each))
                due = min((each.due for _, each in self._all() if not each.running), default=None)
                try:
                    async with asyncio.timeout(None if due is None else max(0.0, due - clock())):
                        await self._changed.wait()
                except TimeoutError:
                    continue

    def _all(self) -> Iterator[tuple[str, _Watched]]:
        for upgrade, checks in self._watched.items():
            for each in checks.values():
                yield upgrade, each

    async def _evaluate(self, upgrade: str, watched: _Watched) -> None:
        check = watched.check
        async with self._slots[upgrade]:
            began, at = asyncio.get_running_loop().time(), self._utcnow()
            observed = await self._observe(check)
        before, watched.reading = watched.reading, reading_after(watched.reading, check, observed, at)
        watched.due, watched.running = began + check.interval.total_seconds(), False
        self._changed.set()
        if before is None or before.state is not observed.state:
            self._on_change(upgrade)

    async def _observe(self, check: HealthCheck) -> HealthObservation:
        try:
            async with asyncio.timeout((check.timeout + self._grace).total_seconds()):
                return await self._probe.observe(check)
        except TimeoutError:
            return HealthObservation(state=HealthState.BROKEN, detail="no answer came within its timeout")
        except NodeUpgradeError as error:
            return HealthObservation(state=HealthState.BROKEN, detail=str(error))
        except Exception as error:  # noqa: BLE001 - whatever it is, it is no reason to end the checks of others
            return HealthObservation(state=HealthState.BROKEN, detail=f"it fails with {type(error).__name__}")
