"""Checks of the runtime's drift: differences between the running process and its next start.

A restart applies every change since the last one: a configuration that the runtime cannot read leaves the node without
a runtime; another root directory leaves it with a runtime that knows none of the running containers.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from nodeupgrade.api.reasons import Reason
from nodeupgrade.api.values import Digest
from nodeupgrade.domain.check import Check, ask, check
from nodeupgrade.domain.hazards import Finding, Hazard
from nodeupgrade.domain.node.runtime import NextStart, RuntimePlaces, RuntimeProcess
from nodeupgrade.domain.node.units import UnitStatus

_NAMED = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class RuntimeAsFound:
    """The running runtime, and the one that its unit would start.

    Attributes:
        name: name of this kind of runtime.
        process: the process that listens on the socket; ``None`` if unknown.
        owner: the unit that this process belongs to, according to its cgroup; empty if unknown.
        places: the directories and the socket that the running one uses; ``None`` if it does not report them.
        next: how it would come back.
        changed: files and directories that a start reads and that were changed after the last start.
        program: digest of the program on disk.
        unproven: what has never been tried on a real node with this version; empty if it has been.
    """

    name: str
    unit: UnitStatus
    process: RuntimeProcess | None
    owner: str
    places: RuntimePlaces | None
    next: NextStart
    changed: tuple[str, ...]
    program: Digest | None
    unproven: str = ""


@check(Reason.UNSUPPORTED_RUNTIME, covers=(Hazard.RUNTIME_CHANGES,), acceptable=False)
def runtime_is_the_unit(found: RuntimeAsFound) -> Iterator[Finding]:
    """The process that serves the kubelet's socket is the one that a restart of the unit replaces."""
    process, unit = found.process, found.unit
    if process is None:
        detail = (
            f"nobody can tell which process answers on the runtime's socket, so that {unit.name} may be another one"
        )
        yield Finding(reason=Reason.UNSUPPORTED_RUNTIME, detail=detail)
    elif process.pid != unit.main_pid:
        owner = f" of {found.owner}" if found.owner else ""
        detail = (
            f"the runtime's socket is answered by process {process.pid}{owner}, but {unit.name}, whose main process "
            f"is {unit.main_pid}, is what would be restarted; only a {found.name} that runs as {unit.name} is supported"
        )
        yield Finding(reason=Reason.UNSUPPORTED_RUNTIME, detail=detail)


@check(Reason.RUNTIME_CONFIGURATION_DRIFT, covers=(Hazard.RUNTIME_CHANGES,))
def runtime_command_is_unchanged(found: RuntimeAsFound) -> Iterator[Finding]:
    """The runtime's unit has the running process's command line, apart from temporary settings of an earlier run."""
    running = () if found.process is None else found.process.words
    if found.unit.command and not found.next.as_it_runs:
        detail = (
            f"it runs as `{' '.join(running)}`, and {found.unit.name} would start `{' '.join(found.unit.command)}`; "
            f"{_restart_first(found)}"
        )
        yield Finding(reason=Reason.RUNTIME_CONFIGURATION_DRIFT, detail=detail)


@check(Reason.RUNTIME_CONFIGURATION_DRIFT, covers=(Hazard.RUNTIME_CHANGES,), acceptable=False)
def runtime_configuration_is_valid(found: RuntimeAsFound) -> Iterator[Finding]:
    """The runtime's program on disk reads its configuration without an error."""
    if found.next.places is None:
        detail = (
            f"{found.unit.name} would not come back from a restart, or nobody knows how: {found.next.complaint}; "
            "correct that first"
        )
        yield Finding(reason=Reason.RUNTIME_CONFIGURATION_DRIFT, detail=detail)


@check(Reason.RUNTIME_CONFIGURATION_DRIFT, covers=(Hazard.RUNTIME_LOSES_STATE,), acceptable=False)
def runtime_keeps_its_directories(found: RuntimeAsFound) -> Iterator[Finding]:
    """The runtime would look for containers where they are, and listen on the socket that the kubelet uses."""
    if found.next.places is None:
        return
    if found.places is None:
        detail = f"{found.unit.name} does not say where it keeps its containers, so nobody knows if they stay"
        yield Finding(reason=Reason.RUNTIME_CONFIGURATION_DRIFT, detail=detail)
        return
    for name in ("root", "state", "address"):
        now, then = getattr(found.places, name), getattr(found.next.places, name)
        if now != then and (then or name != "address"):
            detail = (
                f"{found.unit.name} runs with {name} {now} and would start with {then or 'none'}: it would know of no "
                "container that runs, or nobody would find it; put the setting back, and do not restart it before"
            )
            yield Finding(reason=Reason.RUNTIME_CONFIGURATION_DRIFT, detail=detail)


@check(Reason.RUNTIME_CONFIGURATION_DRIFT, covers=(Hazard.RUNTIME_CHANGES,))
def runtime_files_are_unchanged(found: RuntimeAsFound) -> Iterator[Finding]:
    """No file that a start of the runtime reads was changed after its process started."""
    if found.changed:
        others = f" and {len(found.changed) - _NAMED} more" if len(found.changed) > _NAMED else ""
        named = ", ".join(found.changed[:_NAMED])
        detail = f"{named}{others}: changed after {found.unit.name} was started; {_restart_first(found)}"
        yield Finding(reason=Reason.RUNTIME_CONFIGURATION_DRIFT, detail=detail)


@check(Reason.RUNTIME_CONFIGURATION_DRIFT, covers=(Hazard.RUNTIME_CHANGES,))
def runtime_program_is_unchanged(found: RuntimeAsFound) -> Iterator[Finding]:
    """The runtime's program on disk is the one that runs, byte for byte; two builds may report the same version."""
    running = None if found.process is None else found.process.program
    if running is None or running != found.program:
        detail = f"{found.unit.program or 'its program'} is not the program that runs; {_restart_first(found)}"
        yield Finding(reason=Reason.RUNTIME_CONFIGURATION_DRIFT, detail=detail)


def _restart_first(found: RuntimeAsFound) -> str:
    return f"restart {found.unit.name} at a time of your choice first"


HARMFUL: tuple[Check[RuntimeAsFound], ...] = (
    runtime_is_the_unit,
    runtime_configuration_is_valid,
    runtime_keeps_its_directories,
)
"""Checks that find something only if a restart would do harm."""


def _a_restart_helps(found: RuntimeAsFound) -> bool:
    """Report whether a restart is a remedy: where it would do harm, only that is reported."""
    return not ask(HARMFUL, found)


def _itself(found: RuntimeAsFound) -> RuntimeAsFound:
    return found


CURABLE: tuple[Check[RuntimeAsFound], ...] = (
    runtime_command_is_unchanged.of(_itself, _a_restart_helps),
    runtime_files_are_unchanged.of(_itself, _a_restart_helps),
    runtime_program_is_unchanged.of(_itself, _a_restart_helps),
)
"""Checks whose remedy is a restart at a time of the owner's choice."""
