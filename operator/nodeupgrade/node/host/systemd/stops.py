"""Which units systemd stops together with a unit."""

from nodeupgrade.node.host.systemd.services import ServicesView
from nodeupgrade.node.host.systemd.units import UnitStatus


def stopped_with(services: ServicesView, unit: UnitStatus, *down: str) -> tuple[str, ...]:
    """Return the units that run and that a stop of a unit stops, also by way of others, such as a target.

    Nothing is passed on by a unit that is down (seen with systemd 252), as those named ``down`` are by then.
    """
    found, pending = {unit.name, *down}, [*unit.bound_by]
    stopped = set[str]()
    while pending:
        if (name := pending.pop()) in found:
            continue
        found.add(name)
        if not (status := services.status(name)).down:
            stopped.add(name)
            pending += status.bound_by
    return tuple(sorted(stopped))
