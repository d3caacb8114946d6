"""What the running kubelet read when it started, and the command line with which systemd would start it next."""

import re
import shlex
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from nodeupgrade.api.json import Json
from nodeupgrade.kubelet.settings import Configured
from nodeupgrade.node.host.systemd.environment_files import VARIABLE, is_undetermined, matching_files, parse_assignments
from nodeupgrade.node.host.systemd.units import UnitStatus
from nodeupgrade.text import words as split_words


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

    def has_words(self, words: tuple[str, ...]) -> bool:
        """Report whether this is its command line; systemd does not show where a word that contains blanks ends."""
        return split_words(" ".join(words)) == split_words(" ".join(self.words))

    def changed_since(self, *kinds: FileRole) -> tuple[ReadAtStart, ...]:
        """Return the files of these kinds that were changed after the start."""
        return tuple(file for file in self.read if file.was in kinds and file.changed > self.started)


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
    for word in split_words(line):
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
