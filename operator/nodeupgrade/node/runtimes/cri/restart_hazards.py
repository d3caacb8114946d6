"""Hazards of restarting any runtime, by its unit and its version."""

import re

from nodeupgrade.api.reasons import Reason
from nodeupgrade.findings.finding import Finding
from nodeupgrade.node.host.systemd.units import UnitStatus
from nodeupgrade.text import number


def unit_hazards(unit: UnitStatus) -> tuple[Finding, ...]:
    """Return a finding if systemd would kill the unit's whole control group, which may contain containers' monitors."""
    if unit.spares_others:
        return ()
    detail = (
        f"unit {unit.name} has KillMode={unit.kill_mode}, so restarting it may kill every container; "
        "set KillMode=process"
    )
    return (Finding(reason=Reason.UNSUPPORTED_RUNTIME, detail=detail),)


def version_numbers(version: str) -> tuple[int, ...]:
    """Return the leading numbers of a version: ``(1, 6, 20)`` for ``1.6.20~ds1``."""
    found = re.match(r"[0-9]{1,9}(\.[0-9]{1,9})*", version)
    return tuple(number(part) or 0 for part in found.group().split(".")) if found else ()
