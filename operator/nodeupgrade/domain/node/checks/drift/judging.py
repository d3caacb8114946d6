"""Find every respect in which the kubelet's next start would differ from the running one, and report it."""

from collections.abc import Iterator
from datetime import UTC, datetime

from nodeupgrade.api.reasons import Reason, Severity
from nodeupgrade.api.shared.run_settings import DriftPolicy
from nodeupgrade.domain.check import Check, check
from nodeupgrade.domain.finding import Finding
from nodeupgrade.domain.hazards import Hazard
from nodeupgrade.domain.node.checks.drift.command import Command, command, other_variables, same_words
from nodeupgrade.domain.node.checks.drift.facts import Discrepancy, Drift, ReadAtStart, Start, Was
from nodeupgrade.domain.node.checks.drift.running import compare

NAMED = 3
"""At most this many keys, words or variables are named one by one."""


def find(start: Start, policy: DriftPolicy) -> Drift:
    """Find every respect in which the next start would differ."""
    expected = command(start)
    discrepancies = (
        *_configuration_changes(start),
        *_command_changes(start, expected),
        *_environment_changes(start, expected),
        *_unit_changes(start, expected),
        *_identity_changes(start),
        *(_changed(file, start) for file in start.changed_since(Was.OTHER)),
    )
    differs = expected.words is not None and not same_words(expected.words, start.words)
    return Drift(
        policy=policy, discrepancies=discrepancies, words=expected.words[1:] if expected.words and differs else None
    )


@check(
    Reason.CONFIGURATION_DRIFT,
    covers=(
        Hazard.COMMAND_LINE_DRIFTED,
        Hazard.CONFIGURATION_DRIFTED,
        Hazard.CGROUP_ROOT_CHANGES,
        Hazard.DIRECTORIES_CHANGE,
    ),
    acceptable=False,
)
def kubelet_starts_as_it_runs(drift: Drift) -> Iterator[Finding]:
    """The kubelet would start as it runs, except for what ``kubelet.configurationDrift: Accept`` accepts."""
    for discrepancy in drift.discrepancies:
        if drift.policy is DriftPolicy.REFUSE or not discrepancy.acceptable:
            remedy = (
                Reason.CONFIGURATION_DRIFT.remedy
                if discrepancy.acceptable
                else "restart the kubelet at a time of your choice first"
            )
            yield Finding(reason=Reason.CONFIGURATION_DRIFT, detail=f"{discrepancy.detail}; {remedy}")


@check(Reason.CONFIGURATION_DRIFT, covers=(Hazard.CONFIGURATION_DRIFTED,))
def nothing_is_accepted(drift: Drift) -> tuple[Finding, ...]:
    """No drift was accepted by ``kubelet.configurationDrift: Accept``."""
    accepted = [discrepancy.detail for discrepancy in drift.discrepancies if discrepancy.acceptable]
    if drift.policy is DriftPolicy.REFUSE or not accepted:
        return ()
    detail = (
        "kubelet.configurationDrift is Accept: the new kubelet starts with a configuration that the old one does not "
        "run with, and so would the old one on the way back, of which nobody knows whether it then behaves as it does "
        f"now: {_some(accepted, '; ')}"
    )
    return (Finding(severity=Severity.WARN, reason=Reason.CONFIGURATION_DRIFT, detail=detail),)


def _configuration_changes(start: Start) -> Iterator[Discrepancy]:
    """Compare with the configuration that the kubelet reports; modification times decide only what that leaves open."""
    newer = start.changed_since(Was.CONFIGURATION)
    if start.running is None:
        why = f" (what it runs with could not be asked: {start.why_not_asked})" if start.why_not_asked else ""
        yield from (_changed(file, start, why) for file in newer)
        return
    comparison = compare(start.settings, start.running)
    if comparison.different:
        source = start.settings.flag("config") or "its configuration"
        parts = [
            f"{each.key} is {each.disk} on disk and {each.running} in the running kubelet"
            for each in comparison.different
        ]
        yield Discrepancy(detail=f"{source} is not what runs: {_some(parts)}")
    elif comparison.unclear:
        why = f", and it cannot be shown that these are as they run: {_some(list(comparison.unclear))}"
        yield from (_changed(file, start, why) for file in newer)


