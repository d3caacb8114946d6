"""Runs ``systemctl`` and ``journalctl``, each call with a timeout."""

import subprocess
from math import inf

from nodeupgrade.domain.errors import StepFailed

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
NO_ENTRIES = 1
"""Exit status of ``journalctl --quiet`` when nothing matches."""


class Systemctl:
    """Runs ``systemctl`` and ``journalctl``.

    Args:
        prefix: command prefix, for example ``("chroot", "/host")`` in a pod that mounts the host there.
        timeout: seconds for one call. A stop may take the unit's TimeoutStopSec, 90 s by default.
    """

    def __init__(self, prefix: tuple[str, ...] = (), *, timeout: float = 120.0) -> None:
        self._prefix = prefix
        self._timeout = timeout

    def run(self, *arguments: str) -> str:
        """Run ``systemctl`` and return its output.

        Raises:
            StepFailed: it ended with an error, did not end in time, or could not be run.
        """
        done = self._call(arguments)
        if done.returncode != 0:
            message = " ".join(done.stderr.split()) or "no message"
            raise StepFailed(f"systemctl {' '.join(arguments)} ended with status {done.returncode}: {message}")
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

        A property that is shown several times, as ExecStart may be, has one line for each.

        Raises:
            StepFailed: as for run().
        """
        lines = self.run("show", f"--property={','.join(properties)}", unit).splitlines()
        shown: dict[str, list[str]] = {}
        for line in lines:
            name, _, value = line.partition("=")
            shown.setdefault(name, []).append(value)
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
        timeout = min(self._timeout, limit)
        try:
            return subprocess.run(
                [*self._prefix, program, *arguments],
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
