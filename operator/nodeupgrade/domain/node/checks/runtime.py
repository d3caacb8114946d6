"""Checks of the container runtime: may it be restarted? Whether it would come back as it runs: ``drift.runtime``."""

from collections.abc import Iterator

from nodeupgrade.api.reasons import Reason
from nodeupgrade.api.run_settings import ShieldPolicy
from nodeupgrade.domain.check import Found, ask, check
from nodeupgrade.domain.hazards import Finding, Hazard, named
from nodeupgrade.domain.node.checks.facts import NodeFacts
from nodeupgrade.domain.node.runtime import RuntimeAsFound


@check(Reason.UNSUPPORTED_RUNTIME, Hazard.RUNTIME_CHANGES, Hazard.UNITS_BOUND, acceptable=False)
def runtime_is_restartable(facts: NodeFacts) -> Iterator[Found]:
    """The runtime is supported, and restarting it restarts neither containers nor other services."""
    runtime, unit = facts.runtime, facts.runtime_unit
    if not is_as_expected(facts):
        yield f"the runtime is {runtime.name} {runtime.version}; only {facts.runtime_found.name} is supported"
        return
    if not unit.running:
        yield f"{runtime.name} does not run as unit {unit.name} ({unit.load_state}, {unit.active_state})"
    else:
        yield from facts.hazards.unit
    if others := [name for name in unit.bound_by if name.endswith(".service") and name != facts.kubelet.unit.name]:
        yield (
            f"{', '.join(others)} would be restarted together with {unit.name}; "
            "remove that dependency, or stop these services first"
        )
    if runtime.binary_version is not None and runtime.binary_version != runtime.version:
        yield (
            f"{runtime.name} {runtime.version} runs, but {runtime.binary_version} is installed: a restart would be "
            "an upgrade of the runtime; restart it at a time of your choice first"
        )


@check(Reason.RUNTIME_UNPROVEN, Hazard.RUNTIME_CHANGES)
def runtime_is_proven(facts: NodeFacts) -> Found | None:
    """This program has been run on real nodes with this version of the runtime."""
    if not is_as_expected(facts) or not (untried := facts.runtime_found.unproven):
        return None
    return f"{facts.runtime.name} {facts.runtime.version}: {untried}"


def is_as_expected(facts: NodeFacts) -> bool:
    """Report whether the runtime that answers is of the kind that the facts were gathered for."""
    return facts.runtime.name == facts.runtime_found.name


def is_restarted(facts: NodeFacts) -> bool:
    """Report whether it runs as its unit, so that a restart of the unit restarts it."""
    return is_as_expected(facts) and facts.runtime_found.unit.running


def may_be_restarted(facts: NodeFacts) -> bool:
    """Report whether a restart is known to do no harm, so that it can be recommended."""
    harmful = any(each.reason is Reason.UNSUPPORTED_RUNTIME for each in facts.hazards.runtime)
    return is_restarted(facts) and not harmful


@check(
    Reason.UNSUPPORTED_RUNTIME,
    Reason.RUNTIME_NOT_READY,
    Hazard.RUNTIME_LOSES_STATE,
    Hazard.RUNTIME_STOPS_LATE,
    acceptable=False,
)
def runtime_survives_a_restart(facts: NodeFacts) -> Iterator[Found]:
    """The runtime has no version that is known to lose state in a restart, and nothing keeps it from one now."""
    if is_as_expected(facts):
        yield from facts.hazards.runtime


@check(Reason.SHIELD_UNAVAILABLE, acceptable=False)
def required_shield_is_possible(facts: NodeFacts) -> Found | None:
    """The runtime's socket can be shielded where ``verify.shield: Require`` is set."""
    if facts.spec.verify.shield is not ShieldPolicy.REQUIRE or not (obstacle := _shield_obstacle(facts)):
        return None
    return f"verify.shield: Require is set, but {obstacle}"


@check(Reason.SHIELD_UNAVAILABLE, warns=True)
def shield_is_possible(facts: NodeFacts) -> Found | None:
    """The runtime's socket can be shielded, unless ``verify.shield: Off`` is set."""
    if facts.spec.verify.shield is not ShieldPolicy.AUTO or not (obstacle := _shield_obstacle(facts)):
        return None
    return f"a kubelet that wants to end a container can only be noticed, not prevented: {obstacle}"


@check(
    Reason.POD_ENDS_BY_ITSELF,
    Hazard.LOG_ELSEWHERE,
    warns=True,
    remedy="take StandardOutput, StandardError and LogNamespace out of the unit; restart it at a time of your choice",
)
def logs_are_in_the_journal(facts: NodeFacts) -> Iterator[Found]:
    """The log of the runtime is in the node's journal, which is the evidence that a container ended by itself."""
    if output := facts.runtime_unit.output:
        yield (
            f"{facts.runtime_unit.name} has {output}, so its log is not in the node's journal, and nothing shows "
            "whether a container that ends during the run has ended by itself: it counts as restarted and turns the "
            "run back"
        )


def _shield_obstacle(facts: NodeFacts) -> str:
    return facts.socket.obstacle if is_as_expected(facts) else ""


# Checks of the runtime's drift: differences between the running process and its next start.
#
# A restart applies every change since the last one: a configuration that the runtime cannot read leaves the node
# without a runtime; another root directory leaves it with a runtime that knows none of the running containers.


@check(Reason.UNSUPPORTED_RUNTIME, Hazard.RUNTIME_CHANGES, acceptable=False)
def runtime_is_the_unit(found: RuntimeAsFound) -> Iterator[Found]:
    """The process that serves the kubelet's socket is the one that a restart of the unit replaces."""
    process, unit = found.process, found.unit
    if process is None:
        yield (f"nobody can tell which process answers on the runtime's socket, so that {unit.name} may be another one")
    elif process.pid != unit.main_pid:
        owner = f" of {found.owner}" if found.owner else ""
        yield (
            f"the runtime's socket is answered by process {process.pid}{owner}, but {unit.name}, whose main process "
            f"is {unit.main_pid}, is what would be restarted; only a {found.name} that runs as {unit.name} is supported"
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
    """The runtime's program on disk reads its configuration without an error."""
    if found.next.unknown:
        detail = (
            f"it could not be found out whether {found.unit.name} would come back from a restart: {found.next.unknown}"
        )
        remedy = "see to it that the node is less busy; it is examined again by itself"
        yield Finding(reason=Reason.RUNTIME_DID_NOT_ANSWER, detail=detail, remedy=remedy)
    elif found.next.places is None:
        yield (
            f"{found.unit.name} would not come back from a restart, or nobody knows how: {found.next.complaint}; "
            "correct that first"
        )


@check(Reason.RUNTIME_CONFIGURATION_DRIFT, Hazard.RUNTIME_LOSES_STATE, acceptable=False)
def runtime_keeps_its_directories(found: RuntimeAsFound) -> Iterator[Found]:
    """The runtime would look for containers where they are, and listen on the socket that the kubelet uses."""
    if found.next.places is None:
        return
    if found.places is None:
        yield f"{found.unit.name} does not say where it keeps its containers, so nobody knows if they stay"
        return
    for name in ("root", "state", "address"):
        now, then = getattr(found.places, name), getattr(found.next.places, name)
        if now != then and (then or name != "address"):
            yield (
                f"{found.unit.name} runs with {name} {now} and would start with {then or 'none'}: it would know of no "
                "container that runs, or nobody would find it; put the setting back, and do not restart it before"
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
    harm = (runtime_is_the_unit, runtime_configuration_is_valid, runtime_keeps_its_directories)
    return found.restartable and not ask(harm, found)
