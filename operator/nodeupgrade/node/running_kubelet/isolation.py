"""Runs one program where it can touch nothing of the node: ``python isolation.py < order``.

The order is JSON: ``root`` (where the node's root directory is), ``program``, ``words``, ``environment``, ``seconds``
to live, and what the program is given, if anything:

- A dry run of a kubelet is given ``files`` (content in base64, by path) and ``directories``. The program (where this
  process sees it) gets a root directory in memory, with itself, the node's libraries and these files. There is no
  /proc, /sys, /dev or /run, and no interface of its network is up. So there is nothing to write to or to connect to.
- A program that prints credentials is given ``absent``, types of filesystems that belong to other machines. It (its
  path on the node, and the ``name`` that it is called by) gets the node's root directory, in which everything is
  mounted read-only, and the node's network. It may write to a /tmp of its own, in memory. Of devices it has those
  without a memory; /proc shows its own processes. Filesystems of other machines, and of FUSE, are not there, since a
  dead server would hold it up. It can connect to no Unix socket: systemd and container runtimes do what any process of
  the superuser asks for there.

Either way, processes and IPC are its own, so there is nothing to signal; it has no capability, cannot get any in a user
namespace, and has a session of its own; and everything goes with the process.

It is a program of its own, since a process with several threads cannot give namespaces to a child. It imports nothing
of this project, so that it starts within milliseconds.
"""

import base64
import ctypes
import errno
import json
import os
import re
import resource
import signal
import struct
import sys
from pathlib import Path, PurePosixPath
from typing import Any

INTERPRETER = (sys.executable, "-I", "-S")
"""Words that start this process's own Python for a cell: what a cell does depends on nothing else."""
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
SCRATCH = 16 * 1024**2
"""Bytes that a program may write to its own /tmp."""
DEVICES = ("null", "zero", "full", "random", "urandom")
ESCAPES = {"\\040": " ", "\\011": "\t", "\\012": "\n", "\\134": "\\", "\\043": "#"}
"""What the kernel escapes in a mount table, all else being written as it is."""
CANNOT = 125
"""Exit status if the program was not started; standard error says why."""

# From the kernel's headers linux/sched.h, mount.h, prctl.h, securebits.h and capability.h.
NEW_MOUNTS, NEW_NAME, NEW_IPC, NEW_PROCESSES, NEW_NETWORK = 0x20000, 0x4000000, 0x8000000, 0x20000000, 0x40000000
READ_ONLY, NO_SUID, NO_DEVICES, NO_PROGRAMS, REMOUNT, BIND, RECURSIVE, PRIVATE = (
    *(1, 2, 4, 8, 0x20),
    *(0x1000, 0x4000, 0x40000),
)
NO_EXTRAS = NO_SUID | NO_DEVICES
KEPT = {os.ST_NOEXEC: NO_PROGRAMS, os.ST_NOATIME: 0x400, os.ST_NODIRATIME: 0x800, os.ST_RELATIME: 0x200000}
DETACH, NO_FOLLOW = 2, 8
DIES_WITH_PARENT, DROP_FROM_BOUNDS, SECURE_BITS, NO_NEW_PRIVILEGES = 1, 24, 28, 38
NO_ROOT_LOCKED = 0b11
CAPABILITIES = 64
# And from seccomp.h, filter.h, audit.h and unistd.h: the number of an architecture, and of its calls that make sockets.
SECCOMP, SECCOMP_FILTER, REFUSE, ALLOW = 22, 2, 0x50000, 0x7FFF0000
LOAD, EQUAL, AT_LEAST, AND, RETURN = 0x20, 0x15, 0x35, 0x54, 0x06
NUMBER, ARCHITECTURE, FAMILY, TYPE = 0, 4, 16, 24
CALLS = {"x86_64": (0xC000003E, 41, 53), "aarch64": (0xC00000B7, 198, 199)}
IO_URING, FOREIGN_CALLS = 425, 0x40000000
UNIX, STREAMS, PACKETS, TYPES = 1, 1, 5, 0xF
CAPABILITY_VERSION_3 = 0x20080522

_libc = ctypes.CDLL(None, use_errno=True)


def main() -> int:
    """Run what standard input orders; return its exit status."""
    order = json.load(sys.stdin.buffer)
    signal.alarm(order["seconds"])
    _call("prctl", DIES_WITH_PARENT, signal.SIGKILL, 0, 0, 0)
    given = "files" in order
    _call("unshare", NEW_MOUNTS | NEW_NAME | NEW_IPC | NEW_PROCESSES | (NEW_NETWORK if given else 0))
    _mount("none", Path("/"), RECURSIVE | PRIVATE)
    if given:
        _furnish(order)
    else:
        _seal(Path(order["root"]), order["absent"])
    first = os.fork()  # the first process of its own namespace of processes: all others end with it
    if first == 0:
        try:
            os._exit(_stay(order, given=given))
        finally:
            os._exit(CANNOT)
    return os.waitstatus_to_exitcode(os.waitpid(first, 0)[1])


