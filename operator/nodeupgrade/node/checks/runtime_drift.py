"""Checks of the runtime's drift: differences between the running process and its next start.

A restart applies every change since the last one: a configuration that the runtime cannot read leaves the node
without a runtime; another root directory leaves it with a runtime that knows none of the running containers.
"""

from collections.abc import Iterator

from nodeupgrade.api.reasons import Reason
from nodeupgrade.findings.check import Found, ask, check
from nodeupgrade.findings.finding import Finding, named
from nodeupgrade.findings.hazards import Hazard
from nodeupgrade.node.runtimes.description import RuntimeAsFound


@check(Reason.UNSUPPORTED_RUNTIME, Hazard.RUNTIME_CHANGES, acceptable=False)
def runtime_is_the_unit(found: RuntimeAsFound) -> Iterator[Found]:
    """The process that serves the kubelet's socket is the one that a restart of the unit replaces."""
    process, unit = found.process, found.unit
    if process is None:
        yield f"it is unknown which process serves the runtime's socket; it may not be {unit.name}"
    elif process.pid != unit.main_pid:
        owner = f" of {found.owner}" if found.owner else ""
        yield (
            f"process {process.pid}{owner} serves the runtime's socket, but the upgrade would restart {unit.name}, "
            f"whose main process is {unit.main_pid}; only a {found.name} that runs as {unit.name} is supported"
        )


@check(Reason.RUNTIME_CONFIGURATION_DRIFT, Hazard.RUNTIME_CHANGES)
def runtime_command_is_unchanged(found: RuntimeAsFound) -> Iterator[Found]:
    """The runtime's unit has the running process's command line, apart from temporary settings of an earlier run."""
    running = () if found.process is None else found.process.words
    if found.unit.command and not found.next.as_it_runs and _a_restart_helps(found):
        yield (
            f"it runs as `{' '.join(running)}`, and {found.unit.name} would start `{' '.join(found.unit.command)}`; "
            f"{_restart_first(found)}"
        )


@check(Reason.RUNTIME_CONFIGURATION_DRIFT, Reason.RUNTIME_DID_NOT_ANSWER, Hazard.RUNTIME_CHANGES, acceptable=False)
def runtime_configuration_is_valid(found: RuntimeAsFound) -> Iterator[Found]:
    """The runtime's program on disk reads its configuration without an error; environment files that it needs exist."""
    if found.missing is not None:
        yield f"{found.missing}, which {found.unit.name} needs to start, does not exist; restore it first"
    if found.next.unknown:
        detail = f"it is unknown whether {found.unit.name} would come back from a restart: {found.next.unknown}"
        remedy = "reduce the load on the node; it is examined again automatically"
        yield Finding(reason=Reason.RUNTIME_DID_NOT_ANSWER, detail=detail, remedy=remedy)
    elif found.next.places is None:
        yield (
            f"{found.unit.name} would not come back from a restart, or with unknown settings: {found.next.complaint}; "
            "correct that first"
        )


@check(Reason.RUNTIME_CONFIGURATION_DRIFT, Hazard.RUNTIME_LOSES_STATE, acceptable=False)
def runtime_keeps_its_directories(found: RuntimeAsFound) -> Iterator[Found]:
    """The runtime would look for containers where they are, and listen on the socket that the kubelet uses."""
    if found.next.places is None:
        return
    if found.places is None:
        yield f"{found.unit.name} does not report where it keeps its containers, so it might not find them again"
        return
    for name in ("root", "state", "address"):
        now, then = getattr(found.places, name), getattr(found.next.places, name)
        if now != then:
            yield (
                f"{found.unit.name} runs with {name} {now} and would start with {then or 'none'}: it would not "
                "find the running containers, or its clients would not find it; restore the setting before "
                "you restart it"
            )


@check(Reason.RUNTIME_CONFIGURATION_DRIFT, Hazard.CGROUP_DRIVER_CHANGES, acceptable=False)
def runtime_keeps_its_cgroup_driver(found: RuntimeAsFound) -> Found | None:
    """The runtime would report the cgroup driver to kubelets that its pods were started with."""
    now, then = found.cgroup_driver, found.next.cgroup_driver
    if None in {now, then} or now == then:
        return None
    return (
        f"{found.unit.name} uses the cgroup driver {now} and would start with {then} (SystemdCgroup): a kubelet that "
        "asks it would find no pod's cgroup; restore the setting before you restart it"
    )


@check(Reason.RUNTIME_CONFIGURATION_DRIFT, Hazard.RUNTIME_CHANGES)
def runtime_files_are_unchanged(found: RuntimeAsFound) -> Iterator[Found]:
    """No file that a start of the runtime reads was changed after its process started."""
    if found.changed and _a_restart_helps(found):
        yield f"{named(found.changed, 3)}: changed after {found.unit.name} was started; {_restart_first(found)}"


@check(Reason.RUNTIME_CONFIGURATION_DRIFT, Hazard.RUNTIME_CHANGES)
def runtime_program_is_unchanged(found: RuntimeAsFound) -> Iterator[Found]:
    """The runtime's program on disk is the one that runs, byte for byte; two builds may report the same version."""
    running = None if found.process is None else found.process.program
    if (running is None or running != found.program) and _a_restart_helps(found):
        yield f"{found.unit.program or 'its program'} is not the program that runs; {_restart_first(found)}"


def _restart_first(found: RuntimeAsFound) -> str:
    return f"restart {found.unit.name} at a time of your choice first"


def _a_restart_helps(found: RuntimeAsFound) -> bool:
    """Report whether a restart is a remedy: where it would do harm, only that is reported."""
    harm = (
        runtime_is_the_unit,
        runtime_configuration_is_valid,
        runtime_keeps_its_directories,
        runtime_keeps_its_cgroup_driver,
    )
    return found.restartable and not ask(harm, found)
