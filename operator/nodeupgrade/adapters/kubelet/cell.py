"""Runs one program where it sees only what it is given and can touch nothing: ``python cell.py < order``.

The order is JSON: ``root`` (where the node's root directory is), ``program`` (where this process sees it), ``words``,
``environment``, ``files`` (content in base64, by path), ``directories``, and ``seconds`` to live.

The program gets a root directory of its own, in memory and read-only, with itself, the node's libraries and the given
files. There is no /proc, /sys, /dev or /run; its network has no interface that is up; processes and IPC are its own; it
has no capability. So there is nothing to write to, to signal or to connect to, and everything goes with the process.

It is a program of its own, since a process with several threads cannot give namespaces to a child. It imports nothing
of this project, so that it starts within milliseconds.
"""

import base64
import ctypes
import json
import os
import resource
import signal
import sys
from pathlib import Path, PurePosixPath
from typing import Any

CELL = Path("/sys")
"""Where the new root is mounted: a directory that every system has, and below which nothing is that is needed here."""
PROGRAM = "/kubelet"
LIBRARIES = (
    "usr/lib",
    "usr/lib32",
    "usr/lib64",
    "usr/local/lib",
    "lib",
    "lib32",
    "lib64",
    "etc/ld.so.cache",
    "nix/store",
)
SIZE = "size=64m,mode=755"
CANNOT = 125
"""Exit status if the program was not started; standard error says why."""

# From the kernel's headers linux/sched.h, mount.h, prctl.h, securebits.h and capability.h.
NEW_MOUNTS, NEW_NAME, NEW_IPC, NEW_PROCESSES, NEW_NETWORK = 0x20000, 0x4000000, 0x8000000, 0x20000000, 0x40000000
READ_ONLY, NO_SUID, NO_DEVICES, REMOUNT, BIND, RECURSIVE, PRIVATE = 1, 2, 4, 0x20, 0x1000, 0x4000, 0x40000
DIES_WITH_PARENT, DROP_FROM_BOUNDS, SECURE_BITS, NO_NEW_PRIVILEGES = 1, 24, 28, 38
NO_ROOT_LOCKED = 0b11
CAPABILITIES = 64
CAPABILITY_VERSION_3 = 0x20080522

_libc = ctypes.CDLL(None, use_errno=True)


def main() -> int:
    """Run what standard input orders; return its exit status."""
    order = json.load(sys.stdin.buffer)
    signal.alarm(order["seconds"])
    _call("unshare", NEW_MOUNTS | NEW_NAME | NEW_IPC | NEW_PROCESSES | NEW_NETWORK)
    _furnish(order)
    child = os.fork()  # the first process of its own namespace of processes: all others end with it
    if child == 0:
        try:
            _enter(order)
        finally:
            os._exit(CANNOT)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def _furnish(order: dict[str, Any]) -> None:
    """Make the new root directory, mount it read-only, and go there."""
    root = Path(order["root"])
    _mount("none", Path("/"), RECURSIVE | PRIVATE)
    _mount("tmpfs", CELL, NO_SUID | NO_DEVICES, SIZE)
    _show(Path(order["program"]), _below(CELL, PROGRAM))
    for name in LIBRARIES:
        source, place = root / name, CELL / name
        if source.is_symlink():
            place.parent.mkdir(parents=True, exist_ok=True)
            place.symlink_to(source.readlink())
        elif source.exists():
            _show(source, place)
    for path in order["directories"]:
        _below(CELL, path).mkdir(parents=True, exist_ok=True)
    for path, content in order["files"].items():
        place = _below(CELL, path)
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_bytes(base64.b64decode(content))
    _mount("none", CELL, REMOUNT | BIND | READ_ONLY | NO_SUID | NO_DEVICES)
    os.chroot(CELL)
    os.chdir("/")


def _enter(order: dict[str, Any]) -> None:
    """Give up everything that a superuser may do, for good, and become the program."""
    try:
        os.setgroups([])
        _call("prctl", NO_NEW_PRIVILEGES, 1, 0, 0, 0)
        _call("prctl", SECURE_BITS, NO_ROOT_LOCKED, 0, 0, 0)
        for capability in range(CAPABILITIES):
            _libc.prctl(DROP_FROM_BOUNDS, capability, 0, 0, 0)  # fails for those that the kernel does not have
        _call("capset", (ctypes.c_uint32 * 2)(CAPABILITY_VERSION_3, 0), (ctypes.c_uint32 * 6)())
        _call("prctl", DIES_WITH_PARENT, signal.SIGKILL, 0, 0, 0)
        for limit in (resource.RLIMIT_FSIZE, resource.RLIMIT_CORE):
            resource.setrlimit(limit, (0, 0))
        os.execve(PROGRAM, [PROGRAM, *order["words"]], order["environment"])  # noqa: S606 - there is no shell in there
    except OSError as error:
        print(f"cannot run the program: {error}", file=sys.stderr, flush=True)


def _show(source: Path, place: Path) -> None:
    """Show a file or directory of the node, read-only; what is mounted below it is left out."""
    place.parent.mkdir(parents=True, exist_ok=True)
    if source.is_dir():
        place.mkdir()
    else:
        place.touch()
    _mount(str(source), place, BIND)
    _mount("none", place, REMOUNT | BIND | READ_ONLY | NO_SUID | NO_DEVICES)


def _below(root: Path, path: str) -> Path:
    inside = PurePosixPath("/") / path
    if ".." in inside.parts:
        raise OSError(f"not a plain path: {path}")
    return root / inside.relative_to("/")


def _mount(source: str, place: Path, flags: int, options: str = "") -> None:
    _call("mount", os.fsencode(source), os.fsencode(place), b"tmpfs", ctypes.c_ulong(flags), options.encode())


def _call(name: str, *arguments: object) -> None:
    if getattr(_libc, name)(*arguments) != 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{name}: {os.strerror(number)}")


if __name__ == "__main__":
    try:
        sys.exit(main())
    except OSError as problem:
        print(problem.strerror or problem, file=sys.stderr)
        sys.exit(CANNOT)
