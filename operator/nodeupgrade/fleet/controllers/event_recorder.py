"""Kubernetes events: those that an action has, and the recorder that emits them in the background."""

import asyncio
from collections.abc import Iterable

from nodeupgrade.api.json import Json
from nodeupgrade.api.task.object import Task
from nodeupgrade.api.task.spec import HookResult
from nodeupgrade.api.upgrade.object import Upgrade
from nodeupgrade.api.values import Verdict
from nodeupgrade.cluster.kube_api import NODES, TASKS, UPGRADES, Event
from nodeupgrade.cluster.typed_objects import TypedKube
from nodeupgrade.fleet import actions

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
        """Drop what is waiting: a former leader has nothing to report."""
        while not self._waiting.empty():
            self._waiting.get_nowait()


_GOOD = frozenset({Verdict.SUCCEEDED, Verdict.PRECHECKED})


def events(action: actions.NodeAction, upgrade: Upgrade) -> tuple[Event, ...]:
    """Return the events for an action: on the Node concerned, and on the NodeUpgrade.

    On the NodeUpgrade, successes are reported per wave and not per node, because a fleet has thousands of nodes.
    """
    rollout = UPGRADES.as_regarding(upgrade.name, upgrade.uid)

    def event(regarding: Json, *, warning: bool = False) -> Event:
        return Event(regarding=regarding, reason=action.reason, message=action.message, warning=warning)

    def node_of(task: Task) -> Json:
        return NODES.as_regarding(task.name, task.spec.node_uid)

    match action:
        case actions.Report(warning=warning):
            return (event(rollout, warning=warning),)
        case actions.Refuse() | actions.Abort():
            return (event(rollout, warning=True),)
        case actions.Skip() | actions.ReportWave():
            return (event(rollout),)
        case actions.RaiseGuard(task=task) | actions.DeclineGuard(task=task) | actions.LiftGuard(task=task):
            return (event(node_of(task), warning=isinstance(action, actions.DeclineGuard)),)
        case actions.Cordon(view=node) | actions.RestoreCordon(view=node):
            return (event(NODES.as_regarding(node.name, node.uid)),)
        case actions.Judge(task=task, verdict=verdict):
            warning = verdict.outcome not in _GOOD
            about_node = event(node_of(task), warning=warning)
            return (event(rollout, warning=True), about_node) if warning else (about_node,)
        case actions.RecordHook(task=task, result=result) if result is not HookResult.SUCCEEDED:
            return (event(rollout, warning=True), event(node_of(task), warning=True))
        case actions.CreateAgent(task=task) | actions.StartHook(task=task):
            return (event(TASKS.as_regarding(task.name, task.uid)),)
        case _:
            return ()
