"""Run every test that this machine can run; before starting, report which ones it cannot.

Tests on booted nodes mostly wait, so those that share a node and those with nodes of their own run side by side, and
all others beside them, with what they leave of the processors; those with real software wait as well, so they come
before the fast ones, which do not. With NODEUPGRADE_E2E=required (as in CI) it is an error if a machine cannot run all
of them.
"""

import os
import signal
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

FAST = ("-n", "auto", "--timeout=600", "-m", "not real and not e2e and not slow", "tests")
"""With a timeout for a busy machine."""
CONTRACTS = ("-v", "--durations=15", "-m", "(real or e2e) and not slow", "tests/contract")
SHARED_NODE = ("-v", "--durations=15", "-m", "e2e and not slow and shared_node", "e2e")
OWN_NODES = ("-v", "--durations=15", "-m", "e2e and not slow and not shared_node", "e2e")
YIELDING = 19
"""Niceness of what runs beside the tests on nodes."""
LATER = 5
"""Niceness of its session: a third of what others get, since API servers that it starts must answer in time."""


def what_the_lab_lacks() -> str:
    """Install what can be installed (as root) and return what is still missing; empty if nothing is."""
    install = ["--install"] if os.geteuid() == 0 else []
    doctor = [sys.executable, "-m", "e2e.lab", "doctor", *install]
    answer = subprocess.run(doctor, capture_output=True, text=True, check=False, timeout=1800)
    return "" if answer.returncode == 0 else answer.stderr.strip().removeprefix("Error: ") or answer.stdout


def pytest(*arguments: str) -> int:
    """Run pytest with inherited output and return its exit code."""
    return subprocess.run([sys.executable, "-m", "pytest", *arguments], check=False).returncode


def pytest_beside(*arguments: str) -> subprocess.Popen[str]:
    """Start pytest in a session of its own.

    Unless it starts nodes, it comes last, also where Linux shares processors between sessions.
    """
    argv = [sys.executable, "-m", "pytest", *arguments]
    if arguments != OWN_NODES:
        yielding = f'echo {LATER} 2>/dev/null >/proc/self/autogroup; exec nice -n {YIELDING} "$@"'
        argv = ["sh", "-c", yielding, "sh", *argv]
    return subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, start_new_session=True)


class Beside:
    """Runs parts one after the other, beside something else."""

    def __init__(self) -> None:
        self.running: subprocess.Popen[str] | None = None
        self.failed: list[tuple[int, str]] = []
        self.ended = False

    def run(self, *parts: tuple[str, ...]) -> None:
        """Run pytest with each of the arguments, and print its output when it has ended."""
        for arguments in parts:
            if self.ended:
                return
            with pytest_beside(*arguments) as self.running:
                output, _ = self.running.communicate()
            print(f"\n=== beside: pytest {' '.join(arguments)}\n{output}===", flush=True)
            if self.running.returncode:
                self.failed.append((self.running.returncode, output))
            if self.running.returncode < 0:  # somebody wants an end
                self.ended = True

    def end(self) -> None:
        """End what runs, with all its processes, and begin nothing more."""
        self.ended = True
        if self.running is not None and self.running.poll() is None:
            os.killpg(self.running.pid, signal.SIGTERM)


def run_all() -> int:
    """Run all tests; the summary of a part that failed is the last output."""
    besides = Beside(), Beside()
    with ThreadPoolExecutor(max_workers=2) as others:
        done = others.submit(besides[0].run, OWN_NODES), others.submit(besides[1].run, CONTRACTS, FAST)
        try:
            code = pytest(*SHARED_NODE)
        except BaseException:
            for beside in besides:
                beside.end()
            raise
        for each in done:
            each.result()
    for failure, output in (failed for beside in besides for failed in beside.failed):
        code = code or failure
        print("\n".join(output.splitlines()[-30:]), flush=True)
    return code


def main() -> int:
    """Return the exit code of a failing run, or 0."""
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
