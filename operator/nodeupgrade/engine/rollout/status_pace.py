"""Which writes of a NodeUpgrade's status may wait: those that only move counters along."""

from collections.abc import Iterable
from dataclasses import replace
from datetime import UTC, datetime

from nodeupgrade.api.upgrade.status import Condition, ContainerTotals, Counts, UpgradeStatus, WaveStatus
from nodeupgrade.domain.rollout.actions import Hold, NodeAction, Wait, WriteStatus

_ANY_TIME = datetime(1970, 1, 1, tzinfo=UTC)


def may_wait(before: UpgradeStatus, actions: Iterable[NodeAction]) -> bool:
    """Whether all that a plan does is to write a status that says the same, with other numbers.

    What is told to people is told when the status is written, so a plan with news never waits.
    """
    doing = [action for action in actions if not isinstance(action, Wait | Hold)]
    return bool(doing) and all(
        isinstance(action, WriteStatus) and only_progress(before, action.status) for action in doing
    )


def only_progress(before: UpgradeStatus, after: UpgradeStatus) -> bool:
    """Whether nothing changed but counters and messages: no slot, no condition, no wave, nothing to go by."""
    return _essence(before) == _essence(after)


def _essence(status: UpgradeStatus) -> UpgradeStatus:
    """Blank what may be late. Whatever a later version adds to the status is essential until it is named here."""
    return replace(
        status,
        progress="",
        counts=Counts(),
        containers=ContainerTotals(),
        skips=None,
        preview=None,
        conditions=tuple(map(_essence_of_condition, status.conditions)),
        waves=tuple(map(_essence_of_wave, status.waves)),
    )


def _essence_of_condition(condition: Condition) -> Condition:
    return replace(condition, message="", last_transition_time=_ANY_TIME)


def _essence_of_wave(wave: WaveStatus) -> WaveStatus:
    return replace(wave, total=0, succeeded=0, skipped=0, refused=0, failed=0, in_progress=0)
