"""What the rescue script does about CRI-O's files, run by a real shell on real files and processes.

Only ``systemctl`` and ``curl`` are stand-ins. ``put`` and ``reinstate`` are called as the script calls them.
"""

import subprocess
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from nodeupgrade.api.values import ContainerId
from nodeupgrade.kubelethash import HashValue
from nodeupgrade.node.host.processes.process import Process
from nodeupgrade.node.host.processes.processes import ProcessTable
from nodeupgrade.node.rescue.script_logic import LOGIC
from nodeupgrade.node.runtimes.cri.connection import Call
from nodeupgrade.node.runtimes.cri.rescue_calls import listed_new_hashes
from nodeupgrade.node.runtimes.crio.before_images import StoredContainer, StoredState, encode
from nodeupgrade.node.runtimes.crio.metadata import StoredSpecification
from nodeupgrade.node.runtimes.crio.rescue_fragment import render
from nodeupgrade.node.runtimes.inventory import StoredHashes
from nodeupgrade.node.runtimes.runtime import BeforeImage
from tests.contract.node.crio_storage import go_json, specification

OLD, NEW = (StoredHashes(container=HashValue(value)) for value in ("aaaa0000", "b1"))
IDS = ("c1aa", "c2bb")
RUNS = go_json({"status": "running", "pid": 7}).encode()
ENDED = go_json({"status": "stopped", "pid": 7, "exitCode": 255}).encode()
SYSTEMCTL = """#!/bin/sh
cd {root}; echo "$*" >> calls
[ ! -e stuck ] || exit 1
"""
CURL = """#!/bin/sh
[ "$2" != --version ] || {{ echo 'Features: HTTP2'; exit 0; }}
for word; do case "$last" in --output) body=$word;; --dump-header) head=$word;; esac; last=$word; done
cat > /dev/null; cat {root}/served > "$body"; echo 'grpc-status: 0' > "$head"
"""
FILES = LOGIC[LOGIC.index("reads() {") : LOGIC.index("restore_program() {")]
"""The script's own functions for files."""


def state(process: Process, **more: object) -> bytes:
    told = {"status": "running", "initPid": process.pid, "initStartTime": str(process.started)} | more
    return go_json(told).encode()


class Storage:
    """Two containers whose hashes were rewritten; the process of the first one lives, that of the second does not.

    Each shares the PIDs of its pod, whose process lives or does not likewise.
    """

    def __init__(self, root: Path, process: subprocess.Popen[bytes]) -> None:
        self.root = root
        for name, text in (("systemctl", SYSTEMCTL), ("curl", CURL)):
            (root / name).write_text(text.format(root=root))
            (root / name).chmod(0o755)
        (root / "calls").touch()
        lives = ProcessTable().process(process.pid)
        assert lives is not None
        self.baseline = f"{IDS[0]} {lives.pid} {lives.started}\n{IDS[1]} {lives.pid} {lives.started + 1}"
        self.images: list[BeforeImage] = []
        self.before: dict[str, bytes] = {}
        self.pods = dict(zip(IDS, (lives, replace(lives, started=lives.started + 1)), strict=True))
        for identity in IDS:
            pod = root / f"pod-{identity}" / "userdata"
            pod.mkdir(parents=True)
            (pod / "state.json").write_bytes(state(self.pods[identity]))
            sandbox = StoredState(directory=str(pod), state=state(self.pods[identity]))
            directory = root / identity / "userdata"
            directory.mkdir(parents=True)
            made = specification(identity, {"io.kubernetes.container.hash": "aaaa0000"}, sandbox="s")
            config = go_json(made, indent=True).encode()
            self.before[identity] = config
            stored = StoredContainer(directory=str(directory), config=config, state=RUNS, sandbox=sandbox)
            self.images.append(encode(ContainerId(identity), stored))
            (directory / "config.json").write_bytes(StoredSpecification(ContainerId(identity), config).rewritten(NEW))
            (directory / "config.json").chmod(0o640)
            (directory / "state.json").write_bytes(RUNS)

    def file(self, identity: str, name: str) -> Path:
        return self.root / identity / "userdata" / name

    def run(self, command: str) -> int:
        changes = [(image, NEW) for image in self.images]
        fragment = render("/run/crio/crio.sock", Call(path="/list", frame=b"x"), changes)
        assert fragment.restores
        baseline = f"baseline() {{\n    cat <<'.'\n{self.baseline}\n.\n}}\n"
        script = f"set -u\nPATH={self.root}:$PATH\nanswers={self.root}\nruntime_unit=crio.service\n"
        text = f"{script}{baseline}{FILES}{fragment.text}\n{command}\n"
        done = subprocess.run(["sh", "-c", text], capture_output=True, text=True, check=False, timeout=600)
        assert "not found" not in done.stderr
        return done.returncode

    def calls(self) -> list[str]:
        return (self.root / "calls").read_text().splitlines()


