"""Notices arrive at least once, also over restarts, and nobody waits for them."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field, replace
from datetime import timedelta

import pytest

from nodeupgrade.api.upgrade.object import NOTIFIED_PREFIX, Upgrade
from nodeupgrade.cluster.kube_api import UPGRADES
from nodeupgrade.fleet.notices import notifier as notifiers
from nodeupgrade.fleet.notices.notice import DeliveryError, Notice, notice_of
from nodeupgrade.fleet.notices.notifier import Notifier
from tests.doubles.kube import InMemoryKube
from tests.scenario.rollout.harness import START, Scene


@dataclass
class Sender:
    """Receivers that take notices, refuse them, or hang."""

    got: list[tuple[str, str, str]] = field(default_factory=list)
    refusals: dict[str, int] = field(default_factory=dict)
    hanging: set[str] = field(default_factory=set)

    async def send(self, receiver: str, notice: Notice) -> None:
        if receiver in self.hanging:
            await asyncio.Event().wait()
        if self.refusals.get(receiver, 0) > 0:
            self.refusals[receiver] -= 1
            raise DeliveryError(f"receiver {receiver} is away")
        self.got.append((receiver, notice.upgrade, notice.phase))


@asynccontextmanager
async def notifying(kube: InMemoryKube, sender: Sender, *receivers: str) -> AsyncIterator[Notifier]:
    made = Notifier(kube, sender, receivers, on_error=lambda _receiver, _problem: None, pause=lambda _failures: 0.001)
    running = asyncio.create_task(made.run())
    try:
        yield made
    finally:
        running.cancel()
        with suppress(asyncio.CancelledError):
            await running


async def until(met: Callable[[], object]) -> None:
    async with asyncio.timeout(60):
        while not met():  # noqa: ASYNC110 - nothing tells of every change
            await asyncio.sleep(0.001)


async def until_got(sender: Sender, notices: int) -> None:
    await until(lambda: len(sender.got) == notices)


async def finished(scene: Scene) -> Upgrade:
    await scene.fleet.add_node("node-0")
    await scene.apply()
    await scene.run()
    return await scene.upgrade()


async def test_every_receiver_gets_each_state_once_and_a_restarted_operator_knows() -> None:
    scene, sender = Scene(), Sender(refusals={"audit": 2})
    upgrade = await finished(scene)
    async with notifying(scene.kube, sender, "ops", "audit") as notifier:
        notifier.offer(upgrade)
        await until(lambda: len(sender.got) == 2)
        notifier.offer(upgrade)  # as a pass that has not seen the record yet
        body = await scene.kube.get(UPGRADES, "to-1-33")
        recorded = {name: body["metadata"]["annotations"].get(NOTIFIED_PREFIX + name) for name in ("ops", "audit")}
        notice = notice_of(upgrade, scene.now)
        assert notice is not None
        assert recorded == {"ops": notice.id, "audit": notice.id}

    async with notifying(scene.kube, sender, "ops", "audit", "new") as notifier:
        notifier.offer(await scene.upgrade())
        await until(lambda: len(sender.got) == 3)
    assert sorted(sender.got) == [(name, "to-1-33", "Succeeded") for name in ("audit", "new", "ops")]


async def test_what_is_not_recorded_is_delivered_again_after_a_restart() -> None:
    scene, sender = Scene(), Sender()
    upgrade = await finished(scene)
    for times in (1, 2):
        async with notifying(scene.kube, sender, "ops") as notifier:
            notifier.offer(upgrade)  # without the annotation, as if the operator had died before writing it
            await until_got(sender, times)


async def test_a_receiver_that_hangs_hinders_neither_passes_nor_others() -> None:
    scene, sender = Scene(), Sender(hanging={"ops"})
    upgrade = await finished(scene)
    async with notifying(scene.kube, sender, "ops", "audit") as notifier:
        notifier.offer(upgrade)
        await until(lambda: sender.got)
        for phase in ("Paused", "Running"):
            notifier.offer(replace(upgrade, status=replace(upgrade.status, phase=phase)))
        await until(lambda: len(sender.got) >= 2)
        assert {receiver for receiver, _, _ in sender.got} == {"audit"}
        assert [each.phase for each in notifier._outboxes["ops"].waiting.values()] == ["Running"], "the latest waits"


async def test_a_full_queue_takes_what_is_offered_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(notifiers, "MOST_WAITING", 1)
    scene, sender = Scene(), Sender(refusals={"ops": 1})
    upgrade = await finished(scene)
    other = replace(upgrade, uid="other", name="other")  # it is gone: nothing can be recorded
    async with notifying(scene.kube, sender, "ops") as notifier:
        notifier.offer(upgrade)
        notifier.offer(other)
        await until(lambda: len(sender.got) == 1)
        notifier.offer(other)
        await until(lambda: len(sender.got) == 2)
    assert [name for _, name, _ in sender.got] == ["to-1-33", "other"]


async def test_what_calls_nobody_makes_no_new_notice() -> None:
    upgrade = await finished(Scene())

    def told(**changes: object) -> str | None:
        notice = notice_of(replace(upgrade, status=replace(upgrade.status, **changes)), START)  # type: ignore[arg-type]
        return None if notice is None else notice.id

    assert told(progress="0/1") == told(last_handled_retry="x") == told()
    assert told(phase="Running", conditions=()) == told(phase="Running")
    others = [told(phase="Running"), told(phase="Stalled"), told(failed=1), told(conditions=())]
    assert len({told(), *others}) == len(others) + 1
    assert told(phase="") is None
    assert told(completed_at=START - timedelta(days=2)) is None