def _command_changes(start: Start, expected: Command) -> Iterator[Discrepancy]:
    if expected.words is None or same_words(expected.words, start.words):
        return
    new, old = " ".join(expected.words).split(), " ".join(start.words).split()
    more, less = [word for word in new if word not in old], [word for word in old if word not in new]
    parts = [
        *(f"with {_without_secret(word)}" for word in more),
        *(f"without {_without_secret(word)}" for word in less),
    ]
    how = _some(parts) if parts else "with its flags in another order"
    yield Discrepancy(
        detail=f"{start.unit.name} would start the kubelet with another command line than it runs with: {how}"
    )


def _environment_changes(start: Start, expected: Command) -> Iterator[Discrepancy]:
    if expected.missing is not None:
        detail = f"{expected.missing}, which {start.unit.name} needs to start, is not there"
        yield Discrepancy(detail=detail, acceptable=False)
        return
    if expected.environment is None:
        yield from _not_acceptable(start, Was.ENVIRONMENT)
        return
    known = expected.words is not None
    names = [
        name for name in other_variables(start, expected.environment) if not (known and _is_in_command(start, name))
    ]
    if names:
        # Values may be secrets, so only names are reported.
        yield Discrepancy(detail=f"{start.unit.name} would start the kubelet with other variables: {_some(names)}")
    elif not known:
        yield from _not_acceptable(start, Was.ENVIRONMENT)


def _unit_changes(start: Start, expected: Command) -> Iterator[Discrepancy]:
    """Report unit files that were changed: apart from command line and environment, settings cannot be compared.

    A removed drop-in that set neither of the two cannot be distinguished from one of our own.
    """
    if expected.words is None or expected.environment is None:
        yield from _not_acceptable(start, Was.UNIT, Was.DROP_INS)
    else:
        yield from (_changed(file, start) for file in start.changed_since(Was.UNIT))


def _identity_changes(start: Start) -> Iterator[Discrepancy]:
    """Report a changed kubeconfig, unless the API server accepts it as this node's."""
    if start.known_to_server:
        return
    why = "" if start.known_to_server is None else ", and the API server does not take it for this node's"
    yield from (_changed(file, start, why) for file in start.changed_since(Was.IDENTITY))


def _not_acceptable(start: Start, *kinds: Was) -> Iterator[Discrepancy]:
    """Report changes that cannot be accepted either, since nothing can show how the kubelet would start with them."""
    why = f", and nobody can tell with which command line {start.unit.name} would start the kubelet"
    for file in start.changed_since(*kinds):
        yield Discrepancy(detail=_changed(file, start, why).detail, acceptable=False)


def _is_in_command(start: Start, name: str) -> bool:
    """Report whether a variable is used in the command line, which is compared separately."""
    return f"${name}" in start.unit.start_line.split()


def _changed(file: ReadAtStart, start: Start, why: str = "") -> Discrepancy:
    when, began = _timestamp(file.changed), _timestamp(start.started)
    return Discrepancy(detail=f"{file.path} was changed at {when}, after the kubelet was started at {began}{why}")


def _timestamp(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def _without_secret(word: str) -> str:
    """Return a word of a command line, without a value that may be a secret."""
    flag, equals, _ = word.partition("=")
    return f"{flag}=…" if equals and ("header" in flag or "token" in flag) else word


def _some(parts: list[str], separator: str = ", ") -> str:
    more = f"{separator}and {len(parts) - NAMED} more" if len(parts) > NAMED else ""
    return f"{separator.join(parts[:NAMED])}{more}"


CHECKS: tuple[Check[Drift], ...] = (kubelet_starts_as_it_runs,)
WARNINGS: tuple[Check[Drift], ...] = (nothing_is_accepted,)
