"""Run every test that this machine can run; before starting, report which ones it cannot.

Tests on booted nodes mostly wait, so three runs of them share their modules. Beside them run those with real software,
which wait as well, and the fast ones, which never wait, with what the others leave of the processors.
With NODEUPGRADE_E2E=required (as in CI) it is an error if a machine cannot run all of them.
"""

import os
import signal
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from tempfile import TemporaryDirectory

from e2e.lanes import LANE, LANES

FAST = ("-n", "auto", "--dist=worksteal", "--timeout=1800", "-m", "not real and not e2e and not slow", "tests")
"""With a timeout for a machine that is busy with all the others."""
CONTRACTS = ("-v", "--durations=15", "-m", "(real or e2e) and not slow", "tests/contract")
NODES = ("-v", "--durations=15", "-p", "e2e.lanes", "-m", "e2e and not slow", "e2e")
"""In as many runs as there are lanes."""
LAST = 10
"""A tenth of what others get: what nobody else wants, but enough for what has a limit on the clock."""
LONGEST_LINE = 600
"""In characters: an object of the API, quoted in a failure, is much longer."""


def what_the_lab_lacks() -> str:
    """Install what can be installed (as root) and return what is still missing; empty if nothing is."""
    install = ["--install"] if os.geteuid() == 0 else []
    doctor = [sys.executable, "-m", "e2e.lab", "doctor", *install]
    answer = subprocess.run(doctor, capture_output=True, text=True, check=False, timeout=1800)
    return "" if answer.returncode == 0 else answer.stderr.strip().removeprefix("Error: ") or answer.stdout


def pytest(*arguments: str) -> int:
    """Run pytest with inherited output and return its exit code."""
    return subprocess.run([sys.executable, "-m", "pytest", *arguments], check=False).returncode


class Part:
    """A run of pytest in a session of its own.

    Attributes:
        arguments: those of pytest.
        niceness: how far it lets others go first, also where Linux shares processors between sessions.
    """

    def __init__(self, *arguments: str, niceness: int = 0) -> None:
        self.arguments = arguments
        # Who is started in the background ignores SIGINT, and so would all that it starts.
        yielding = (
            f'echo {niceness} 2>/dev/null >/proc/self/autogroup; exec env --default-signal=INT nice -n {niceness} "$@"'
        )
        self._process = subprocess.Popen(
            ["sh", "-c", yielding, "sh", sys.executable, "-m", "pytest", *arguments],
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
            start_new_session=True,
        )  # fmt: skip

    @property
    def pid(self) -> int:
        """The process that leads its session."""
        return self._process.pid

    def wait(self) -> tuple[int, str]:
        """Wait for its end, print what it printed, and return this with its exit code."""
        with self._process:
            output, _ = self._process.communicate()
        print(f"\n=== pytest {' '.join(self.arguments)}\n{output}===", flush=True)
        return self._process.returncode, output

    def follow(self) -> tuple[int, str]:
        """Print each line that it prints at once, and return all of them in the end, with its exit code."""
        lines: list[str] = []
        with self._process:
            for line in self._process.stdout or ():
                print(line, end="", flush=True)
                lines.append(line)
        return self._process.returncode, "".join(lines)

    def end(self) -> None:
        """Interrupt it with all its processes, if it still runs: it takes down its labs first."""
        if self._process.poll() is None:
            os.killpg(self.pid, signal.SIGINT)


def run_all() -> int:
    """Run all tests; the last output is what failed."""
    with TemporaryDirectory() as taken:
        return run_parts(
            *(Part(*NODES, "--taken", taken, LANE, lane) for lane in reversed(LANES)),
            Part(*CONTRACTS),
            Part(*FAST, niceness=LAST),
        )


def run_parts(*parts: Part) -> int:
    """Run all parts and follow the first; the last output is what failed."""
    first, *others = parts
    with ThreadPoolExecutor(max_workers=len(parts)) as waiting:
        done = [waiting.submit(first.follow), *(waiting.submit(part.wait) for part in others)]
        try:
            ended = [each.result() for each in done]
        except BaseException:
            for part in parts:
                part.end()
            raise
    for _, output in ended:
        print("\n".join(what_failed(output)), flush=True)
    return next((code for code, _ in ended if code), 0)


def what_failed(output: str) -> list[str]:
    """Return pytest's lines on what failed and why, and its last line, each cut to a readable length."""
    lines = output.splitlines()
    told = [line for line in lines if line.startswith(("FAILED ", "ERROR ", "E   "))]
    return [line if len(line) <= LONGEST_LINE else f"{line[:LONGEST_LINE]}…" for line in (*told, *lines[-1:])]


def interruptible() -> None:
    """Make an interrupt of every request to end, also in the background, where SIGINT would be ignored."""
    for request in (signal.SIGINT, signal.SIGTERM):
        signal.signal(request, signal.default_int_handler)


def main() -> int:
    """Return the exit code of a failing run, or 0."""
    interruptible()
    lacking = what_the_lab_lacks()
    if lacking and os.environ.get("NODEUPGRADE_E2E") == "required":
        print(f"error: cannot run the tests on real nodes, which are required: {lacking}", file=sys.stderr)
        return 1
    if lacking:
        print(f"skipping the tests on real nodes: {lacking}", flush=True)
        return pytest(*FAST)
    print("running all tests: those on real nodes, and beside them the others", flush=True)
    return run_all()


if __name__ == "__main__":
    sys.exit(main())
