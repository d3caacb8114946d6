"""Start, run and identify processes."""

import contextlib
import os
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TypeVar

from e2e.lab.errors import LabError

T = TypeVar("T")

PATIENCE = float(os.environ.get("NODEUPGRADE_PATIENCE", "1"))
"""How many times longer than on an idle machine anything may take before it counts as hung; CI sets more."""

_slowest = 1.0

LITTLE_COLLECTING = "GOGC=400"
"""Environment of control planes, kubelets and runtimes: here memory is plentiful and processors are not, and to collect
garbage takes a quarter of an API server's time and a sixteenth of all that a test on a node takes.
"""


def patience() -> float:
    """Return the factor of every bound: PATIENCE, and how slow the slowest node of this process's labs is."""
    return PATIENCE * _slowest


def allow_for(slowness: float) -> None:
    """Let bounds suit a node that is so many times slower than this machine."""
    global _slowest  # noqa: PLW0603 - every bound of the process depends on it
    _slowest = max(_slowest, slowness)


@contextlib.contextmanager
def undelayed() -> Iterator[None]:
    """Let bounds suit this machine while the context lasts: no slower node takes part in what is done."""
    global _slowest  # noqa: PLW0603 - every bound of the process depends on it
    before, _slowest = _slowest, 1.0
    try:
        yield
    finally:
        _slowest = before


class CommandError(LabError):
    """A command failed; carries its output.

    Attributes:
        result: exit code, standard output and standard error.
    """

    def __init__(self, result: subprocess.CompletedProcess[str]) -> None:
        self.result = result
        words = " ".join(str(part) for part in result.args)
        shown = words if len(words) < 400 else f"{words[:400]}…"
        super().__init__(
            f"`{shown}` ended with {result.returncode}: {(result.stderr or result.stdout or '').strip()[-2000:]}"
        )


def run(
    *argv: str | os.PathLike[str],
    stdin: str | None = None,
    check: bool = True,
    timeout: float = 60,
    env: Mapping[str, str] | None = None,
    cwd: Path | None = None,
) -> subprocess.CompletedProcess[str]:
    """Run a command to its end and return its output.

    Raises:
        CommandError: if it fails and ``check`` is set.
        LabError: if it takes longer than ``timeout`` seconds (times ``patience``), or does not exist.
    """
    timeout *= patience()
    words = [os.fspath(part) for part in argv]
    try:
        result = subprocess.run(
            words, input=stdin or "", capture_output=True, text=True, timeout=timeout, check=False, env=env, cwd=cwd
        )
    except subprocess.TimeoutExpired as late:
        raise LabError(f"`{' '.join(words)[:400]}` did not end within {timeout:g} s") from late
    except FileNotFoundError as absent:
        raise LabError(f"cannot run {words[0]} because it is not installed; see `python -m e2e.lab doctor`") from absent
    if check and result.returncode:
        raise CommandError(result)
    return result


def spawn(argv: Sequence[str], log: Path) -> int:
    """Start a process that outlives this one, in a session of its own, and return its PID."""
    log.parent.mkdir(parents=True, exist_ok=True)
    actions = [
        (os.POSIX_SPAWN_OPEN, 0, "/dev/null", os.O_RDONLY, 0),
        (os.POSIX_SPAWN_OPEN, 1, str(log), os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644),
        (os.POSIX_SPAWN_DUP2, 1, 2),
    ]
    return os.posix_spawnp(argv[0], list(argv), dict(os.environ), file_actions=actions, setsid=True)


def has_ended(pid: int) -> bool:
    """Report whether ``pid`` has ended; it is collected if it was a child of this process."""
    with contextlib.suppress(ChildProcessError):
        os.waitpid(pid, os.WNOHANG)
    return start_time(pid) is None


def stat_fields(pid: int, root: Path = Path("/")) -> list[str] | None:
    """Return the fields of ``/proc/PID/stat`` after the command name (state is first), or None if it is gone."""
    try:
        text = (root / "proc" / str(pid) / "stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return None
    return text[text.rindex(")") + 2 :].split()


def start_time(pid: int, root: Path = Path("/")) -> int | None:
    """Return when ``pid`` started, in clock ticks since boot (field 22), or None if it is gone or a zombie."""
    fields = stat_fields(pid, root)
    return None if fields is None or fields[0] in "ZX" else int(fields[19])


def parent(pid: int, root: Path = Path("/")) -> int | None:
    """Return the parent of ``pid`` in the PID namespace of ``root``'s /proc."""
    fields = stat_fields(pid, root)
    return None if fields is None else int(fields[1])


def child_of(pid: int) -> int | None:
    """Return the first child of ``pid``."""
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and parent(int(entry.name)) == pid:
            return int(entry.name)
    return None


def wait_until(what: str, probe: Callable[[], T | None], timeout: float, interval: float = 0.1) -> T:
    """Poll ``probe`` until it returns something true, and return that.

    Between two probes pass ``interval`` seconds, and at least thrice what the first of them took: probes on a busy
    machine must not be what makes it busy.

    Raises:
        LabError: after ``timeout`` seconds (times ``patience``); it names ``what`` and the last error of ``probe``.
    """
    timeout *= patience()
    deadline = time.monotonic() + timeout
    reason = ""
    while True:
        began = time.monotonic()
        try:
            if answer := probe():
                return answer
        except LabError as error:
            reason = f" ({error})"
        if (now := time.monotonic()) > deadline:
            raise LabError(f"{what} did not happen within {timeout:g} s{reason}")
        time.sleep(max(interval, 3 * (now - began)))
