"""Bring the new kubelet onto the node, without any effect on the old one: beside it, or only to look at it."""

import errno
import hashlib
import shutil
from pathlib import Path, PurePosixPath

from nodeupgrade.agent.settings import AgentSettings
from nodeupgrade.api.reasons import Reason
from nodeupgrade.api.task.spec import ArtifactKind, TaskArtifact
from nodeupgrade.api.values import Digest
from nodeupgrade.domain.errors import Refused, StepFailed
from nodeupgrade.domain.node.request import Replacement
from nodeupgrade.engine.node.node import HostView
from nodeupgrade.ports.artifacts import Artifacts, CopyError
from nodeupgrade.ports.files import Files, FilesView
from nodeupgrade.ports.kubelet import CANNOT_RUN

ROOM_TO_FETCH = 256 * 1024**2
"""Bytes that must be free where a kubelet (70 to 120 MB) is fetched only to be looked at."""


def staged_path(program: PurePosixPath) -> PurePosixPath:
    """Where the new program is put: beside the old one, since a rename does not cross filesystems."""
    return program.with_name(f".{program.name}.nodeupgrade-staged")


def backup_path(program: PurePosixPath) -> PurePosixPath:
    """Where the old program is kept until the next run."""
    return program.with_name(f".{program.name}.nodeupgrade-previous")


def stage(
    settings: AgentSettings, artifacts: Artifacts, files: Files, artifact: TaskArtifact, program: PurePosixPath
) -> PurePosixPath:
    """Put the new program at its staging place, with the mode, owner and attributes of the old one.

    Raises:
        Refused: it cannot be had, is not what was promised, or does not fit. Nothing is left behind.
    """
    staged = staged_path(program)
    try:
        _fetch(settings, artifacts, files, artifact, staged)
        files.adopt(program, staged)
    except Refused:
        files.remove(staged)
        raise
    except (StepFailed, OSError, shutil.Error) as error:
        files.remove(staged)
        raise _refusal(error) from error
    return staged


def borrow(settings: AgentSettings, artifacts: Artifacts, host: HostView, artifact: TaskArtifact) -> Replacement:
    """Have the new program where it can be looked at and run: in the agent's own pod, or where it lies already.

    Raises:
        Refused: it cannot be had, is not what was promised, or does not fit.
    """
    own = settings.copied
    try:
        match artifact.kind:
            case ArtifactKind.IMAGE:
                if not own.is_file():
                    raise _not_in_image(artifact, f"there is no {artifact.path} in it")
            case ArtifactKind.URL:
                _require_room(own.parent)
                artifacts.download(artifact.url or "", own, Digest(artifact.sha256 or ""))
            case ArtifactKind.PRE_STAGED:
                source = _promised_source(host.files, artifact)
                if host.kubelet.version_output(source)[0] != CANNOT_RUN:
                    return Replacement(
                        program=source, digest=host.files.digest(source), takes=host.files.size(source) or 0
                    )
                _require_room(own.parent)  # it lacks the permission that staging would give it
                artifacts.copy_from_node(source, own)
        with own.open("rb") as file:
            digest = Digest(hashlib.file_digest(file, "sha256").hexdigest())
        return Replacement(program=settings.in_pod(own), digest=digest, takes=own.stat().st_size)
    except (StepFailed, OSError, CopyError) as error:
        raise _refusal(error) from error


def give_back(settings: AgentSettings) -> None:
    """Remove what was fetched only to be looked at; the pod's end would do the same."""
    settings.copied.unlink(missing_ok=True)


def _fetch(
    settings: AgentSettings, artifacts: Artifacts, files: Files, artifact: TaskArtifact, staged: PurePosixPath
) -> None:
    match artifact.kind:
        case ArtifactKind.IMAGE:
            _copy(settings, artifacts, artifact, staged)
        case ArtifactKind.URL:
            artifacts.download(artifact.url or "", settings.on_host(staged), Digest(artifact.sha256 or ""))
        case ArtifactKind.PRE_STAGED:
            files.copy(_promised_source(files, artifact), staged)


def _promised_source(files: FilesView, artifact: TaskArtifact) -> PurePosixPath:
    """The file on the node that the artifact names, if it is the one promised."""
    source = PurePosixPath(artifact.path or "/")
    found = files.digest(source)
    if found is None:
        raise Refused(Reason.ARTIFACT_UNAVAILABLE, f"there is no file {source} on the node; put it there")
    if found != artifact.sha256:
        raise Refused(
            Reason.DIGEST_MISMATCH,
            f"{source} on the node has SHA-256 {found}, the NodeUpgrade promises {artifact.sha256}; "
            "correct the file or spec.artifact",
        )
    return source


def _copy(settings: AgentSettings, artifacts: Artifacts, artifact: TaskArtifact, staged: PurePosixPath) -> None:
    """Take over what the init container found in the artifact's image, which its digest pins."""
    try:
        artifacts.copy(settings.copied, settings.on_host(staged))
    except CopyError as error:
        raise _not_in_image(artifact, str(error)) from error


def _not_in_image(artifact: TaskArtifact, why: str) -> Refused:
    return Refused(
        Reason.ARTIFACT_UNAVAILABLE,
        f"{artifact.path} could not be taken from {artifact.ref}: {why}; correct spec.artifact.image.path",
    )


def _require_room(directory: Path) -> None:
    """Fetching must not be what fills the node's disk, where other pods would be evicted for it."""
    free = shutil.disk_usage(directory).free
    if free < ROOM_TO_FETCH:
        raise Refused(
            Reason.INSUFFICIENT_SPACE,
            f"only {free // 1024**2} MiB are free where pods keep their files; {ROOM_TO_FETCH // 1024**2} MiB are "
            "needed to look at the kubelet; free some space",
        )


def _refusal(error: Exception) -> Refused:
    cause = error.__cause__ if isinstance(error, StepFailed | CopyError) else error
    if isinstance(cause, OSError) and cause.errno in {errno.ENOSPC, errno.EDQUOT}:
        return Refused(Reason.INSUFFICIENT_SPACE, f"the kubelet does not fit on the node: {error}; free some space")
    return Refused(Reason.ARTIFACT_UNAVAILABLE, f"the kubelet cannot be staged on the node: {error}")
