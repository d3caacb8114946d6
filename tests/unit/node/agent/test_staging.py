"""Bringing the new kubelet onto the node: beside the old one, with its looks, or not at all."""

import errno
import os
import shutil
from collections.abc import Callable
from dataclasses import replace
from hashlib import sha256
from pathlib import Path, PurePosixPath
from types import SimpleNamespace
from typing import Any

import pytest

from nodeupgrade.api.reasons import Reason
from nodeupgrade.api.task.spec import ArtifactKind, TaskArtifact
from nodeupgrade.api.values import NodeName, RunId
from nodeupgrade.errors import Refused, StepFailed
from nodeupgrade.node.agent import staging
from nodeupgrade.node.agent.settings import AgentSettings
from nodeupgrade.node.artifacts.mounted import NodeArtifacts
from nodeupgrade.node.host.files.files import LARGEST_KUBELET
from nodeupgrade.node.host.files.host_files import HostFiles
from nodeupgrade.node.names_beside import backup_path, staged_path
from nodeupgrade.node.plan.request import Replacement
from nodeupgrade.sources.allowlist import Allowed
from nodeupgrade.sources.download_addresses import AddressPolicy

NEW = b"\x7fELF the new kubelet"
DIGEST = sha256(NEW).hexdigest()
PROGRAM = PurePosixPath("/usr/bin/kubelet")
PRE_STAGED = TaskArtifact(kind=ArtifactKind.PRE_STAGED, path="/opt/kubelet", sha256=DIGEST)
VOLUME = PurePosixPath("/var/lib/kubelet/pods/u/volumes/kubernetes.io~empty-dir/staging")
IMAGE = TaskArtifact(kind=ArtifactKind.IMAGE, path="/bin/kubelet", ref="registry.example/kubelet@sha256:00")
URL = TaskArtifact(kind=ArtifactKind.URL, url="https://example.org/kubelet", sha256=DIGEST)


class Host:
    """A node's files below a directory."""

    def __init__(self, root: Path) -> None:
        self.settings = AgentSettings(
            node=NodeName("node-a"),
            task="node-a",
            run_id=RunId("run"),
            namespace="nodeupgrade-system",
            host=root / "host",
            copied=root / "kubelet",
            from_image=VOLUME,
        )
        self.files = HostFiles(root / "host")
        self.artifacts = NodeArtifacts(root / "host")
        self.directory = self.settings.on_host(PROGRAM.parent)
        self.directory.mkdir(parents=True)
        self.put(PROGRAM, b"\x7fELF the old kubelet", mode=0o750)

    def put(self, path: PurePosixPath, data: bytes, mode: int = 0o600) -> None:
        target = self.settings.on_host(path)
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(data)
        target.chmod(mode)

    def fetch(self, artifact: TaskArtifact) -> Replacement:
        """Borrow the program; nothing may come or go on the node."""
        before = self.tree()
        try:
            return staging.fetch_for_examination(self.settings, self.artifacts, artifact)
        finally:
            assert self.tree() == before

    def tree(self) -> dict[Path, bytes | None]:
        return {path: path.read_bytes() if path.is_file() else None for path in self.settings.host.rglob("*")}

    def stage(self, artifact: TaskArtifact) -> PurePosixPath:
        return staging.stage(self.settings, self.artifacts, self.files, artifact, PROGRAM)

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
    def download(_: NodeArtifacts, url: str, target: Path, expected: str, _reach: AddressPolicy) -> None:
        assert (url, expected) == (URL.url, URL.sha256)
        target.write_bytes(NEW if error is None else NEW[:7])
        if error is not None:
            raise error

    monkeypatch.setattr(NodeArtifacts, "download", download)


@pytest.mark.parametrize("artifact", [PRE_STAGED, IMAGE, URL], ids=lambda artifact: artifact.kind)
def test_the_new_program_lies_beside_the_old_one_and_looks_like_it(
    host: Host, monkeypatch: pytest.MonkeyPatch, artifact: TaskArtifact
) -> None:
    fetched(monkeypatch)
    host.put(PurePosixPath("/opt/kubelet"), NEW)
    host.put(VOLUME / "kubelet", NEW)

    staged = host.stage(artifact)
    again = host.stage(artifact)

    assert staged == again == staged_path(PROGRAM)
    assert staged.parent == PROGRAM.parent, "a rename does not cross file systems"
    assert backup_path(PROGRAM) not in {staged, PROGRAM}
    found = host.settings.on_host(staged)
    assert (found.read_bytes(), found.stat().st_mode & 0o777) == (NEW, 0o750)
    assert (host.directory / "kubelet").read_bytes() == b"\x7fELF the old kubelet"


