"""Run every test that this machine can run; before starting, report which ones it cannot.

Tests on booted nodes mostly wait, so those that share a node and those with nodes of their own run side by side. Beside
them run those with real software, which wait as well, with what they leave of the processors, and the fast ones, which
never wait, with what is left then. With NODEUPGRADE_E2E=required (as in CI) it is an error if a machine cannot run all
of them.
"""

import os
import signal
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

FAST = ("-n", "auto", "--timeout=1800", "-m", "not real and not e2e and not slow", "tests")
"""With a timeout for a machine that is busy with all the others."""
CONTRACTS = ("-v", "--durations=15", "-m", "(real or e2e) and not slow", "tests/contract")
SHARED_NODE = ("-v", "--durations=15", "-m", "e2e and not slow and shared_node", "e2e")
OWN_NODES = ("-v", "--durations=15", "-m", "e2e and not slow and not shared_node", "e2e")
LATER = 5
"""A third of what others get, since API servers that are started must answer in time."""
LAST = 19
"""What nobody else wants, or a hundredth."""


def what_the_lab_lacks() -> str:
    """Install what can be installed (as root) and return what is still missing; empty if nothing is."""
    install = ["--install"] if os.geteuid() == 0 else []
    doctor = [sys.executable, "-m", "e2e.lab", "doctor", *install]
    answer = subprocess.run(doctor, capture_output=True, text=True, check=False, timeout=1800)
    return "" if answer.returncode == 0 else answer.stderr.strip().removeprefix("Error: ") or answer.stdout


def pytest(*arguments: str) -> int:
    """Run pytest with inherited output and return its exit code."""
    return subprocess.run([sys.executable, "-m", "pytest", *arguments], check=False).returncode


class Beside:
    """A run of pytest in a session of its own, beside something else.

    Attributes:
        arguments: those of pytest.
        niceness: how far it lets others go first, also where Linux shares processors between sessions.
    """

    def __init__(self, *arguments: str, niceness: int = 0) -> None:
        self.arguments = arguments
        yielding = f'echo {niceness} 2>/dev/null >/proc/self/autogroup; exec nice -n {niceness} "$@"'
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
        print(f"\n=== beside: pytest {' '.join(self.arguments)}\n{output}===", flush=True)
        return self._process.returncode, output

    def end(self) -> None:
        """End it with all its processes, if it still runs."""
        if self._process.poll() is None:
            os.killpg(self.pid, signal.SIGTERM)


def run_all() -> int:
    """Run all tests; the summary of a part that failed is the last output."""
    besides = Beside(*OWN_NODES), Beside(*CONTRACTS, niceness=LATER), Beside(*FAST, niceness=LAST)
    with ThreadPoolExecutor(max_workers=len(besides)) as others:
        done = [others.submit(beside.wait) for beside in besides]
        try:
            code = pytest(*SHARED_NODE)
        except BaseException:
            for beside in besides:
                beside.end()
            raise
        ended = [each.result() for each in done]
    for failure, output in ended:
        if failure:
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
