"""A program that prints credentials is really run: what it sees of the node, and that it changes nothing and ends."""

import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path, PurePosixPath

import pytest

from nodeupgrade.kubelet.credential_program import CredentialProgram, CredentialProgramError
from nodeupgrade.node.running_kubelet.credential_programs import LARGEST, CredentialPrograms
from nodeupgrade.node.running_kubelet.isolation import INTERPRETER
from tests.contract.node.test_dry_run import PYTHON, running

pytestmark = pytest.mark.real

API = "client.authentication.k8s.io/v1beta1"
ANSWER = f'{{"apiVersion": "{API}", "kind": "ExecCredential", "status": {{"token": "t"}}}}'
BEGINNING = f"""#!{PYTHON} -I
import ctypes, json, os, socket, sys
def tried(act):
    try:
        return f"did it: {{act()}}"
    except OSError as error:
        return error.strerror
"""
PROBE = f"""{BEGINNING}
def status(word):
    return next(line.split()[1] for line in open("/proc/self/status") if line.startswith(word))
def create(top):
    os.close(os.open(top, os.O_TMPFILE | os.O_WRONLY))
def device():
    os.mknod("/tmp/" + str(os.getpid()), 0o20600, os.makedev(1, 3))
    os.unlink("/tmp/" + str(os.getpid()))
tops = sorted("/" + name for name in os.listdir("/") if os.path.isdir("/" + name) and not os.path.islink("/" + name))
tops += [sys.argv[2], "/proc/sys/kernel", "/dev/shm"]
document = {{
    "create": {{top: tried(lambda: create(top)) for top in tops}},
    "open": {{path: tried(lambda: os.open(path, os.O_WRONLY)) for path in (__file__, "/proc/sys/kernel/hostname")}},
    "mode": tried(lambda: os.chmod("/dev/null", 0o666)),
    "key": open(sys.argv[2] + "/key").read(),
    "port": tried(lambda: socket.create_connection(("127.0.0.1", int(sys.argv[1])), 2).close()),
    "signal": tried(lambda: os.kill(int(sys.argv[3]), 0)),
    "device": tried(device),
    "host": tried(lambda: socket.sethostname(socket.gethostname())),
    "processes": [name for name in os.listdir("/proc") if name.isdecimal()],
    "devices": sorted(os.listdir("/dev")),
    "stdin": sys.stdin.read(),
    "user": os.getuid(), "session": os.getsid(0), "self": os.getpid(),
    "capabilities": status("CapEff:") + " " + status("CapBnd:"),
    "variables": sorted(os.environ),
    "remove": tried(lambda: os.unlink(__file__)),
    "mount": tried(lambda: os.chroot("/usr")),
}}
print(json.dumps(document), file=sys.stderr)
sys.exit(1)
"""
"""What it tries leaves nothing behind even where it succeeds."""


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Path]:
    """A directory of the node's, not below /tmp, which a program has for itself."""
    made = Path("/var/lib/nodeupgrade-test") / tmp_path.name
    made.mkdir(parents=True)
    yield made
    subprocess.run(["rm", "-rf", str(made)], check=True)
    made.parent.rmdir()


def run(place: Path, text: str, *words: str, seconds: int = 30, root: Path = Path("/")) -> bytes | None:
    program = place / "print"
    program.write_text(text)
    program.chmod(0o700)
    on_node = PurePosixPath("/") / program.relative_to(root)
    named = CredentialProgram(api_version=API, command=str(on_node), arguments=words)
    programs = CredentialPrograms(root, INTERPRETER, seconds=seconds)
    return programs.printed(named, {"PATH": "/usr/bin:/bin", "LC_ALL": "C.UTF-8"}).token


def probed(place: Path, monkeypatch: pytest.MonkeyPatch, word: str, text: str = PROBE) -> dict[str, object]:
    monkeypatch.setattr("nodeupgrade.node.running_kubelet.credential_programs.MESSAGE_CHARACTERS", LARGEST)
    monkeypatch.setattr("nodeupgrade.node.running_kubelet.credential_programs.shorten", lambda text, _: text)
    with pytest.raises(CredentialProgramError) as told:
        run(place, text, word, str(place), str(os.getpid()))
    found: dict[str, object] = json.loads(str(told.value).partition("no files): ")[2])
    return found


