"""Run every test that this machine can run; before starting, report which ones it cannot.

With NODEUPGRADE_E2E=required (as in CI) it is an error if a machine cannot run all of them.
"""

import os
import subprocess
import sys

FAST = ("-n", "auto", "-m", "not real and not e2e and not slow", "tests")
REAL = ("-v", "--durations=15", "-m", "(real or e2e) and not slow", "tests/contract", "e2e")


def what_the_lab_lacks() -> str:
    """Install what can be installed (as root) and return what is still missing; empty if nothing is."""
    install = ["--install"] if os.geteuid() == 0 else []
    doctor = [sys.executable, "-m", "e2e.lab", "doctor", *install]
    answer = subprocess.run(doctor, capture_output=True, text=True, check=False, timeout=1800)
    return "" if answer.returncode == 0 else answer.stderr.strip().removeprefix("Error: ") or answer.stdout


def pytest(*arguments: str) -> int:
    """Run pytest with inherited output and return its exit code."""
    return subprocess.run([sys.executable, "-m", "pytest", *arguments], check=False).returncode


def main() -> int:
    """Return the exit code of the first failing run; pytest's summary is the last output."""
    lacking = what_the_lab_lacks()
    if lacking and os.environ.get("NODEUPGRADE_E2E") == "required":
        print(f"error: cannot run the tests on real nodes, which are required: {lacking}", file=sys.stderr)
        return 1
    if lacking:
        print(f"skipping the tests on real nodes: {lacking}", flush=True)
        return pytest(*FAST)
    print("running all tests: the fast ones first, then those on real nodes", flush=True)
    return pytest(*FAST) or pytest(*REAL)


if __name__ == "__main__":
    sys.exit(main())
