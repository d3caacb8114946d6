"""Run every test that this machine can run; before starting, report which ones it cannot.

With NODEUPGRADE_E2E=required (as in CI) it is an error if a machine cannot run all of them.
"""

import os
import subprocess
import sys
from pathlib import Path

FAST = ("-n", "auto", "-m", "not real and not e2e and not slow", "tests")
REAL = ("-v", "--durations=15", "-m", "(real or e2e) and not slow", "tests/contract", "e2e")
SIDE_BY_SIDE = ("--dist", "loadfile", "--no-loadscope-reorder")
"""The tests of a file share a lab; e2e/conftest.py orders the files."""

MEMORY_OF_A_LAB = 3 << 20
"""In KiB, including its tests."""
INOTIFY_OF_LARGEST_LAB, INOTIFY_OF_A_LAB, INOTIFY_OF_OTHERS = 60, 24, 15
"""inotify instances; by default, a kernel allows root 128."""


def what_the_lab_lacks() -> str:
    """Install what can be installed (as root) and return what is still missing; empty if nothing is."""
    install = ["--install"] if os.geteuid() == 0 else []
    doctor = [sys.executable, "-m", "e2e.lab", "doctor", *install]
    answer = subprocess.run(doctor, capture_output=True, text=True, check=False, timeout=1800)
    return "" if answer.returncode == 0 else answer.stderr.strip().removeprefix("Error: ") or answer.stdout


def labs_at_once(*, processors: int, memory: int, inotify: int) -> int:
    """Return how many labs a machine has room for; they mostly wait, but a starting kubelet needs a whole processor."""
    watched = 1 + (inotify - INOTIFY_OF_OTHERS - INOTIFY_OF_LARGEST_LAB) // INOTIFY_OF_A_LAB
    return max(1, min(processors, memory // MEMORY_OF_A_LAB, watched))


def labs_here() -> int:
    """Return how many labs this machine has room for."""
    meminfo = Path("/proc/meminfo").read_text().split()
    return labs_at_once(
        processors=os.cpu_count() or 1,
        memory=int(meminfo[meminfo.index("MemAvailable:") + 1]),
        inotify=int(Path("/proc/sys/fs/inotify/max_user_instances").read_text()),
    )


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
    labs = labs_here()
    print(f"running all tests: the fast ones first, then those on real nodes in {labs} labs at once", flush=True)
    return pytest(*FAST) or pytest("-n", str(labs), *SIDE_BY_SIDE, *REAL)


if __name__ == "__main__":
    sys.exit(main())
