"""What the rescue script does about Docker's hashes, run by a real shell on real files.

Only ``systemctl`` and ``curl`` are stand-ins: dockerd serves what its files said when it was started.
"""

import subprocess
from collections.abc import Callable
from pathlib import Path, PurePosixPath

import pytest

from nodeupgrade.kubelethash import HashValue
from nodeupgrade.node.runtimes.docker import metadata
from nodeupgrade.node.runtimes.docker.rescue_fragment import render
from nodeupgrade.node.runtimes.inventory import StoredHashes
from nodeupgrade.node.runtimes.runtime import BeforeImage
from tests.builders.docker_files import ID, OTHER, content

OLD, NEW = (StoredHashes(container=HashValue(value)) for value in ("aaaa0000", "b1"))
SYSTEMCTL = """#!/bin/sh
cd {root}; echo "$*" >> calls
case "$*" in
  "is-active --quiet docker.service") [ -e up ];;
  *MainPID*) if [ -e up ]; then echo MainPID=7; else echo MainPID=0; fi;;
  "stop docker.socket docker.service") rm -f up; [ ! -e stubborn ] || : > up;;
  "start docker.service") : > up; cat containers/*/config.v2.json > served;;
esac
"""
CURL = """#!/bin/sh
cd {root}
[ "$2" != --version ] || exit 0
for word; do case "$last" in --output) body=$word;; esac; last=$word; done
[ -e up ] || exit 7
case "$last" in */info) cat info > "$body";; */containers/*) cat served > "$body";; esac
"""


class Node:
    """A node on which hashes were rewritten, and dockerd was restarted or not."""

    def __init__(self, root: Path) -> None:
        self.root = root
        (root / "bin").mkdir()
        for name, text in (("systemctl", SYSTEMCTL), ("curl", CURL)):
            (root / "bin" / name).write_text(text.format(root=root))
            (root / "bin" / name).chmod(0o755)
        (root / "up").touch()
        (root / "calls").touch()
        (root / "answers").mkdir()
        (root / "info").write_text('{"LiveRestoreEnabled":true}')
        self.before = {i: content({metadata.HASH_LABEL: "aaaa0000"}, i) for i in (ID, OTHER)}
        for container_id, data in self.before.items():
            self.put(container_id, data.replace(self._entry("aaaa0000"), self._entry("b1")))
        self.served()

    @staticmethod
    def _entry(value: str) -> bytes:
        return f'"Labels":{{"{metadata.HASH_LABEL}":"{value}"}}'.encode()

    def file(self, container_id: str) -> Path:
        return self.root / "containers" / container_id / "config.v2.json"

    def put(self, container_id: str, data: bytes) -> None:
        self.file(container_id).parent.mkdir(parents=True, exist_ok=True)
        self.file(container_id).write_bytes(data)
        self.file(container_id).chmod(0o600)

    def served(self) -> None:
        files = (self.root / "containers").glob("*/config.v2.json")
        (self.root / "served").write_bytes(b"".join(file.read_bytes() for file in files))

    def run(self, command: str) -> int:
        stored = {i: metadata.StoredConfig.of(i, data).data for i, data in self.before.items()}
        images = (BeforeImage(container_id=i, encoding=metadata.ENCODING, data=stored[i], hashes=OLD) for i in stored)
        changes = [(image, NEW) for image in images]
        fragment = render(PurePosixPath("/run/docker.sock"), PurePosixPath(self.root), changes)
        assert fragment.restores
        waiting = "wait_for_runtime() { listing; }\n"
        script = (
            f"set -u\nPATH={self.root}/bin:$PATH\nanswers={self.root}/answers\n{waiting}{fragment.text}\n{command}\n"
        )
        done = subprocess.run(["sh", "-c", script], capture_output=True, text=True, check=False)
        (self.root / "said").write_text(done.stdout + done.stderr)
        return done.returncode

    def calls(self) -> list[str]:
        return (self.root / "calls").read_text().splitlines()

    def restored(self) -> bool:
        return all(self.file(i).read_bytes() == data for i, data in self.before.items() if self.file(i).exists())


@pytest.fixture
def node(tmp_path: Path) -> Node:
    return Node(tmp_path)


def test_every_byte_is_put_back_with_dockerd_stopped_and_it_serves_that_afterwards(node: Node) -> None:
    assert node.run("can_ask && listing && serves_new_hashes") == 0

    assert node.run("restore_hashes && listing && ! serves_new_hashes") == 0

    assert node.restored()
    assert node.calls().index("stop docker.socket docker.service") < node.calls().index("start docker.service")
    assert "reset-failed docker.socket docker.service" in node.calls(), "or systemd would refuse a fourth start"
    assert node.file(ID).stat().st_mode & 0o777 == 0o600
    assert [path.name for path in node.file(ID).parent.iterdir()] == ["config.v2.json"]


def test_a_repetition_stops_nothing(node: Node) -> None:
    assert node.run("restore_hashes && restore_hashes") == 0
    assert node.calls().count("stop docker.socket docker.service") == 1


def test_what_was_half_done_is_completed(node: Node) -> None:
    node.put(ID, node.before[ID])
    (node.root / "up").unlink()
    (node.file(OTHER).parent / ".config.v2.json.nodeupgrade-new").write_text("half")

    assert node.run("restore_hashes") == 0

    assert node.restored()
    assert [path.name for path in node.file(OTHER).parent.iterdir()] == ["config.v2.json"]


def test_a_container_that_is_gone_needs_no_hash(node: Node) -> None:
    node.file(ID).unlink()
    assert node.run("restore_hashes") == 0
    assert node.restored()


@pytest.mark.parametrize(
    ("harm", "why"),
    [
        (lambda node: (node.root / "info").write_text('{"LiveRestoreEnabled":false}'), "live-restore is not in effect"),
        (lambda node: (node.root / "stubborn").touch(), "dockerd does not stop"),
        (lambda node: node.put(OTHER, content({metadata.HASH_LABEL: "dddd"}, OTHER)), "is neither"),
    ],
)
def test_it_says_why_it_cannot(node: Node, harm: Callable[[Node], object], why: str) -> None:
    harm(node)
    assert node.run('restore_hashes || { echo "$trouble"; false; }') != 0
    assert why in (node.root / "said").read_text()
    assert (node.root / "up").exists(), "no kubelet can do anything without a runtime"
