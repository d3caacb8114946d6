"""The file system that every node starts from: Debian with systemd and a runtime, created once and cached."""

import os
import shutil
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from e2e.lab import paths
from e2e.lab.locking import locked
from e2e.lab.nodes import nodeimages
from e2e.lab.process import run
from e2e.lab.progress import Progress
from e2e.lab.runtimes import LabRuntime, runtime_named
from e2e.lab.runtimes.containerd import Containerd

_SUITE = os.environ.get("NODEUPGRADE_LAB_SUITE", "bookworm")
_RECIPE = "3"
PACKAGES = (
    "busybox-static", "ca-certificates", "conntrack", "containernetworking-plugins", "curl", "dbus", "iproute2",
    "iptables", "kmod", "procps", "systemd", "systemd-sysv",
)  # fmt: skip
# Not needed in a node, and every node is a copy.
_DROPPED = (
    "usr/share/doc",
    "usr/share/man",
    "usr/share/locale",
    "var/lib/apt/lists",
    "var/cache/apt",
    "etc/resolv.conf",
)
# Units that wait for, or change, hardware that a node does not have.
_MASKED = (
    "apt-daily.timer", "apt-daily-upgrade.timer", "console-getty.service", "dev-hugepages.mount",
    "dpkg-db-backup.timer",
    "e2scrub_all.timer", "e2scrub_reap.service", "fstrim.timer", "getty.target", "kmod-static-nodes.service",
    "modprobe@.service", "proc-sys-fs-binfmt_misc.automount", "sys-fs-fuse-connections.mount",
    "sys-kernel-config.mount", "sys-kernel-debug.mount", "sys-kernel-tracing.mount", "systemd-binfmt.service",
    "systemd-modules-load.service", "systemd-sysctl.service", "systemd-timesyncd.service",
)  # fmt: skip


def ensure(progress: Progress, runtime: LabRuntime | None = None) -> Path:
    """Return the directory of the base root, creating it first if necessary (about a minute).

    Args:
        progress: is told when it is created.
        runtime: of the nodes; containerd by default.
    """
    runtime = runtime or runtime_named("containerd")
    target = directory(runtime)
    if not target.is_dir():
        with locked("base-root", progress):
            if not target.is_dir():
                _make(target, runtime, progress)
    return target


def directory(runtime: LabRuntime) -> Path:
    """Return where the base root of nodes with a runtime is, or will be."""
    plain = isinstance(runtime, Containerd) and not runtime.version
    kind = "" if plain else f"-{runtime.name}{runtime.version}"
    return paths.cache_root() / "roots" / f"{_SUITE}{kind}-r{_RECIPE}"


def copy(destination: Path, runtime: LabRuntime, progress: Progress) -> None:
    """Make ``destination`` a copy of the base root."""
    run("cp", "--archive", "--reflink=auto", ensure(progress, runtime), destination, timeout=300)


def mirror() -> list[str]:
    """Return the mirror for debootstrap; by default none, so that it uses its own."""
    return [chosen] if (chosen := os.environ.get("NODEUPGRADE_LAB_MIRROR")) else []


def _make(target: Path, runtime: LabRuntime, progress: Progress) -> None:
    progress.say(f"making the base of all nodes: Debian {_SUITE} with systemd and {runtime.name}")
    began = time.monotonic()
    with bootstrapped(target.parent, _SUITE, (*PACKAGES, *runtime.packages), _MASKED) as root:
        runtime.complete(root)
        nodeimages.write_archives(root, root / nodeimages.DIRECTORY.relative_to("/"))
        root.rename(target)
    progress.say(f"made the base root in {time.monotonic() - began:.0f} s")


@contextmanager
def bootstrapped(place: Path, suite: str, packages: Sequence[str], masked: Sequence[str]) -> Iterator[Path]:
    """Make a Debian root below a directory; what is not moved elsewhere is removed at the end.

    The caller holds a lock on that directory.

    Args:
        place: the directory.
        suite: Debian release.
        packages: what is installed there besides a minimal system.
        masked: units that it does not start.
    """
    place.mkdir(parents=True, exist_ok=True)
    for stale in place.glob(".new-*"):  # of a process that was killed; we hold the lock
        shutil.rmtree(stale, ignore_errors=True)
    work = Path(tempfile.mkdtemp(prefix=".new-", dir=place))
    try:
        root = work / "root"
        include = f"--include={','.join(packages)}"
        # In namespaces of its own, its mounts and whatever a package starts always end with it.
        alone = ("unshare", "--mount", "--pid", "--fork", "--kill-child=SIGKILL", "--mount-proc")
        run(*alone, "debootstrap", "--variant=minbase", include, suite, root, *mirror(), timeout=900)
        _tidy(root, masked)
        yield root
    finally:
        shutil.rmtree(work, ignore_errors=True)


def _tidy(root: Path, masked: Sequence[str]) -> None:
    for name in _DROPPED:
        path = root / name
        shutil.rmtree(path) if path.is_dir() else path.unlink(missing_ok=True)
    units = root / "etc/systemd/system"
    for name in masked:
        (units / name).unlink(missing_ok=True)
        (units / name).symlink_to("/dev/null")
