"""The work queue, and how events, results and failures queue keys."""

import asyncio
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest

from nodeupgrade.api.reasons import Reason
from nodeupgrade.api.upgrade.object import Upgrade, parse_upgrade
from nodeupgrade.api.values import NodeName
from nodeupgrade.cluster.kube_api import UnavailableError
from nodeupgrade.controlplane.workers import CONFLICT_SECONDS, IDLE_SECONDS, VERIFYING_SECONDS, pace, work
from nodeupgrade.fleet.actions import Hold, Release, Wait
from nodeupgrade.fleet.controllers.event_keys import GATHERING_SECONDS, IN_FLIGHT_SECONDS, NodeKey, Queues
from nodeupgrade.fleet.controllers.queue import LONGEST_BACKOFF_SECONDS, WorkQueue
from nodeupgrade.fleet.controllers.result import Result
from nodeupgrade.fleet.metrics.collector import Metrics
from tests.scenario.rollout.harness import upgrade_object

NODE = NodeName("a")
WAIT = Wait(node=NODE, reason=Reason.PROGRESSING, message="")
HOLD = Hold(reason=Reason.PROGRESSING, message="")


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


async def ready(queue: WorkQueue[Any]) -> Any:
    """The next key, or None if nobody would get one now."""
    taking = asyncio.ensure_future(queue.take())
    await asyncio.sleep(0.01)
    if taking.done():
        return taking.result()
    taking.cancel()
    return None


async def taken(queue: WorkQueue[Any]) -> set[Any]:
    """All keys that are due now, each processed."""
    found = set[Any]()
    while (key := await ready(queue)) is not None:
        found.add(key)
        queue.done(key)
    return found


async def test_key_waits_at_most_once() -> None:
    queue = WorkQueue[str]()
    queue.add("a")
    queue.add("a")
    assert await ready(queue) == "a"
    queue.done("a")
    assert await ready(queue) is None


async def test_key_is_worked_on_by_one_worker_and_not_forgotten() -> None:
    queue = WorkQueue[str]()
    queue.add("a")
    assert await ready(queue) == "a"
    queue.add("a")
    assert await ready(queue) is None
    queue.done("a")
    assert await ready(queue) == "a"


async def test_earlier_time_wins_and_others_do_not_wait_for_it() -> None:
    clock = Clock()
    queue = WorkQueue[str](clock)
    queue.add("late", after=100)
    queue.add("late", after=50)
    queue.add("late", after=70)
    queue.add("soon")
    assert await ready(queue) == "soon"
    assert await ready(queue) is None
    clock.now = 50.0
    assert await ready(queue) == "late"


async def test_a_key_rests_whoever_adds_it() -> None:
    clock = Clock()
    queue = WorkQueue[str](clock)
    queue.add("a")
    assert await ready(queue) == "a"
    queue.add("a")
    queue.done("a", rest=10)
    queue.add("a")
    queue.add("b")
    assert await ready(queue) == "b"
    assert await ready(queue) is None
    assert len(queue) == 1
    clock.now = 10.0
    assert await ready(queue) == "a"


def test_back_off_grows_up_to_a_limit_until_it_is_forgotten() -> None:
    queue = WorkQueue[str](lambda: 0.0)
    waits = [queue.back_off("a") for _ in range(20)]
    assert waits[0] <= 2 < waits[3] <= waits[5]
    assert LONGEST_BACKOFF_SECONDS / 2 <= waits[-1] <= LONGEST_BACKOFF_SECONDS
    assert queue.back_off("b") <= 2, "each key has its own"
    queue.forget("a")
    assert queue.back_off("a") <= 2


def test_pace() -> None:
    release, flying = Release.__new__(Release), (NODE,)
    assert pace(Result(over=True)) is None
    assert pace(Result(conflicted=True)) == CONFLICT_SECONDS
    assert pace(Result(actions=(release,), in_flight=flying)) == 0
    assert pace(Result(actions=(WAIT, HOLD), in_flight=flying)) == IN_FLIGHT_SECONDS
    assert pace(Result(actions=(HOLD,))) == IDLE_SECONDS
    verifying = Wait(node=NODE, reason=Reason.NOT_YET_VERIFIED, message="")
    assert pace(Result(actions=(verifying,), in_flight=flying)) == VERIFYING_SECONDS
    known = replace(verifying, until=datetime(2026, 1, 1, tzinfo=UTC))
    assert pace(Result(actions=(known,), in_flight=flying, wait_over_in=3.5)) == 3.5
    assert pace(Result(actions=(verifying, known), in_flight=flying, wait_over_in=3.5)) == VERIFYING_SECONDS


def upgrade(generation: int = 1) -> Upgrade:
    body = upgrade_object("r")
    body["metadata"] |= {"uid": "u", "resourceVersion": "1", "generation": generation}
    return parse_upgrade(body)


A, B, C = map(NodeName, "abc")


