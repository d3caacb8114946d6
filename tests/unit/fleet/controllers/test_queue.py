"""Tests the work queue."""

from nodeupgrade.fleet.controllers.queue import LONGEST_BACKOFF_SECONDS, WorkQueue
from tests.builders.queues import Clock, ready


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
