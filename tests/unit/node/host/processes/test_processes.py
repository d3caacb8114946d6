"""Tests for reading processes from /proc."""

import errno
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from nodeupgrade.node.host.processes import processes
from nodeupgrade.node.host.processes.process import Process
from nodeupgrade.node.host.processes.processes import ProcessTable, parse_stat
from tests.builders.proc_stat import TAIL


@pytest.mark.parametrize("name", ["pause", "a b", "a) S 99 (b", "((", "))", "a\nb", "a\n0) Z 1", "\x0b\u2028\u3000"])
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
        (f"42 (pause) Z{TAIL[1:].replace(' 20 0 1 0 ', ' 20 0 2 0 ')}", 176946, True),
        (f"42 (pause) X{TAIL[1:]}", 176946, False),
        (None, 176946, False),
    ],
    ids=["itself", "another of the same number", "zombie", "first thread ended", "dead", "gone"],
)
def test_a_process_lives_as_long_as_it_is_the_same_and_has_not_ended(
    tmp_path: Path, text: str | None, started: int, lives: bool
) -> None:
    if text is not None:
        (tmp_path / "42").mkdir()
        (tmp_path / "42/stat").write_text(text)

    assert ProcessTable(tmp_path).lives(Process(pid=42, started=started)) is lives


FIRST_THREAD_ENDS = """
import ctypes, sys, threading, time
def run():
    time.sleep(0.2)
    print("runs", flush=True)
    sys.stdin.read()
threading.Thread(target=run).start()
ctypes.CDLL(None).syscall({call}, 0)
"""
"""With exit(2), which ends a thread and not the process, as pthread_exit() does."""
EXIT = {"x86_64": 60}


def test_a_process_lives_although_its_first_thread_has_ended() -> None:
    """The kernel shows it as a zombie until the last one has."""
    code = FIRST_THREAD_ENDS.format(call=EXIT.get(os.uname().machine, 93))
    started = [sys.executable, "-c", code]
    with subprocess.Popen(started, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as child:
        assert child.stdout is not None
        assert child.stdout.readline() == b"runs\n"
        stat = ProcessTable().stat(child.pid)
        assert stat is not None
        assert (stat.state, ProcessTable().lives(stat.process)) == ("Z", True)

        child.kill()
        deadline = time.monotonic() + 10
        while ProcessTable().lives(stat.process) and time.monotonic() < deadline:
            time.sleep(0.01)
        assert not ProcessTable().lives(stat.process), "a zombie that its parent has yet to see"


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


def test_a_process_that_ends_while_its_network_is_looked_at_has_none(monkeypatch: pytest.MonkeyPatch) -> None:
    """The kernel denies access then, as to one that nobody may look at."""
    table, gone, opens = ProcessTable(), 2**22 + 1, os.open

    def denied(path: Path | str, *flags: int) -> int:
        if str(path).endswith("/ns/net"):
            raise PermissionError(errno.EACCES, "Permission denied")
        return opens(path, *flags)

    monkeypatch.setattr(os, "open", denied)
    monkeypatch.setattr(Path, "readlink", denied)

    assert table.network(gone) is None
    with pytest.raises(ProcessLookupError):
        table.open_network(gone)
    for look in (table.network, table.open_network):
        with pytest.raises(PermissionError):
            look(os.getpid())


@pytest.mark.parametrize(("number", "seen"), [(3, 3), (4, 0)])
def test_a_process_with_very_many_files_open_is_not_inspected(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int, seen: int
) -> None:
    monkeypatch.setattr(processes, "MOST_DESCRIPTORS", 3)
    (tmp_path / "7/fd").mkdir(parents=True)
    for each in range(number):
        (tmp_path / "7/fd" / str(each)).symlink_to(f"socket:[{each}]")

    assert len(ProcessTable(tmp_path).sockets(7)) == seen


@pytest.mark.parametrize("odd", ["\r", "\v", "\f", "\x85", "\u2028", "\n"])
def test_no_name_of_a_process_is_read_as_its_number_in_its_own_namespace(odd: str) -> None:
    """The kernel escapes line feeds and backslashes in it, and nothing else."""
    names_itself = "import ctypes, sys; ctypes.CDLL(None).prctl(15, sys.argv[1].encode()); print(flush=True); input()"
    command = [sys.executable, "-c", names_itself, f"{odd}NSpid:\t1"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.readline()
        stat = ProcessTable().stat(process.pid)
        assert ProcessTable().own_number(process.pid) == process.pid
        assert stat is not None
        assert (stat.command, stat.parent) == (f"{odd}NSpid:\t1", os.getpid())
        process.communicate(b"\n")
