"""What ``systemctl show`` and ``show-environment`` print, read value by value."""

import re
import shlex
from datetime import UTC, datetime

from nodeupgrade.api.limits import shorten
from nodeupgrade.api.values import AwakeTime
from nodeupgrade.errors import StepFailed
from nodeupgrade.node.host.systemd.units import UnitCommand

EXEC_PATH = re.compile(r"^\{ path=(.*?) ; argv\[\]=", re.MULTILINE)
EXEC_WORDS = re.compile(r"^\{ path=(\S+) ; argv\[\]=([^;\"'\\$%]+) ; ignore_errors=no ; ", re.MULTILINE)
EXEC_LINE = re.compile(r"^\{ path=\S+ ; argv\[\]=(.*?) ; ignore_errors=", re.MULTILINE)
EXEC_COMMAND = re.compile(r"^\{ path=(.*?) ; argv\[\]=(.*?) ; ignore_errors=(yes|no) ; ", re.MULTILINE | re.DOTALL)
ENVIRONMENT_FILE = re.compile(r"(\S+) \(ignore_errors=(yes|no)\)")
ESCAPED = re.compile(rb"\\x([0-9a-f]{2})")
QUOTES = ('"', "'", "$'")


def limit_of(shown: str) -> str:
    """Return a span of time as systemd shows it; empty if it limits nothing."""
    return "" if shown in {"0", "infinity", "[not set]"} else shown


def program_of(exec_start: str) -> str:
    """Return the program in an ExecStart as systemd shows it; empty unless there is exactly one.

    For example ``{ path=/usr/bin/kubelet ; argv[]=/usr/bin/kubelet --v=2 ; ignore_errors=no ; … }``.
    """
    programs = EXEC_PATH.findall(exec_start)
    return programs[0] if len(programs) == 1 else ""


def command_of(exec_start: str) -> tuple[str, ...]:
    """Return the words of an ExecStart as systemd shows it, joined by spaces without quoting.

    Empty unless there is exactly one command; empty too if a word may contain quotes or escapes, if systemd would
    expand a word at the start, or if the program is run under a name other than its path.
    """
    if len(EXEC_PATH.findall(exec_start)) != 1 or (matches := EXEC_WORDS.search(exec_start)) is None:
        return ()
    words = tuple(matches[2].split(" "))
    return words if words[0] == matches[1] and all(words) else ()


def start_line_of(exec_start: str) -> str:
    """Return the command line in an ExecStart as systemd shows it; empty unless there is exactly one."""
    lines = EXEC_LINE.findall(exec_start)
    return lines[0] if len(lines) == 1 else ""


def assignments_of(shown: str) -> tuple[str, ...]:
    r"""Split assignments such as ``A=1 "B=2 3"``; text that cannot be split gives one word that is no assignment.

    Older versions of systemd (219 for one) quote nothing. They show a blank as ``\x20``, and a backslash as ``\x5c``.
    No assignment begins with a quote, so neither can be mistaken for the other.
    """
    if not any(word.startswith(QUOTES) for word in shown.split(" ")):
        return tuple(_unescaped(word) for word in shown.split(" ") if word)
    try:
        return tuple(shlex.split(shown.replace("$'", "'")))
    except ValueError:
        return (shown,) if "=" not in shown else ("",)


def assignment_of(line: str) -> str:
    """Return the assignment in a line of ``show-environment``; older versions of systemd do not quote its value."""
    name, _, value = line.partition("=")
    words = assignments_of(value) if value.startswith(QUOTES) else (value,)
    return f"{name}={words[0] if len(words) == 1 else value}"


def _unescaped(word: str) -> str:
    escaped = word.encode("utf-8", "surrogateescape")
    return ESCAPED.sub(lambda found: bytes([int(found[1], 16)]), escaped).decode("utf-8", "replace")


def commands_of(when: str, shown: str) -> tuple[UnitCommand, ...]:
    """Return the commands in a setting such as ExecStartPre, as systemd shows it.

    Raises:
        StepFailed: the text cannot be parsed.
    """
    matches = EXEC_COMMAND.findall(shown)
    if shown and not matches:
        raise StepFailed(f"cannot read what systemd shows as {when}: {shorten(shown, 200)}")
    return tuple(
        UnitCommand(when=when, program=path, line=line, may_fail=flag == "yes") for path, line, flag in matches
    )


def environment_files_of(shown: str) -> tuple[tuple[str, bool], ...]:
    """Return paths from EnvironmentFiles (EnvironmentFile in systemd 219), and whether each is required.

    Each line is like ``/etc/default/kubelet (ignore_errors=yes)``.
    """
    matches = (ENVIRONMENT_FILE.fullmatch(line.strip()) for line in shown.splitlines())
    return tuple((line[1], line[2] == "no") for line in matches if line)


def awake_time_of(shown: str) -> AwakeTime | None:
    """Return a monotonic timestamp, which systemd shows in microseconds; ``None`` for 0, which is never."""
    microseconds = int(shown or 0)
    return AwakeTime(microseconds / 1e6) if microseconds else None


def moment_of(shown: str) -> float | None:
    """Return ``Sat 2026-11-21 05:45:28 UTC`` in seconds since 1970; ``None`` for any other text."""
    try:
        return datetime.strptime(shown, "%a %Y-%m-%d %H:%M:%S UTC").replace(tzinfo=UTC).timestamp()
    except ValueError:
        return None