def test_it_can_change_nothing_and_sees_what_it_needs(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if not PYTHON.exists():
        pytest.skip("the probe needs a Python of the system")
    (place / "key").write_text("a key that root alone may read")
    (place / "key").chmod(0o600)
    with socket.create_server(("127.0.0.1", 0)) as server:
        seen = probed(place, monkeypatch, str(server.getsockname()[1]))

    created = seen["create"]
    assert isinstance(created, dict)
    assert str(created.pop("/tmp")).startswith("did it: ")
    assert {"/etc", "/var", "/usr", "/root", "/run", "/sys", "/proc", "/dev", str(place)} <= created.keys()
    assert {top for top, said in created.items() if said.startswith("did it")} == set()
    assert created["/etc"] == created[str(place)] == created["/run"] == "Read-only file system"
    assert set(seen["open"].values()) == {"Read-only file system"}  # type: ignore[attr-defined]
    assert (seen["mode"], seen["remove"]) == ("Read-only file system",) * 2
    assert seen["key"] == "a key that root alone may read"
    assert seen["port"] == "did it: None", "it asks a metadata service"
    assert seen["signal"] == "No such process"
    assert (seen["mount"], seen["device"], seen["host"]) == ("Operation not permitted",) * 3
    assert (seen["processes"], seen["self"], seen["session"]) == (["1", "2"], 2, 2)
    assert (seen["devices"], seen["stdin"], seen["user"]) == (["full", "null", "random", "urandom", "zero"], "", 0)
    assert seen["capabilities"] == f"{'0' * 16} {'0' * 16}"
    assert seen["variables"] == ["LC_ALL", "PATH"]


def test_outside_of_the_cell_it_can(place: Path) -> None:
    """The control: what the probe reports as refused is refused by the cell, not by the machine."""
    if not PYTHON.exists():
        pytest.skip("the probe needs a Python of the system")
    (place / "key").touch()
    (place / "print").write_text(PROBE)
    command = (PYTHON, "-I", place / "print", "1", place, str(os.getpid()))
    done = subprocess.run(command, capture_output=True, check=False, input=b"")
    seen = json.loads(done.stderr)
    could = (seen["create"][str(place)], seen["create"]["/run"], *seen["open"].values())
    could += (seen["mode"], seen["signal"], seen["host"], seen["remove"], seen["mount"])
    assert all(said.startswith("did it: ") for said in could), could


def test_the_node_may_be_mounted_elsewhere(tmp_path: Path) -> None:
    """As in the agent's pod: links lead from the node's root, and what is mounted below it is read-only too."""
    root = tmp_path / "host"
    for name in ("opt", "tmp", "mnt"):
        (root / name).mkdir(parents=True)
    for name in ("usr", "lib", "lib64", "bin"):
        if Path(f"/{name}").is_symlink():
            (root / name).symlink_to(Path(f"/{name}").readlink())
        elif Path(f"/{name}").is_dir():
            (root / name).mkdir()
    mounts = [(Path("/usr"), root / "usr")]
    try:
        for source, target in mounts:
            subprocess.run(["mount", "--bind", source, target], check=True)
        subprocess.run(["mount", "-t", "tmpfs", "none", root / "mnt"], check=True)
        mounts.append((Path(), root / "mnt"))
        script = f"#!/bin/sh\ntouch /mnt/x 2> /dev/null && exit 3\ntouch /opt/x\necho y > /tmp/y\necho '{ANSWER}'\n"

        assert run(root / "opt", script, root=root) == b"t"

        assert not list((root / "mnt").iterdir())
        assert [path.name for path in (root / "opt").iterdir()] == ["print"]
        assert not list((root / "tmp").iterdir())
        (root / "mnt/still-writable").touch()
    finally:
        for _, target in reversed(mounts):
            subprocess.run(["umount", target], check=True)


def test_what_is_mounted_twice_at_a_place_counts_as_it_is_seen(place: Path) -> None:
    """As on Container-Optimized OS: a directory may execute no programs, and one below it may, once again.

    The mount below is there a second time, hidden by the one above, and may execute none.
    """
    home, programs = place / "home", place / "home/bin"
    programs.mkdir(parents=True)
    commands: list[list[str | Path]] = [
        ["mount", "--bind", place, place],
        ["mount", "--make-shared", place],
        ["mount", "--bind", home, home],
        ["mount", "-o", "remount,bind,noexec", home],
        ["mount", "--bind", programs, programs],
        ["mount", "-o", "remount,bind,exec", programs],
    ]
    try:
        for command in commands:
            subprocess.run(command, check=True)
        assert run(programs, f"#!/bin/sh\ntouch {programs}/x 2> /dev/null && exit 3\necho '{ANSWER}'\n") == b"t"
        assert not (programs / "x").exists()
        with pytest.raises(CredentialProgramError, match="Permission denied"):
            run(home, f"#!/bin/sh\necho '{ANSWER}'\n")
    finally:
        subprocess.run(["umount", "--recursive", place], check=True)


def test_one_that_hangs_is_ended_with_all_that_it_started(place: Path) -> None:
    before, word = time.monotonic(), f"97{os.getpid()}"
    with pytest.raises(CredentialProgramError, match="it did not end within 2 s, and was ended"):
        run(place, f"#!/bin/sh\nsetsid sleep {word} &\nsleep {word}\n", seconds=2)
    assert time.monotonic() - before < 60
    assert running(word) == []


def test_one_that_leaves_something_running_leaves_nothing(place: Path) -> None:
    word = f"96{os.getpid()}"
    assert run(place, f"#!/bin/sh\nsetsid sleep {word} > /dev/null 2>&1 &\necho '{ANSWER}'\n") == b"t"
    assert running(word) == []


def test_who_ends_takes_it_along(place: Path) -> None:
    """An agent that is killed leaves no such program behind."""
    word = f"95{os.getpid()}"
    (place / "print").write_text(f"#!/bin/sh\nsleep {word}\n")
    (place / "print").chmod(0o700)
    code = (
        "import sys; from pathlib import Path\n"
        "from nodeupgrade.node.running_kubelet.credential_programs import CredentialPrograms\n"
        "from nodeupgrade.kubelet.credential_program import CredentialProgram\n"
        f"p = CredentialProgram(api_version={API!r}, command={str(place / 'print')!r})\n"
        "CredentialPrograms(Path('/'), (sys.executable, '-I', '-S'), seconds=60).printed(p, {'PATH': '/bin'})\n"
    )
    with subprocess.Popen(
        [sys.executable, "-c", code], env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    ) as it:
        end = time.monotonic() + 60
        while not running(word) and time.monotonic() < end:
            time.sleep(0.1)
        assert running(word), "it never ran"
        it.kill()
    end = time.monotonic() + 10
    while running(word) and time.monotonic() < end:
        time.sleep(0.1)
    assert running(word) == []


@pytest.mark.parametrize("stream", [1, 2])
def test_megabytes_are_not_read(place: Path, stream: int) -> None:
    script = f"#!/bin/sh\nhead -c 50000000 /dev/zero >&{stream}\necho the last words >&2\nexit 4\n"
    with pytest.raises(CredentialProgramError) as told:
        run(place, script)
    expected = f"it prints more than {LARGEST // 1024} KiB" if stream == 1 else "exit status 4"
    assert expected in str(told.value)
    assert len(str(told.value)) < 1000
    assert stream == 1 or str(told.value).endswith("the last words")


def test_signals_have_their_usual_effect(place: Path) -> None:
    """Python ignores SIGPIPE, nohup SIGHUP and a shell SIGINT; programs would inherit that, and what is blocked.

    The program is also not the first process, which the kernel protects from signals. The numbers 32 and 33 are glibc's
    own: whoever was started by its posix_spawn(), as by make, ignores them, and nothing of glibc changes that.
    """
    usual = r"grep -q '^SigIgn:.0000000[01][08]0000000$' /proc/self/status && grep -q '^SigBlk:.0*$' /proc/self/status"
    others = {each: signal.signal(each, signal.SIG_IGN) for each in (signal.SIGHUP, signal.SIGINT)}
    blocked = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGUSR1, signal.SIGTERM})
    try:
        assert run(place, f"#!/bin/sh\n{usual} && echo '{ANSWER}' || grep ^Sig /proc/self/status >&2\n") == b"t"
        with pytest.raises(CredentialProgramError, match="exit status 241"):
            run(place, "#!/bin/sh\nkill -TERM $$\nsleep 5\n")
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, blocked)
        for each, before in others.items():
            signal.signal(each, before)


