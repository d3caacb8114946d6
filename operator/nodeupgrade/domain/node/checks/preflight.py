"""May this node be touched? A chain of named checks over what was gathered on the node.

Each check yields what speaks against it. Nothing is changed before all of them are silent.
"""

from collections.abc import Callable, Iterator
from typing import TypeAlias

from nodeupgrade.api.reasons import Reason
from nodeupgrade.domain.finding import Finding
from nodeupgrade.domain.node.checks import unit_commands
from nodeupgrade.domain.node.checks.facts import NodeFacts
from nodeupgrade.domain.node.checks.readiness import unready
from nodeupgrade.domain.node.checks.runtime_drift import drift
from nodeupgrade.domain.node.checks.survival import (
    nothing_is_resized,
    pods_keep_their_cgroup,
    pods_survive_a_restart,
    runtime_holds_the_pods,
    sandboxes_are_sound,
    stored_is_served,
)
from nodeupgrade.domain.node.checks.traffic import objections
from nodeupgrade.kubelet import history
from nodeupgrade.kubelet.flags import complaint
from nodeupgrade.kubelethash import UnsupportedKubelet, era_of

FREE_BYTES = 64 * 1024 * 1024

Check: TypeAlias = Callable[[NodeFacts], Iterator[Finding]]


def preflight(facts: NodeFacts, *more: Check) -> tuple[Finding, ...]:
    """Run every check; an empty answer permits the upgrade."""
    return tuple(finding for check in (*CHECKS, *more) for finding in check(facts))


def kubelet_is_managed(facts: NodeFacts) -> Iterator[Finding]:
    """The kubelet runs as a systemd service of its own program file."""
    unit = facts.kubelet.unit
    if unit.load_state != "loaded" or not unit.running:
        detail = f"unit {unit.name} is {unit.load_state} and {unit.active_state}; the kubelet must run as this unit"
        yield Finding(reason=Reason.UNSUPPORTED_SERVICE_MANAGER, detail=detail)
    elif facts.kubelet.program is None:
        detail = "the program of the running kubelet was deleted or replaced on disk; restart the kubelet first"
        yield Finding(reason=Reason.UNSUPPORTED_SERVICE_MANAGER, detail=detail)
    elif facts.kubelet.current is None:
        detail = f"{facts.kubelet.program} does not say which kubelet version it is"
        yield Finding(reason=Reason.UNSUPPORTED_SERVICE_MANAGER, detail=detail)


def versions_are_known(facts: NodeFacts) -> Iterator[Finding]:
    """Both versions' hashes are known, and the step is one that was asked for."""
    current = facts.kubelet.current
    for version in (current, facts.target):
        try:
            if version is not None:
                era_of(version)
        except UnsupportedKubelet as error:
            yield Finding(reason=Reason.UNSUPPORTED_VERSION, detail=str(error))
    if current is None:
        return
    if current == facts.target:
        yield Finding(reason=Reason.ALREADY_AT_TARGET, detail=f"the kubelet is {current} already")
    elif facts.target < current and not facts.allow_downgrade:
        detail = f"{facts.target} is older than the node's {current}; set allowDowngrade: true if that is meant"
        yield Finding(reason=Reason.DOWNGRADE_NOT_ALLOWED, detail=detail)


def program_is_as_promised(facts: NodeFacts) -> Iterator[Finding]:
    """The new program has the promised digest, runs here, and is the version it should be."""
    kubelet = facts.kubelet
    if kubelet.missing is not None:
        yield kubelet.missing
    elif facts.promised is not None and kubelet.after != facts.promised:
        detail = f"the staged kubelet has SHA-256 {kubelet.after}, the NodeUpgrade promises {facts.promised}"
        yield Finding(reason=Reason.DIGEST_MISMATCH, detail=detail)
    elif kubelet.staged_version != str(facts.target):
        said = kubelet.staged_version or f"nothing usable ({kubelet.staged_output.strip()[:120] or 'no output'})"
        detail = f"asked for its version, the staged kubelet says {said}, not {facts.target}"
        yield Finding(reason=Reason.WRONG_VERSION_REPORTED, detail=detail)
    elif kubelet.arguments_status != 0:
        detail = (
            f"kubelet {facts.target} does not accept the node's command line: "
            f"{complaint(kubelet.arguments_output)[:160]}; "
            "change the flags on the node, list them in spec.kubelet.removeFlags, or set flagPolicy: Strip"
        )
        yield Finding(reason=Reason.KUBELET_FLAGS_REJECTED, detail=detail)