async def test_nodes_are_queued_once_they_are_in_flight_and_with_their_rollout() -> None:
    clock = Clock()
    queues = Queues(clock)
    queues.node_changed(A)
    queues.in_flight(upgrade(), (A, B))
    assert await taken(queues.nodes) == {NodeKey("r", A), NodeKey("r", B)}
    queues.in_flight(upgrade(), (A, C))
    assert await taken(queues.nodes) == {NodeKey("r", C)}, "only who is new, at once"
    clock.now += IN_FLIGHT_SECONDS
    assert await taken(queues.nodes) == {NodeKey("r", A)}, "the others at a fixed rhythm"
    queues.in_flight(upgrade(generation=2), (A, C))
    assert len(await taken(queues.nodes)) == 2, "all, if somebody asks something else"
    queues.over("r")
    clock.now += IN_FLIGHT_SECONDS
    queues.node_changed(A)
    clock.now += IN_FLIGHT_SECONDS
    assert await taken(queues.nodes) == set()
    queues.in_flight(upgrade(), (A,))
    await taken(queues.nodes)
    queues.forget()
    queues.in_flight(upgrade(), (A,))
    assert await taken(queues.nodes) == {NodeKey("r", A)}, "in a new term, everything is new"


async def test_news_of_a_node_in_flight_is_gathered() -> None:
    clock = Clock()
    queues = Queues(clock)
    queues.in_flight(upgrade(), (A,))
    await taken(queues.nodes)
    for name in ("a", "a", "of-no-rollout"):
        queues.node_changed(NodeName(name))
    assert await taken(queues.nodes) == set()
    clock.now += GATHERING_SECONDS
    assert await taken(queues.nodes) == {NodeKey("r", A)}
    assert await taken(queues.rollouts) == set()


class Worker:
    """One worker on one key, with a clock of its own."""

    def __init__(self, *results: object) -> None:
        self.clock, self.results, self.calls = Clock(), [*results], 0
        self.crashes = list[str]()
        self.queue, self.metrics = WorkQueue[str](self.clock), Metrics()
        self.queue.add("a")
        self.task = asyncio.ensure_future(work(self.queue, self.reconcile, self.crashed, self.metrics))

    async def reconcile(self, _key: str, _seconds: object) -> tuple[float, float | None]:
        self.calls += 1
        done = self.results.pop(0)
        if isinstance(done, Exception):
            raise done
        assert isinstance(done, tuple)
        return done

    async def crashed(self, _key: str, problem: str) -> None:
        self.crashes.append(problem)

    async def after(self, seconds: float) -> int:
        """How often the key was reconciled by then."""
        self.clock.now += seconds
        self.queue.add("another-key-wakes-the-queue", after=10_000)
        await asyncio.sleep(0.01)
        return self.calls

    def told(self, result: str) -> float:
        return self.metrics.registry.get_sample_value("nodeupgrade_reconcile_total", {"result": result}) or 0.0


async def test_what_failed_is_reconciled_again_but_not_before_the_api_server_has_asked_for_it() -> None:
    asked = 3 * LONGEST_BACKOFF_SECONDS
    worker = Worker(*[UnavailableError("away", after=asked)] * 2, (0.0, None))
    for calls in (1, 2, 3):
        assert await worker.after(0) == calls
        assert await worker.after(asked - 1) == calls
        assert await worker.after(2) == min(calls + 1, 3)
    worker.task.cancel()
    assert worker.told("error") == 2


async def test_a_key_rests_as_long_as_it_is_told_to() -> None:
    worker = Worker((10.0, 0.0), (0.0, None))
    assert await worker.after(0) == 1
    worker.queue.add("a")
    assert await worker.after(9) == 1
    assert await worker.after(2) == 2
    worker.task.cancel()


async def test_an_error_that_nobody_has_foreseen_is_told_without_its_words() -> None:
    worker = Worker(KeyError("https://user:password@example.com"), (0.0, None))
    assert await worker.after(0) == 1
    assert await worker.after(LONGEST_BACKOFF_SECONDS) == 2
    worker.task.cancel()
    (told,) = worker.crashes
    assert "KeyError" in told
    assert "password" not in told
    assert worker.told("internal_error") == 1


async def test_a_worker_ends_only_when_it_is_told_to() -> None:
    worker = Worker((0.0, None))
    await worker.after(0)
    worker.task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await worker.task


@pytest.mark.parametrize("steps", range(6))
async def test_a_key_that_was_taken_when_the_term_ended_is_there_in_the_next(steps: int) -> None:
    queue = WorkQueue[str]()
    queue.add("a")

    async def reconcile(_key: str, _seconds: object) -> tuple[float, float | None]:
        await asyncio.Event().wait()
        raise AssertionError

    async def crashed(_key: str, _problem: str) -> None:
        raise AssertionError

    task = asyncio.ensure_future(work(queue, reconcile, crashed, Metrics()))
    for _ in range(steps):
        await asyncio.sleep(0)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    assert await ready(queue) == "a"