def test_its_own_tmp_is_bounded(place: Path) -> None:
    script = f"#!/bin/sh\nhead -c 40000000 /dev/zero > /tmp/x && exit 5\necho '{ANSWER}'\n"
    assert run(place, script) == b"t"


def test_it_may_be_no_program(place: Path) -> None:
    with pytest.raises(CredentialProgramError, match=r"exit status 125 .*cannot run the program"):
        run(place, "#!/no/such/interpreter\n")


def test_what_lies_below_a_mount_is_gone_with_it(place: Path) -> None:
    """As where systemd mounts on demand (``binfmt_misc``): two filesystems at one place, and either may hang."""
    if not Path("/dev/fuse").exists():
        pytest.skip("the filesystem that hangs is one of FUSE")
    share = place / "share"
    share.mkdir()
    device = os.open("/dev/fuse", os.O_RDWR)  # which nobody serves, so whoever looks into it waits
    try:
        options = f"fd={device},rootmode=40000,user_id=0,group_id=0"
        subprocess.run(["mount", "-i", "-t", "fuse", "-o", options, "none", share], check=True, pass_fds=[device])
        subprocess.run(["mount", "-t", "tmpfs", "none", share], check=True)
        assert run(place, f"#!/bin/sh\ntouch {share}/x 2> /dev/null && exit 3\necho '{ANSWER}'\n", seconds=5) == b"t"
    finally:
        os.close(device)
        for _ in range(2):
            subprocess.run(["umount", "--lazy", share], check=True)


