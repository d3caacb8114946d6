"""Parses values that ``systemctl show`` and ``show-environment`` print."""

import re
import shlex
from collections.abc import Mapping
from contextlib import suppress

from nodeupgrade.api.limits import shorten
from nodeupgrade.api.values import AwakeTime
from nodeupgrade.errors import StepFailed
from nodeupgrade.node.host.device_rules import UnitDevices
from nodeupgrade.node.host.systemd.units import UnitCommand
from nodeupgrade.text import known_time, lines, number, trimmed, words

EXEC_COMMAND = re.compile(r"\{ path=(.*?) ; argv\[\]=(.*?) ; ignore_errors=(yes|no) ; ", re.DOTALL)
EXEC_NEXT = re.compile(r"\n(?=\{ path=)")
AMBIGUOUS = frozenset(";\"'\\$%")
"""A separator, quotes, escapes, variables, and specifiers, which systemd before 233 resolves only at the start."""
OLD_ENVIRONMENT_FILES = "EnvironmentFile"
"""The name under which systemd before 230 shows EnvironmentFiles."""
ENVIRONMENT_FILE = re.compile(r"(.+) \(ignore_errors=(yes|no)\)")
_MOMENT = re.compile("[A-Z][a-z]{2} ([0-9-]{10}) ([0-9:.]{8,15}) UTC")
ESCAPED = re.compile(rb"\\x([0-9a-f]{2})")
QUOTES = ('"', "'", "$'")


def limit_of(shown: str) -> str:
    """Return a span of time as systemd shows it; empty if it limits nothing."""
    return "" if shown in {"0", "infinity", "[not set]"} else shown


def assignments_of(shown: str) -> tuple[str, ...]:
    r"""Split assignments such as ``A=1 "B=2 3"``; ambiguous text yields a word that is not an assignment.

    Quotes are from 246 on. Before 234, a blank is ``\x20`` and a backslash ``\x5c``; no assignment begins with a quote,
    so the two cannot be confused. In between, a value with a blank is ``[unprintable]``, and in Red Hat's 219 its words
    look like other assignments.
    """
    if not _has_quotes(shown):
        return tuple(_unescaped(word) for word in shown.split(" ") if word)
    try:
        return tuple(shlex.split(shown.replace("$'", "'")))
    except ValueError:
        return (shown,) if "=" not in shown else ("",)


def strings_of(shown: str) -> tuple[str, ...]:
    r"""Split names of units, or paths: ``a\x2db.mount`` is quoted from 246 on, and ``a\x5cx2db.mount`` before 234."""
    if _has_quotes(shown):
        with suppress(ValueError):  # a quote does not end: it is none
            return tuple(shlex.split(shown.replace("$'", "'")))
    return tuple(word.replace(r"\x5c", "\\") for word in words(shown))


def _has_quotes(shown: str) -> bool:
    return any(word.startswith(QUOTES) for word in shown.split(" "))


def assignment_of(line: str) -> str:
    """Return the assignment in a line of ``show-environment``; older versions of systemd do not quote its value."""
    name, _, value = line.partition("=")
    words = assignments_of(value) if value.startswith(QUOTES) else (value,)
    return f"{name}={words[0] if len(words) == 1 else value}"


def _unescaped(word: str) -> str:
    escaped = word.encode("utf-8", "surrogateescape")
    return ESCAPED.sub(lambda found: bytes.fromhex(found[1].decode()), escaped).decode("utf-8", "replace")


def commands_of(when: str, shown: str) -> tuple[UnitCommand, ...]:
    """Return the commands in a setting such as ExecStartPre, as systemd shows it.

    For example ``{ path=/usr/bin/kubelet ; argv[]=/usr/bin/kubelet --v=2 ; ignore_errors=no ; … }``.

    Raises:
        StepFailed: the text cannot be parsed.
    """
    found = [EXEC_COMMAND.match(each) for each in EXEC_NEXT.split(shown) if shown]
    if None in found:
        raise StepFailed(f"cannot read what systemd shows as {when}: {shorten(shown, 200)}")
    return tuple(
        UnitCommand(when=when, program=each[1], line=each[2], may_fail=each[3] == "yes") for each in found if each
    )


def words_of(command: UnitCommand) -> tuple[str, ...]:
    """Return the words of a command, which systemd shows joined by spaces without quoting.

    Empty if a word may contain quotes or escapes, if systemd would expand a word at the start, if the program is run
    under a name other than its path, or if the command may fail.
    """
    words = tuple(command.line.split(" "))
    known = AMBIGUOUS.isdisjoint(command.line) and all(words) and words[0] == command.program
    return words if known and not command.may_fail else ()


def devices_of(shown: Mapping[str, str]) -> UnitDevices:
    """Return DevicePolicy, DeviceAllow, which has a line for each entry, and ControlGroup."""
    allowed = (trimmed(line) for line in lines(shown.get("DeviceAllow", "")))
    return UnitDevices(
        policy=shown.get("DevicePolicy", "auto"),
        allowed=tuple(filter(None, allowed)),
        group=trimmed(shown.get("ControlGroup", "")),
    )


def environment_files_of(shown: str) -> tuple[tuple[str, bool], ...]:
    """Return path and whether it is required from each line like ``/etc/default/kubelet (ignore_errors=yes)``."""
    matches = (ENVIRONMENT_FILE.fullmatch(trimmed(line)) for line in lines(shown))
    return tuple((line[1], line[2] == "no") for line in matches if line)


def number_of(name: str, shown: Mapping[str, str]) -> int:
    """Return a property that is a number; 0 if it is not shown.

    Raises:
        StepFailed: it is something else.
    """
    if (found := number(shown.get(name) or "0")) is None:
        raise StepFailed(f"cannot read what systemd shows as {name}: {shorten(shown[name], 200)}")
    return found


def awake_time_of(name: str, shown: Mapping[str, str]) -> AwakeTime | None:
    """Return a monotonic timestamp, which systemd shows in microseconds; ``None`` for 0, which means never.

    Raises:
        StepFailed: as for number_of().
    """
    microseconds = number_of(name, shown)
    return AwakeTime(microseconds / 1e6) if microseconds else None


def moment_of(shown: str) -> float | None:
    """Return ``Sat 2026-11-21 05:45:28 UTC``, or with microseconds, in seconds since 1970; ``None`` for other text."""
    found = _MOMENT.fullmatch(shown)
    moment = None if found is None else known_time(f"{found[1]}T{found[2]}Z")
    return None if moment is None else moment.timestamp()
