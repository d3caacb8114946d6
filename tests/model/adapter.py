"""The only module that knows how the operator is built and how its objects say who holds what.

If the fleet's code changes, this is what has to follow: how controllers are made, what they remember, what a slot looks
like in the status, where a node's claim and wave are.
"""

import dataclasses
from collections.abc import Callable, Mapping
from itertools import count
from types import SimpleNamespace
from typing import Any

from nodeupgrade.api.json import Json
from nodeupgrade.api.node_annotations import CORDON_ANNOTATION
from nodeupgrade.api.reasons import Reason
from nodeupgrade.api.task.object import Task, parse_task
from nodeupgrade.api.upgrade.object import ABANDON_ANNOTATION, PAUSE_ANNOTATION, Upgrade
from nodeupgrade.api.values import NodeName
from nodeupgrade.check_catalogue import read_upgrade
from nodeupgrade.cluster.agent_pods import AGENT_LABELS, AgentPodView, PodRole
from nodeupgrade.cluster.nodes import NodeView, view_node
from nodeupgrade.fleet.actions import Wait
from nodeupgrade.fleet.agents.manifests import AgentPodSettings, view_agent
from nodeupgrade.fleet.caches.fleet_source import FleetObjects, FleetSource
from nodeupgrade.fleet.caches.upgrade_cache import KnownUpgrade, known_upgrade
from nodeupgrade.fleet.controllers import rollout_controller
from nodeupgrade.fleet.controllers.controllers import Controllers
from nodeupgrade.fleet.controllers.rollout_memory import PODS_RECENT, RolloutMemory
from tests.doubles.passes import snapshots_of
from tests.model.canonical import LEADER, PRESENT, UPGRADE, Key, settled_value
from tests.model.loop import run
from tests.model.state import Remembered, State, remembered_as
from tests.model.store import Store
from tests.scenario.rollout.harness import ALLOWED, NAMESPACE
from tests.scenario.rollout.storywords import told
from tests.scenario.rollout.terms import FixedTerm

VOLATILE = frozenset({"status_writes", "recent", "read_at", "reading"})
"""What a controller remembers only for as long as it reads: each step of the model reads everything anew."""

TERM = f"2-{LEADER}"


