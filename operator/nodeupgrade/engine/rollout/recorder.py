"""Kubernetes events about what was done, emitted in the background as client-go's recorder does: nobody waits."""

import asyncio
from collections.abc import Iterable

from nodeupgrade.api.json import Json
from nodeupgrade.api.task.spec import HookResult, Verdict
from nodeupgrade.api.upgrade.object import Upgrade
from nodeupgrade.domain.rollout.actions import (
    Abort,
    Cordon,
    CreateAgent,
    DeclineGuard,
    DropTask,
    Judge,
    LiftGuard,
    NodeAction,
    RaiseGuard,
    RecordHook,
    Refuse,
    Report,
    RestoreCordon,
    Skip,
    StartHook,
    WaveNews,
)
from nodeupgrade.engine.typed_kube import TypedKube
from nodeupgrade.ports.kube import NODES, TASKS, UPGRADES, Event, Resource

MOST_WAITING = 1000
"""Events that wait at most; further ones are dropped, because an API server that is this far behind needs rest."""


class EventRecorder:
    """Emits the recorded events one after the other, in order, while it runs."""

    def __init__(self, kube: TypedKube) -> None:
        self._kube = kube
        self._waiting: asyncio.Queue[Event] = asyncio.Queue(MOST_WAITING)

    def record(self, events: Iterable[Event]) -> None:
        """Take note of events; returns at once."""
        for event in events:
            if not self._waiting.full():
                self._waiting.put_nowait(event)

    async def run(self) -> None:
        """Emit events until cancelled."""
        while True:
            await self._kube.emit_event(await self._waiting.get())

    def forget(self) -> None:
        """Drop what is waiting: a former leader has nothing to tell."""
        while not self._waiting.empty():
            self._waiting.get_nowait()

    async def flush(self) -> None:
        """Emit what is waiting, for callers that do not run it."""
        while not self._waiting.empty():
            await self._kube.emit_event(self._waiting.get_nowait())


_GOOD = frozenset({Verdict.SUCCEEDED, Verdict.PRECHECKED})


def events(action: NodeAction, upgrade: Upgrade) -> tuple[Event, ...]:
    """Return the events for an action: on the Node concerned, and on the NodeUpgrade.

    On the NodeUpgrade, successes are reported per wave and not per node, because a fleet has thousands of nodes.
    """
    rollout = stub(UPGRADES, upgrade.name, upgrade.uid)

    def event(regarding: Json, *, warning: bool = False) -> Event:
        return Event(regarding=regarding, reason=action.reason, message=action.message, warning=warning)

    match action:
        case Report(warning=warning):
            return (event(rollout, warning=warning),)
        case Refuse() | Abort() | DropTask():
            return (event(rollout, warning=True),)
        case Skip() | WaveNews():
            return (event(rollout),)
        case RaiseGuard(task=task) | DeclineGuard(task=task) | LiftGuard(task=task):
            return (event(stub(NODES, task.name, task.spec.node_uid), warning=isinstance(action, DeclineGuard)),)
        case Cordon(view=node) | RestoreCordon(view=node):
            return (event(stub(NODES, node.name, node.uid)),)
        case Judge(task=task, verdict=verdict):
            warning = verdict.outcome not in _GOOD
            about_node = event(stub(NODES, task.name, task.spec.node_uid), warning=warning)
            return (event(rollout, warning=True), about_node) if warning else (about_node,)
        case RecordHook(task=task, hook=hook) if hook.result is not HookResult.SUCCEEDED:
            return (event(rollout, warning=True), event(stub(NODES, task.name, task.spec.node_uid), warning=True))
        case CreateAgent(task=task) | StartHook(task=task):
            return (event(stub(TASKS, task.name, task.uid)),)
        case _:
            return ()


def stub(resource: Resource, name: str, uid: str) -> Json:
    """Return the part of an object that an event needs in order to refer to it."""
    return {
        "apiVersion": resource.api_version,
        "kind": resource.kind,
        "metadata": {"name": name, "uid": uid},
    }
