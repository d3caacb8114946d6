"""Workers: take a name from the queue, reconcile it once, and decide when to requeue it."""

import asyncio
import random
import traceback
from typing import Protocol

import structlog

from nodeupgrade.api.reasons import Reason
from nodeupgrade.api.upgrade.object import Upgrade
from nodeupgrade.controlplane.queue import Enqueuer, WorkQueue
from nodeupgrade.domain.errors import NodeUpgradeError
from nodeupgrade.domain.rollout.actions import LOG_EVENTS, Hold, NodeAction, Wait
from nodeupgrade.engine.rollout.passes import PassResult
from nodeupgrade.ports.kube import UnavailableError

VERIFYING_SECONDS = 1.0
"""Interval between passes while a finished run is being verified, unless it is known how long that is waited for.

The operator does not watch workload pods.
"""

IN_FLIGHT_SECONDS = 5.0
"""Interval between passes over a rollout with nodes in flight, if no event comes first."""

IDLE_SECONDS = 15.0
"""Interval between passes over a rollout that waits for something to change."""

RESYNC_SECONDS = 30.0
"""Interval at which all unfinished rollouts are requeued, events or not."""

BACKOFF_LIMIT_SECONDS = 60.0

LAG_SECONDS = 0.5
"""Interval at which the event loop's lag is measured."""

_log = structlog.get_logger(__name__)


class Reconciler(Protocol):
    """The part of the engine that workers use."""

    async def reconcile(self, name: str) -> PassResult:
        """Reconcile one NodeUpgrade once."""
        ...

    async def start_anew(self, name: str, problem: str) -> None:
        """Forget what is kept in memory of a NodeUpgrade, and tell people why."""
        ...

    async def unfinished(self) -> tuple[str, ...]:
        """List the names of all NodeUpgrades that may need work."""
        ...

    async def sweep(self) -> tuple[NodeAction, ...]:
        """Restore cordons that no rollout is responsible for any more."""
        ...


class Telemetry(Protocol):
    """The metrics that workers record."""

    def passed(self, name: str, done: PassResult, seconds: float) -> None:
        """Record a pass over a NodeUpgrade."""
        ...

    def failed(self, seconds: float, *, expected: bool = True) -> None:
        """Record a pass that failed, with an error that is handled or with any other."""
        ...

    def lagged(self, seconds: float) -> None:
        """Record how late a timer fired."""
        ...


class Announcer(Protocol):
    """Tells others how rollouts stand."""

    def offer(self, upgrade: Upgrade) -> None:
        """Take note of how a rollout stands; returns at once."""
        ...


async def work(
    queue: WorkQueue, enqueuer: Enqueuer, rollouts: Reconciler, telemetry: Telemetry, announcer: Announcer
) -> None:
    """Process the queue for ever. An unexpected error is one of its NodeUpgrade, which starts anew; others go on.

    After a pass, a NodeUpgrade rests for as long as it took to plan, so that a large fleet does not starve the others;
    after one that failed, for as long as the pass took. While a pass waits for the API server, others run anyway.
    """
    failures: dict[str, int] = {}
    clock = asyncio.get_running_loop().time
    while True:
        name = await queue.take()
        began, rest, requeue_after = clock(), 0.0, None
        try:
            done = await rollouts.reconcile(name)
            telemetry.passed(name, done, clock() - began)
            if done.upgrade is not None:
                announcer.offer(done.upgrade)
        except NodeUpgradeError as error:
            rest = clock() - began
            telemetry.failed(rest)
            failures[name] = failures.get(name, 0) + 1
            requeue_after = max(backoff(failures[name]), error.after if isinstance(error, UnavailableError) else 0.0)
            _log.warning("reconcile_failed", upgrade=name, error=str(error), again_in_seconds=requeue_after)
        except Exception as error:  # noqa: BLE001 - whatever it is, it concerns this NodeUpgrade alone
            telemetry.failed(clock() - began, expected=False)
            failures[name] = failures.get(name, 0) + 1
            requeue_after = rest = backoff(failures[name])  # also against the events of what is told about it
            _log.exception("reconcile_crashed", upgrade=name, again_in_seconds=requeue_after)
            await _start_anew(rollouts, name, error)
        else:
            rest = done.cost
            failures.pop(name, None)
            _log_actions(name, done.actions)
            requeue_after = pace(done)
            if done.over:
                enqueuer.over(name)
        finally:
            queue.done(name, rest=rest)
        if requeue_after is not None:
            queue.add(name, requeue_after)


async def _start_anew(rollouts: Reconciler, name: str, error: Exception) -> None:
    try:
        await rollouts.start_anew(name, _place_of(error))
    except NodeUpgradeError as refusal:
        _log.warning("internal_error_not_reported", upgrade=name, error=str(refusal))
    except Exception:  # noqa: BLE001 - what cannot be told is in the log
        _log.exception("rollout_restart_failed", upgrade=name)


def _place_of(error: Exception) -> str:
    """Describe an error without its message, which may repeat anything, such as a URL with a password."""
    *_, (frame, line) = traceback.walk_tb(error.__traceback__)
    place = frame.f_code.co_filename.rpartition("/nodeupgrade/")[2]
    return f"the operator failed with {type(error).__name__} in {place}, line {line}"


async def resync(enqueuer: Enqueuer, rollouts: Reconciler) -> None:
    """Requeue every unfinished rollout periodically, so that progress does not depend on events.

    Also clean up what rollouts that no longer exist have left behind.
    """
    while True:
        try:
            for name in await rollouts.unfinished():
                enqueuer.upgrade_changed(name)
            _log_actions("", await rollouts.sweep())
        except NodeUpgradeError as error:
            _log.warning("resync_failed", error=str(error))
        except Exception:  # noqa: BLE001 - rollouts do not depend on it
            _log.exception("resync_crashed")
        await asyncio.sleep(RESYNC_SECONDS)


async def measure_lag(telemetry: Telemetry) -> None:
    """Record how late timers fire: a call that blocks the event loop delays everything else."""
    clock = asyncio.get_running_loop().time
    while True:
        due = clock() + LAG_SECONDS
        await asyncio.sleep(LAG_SECONDS)
        telemetry.lagged(clock() - due)


def pace(done: PassResult) -> float | None:
    """Return in how many seconds to requeue a NodeUpgrade after a pass; None to wait for a change of the object."""
    if done.over:
        return None
    if done.conflicted or done.changed:
        return 0.0
    waits = (action for action in done.actions if isinstance(action, Wait))
    if any(wait.reason is Reason.NOT_YET_VERIFIED and wait.until is None for wait in waits):
        rest = VERIFYING_SECONDS
    else:
        rest = IN_FLIGHT_SECONDS if done.in_flight else IDLE_SECONDS
    due = (each for each in (done.whole_in, done.wait_over_in) if each is not None)
    return min((rest, *due))


def backoff(failures: int) -> float:
    """Return a delay in seconds that doubles with each consecutive failure, with jitter."""
    ceiling = min(BACKOFF_LIMIT_SECONDS, 2.0 ** min(failures, 10))
    return ceiling * random.uniform(0.5, 1.0)  # noqa: S311 - jitter, not a secret


def _log_actions(name: str, actions: tuple[NodeAction, ...]) -> None:
    for action in actions:
        level = _log.debug if isinstance(action, Wait | Hold) else _log.info
        level(
            LOG_EVENTS[type(action)],
            upgrade=name,
            node=getattr(action, "node", None),
            reason=action.reason.value,
            message=action.message,
        )
