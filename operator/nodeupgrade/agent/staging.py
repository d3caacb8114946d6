"""Bring the new kubelet onto the node, beside the old one, without any effect on either."""

import errno
import shutil
from pathlib import PurePosixPath

from nodeupgrade.adapters.artifacts import download
from nodeupgrade.agent.copy import CopyError, copy
from nodeupgrade.agent.settings import AgentSettings
from nodeupgrade.domain.errors import Refused, StepFailed
from nodeupgrade.domain.reasons import Reason
from nodeupgrade.domain.task import ArtifactKind, TaskArtifact
from nodeupgrade.domain.values import Digest
from nodeupgrade.ports.files import Files

PROGRAM_MODE = 0o755


def staged_path(program: PurePosixPath) -> PurePosixPath:
    """Where the new program is put: beside the old one, since a rename does not cross filesystems."""
    return program.with_name(f".{program.name}.nodeupgrade-staged")


def backup_path(program: PurePosixPath) -> PurePosixPath:
    """Where the old program is kept until the next run."""
    return program.with_name(f".{program.name}.nodeupgrade-previous")


def stage(settings: AgentSettings, files: Files, artifact: TaskArtifact, program: PurePosixPath) -> PurePosixPath:
    """Put the new program at its staging place, with the mode, owner and attributes of the old one.

    Raises:
        Refused: it cannot be had, is not what was promised, or does not fit. Nothing is left behind.
    """
    staged = staged_path(program)
    try:
        _fetch(settings, files, artifact, staged)
        files.adopt(program, staged)
    except Refused:
        files.remove(staged)
        raise
    except (StepFailed, OSError, shutil.Error) as error:
        files.remove(staged)
        raise _refusal(error) from error
    return staged


def _fetch(settings: AgentSettings, files: Files, artifact: TaskArtifact, staged: PurePosixPath) -> None:
    match artifact.kind:
        case ArtifactKind.IMAGE:
            _copy(settings, artifact, staged)
        case ArtifactKind.URL:
            download(artifact.url or "", settings.on_host(staged), Digest(artifact.sha256 or ""))
        case ArtifactKind.PRE_STAGED:
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
            files.copy(source, staged)


def _copy(settings: AgentSettings, artifact: TaskArtifact, staged: PurePosixPath) -> None:
    """Take over what the init container found in the artifact's image, which its digest pins."""
    try:
        copy(settings.copied, settings.on_host(staged))
    except CopyError as error:
        raise Refused(
            Reason.ARTIFACT_UNAVAILABLE,
            f"{artifact.path} could not be taken from {artifact.ref}: {error}; correct spec.artifact.image.path",
        ) from error


def _refusal(error: Exception) -> Refused:
    cause = error.__cause__ if isinstance(error, StepFailed) else error
    if isinstance(cause, OSError) and cause.errno in {errno.ENOSPC, errno.EDQUOT}:
        return Refused(Reason.INSUFFICIENT_SPACE, f"the kubelet does not fit on the node: {error}; free some space")
    return Refused(Reason.ARTIFACT_UNAVAILABLE, f"the kubelet cannot be staged on the node: {error}")