def test_a_file_that_is_not_there_cannot_be_had(host: Host) -> None:
    refusal = host.refusal(PRE_STAGED)

    assert refusal.finding.reason is Reason.ARTIFACT_UNAVAILABLE
    assert "/opt/kubelet" in refusal.finding.detail


def test_a_file_that_is_another_one_is_not_used(host: Host) -> None:
    host.put(PurePosixPath("/opt/kubelet"), b"something else")

    assert host.refusal(PRE_STAGED).finding.reason is Reason.DIGEST_MISMATCH


def test_a_directory_is_no_program(host: Host) -> None:
    host.settings.on_host(PurePosixPath("/opt/kubelet")).mkdir(parents=True)

    assert host.refusal(PRE_STAGED).finding.reason is Reason.ARTIFACT_UNAVAILABLE


def test_an_image_without_the_file_cannot_be_used(host: Host) -> None:
    refusal = host.refusal(IMAGE)

    assert refusal.finding.reason is Reason.ARTIFACT_UNAVAILABLE
    assert "/bin/kubelet" in refusal.finding.detail
    assert "spec.artifact.image.path" in refusal.finding.detail


@pytest.mark.parametrize(
    ("artifact", "path"), [(PRE_STAGED, PurePosixPath("/opt/kubelet")), (IMAGE, VOLUME / "kubelet")]
)
def test_a_file_too_large_for_a_program_is_neither_copied_nor_read(
    host: Host, artifact: TaskArtifact, path: PurePosixPath
) -> None:
    host.put(path, b"")
    os.truncate(host.settings.on_host(path), LARGEST_KUBELET + 1)

    with pytest.raises(Refused) as looked_at:
        staging.fetch_for_examination(host.settings, host.artifacts, artifact)

    for refusal in (host.refusal(artifact), looked_at.value):
        assert refusal.finding.reason is Reason.ARTIFACT_UNAVAILABLE
        assert f"it is larger than {LARGEST_KUBELET} bytes" in refusal.finding.detail


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

    assert host.refusal(URL).finding.reason is reason


RUNNABLE = b"#!/bin/sh\necho Kubernetes v1.33.13\n"
IN_PLACE = TaskArtifact(kind=ArtifactKind.PRE_STAGED, path="/opt/kubelet", sha256=sha256(RUNNABLE).hexdigest())


@pytest.mark.parametrize("artifact", [IMAGE, URL], ids=lambda artifact: artifact.kind)
def test_what_is_only_looked_at_stays_in_the_pod(
    host: Host, monkeypatch: pytest.MonkeyPatch, artifact: TaskArtifact
) -> None:
    fetched(monkeypatch)
    if artifact is IMAGE:
        host.put(VOLUME / "kubelet", NEW)

    found = host.fetch(artifact)

    assert (found.digest, found.takes) == (DIGEST, len(NEW))
    assert Path(found.program).read_bytes() == NEW, "the node finds it by way of the agent's process"
    assert Path(found.program).samefile(host.settings.copied)
    staging.remove_fetched(host.settings)
    staging.remove_fetched(host.settings)
    assert not host.settings.copied.exists()


@pytest.mark.parametrize("mode", [0o600, 0o755])
def test_what_lies_on_the_node_is_copied_before_it_is_run(host: Host, mode: int) -> None:
    """Whoever may write there would exchange it after its digest was confirmed, as root of a container, too."""
    host.put(PurePosixPath("/opt/kubelet"), RUNNABLE, mode=mode)

    found = host.fetch(IN_PLACE)
    host.put(PurePosixPath("/opt/kubelet"), b"another program")

    assert found.program == host.settings.in_pod(host.settings.copied)
    assert host.settings.copied.read_bytes() == RUNNABLE
    assert host.settings.copied.stat().st_mode & 0o111
    assert (found.digest, found.takes) == (IN_PLACE.sha256, len(RUNNABLE))


@pytest.mark.parametrize(
    ("artifact", "reason"),
    [(IMAGE, Reason.ARTIFACT_UNAVAILABLE), (PRE_STAGED, Reason.DIGEST_MISMATCH)],
    ids=["no file in the image", "another file on the node"],
)
def test_what_cannot_be_had_cannot_be_looked_at(host: Host, artifact: TaskArtifact, reason: Reason) -> None:
    host.put(PurePosixPath("/opt/kubelet"), b"another one")

    with pytest.raises(Refused) as refusal:
        host.fetch(artifact)

    assert refusal.value.finding.reason is reason


