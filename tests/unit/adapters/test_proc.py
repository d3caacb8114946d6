"""Reading a node's processes."""

import os
import subprocess
import time
from hashlib import sha256
from pathlib import Path, PurePosixPath

import pytest

from nodeupgrade.errors import Inconsistent, StepFailed, Transient
from nodeupgrade.node.host.files.mounted import HostFiles
from nodeupgrade.node.host.processes.process import Process
from nodeupgrade.node.host.processes.processes import ProcessTable, parse_stat
from nodeupgrade.node.host.system_clock import NodeClock
from nodeupgrade.node.running_kubelet.process import HostKubelet

TAIL = "S 7 1 1 0 -1 4194560 1 2 3 4 5 6 7 8 20 0 1 0 176946 1000 10"


@pytest.mark.parametrize("name", ["pause", "a b", "a) S 99 (b", "((", "))"])
def test_a_name_may_hold_anything(name: str) -> None:
    stat = parse_stat(f"42 ({name}) {TAIL}")
    assert (stat.pid, stat.command, stat.state, stat.parent, stat.started) == (42, name, "S", 7, 176946)


@pytest.mark.parametrize("text", ["", "42 pause S 7", "42 (pause) S 7"])
def test_anything_else_is_no_status(text: str) -> None:
    with pytest.raises(ValueError, match="not a process status"):
        parse_stat(text)


@pytest.mark.parametrize(
    ("text", "started", "lives"),
    [
        (f"42 (pause) {TAIL}", 176946, True),
        (f"42 (pause) {TAIL}", 176945, False),
        (f"42 (pause) Z{TAIL[1:]}", 176946, False),
        (f"42 (pause) X{TAIL[1:]}", 176946, False),
        (None, 176946, False),
    ],
    ids=["itself", "another of the same number", "zombie", "dead", "gone"],
)
def test_a_process_lives_as_long_as_it_is_the_same_and_has_not_ended(
    tmp_path: Path, text: str | None, started: int, lives: bool
) -> None:
    if text is not None:
        (tmp_path / "42").mkdir()
        (tmp_path / "42/stat").write_text(text)

    assert ProcessTable(tmp_path).lives(Process(pid=42, started=started)) is lives


def test_this_process_is_seen_and_a_missing_one_is_not() -> None:
    table, me = ProcessTable(), os.getpid()

    found = table.process(me)
    assert found is not None
    assert found == Process(pid=me, started=found.started)
    stat = table.stat(me)
    assert stat is not None
    assert stat.parent == os.getppid()
    for missing in (0, -1, 2**22 + 1):
        assert (table.program_stamp(missing), table.program_digest(missing)) == (None, None)
        assert (table.process(missing), table.executable(missing), table.network(missing)) == (None, None, None)
    assert table.arguments(2**22 + 1) is None


def test_a_replaced_program_has_no_path(tmp_path: Path) -> None:
    program = tmp_path / "program"
    program.write_bytes(Path("/bin/sh").read_bytes())
    program.chmod(0o755)
    command = [str(program), "-c", "echo started; read wait", ""]
    kubelet = HostKubelet(ProcessTable())
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"started\n"
        assert kubelet.executable(process.pid) == PurePosixPath(program)
        assert kubelet.arguments(process.pid) == tuple(command)
        stamp = HostFiles(tmp_path).stamp(PurePosixPath("/program"))
        assert kubelet.program_stamp(process.pid) == stamp
        other = tmp_path / "other"
        other.write_bytes(b"")
        other.replace(program)
        assert kubelet.executable(process.pid) is None
        assert kubelet.program_stamp(process.pid) == stamp != HostFiles(tmp_path).stamp(PurePosixPath("/program"))
        assert ProcessTable().program_digest(process.pid) == sha256(Path("/bin/sh").read_bytes()).hexdigest()
        process.communicate(b"", timeout=600)
    with pytest.raises(Transient, match="is gone"):
        kubelet.arguments(process.pid)


def test_a_script_is_no_binary_and_runs_as_its_interpreter(tmp_path: Path) -> None:
    """What it is that runs as a script cannot be told, so a script is no kubelet."""
    script = tmp_path / "script"
    script.write_text("#!/bin/sh\necho started; read wait\n")
    script.chmod(0o755)
    (tmp_path / "empty").touch()
    kubelet = HostKubelet(ProcessTable(), root=tmp_path)
    with subprocess.Popen([str(script)], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"started\n"
        assert kubelet.program_stamp(process.pid) != HostFiles(tmp_path).stamp(PurePosixPath("/script"))
        process.communicate(b"", timeout=600)

    assert [kubelet.is_elf(PurePosixPath(f"/{name}")) for name in ("script", "empty", "none")] == [False] * 3
    assert HostKubelet(ProcessTable()).is_elf(PurePosixPath("/bin/sh"))
    with pytest.raises(StepFailed, match="cannot read /: "):
        kubelet.is_elf(PurePosixPath("/"))


def test_a_boot_is_told_by_the_kernel_and_by_init(tmp_path: Path) -> None:
    (tmp_path / "sys/kernel/random").mkdir(parents=True)
    (tmp_path / "sys/kernel/random/boot_id").write_text("c0ffee\n")
    clock = NodeClock(ProcessTable(tmp_path))
    with pytest.raises(Inconsistent, match="no process 1"):
        clock.boot()

    (tmp_path / "1").mkdir()
    (tmp_path / "1/stat").write_text(f"1 (systemd) {TAIL}")
    first = clock.boot()
    (tmp_path / "1/stat").write_text(f"1 (systemd) {TAIL.replace('176946', '999999')}")

    assert first == "c0ffee:176946"
    assert clock.boot() != first


def test_a_process_tells_its_start_and_its_environment() -> None:
    kubelet = HostKubelet(ProcessTable())
    before = time.time()
    pipe, environment = subprocess.PIPE, {"A": "1=2", "B": ""}
    with subprocess.Popen(["/bin/cat"], stdin=pipe, stdout=pipe, bufsize=0, env=environment) as process:
        # While a program is being loaded the kernel shows an empty environment: wait until it runs.
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(b"x")
        assert process.stdout.read(1) == b"x"
        assert kubelet.environment(process.pid) == environment
        assert before - 0.1 <= kubelet.started(process.pid) <= time.time()
    for ask in (kubelet.environment, kubelet.started):
        with pytest.raises(Transient, match="is gone"):
            ask(2**22 + 1)


def test_open_files_of_a_user_are_counted(tmp_path: Path) -> None:
    for pid, links in (("7", ["anon_inode:inotify", "/dev/null", "anon_inode:inotify"]), ("8", ["/x"]), ("self", [])):
        opened = tmp_path / pid / "fd"
        opened.mkdir(parents=True)
        for number, target in enumerate(links):
            (opened / str(number)).symlink_to(target)
    (tmp_path / "9").mkdir()
    processes = ProcessTable(tmp_path)

    assert processes.files_named("anon_inode:inotify", user=os.getuid()) == 2
    assert processes.files_named("anon_inode:inotify", user=os.getuid() + 1) == 0
