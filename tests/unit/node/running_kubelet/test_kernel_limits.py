"""Inotify is tried for real, in a user namespace with limits of its own, which concern nobody else."""

import subprocess
import sys
from pathlib import Path

import pytest

from nodeupgrade.node.running_kubelet.kernel_limits import (
    EPOLL,
    INSTANCES,
    NEEDED,
    NEEDED_THREADS,
    PROCESSES,
    THREADS,
    WATCHES,
)

MOST = 100_000
NAMESPACE = ("unshare", "--user", "--map-root-user")
TRIES = """
from pathlib import Path, PurePosixPath
from nodeupgrade.node.host.files.host_files import HostFiles
from nodeupgrade.node.host.processes.processes import ProcessTable
from nodeupgrade.node.running_kubelet.host_kubelet import HostKubelet
for name, limit in {limits!r}.items():
    HostFiles().write_kernel(PurePosixPath("/proc/sys/user") / name, str(limit).encode())
kubelet = HostKubelet(ProcessTable(Path({proc!r})))
print([kubelet.used_up_limit({needed}) for _ in range(2)])
"""

SCARCE = """
import errno, select
class Scarce:
    left = {left}
    def __init__(self):
        self.mine = 0
    def register(self, descriptor):
        if not Scarce.left:
            raise OSError(errno.ENOSPC, "No space left on device")
        Scarce.left -= 1
        self.mine += 1
    def close(self):
        Scarce.left += self.mine
select.epoll = Scarce
"""


@pytest.mark.parametrize(
    ("instances", "watches", "limit"),
    [(NEEDED, MOST, None), (NEEDED - 1, MOST, INSTANCES), (NEEDED, 0, WATCHES), (NEEDED, NEEDED * 30, WATCHES)],
    ids=["enough", "too few instances", "no watch", "too few watches"],
)
def test_what_is_left_is_tried_and_given_back(tmp_path: Path, instances: int, watches: int, limit: str | None) -> None:
    (tmp_path / "1").symlink_to("/proc/self")

    assert _tried(tmp_path, instances, watches) == f"{[limit] * 2}\n"


def test_what_is_left_in_another_user_namespace_than_the_nodes_says_nothing(tmp_path: Path) -> None:
    (tmp_path / "1/ns").mkdir(parents=True)
    (tmp_path / "1/ns/user").symlink_to("user:[1]")

    assert _tried(tmp_path, 0, 0) == "[None, None]\n"


@pytest.mark.parametrize(
    ("threads", "processes", "most", "limit"),
    [
        (100, 32768, 190_000, None),
        (32768 - NEEDED_THREADS, 32768, 190_000, None),
        (32769 - NEEDED_THREADS, 32768, 190_000, PROCESSES),
        (20_000, 32768, 20_100, THREADS),
    ],
)
def test_processes_and_threads_are_counted(
    tmp_path: Path, threads: int, processes: int, most: int, limit: str | None
) -> None:
    (tmp_path / "1").symlink_to("/proc/self")
    (tmp_path / "loadavg").write_text(f"0.00 0.01 0.05 2/{threads} 4711\n")
    (kernel := tmp_path / "sys/kernel").mkdir(parents=True)
    (kernel / "pid_max").write_text(f"{processes}\n")
    (kernel / "threads-max").write_text(f"{most}\n")

    assert _tried(tmp_path, NEEDED, MOST) == f"{[limit] * 2}\n"


@pytest.mark.parametrize(("left", "limit"), [(256, None), (255, EPOLL)])
def test_watches_of_epoll_are_tried_and_given_back(tmp_path: Path, left: int, limit: str | None) -> None:
    """The kernel counts them for the user outside of all namespaces, so that they are not used up for this test."""
    (tmp_path / "1").symlink_to("/proc/self")

    assert _tried(tmp_path, NEEDED, MOST, first=SCARCE.format(left=left)) == f"{[limit] * 2}\n"


def _tried(proc: Path, instances: int, watches: int, *, first: str = "") -> str:
    if subprocess.run([*NAMESPACE, "true"], check=False, capture_output=True, timeout=60).returncode:
        pytest.skip("needs user namespaces")
    limits = {"max_inotify_instances": instances, "max_inotify_watches": watches}
    code = first + TRIES.format(limits=limits, proc=str(proc), needed=NEEDED)
    done = subprocess.run(
        [*NAMESPACE, sys.executable, "-c", code], check=False, capture_output=True, text=True, timeout=60
    )
    return done.stdout or done.stderr
