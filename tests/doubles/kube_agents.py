"""Simulated node sides that are driven by watches: each keeps to the task protocol, and takes its time."""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from zlib import crc32

from nodeupgrade.api.json import Json
from nodeupgrade.api.task.object import Task, parse_task
from nodeupgrade.api.task.status import TaskPhase
from nodeupgrade.cluster.agent_pods import AGENT_LABELS, PodRole
from nodeupgrade.cluster.kube_api import PODS, TASKS, NotFoundError
from nodeupgrade.cluster.typed_objects import TypedKube
from nodeupgrade.errors import NodeUpgradeError
from nodeupgrade.fleet.agents.manifests import view_agent
from nodeupgrade.fleet.caches.informer import Informer, Timing
from nodeupgrade.fleet.caches.object_cache import Delta
from tests.doubles.kube_fleet import FleetSimulator

STARTING = 0.05
SHARES = {TaskPhase.PENDING: 0.05, TaskPhase.STAGING: 0.2, TaskPhase.RUNNING: 0.05, TaskPhase.VERIFYING: 0.65}
"""How much of its time a node spends in each phase, once its agent pod has started."""

MAX_CRC32 = 2**32 - 1
AGAIN_SECONDS = 5.0
"""How long a node waits for news before it looks again."""


@dataclass(slots=True)
class SimulatedAgents:
    """All node sides."""

    kube: TypedKube
    namespace: str
    seconds: float  # what each takes on average, whatever the operator adds
    # confirms the deletion of a pod, as its kubelet does when the containers have ended
    vanish: Callable[[str], Awaitable[None]]
    spread: float = 0.0  # by what share of that a node may take more or less; one node always takes the same
    timing: Timing = field(default_factory=Timing)
    _fleet: FleetSimulator = field(init=False)
    _news: dict[str, asyncio.Event] = field(default_factory=dict)
    _serving: dict[str, asyncio.Task[None]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._fleet = FleetSimulator(self.kube, self.namespace)

    async def run(self) -> None:
        """Serve every agent pod that there is, until cancelled."""
        where = PODS.within(self.namespace)
        pods = Informer(self.kube, where, dict, labels=AGENT_LABELS, on_change=self._pod_changed, timing=self.timing)
        tasks = Informer(self.kube, TASKS, parse_task, on_change=self._task_changed, timing=self.timing)
        async with asyncio.TaskGroup() as group:
            group.create_task(pods.run())
            group.create_task(tasks.run())

    def _task_changed(self, delta: Delta[Task]) -> None:
        if delta.after is not None and (news := self._news.get(delta.after.name)) is not None:
            news.set()

    def _pod_changed(self, delta: Delta[Json]) -> None:
        if (pod := delta.after) is None:
            return
        uid, node = pod["metadata"]["uid"], pod["spec"]["nodeName"]
        self._news.setdefault(node, asyncio.Event()).set()
        if uid not in self._serving:
            self._serving[uid] = asyncio.ensure_future(self._live(pod["metadata"]["name"], uid, self._news[node]))
            self._serving[uid].add_done_callback(lambda _: self._serving.pop(uid))

    async def _live(self, name: str, uid: str, news: asyncio.Event) -> None:
        """Do what the node of one agent pod does, until the pod is gone."""
        while True:
            news.clear()
            try:
                pod = await self.kube.get(PODS.within(self.namespace), name)
                if pod["metadata"]["uid"] != uid:
                    return None
                if "deletionTimestamp" in pod["metadata"]:
                    return await self.vanish(name)
                if (seconds := await self._rest(pod)) is None:
                    await _hears(news)
                    continue
                await asyncio.sleep(seconds)
                await self._fleet.serve(pod)
            except NotFoundError:
                return None
            except NodeUpgradeError:
                await _hears(news)

    async def _rest(self, pod: Json) -> float | None:
        """Return the seconds until the next step, or None if that depends on somebody else."""
        match (pod.get("status") or {}).get("phase"):
            case "Succeeded" | "Failed":
                return None
            case "Running" if view_agent(pod).role is PodRole.ARTIFACT:
                return None
            case "Running":
                task = await self.kube.get_task(pod["spec"]["nodeName"])
            case _:
                return STARTING * self._takes(pod["spec"]["nodeName"])
        asked = task.reported.guard.ask
        if task.reported.phase is TaskPhase.STAGED and asked and task.spec.guard.answers != asked:
            return None
        return SHARES.get(task.reported.phase, 0.0) * self._takes(task.name)

    def _takes(self, node: str) -> float:
        return takes(node, self.seconds, self.spread)


def takes(node: str, seconds: float, spread: float) -> float:
    """Return the seconds that a node takes, if nodes take ``seconds`` and differ by up to that share ``spread``."""
    return seconds * (1 + spread * (2 * crc32(node.encode()) / MAX_CRC32 - 1))


async def _hears(news: asyncio.Event) -> None:
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(AGAIN_SECONDS):
            await news.wait()