def _stay(order: dict[str, Any], *, given: bool) -> int:
    """Run the program and return its exit status, as a process that the program can neither signal nor imitate.

    The program is not the first process itself: it could ask not to end with its parent, and the kernel ignores signals
    to the first process that it does not handle.
    """
    _call("prctl", DIES_WITH_PARENT, signal.SIGKILL, 0, 0, 0)
    child = os.fork()
    if child == 0:
        try:
            _enter(order, given=given)
        finally:
            os._exit(CANNOT)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) % 256


def _furnish(order: dict[str, Any]) -> None:
    """Make the new root directory, mount it read-only, and go there."""
    root = Path(order["root"])
    _mount("tmpfs", CELL, NO_EXTRAS, SIZE)
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
    _mount("none", CELL, REMOUNT | BIND | READ_ONLY | NO_EXTRAS)
    _go_to(CELL)


def _seal(root: Path, types: list[str]) -> None:
    """Show the node's root directory elsewhere, all read-only, with other directories /dev and /tmp, and go there.

    A process whose root directory is not that of its mount namespace may create no user namespace.
    """
    _mount(str(root), CELL, BIND | RECURSIVE)
    root = CELL
    devices = {name: os.open(root / "dev" / name, os.O_PATH) for name in DEVICES if (root / "dev" / name).exists()}
    inside = {point: kinds for point, kinds in _mounts().items() if point.is_relative_to(root)}
    for point, kinds in inside.items():
        absent = [kind in types or kind.startswith("fuse") for kind in kinds]
        if point != root and any(absent):
            for _ in kinds[absent.index(True) :]:  # and what is mounted upon it, as systemd does on demand
                _libc.umount2(os.fsencode(point), DETACH | NO_FOLLOW)  # fails for what another mount hides
    for point in inside:
        _make_read_only(point)
    for point in inside:
        if _flags(point) & os.ST_RDONLY == 0:
            raise OSError(errno.EROFS, f"{point} cannot be made read-only")
    for name, size in (("tmp", f"size={SCRATCH},mode=1777"), ("dev", "size=64k,mode=755")):
        if (root / name).is_dir() and not (root / name).is_symlink():
            _mount("tmpfs", root / name, NO_EXTRAS, size)
    for name, device in devices.items():
        (root / "dev" / name).touch()
        _mount(f"/proc/self/fd/{device}", root / "dev" / name, BIND)
        _mount("none", root / "dev" / name, REMOUNT | BIND | READ_ONLY | NO_SUID | NO_PROGRAMS)
        os.close(device)
    if devices:
        _mount("none", root / "dev", REMOUNT | BIND | READ_ONLY | NO_SUID | NO_PROGRAMS)
    _go_to(root)


def _make_read_only(point: Path) -> None:
    """Make the uppermost mount at a path read-only, and keep what else it forbids."""
    flags = _flags(point)
    kept = sum(flag for seen, flag in KEPT.items() if flags & seen)
    try:
        _mount("none", point, REMOUNT | BIND | READ_ONLY | NO_EXTRAS | kept)
    except OSError as error:  # it is hidden below another mount, so that nothing leads there
        if error.errno not in {errno.EINVAL, errno.ENOENT, errno.ENOTDIR}:
            raise


def _mounts() -> dict[Path, list[str]]:
    """Return the types of the filesystems that are mounted at a path, by path; several may be, one upon the other."""
    found: dict[Path, list[str]] = {}
    for line in os.fsdecode(Path("/proc/self/mountinfo").read_bytes()).split("\n")[:-1]:
        mount, _, filesystem = line.partition(" - ")  # neither is in a name
        found.setdefault(Path(_unescaped(mount.split(" ")[4])), []).append(filesystem.split(" ")[0])
    return found


def _unescaped(path: str) -> str:
    return re.sub("|".join(map(re.escape, ESCAPES)), lambda found: ESCAPES[found[0]], path)


def _flags(point: Path) -> int:
    """Return the flags of what is mounted where a path leads, as statvfs has them; of what leads nowhere, read-only."""
    try:
        return os.statvfs(point).f_flag
    except OSError:  # hidden below another mount, or gone with what it was mounted in
        return os.ST_RDONLY


