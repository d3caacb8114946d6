"""Checks of the container runtime: may it be restarted? For its drift, see ``runtime_drift``."""

from collections.abc import Iterator

from nodeupgrade.api.reasons import Reason
from nodeupgrade.api.run_settings import ShieldPolicy
from nodeupgrade.findings.check import Found, check
from nodeupgrade.findings.hazards import Hazard
from nodeupgrade.node.checks.facts import NodeFacts


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
    Reason.POD_EXPECTED_TO_END,
    Hazard.LOG_ELSEWHERE,
    warns=True,
    remedy="remove StandardOutput, StandardError and LogNamespace from the unit; restart it at a time of your choice",
)
def logs_are_in_the_journal(facts: NodeFacts) -> Iterator[Found]:
    """The log of the runtime is in the node's journal, which is the evidence that a container ended by itself."""
    if output := facts.runtime_unit.output:
        yield (
            f"{facts.runtime_unit.name} has {output}, so its log is not in the node's journal, and nothing shows "
            "whether a container that ends during the run has ended by itself: it counts as restarted and rolls the "
            "run back"
        )


def _shield_obstacle(facts: NodeFacts) -> str:
    return facts.socket.obstacle if is_as_expected(facts) else ""
