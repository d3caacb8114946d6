"""Checks of the container runtime: may it be restarted? Whether it would come back as it runs: ``drift.runtime``."""

from collections.abc import Iterator

from nodeupgrade.api.reasons import Reason, Severity
from nodeupgrade.api.run_settings import ShieldPolicy
from nodeupgrade.domain.check import Check, check, check_one
from nodeupgrade.domain.hazards import Finding, Hazard
from nodeupgrade.domain.node.checks.facts import NodeFacts
from nodeupgrade.kubelet import built_in_runtime, history


@check(
    Reason.UNSUPPORTED_RUNTIME,
    follows=(history.CRI_V1_REQUIRED, built_in_runtime.REMOVED),
    covers=(Hazard.RUNTIME_API_TOO_OLD,),
    acceptable=False,
)
def runtime_is_understood(facts: NodeFacts) -> Iterator[Finding]:
    """The new kubelet can talk to the runtime: by itself where the old one does, or by a CRI that both know."""
    runtime = facts.runtime
    if facts.readiness.layout.built_in:
        if objection := built_in_runtime.objection(facts.target):
            yield Finding(reason=Reason.UNSUPPORTED_RUNTIME, detail=objection)
    elif (
        is_as_expected(facts) and history.CRI_V1_REQUIRED.applies_to(facts.target) and "v1" not in runtime.cri_versions
    ):
        detail = f"kubelet {facts.target} needs CRI v1, {runtime.name} {runtime.version} does not serve it"
        yield Finding(reason=Reason.UNSUPPORTED_RUNTIME, detail=detail)


@check_one(Reason.RUNTIME_UNPROVEN, covers=(Hazard.RUNTIME_CHANGES,))
def runtime_is_proven(facts: NodeFacts) -> Finding | None:
    """This program has been run on real nodes with this version of the runtime."""
    if not is_as_expected(facts) or not (untried := facts.runtime_found.unproven):
        return None
    return Finding(reason=Reason.RUNTIME_UNPROVEN, detail=f"{facts.runtime.name} {facts.runtime.version}: {untried}")


@check(
    Reason.UNSUPPORTED_RUNTIME,
    covers=(Hazard.RUNTIME_CHANGES, Hazard.UNITS_BOUND),
    acceptable=False,
)
def runtime_is_restartable(facts: NodeFacts) -> Iterator[Finding]:
    """The runtime is supported, and restarting it restarts neither containers nor other services."""
    runtime, unit = facts.runtime, facts.runtime_unit
    if not is_as_expected(facts):
        detail = f"the runtime is {runtime.name} {runtime.version}; only {facts.runtime_found.name} is supported"
        yield Finding(reason=Reason.UNSUPPORTED_RUNTIME, detail=detail)
        return
    if not unit.running:
        detail = f"{runtime.name} does not run as unit {unit.name} ({unit.load_state}, {unit.active_state})"
        yield Finding(reason=Reason.UNSUPPORTED_RUNTIME, detail=detail)
    else:
        yield from facts.hazards.unit
    yield from _nothing_else_restarts(facts)
    if runtime.binary_version is not None and runtime.binary_version != runtime.version:
        detail = (
            f"{runtime.name} {runtime.version} runs, but {runtime.binary_version} is installed: a restart would be "
            "an upgrade of the runtime; restart it at a time of your choice first"
        )
        yield Finding(reason=Reason.UNSUPPORTED_RUNTIME, detail=detail)


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


def _nothing_else_restarts(facts: NodeFacts) -> Iterator[Finding]:
    others = [
        name for name in facts.runtime_unit.bound_by if name.endswith(".service") and name != facts.kubelet.unit.name
    ]
    if others:
        detail = (
            f"{', '.join(others)} would be restarted together with {facts.runtime_unit.name}; "
            "remove that dependency, or stop these services first"
        )
        yield Finding(reason=Reason.UNSUPPORTED_RUNTIME, detail=detail)


@check(
    Reason.UNSUPPORTED_RUNTIME,
    Reason.RUNTIME_NOT_READY,
    covers=(Hazard.RUNTIME_LOSES_STATE, Hazard.RUNTIME_STOPS_LATE),
    acceptable=False,
)
def runtime_survives_a_restart(facts: NodeFacts) -> Iterator[Finding]:
    """The runtime has no version that is known to lose state in a restart, and nothing keeps it from one now."""
    if is_as_expected(facts):
        yield from facts.hazards.runtime


@check_one(Reason.SHIELD_UNAVAILABLE, acceptable=False)
def required_shield_is_possible(facts: NodeFacts) -> Finding | None:
    """The runtime's socket can be shielded where ``verify.shield: Require`` is set."""
    if facts.spec.verify.shield is not ShieldPolicy.REQUIRE or not (obstacle := _shield_obstacle(facts)):
        return None
    return Finding(reason=Reason.SHIELD_UNAVAILABLE, detail=f"verify.shield: Require is set, but {obstacle}")


@check_one(Reason.SHIELD_UNAVAILABLE)
def shield_is_possible(facts: NodeFacts) -> Finding | None:
    """The runtime's socket can be shielded, unless ``verify.shield: Off`` is set."""
    if facts.spec.verify.shield is not ShieldPolicy.AUTO or not (obstacle := _shield_obstacle(facts)):
        return None
    detail = f"a kubelet that wants to end a container can only be noticed, not prevented: {obstacle}"
    return Finding(reason=Reason.SHIELD_UNAVAILABLE, detail=detail, severity=Severity.WARN)


def _shield_obstacle(facts: NodeFacts) -> str:
    return facts.socket.obstacle if is_as_expected(facts) else ""


CHECKS: tuple[Check[NodeFacts], ...] = (runtime_is_restartable, runtime_is_proven)
WARNINGS: tuple[Check[NodeFacts], ...] = (shield_is_possible,)
