"""The cluster of the tour: an API server in memory, forty simulated nodes, and the real operator's engine."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path

from nodeupgrade.api.json import Json
from nodeupgrade.cli.inputs.cluster import World
from nodeupgrade.cluster.kube_api import CONFIGMAPS, NODES, PODS, UPGRADES, ReviewingKube
from nodeupgrade.fleet.agents.manifests import AgentPodSettings
from nodeupgrade.fleet.guard.parameters import INSTALLED_IN
from nodeupgrade.fleet.guard.requirement import GUARD_NAME
from tests.doubles.kube import InMemoryKube
from tests.doubles.kube_fleet import FleetSimulator, Part, pod_object
from tests.doubles.passes import Passes

NODES_MADE, PODS_PER_NODE = 40, 5
REFUSES, TURNS_BACK, CORDONED = "node-17", "node-23", "node-31"


class TourCluster:
    """A cluster whose time passes only while a command waits.

    Args:
        pace: Real seconds that a command waits between two looks.
        now: When its time begins; now by default.
    """

    def __init__(self, pace: float, now: datetime | None = None) -> None:
        self._pace = pace
        self._now = now or datetime.now(UTC).replace(microsecond=0)
        self._parts = {REFUSES: Part.REFUSE, TURNS_BACK: Part.ROLL_BACK}
        self.kube = InMemoryKube(version="v1.33.13", clock=lambda: self._now)
        self._fleet = FleetSimulator(self.kube, INSTALLED_IN, parts=self._parts)

    async def fill(self) -> None:
        """Add the nodes and their pods."""
        await self.kube.create(CONFIGMAPS.within(INSTALLED_IN), {"metadata": {"name": GUARD_NAME}})
        for number in range(1, NODES_MADE + 1):
            name = f"node-{number:02}"
            await self._fleet.add_node(name, overrides={"spec": {"unschedulable": True}} if name == CORDONED else {})
            for pod in range(1, PODS_PER_NODE + 1):
                pod_name = f"shop-{number:02}-{pod}"
                [container] = pod_object(pod_name, name)["status"]["containerStatuses"]
                container["containerID"] = f"containerd://{pod_name}"
                await self._fleet.add_pod(pod_name, name, overrides={"status": {"containerStatuses": [container]}})

    async def apply(self, body: Json) -> None:
        """Create a NodeUpgrade."""
        await self.kube.create(UPGRADES, body)

    def repair(self) -> None:
        """Remove what makes nodes refuse or turn back."""
        self._parts.clear()

    async def versions(self) -> list[str]:
        """Return the version of each node's kubelet."""
        return [node["status"]["nodeInfo"]["kubeletVersion"] for node in await self.kube.list(NODES)]

    async def containers(self) -> set[tuple[str, int]]:
        """Return ID and restarts of each container of the workload."""
        pods = await self.kube.list(PODS.within("default"))
        return {(s["containerID"], s["restartCount"]) for pod in pods for s in pod["status"]["containerStatuses"]}

    def world(self) -> World:
        """Return the world for the command line: this API server, and a sleep in which the cluster goes on."""

        @asynccontextmanager
        async def connect(
            _config: Path | None, _context: str | None, _seconds: float, _user: str | None
        ) -> AsyncIterator[ReviewingKube]:
            yield self.kube

        async def sleep(seconds: float) -> None:
            self._now += timedelta(seconds=seconds)
            operator = Passes(self.kube, AgentPodSettings(namespace=INSTALLED_IN, image="nodeupgrade:tour"))
            for body in await self.kube.list(UPGRADES):
                await operator.reconcile(body["metadata"]["name"])
            await self._fleet.tick()
            await asyncio.sleep(self._pace)

        return World(connect=connect, now=lambda: self._now, sleep=sleep)
