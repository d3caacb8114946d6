"""Watches the node's pods while the kubelet is swapped: their readiness, only for the report, and their removal."""

import asyncio
import contextlib
from collections.abc import Iterable
from dataclasses import dataclass, field

import structlog

from nodeupgrade.api.json import Json
from nodeupgrade.api.values import PodUid
from nodeupgrade.cluster.agent_pods import AGENT_LABELS
from nodeupgrade.cluster.kube_api import ExpiredError, NodeSideKube, UnavailableError, WatchEvent, WatchEventType
from nodeupgrade.cluster.owner_changes import Evidence, Planned, seen_in, was_deleted, was_removed
from nodeupgrade.cluster.pods import Pod, for_watch, parse_pod
from nodeupgrade.errors import NodeUpgradeError
from nodeupgrade.node.agent.settings import AgentSettings
from nodeupgrade.node.verification.readiness_flaps import Flaps
from nodeupgrade.text import number

LIST_SECONDS = 5.0
PAUSE_SECONDS = 1.0

log = structlog.get_logger()


@dataclass(eq=False, slots=True)
class PodWatch:
    """Watches the pods of one node, except the agent's own."""

    settings: AgentSettings
    kube: NodeSideKube
    flaps: Flaps = field(default_factory=Flaps)  # readiness flaps seen so far
    # pods that were deleted on request. A list does not distinguish them from pods that their kubelet
    # failed first; only the event has their last state. If it is missed, the pod is not counted.
    removed: frozenset[PodUid] = frozenset()
    trouble: str = ""  # why flaps may have been missed; empty if the watch works
    _watch_task: asyncio.Task[None] | None = None
    _since: str = ""

    async def begin(self) -> None:
        """List the pods and start to watch them, unless that is already done."""
        if self._watch_task is None:
            await self.refresh()
            self._watch_task = asyncio.create_task(self._follow())

    async def end(self) -> None:
        """Stop watching."""
        if self._watch_task is not None:
            self._watch_task.cancel()
            await asyncio.gather(self._watch_task, return_exceptions=True)

    async def refresh(self) -> None:
        """List the pods, if the API server answers soon, to catch up with events that the watch missed."""
        try:
            listed = await asyncio.wait_for(self.kube.list_pods_on_node(self.settings.node, for_watch), LIST_SECONDS)
        except (NodeUpgradeError, TimeoutError) as error:
            self._report_trouble(f"pods cannot be listed: {error}")
            return
        for uid in set(self.flaps.pods) - {pod["metadata"].get("uid") for pod in listed}:
            self.flaps = self.flaps.without(uid)
        for pod in listed:
            self._update(pod)

    def owner_changes(self, planned: Planned, before: Evidence, listed: Iterable[Pod] = ()) -> Evidence:
        """Return what owners have changed, or taken back, as the watch and a newer list show it."""
        return seen_in(planned, (*self.flaps.pods.values(), *listed), self.removed, before)

    async def _follow(self) -> None:
        while True:
            try:
                events = self.kube.watch_pods_on_node(self.settings.node, resource_version=self._since)
                async with contextlib.aclosing(events):
                    async for event in events:
                        self._handle(event)
            except ExpiredError:
                self._since = ""
            except UnavailableError as error:
                log.info("pod_watch_failed", error=str(error))
            except (NodeUpgradeError, LookupError, TypeError, ValueError, AttributeError) as error:
                self._report_trouble(f"pods cannot be watched: {error}")
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(asyncio.Event().wait(), PAUSE_SECONDS)

    def _report_trouble(self, trouble: str) -> None:
        if trouble != self.trouble:
            log.warning("unready_pods_unknown", why=trouble)
        self.trouble = trouble

    def _handle(self, event: WatchEvent) -> None:
        self.trouble = ""
        metadata = event.body["metadata"]
        self._since = str(max(number(self._since or "") or 0, number(metadata["resourceVersion"]) or 0))
        if event.change is WatchEventType.DELETED:
            self.flaps = self.flaps.without(metadata["uid"])
            self.removed |= {PodUid(metadata["uid"])} if was_removed(parse_pod(event.body)) else set()
        elif event.change is not WatchEventType.BOOKMARK:
            self._update(event.body)

    def _update(self, pod: Json) -> None:
        parsed = parse_pod(pod)
        own = parsed.ref.namespace == self.settings.namespace and AGENT_LABELS.items() <= parsed.labels.items()
        if not own:
            self.flaps = self.flaps.after(parse_pod(for_watch(pod)))
            self.removed |= {parsed.ref.uid} if not parsed.static and was_deleted(parsed) else set()
