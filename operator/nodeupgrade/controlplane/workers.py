"""Workers: take a key from a queue, reconcile it once, and decide when to requeue it."""

import asyncio
import traceback
from collections.abc import Awaitable, Callable
from typing import TypeVar

import structlog

from nodeupgrade.api.reasons import Reason
from nodeupgrade.api.upgrade.object import Upgrade
from nodeupgrade.cluster.kube_api import UnavailableError
from nodeupgrade.controlplane.metrics.collector import Metrics
from nodeupgrade.errors import NodeUpgradeError
from nodeupgrade.fleet.actions import Hold, NodeAction, Wait
from nodeupgrade.fleet.controllers.controllers import Controllers
from nodeupgrade.fleet.controllers.event_keys import IN_FLIGHT_SECONDS, NodeKey, Queues
from nodeupgrade.fleet.controllers.queue import WorkQueue
from nodeupgrade.fleet.controllers.result import Result

ROLLOUTS_AT_ONCE, NODES_AT_ONCE = 4, 256
"""How many are reconciled at the same time; each mostly waits for the API server. Nodes of several rollouts fit in."""

VERIFYING_SECONDS = 1.0
"""Interval at which a node whose run is being verified is reconciled, unless it is known how long that is waited for.

The operator does not watch workload pods.
"""

IDLE_SECONDS = 15.0
"""Interval at which a rollout is reconciled that waits for something to change."""

CONFLICT_SECONDS = 0.2
"""How soon to decide again after what a write relied on has changed."""

REST, LONGEST_REST_SECONDS = 30.0, 3.0
"""How many times as long as its plan took a rollout rests, and for how many seconds at most.

A plan costs what the fleet is large, and nothing else is computed meanwhile.
"""

RESYNC_SECONDS = 30.0
"""Interval at which all unfinished rollouts are requeued, events or not."""

LAG_SECONDS = 0.5
"""Interval at which the event loop's lag is measured."""

_log = structlog.get_logger(__name__)

K = TypeVar("K")


async def reconcile_for_ever(
    queues: Queues, controllers: Controllers, metrics: Metrics, announce: Callable[[Upgrade], None]
) -> None:
    """Run the workers of both controllers, and the resync; ``announce`` is told how each rollout stands."""
    rollouts, nodes = controllers.rollouts, controllers.nodes

    async def reconcile_rollout(name: str, seconds: Callable[[], float]) -> tuple[float, float | None]:
        done = await rollouts.reconcile(name)
        metrics.rollout_reconciled(name, done, seconds())
        if done.upgrade is not None:
            announce(done.upgrade)
        if done.over:
            queues.over(name)
        log_result(name, done)
        return rest_after(done, seconds()), requeue_after(done)

    async def reconcile_node(key: NodeKey, seconds: Callable[[], float]) -> tuple[float, float | None]:
        done = await nodes.reconcile(*key)
        metrics.node_reconciled(done, seconds())
        log_result(key.rollout, done)
        return 0.0, requeue_after(done)

    async with asyncio.TaskGroup() as group:
        group.create_task(resync(queues, controllers))
        group.create_task(work(queues.rollouts, reconcile_rollout, rollouts.crashed, metrics, ROLLOUTS_AT_ONCE))
        group.create_task(work(queues.nodes, reconcile_node, nodes.crashed, metrics, NODES_AT_ONCE))


