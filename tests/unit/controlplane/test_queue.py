import asyncio
from dataclasses import replace
from datetime import UTC, datetime

from nodeupgrade.adapters.metrics import Metrics
from nodeupgrade.api.reasons import Reason
from nodeupgrade.api.upgrade.object import Upgrade
from nodeupgrade.api.values import NodeName
from nodeupgrade.controlplane.queue import GATHERING_SECONDS, Enqueuer, WorkQueue
from nodeupgrade.controlplane.workers import (
    BACKOFF_LIMIT_SECONDS,
    IDLE_SECONDS,
    IN_FLIGHT_SECONDS,
    VERIFYING_SECONDS,
    backoff,
    pace,
    work,
)
from nodeupgrade.domain.rollout.actions import Hold, NodeAction, Release, Wait
from nodeupgrade.engine.rollout.result import Result
from nodeupgrade.ports.kube import UnavailableError

WAIT = Wait(node=NodeName("a"), reason=Reason.PROGRESSING, message="")
HOLD = Hold(reason=Reason.PROGRESSING, message="")


async def ready(queue: WorkQueue) -> str | None:
    """The next name, or None if nobody would get one now."""
    taking = asyncio.ensure_future(queue.take())
    await asyncio.sleep(0.01)
    if taking.done():
        return taking.result()
    taking.cancel()
    return None


async def test_name_waits_at_most_once() -> None:
    queue = WorkQueue()
    queue.add("a")
    queue.add("a")
    assert await ready(queue) == "a"
    queue.done("a")
    assert await ready(queue) is None


async def test_name_is_worked_on_by_one_worker_and_not_forgotten() -> None:
    queue = WorkQueue()
    queue.add("a")
    assert await ready(queue) == "a"
    queue.add("a")
    assert await ready(queue) is None
    queue.done("a")
    assert await ready(queue) == "a"


async def test_earlier_time_wins_and_others_do_not_wait_for_it() -> None:
    now = 0.0
    queue = WorkQueue(lambda: now)
    queue.add("late", after=100)
    queue.add("late", after=50)
    queue.add("late", after=70)
    queue.add("soon")
    assert await ready(queue) == "soon"
    assert await ready(queue) is None
    now = 50.0
    assert await ready(queue) == "late"


def test_pace() -> None:
    release = Release.__new__(Release)
    assert pace(Result(over=True)) is None
    assert pace(Result(conflicted=True)) == 0
    assert pace(Result(actions=(release,), in_flight=True)) == 0
    assert pace(Result(actions=(WAIT, HOLD), in_flight=True)) == IN_FLIGHT_SECONDS
    assert pace(Result(actions=(HOLD,))) == IDLE_SECONDS
    assert pace(Result(actions=(WAIT,), in_flight=True, whole_in=0.5)) == 0.5
    assert pace(Result(in_flight=True, whole_in=60.0)) == IN_FLIGHT_SECONDS
    verifying = Wait(node=NodeName("a"), reason=Reason.NOT_YET_VERIFIED, message="")
    assert pace(Result(actions=(WAIT, verifying), in_flight=True)) == VERIFYING_SECONDS
    known = replace(verifying, until=datetime(2026, 1, 1, tzinfo=UTC))
    assert pace(Result(actions=(WAIT, known), in_flight=True, wait_over_in=3.5)) == 3.5
    assert pace(Result(actions=(verifying, known), in_flight=True, wait_over_in=3.5)) == VERIFYING_SECONDS


def test_backoff_grows_up_to_a_limit() -> None:
    assert backoff(1) <= 2 < backoff(4) <= backoff(1000) + BACKOFF_LIMIT_SECONDS <= 2 * BACKOFF_LIMIT_SECONDS


class Flaky:
    """Fails twice, then is over."""

    def __init__(self) -> None:
        self.passes = 0

    async def reconcile(self, name: str) -> Result:
        self.passes += 1
        if self.passes < 3:
            raise UnavailableError("away", after=3 * BACKOFF_LIMIT_SECONDS)
        return Result(over=True)

    async def start_anew(self, name: str, problem: str) -> None:
        raise AssertionError(name, problem)

    async def unfinished(self) -> tuple[str, ...]:
        return ()

    async def sweep(self) -> tuple[NodeAction, ...]:
        return ()


async def test_a_name_rests_whoever_adds_it() -> None:
    now = 0.0
    queue = WorkQueue(lambda: now)
    queue.add("a")
    assert await ready(queue) == "a"
    queue.add("a")
    queue.done("a", rest=10)
    queue.add("a")
    queue.add("b")
    assert await ready(queue) == "b"
    assert await ready(queue) is None
    assert len(queue) == 1
    now = 10.0
    assert await ready(queue) == "a"


async def test_news_of_nodes_concerns_all_that_are_active_and_is_gathered() -> None:
    now = 0.0
    queue = WorkQueue(lambda: now)
    enqueuer = Enqueuer(queue)
    for name in ("a", "b", "c"):
        enqueuer.upgrade_changed(name)
        assert await ready(queue) == name
        queue.done(name)
    enqueuer.over("b")
    enqueuer.fleet_changed(None)
    enqueuer.fleet_changed("unheard-of")
    assert await ready(queue) is None
    now = GATHERING_SECONDS
    assert {await ready(queue) for _ in range(4)} == {"a", "c", "unheard-of", None}


async def test_a_name_rests_for_as_long_as_it_took_to_plan() -> None:
    """Not for as long as the pass waited for the API server: that keeps nobody from anything."""
    now = 0.0

    class Planner(Flaky):
        async def reconcile(self, name: str) -> Result:
            nonlocal now
            now += 100
            self.passes += 1
            return Result(conflicted=True, cost=10)

    queue, rollouts = WorkQueue(lambda: now), Planner()
    queue.add("a")
    worker = asyncio.ensure_future(work(queue, Enqueuer(queue), rollouts, Metrics(), Silence()))
    await asyncio.sleep(0.01)
    assert rollouts.passes == 1
    now += 9
    queue.add("a")
    await asyncio.sleep(0.01)
    assert rollouts.passes == 1
    now += 1
    queue.add("a")
    await asyncio.sleep(0.01)
    assert rollouts.passes == 2
    worker.cancel()


class Silence:
    """Tells nobody."""

    def offer(self, upgrade: Upgrade) -> None:
        pass


async def test_failed_passes_are_made_again() -> None:
    now = 0.0
    queue, rollouts, metrics = WorkQueue(lambda: now), Flaky(), Metrics()
    queue.add("a")
    worker = asyncio.ensure_future(work(queue, Enqueuer(queue), rollouts, metrics, Silence()))
    for passes in (1, 2, 3):
        await asyncio.sleep(0.01)
        assert rollouts.passes == passes
        now += 2 * BACKOFF_LIMIT_SECONDS
        queue.add("another-key-wakes-the-queue", after=10_000)
        await asyncio.sleep(0.01)
        assert rollouts.passes == passes, "not before the API server has asked for it"
        now += BACKOFF_LIMIT_SECONDS
        queue.add("another-key-wakes-the-queue", after=10_000)
    await asyncio.sleep(0.01)
    worker.cancel()
    told = {
        result: metrics.registry.get_sample_value("nodeupgrade_reconcile_total", {"result": result})
        for result in ("error", "success")
    }
    assert told == {"error": 2, "success": 1}
