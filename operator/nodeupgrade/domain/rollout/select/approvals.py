"""Approvals of waves: in the spec, visible in Git, or by annotation, for which the API server records the writer."""

from nodeupgrade.api.limits import APPROVER_LENGTH
from nodeupgrade.api.upgrade.object import APPROVE_ANNOTATION, Upgrade
from nodeupgrade.api.upgrade.waves import REMAINDER

IN_SPEC = "spec.approvedWaves"


def approved_by(upgrade: Upgrade, wave: str) -> str | None:
    """Return who or what approved a wave, or None.

    That is the field or the writer of the annotation; if the writer is not on record, the annotation's name.
    """
    if upgrade.spec is not None and wave in upgrade.spec.approved_waves:
        return IN_SPEC
    if wave in upgrade.approvals:
        return upgrade.approvals[wave][:APPROVER_LENGTH] or APPROVE_ANNOTATION
    return None


def unknown_waves(upgrade: Upgrade) -> tuple[str, ...]:
    """Return the approved waves that do not exist, sorted by name."""
    if upgrade.spec is None:
        return ()
    known = {REMAINDER, *(wave.name for wave in upgrade.spec.waves)}
    return tuple(sorted({*upgrade.spec.approved_waves, *upgrade.approvals} - known))
