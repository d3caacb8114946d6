"""A disk for each lab: a file with a filesystem of its own, mounted at the lab's directory.

It is removed at once, while to remove the tens of thousands of files of a lab takes a minute on some machines.
Where there are no loop devices, the lab is in a plain directory.
"""

import shutil
from pathlib import Path

from e2e.lab.process import run, wait_until

SIZE = 40 * 1024**3
"""Bytes; the file is sparse."""


def create(directory: Path) -> None:
    """Create a lab's directory, on a disk of its own if that is possible."""
    directory.mkdir(parents=True)
    file = _file(directory)
    with file.open("wb") as created:
        created.truncate(SIZE)
    options = ("-q", "-F", "-m", "0", "-E", "lazy_itable_init=1,lazy_journal_init=1,nodiscard")
    made = run("mkfs.ext4", *options, file, check=False)
    if made.returncode or run("mount", "-o", "loop,noatime", file, directory, check=False).returncode:
        file.unlink()


def remove(directory: Path) -> None:
    """Remove a lab's directory, its disk, and what machines have mounted there; nothing may run there any more."""
    if directory.is_mount():
        wait_until("the lab's disk to be idle", lambda: _is_unmounted(directory), timeout=30, interval=0.2)
    _file(directory).unlink(missing_ok=True)
    shutil.rmtree(directory, ignore_errors=True)
    if directory.exists():  # a file that was being written when its process died
        shutil.rmtree(directory)


def _file(directory: Path) -> Path:
    return directory.with_name(f".{directory.name}.disk")


def mounted() -> list[str]:
    """Return this machine's mount points, in the order in which they were mounted."""
    return [line.split()[4] for line in Path("/proc/self/mountinfo").read_text().splitlines()]


def _is_unmounted(directory: Path) -> bool:
    """Unmount it and what is mounted there, perhaps by something that has ended: then its root cannot be asked."""
    below = [place for place in mounted() if f"{place}/".startswith(f"{directory}/")]
    return all(run("umount", place, check=False).returncode == 0 for place in reversed(below))
