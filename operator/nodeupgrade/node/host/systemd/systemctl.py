"""Runs ``systemctl`` and ``journalctl``, each call with a timeout, and parses the output of ``systemctl show``."""

import math
import re
import subprocess
from contextlib import suppress
from dataclasses import KW_ONLY, dataclass

from tenacity import Retrying, retry_if_exception_type, stop_after_delay, wait_fixed

from nodeupgrade.api.limits import shorten
from nodeupgrade.api.values import AwakeTime
from nodeupgrade.errors import StepFailed
from nodeupgrade.node.host.processes.bounded_run import run_bounded
from nodeupgrade.node.host.systemd.properties import OLD_ENVIRONMENT_FILES
from nodeupgrade.text import lines, number, one_line, trimmed

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
"""Short, since the caller needs the log for a decision."""
LARGEST_ANSWER = 32 * 1024**2
"""Bytes. A log has a tenth of that, unless pods have long lines logged, such as by what their probes print."""
LOGGED_AT = re.compile(r"\[ *([0-9]{1,18})\.([0-9]{6})\] ", re.ASCII)
"""How a line of the journal begins that has the seconds since boot."""
SILENT_SECONDS = 5.0
"""For how long an unanswered call is repeated: systemd does not answer while it re-executes itself."""
SILENCE = ("disconnected from message bus", "Transport endpoint is not connected", "Connection reset by peer")
"""Messages of ``systemctl`` about a systemd that dropped the call."""
ONCE = frozenset({"kill"})
"""Calls that are not repeated: if they took effect, another process runs by now."""
NO_ENTRIES = 1
"""Exit status of ``journalctl --quiet`` when nothing matches."""


class _SilentError(StepFailed):
    """Systemd dropped the call."""


class _LateError(StepFailed):
    """A call did not end in time."""