class Sharing(FleetSource):
    """Serves the store's objects; each version of one is parsed once."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def read_upgrade(self, body: Json) -> Upgrade:
        """Parse a NodeUpgrade, unless it is the one that is stored."""
        known = self._viewed((UPGRADE, None, body["metadata"]["name"]), body, _known)
        return read_upgrade(body) if known.upgrade is None else known.upgrade

    async def read(self, upgrade: Upgrade) -> FleetObjects:
        nodes, tasks, upgrades = {}, {}, {}
        agents, artifacts = dict[NodeName, AgentPodView](), dict[NodeName, AgentPodView]()
        unreadable = dict[NodeName, str]()
        for key, body in self._store.bodies().items():
            plural, namespace, name = key
            if plural == UPGRADE:
                upgrades[name] = self._viewed(key, body, _known)
            elif plural in _READERS and (plural != "pods" or namespace == NAMESPACE):
                view = self._viewed(key, body, _READERS[plural])
                if isinstance(view, Exception):
                    unreadable[NodeName(name)] = str(view)
                elif plural == "nodes":
                    nodes[NodeName(name)] = view
                elif plural == "nodeupgradetasks":
                    tasks[view.name] = view
                else:
                    (agents if view.role is PodRole.AGENT else artifacts)[view.node] = view
        return FleetObjects(
            nodes=nodes, tasks=tasks, agents=agents, artifacts=artifacts, unreadable=unreadable, upgrades=upgrades
        )

    async def get_nodes(self) -> Mapping[NodeName, NodeView]:
        return (await self.read(None)).nodes  # type: ignore[arg-type] # it is not looked at

    async def get_tasks(self) -> Mapping[NodeName, Task]:
        return (await self.read(None)).tasks  # type: ignore[arg-type] # likewise

    async def get_open_tasks(self, version: int) -> frozenset[NodeName]:
        read = await self.read(None)  # type: ignore[arg-type] # likewise
        return frozenset(name for name, task in read.tasks.items() if task.open)

    async def list_upgrades(self) -> Mapping[str, KnownUpgrade]:
        return (await self.read(None)).upgrades  # type: ignore[arg-type] # likewise

    def _viewed(self, key: Key, body: Json, reader: Callable[[Json], Any]) -> Any:
        known = self._store.loaded.get(key)
        if known is None or known.body is not body:
            return _view(body, reader)
        if known.view is None:
            known.view = _view(body, reader)
        return known.view


def _view(body: Json, reader: Callable[[Json], Any]) -> Any:
    try:
        return reader(body)
    except Exception as error:  # noqa: BLE001 - what this version cannot read
        return error


def _known(body: Json) -> KnownUpgrade:
    return known_upgrade(read_upgrade, body)


_READERS: dict[str, Callable[[Json], Any]] = {"nodes": view_node, "nodeupgradetasks": parse_task, "pods": view_agent}


class Operator:
    """The real controllers, over a store that is exchanged before each step."""

    def __init__(self, version: str = "v1.33.13") -> None:
        if hasattr(rollout_controller, "time"):  # what deciding costs is not asked here, and dear to ask
            rollout_controller.time = SimpleNamespace(thread_time=float)
        self.store = Store(version=version, silent=True)
        settings, ticks = AgentPodSettings(namespace=NAMESPACE, image="nodeupgrade:dev", allowed=ALLOWED), count()
        self._snapshots = snapshots_of(
            self.store, settings, source=Sharing(self.store), term=FixedTerm(TERM), clock=lambda: float(next(ticks))
        )
        self._controllers = Controllers(self._snapshots)
        self.told: list[str] = []
        self.failed = ""  # what the step raised that a worker would have to catch

    def load(self, state: State, rollout: str) -> None:
        """Take up a state, and what is remembered of one rollout."""
        self.store.load(state.objects)
        self._controllers.recorder.forget()
        known = state.memory.get(rollout)
        self._snapshots._memories = {} if known is None else {rollout: _copied(known.value)}
        self.told, self.failed = [], ""

    def reconcile_rollout(self, name: str) -> None:
        """Reconcile a rollout once."""
        self._step(self._controllers.rollouts.reconcile(name))

    def reconcile_node(self, rollout: str, node: str) -> None:
        """Reconcile a node in flight once."""
        self._step(self._controllers.nodes.reconcile(rollout, NodeName(node)))

    def sweep(self) -> None:
        """Remove what is left behind."""
        self._step(self._controllers.sweep.run())

    def _step(self, call: Any) -> None:
        try:
            done = run(call)
        except Exception as error:  # noqa: BLE001 - whatever it is, a worker would catch it
            self.failed = f"{type(error).__name__}: {error}"
            return
        actions = done if isinstance(done, tuple) else done.actions
        self.told = [told(each) for each in actions]

    def memory(self, rollout: str, before: Remembered | None) -> Remembered | None:
        """Return what is remembered of a rollout from the next step on; None if that is nothing."""
        if (memory := self._snapshots._memories.get(rollout)) is None:
            return None
        reduced = _reduced(memory, rollout, self.store.bodies())
        if before is not None and reduced == before.value:
            return before
        return None if reduced == _NOTHING else remembered_as(rollout, settled_value(reduced, 1))


def _copied(memory: RolloutMemory) -> RolloutMemory:
    """Return a copy that can be changed, without what is volatile."""
    kept = {name: getattr(memory, name) for name in _LASTING}
    copies: Any = {k: type(v)(v) if isinstance(v, dict | set) else v for k, v in kept.items()}
    return RolloutMemory(**copies)


def _reduced(memory: RolloutMemory, rollout: str, bodies: Mapping[Key, Json]) -> RolloutMemory:
    """Return a copy without what can decide nothing.

    This is what is remembered of nodes that are not in flight any more, what pods of nodes in flight objected to, and
    words about progress. That a node in flight was examined matters only as long as the rollout is impeded; where it is
    forgotten although the rollout becomes so later, the operator does what one does that was started anew.
    """
    clean, upgrade = _copied(memory), bodies.get((UPGRADE, None, rollout))
    granted = slots(upgrade)
    tasks = {key[2]: body for key, body in bodies.items() if key[0] == "nodeupgradetasks"}
    flying = granted | {node for node, task in tasks.items() if upgrade is not None and _is_of(task, upgrade)}
    lost = {node: each for node, each in clean.failures.agents_lost.items() if node in granted}
    writes = {key: dataclasses.replace(each, count=min(each.count, 6)) for key, each in clean.failures.writes.items()}
    clean.failures = dataclasses.replace(clean.failures, agents_lost=lost, writes=writes)
    clean.objections = {
        node: dataclasses.replace(each, read_at=max(each.read_at, PRESENT - PODS_RECENT))
        for node, each in clean.objections.items()
        if node not in granted
    }
    clean.waiting, impeded = (
        {node: each for node, each in clean.waiting.items() if node in flying},
        _is_impeded(upgrade),
    )
    for node, each in [*clean.waiting.items()]:
        if isinstance(each, Wait) and each.reason is Reason.PROGRESSING:
            clean.waiting[node] = dataclasses.replace(each, message="")
            if not impeded:
                del clean.waiting[node]
    return clean


_LASTING = [each.name for each in dataclasses.fields(RolloutMemory) if each.name not in VOLATILE]
_NOTHING = RolloutMemory()


# ── what objects say ────────────────────────────────────────────────────────────────────────────────────────────


def slots(upgrade: Json | None) -> frozenset[str]:
    """Return the nodes that hold a slot, according to the status."""
    listed = ((upgrade or {}).get("status") or {}).get("inFlight") or ()
    return frozenset(each["node"] for each in listed)


def records(upgrade: Json | None) -> dict[str, Json]:
    """Return the records of the slots, by node."""
    listed = ((upgrade or {}).get("status") or {}).get("inFlight") or ()
    return {each["node"]: each for each in listed}


def wave_of(upgrade: Json, task: Json | None) -> str | None:
    """Return the wave that a node's claim by this NodeUpgrade records; None if it holds none."""
    if task is None or not _is_of(task, upgrade):
        return None
    return str(task["spec"].get("wave", "")) or None


