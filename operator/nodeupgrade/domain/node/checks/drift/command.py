"""Work out the command line and the environment with which systemd would start the kubelet now."""

import re
import shlex
from collections.abc import Mapping
from dataclasses import dataclass, field

from nodeupgrade.domain.node.checks.drift.facts import Start

_WORD = re.compile(r"\$(\w+)", re.ASCII)
_NAME = re.compile(r"[A-Za-z_]\w*", re.ASCII)
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
    """How systemd would start the kubelet.

    Attributes:
        words: the command line, the program first; ``None`` if it cannot be determined.
        environment: variables that the unit and its environment files set; ``None`` if they cannot be determined.
        missing: a required environment file that does not exist.
    """

    words: tuple[str, ...] | None = None
    environment: Mapping[str, str] | None = field(default_factory=dict)
    missing: str | None = None


def command(start: Start) -> Command:
    """Return the command line and the environment of the next start."""
    for path, required in start.unit.environment_files:
        if required and start.environment_files.get(path) is None:
            return Command(environment=None, missing=path)
    environment = _environment(start)
    line = start.unit.start_line
    if environment is None and "$" in line:
        return Command(environment=None)
    words = _expanded(line, {**start.by_default, **(environment or {})})
    if not words or not start.words or words[0] != start.words[0]:  # another program, such as a script, starts it
        words = None
    return Command(words=words, environment=environment)


def same_words(one: tuple[str, ...], other: tuple[str, ...]) -> bool:
    """Report whether two command lines are the same; systemd does not show where a word that contains blanks ends."""
    return " ".join(one).split() == " ".join(other).split()


def other_variables(start: Start, set_by_files: Mapping[str, str]) -> tuple[str, ...]:
    """Return the names of variables that a start would set to another value, or no longer set."""
    expected = {**start.by_default, **set_by_files}
    other = {name for name, value in expected.items() if start.environment.get(name) != value}
    gone = {name for name in start.environment if name not in expected and not GIVEN_BY_SYSTEMD.fullmatch(name)}
    return tuple(sorted(name for name in other | gone if name in set_by_files or not GIVEN_BY_SYSTEMD.fullmatch(name)))


def _environment(start: Start) -> dict[str, str] | None:
    """Return the variables that the unit and its environment files set; ``None`` if any of them cannot be parsed."""
    set_here: dict[str, str] = {}
    for assignment in start.unit.environment:
        name, equals, value = assignment.partition("=")
        if not equals or not _NAME.fullmatch(name):  # systemd does not show where a value with blanks ends
            return None
        set_here[name] = value
    for path, _ in start.unit.environment_files:
        if "*" in path or "?" in path or "[" in path:
            return None
        data = start.environment_files.get(path)
        read = {} if data is None else _assignments(data.decode(errors="surrogateescape"))
        if read is None:
            return None
        set_here |= read
    return set_here


def _assignments(text: str) -> dict[str, str] | None:
    """Parse an environment file; ``None`` if a line has quotes or escapes in an unusual place."""
    found: dict[str, str] = {}
    for line in text.replace("\\\n", "").splitlines():
        stripped = line.strip()
        if not stripped or stripped[0] in "#;":
            continue
        name, equals, value = stripped.partition("=")
        value = value.strip()
        if not equals:
            continue
        if any(mark in value for mark in "\"'\\"):
            try:
                words = shlex.split(value)
            except ValueError:
                return None
            if value[0] not in "\"'" or len(words) != 1:
                return None
            value = words[0]
        if _NAME.fullmatch(name.strip()):  # systemd ignores others, such as those of "export NAME=value"
            found[name.strip()] = value
    return found


def _expanded(line: str, environment: Mapping[str, str]) -> tuple[str, ...] | None:
    """Expand variables as systemd does (systemd.service, "Command lines")."""
    words: list[str] = []
    for word in line.split():
        alone = _WORD.fullmatch(word)
        if alone is None:
            words.append(_PART.sub(lambda found: environment.get(found[1], "") if found[1] else "$", word))
            continue
        try:
            words += shlex.split(environment.get(alone[1], ""))
        except ValueError:
            return None
    return tuple(words)
