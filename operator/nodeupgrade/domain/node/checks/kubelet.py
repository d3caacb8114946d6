"""Checks of the running kubelet and of the program that replaces it."""

from collections.abc import Iterator

from nodeupgrade.api.limits import shorten
from nodeupgrade.api.reasons import Reason, Severity
from nodeupgrade.api.run_settings import GuardPolicy
from nodeupgrade.domain.check import Check, check
from nodeupgrade.domain.hazards import Finding, Hazard
from nodeupgrade.domain.node.checks.facts import NodeFacts
from nodeupgrade.kubelet.flags import complaint
from nodeupgrade.kubelethash import UnsupportedKubelet, era_of

FREE_BYTES = 64 * 1024 * 1024


@check(Reason.UNSUPPORTED_SERVICE_MANAGER, covers=(Hazard.KUBELET_NOT_A_SERVICE,), acceptable=False)
def kubelet_is_managed(facts: NodeFacts) -> Iterator[Finding]:
    """The kubelet runs as a systemd service, and its program file is still in place."""
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


@check(
    Reason.UNSUPPORTED_VERSION,
    Reason.ALREADY_AT_TARGET,
    Reason.DOWNGRADE_NOT_ALLOWED,
    covers=(Hazard.PAIR_UNKNOWN,),
    acceptable=False,
)
def versions_are_known(facts: NodeFacts) -> Iterator[Finding]:
    """Both kubelet versions are supported, and the target is newer, or older where ``allowDowngrade`` permits it."""
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
    elif facts.target < current and not facts.spec.allow_downgrade:
        detail = f"{facts.target} is older than the node's {current}; set allowDowngrade: true if that is meant"
        yield Finding(reason=Reason.DOWNGRADE_NOT_ALLOWED, detail=detail)


@check(
    Reason.ARTIFACT_UNAVAILABLE,
    Reason.DIGEST_MISMATCH,
    Reason.INSUFFICIENT_SPACE,
    Reason.WRONG_VERSION_REPORTED,
    Reason.KUBELET_FLAGS_REJECTED,
    covers=(Hazard.PROGRAM_WRONG, Hazard.FLAG_REJECTED),
    acceptable=False,
)
def program_is_as_promised(facts: NodeFacts) -> Iterator[Finding]:
    """The new program is a binary with the specified digest, runs here, reports the target and accepts the flags."""
    kubelet, promised = facts.kubelet, facts.spec.artifact.sha256
    if kubelet.missing is not None:
        yield kubelet.missing
    elif promised and kubelet.after != promised:
        detail = f"the staged kubelet has SHA-256 {kubelet.after}, the NodeUpgrade promises {promised}"
        yield Finding(reason=Reason.DIGEST_MISMATCH, detail=detail)
    elif kubelet.staged_version != str(facts.target):
        said = (
            kubelet.staged_version or f"nothing usable ({shorten(kubelet.staged_output.strip(), 120) or 'no output'})"
        )
        detail = f"asked for its version, the staged kubelet says {said}, not {facts.target}"
        yield Finding(reason=Reason.WRONG_VERSION_REPORTED, detail=detail)
    elif not kubelet.staged_is_elf:
        detail = "the staged kubelet is a script: what it would start cannot be verified"
        remedy = "point spec.artifact at the kubelet binary itself"
        yield Finding(reason=Reason.ARTIFACT_UNAVAILABLE, detail=detail, remedy=remedy)
    elif kubelet.arguments_status != 0:
        detail = (
            f"kubelet {facts.target} does not accept the node's command line: "
            f"{shorten(complaint(kubelet.arguments_output), 160)}; "
            "change the flags on the node, list them in spec.kubelet.removeFlags, or set flagPolicy: Strip"
        )
        yield Finding(reason=Reason.KUBELET_FLAGS_REJECTED, detail=detail)


