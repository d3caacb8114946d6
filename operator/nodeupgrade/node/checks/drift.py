"""Detect drift of the kubelet: differences between the running process and its next start.

The evidence, in this order: the configuration that the kubelet reports at ``/configz``, its command line and its
environment. For everything else that a start reads, and for what these leave open, modification times decide.
"""

import re
import shlex
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from enum import StrEnum

from nodeupgrade.api.json import Json
from nodeupgrade.api.reasons import Reason
from nodeupgrade.api.run_settings import DriftPolicy
from nodeupgrade.findings.check import Found, check
from nodeupgrade.findings.hazards import Hazard
from nodeupgrade.kubelet.settings import Configured
from nodeupgrade.node.checks.running_configuration import compare
from nodeupgrade.node.host.systemd.environment_files import VARIABLE, is_undetermined, matching_files, parse_assignments
from nodeupgrade.node.host.systemd.units import UnitStatus


class FileRole(StrEnum):
    """The role of a file in the start of a kubelet."""

    CONFIGURATION = "configuration"
    ENVIRONMENT = "environment"
    UNIT = "unit"
    DROP_INS = "drop-ins"
    """A directory of drop-ins: one may have been removed. What a run did there itself is left out."""
    IDENTITY = "identity"
    OTHER = "other"


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadAtStart:
    """A file, or a directory of files, that a start of the kubelet reads."""

    path: str
    was: FileRole
    changed: float  # when its content or metadata was last changed, in seconds since 1970; 0 if it does not exist


@dataclass(frozen=True, slots=True, kw_only=True)
class Start:
    """The start of the running kubelet, and what the next start would read."""

    started: float  # when the process was started, in seconds since 1970
    words: tuple[str, ...]  # its command line, the program first
    environment: Mapping[str, str]  # the environment that it was started with
    unit: UnitStatus  # its unit, as systemd has loaded it
    settings: Configured  # the configuration files as they are now, with the running command line
    by_default: Mapping[str, str] = field(default_factory=dict)  # variables that systemd sets for every service
    # content by path; None if the file does not exist
    environment_files: Mapping[str, bytes | None] = field(default_factory=dict)
    running: Json | None = None  # the configuration that the kubelet reports; None if it could not be asked
    why_not_asked: str = ""  # why it could not be asked; empty if it was
    read: tuple[ReadAtStart, ...] = ()  # every file that a start reads
    # whether the API server accepts the present kubeconfig as this node's; None if it was not asked
    known_to_server: bool | None = None

    def content_of(self, environment_file: str) -> Iterator[bytes]:
        """Yield the content of the files that an EnvironmentFile names, in the order in which systemd reads them."""
        for path in matching_files(environment_file, self.environment_files):
            if (data := self.environment_files[path]) is not None:
                yield data

    def changed_since(self, *kinds: FileRole) -> tuple[ReadAtStart, ...]:
        """Return the files of these kinds that were changed after the start."""
        return tuple(file for file in self.read if file.was in kinds and file.changed > self.started)


@dataclass(frozen=True, slots=True, kw_only=True)
class Discrepancy:
    """One respect in which the kubelet would not start as it runs."""

    detail: str  # a sentence that names file, key and both values, but no value that may be a secret
    # whether ``kubelet.configurationDrift: Accept`` covers it. It does not if it is unknown how the kubelet would
    # start.
    acceptable: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Drift:
    """Every respect in which the kubelet would not start as it runs."""

    policy: DriftPolicy = DriftPolicy.REFUSE
    discrepancies: tuple[Discrepancy, ...] = ()
    # the arguments of the next start, without the program, if they differ; otherwise None
    words: tuple[str, ...] | None = None


_WORD = re.compile(r"\$(\w+)", re.ASCII)
_PART = re.compile(r"\$\$|\$\{(\w+)\}", re.ASCII)

