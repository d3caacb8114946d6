"""What keeps systemd from starting a unit again, besides its files and its program: other units, and its conditions.

A unit that runs shows none of it, since systemd looks only when it starts one. Seen with systemd 252.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from nodeupgrade.node.host.files.files import FilesView
from nodeupgrade.node.host.systemd.conditions import unmet_conditions
from nodeupgrade.node.host.systemd.services import ServicesView
from nodeupgrade.node.host.systemd.units import UnitStatus

_DOWN = frozenset({"inactive", "failed", "deactivating"})


@dataclass(frozen=True, slots=True, kw_only=True)
class StartObstacles:
    """Why a unit would not start again, each as a sentence."""

    certain: tuple[str, ...] = ()  # systemd would not even try
    probable: tuple[str, ...] = ()  # it would, in vain unless something has changed by then


def start_obstacles(files: FilesView, services: ServicesView, unit: UnitStatus) -> StartObstacles:
    """Return why a unit would not start once it is stopped."""
    needed, so = _needed(services, unit), f"so systemd would not start {unit.name} again"
    missing = (
        f"{one.name} requires {name}, which is {needed[name].load_state}, {so}"
        for one in needed.values()
        for name in one.requires
        if needed[name].load_state != "loaded"
    )
    if unit.load_state != "loaded":  # which others report
        return StartObstacles(certain=tuple(missing))
    refused = () if unit.startable else (f"{unit.name} has RefuseManualStart=yes, {so}",)
    conditions = (f"{unit.name} has {each}, which does not hold" for each in unmet_conditions(files, unit))
    unmet = (*_unmet(unit, needed, {unit.name}), *conditions)
    return StartObstacles(certain=(*missing, *refused), probable=tuple(f"{why}, {so}" for why in unmet))


def _needed(services: ServicesView, unit: UnitStatus) -> Mapping[str, UnitStatus]:
    """Return the unit and all that it requires, also by way of others that run: a start of these is asked for, too."""
    found, pending = {unit.name: unit}, [unit]
    while pending:
        for name in pending.pop().requires:
            if name not in found:
                found[name] = services.status(name)
                pending.append(found[name])
    return found


def _unmet(unit: UnitStatus, needed: Mapping[str, UnitStatus], seen: set[str]) -> Iterator[str]:
    """Yield what a start waits for in vain; one that does not wait for another (After) goes on without it.

    What has failed is started again, and may fail again. A oneshot service that has ended is inactive, and what it
    requires matters; what an active unit requires does not.
    """
    for name in unit.awaits:
        state = needed[name].active_state
        # Only those that run already count, or those that nothing but the kernel starts.
        must_run = name in unit.requisite or name.endswith(".device")
        if state == "failed" or (must_run and state in _DOWN):
            yield f"{unit.name} requires {name}, which is {state}"
        elif state == "inactive" and name not in seen:
            seen.add(name)
            yield from _unmet(needed[name], needed, seen)
