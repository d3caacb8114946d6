"""Runs ``systemctl`` and ``journalctl``, each call with a timeout."""

import contextlib
import subprocess
from dataclasses import KW_ONLY, dataclass
from math import inf
from pathlib import Path, PurePosixPath

from tenacity import Retrying, retry_if_exception_type, stop_after_delay, wait_fixed

from nodeupgrade.adapters.files.opening import resolve
from nodeupgrade.domain.errors import StepFailed
from nodeupgrade.domain.node import systemd_units

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


# The fence: while it is up, nothing can start the unit.
#
# A runtime mask would be the obvious means, but many kubelet units are in ``/etc/systemd/system``, and a unit file
# there overrides a mask in ``/run``. So the fence is a drop-in with an assertion on a flag file. Drop-ins apply
# wherever the unit file is. Assertions block ``Restart=``, dependencies and people alike, and fail loudly. The
# drop-in is installed while the unit still runs; putting up or lifting the fence then only creates or removes the flag
# file, without a daemon-reload. Everything is in ``/run``, so a reboot clears it.
# See docs/decisions/units.md.


class Fence:
    """The files that fence one unit.

    Args:
        unit: full name of the unit.
        root: mount point of the node's root directory.
    """

    def __init__(self, unit: str, root: Path) -> None:
        self.drop_in = systemd_units.drop_in(unit)
        self._text = systemd_units.drop_in_text(unit)
        self._drop_in_file = root / self.drop_in.relative_to("/")
        self._flag_file = root / systemd_units.flag(unit).relative_to("/")

    def prepare(self) -> bool:
        """Write the drop-in; report whether that needs a daemon-reload."""
        if self._drop_in_file.exists() and self._drop_in_file.read_text(encoding="ascii") == self._text:
            return False
        self._drop_in_file.parent.mkdir(parents=True, exist_ok=True)
        new = self._drop_in_file.with_suffix(".new")
        new.write_text(self._text, encoding="ascii")
        new.replace(self._drop_in_file)
        return True

    def up(self) -> bool:
        """Report whether the flag file exists. It takes effect once systemd has loaded the drop-in."""
        return self._flag_file.exists()

    def put_up(self) -> None:
        """Create the flag file."""
        self._flag_file.parent.mkdir(parents=True, exist_ok=True)
        self._flag_file.touch()

    def take_down(self) -> None:
        """Remove the flag file, then the drop-in and the directories that this leaves empty."""
        self._flag_file.unlink(missing_ok=True)
        self._drop_in_file.unlink(missing_ok=True)
        for directory in (self._drop_in_file.parent, self._flag_file.parent, self._flag_file.parent.parent):
            with contextlib.suppress(OSError):
                directory.rmdir()
