"""Inotify is tried for real, in a user namespace with limits of its own, which concern nobody else."""

import subprocess
import sys
from pathlib import Path

import pytest

from nodeupgrade.node.running_kubelet.inotify_limits import INSTANCES, NEEDED, WATCHES

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
print([kubelet.used_up_inotify({needed}) for _ in range(2)])
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


def _tried(proc: Path, instances: int, watches: int) -> str:
    if subprocess.run([*NAMESPACE, "true"], check=False, capture_output=True, timeout=60).returncode:
        pytest.skip("needs user namespaces")
    limits = {"max_inotify_instances": instances, "max_inotify_watches": watches}
    code = TRIES.format(limits=limits, proc=str(proc), needed=NEEDED)
    done = subprocess.run(
        [*NAMESPACE, sys.executable, "-c", code], check=False, capture_output=True, text=True, timeout=60
    )
    return done.stdout or done.stderr