GIVEN_BY_SYSTEMD = re.compile(
    r"PATH|LANG|LANGUAGE|LC_\w+|USER|LOGNAME|HOME|SHELL|TERM|INVOCATION_ID|SYSTEMD_\w+|XDG_RUNTIME_DIR|\w+_DIRECTORY|"
    r"MAINPID|MANAGERPID\w*|LISTEN_\w+|NOTIFY_SOCKET|WATCHDOG_\w+|LOG_NAMESPACE|JOURNAL_STREAM|MEMORY_PRESSURE_\w+|"
    r"FDSTORE|DEBUG_INVOCATION|PIDFILE|TRIGGER_\w+|SERVICE_RESULT|EXIT_\w+|REMOTE_\w+|CREDENTIALS_DIRECTORY|SHLVL|_|PWD",
    re.ASCII,
)
"""Variables that systemd sets for every service by itself (see systemd.exec)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Command:
    """How systemd would start the kubelet."""

    words: tuple[str, ...] | None = None  # the command line, the program first; None if it cannot be determined
    # variables that the unit and its environment files set; None if they cannot be determined
    environment: Mapping[str, str] | None = field(default_factory=dict)
    missing: str | None = None  # a required environment file that does not exist


def command(start: Start) -> Command:
    """Return the command line and the environment of the next start."""
    for named, required in start.unit.environment_files:
        if required and not is_undetermined(named) and not any(start.content_of(named)):
            return Command(environment=None, missing=named)
    environment = _environment(start)
    line = start.unit.start_line
    if environment is None and "$" in line:
        return Command(environment=None)
    words = _expanded(line, _passed_on(start, environment or {}))
    if not words or not start.words or words[0] != start.words[0]:  # another program, such as a script, starts it
        words = None
    return Command(words=words, environment=environment)


def same_words(one: tuple[str, ...], other: tuple[str, ...]) -> bool:
    """Report whether two command lines are the same; systemd does not show where a word that contains blanks ends."""
    return " ".join(one).split() == " ".join(other).split()


def other_variables(start: Start, set_by_files: Mapping[str, str]) -> tuple[str, ...]:
    """Return the names of variables that a start would set to another value, or no longer set."""
    expected = _passed_on(start, set_by_files)
    other = {name for name, value in expected.items() if start.environment.get(name) != value}
    gone = {name for name in start.environment if name not in expected and not GIVEN_BY_SYSTEMD.fullmatch(name)}
    return tuple(sorted(name for name in other | gone if name in set_by_files or not GIVEN_BY_SYSTEMD.fullmatch(name)))


def _passed_on(start: Start, set_by_files: Mapping[str, str]) -> dict[str, str]:
    """Return the variables with which systemd starts the kubelet, without those that the unit unsets."""
    every = {**start.by_default, **set_by_files}
    return {name: value for name, value in every.items() if not {name, f"{name}={value}"} & set(start.unit.unset)}


def _environment(start: Start) -> dict[str, str] | None:
    """Return the variables that the unit and its environment files set; ``None`` if any of them cannot be parsed."""
    set_here: dict[str, str] = {}
    for assignment in start.unit.environment:
        name, equals, value = assignment.partition("=")
        if not equals or not VARIABLE.fullmatch(name):  # systemd does not show where a value with blanks ends
            return None
        set_here[name] = value
    for named, _ in start.unit.environment_files:
        if is_undetermined(named):
            return None
        for data in start.content_of(named):
            read = parse_assignments(data)
            if read is None:
                return None
            set_here |= read
    return set_here


def _expanded(line: str, environment: Mapping[str, str]) -> tuple[str, ...] | None:
    """Expand variables as systemd does (systemd.service, "Command lines")."""
    words: list[str] = []
    for word in line.split():
        alone = _WORD.fullmatch(word)
        if alone is None:
            words.append(_PART.sub(lambda found: environment.get(found[1], "") if found[1] else "$", word))
            continue
        value = environment.get(alone[1], "")
        if "\\" in value:  # systemd takes it away within quotes before any character, shells only before some
            return None
        try:
            words += shlex.split(value)
        except ValueError:
            return None
    return tuple(words)


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
    differs = expected.words is not None and not same_words(expected.words, start.words)
    return Drift(
        policy=policy, discrepancies=discrepancies, words=expected.words[1:] if expected.words and differs else None
    )


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
    compared = start.unit.start_line.split() if known else []  # the command line, which is compared separately
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