@pytest.mark.parametrize("odd", ["\u3000", "\v", "\x85", "\u2028", "\r", " ", "\n"])
def test_no_name_of_a_mount_keeps_it_writable(place: Path, odd: str) -> None:
    """Any pod chooses such names, by its subPath and its volumes."""
    source, point = (place / f"{name}{odd}- tmpfs{odd}b" for name in ("source", "point"))
    source.mkdir()
    point.mkdir()
    subprocess.run(["mount", "--bind", source, point], check=True)
    try:
        wrote = f"#!/bin/sh\ntouch '{point}/x' 2> /dev/null && exit 3\necho '{ANSWER}'\n"
        assert run(place, wrote) == b"t"
    finally:
        subprocess.run(["umount", point], check=True)


STAYS = f"""#!{PYTHON} -I
import ctypes, time
ctypes.CDLL(None).prctl(1, 0, 0, 0, 0)
time.sleep(WORD)
"""
"""Does not want to end with its parent (PR_SET_PDEATHSIG)."""


def test_one_that_wants_to_outlive_its_parent_is_ended(place: Path) -> None:
    if not PYTHON.exists():
        pytest.skip("it needs a Python of the system")
    word = f"94{os.getpid()}"
    with pytest.raises(CredentialProgramError, match="it did not end within 2 s, and was ended"):
        run(place, STAYS.replace("WORD", word), word, seconds=2)
    assert running(word) == []


ALONE = f"""{BEGINNING}
def connected(kind, name):
    with socket.socket(socket.AF_UNIX, kind) as it:
        it.connect(name)
def sent(kind, name):
    one, other = socket.socketpair(socket.AF_UNIX, kind)
    one.sendto(b"", name)
def paired(kind):
    one, other = socket.socketpair(socket.AF_UNIX, kind | socket.SOCK_CLOEXEC | socket.SOCK_NONBLOCK)
    one.sendall(b"x")
    return other.recv(1)
def called(act):
    if act == -1:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
libc, place = ctypes.CDLL(None, use_errno=True), sys.argv[2]
print(json.dumps({{
    "path": tried(lambda: connected(socket.SOCK_STREAM, place + "/stream")),
    "abstract": tried(lambda: connected(socket.SOCK_STREAM, chr(0) + sys.argv[1])),
    "datagrams": tried(lambda: connected(socket.SOCK_DGRAM, place + "/datagrams")),
    "one of a pair": tried(lambda: sent(socket.SOCK_DGRAM, place + "/datagrams")),
    "one of a raw pair": tried(lambda: sent(socket.SOCK_RAW, place + "/datagrams")),
    "one that is closed at exec": tried(lambda: sent(socket.SOCK_RAW | socket.SOCK_CLOEXEC, place + "/datagrams")),
    "pair": tried(lambda: paired(socket.SOCK_STREAM)),
    "pair of packets": tried(lambda: paired(socket.SOCK_SEQPACKET)),
    "inet": tried(lambda: socket.socket().close()),
    "io_uring": tried(lambda: called(libc.syscall(425, 0, None))),
    "user namespace": tried(lambda: called(libc.unshare(0x10000000))),
}}), file=sys.stderr)
sys.exit(1)
"""


def test_it_reaches_nobody_by_a_unix_socket_and_gets_no_user_namespace(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """systemd and container runtimes do what root asks for, and heed no capabilities."""
    if not PYTHON.exists():
        pytest.skip("the probe needs a Python of the system")
    name = f"nodeupgrade-test-{os.getpid()}"
    with (
        socket.socket(socket.AF_UNIX) as stream,
        socket.socket(socket.AF_UNIX) as abstract,
        socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as datagrams,
    ):
        stream.bind(str(place / "stream"))
        abstract.bind(f"\0{name}")
        datagrams.bind(str(place / "datagrams"))
        stream.listen()
        abstract.listen()
        seen = probed(place, monkeypatch, name, text=ALONE)
        outside = subprocess.run([PYTHON, "-I", place / "print", name, place], capture_output=True, check=False)
    control = json.loads(outside.stderr)

    refused = ("path", "abstract", "datagrams", "one of a pair", "one of a raw pair", "one that is closed at exec")
    assert {seen[way] for way in refused} == {"Address family not supported by protocol"}
    assert {control[way] for way in refused} == {"did it: None"}
    assert seen["pair"] == control["pair"] == "did it: b'x'", "event loops need one"
    assert seen["pair of packets"] == control["pair of packets"] == "did it: b'x'"
    assert seen["inet"] == "did it: None"
    assert (seen["io_uring"], seen["user namespace"]) == ("Function not implemented", "Operation not permitted")
