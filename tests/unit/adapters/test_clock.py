"""The node's two clocks, told apart by a kernel whose time since boot is an hour ahead."""

import subprocess
import sys

import pytest

HOUR = 3600
AHEAD = ("unshare", "--time", "--boottime", str(HOUR))
PROGRAM = """
import time
from pathlib import Path
from nodeupgrade.node.host.system_clock import NodeClock
from nodeupgrade.node.host.processes.processes import ProcessTable
clock = NodeClock(ProcessTable(Path("/proc")))
before, awake, after = time.monotonic(), clock.awake().seconds, time.monotonic()
print(before <= awake <= after, round(clock.monotonic() - clock.awake().seconds))
"""


def test_time_spent_suspended_is_part_of_one_of_them_only() -> None:
    """systemd's timestamps and ``time.monotonic`` are of the clock that stands still."""
    if subprocess.run([*AHEAD, "true"], capture_output=True, check=False).returncode:
        pytest.skip("this needs time namespaces, and root")
    difference = _shown((sys.executable,))
    assert _shown((*AHEAD, sys.executable)) == ("True", str(int(difference[1]) + HOUR))


def _shown(python: tuple[str, ...]) -> tuple[str, ...]:
    import_path = {"PYTHONPATH": ":".join(sys.path)}
    done = subprocess.run([*python, "-c", PROGRAM], capture_output=True, text=True, check=True, env=import_path)
    return tuple(done.stdout.split())