@pytest.mark.parametrize("way", [Host.fetch, Host.stage], ids=["to look at it", "to run it"])
def test_fetching_is_never_what_fills_the_disk(
    host: Host, monkeypatch: pytest.MonkeyPatch, way: Callable[[Host, TaskArtifact], object]
) -> None:
    fetched(monkeypatch, AssertionError("nothing may be fetched"))
    left = SimpleNamespace(free=LARGEST_KUBELET - 1)
    monkeypatch.setattr(shutil, "disk_usage", lambda _path: left)
    monkeypatch.setattr(HostFiles, "usage", lambda _files, _path: left)

    with pytest.raises(Refused, match="255 MiB are free") as refusal:
        way(host, URL)

    assert refusal.value.finding.reason is Reason.INSUFFICIENT_SPACE


@pytest.mark.parametrize(
    ("number", "reason"), [(errno.ENOSPC, Reason.INSUFFICIENT_SPACE), (errno.EIO, Reason.ARTIFACT_UNAVAILABLE)]
)
def test_a_pod_s_disk_may_fail_too(host: Host, monkeypatch: pytest.MonkeyPatch, number: int, reason: Reason) -> None:
    fetched(monkeypatch, OSError(number, os.strerror(number)))

    with pytest.raises(Refused) as refusal:
        host.fetch(URL)

    assert refusal.value.finding.reason is reason


def test_our_own_mistakes_are_not_called_the_artifacts(host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_arguments: Any) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr(NodeArtifacts, "download", broken)

    with pytest.raises(ZeroDivisionError):
        host.stage(URL)


def test_what_the_pod_of_an_image_left_is_a_file_of_its_own(host: Host, tmp_path: Path) -> None:
    """Its containers may write what they like there: links to the node's files, say."""
    secret = host.settings.on_host(PurePosixPath("/etc/shadow"))
    host.put(PurePosixPath("/etc/shadow"), b"secret")
    host.put(VOLUME / "other", b"")
    link = host.settings.on_host(VOLUME / "kubelet")
    for target in (
        secret,
        Path("/etc/shadow"),
        Path("../../../../../../../../etc/shadow"),
        tmp_path / "host/etc/shadow",
    ):
        link.symlink_to(target)
        assert host.refusal(IMAGE).finding.reason is Reason.ARTIFACT_UNAVAILABLE
        link.unlink()
    os.mkfifo(link)
    assert host.refusal(IMAGE).finding.reason is Reason.ARTIFACT_UNAVAILABLE


def test_the_digest_of_a_file_in_an_image_may_be_required(host: Host) -> None:
    host.put(VOLUME / "kubelet", NEW)

    assert host.refusal(replace(IMAGE, sha256="b" * 64)).finding.reason is Reason.DIGEST_MISMATCH
    assert host.stage(replace(IMAGE, sha256=DIGEST)) == staged_path(PROGRAM)


@pytest.mark.parametrize("artifact", [PRE_STAGED, replace(IMAGE, sha256="b" * 64)], ids=lambda artifact: artifact.kind)
def test_nobody_learns_the_digest_of_anything(host: Host, artifact: TaskArtifact) -> None:
    other = b"something of the node"
    for place in (PurePosixPath("/opt/kubelet"), VOLUME / "kubelet"):
        host.put(place, other)

    assert sha256(other).hexdigest() not in str(host.refusal(artifact))


def test_where_a_path_leads_must_be_allowed_as_well(host: Host) -> None:
    host.put(PurePosixPath("/var/lib/pod/evil"), NEW)
    host.settings.on_host(PurePosixPath("/opt")).mkdir()
    host.settings.on_host(PurePosixPath("/opt/kubelet")).symlink_to("/var/lib/pod/evil")
    host.settings = replace(host.settings, allowed=Allowed(paths=("/opt",)))

    assert host.refusal(PRE_STAGED).finding.reason is Reason.NOT_ALLOWED
    host.settings = replace(host.settings, allowed=Allowed(paths=("/opt", "/var/lib/pod")))
    assert host.stage(PRE_STAGED) == staged_path(PROGRAM)


def test_what_is_not_allowed_is_not_even_looked_at(host: Host) -> None:
    host.settings = replace(host.settings, allowed=Allowed(urls=("https://dl.k8s.io",)))

    assert host.refusal(URL).finding.reason is Reason.NOT_ALLOWED
    assert host.refusal(replace(PRE_STAGED, path="/etc/passwd")).finding.reason is Reason.NOT_ALLOWED


def test_the_kubelets_directory_may_be_a_link(host: Host) -> None:
    """Its administrator made it; what is below the pod's volume, the pod did."""
    host.put(PurePosixPath("/data/kubelet", *VOLUME.parts[4:], "kubelet"), NEW)
    (host.settings.host / "var/lib").mkdir(parents=True)
    (host.settings.host / "var/lib/kubelet").symlink_to("/data/kubelet")

    assert host.stage(IMAGE) == staged_path(PROGRAM)