def _is_of(task: Json, upgrade: Json) -> bool:
    return bool(task["spec"]["upgradeRef"]["uid"] == upgrade["metadata"]["uid"])


def _is_impeded(upgrade: Json | None) -> bool:
    conditions = ((upgrade or {}).get("status") or {}).get("conditions") or ()
    return any(each["type"] == "Impeded" and each["status"] == "True" for each in conditions)


def is_abandoned(upgrade: Json) -> bool:
    """Report whether a NodeUpgrade has the annotation by which it is abandoned."""
    annotations = upgrade["metadata"].get("annotations") or {}
    return bool(annotations.get(ABANDON_ANNOTATION) == upgrade["metadata"]["uid"])


def is_paused(upgrade: Json) -> bool:
    """Report whether a NodeUpgrade is paused in either way."""
    annotations = upgrade["metadata"].get("annotations") or {}
    return annotations.get(PAUSE_ANNOTATION) == "true" or upgrade["spec"].get("action") == "Pause"


def cordoned_by(node: Json) -> str:
    """Return the UID of the NodeUpgrade whose cordon a node has; empty if it is not cordoned, or by somebody else."""
    view = view_node(node)
    return view.cordoned_by if view.unschedulable else ""


def is_agent(pod: Json) -> bool:
    """Report whether a pod is one of ours."""
    labels = pod["metadata"].get("labels") or {}
    return all(labels.get(name) == value for name, value in AGENT_LABELS.items())


def has_ended(pod: Json) -> bool:
    """Report whether a pod of ours has ended: none of its containers is ever started again."""
    return view_agent(pod).over


__all__ = ["CORDON_ANNOTATION", "NAMESPACE", "TERM", "Operator"]
