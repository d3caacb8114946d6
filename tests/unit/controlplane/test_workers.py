"""Tests how workers reconcile keys, and how long keys wait."""

import asyncio
from dataclasses import replace
from datetime import UTC, datetime
from typing import cast

import pytest
from structlog.testing import capture_logs

from nodeupgrade.api.reasons import Reason
from nodeupgrade.api.values import NodeName
from nodeupgrade.cluster.kube_api import UnavailableError
from nodeupgrade.controlplane.metrics.collector import Metrics
from nodeupgrade.controlplane.workers import (
    CONFLICT_SECONDS,
    IDLE_SECONDS,
    LONGEST_REST_SECONDS,
    VERIFYING_SECONDS,
    log_result,
    reconcile_for_ever,
    requeue_after,
    rest_after,
    work,
)
from nodeupgrade.fleet.actions import Hold, Refuse, ReleaseTask, Skip, Wait
from nodeupgrade.fleet.controllers.controllers import Controllers
from nodeupgrade.fleet.controllers.event_keys import IN_FLIGHT_SECONDS, Queues
from nodeupgrade.fleet.controllers.queue import LONGEST_BACKOFF_SECONDS, WorkQueue
from nodeupgrade.fleet.controllers.result import Result
from tests.builders.queues import Clock, ready

NODE = NodeName("a")
WAIT = Wait(node=NODE, reason=Reason.PROGRESSING, message="")
HOLD = Hold(reason=Reason.PROGRESSING, message="")


def test_pace() -> None:
    release, flying = ReleaseTask.__new__(ReleaseTask), (NODE,)
    assert requeue_after(Result(over=True)) is None
    assert requeue_after(Result(conflicted=True)) == CONFLICT_SECONDS
    assert requeue_after(Result(actions=(release,), in_flight=flying)) == 0
    assert requeue_after(Result(actions=(WAIT, HOLD), in_flight=flying)) == IN_FLIGHT_SECONDS
    assert requeue_after(Result(actions=(HOLD,))) == IDLE_SECONDS
    verifying = Wait(node=NODE, reason=Reason.NOT_YET_VERIFIED, message="")
    assert requeue_after(Result(actions=(verifying,), in_flight=flying)) == VERIFYING_SECONDS
    known = replace(verifying, until=datetime(2026, 1, 1, tzinfo=UTC))
    assert requeue_after(Result(actions=(known,), in_flight=flying, wait_over_in=3.5)) == 3.5
    assert requeue_after(Result(actions=(verifying, known), in_flight=flying, wait_over_in=3.5)) == VERIFYING_SECONDS


@pytest.mark.parametrize(
    ("cost", "seconds", "rest"),
    [(0.0, 0.4, 0), (0.02, 0.02, 0.6), (0.02, 0.42, 0.2), (0.02, 5.0, 0), (60.0, 60.0, LONGEST_REST_SECONDS)],
    ids=["costs nothing", "only computed", "waited as well", "waited for long", "costs very much"],
)
def test_a_rollout_rests_for_what_its_plan_costs_and_waiting_counts(cost: float, seconds: float, rest: float) -> None:
    assert rest_after(Result(cost=cost), seconds) == pytest.approx(rest)


async def test_a_rollout_is_not_planned_again_before_it_has_rested() -> None:
    planned, clock = list[float](), asyncio.get_running_loop().time

    class Rollouts:
        crashed = None

        async def reconcile(self, _name: str) -> Result:
            planned.append(clock())
            return Result(conflicted=True, cost=0.02)

    class NoSweep:
        rollouts, nodes, sweep = Rollouts(), Rollouts(), None

    queues = Queues()
    queues.rollouts.add("up")
    working = asyncio.ensure_future(
        reconcile_for_ever(queues, cast("Controllers", NoSweep()), Metrics(), lambda _upgrade: None)
    )
    while len(planned) < 2:
        assert not working.done()
        await asyncio.sleep(0.01)
    working.cancel()
    await asyncio.gather(working, return_exceptions=True)
    assert CONFLICT_SECONDS < rest_after(Result(cost=0.02), 0.02) <= planned[1] - planned[0] + 0.1


def test_only_what_was_carried_out_is_logged_as_done() -> None:
    refused = Refuse(node=NODE, reason=Reason.PROGRESSING, message="m")
    skipped = Skip(reason=Reason.PROGRESSING, message="m")

    with capture_logs() as lines:
        log_result("up", Result(actions=(HOLD, refused, skipped), applied=(HOLD, refused)))

    assert [(line["event"], line.get("action")) for line in lines] == [
        (HOLD.log_event, None),
        (refused.log_event, None),
        ("action_deferred", skipped.log_event),
    ]


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
