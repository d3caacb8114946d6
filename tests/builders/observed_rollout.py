"""A rollout with the metrics of its operator."""

from typing import Any

from nodeupgrade.api.task.object import Task, parse_task
from nodeupgrade.cluster.kube_api import NODES, TASKS
from nodeupgrade.cluster.nodes import view_node
from nodeupgrade.controlplane.metrics.collector import Metrics, State
from nodeupgrade.fleet.caches.informer import Informer, Relist
from nodeupgrade.fleet.controllers.result import Result
from tests.doubles.kube_fleet import Part
from tests.scenario.rollout.harness import Scene

NAME = "to-1-33"


class Watched(Informer[Any]):
    """An informer that has been at work."""

    synced, silence = True, 2.5

    def __init__(self, scene: Scene) -> None:
        super().__init__(scene.kube, NODES, view_node)
        self.relists.update({Relist.START: 1, Relist.EXPIRED: 3})


class Observed:
    """A rollout of three nodes: one is rolled back, on one a pod flaps; and the metrics of its operator."""

    def __init__(self) -> None:
        self.scene = Scene(parts={"node-1": Part.ROLL_BACK, "node-2": Part.FLAP})
        self.tasks: list[Task] = []
        self.leads = True
        self.informer = Watched(self.scene)
        self.metrics = self.new_operator()

    def new_operator(self) -> Metrics:
        return Metrics(self.state)

    def state(self) -> State:
        return State(now=self.scene.now, tasks=self.tasks, informers=(self.informer,), queue_depth=4, leads=self.leads)

    async def run(self) -> None:
        for n in range(3):
            await self.scene.fleet.add_node(f"node-{n}")
            await self.scene.fleet.add_pod(f"web-{n}", f"node-{n}")
        await self.scene.apply(NAME, strategy={"failureThreshold": 3}, waves=[{"name": "canary", "size": 1}])
        for _ in range(200):
            if (await self.step()).over:
                return

    async def step(self) -> Result:
        done = await self.scene.operator.reconcile(NAME)
        self.metrics.rollout_reconciled(NAME, done, 0.25)
        await self.scene.fleet.tick()
        self.scene.now += self.scene.now.resolution * 1_000_000
        self.tasks[:] = map(parse_task, await self.scene.kube.list(TASKS))
        return done

    def value(self, name: str, **labels: str) -> float | None:
        return self.metrics.registry.get_sample_value(f"nodeupgrade_{name}", labels)
