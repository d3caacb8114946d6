"""Runs ``systemctl`` and ``journalctl``, each call with a timeout, and reads what ``systemctl show`` prints."""

import re
import shlex
import subprocess
from dataclasses import KW_ONLY, dataclass
from datetime import UTC, datetime
from math import inf
from pathlib import Path, PurePosixPath

from tenacity import Retrying, retry_if_exception_type, stop_after_delay, wait_fixed

from nodeupgrade.adapters.files.opening import resolve
from nodeupgrade.api.limits import shorten
from nodeupgrade.api.values import AwakeTime
from nodeupgrade.domain.errors import StepFailed
from nodeupgrade.domain.node.systemd_units import UnitCommand

# SYSTEMD_IGNORE_CHROOT: in a chroot, systemctl would otherwise skip its work, but the chroot into the host is
# intended. The other variables keep the output plain. chroot and nsenter pass all of them on.
ENVIRONMENT = {
    "PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
    "LC_ALL": "C",
    "TZ": "UTC",
    "SYSTEMD_IGNORE_CHROOT": "1",
    "SYSTEMD_COLORS": "0",
    "SYSTEMD_PAGER": "",
}
JOURNAL_SECONDS = 3.0
"""Short, since the caller waits for the log with a decision to take."""
SILENT_SECONDS = 5.0
"""For how long a call is repeated that systemd did not answer: it is silent while it executes itself anew."""
SILENCE = ("disconnected from message bus", "Transport endpoint is not connected", "Connection reset by peer")
"""What ``systemctl`` says about a systemd that went away with the call."""
ONCE = frozenset({"kill"})
"""Calls that are not repeated: if they have been obeyed, what runs by now is another process."""
NO_ENTRIES = 1
"""Exit status of ``journalctl --quiet`` when nothing matches."""


class _SilentError(StepFailed):
    """Systemd went away with the call."""


@dataclass(frozen=True, slots=True)
class Systemctl:
    """Runs ``systemctl`` and ``journalctl``."""

    prefix: tuple[str, ...] = ()  # of each command, for example ``("chroot", "/host")`` in a pod that mounts the host
    _: KW_ONLY
    timeout: float = 120.0  # seconds for one call; a stop may take the unit's TimeoutStopSec, 90 s by default

    def run(self, *arguments: str) -> str:
        """Run ``systemctl`` and return its output.

        Raises:
            StepFailed: it ended with an error, did not end in time, or could not be run.
        """
        if arguments[0] in ONCE:
            return self._run(arguments)
        again = Retrying(
            retry=retry_if_exception_type(_SilentError),
            stop=stop_after_delay(SILENT_SECONDS),
            wait=wait_fixed(0.2),
            reraise=True,
        )
        return again(self._run, arguments)

    def _run(self, arguments: tuple[str, ...]) -> str:
        done = self._call(arguments)
        if done.returncode != 0:
            message = " ".join(done.stderr.split()) or "no message"
            failed = _SilentError if any(sign in message for sign in SILENCE) else StepFailed
            raise failed(f"systemctl {' '.join(arguments)} ended with status {done.returncode}: {message}")
        return done.stdout

    def attempt(self, *arguments: str) -> bool:
        """Run ``systemctl`` and report whether it succeeded.

        Raises:
            StepFailed: it did not end in time, or could not be run.
        """
        return self._call(arguments).returncode == 0

    def says(self, program: str, *arguments: str) -> str:
        """Return what a program prints, whatever its exit status; empty if it cannot be run or does not end in time."""
        try:
            return self._call(arguments, program).stdout.strip()
        except StepFailed:
            return ""

    def show(self, unit: str, properties: tuple[str, ...]) -> dict[str, str]:
        """Return properties of a unit. Those that this version of systemd does not know are left out.

        A property that is shown several times, as ExecStart may be, has one line for each, or more: the words of a
        command may contain line breaks.

        Raises:
            StepFailed: as for run().
        """
        lines = self.run("show", f"--property={','.join(properties)}", unit).splitlines()
        shown, name = dict[str, list[str]](), ""
        for line in lines:
            start, _, value = line.partition("=")
            if begins := start in {*properties, OLD_ENVIRONMENT_FILES}:
                name = start
            shown.setdefault(name, []).append(value if begins else line)
        return {name: "\n".join(values) for name, values in shown.items()}

    def journal(self, invocation: str, lines: int) -> str:
        """Return the newest lines that a unit logged since its start, and the journal's messages about dropped lines.

        Raises:
            StepFailed: as for run().
        """
        matches = (f"_SYSTEMD_INVOCATION_ID={invocation}", "+", f"OBJECT_SYSTEMD_INVOCATION_ID={invocation}")
        done = self._call(
            ("--quiet", "--no-pager", "--output=cat", f"--lines={lines}", *matches), "journalctl", JOURNAL_SECONDS
        )
        if done.returncode not in {0, NO_ENTRIES}:
            raise StepFailed(f"journalctl ended with status {done.returncode}: {' '.join(done.stderr.split())}")
        return done.stdout

    def _call(
        self, arguments: tuple[str, ...], program: str = "systemctl", limit: float = inf
    ) -> subprocess.CompletedProcess[str]:
        call = f"{program} {' '.join(arguments)}"
        timeout = min(self.timeout, limit)
        try:
            return subprocess.run(
                [*self.prefix, program, *arguments],
                env=ENVIRONMENT,
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                errors="replace",
                timeout=timeout,
                check=False,
            )
        except subprocess.TimeoutExpired as error:
            raise StepFailed(f"{call} did not end within {timeout:g} s") from error
        except OSError as error:
            raise StepFailed(f"cannot run {call} because {error}") from error