async def work(
    queue: WorkQueue[K],
    reconcile: Callable[[K, Callable[[], float]], Awaitable[tuple[float, float | None]]],
    crashed: Callable[[K, str], Awaitable[None]],
    metrics: Metrics,
    at_once: int = 1,
) -> None:
    """Process a queue for ever, several keys at a time. An unexpected error is one of its key; others go on.

    Args:
        reconcile: Reconciles a key, and returns for how many seconds it rests, whatever happens, and in how many
            seconds it is requeued, if at all. It is passed a function that returns the seconds since it was called.
        crashed: Called with a key and a description of an error that nobody has foreseen.
    """
    clock, permits = asyncio.get_running_loop().time, asyncio.Semaphore(at_once)

    async def process(key: K) -> None:
        began, rest, again = clock(), 0.0, None

        def seconds() -> float:
            return clock() - began

        try:
            rest, again = await reconcile(key, seconds)
            queue.forget(key)
        except NodeUpgradeError as error:
            rest = seconds()
            metrics.failed(rest)
            again = max(queue.back_off(key), error.after if isinstance(error, UnavailableError) else 0.0)
            _log.warning("reconcile_failed", key=key, error=str(error), again_in_seconds=again)
        except Exception as error:  # noqa: BLE001 - whatever it is, it concerns this key alone
            metrics.failed(seconds(), expected=False)
            again = rest = queue.back_off(key)  # also against the events of what is told about it
            _log.exception("reconcile_crashed", key=key, again_in_seconds=again)
            await _tell(crashed, key, error)
        except asyncio.CancelledError:
            again = 0.0  # for the next term
            raise
        finally:
            queue.done(key, rest=rest)
            permits.release()
            if again is not None:
                queue.add(key, again)

    async with asyncio.TaskGroup() as group:
        while True:
            await permits.acquire()
            group.create_task(process(await queue.take()))


async def _tell(crashed: Callable[[K, str], Awaitable[None]], key: K, error: Exception) -> None:
    try:
        await crashed(key, _place_of(error))
    except NodeUpgradeError as refusal:
        _log.warning("internal_error_not_reported", key=key, error=str(refusal))
    except Exception:  # noqa: BLE001 - what cannot be told is in the log
        _log.exception("internal_error_not_reported", key=key)


def _place_of(error: Exception) -> str:
    """Describe an error without its message, which may repeat anything, such as a URL with a password."""
    *_, (frame, line) = traceback.walk_tb(error.__traceback__)
    place = frame.f_code.co_filename.rpartition("/nodeupgrade/")[2]
    return f"the operator failed with {type(error).__name__} in {place}, line {line}"


async def resync(queues: Queues, controllers: Controllers) -> None:
    """Requeue every unfinished rollout periodically, so that progress does not depend on events.

    Also clean up what rollouts that no longer exist have left behind.
    """
    while True:
        try:
            for name in await controllers.rollouts.unfinished():
                queues.rollouts.add(name)
            _log_actions("", await controllers.sweep.run())
        except NodeUpgradeError as error:
            _log.warning("resync_failed", error=str(error))
        except Exception:  # noqa: BLE001 - rollouts do not depend on it
            _log.exception("resync_crashed")
        await asyncio.sleep(RESYNC_SECONDS)


async def measure_lag(metrics: Metrics) -> None:
    """Record how late timers fire: a call that blocks the event loop delays everything else."""
    clock = asyncio.get_running_loop().time
    while True:
        due = clock() + LAG_SECONDS
        await asyncio.sleep(LAG_SECONDS)
        metrics.lagged(clock() - due)


def requeue_after(done: Result) -> float | None:
    """Return in how many seconds to requeue what was reconciled; None to wait for an event."""
    if done.over:
        return None
    if done.conflicted:
        return CONFLICT_SECONDS
    if done.changed:
        return 0.0
    waits = (action for action in done.actions if isinstance(action, Wait))
    if any(wait.reason is Reason.NOT_YET_VERIFIED and wait.until is None for wait in waits):
        rest = VERIFYING_SECONDS
    else:
        rest = IN_FLIGHT_SECONDS if done.in_flight else IDLE_SECONDS
    return rest if done.wait_over_in is None else min(rest, done.wait_over_in)


def rest_after(done: Result, seconds: float) -> float:
    """Return for how many seconds a rollout rests that took so many; others had what it did not compute in them."""
    return max(0.0, min(LONGEST_REST_SECONDS, REST * done.cost) - (seconds - done.cost))


def log_result(name: str, done: Result) -> None:
    """Log what was carried out, and what was not: it was refused, or rests on what has changed. It is decided again."""
    _log_actions(name, done.applied)
    carried_out = {id(action) for action in done.applied}
    for action in (each for each in done.actions if id(each) not in carried_out):
        _log.info("action_deferred", action=action.log_event, upgrade=name, node=getattr(action, "node", None))


def _log_actions(name: str, actions: tuple[NodeAction, ...]) -> None:
    for action in actions:
        level = _log.debug if isinstance(action, Wait | Hold) else _log.info
        level(
            action.log_event,
            upgrade=name,
            node=getattr(action, "node", None),
            reason=action.reason.value,
            message=action.message,
        )
