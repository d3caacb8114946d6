"""Rate limiting of status writes: those that only update counters may be delayed."""

from collections.abc import Iterable
from dataclasses import replace
from datetime import UTC, datetime

from nodeupgrade.api.upgrade.status import Condition, ContainerTotals, Counts, UpgradeStatus, WaveStatus
from nodeupgrade.domain.rollout.actions import Hold, NodeAction, Wait, WriteStatus

_ANY_TIME = datetime(1970, 1, 1, tzinfo=UTC)


def may_wait(before: UpgradeStatus, actions: Iterable[NodeAction]) -> bool:
    """Report whether a plan only writes a status that differs in counters and messages.

    A plan that also emits events is never delayed, because they depend on the status that is written with them.
    """
    effective = [action for action in actions if not isinstance(action, Wait | Hold)]
    return bool(effective) and all(
        isinstance(action, WriteStatus) and only_progress(before, action.status) for action in effective
    )


def only_progress(before: UpgradeStatus, after: UpgradeStatus) -> bool:
    """Report whether only counters and messages changed: no slot, no condition status, no wave state."""
    return _essence(before) == _essence(after)


def _essence(status: UpgradeStatus) -> UpgradeStatus:
    """Blank the fields that may be delayed; a field added to the status later is essential until it is listed here."""
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
