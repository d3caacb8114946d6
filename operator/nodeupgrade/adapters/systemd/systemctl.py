"""One ``systemctl`` or ``journalctl`` call: arguments in, text out, bounded in time."""

import subprocess
from math import inf

from nodeupgrade.domain.errors import StepFailed

# A chroot into the host from a pod is meant, so systemctl must not skip its work there; the rest keeps its
# output plain. The variables pass through chroot and nsenter, which leave the environment alone.
ENVIRONMENT = {
    "PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
    "LC_ALL": "C",
    "TZ": "UTC",
    "SYSTEMD_IGNORE_CHROOT": "1",
    "SYSTEMD_COLORS": "0",
    "SYSTEMD_PAGER": "",
}
JOURNAL_SECONDS = 3.0
"""Who asks for a log has a decision to take meanwhile."""
NO_ENTRIES = 1
"""Exit status of ``journalctl --quiet`` when nothing matches."""


class Systemctl:
    """Runs ``systemctl``, and ``journalctl``.

    Args:
        prefix: what to put before it, for example ``("chroot", "/host")`` in a pod that mounts the host there.
        timeout: seconds for one call. A stop may take the unit's TimeoutStopSec, 90 s by default.
    """

    def __init__(self, prefix: tuple[str, ...] = (), *, timeout: float = 120.0) -> None:
        self._prefix = prefix
        self._timeout = timeout

    def run(self, *arguments: str) -> str:
        """Run one command and return its output.

        Raises:
            StepFailed: it ended with an error, did not end in time, or could not be run.
        """
        done = self._call(arguments)
        if done.returncode != 0:
            said = " ".join(done.stderr.split()) or "no message"
            raise StepFailed(f"systemctl {' '.join(arguments)} ended with status {done.returncode}: {said}")
        return done.stdout

    def attempt(self, *arguments: str) -> bool:
        """Run one command that may fail; say whether it succeeded.

        Raises:
            StepFailed: it did not end in time, or could not be run.
        """
        return self._call(arguments).returncode == 0

    def show(self, unit: str, properties: tuple[str, ...]) -> dict[str, str]:
        """Properties of a unit. Those that this systemd does not know are left out.

        A property that is shown several times, as ExecStart may be, has one line for each.

        Raises:
            StepFailed: as run().
        """
        lines = self.run("show", f"--property={','.join(properties)}", unit).splitlines()
        shown: dict[str, list[str]] = {}
        for line in lines:
            name, _, value = line.partition("=")
            shown.setdefault(name, []).append(value)
        return {name: "\n".join(values) for name, values in shown.items()}

    def journal(self, invocation: str, lines: int) -> str:
        """The newest lines that a unit wrote since it was started, and what the journal says about lines it dropped.

        Raises:
            StepFailed: as run().
        """
        chosen = (f"_SYSTEMD_INVOCATION_ID={invocation}", "+", f"OBJECT_SYSTEMD_INVOCATION_ID={invocation}")
        done = self._call(
            ("--quiet", "--no-pager", "--output=cat", f"--lines={lines}", *chosen), "journalctl", JOURNAL_SECONDS
        )
        if done.returncode not in {0, NO_ENTRIES}:
            raise StepFailed(f"journalctl ended with status {done.returncode}: {' '.join(done.stderr.split())}")
        return done.stdout

    def _call(
        self, arguments: tuple[str, ...], program: str = "systemctl", at_most: float = inf
    ) -> subprocess.CompletedProcess[str]:
        what = f"{program} {' '.join(arguments)}"
        timeout = min(self._timeout, at_most)
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
            raise StepFailed(f"{what} did not end within {timeout:g} s") from error
        except OSError as error:
            raise StepFailed(f"cannot run {what} because {error}") from error
