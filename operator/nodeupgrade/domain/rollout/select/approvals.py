"""Approvals of waves: in the spec, where Git sees them, or by annotation, where the API server names the writer."""

from nodeupgrade.api.limits import APPROVER_LENGTH
from nodeupgrade.api.upgrade.object import APPROVE_ANNOTATION, Upgrade
from nodeupgrade.api.upgrade.waves import REMAINDER

IN_SPEC = "spec.approvedWaves"


def approved_by(upgrade: Upgrade, wave: str) -> str | None:
    """Say what or who approved a wave, or None; an annotation whose writer is not on record is named itself."""
    if upgrade.spec is not None and wave in upgrade.spec.approved_waves:
        return IN_SPEC
    if wave in upgrade.approvals:
        return upgrade.approvals[wave][:APPROVER_LENGTH] or APPROVE_ANNOTATION
    return None


def unknown_waves(upgrade: Upgrade) -> tuple[str, ...]:
    """Name the waves that are approved and do not exist."""
    if upgrade.spec is None:
        return ()
    known = {REMAINDER, *(wave.name for wave in upgrade.spec.waves)}
    return tuple(sorted({*upgrade.spec.approved_waves, *upgrade.approvals} - known))
