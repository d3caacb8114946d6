"""From what is known of the kubelet's start to everything in which its next one would differ."""

from collections.abc import Iterator
from datetime import UTC, datetime

from nodeupgrade.api.reasons import Reason, Severity
from nodeupgrade.api.run_settings import DriftPolicy
from nodeupgrade.domain.check import Check, check
from nodeupgrade.domain.finding import Finding
from nodeupgrade.domain.node.checks.drift.command import Command, command, other_variables, same_words
from nodeupgrade.domain.node.checks.drift.facts import Discrepancy, Drift, ReadAtStart, Start, Was
from nodeupgrade.domain.node.checks.drift.running import compare

NAMED = 3
"""Keys, words or variables that are named one by one."""


def find(start: Start, policy: DriftPolicy) -> Drift:
    """Find every respect in which the next start would be another one."""
    expected = command(start)
    discrepancies = (
        *_of_configuration(start),
        *_of_command(start, expected),
        *_of_environment(start, expected),
        *_of_units(start, expected),
        *_of_identity(start),
        *(_changed(file, start) for file in start.changed_since(Was.OTHER)),
    )
    differs = expected.words is not None and not same_words(expected.words, start.words)
    return Drift(
        policy=policy, discrepancies=discrepancies, words=expected.words[1:] if expected.words and differs else None
    )


@check(Reason.CONFIGURATION_DRIFT)
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


@check(Reason.CONFIGURATION_DRIFT)
def nothing_is_accepted(drift: Drift) -> tuple[Finding, ...]:
    """No change since the kubelet's start had to be accepted."""
    accepted = [discrepancy.detail for discrepancy in drift.discrepancies if discrepancy.acceptable]
    if drift.policy is DriftPolicy.REFUSE or not accepted:
        return ()
    detail = (
        "kubelet.configurationDrift is Accept: the new kubelet starts with a configuration that the old one does not "
        "run with, and so would the old one on the way back, of which nobody knows whether it then behaves as it does "
        f"now: {_some(accepted, '; ')}"
    )
    return (Finding(severity=Severity.WARN, reason=Reason.CONFIGURATION_DRIFT, detail=detail),)


def _of_configuration(start: Start) -> Iterator[Discrepancy]:
    """What the kubelet says decides where it does; only what that leaves open is told by times."""
    newer = start.changed_since(Was.CONFIGURATION)
    if start.running is None:
        why = f" (what it runs with could not be asked: {start.why_not_asked})" if start.why_not_asked else ""
        yield from (_changed(file, start, why) for file in newer)
        return
    found = compare(start.settings, start.running)
    if found.different:
        source = start.settings.flag("config") or "its configuration"
        told = [
            f"{each.key} is {each.disk} on disk and {each.running} in the running kubelet" for each in found.different
        ]
        yield Discrepancy(detail=f"{source} is not what runs: {_some(told)}")
    elif found.unclear:
        why = f", and it cannot be shown that these are as they run: {_some(list(found.unclear))}"
        yield from (_changed(file, start, why) for file in newer)


def _of_command(start: Start, expected: Command) -> Iterator[Discrepancy]:
    if expected.words is None or same_words(expected.words, start.words):
        return
    new, old = " ".join(expected.words).split(), " ".join(start.words).split()
    more, less = [word for word in new if word not in old], [word for word in old if word not in new]
    told = [*(f"with {_hidden(word)}" for word in more), *(f"without {_hidden(word)}" for word in less)]
    how = _some(told) if told else "with its flags in another order"
    yield Discrepancy(
        detail=f"{start.unit.name} would start the kubelet with another command line than it runs with: {how}"
    )


def _of_environment(start: Start, expected: Command) -> Iterator[Discrepancy]:
    if expected.missing is not None:
        detail = f"{expected.missing}, which {start.unit.name} needs to start, is not there"
        yield Discrepancy(detail=detail, acceptable=False)
        return
    if expected.environment is None:
        yield from _untold(start, Was.ENVIRONMENT)
        return
    shown = expected.words is not None
    names = [
        name for name in other_variables(start, expected.environment) if not (shown and _is_in_command(start, name))
    ]
    if names:
        # Values may be secrets.
        yield Discrepancy(detail=f"{start.unit.name} would start the kubelet with other variables: {_some(names)}")
    elif not shown:
        yield from _untold(start, Was.ENVIRONMENT)


def _of_units(start: Start, expected: Command) -> Iterator[Discrepancy]:
    """Of a unit only command line and environment can be compared; any other setting may have changed too.

    A drop-in that is gone and set neither of the two leaves no trace that would tell it from one of our own.
    """
    if expected.words is None or expected.environment is None:
        yield from _untold(start, Was.UNIT, Was.DROP_INS)
    else:
        yield from (_changed(file, start) for file in start.changed_since(Was.UNIT))


def _of_identity(start: Start) -> Iterator[Discrepancy]:
    """A kubeconfig with which the API server knows the node is as good as the one that it replaced."""
    if start.known_to_server:
        return
    why = "" if start.known_to_server is None else ", and the API server does not take it for this node's"
    yield from (_changed(file, start, why) for file in start.changed_since(Was.IDENTITY))


def _untold(start: Start, *kinds: Was) -> Iterator[Discrepancy]:
    """What cannot be accepted either, since the new kubelet could not be asked whether it would start so."""
    why = f", and nobody can tell with which command line {start.unit.name} would start the kubelet"
    for file in start.changed_since(*kinds):
        yield Discrepancy(detail=_changed(file, start, why).detail, acceptable=False)


def _is_in_command(start: Start, name: str) -> bool:
    """Whether a variable is there for the command line only, which is compared by itself."""
    return f"${name}" in start.unit.start_line.split()


def _changed(file: ReadAtStart, start: Start, why: str = "") -> Discrepancy:
    assert file.changed is not None  # noqa: S101 - it was found to be newer
    when, began = _moment(file.changed), _moment(start.started)
    return Discrepancy(detail=f"{file.path} was changed at {when}, after the kubelet was started at {began}{why}")


def _moment(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def _hidden(word: str) -> str:
    """A word of a command line, without a value that may be a secret."""
    flag, equals, _ = word.partition("=")
    return f"{flag}=…" if equals and ("header" in flag or "token" in flag) else word


def _some(told: list[str], separator: str = ", ") -> str:
    more = f"{separator}and {len(told) - NAMED} more" if len(told) > NAMED else ""
    return f"{separator.join(told[:NAMED])}{more}"


CHECKS: tuple[Check[Drift], ...] = (kubelet_starts_as_it_runs,)
WARNINGS: tuple[Check[Drift], ...] = (nothing_is_accepted,)
