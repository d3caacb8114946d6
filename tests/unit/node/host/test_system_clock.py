"""Tests for the boot identity and the two clocks of a node."""

import subprocess
import sys
from pathlib import Path

import pytest

from nodeupgrade.errors import Inconsistent
from nodeupgrade.node.host.processes.processes import ProcessTable
from nodeupgrade.node.host.system_clock import SystemClock
from tests.builders.proc_stat import TAIL

HOUR = 3600
AHEAD = ("unshare", "--time", "--boottime", str(HOUR))
PROGRAM = """
import time
from pathlib import Path
from nodeupgrade.node.host.system_clock import SystemClock
from nodeupgrade.node.host.processes.processes import ProcessTable
clock = SystemClock(ProcessTable(Path("/proc")))
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


def test_a_boot_is_told_by_the_kernel_and_by_init(tmp_path: Path) -> None:
    (tmp_path / "sys/kernel/random").mkdir(parents=True)
    (tmp_path / "sys/kernel/random/boot_id").write_text("c0ffee\n")
    clock = SystemClock(ProcessTable(tmp_path))
    with pytest.raises(Inconsistent, match="no process 1"):
        clock.boot()

    (tmp_path / "1").mkdir()
    (tmp_path / "1/stat").write_text(f"1 (systemd) {TAIL}")
    first = clock.boot()
    (tmp_path / "1/stat").write_text(f"1 (systemd) {TAIL.replace('176946', '999999')}")

    assert first == "c0ffee:176946"
    assert clock.boot() != first
