"""Golden disks: an installed machine with the images in its runtime, made once and cached.

Nothing boots for it: on an emulated machine, to import the operator's image alone takes minutes.
"""

import hashlib
import shutil
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from e2e.lab import paths
from e2e.lab.cluster import images
from e2e.lab.locking import locked
from e2e.lab.machines import qemu
from e2e.lab.machines.machine import Machine
from e2e.lab.nodes import baseroot, nodeimages
from e2e.lab.process import run
from e2e.lab.progress import Progress
from e2e.lab.runtimes import runtime_named

IMPORTED = "/usr/share/nodeupgrade-lab/imported"
"""In a machine: a line for each archive whose images its runtime has."""

_RECIPE = "2"
_SIZE = "16G"
_IMPORT_SECONDS = 300
# Units that wait for what a machine of the lab does not have: a network outside, somebody at its console.
_MASKED = (
    "apt-daily.timer", "apt-daily-upgrade.timer", "console-getty.service", "dpkg-db-backup.timer", "e2scrub_all.timer",
    "e2scrub_reap.service", "fstrim.timer", "getty.target", "systemd-networkd-wait-online.service",
    "systemd-timesyncd.service",
)  # fmt: skip
_IMPORT = """\
mount -t proc proc "$1/proc"
mount --rbind /dev "$1/dev"
mount -t tmpfs tmpfs "$1/run"
mount -t tmpfs tmpfs "$1/tmp"
mount --bind / "$1/mnt"
root=$1
shift
exec chroot "$root" sh -ec '
containerd --log-level error &
until ctr version > /run/version 2>&1; do sleep 0.1; done
for archive; do ctr --namespace k8s.io images import "/mnt$archive"; done
kill $!
wait $! || true
' import "$@"
"""

# setfiles finds the files that it has opened again below /proc.
_RELABEL = """\
mount -t proc proc "$1/proc"
exec chroot "$1" setfiles -F -e /proc /etc/selinux/default/contexts/files/file_contexts /
"""
# What the lab comes in by may reach the runtime's socket; to everything else the policy applies as Debian has it.
_ADMIT = """\
mount -t proc proc "$1/proc"
echo '(typepermissive sshd_t)' > "$1/root/lab.cil"
chroot "$1" semodule --noreload --install=/root/lab.cil
rm "$1/root/lab.cil"
"""


@dataclass(frozen=True, slots=True)
class Golden:
    """What a machine starts from: the files of a directory."""

    directory: Path  # where it is

    @property
    def disk(self) -> Path:
        """The image of its disk, a file system."""
        return self.directory / "disk.raw"

    @property
    def kernel(self) -> Path:
        """Its kernel."""
        return self.directory / "vmlinuz"

    @property
    def initrd(self) -> Path:
        """The kernel's initial file system."""
        return self.directory / "initrd.img"

    @property
    def accelerator(self) -> Path:
        """The file that says with what its kernel runs on this host: ``kvm`` or ``tcg``."""
        return self.directory / "accelerator"


def ensure(machine: Machine, progress: Progress) -> Golden:
    """Return the golden disk of a machine's kind, making it first if necessary (a few minutes)."""
    operator = images.operator(progress)
    root = _root(machine, progress)
    archives = [*sorted((root / nodeimages.DIRECTORY.relative_to("/")).glob("*.tar")), operator.archive]
    key = hashlib.sha256("\n".join((_RECIPE, root.name, operator.pinned)).encode()).hexdigest()[:16]
    target = paths.cache_root() / "machines" / f"{root.name}-{key}"
    if not target.is_dir():
        with locked("machines", progress):
            if not target.is_dir():
                progress.say(f"making the disk of machines: {root.name} with {operator.pinned}")
                _make(target, root, archives, machine)
    return Golden(target)


def _root(machine: Machine, progress: Progress) -> Path:
    target = paths.cache_root() / "roots" / f"machine-{machine.suite}-{machine.security}-r{_RECIPE}"
    if not target.is_dir():
        with locked("base-root", progress):
            if not target.is_dir():
                progress.say(f"making the root of machines: Debian {machine.suite} with a kernel, {machine.security}")
                packages = (*baseroot.PACKAGES, *runtime_named("containerd").packages, *machine.packages)
                with baseroot.bootstrapped(target.parent, machine.suite, packages, _MASKED) as root:
                    nodeimages.write_archives(root, root / nodeimages.DIRECTORY.relative_to("/"))
                    root.rename(target)
    return target


def _make(target: Path, base: Path, archives: Sequence[Path], machine: Machine) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    for stale in (*target.parent.glob(".new-*"), *target.parent.glob(f"{base.name}-*")):  # of code that is no more
        shutil.rmtree(stale)
    work = Path(tempfile.mkdtemp(prefix=".new-", dir=target.parent))
    try:
        root = work / "root"
        run("cp", "--archive", "--reflink=auto", base, root, timeout=300)
        isolated = ("unshare", "--mount", "--pid", "--fork", "--kill-child=SIGKILL")
        run(*isolated, "sh", "-ec", _IMPORT, "import", root, *archives, timeout=_IMPORT_SECONDS)
        (root / IMPORTED.lstrip("/")).write_text("".join(f"{imported_as(archive)}\n" for archive in archives))
        made = work / "made"
        made.mkdir()
        for name in ("vmlinuz", "initrd.img"):
            shutil.copyfile((root / name).resolve(), made / name)
        if machine.selinux:
            run("unshare", "--mount", "sh", "-ec", _ADMIT, "admit", root, timeout=_IMPORT_SECONDS)
            relabel(root)
        (made / "accelerator").write_text(qemu.accelerator(made / "vmlinuz"))
        options = ("-q", "-F", "-m", "0", "-E", "lazy_itable_init=0,lazy_journal_init=0", "-d", root)
        run("mkfs.ext4", *options, made / "disk.raw", _SIZE, timeout=600)
        made.rename(target)
    finally:
        shutil.rmtree(work, ignore_errors=True)


def relabel(root: Path) -> None:
    """Give every file below a root the label that its own policy says."""
    run("unshare", "--mount", "sh", "-ec", _RELABEL, "relabel", root, timeout=_IMPORT_SECONDS)


def imported_as(archive: Path) -> str:
    """Return the line by which an archive is known in a machine."""
    return f"{archive.parent.name}/{archive.name}"