# What ``systemctl show`` and ``show-environment`` print, read value by value.

EXEC_COMMAND = re.compile(r"\{ path=(.*?) ; argv\[\]=(.*?) ; ignore_errors=(yes|no) ; ", re.DOTALL)
EXEC_NEXT = re.compile(r"\n(?=\{ path=)")
AMBIGUOUS = frozenset(";\"'\\$%")
"""A separator, quotes, escapes, variables, and specifiers, which systemd before 233 resolves only at the start."""
OLD_ENVIRONMENT_FILES = "EnvironmentFile"
"""What systemd before 230 says where it was asked for EnvironmentFiles."""
ENVIRONMENT_FILE = re.compile(r"(.+) \(ignore_errors=(yes|no)\)")
ESCAPED = re.compile(rb"\\x([0-9a-f]{2})")
QUOTES = ('"', "'", "$'")


def limit_of(shown: str) -> str:
    """Return a span of time as systemd shows it; empty if it limits nothing."""
    return "" if shown in {"0", "infinity", "[not set]"} else shown


def assignments_of(shown: str) -> tuple[str, ...]:
    r"""Split assignments such as ``A=1 "B=2 3"``; what cannot be told gives a word that is no assignment.

    Quotes are from 246 on. Before 234, a blank is ``\x20`` and a backslash ``\x5c``; no assignment begins with a quote,
    so neither can be mistaken for the other. In between, a value with a blank is ``[unprintable]``, and in Red Hat's
    219 its words cannot be told from other assignments.
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


# Detects unit files on disk that systemd has not loaded, even where ``NeedDaemonReload`` is ``no``.
#
# ``NeedDaemonReload`` covers the files that systemd has loaded, and new files in directories that existed then. It
# stays ``no`` when the directory of a unit's first drop-in is created, and when a new unit file overrides the loaded
# one (seen with systemd 252). The next daemon-reload makes such files effective, and it may be ours.

DIRECTORIES = (
    "/etc/systemd/system.control",
    "/run/systemd/system.control",
    "/etc/systemd/system",
    "/run/systemd/system",
    "/usr/local/lib/systemd/system",
    "/usr/lib/systemd/system",
    "/lib/systemd/system",
)
"""In order of precedence. Generated files are left out: each reload generates them again, so they are never unread."""


def has_unread(root: Path, unit: str, fragment: str, drop_ins: str) -> bool:
    """Report whether a unit has drop-ins, or an overriding unit file, that systemd has not loaded.

    Args:
        root: mount point of the node's root directory.
        fragment: path of the loaded unit file, as systemd shows it.
        drop_ins: paths of the loaded drop-ins, as systemd shows them, separated by spaces.
    """
    loaded = {PurePosixPath(path).name for path in drop_ins.split()}
    drop_ins_on_disk = _drop_ins_on_disk(root, f"{unit}.d") | _drop_ins_on_disk(root, f"{unit.rpartition('.')[2]}.d")
    return bool(drop_ins_on_disk - loaded) or _is_shadowed(root, unit, fragment)


def _drop_ins_on_disk(root: Path, name: str) -> set[str]:
    """Return the names of the drop-ins in the directories of one name.

    An entry that is not a file hides those of the same name in directories of lower precedence.
    """
    is_file_by_name: dict[str, bool] = {}
    for place in (PurePosixPath(directory, name) for directory in DIRECTORIES):
        resolved = resolve(root, place, follow_last=True)
        for entry in resolved.iterdir() if resolved.is_dir() else ():
            if entry.suffix == ".conf":
                is_file_by_name.setdefault(entry.name, resolve(root, place / entry.name, follow_last=True).is_file())
    return {name for name, is_file in is_file_by_name.items() if is_file}


def _is_shadowed(root: Path, unit: str, fragment: str) -> bool:
    if not fragment or fragment.startswith("/run/systemd/generator"):
        return False
    places = (resolve(root, PurePosixPath(directory, unit), follow_last=True) for directory in DIRECTORIES)
    first = next((place for place in places if place.exists()), None)
    loaded = resolve(root, PurePosixPath(fragment), follow_last=True)
    return first is not None and loaded.exists() and first != loaded
