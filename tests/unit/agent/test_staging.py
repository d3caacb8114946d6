"""Bringing the new kubelet onto the node: beside the old one, with its looks, or not at all."""

import errno
import os
from hashlib import sha256
from pathlib import Path, PurePosixPath
from typing import Any

import pytest

from nodeupgrade.adapters.files import HostFiles
from nodeupgrade.agent import staging
from nodeupgrade.agent.settings import AgentSettings
from nodeupgrade.domain.errors import Refused, StepFailed
from nodeupgrade.domain.reasons import Reason
from nodeupgrade.domain.task import ArtifactKind, TaskArtifact
from nodeupgrade.domain.values import NodeName, RunId

NEW = b"\x7fELF the new kubelet"
DIGEST = sha256(NEW).hexdigest()
PROGRAM = PurePosixPath("/usr/bin/kubelet")
PRE_STAGED = TaskArtifact(kind=ArtifactKind.PRE_STAGED, path="/opt/kubelet", sha256=DIGEST)
IMAGE = TaskArtifact(kind=ArtifactKind.IMAGE, path="/bin/kubelet", ref="registry.example/kubelet@sha256:00")
URL = TaskArtifact(kind=ArtifactKind.URL, url="https://example.org/kubelet", sha256=DIGEST)


class Host:
    """A node's files below a directory."""

    def __init__(self, root: Path) -> None:
        self.settings = AgentSettings(
            node=NodeName("node-a"), task="node-a", run_id=RunId("run"), host=root / "host", copied=root / "kubelet"
        )
        self.files = HostFiles(root / "host")
        self.directory = self.settings.on_host(PROGRAM.parent)
        self.directory.mkdir(parents=True)
        self.put(PROGRAM, b"\x7fELF the old kubelet", mode=0o750)

    def put(self, path: PurePosixPath, data: bytes, mode: int = 0o600) -> None:
        target = self.settings.on_host(path)
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(data)
        target.chmod(mode)

    def stage(self, artifact: TaskArtifact) -> PurePosixPath:
        return staging.stage(self.settings, self.files, artifact, PROGRAM)

    def refusal(self, artifact: TaskArtifact) -> Refused:
        """How staging is refused; nothing may be left of it."""
        with pytest.raises(Refused) as refusal:
            self.stage(artifact)
        assert sorted(path.name for path in self.directory.iterdir()) == ["kubelet"]
        assert (self.directory / "kubelet").read_bytes() == b"\x7fELF the old kubelet"
        return refusal.value


@pytest.fixture
def host(tmp_path: Path) -> Host:
    return Host(tmp_path)


def fetched(monkeypatch: pytest.MonkeyPatch, error: Exception | None = None) -> None:
    def download(url: str, target: Path, expected: str) -> None:
        assert (url, expected) == (URL.url, URL.sha256)
        target.write_bytes(NEW if error is None else NEW[:7])
        if error is not None:
            raise error

    monkeypatch.setattr(staging, "download", download)


@pytest.mark.parametrize("artifact", [PRE_STAGED, IMAGE, URL], ids=lambda artifact: artifact.kind)
def test_the_new_program_lies_beside_the_old_one_and_looks_like_it(
    host: Host, monkeypatch: pytest.MonkeyPatch, artifact: TaskArtifact
) -> None:
    fetched(monkeypatch)
    host.put(PurePosixPath("/opt/kubelet"), NEW)
    host.settings.copied.write_bytes(NEW)

    staged = host.stage(artifact)
    again = host.stage(artifact)

    assert staged == again == staging.staged_path(PROGRAM)
    assert staged.parent == PROGRAM.parent, "a rename does not cross file systems"
    assert staging.backup_path(PROGRAM) not in {staged, PROGRAM}
    found = host.settings.on_host(staged)
    assert (found.read_bytes(), found.stat().st_mode & 0o777) == (NEW, 0o750)
    assert (host.directory / "kubelet").read_bytes() == b"\x7fELF the old kubelet"


def test_a_file_that_is_not_there_cannot_be_had(host: Host) -> None:
    refusal = host.refusal(PRE_STAGED)

    assert refusal.reason is Reason.ARTIFACT_UNAVAILABLE
    assert "/opt/kubelet" in refusal.message


def test_a_file_that_is_another_one_is_not_used(host: Host) -> None:
    host.put(PurePosixPath("/opt/kubelet"), b"something else")

    assert host.refusal(PRE_STAGED).reason is Reason.DIGEST_MISMATCH


def test_a_directory_is_no_program(host: Host) -> None:
    host.settings.on_host(PurePosixPath("/opt/kubelet")).mkdir(parents=True)

    assert host.refusal(PRE_STAGED).reason is Reason.ARTIFACT_UNAVAILABLE


def test_an_image_without_the_file_cannot_be_used(host: Host) -> None:
    refusal = host.refusal(IMAGE)

    assert refusal.reason is Reason.ARTIFACT_UNAVAILABLE
    assert "/bin/kubelet" in refusal.message
    assert "spec.artifact.image.path" in refusal.message


def chained(number: int) -> StepFailed:
    error = StepFailed("cannot write it")
    error.__cause__ = OSError(number, os.strerror(number))
    return error


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (Refused(Reason.DIGEST_MISMATCH, "another one"), Reason.DIGEST_MISMATCH),
        (OSError(errno.ENOSPC, "no space left on device"), Reason.INSUFFICIENT_SPACE),
        (OSError(errno.EDQUOT, "quota exceeded"), Reason.INSUFFICIENT_SPACE),
        (chained(errno.ENOSPC), Reason.INSUFFICIENT_SPACE),
        (OSError(errno.EROFS, "read-only file system"), Reason.ARTIFACT_UNAVAILABLE),
        (chained(errno.EROFS), Reason.ARTIFACT_UNAVAILABLE),
    ],
)
def test_a_failure_has_its_reason_and_leaves_nothing(
    host: Host, monkeypatch: pytest.MonkeyPatch, error: Exception, reason: Reason
) -> None:
    fetched(monkeypatch, error)

    assert host.refusal(URL).reason is reason


def test_our_own_mistakes_are_not_called_the_artifacts(host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_arguments: Any) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr(staging, "download", broken)

    with pytest.raises(ZeroDivisionError):
        host.stage(URL)
