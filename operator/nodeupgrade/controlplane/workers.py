"""Workers: take a name, make one pass, decide when to look again."""

import asyncio
import random
from typing import Protocol

import structlog

from nodeupgrade.api.reasons import Reason
from nodeupgrade.controlplane.enqueue import Enqueuer
from nodeupgrade.controlplane.queue import WorkQueue
from nodeupgrade.domain.errors import NodeUpgradeError
from nodeupgrade.domain.rollout.actions import Hold, NodeAction, Wait
from nodeupgrade.engine.rollout.reconcile import Pass
from nodeupgrade.ports.kube import UnavailableError

VERIFYING_SECONDS = 1.0
"""How often the pods of a node are looked at whose run is over; of pods in general, nobody tells us."""

IN_FLIGHT_SECONDS = 5.0
"""How often a rollout with nodes in flight is looked at although nothing was heard of them."""

IDLE_SECONDS = 15.0
"""How often a rollout that waits for the world to change is looked at."""

RESYNC_SECONDS = 30.0
"""How often all unfinished rollouts are looked at whether or not anything was heard of them."""

BACKOFF_LIMIT_SECONDS = 60.0

LAG_SECONDS = 0.5
"""How often the event loop's lag is measured."""

_log = structlog.get_logger(__name__)


class Reconciler(Protocol):
    """The engine, as far as the workers know it."""

    async def reconcile(self, name: str) -> Pass:
        """Make one pass over one NodeUpgrade."""
        ...

    async def unfinished(self) -> tuple[str, ...]:
        """Name all NodeUpgrades that may need work."""
        ...

    async def sweep(self) -> tuple[NodeAction, ...]:
        """Restore cordons that nobody answers for any more."""
        ...


class Telemetry(Protocol):
    """Whoever counts."""

    def passed(self, name: str, done: Pass, seconds: float) -> None:
        """Take note of a pass over a NodeUpgrade."""
        ...

    def failed(self, seconds: float) -> None:
        """Take note of a pass that could not be made."""
        ...

    def lagged(self, seconds: float) -> None:
        """Take note of how late a timer was."""
        ...


async def work(queue: WorkQueue, enqueuer: Enqueuer, rollouts: Reconciler, telemetry: Telemetry) -> None:
    """Serve the queue for ever. Only expected errors are survived: after a bug of ours, starting anew is safer.

    A NodeUpgrade rests for as long as its pass took, so that the largest fleet leaves time for everything else.
    """
    failures: dict[str, int] = {}
    clock = asyncio.get_running_loop().time
    while True:
        name = await queue.take()
        began, again = clock(), None
        try:
            done = await rollouts.reconcile(name)
        except NodeUpgradeError as error:
            telemetry.failed(clock() - began)
            failures[name] = failures.get(name, 0) + 1
            again = max(backoff(failures[name]), error.after if isinstance(error, UnavailableError) else 0.0)
            _log.warning("cannot reconcile", upgrade=name, error=str(error), again_in_seconds=again)
        else:
            telemetry.passed(name, done, clock() - began)
            failures.pop(name, None)
            _tell(name, done.actions)
            again = pace(done)
            if done.over:
                enqueuer.over(name)
        finally:
            queue.done(name, rest=clock() - began)
        if again is not None:
            queue.add(name, again)


async def resync(enqueuer: Enqueuer, rollouts: Reconciler) -> None:
    """Put every unfinished rollout into the queue now and then: no event has to arrive for anything to happen.

    What no rollout is left to clear away is cleared away as well.
    """
    while True:
        try:
            for name in await rollouts.unfinished():
                enqueuer.upgrade_changed(name)
            _tell("", await rollouts.sweep())
        except NodeUpgradeError as error:
            _log.warning("cannot look over everything", error=str(error))
        await asyncio.sleep(RESYNC_SECONDS)


async def measure_lag(telemetry: Telemetry) -> None:
    """Say how late timers are: what hangs, hangs all of us."""
    clock = asyncio.get_running_loop().time
    while True:
        due = clock() + LAG_SECONDS
        await asyncio.sleep(LAG_SECONDS)
        telemetry.lagged(clock() - due)


def pace(done: Pass) -> float | None:
    """Say in how many seconds to look again; None when only a change of the object matters."""
    if done.over:
        return None
    if done.conflicted or done.changed:
        return 0.0
    if any(action.reason is Reason.NOT_YET_VERIFIED for action in done.actions if isinstance(action, Wait)):
        return VERIFYING_SECONDS
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
