"""Whether a spec is acted upon: valid, of a version that is known, unchanged where it is frozen, and able to begin."""

from datetime import datetime

from nodeupgrade.api.frozen import change_rejected
from nodeupgrade.api.reasons import Reason, sentence
from nodeupgrade.api.upgrade import Upgrade
from nodeupgrade.api.windows import next_opening
from nodeupgrade.domain.rollout.select.admission import unsupported_version


def objection_to_spec(upgrade: Upgrade, now: datetime) -> tuple[Reason, str] | None:
    """Say why no node is started for this spec as it is, or None; correcting it is enough to go on."""
    spec, accepted = upgrade.spec, upgrade.status.accepted_spec_digest
    if spec is None:
        return _object(Reason.INVALID_SPEC, upgrade.problem)
    if accepted and accepted != upgrade.spec_digest:
        return Reason.SPEC_CHANGE_REJECTED, change_rejected()
    if (unknown := unsupported_version(spec.version)) is not None:
        return _object(Reason.UNSUPPORTED_VERSION, unknown)
    if next_opening(spec.windows, spec.blackouts, now) is None:
        because = "spec.windows and spec.blackouts leave no moment to start a node in the next ten years"
        return _object(Reason.WINDOW_NEVER_OPENS, because)
    return None


def _object(reason: Reason, because: str) -> tuple[Reason, str]:
    return reason, sentence(reason, because)
