"""The writes of one plan."""

import asyncio
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

from nodeupgrade.api.upgrade.object import Upgrade
from nodeupgrade.api.values import NodeName
from nodeupgrade.cluster.kube_api import ConflictError, NotFoundError, RejectedError, UnavailableError
from nodeupgrade.fleet import actions
from nodeupgrade.fleet.controllers.actuator import Actuator

TASKS_AT_ONCE = 12
"""Tasks of waiting nodes that are written at the same time: below what an API server gives to one client, so that it
has room for the nodes in flight.
"""

BEGIN_SECONDS, PATIENCE_SECONDS = 2.0, 15.0
"""For how long a plan begins such writes, the others being left to the next one; and how long each may take."""


async def carry_out_plan(
    actuator: Actuator,
    planned: Sequence[actions.NodeAction],
    on_slots: Callable[[Upgrade, tuple[NodeName, ...]], None],
) -> tuple[list[actions.NodeAction], bool]:
    """Carry out a plan: what is for the rollout itself in order, and for waiting nodes at the same time.

    A write that is refused for one node affects no other, nor the status: an action for one node never depends on
    what the same plan decides for another. Return the actions that succeeded, and whether all did.

    Raises:
        RejectedError, UnavailableError: The NodeUpgrade cannot be written at the moment.
    """
    writing = _Writing(actuator, on_slots)
    own = asyncio.ensure_future(writing.for_rollout([each for each in planned if _node_of(each) is None]))
    others = asyncio.ensure_future(writing.for_nodes([each for each in planned if _node_of(each) is not None]))
    try:
        await asyncio.wait({own, others})
    finally:
        own.cancel()
        others.cancel()
        await asyncio.gather(own, others, return_exceptions=True)
    return writing.applied, own.result() and others.result()


@dataclass(slots=True)
class _Writing:
    """The writes of one plan."""

    actuator: Actuator
    on_slots: Callable[[Upgrade, tuple[NodeName, ...]], None]
    applied: list[actions.NodeAction] = field(default_factory=list)  # the actions that succeeded
    _permits: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(TASKS_AT_ONCE))
    _unanswered: set[type[actions.NodeAction]] = field(default_factory=set)

    async def for_rollout(self, planned: Iterable[actions.NodeAction]) -> bool:
        """Carry out actions in order; return whether all succeeded."""
        for action in planned:
            if isinstance(action, actions.WriteStatus):
                self._status_changes()
            try:
                done = await self.actuator.carry_out(action)
            except (ConflictError, NotFoundError):
                return False
            finally:
                if isinstance(action, actions.WriteStatus):
                    self._status_changes()
            if done is None:
                return False
            self.applied.append(done)
            if isinstance(done, actions.WriteStatus):
                self.on_slots(self.actuator.fleet.upgrade, done.status.flying)
        return True

    async def for_nodes(self, planned: Iterable[actions.NodeAction]) -> bool:
        """Carry out actions for nodes, those of one node in order; return whether all succeeded."""
        by_node = dict[NodeName | None, list[actions.NodeAction]]()
        for action in planned:
            by_node.setdefault(_node_of(action), []).append(action)
        until = asyncio.get_running_loop().time() + BEGIN_SECONDS
        writes = [asyncio.ensure_future(self._for_node(each, until)) for each in by_node.values()]
        try:
            return all(await asyncio.gather(*writes))
        finally:
            for write in writes:
                write.cancel()
            await asyncio.gather(*writes, return_exceptions=True)

    async def _for_node(self, planned: Iterable[actions.NodeAction], until: float) -> bool:
        for action in planned:
            async with self._permits:
                if type(action) in self._unanswered or asyncio.get_running_loop().time() > until:
                    return False
                try:
                    async with asyncio.timeout(PATIENCE_SECONDS):
                        done = await self.actuator.carry_out(action)
                except (RejectedError, UnavailableError, TimeoutError) as error:
                    self._unanswered |= set() if isinstance(error, RejectedError) else {type(action)}
                    problem = str(error) or f"the API server has not answered for {PATIENCE_SECONDS:.0f} s"
                    memory, now = self.actuator.memory, self.actuator.kube.utcnow()
                    memory.failures = memory.failures.failed(action, problem, now)
                    return False
            if done is None:
                return False
            self.applied.append(done)
        return True

    def _status_changes(self) -> None:
        """Let nothing count as recent that was read while the status is written, or before."""
        memory = self.actuator.memory
        memory.status_writes, memory.recent = memory.status_writes + 1, None


def _node_of(action: actions.NodeAction) -> NodeName | None:
    """Return the node that an action writes for; None if it writes for the NodeUpgrade, or nothing."""
    return None if isinstance(action, actions.ReportOnly) else getattr(action, "node", None)
