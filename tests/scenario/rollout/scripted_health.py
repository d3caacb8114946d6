"""Health checks whose evaluations come to what a test says."""

from collections.abc import Callable, Mapping
from datetime import datetime

from nodeupgrade.api.upgrade.health import HealthCheck
from nodeupgrade.api.upgrade.object import Upgrade
from nodeupgrade.fleet.health.checks import HealthObservation, HealthReading, HealthState, reading_after
from nodeupgrade.fleet.health.evaluation import HealthSource

HOLDS = HealthObservation(state=HealthState.HOLDING)
COMES_TO = {
    "holds": HOLDS,
    "fails": HealthObservation(state=HealthState.FAILING),
    "cannot be evaluated": HealthObservation(state=HealthState.BROKEN),
}


class ScriptedHealth(HealthSource):
    """Evaluates each check at its interval; a check of which the script says nothing holds."""

    def __init__(self, script: Mapping[str, HealthObservation], utcnow: Callable[[], datetime]) -> None:
        self._script, self._utcnow = script, utcnow
        self._known: dict[tuple[str, str], HealthReading] = {}
        self._until_now: dict[str, HealthObservation] = {}

    def readings(self, upgrade: Upgrade) -> Mapping[str, HealthReading]:
        if upgrade.spec is None:
            return {}
        for check in upgrade.spec.health_checks:
            self._evaluate(upgrade.uid, check)
        return {check.name: self._known[upgrade.uid, check.name] for check in upgrade.spec.health_checks}

    def forget(self, name: str) -> None:
        pass

    def _evaluate(self, uid: str, check: HealthCheck) -> None:
        observed, now = self._script.get(check.name, HOLDS), self._utcnow()
        before = self._until_now.get(check.name, HOLDS)
        self._until_now[check.name] = observed
        known = self._known.get((uid, check.name))
        due = now if known is None or known.check != check else known.at + check.interval
        while due <= now:
            known = reading_after(known, check, observed if due == now else before, due)
            due += check.interval
        assert known is not None
        self._known[uid, check.name] = known
