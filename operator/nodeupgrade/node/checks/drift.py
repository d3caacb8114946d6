"""Detect drift of the kubelet: differences between the running process and its next start.

The evidence, in this order: the configuration that the kubelet reports at ``/configz``, its command line and its
environment. For everything else that a start reads, and for what these leave open, modification times decide.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime

from nodeupgrade.api.json import Json
from nodeupgrade.api.reasons import Reason
from nodeupgrade.api.run_settings import DriftPolicy
from nodeupgrade.findings.check import Found, check
from nodeupgrade.findings.hazards import Hazard
from nodeupgrade.node.checks.kubelet_start import Command, FileRole, ReadAtStart, Start, command, other_variables
from nodeupgrade.node.checks.running_configuration import compare
from nodeupgrade.text import words


@dataclass(frozen=True, slots=True, kw_only=True)
class Discrepancy:
    """One respect in which the kubelet would not start as it runs."""

    detail: str  # a sentence that names file, key and both values, but no value that may be a secret
    # whether ``kubelet.configurationDrift: Accept`` covers it; not if it is unknown how the kubelet would start
    acceptable: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Drift:
    """Every respect in which the kubelet would not start as it runs."""

    policy: DriftPolicy = DriftPolicy.REFUSE
    discrepancies: tuple[Discrepancy, ...] = ()
    # the arguments of the next start, without the program, if they differ; otherwise None
    words: tuple[str, ...] | None = None
    gates: Mapping[str, bool] | None = None  # the feature gates that are set in the running kubelet; None if unknown


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
        *(_changed(file, start) for file in start.changed_since(FileRole.OTHER)),
    )
    differs = expected.words is not None and not start.has_words(expected.words)
    return Drift(
        policy=policy,
        discrepancies=discrepancies,
        words=expected.words[1:] if expected.words and differs else None,
        gates=None if start.running is None else _gates(start.running),
    )


def _gates(running: Json) -> Mapping[str, bool]:
    """Return the feature gates that a kubelet reports as set, in its configuration or by flags."""
    gates = running.get("featureGates")
    return {str(name): on is True for name, on in gates.items()} if isinstance(gates, Mapping) else {}


@check(
    Reason.CONFIGURATION_DRIFT,
    Hazard.COMMAND_LINE_DRIFTED,
    Hazard.CONFIGURATION_DRIFTED,
    Hazard.CGROUP_ROOT_CHANGES,
    Hazard.DIRECTORIES_CHANGE,
    acceptable=False,
)
def kubelet_starts_as_it_runs(drift: Drift) -> Iterator[Found]:
    """The kubelet would start as it runs, except for what ``kubelet.configurationDrift: Accept`` accepts."""
    for discrepancy in drift.discrepancies:
        if drift.policy is DriftPolicy.REFUSE or not discrepancy.acceptable:
            remedy = (
                Reason.CONFIGURATION_DRIFT.remedy
                if discrepancy.acceptable
                else "restart the kubelet at a time of your choice first"
            )
            yield f"{discrepancy.detail}; {remedy}"


@check(Reason.CONFIGURATION_DRIFT, Hazard.CONFIGURATION_DRIFTED, warns=True)
def nothing_is_accepted(drift: Drift) -> str | None:
    """No drift was accepted by ``kubelet.configurationDrift: Accept``."""
    accepted = [discrepancy.detail for discrepancy in drift.discrepancies if discrepancy.acceptable]
    if drift.policy is DriftPolicy.REFUSE or not accepted:
        return None
    return (
        "kubelet.configurationDrift is Accept: the new kubelet starts with a configuration that the old one does not "
        "run with, and after a rollback so does the old one, which may then behave differently: "
        f"{_some(accepted, '; ')}"
    )


def _configuration_changes(start: Start) -> Iterator[Discrepancy]:
    """Compare with the configuration that the kubelet reports; modification times decide only what that leaves open."""
    newer = start.changed_since(FileRole.CONFIGURATION)
    if start.running is None:
        why = f" (its running configuration could not be read: {start.why_not_asked})" if start.why_not_asked else ""
        yield from (_changed(file, start, why) for file in newer)
        return
    different, unclear = compare(start.settings, start.running)
    if different:
        source = start.settings.flag("config") or "its configuration"
        yield Discrepancy(detail=f"{source} differs from the running configuration: {_some(different)}")
    elif unclear:
        why = f", and these could not be compared with the running configuration: {_some(unclear)}"
        yield from (_changed(file, start, why) for file in newer)


def _command_changes(start: Start, expected: Command) -> Iterator[Discrepancy]:
    if expected.words is None or start.has_words(expected.words):
        return
    new, old = words(" ".join(expected.words)), words(" ".join(start.words))
    more, less = [word for word in new if word not in old], [word for word in old if word not in new]
    parts = [
        *(f"with {_without_secret(word)}" for word in more),
        *(f"without {_without_secret(word)}" for word in less),
    ]
    how = _some(parts) if parts else "with its flags in another order"
    yield Discrepancy(
        detail=f"{start.unit.name} would start the kubelet with a different command line than it runs with: {how}"
    )


def _environment_changes(start: Start, expected: Command) -> Iterator[Discrepancy]:
    if expected.missing is not None:
        detail = f"{expected.missing}, which {start.unit.name} needs to start, does not exist"
        yield Discrepancy(detail=detail, acceptable=False)
        return
    if expected.environment is None:
        yield from _not_acceptable(start, FileRole.ENVIRONMENT)
        return
    known = expected.words is not None
    compared = words(start.unit.start_line) if known else []  # the command line, which is compared separately
    names = [name for name in other_variables(start, expected.environment) if f"${name}" not in compared]
    if names:
        # Values may be secrets, so only names are reported.
        yield Discrepancy(
            detail=f"{start.unit.name} would start the kubelet with other environment variables: {_some(names)}"
        )
    elif not known:
        yield from _not_acceptable(start, FileRole.ENVIRONMENT)


def _unit_changes(start: Start, expected: Command) -> Iterator[Discrepancy]:
    """Report unit files that were changed: apart from command line and environment, settings cannot be compared.

    A removed drop-in that set neither of the two is not looked for.
    """
    if expected.words is None or expected.environment is None:
        yield from _not_acceptable(start, FileRole.UNIT, FileRole.DROP_INS)
    else:
        yield from (_changed(file, start) for file in start.changed_since(FileRole.UNIT))


def _identity_changes(start: Start) -> Iterator[Discrepancy]:
    """Report a changed kubeconfig, unless the API server accepts it as this node's."""
    if start.known_to_server:
        return
    why = "" if start.known_to_server is None else ", and the API server does not accept it as this node's"
    yield from (_changed(file, start, why) for file in start.changed_since(FileRole.IDENTITY))


def _not_acceptable(start: Start, *kinds: FileRole) -> Iterator[Discrepancy]:
    """Report changes that cannot be accepted either, since nothing can show how the kubelet would start with them."""
    why = f", and it is unknown with which command line {start.unit.name} would start the kubelet"
    for file in start.changed_since(*kinds):
        yield Discrepancy(detail=_changed(file, start, why).detail, acceptable=False)


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