@dataclass(frozen=True, slots=True)
class Systemctl:
    """Runs ``systemctl`` and ``journalctl``."""

    prefix: tuple[str, ...] = ()  # of each command, for example ``("chroot", "/host")`` in a pod that mounts the host
    _: KW_ONLY
    timeout: float = 120.0  # seconds for one call; a stop may take the unit's TimeoutStopSec, 90 s by default

    def run(self, *arguments: str, limit: float = math.inf) -> str:
        """Run ``systemctl``, for at most ``limit`` seconds, and return its output.

        Raises:
            StepFailed: it ended with an error, did not end in time, or could not be run.
        """
        if arguments[0] in ONCE:
            return self._run(arguments, limit)
        again = Retrying(
            retry=retry_if_exception_type(_SilentError),
            stop=stop_after_delay(SILENT_SECONDS),
            wait=wait_fixed(0.2),
            reraise=True,
        )
        return again(self._run, arguments, limit)

    def _run(self, arguments: tuple[str, ...], limit: float) -> str:
        done = self._call(arguments, limit=limit)
        if done.returncode != 0:
            message = one_line(done.stderr) or "no message"
            failed = _SilentError if any(sign in message for sign in SILENCE) else StepFailed
            raise failed(f"systemctl {' '.join(arguments)} ended with status {done.returncode}: {message}")
        return done.stdout

    def wait(self, seconds: float, *arguments: str) -> None:
        """Run ``systemctl`` for so many seconds at most; the job that it has asked for goes on.

        Raises:
            StepFailed: it ended with an error, or could not be run.
        """
        with suppress(_LateError):
            self.run(*arguments, limit=seconds)

    def attempt(self, *arguments: str) -> bool:
        """Run ``systemctl`` and report whether it succeeded.

        Raises:
            StepFailed: it did not end in time, or could not be run.
        """
        return self._call(arguments).returncode == 0

    def says(self, program: str, *arguments: str) -> str:
        """Return what a program prints, whatever its exit status; empty if it cannot be run or does not end in time."""
        try:
            return trimmed(self._call(arguments, program).stdout)
        except StepFailed:
            return ""

    def show(self, unit: str, properties: tuple[str, ...]) -> dict[str, str]:
        """Return the properties of a unit that this version of systemd knows.

        A property that is shown several times, as ExecStart may be, has one line for each, or more: the words of a
        command may contain line breaks.

        Raises:
            StepFailed: as for run().
        """
        return _read(self.run("show", f"--property={','.join(properties)}", "--", unit), properties)

    def show_all(self, pattern: str, properties: tuple[str, ...]) -> dict[str, dict[str, str]]:
        """Return the properties of the loaded units of a pattern, whose values have no empty lines, by one call.

        Raises:
            StepFailed: as for run(), or a part of the answer names no unit.
        """
        output = trimmed(self.run("show", f"--property={','.join(('Id', *properties))}", "--", pattern))
        blocks = [_read(block, ("Id", *properties)) for block in output.split("\n\n")] if output else []
        if not all(block.get("Id") for block in blocks):
            raise StepFailed(f"cannot read what systemd shows of {pattern}: {shorten(output, 200)!r}")
        return {block["Id"]: block for block in blocks}

    def journal(self, invocation: str, lines: int) -> str:
        """Return the newest lines that a unit logged since its start, and the journal's messages about dropped lines.

        Any user may write a message about any unit (OBJECT_…), but only the journal itself by the transport ``driver``.

        Raises:
            StepFailed: as for run().
        """
        return self._journal(f"--lines={lines}", *_of(invocation))

    def oldest_of(self, invocation: str, lines: int) -> AwakeTime | None:
        """Return when the oldest of the newest lines was logged, by the clock that nobody can set; ``None`` if unknown.

        Raises:
            StepFailed: as for run().
        """
        logged = self._journal(f"--lines={lines}", *_of(invocation), output="short-monotonic")
        first = LOGGED_AT.match(logged)
        return None if first is None else AwakeTime((number(first[1]) or 0) + (number(first[2]) or 0) / 1e6)

    def journal_reaches(self, moment: float) -> bool:
        """Report whether this boot's journal, but its users', goes back to a moment (in seconds since 1970).

        Raises:
            StepFailed: as for run().
        """
        # Without --reverse, old versions begin with the newest line, which is after the moment.
        return self._journal("--lines=1", "--reverse", "--boot", "--system", f"--until=@{math.trunc(moment)}") != ""

    def _journal(self, *arguments: str, output: str = "cat") -> str:
        done = self._call(("--quiet", "--no-pager", f"--output={output}", *arguments), "journalctl", JOURNAL_SECONDS)
        if done.returncode not in {0, NO_ENTRIES}:
            raise StepFailed(f"journalctl ended with status {done.returncode}: {one_line(done.stderr)}")
        return done.stdout

    def _call(
        self, arguments: tuple[str, ...], program: str = "systemctl", limit: float = math.inf
    ) -> subprocess.CompletedProcess[str]:
        call = f"{program} {' '.join(arguments)}"
        timeout = min(self.timeout, limit)
        try:
            words = [*self.prefix, program, *arguments]
            done = run_bounded(words, env=ENVIRONMENT, timeout=timeout, limit=LARGEST_ANSWER)
        except subprocess.TimeoutExpired as error:
            raise _LateError(f"{call} did not end within {timeout:g} s") from error
        except OSError as error:
            raise StepFailed(f"cannot run {call} because {error}") from error
        output, errors = (text.decode(errors="replace") for text in (done.stdout, done.stderr))
        return subprocess.CompletedProcess(done.args, done.returncode, output, errors)


def _of(invocation: str) -> tuple[str, ...]:
    """Return the matches for what a unit logged since its start, and for the journal's messages about it."""
    dropped = (f"OBJECT_SYSTEMD_INVOCATION_ID={invocation}", "_TRANSPORT=driver")
    return (f"_SYSTEMD_INVOCATION_ID={invocation}", "+", *dropped)


def _read(output: str, properties: tuple[str, ...]) -> dict[str, str]:
    """Read properties as systemd shows those of one unit."""
    shown, name = dict[str, list[str]](), ""
    for line in lines(output):
        start, _, value = line.partition("=")
        if begins := start in {*properties, OLD_ENVIRONMENT_FILES}:
            name = start
        shown.setdefault(name, []).append(value if begins else line)
    return {name: "\n".join(values) for name, values in shown.items()}
