"""Acceptance of a spec: it must be valid, of a supported version, unchanged where frozen, and have a window."""

from datetime import datetime

from nodeupgrade.api.reasons import Reason
from nodeupgrade.api.upgrade.frozen import change_rejected
from nodeupgrade.api.upgrade.object import Upgrade
from nodeupgrade.api.upgrade.spec import UpgradeSpec
from nodeupgrade.api.upgrade.windows import next_opening
from nodeupgrade.domain.finding import Finding
from nodeupgrade.domain.rollout.select.admission import unsupported_version


def accept(upgrade: Upgrade, now: datetime) -> UpgradeSpec | Finding:
    """Return the spec, or why it is not acted upon; correcting it is enough to continue."""
    spec, accepted = upgrade.spec, upgrade.status.accepted_spec_digest
    if spec is None:
        return Finding(reason=Reason.INVALID_SPEC, detail=upgrade.problem)
    if accepted and accepted != upgrade.spec_digest:
        return Finding(reason=Reason.SPEC_CHANGE_REJECTED, detail=change_rejected(), remedy="")
    if (unknown := unsupported_version(spec.version)) is not None:
        return Finding(reason=Reason.UNSUPPORTED_VERSION, detail=unknown)
    if next_opening(spec.windows, spec.blackouts, now) is None:
        because = "spec.windows and spec.blackouts leave no moment to start a node in the next ten years"
        return Finding(reason=Reason.WINDOW_NEVER_OPENS, detail=because)
    return spec
