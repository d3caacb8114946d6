"""Sends notices about rollouts, each at least once to each receiver, and never in the way of a rollout.

Every pass offers how its rollout stands. What was delivered is recorded in annotations of the NodeUpgrade, so a
restarted operator knows it. Only the latest notice about a rollout waits for a receiver: the queue is as long as there
are rollouts, and what does not fit is offered again by the next pass.
"""

import asyncio
from collections.abc import Callable, Sequence

from nodeupgrade.api.upgrade.object import NOTIFIED_PREFIX, Upgrade
from nodeupgrade.cluster.kube_api import UPGRADES, NotFoundError
from nodeupgrade.cluster.typed_objects import TypedKube
from nodeupgrade.errors import NodeUpgradeError
from nodeupgrade.fleet.notices.notice import DeliveryError, Notice, NoticeSender, notice_of
from nodeupgrade.fleet.setbacks import retry_delay

MOST_WAITING = 500
"""Notices that wait for one receiver."""


class _Outbox:
    """What waits for one receiver, by UID of the NodeUpgrade, and what it has."""

    def __init__(self) -> None:
        self.waiting: dict[str, Notice] = {}
        self.delivered: dict[str, str] = {}
        self.filled = asyncio.Event()


class Notifier:
    """Tells receivers how rollouts stand.

    Args:
        kube: The API server, to record what was delivered.
        on_error: Called with the receiver and the problem when a notice is not delivered; it is tried again.
        pause: Returns how many seconds to rest after so many failures in a row.
    """

    def __init__(
        self,
        kube: TypedKube,
        sender: NoticeSender,
        receivers: Sequence[str],
        *,
        on_error: Callable[[str, str], None],
        pause: Callable[[int], float] = lambda failures: retry_delay(failures).total_seconds(),
    ) -> None:
        self._kube, self._sender, self._on_error, self._pause = kube, sender, on_error, pause
        self._outboxes = {receiver: _Outbox() for receiver in receivers}

    def offer(self, upgrade: Upgrade) -> None:
        """Take a notice about how a rollout stands to every receiver that has not got it yet; returns at once."""
        if not self._outboxes or (notice := notice_of(upgrade, self._kube.utcnow())) is None:
            return
        for receiver, outbox in self._outboxes.items():
            if notice.id == upgrade.notified.get(receiver):
                outbox.waiting.pop(upgrade.uid, None)
                outbox.delivered.pop(upgrade.uid, None)
            elif notice.id == outbox.delivered.get(upgrade.uid):
                outbox.waiting.pop(upgrade.uid, None)
            elif upgrade.uid in outbox.waiting or len(outbox.waiting) < MOST_WAITING:
                outbox.waiting[upgrade.uid] = notice
                outbox.filled.set()

    async def run(self) -> None:
        """Deliver to each receiver at its own pace, until cancelled; then forget what was not delivered."""
        try:
            async with asyncio.TaskGroup() as group:
                for receiver, outbox in self._outboxes.items():
                    group.create_task(self._serve(receiver, outbox))
                await asyncio.Event().wait()
        finally:
            self._outboxes = {receiver: _Outbox() for receiver in self._outboxes}

    async def _serve(self, receiver: str, outbox: _Outbox) -> None:
        failures = 0
        while True:
            outbox.filled.clear()
            if not outbox.waiting:
                await outbox.filled.wait()
                continue
            uid, notice = next(iter(outbox.waiting.items()))
            try:
                await self._sender.send(receiver, notice)
            except DeliveryError as error:
                failures += 1
                self._on_error(receiver, str(error))
                if (latest := outbox.waiting.pop(uid, None)) is not None:
                    outbox.waiting[uid] = latest  # behind all others, in case it is this notice that is not taken
                await asyncio.sleep(self._pause(failures))
                continue
            failures = 0
            latest = outbox.waiting.get(uid)
            if latest is not None and latest.id == notice.id:
                del outbox.waiting[uid]
            outbox.delivered[uid] = notice.id
            await self._record(receiver, notice)

    async def _record(self, receiver: str, notice: Notice) -> None:
        """Record a delivery; where that fails, a restarted operator delivers once more."""
        annotations = {NOTIFIED_PREFIX + receiver: notice.id}
        try:
            await self._kube.merge(UPGRADES, notice.upgrade, {"metadata": {"annotations": annotations}})
        except NotFoundError:
            return
        except NodeUpgradeError as error:
            self._on_error(receiver, str(error))