@check(Reason.KUBELET_FLAGS_REJECTED, covers=(Hazard.FLAG_REJECTED,), acceptable=False)
def arguments_can_be_changed(facts: NodeFacts) -> Iterator[Finding]:
    """Where flags have to be removed, the unit starts the kubelet directly, so that a drop-in can remove them.

    A link to the kubelet is the kubelet.
    """
    kubelet = facts.kubelet
    if kubelet.arguments.removed and (kubelet.started is None or kubelet.started != kubelet.program):
        flags = ", ".join(kubelet.arguments.removed)
        detail = (
            f"{flags} must go for {facts.target}, but unit {kubelet.unit.name} starts {kubelet.unit.program or '?'} "
            f"rather than {kubelet.program}; remove them where that program takes them from"
        )
        yield Finding(reason=Reason.KUBELET_FLAGS_REJECTED, detail=detail)


@check(Reason.INSUFFICIENT_SPACE, covers=(Hazard.DISK_FULL,), acceptable=False)
def there_is_space(facts: NodeFacts) -> Iterator[Finding]:
    """With the new program staged, there is still free space for the journal and for the kubelet."""
    for what, free in (
        ("the kubelet's program lies", facts.kubelet.free_bytes),
        ("the journal is kept", facts.state_free_bytes),
    ):
        if free < FREE_BYTES:
            detail = f"only {free // 1024**2} MiB are free where {what}; {FREE_BYTES // 1024**2} MiB are needed"
            yield Finding(reason=Reason.INSUFFICIENT_SPACE, detail=detail)


@check(Reason.UNSUPPORTED_SERVICE_MANAGER, acceptable=False)
def health_can_be_asked(facts: NodeFacts) -> Iterator[Finding]:
    """The kubelet serves its health endpoint, so that the health of the new one can be determined."""
    if facts.readiness.layout.healthz_url is None:
        detail = "the kubelet's healthz port is switched off, so nobody could tell whether the new one is well"
        yield Finding(reason=Reason.UNSUPPORTED_SERVICE_MANAGER, detail=detail)


def _unusable(facts: NodeFacts) -> str:
    identity = facts.readiness.host.identity
    return "" if identity is None else identity.unusable


def _needs_guard(facts: NodeFacts) -> bool:
    return facts.spec.verify.readiness_guard is GuardPolicy.REQUIRE and facts.spec.guard.wanted


@check(Reason.READINESS_GUARD_UNAVAILABLE, acceptable=False)
def required_guard_can_be_confirmed(facts: NodeFacts) -> Iterator[Finding]:
    """Where the readiness guard is required, the kubelet's credentials can be used to confirm that it is in force."""
    if _needs_guard(facts) and (why := _unusable(facts)):
        detail = f"the readiness guard cannot be confirmed with the kubelet's credentials, since in {why}"
        yield Finding(reason=Reason.READINESS_GUARD_UNAVAILABLE, detail=detail)


@check(Reason.READINESS_GUARD_UNAVAILABLE, covers=(Hazard.ENDPOINTS_LOST,), acceptable=False)
def credentials_can_be_used(facts: NodeFacts) -> Iterator[Finding]:
    """The kubelet's credentials can be used to confirm the readiness guard, and to renew the node's Lease meanwhile."""
    if (why := _unusable(facts)) and not _needs_guard(facts):
        detail = (
            f"the kubelet's credentials cannot be used, since in {why}: the readiness guard counts as not in force, "
            "nobody renews the node's Lease while no kubelet runs, and claims of volumes cannot be read"
        )
        remedy = "expect that pods are reported unready for a moment; give the kubelet a client certificate to avoid it"
        yield Finding(reason=Reason.READINESS_GUARD_UNAVAILABLE, detail=detail, severity=Severity.WARN, remedy=remedy)


WARNINGS: tuple[Check[NodeFacts], ...] = (credentials_can_be_used,)
CHECKS: tuple[Check[NodeFacts], ...] = (
    kubelet_is_managed,
    versions_are_known,
    program_is_as_promised,
    arguments_can_be_changed,
)