def _go_to(root: Path) -> None:
    os.chroot(root)
    os.chdir("/")


def _enter(order: dict[str, Any], *, given: bool) -> None:
    """Give up everything that a superuser may do, for good, and become the program."""
    try:
        os.setsid()
        if not given and Path("/proc").is_dir() and not Path("/proc").is_symlink():
            _mount("proc", Path("/proc"), READ_ONLY | NO_EXTRAS | NO_PROGRAMS, kind="proc")
        os.setgroups([])
        _call("prctl", NO_NEW_PRIVILEGES, 1, 0, 0, 0)
        _call("prctl", SECURE_BITS, NO_ROOT_LOCKED, 0, 0, 0)
        for capability in range(CAPABILITIES):
            _libc.prctl(DROP_FROM_BOUNDS, capability, 0, 0, 0)  # fails for those that the kernel does not have
        _call("capset", (ctypes.c_uint32 * 2)(CAPABILITY_VERSION_3, 0), (ctypes.c_uint32 * 6)())
        _call("prctl", DIES_WITH_PARENT, signal.SIGKILL, 0, 0, 0)
        largest = 0 if given else SCRATCH
        for limit, most in ((resource.RLIMIT_FSIZE, largest), (resource.RLIMIT_CORE, 0)):
            resource.setrlimit(limit, (most, most))
        if not given:
            _forbid_unix_sockets()
        for signalled in signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP}:
            signal.signal(signalled, signal.SIG_DFL)  # Python ignores some, and nohup and shells ignore others
        signal.pthread_sigmask(signal.SIG_SETMASK, ())
        program = PROGRAM if given else order["program"]
        name = order.get("name", program)
        os.execve(program, [name, *order["words"]], order["environment"])  # noqa: S606 - there is no shell in there
    except OSError as error:
        print(f"cannot run the program: {error}", file=sys.stderr, flush=True)


def _forbid_unix_sockets() -> None:
    """Have the kernel refuse what could connect to a Unix socket, by a path or by an abstract name; pairs are allowed.

    Programs of another architecture than the machine's number their calls differently, so they can make none.
    """
    if (machine := os.uname().machine) not in CALLS:
        raise OSError(errno.ENOSYS, f"the numbers of the system calls of {machine} are not known")
    architecture, socket, pair = CALLS[machine]
    unknown, refused, allowed = REFUSE | errno.ENOSYS, REFUSE | errno.EAFNOSUPPORT, ALLOW
    program = (
        (LOAD, 0, 0, ARCHITECTURE),
        (EQUAL, 1, 0, architecture),
        (RETURN, 0, 0, unknown),
        (LOAD, 0, 0, NUMBER),
        (EQUAL, 11, 0, IO_URING),  # it makes sockets, too
        (AT_LEAST, 10, 0, FOREIGN_CALLS),
        (EQUAL, 6, 0, socket),
        (EQUAL, 0, 7, pair),
        (LOAD, 0, 0, TYPE),
        (AND, 0, 0, TYPES),
        (EQUAL, 4, 0, STREAMS),
        (EQUAL, 3, 0, PACKETS),
        (RETURN, 0, 0, refused),  # one of a pair of datagram sockets, as the kernel makes for SOCK_RAW too, can send on
        (LOAD, 0, 0, FAMILY),
        (EQUAL, 2, 0, UNIX),
        (RETURN, 0, 0, allowed),
        (RETURN, 0, 0, unknown),
        (RETURN, 0, 0, refused),
    )
    filters = ctypes.create_string_buffer(b"".join(struct.pack("=HBBI", *each) for each in program))
    order = ctypes.create_string_buffer(struct.pack("@HP", len(program), ctypes.addressof(filters)))
    _call("prctl", SECCOMP, SECCOMP_FILTER, order, 0, 0)


def _show(source: Path, place: Path) -> None:
    """Show a file or directory of the node, read-only; what is mounted below it is left out."""
    place.parent.mkdir(parents=True, exist_ok=True)
    if source.is_dir():
        place.mkdir()
    else:
        place.touch()
    _mount(str(source), place, BIND)
    _mount("none", place, REMOUNT | BIND | READ_ONLY | NO_EXTRAS)


def _below(root: Path, path: str) -> Path:
    inside = PurePosixPath("/") / path
    if ".." in inside.parts:
        raise OSError(f"not a plain path: {path}")
    return root / inside.relative_to("/")


def _mount(source: str, place: Path, flags: int, options: str = "", kind: str = "tmpfs") -> None:
    _call("mount", os.fsencode(source), os.fsencode(place), kind.encode(), ctypes.c_ulong(flags), options.encode())


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
