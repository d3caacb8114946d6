"""Workers: take a name, make one pass, decide when to look again."""

from __future__ import annotations

import asyncio
import random
from typing import Protocol

import structlog

from nodeupgrade.controlplane.queue import WorkQueue
from nodeupgrade.domain.actions import Hold, NodeAction, Wait
from nodeupgrade.domain.errors import NodeUpgradeError
from nodeupgrade.engine.rollout_run import Pass

IN_FLIGHT_SECONDS = 1.0
"""How often the task of a node in flight is looked at."""

IDLE_SECONDS = 15.0
"""How often a rollout that waits for the world to change is looked at."""

RESYNC_SECONDS = 30.0
"""How often all unfinished rollouts are looked at whether or not anything was heard of them."""

BACKOFF_LIMIT_SECONDS = 60.0

_log = structlog.get_logger(__name__)


class Reconciler(Protocol):
    """The engine, as far as the workers know it."""

    async def reconcile(self, name: str) -> Pass:
        """Make one pass over one NodeUpgrade."""
        ...

    async def unfinished(self) -> tuple[str, ...]:
        """Name all NodeUpgrades that may need work."""
        ...


async def work(queue: WorkQueue, rollouts: Reconciler) -> None:
    """Serve the queue for ever. Only expected errors are survived: after a bug of ours, starting anew is safer."""
    failures: dict[str, int] = {}
    while True:
        name = await queue.take()
        try:
            done = await rollouts.reconcile(name)
        except NodeUpgradeError as error:
            failures[name] = failures.get(name, 0) + 1
            again: float | None = backoff(failures[name])
            _log.warning("cannot reconcile", upgrade=name, error=str(error), again_in_seconds=again)
        else:
            failures.pop(name, None)
            _tell(name, done.actions)
            again = pace(done)
        finally:
            queue.done(name)
        if again is not None:
            queue.add(name, again)


async def resync(queue: WorkQueue, rollouts: Reconciler) -> None:
    """Put every unfinished rollout into the queue now and then: no event has to arrive for anything to happen."""
    while True:
        try:
            for name in await rollouts.unfinished():
                queue.add(name)
        except NodeUpgradeError as error:
            _log.warning("cannot list NodeUpgrades", error=str(error))
        await asyncio.sleep(RESYNC_SECONDS)


def pace(done: Pass) -> float | None:
    """Say in how many seconds to look again; None when only a change of the object matters."""
    if done.over:
        return None
    if done.conflicted or done.changed:
        return 0.0
    return IN_FLIGHT_SECONDS if done.in_flight else IDLE_SECONDS


def backoff(failures: int) -> float:
    """Return a delay in seconds that doubles with every failure in a row, with jitter."""
    ceiling = min(BACKOFF_LIMIT_SECONDS, 2.0 ** min(failures, 10))
    return ceiling * random.uniform(0.5, 1.0)  # noqa: S311 - jitter, not a secret


def _tell(name: str, actions: tuple[NodeAction, ...]) -> None:
    for action in actions:
        level = _log.debug if isinstance(action, Wait | Hold) else _log.info
        level(
            type(action).__name__,
            upgrade=name,
            node=getattr(action, "node", None),
            reason=action.reason.value,
            message=action.message,
        )
