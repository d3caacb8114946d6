"""Notices about rollouts for people who do not watch them, and the port that delivers notices.

A notice describes the state of a rollout, not what happened: a receiver that missed some misses nothing that matters.
"""

import hashlib
import json
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Protocol

from nodeupgrade.api.upgrade.object import Upgrade
from nodeupgrade.api.upgrade.status import ConditionType, RolloutPhase
from nodeupgrade.errors import NodeUpgradeError

_BUSY = frozenset({RolloutPhase.PLANNING.value, RolloutPhase.RUNNING.value})
"""Phases in which the reason changes often and needs no attention."""

NEWS_FOR = timedelta(days=1)
"""How long the end of a rollout is news: a receiver that is added later gets no notice of older ends."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Notice:
    """How a rollout stands."""

    id: str  # the same for the same rollout in the same state, so that a receiver can drop what it has already
    upgrade: str
    uid: str
    version: str
    time: datetime  # when it was found to stand so, UTC
    phase: str
    reason: str
    message: str
    stalled: bool  # whether a person is needed
    progress: str
    failed: int
    restarted: int
    wave: str


def notice_of(upgrade: Upgrade, now: datetime) -> Notice | None:
    """Return the notice about a rollout as its status shows it; None if there is no news."""
    status = upgrade.status
    if not status.phase or (status.completed_at is not None and now - status.completed_at > NEWS_FOR):
        return None
    ready, stands = (status.condition(kind) for kind in (ConditionType.READY, ConditionType.RECONCILING))
    wave = "" if status.current_wave is None else status.current_wave.name
    reason = "" if status.phase in _BUSY else stands.reason
    telling = (upgrade.uid, status.phase, reason, wave, status.failed, status.containers.restarted)
    return Notice(
        id=hashlib.sha256(json.dumps(telling).encode()).hexdigest()[:32],
        upgrade=upgrade.name,
        uid=upgrade.uid,
        version="" if upgrade.spec is None else upgrade.spec.version,
        time=now,
        phase=status.phase,
        reason=ready.reason,
        message=ready.message,
        stalled=status.holds(ConditionType.STALLED),
        progress=status.progress,
        failed=status.failed,
        restarted=status.containers.restarted,
        wave=wave,
    )


class DeliveryError(NodeUpgradeError):
    """A receiver does not take a notice; the message names the receiver, not its URL, which may be a secret."""


class NoticeSender(Protocol):
    """Delivers notices to receivers, which are known by their names."""

    async def send(self, receiver: str, notice: Notice) -> None:
        """Deliver a notice; it may arrive more than once.

        Raises:
            DeliveryError: The receiver has not taken it, or may not have.
        """
