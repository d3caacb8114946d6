"""What matters for a restart of any runtime: its unit, and its version."""

import re

from nodeupgrade.api.reasons import Reason
from nodeupgrade.findings.finding import Finding
from nodeupgrade.node.host.systemd.units import UnitStatus


def killed_with_unit(unit: UnitStatus) -> tuple[Finding, ...]:
    """Return what speaks against a restart where systemd would kill all of the unit's control group with the runtime.

    The monitors of containers may be in there.
    """
    if unit.spares_others:
        return ()
    detail = (
        f"unit {unit.name} has KillMode={unit.kill_mode}, so restarting it may kill every container; "
        "set KillMode=process"
    )
    return (Finding(reason=Reason.UNSUPPORTED_RUNTIME, detail=detail),)


def numbers(version: str) -> tuple[int, ...]:
    """Return the leading numbers of a version: ``(1, 6, 20)`` for ``1.6.20~ds1``."""
    found = re.match(r"\d+(\.\d+)*", version)
    return tuple(int(part) for part in found.group().split(".")) if found else ()
