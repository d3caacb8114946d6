"""What people and clusters do to a rollout in mid-flight."""

import contextlib
from typing import TYPE_CHECKING

from e2e.fleet_faults.weather import Fault
from nodeupgrade.cluster.kube_api import LEASES, NODES, TASKS, UPGRADES, NotFoundError
from nodeupgrade.fleet.leadership.campaign import LEASE_NAME

if TYPE_CHECKING:
    from e2e.fleet_faults.trial import Trial

OURS = ("nodeupgrades", "nodeupgradetasks")
HOUR = 3600.0


class Happenings:
    """Things that happen now and then.

    Attributes:
        excused: nodes whose end may differ from the undisturbed one.
    """

    def __init__(self, trial: "Trial") -> None:
        self._trial = trial
        self._kube, self._weather = trial.kube, trial.weather
        self._outage_ends = 0.0
        self.excused: set[str] = set()

    async def one(self) -> None:
        """Let at most one thing of each kind happen, and end what has lasted long enough."""
        weather, chance = self._weather, self._weather.chance
        name = chance.choice(sorted(self._trial.parts))
        weather.refused = {name} if weather.strikes(Fault.REFUSES, 0.4) else set()
        if weather.strikes(Fault.OUTAGE, 0.05):
            await self._outage()
        if weather.strikes(Fault.NODE_REPLACED, 0.08):
            await self._replace(name)
        if weather.strikes(Fault.NODE_UNREADY, 0.2):
            self.excused.add(name)
            await self._unready(name)
        if weather.strikes(Fault.TASK_DELETED, 0.1):
            self.excused.add(name)
            await self._kube.delete(TASKS, name)
        if weather.strikes(Fault.PAUSE, 0.2):
            await self._pause("true" if chance.random() < 0.5 else None)
        if weather.strikes(Fault.LEASE_DELETED, 0.1):
            await self._kube.delete(LEASES.within(self._trial.namespace), LEASE_NAME)
        if weather.strikes(Fault.NAMESPACE_GONE, 0.05):
            await self._namespace()
        if weather.strikes(Fault.CRDS_GONE, 0.03):
            await self._crds()

    async def mend(self) -> None:
        """Take back what faults have done to the spec and to the nodes."""
        self._weather.refused, self._weather.outage, self._weather.gone = set(), False, frozenset()
        await self._pause(None)

    async def _outage(self) -> None:
        self._weather.outage = True
        self._kube.log.drop()
        await self._trial.wait(HOUR)
        self._weather.outage = False

    async def _replace(self, name: str) -> None:
        """A machine is exchanged: another Node of the same name, with the old kubelet and without our cordon."""
        self.excused.add(name)
        await self._kube.delete(NODES, name)
        await self._trial.wait(self._weather.chance.uniform(0, 20))
        await self._trial.nodes.add_node(name)

    async def _unready(self, name: str) -> None:
        for ready in (False, True):
            with contextlib.suppress(NotFoundError):
                status = (await self._kube.get(NODES, name))["status"]
                status["conditions"] = [{"type": "Ready", "status": str(ready)}]
                await self._kube.replace_status(NODES, name, status)
            if not ready:
                await self._trial.wait(self._weather.chance.uniform(10, 90))

    async def _pause(self, value: str | None) -> None:
        patch = {"metadata": {"annotations": {"nodeupgrade.dev/pause": value}}}
        with contextlib.suppress(NotFoundError):
            await self._kube.merge(UPGRADES, self._trial.name, patch)

    async def _namespace(self) -> None:
        """All that is in the operator's namespace goes, agents too; then it is installed again."""
        for plural, namespace, name in list(self._kube._objects):
            if namespace == self._trial.namespace:
                self._kube._remove((plural, namespace, name), "delete")
        await self._trial.wait(self._weather.chance.uniform(1, 20))
        await self._trial.install()

    async def _crds(self) -> None:
        """All NodeUpgrades and tasks go with their kinds; later the NodeUpgrade is applied again."""
        self.excused |= set(self._trial.parts)
        self._weather.gone = frozenset(OURS)
        for plural, namespace, name in list(self._kube._objects):
            if plural in OURS:
                self._kube._remove((plural, namespace, name), "delete")
        self._kube.log.drop()
        await self._trial.wait(self._weather.chance.uniform(1, 60))
        self._weather.gone = frozenset()
        await self._kube.create(UPGRADES, self._trial.upgrade())