@pytest.fixture
def storage(tmp_path: Path) -> Iterator[Storage]:
    with subprocess.Popen(["sleep", "1000"]) as process:
        yield Storage(tmp_path, process)
        process.kill()


def test_every_byte_is_put_back_while_it_runs(storage: Storage) -> None:
    assert storage.run("restore_hashes && restore_hashes") == 0

    for identity in IDS:
        file = storage.file(identity, "config.json")
        assert file.read_bytes() == storage.before[identity]
        assert file.stat().st_mode & 0o777 == 0o640
        assert sorted(entry.name for entry in file.parent.iterdir()) == ["config.json", "state.json"]
    assert storage.calls() == [], "it reads them when it starts"


def test_what_was_half_done_is_completed_and_what_is_gone_needs_nothing(storage: Storage) -> None:
    storage.file(IDS[0], ".config.json.nodeupgrade-new").write_text("half")
    storage.file(IDS[1], "config.json").unlink()

    assert storage.run("restore_hashes") == 0

    assert storage.file(IDS[0], "config.json").read_bytes() == storage.before[IDS[0]]
    assert not storage.file(IDS[0], ".config.json.nodeupgrade-new").exists()
    assert not storage.file(IDS[1], "config.json").exists()


def test_only_what_lives_is_reinstated_with_the_runtime_stopped(storage: Storage) -> None:
    for identity in IDS:
        storage.file(identity, "state.json").write_bytes(ENDED)

    assert storage.run("reinstate") == 0

    assert storage.file(IDS[0], "state.json").read_bytes() == RUNS
    assert storage.file(IDS[1], "state.json").read_bytes() == ENDED, "another process has its PID"
    assert storage.calls() == ["stop crio.service", "reset-failed crio.service", "start crio.service"]
    assert storage.run("reinstate") == 1, "nothing is left to do"
    assert len(storage.calls()) == 3


@pytest.mark.parametrize(("verdict", "marked"), [(True, True), (True, False), (False, True)])
def test_a_pod_is_reinstated_if_its_own_process_lives(storage: Storage, verdict: bool, marked: bool) -> None:
    """Even if each of its containers is shown: CRI-O may have taken it alone for ended, or the marker was left."""
    files = {each: storage.file(f"pod-{each}", "state.json") for each in IDS}
    for identity, file in files.items():
        if verdict:
            file.write_bytes(state(storage.pods[identity], status="stopped", exitCode=255))
        if marked:
            file.with_name("stopped").touch()

    assert storage.run("reinstate") == 0

    assert files[IDS[0]].read_bytes() == state(storage.pods[IDS[0]])
    assert not files[IDS[0]].with_name("stopped").exists()
    assert files[IDS[1]].with_name("stopped").exists() is marked, "another process has its PID"
    assert (b"exitCode" in files[IDS[1]].read_bytes()) is verdict
    assert storage.calls() == ["stop crio.service", "reset-failed crio.service", "start crio.service"]
    assert storage.run("reinstate") == 1, "nothing is left to do"


def test_what_cannot_be_stopped_is_not_written(storage: Storage) -> None:
    storage.file(IDS[0], "state.json").write_bytes(ENDED)
    (storage.root / "stuck").touch()

    assert storage.run("reinstate") == 1
    assert storage.file(IDS[0], "state.json").read_bytes() == ENDED


def test_a_new_hash_is_found_in_what_is_served(storage: Storage) -> None:
    (served,) = set(listed_new_hashes([(image, NEW) for image in storage.images]))
    (storage.root / "served").write_bytes(b"\0\0" + served + b"\n")
    assert storage.run("can_ask && listing && serves_new_hashes") == 0
    (storage.root / "served").write_bytes(b"\0\0" + served[:-1] + b"0\n")
    assert storage.run("listing && serves_new_hashes") == 1
