"""Run every test that this machine can run; before starting, report which ones it cannot.

Tests on booted nodes and with real software mostly wait, so all parts run side by side: those that share a node, those
with nodes of their own, those with real software, and with what all these leave of the processors the fast ones, which
wait for nothing. With NODEUPGRADE_E2E=required (as in CI) it is an error if a machine cannot run all of them.
"""

import os
import signal
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

FAST = ("-n", "auto", "-m", "not real and not e2e and not slow", "tests")
CONTRACTS = ("-v", "--durations=15", "-m", "(real or e2e) and not slow", "tests/contract")
SHARED_NODE = ("-v", "--durations=15", "-m", "e2e and not slow and shared_node", "e2e")
OWN_NODES = ("-v", "--durations=15", "-m", "e2e and not slow and not shared_node", "e2e")
BESIDE = ((OWN_NODES, 0), (CONTRACTS, 5), (FAST, 10))
"""What runs beside the tests that share a node, and its niceness: 5 is a third of what others get, 10 is a tenth."""


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
    """Pytest beside something else, in a session of its own, since Linux may share processors between sessions.

    Attributes:
        pid: of its session.
        output: once it has ended.
    """

    def __init__(self, arguments: tuple[str, ...], niceness: int) -> None:
        self._arguments, self.output = arguments, ""
        yielding = f'echo {niceness} 2>/dev/null >/proc/self/autogroup; exec nice -n {niceness} "$@"'
        argv = ["sh", "-c", yielding, "sh", sys.executable, "-m", "pytest", *arguments]
        self._process = subprocess.Popen(
            argv, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, start_new_session=True
        )
        self.pid = self._process.pid

    def wait(self) -> int:
        """Print the output once it has ended, and return its exit code."""
        self.output, _ = self._process.communicate()
        print(f"\n=== beside: pytest {' '.join(self._arguments)}\n{self.output}===", flush=True)
        return self._process.returncode

    def end(self) -> None:
        """End it, with all its processes."""
        if self._process.poll() is None:
            os.killpg(self.pid, signal.SIGTERM)


def run_all() -> int:
    """Run all tests; the summary of a part that failed is the last output."""
    besides = [Beside(*each) for each in BESIDE]
    with ThreadPoolExecutor(max_workers=len(besides)) as threads:
        waiting = [threads.submit(beside.wait) for beside in besides]
        try:
            code = pytest(*SHARED_NODE)
            codes = [each.result() for each in waiting]
        except BaseException:
            for beside in besides:
                beside.end()
            raise
    for beside, failure in zip(besides, codes, strict=True):
        if failure:
            code = code or failure
            print("\n".join(beside.output.splitlines()[-30:]), flush=True)
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