def arguments_can_be_changed(facts: NodeFacts) -> Iterator[Finding]:
    """Where flags have to go, the unit starts the program directly, so that a drop-in can replace its line."""
    kubelet = facts.kubelet
    if kubelet.arguments.removed and kubelet.unit.program != kubelet.program:
        flags = ", ".join(kubelet.arguments.removed)
        detail = (
            f"{flags} must go for {facts.target}, but unit {kubelet.unit.name} starts {kubelet.unit.program or '?'} "
            f"rather than {kubelet.program}; remove them where that program takes them from"
        )
        yield Finding(reason=Reason.KUBELET_FLAGS_REJECTED, detail=detail)


def runtime_is_restartable(facts: NodeFacts) -> Iterator[Finding]:
    """The runtime is one whose stored hashes can be rewritten, and restarting it leaves containers alone."""
    runtime, unit = facts.runtime, facts.runtime_unit
    if not _is_as_expected(facts):
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
    if history.CRI_V1_REQUIRED.applies_to(facts.target) and "v1" not in runtime.cri_versions:
        detail = f"kubelet {facts.target} needs CRI v1, {runtime.name} {runtime.version} does not serve it"
        yield Finding(reason=Reason.UNSUPPORTED_RUNTIME, detail=detail)


def _is_as_expected(facts: NodeFacts) -> bool:
    """Whether the runtime that answers is of the kind that the node is said to have, and was looked at as."""
    return facts.runtime.name == facts.runtime_found.name


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


def runtime_comes_back(facts: NodeFacts) -> Iterator[Finding]:
    """What answers is what would be restarted, and it would come back as it runs: see domain.runtime_drift."""
    if _is_as_expected(facts):
        yield from drift(facts.runtime_found)


def units_start_nothing_else(facts: NodeFacts) -> Iterator[Finding]:
    """Nothing is run beside the two programs that might change what a run depends on."""
    for unit in (facts.kubelet.unit, facts.runtime_unit):
        yield from unit_commands.objections(unit)


def there_is_space(facts: NodeFacts) -> Iterator[Finding]:
    """With the new program staged there is still room for the journal and for what the kubelet itself writes."""
    for what, free in (
        ("the kubelet's program lies", facts.kubelet.free_bytes),
        ("the journal is kept", facts.state_free_bytes),
    ):
        if free < FREE_BYTES:
            detail = f"only {free // 1024**2} MiB are free where {what}; {FREE_BYTES // 1024**2} MiB are needed"
            yield Finding(reason=Reason.INSUFFICIENT_SPACE, detail=detail)


def node_is_ready(facts: NodeFacts) -> Iterator[Finding]:
    """The new kubelet would start: see readiness."""
    if _is_as_expected(facts):
        yield from unready(facts.readiness)


def runtime_survives_a_restart(facts: NodeFacts) -> Iterator[Finding]:
    """The runtime is none that is known to lose something when it is restarted, nor too busy for it."""
    if _is_as_expected(facts):
        yield from facts.hazards.runtime


def clients_are_served(facts: NodeFacts) -> Iterator[Finding]:
    """No probe makes the new kubelet kill a container, and no Service loses its last endpoint: see domain.traffic."""
    yield from objections(facts.traffic)


CHECKS: tuple[Check, ...] = (
    kubelet_is_managed,
    versions_are_known,
    program_is_as_promised,
    arguments_can_be_changed,
    runtime_is_restartable,
    runtime_comes_back,
    units_start_nothing_else,
    stored_is_served,
    runtime_holds_the_pods,
    sandboxes_are_sound,
    pods_survive_a_restart,
    pods_keep_their_cgroup,
    nothing_is_resized,
    there_is_space,
    node_is_ready,
    runtime_survives_a_restart,
    clients_are_served,
)
