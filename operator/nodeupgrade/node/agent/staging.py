"""Stages the new kubelet next to the old one, or fetches it for an examination only. Never affects the old one."""

import errno
import shutil
from dataclasses import replace
from pathlib import Path, PurePosixPath

from nodeupgrade.api.reasons import Reason
from nodeupgrade.api.task.spec import ArtifactKind, TaskArtifact
from nodeupgrade.api.values import Digest
from nodeupgrade.cluster.agent_pods import KUBELET_FROM_IMAGE
from nodeupgrade.errors import Refused, StepFailed
from nodeupgrade.node.agent.settings import AgentSettings
from nodeupgrade.node.artifacts.artifacts import Artifacts
from nodeupgrade.node.checks.kubelet import PROGRAM_STORED, no_room_to_fetch, there_is_space
from nodeupgrade.node.host.files.files import Files
from nodeupgrade.node.host.files.opening import CopyError
from nodeupgrade.node.host.files.reading import digest_of
from nodeupgrade.node.names_beside import staged_path
from nodeupgrade.node.plan.request import Replacement


def stage(
    settings: AgentSettings, artifacts: Artifacts, files: Files, artifact: TaskArtifact, program: PurePosixPath
) -> PurePosixPath:
    """Stage the new program, with the mode, owner and attributes of the old one, and return its path.

    Raises:
        Refused: the program is unavailable, has another digest, or does not fit. Nothing is left behind.
    """
    staged = staged_path(program)
    try:
        _require_room(files.usage(program.parent).free, PROGRAM_STORED)
        _fetch(settings, artifacts, artifact, settings.on_host(staged))
        files.adopt(program, staged)
    except Refused:
        files.remove(staged)
        raise
    except (StepFailed, OSError, shutil.Error, CopyError) as error:
        files.remove(staged)
        raise _refusal(error) from error
    return staged


def fetch_for_examination(settings: AgentSettings, artifacts: Artifacts, artifact: TaskArtifact) -> Replacement:
    """Make the new program available for an examination, in the agent's own pod.

    Also one that is on the node: where it is, others may exchange it after its digest was confirmed. That they are
    root there shows nothing, since the root of a container is.

    Raises:
        Refused: the program is unavailable, has another digest, or does not fit.
    """
    own = settings.copied
    try:
        _require_room(shutil.disk_usage(own.parent).free, "pods keep their files")
        _fetch(settings, artifacts, artifact, own)
        return Replacement(program=settings.in_pod(own), digest=digest_of(own), takes=own.stat().st_size)
    except (StepFailed, OSError, CopyError) as error:
        raise _refusal(error) from error


def remove_fetched(settings: AgentSettings) -> None:
    """Remove what was fetched for an examination; it would not outlive the pod anyway."""
    settings.copied.unlink(missing_ok=True)


def _fetch(settings: AgentSettings, artifacts: Artifacts, artifact: TaskArtifact, target: Path) -> None:
    match artifact.kind:
        case ArtifactKind.IMAGE:
            _copy_extracted(settings, artifacts, artifact, target)
        case ArtifactKind.URL:
            settings.require_allowed(artifact)
            artifacts.download(artifact.url or "", target, Digest(artifact.sha256 or ""), settings.reach)
        case ArtifactKind.PRE_STAGED:
            source = _source(settings, artifacts, artifact)
            _require_promised(artifacts.copy(source, target), artifact)


def _source(settings: AgentSettings, artifacts: Artifacts, artifact: TaskArtifact) -> PurePosixPath:
    """Return where the pre-staged file really is, which must be allowed as well as the path that leads there."""
    settings.require_allowed(artifact)
    found = artifacts.real(PurePosixPath(artifact.path or "/"))
    settings.require_allowed(replace(artifact, path=str(found)))
    return found


def _require_promised(actual: Digest, artifact: TaskArtifact) -> None:
    """Require the digest of the pre-staged file. The message omits the actual one: it may be of any file of the node.

    Raises:
        Refused: its digest differs.
    """
    if actual != artifact.sha256:
        raise Refused(
            Reason.DIGEST_MISMATCH,
            f"the SHA-256 of {artifact.path} on the node is not {artifact.sha256}, which the NodeUpgrade specifies; "
            "correct the file, or create another NodeUpgrade",
        )


def _copy_extracted(settings: AgentSettings, artifacts: Artifacts, artifact: TaskArtifact, target: Path) -> None:
    """Copy the kubelet extracted from the artifact's image, which is pinned by digest."""
    try:
        extracted = settings.extracted(KUBELET_FROM_IMAGE)
        actual = artifacts.copy(artifacts.real(extracted.parent) / extracted.name, target)
    except CopyError as error:
        raise Refused(
            Reason.ARTIFACT_UNAVAILABLE,
            f"{artifact.path} could not be taken from {artifact.ref}: {error}; create another NodeUpgrade "
            "with the right spec.artifact.image.path",
        ) from error
    if artifact.sha256 not in {None, actual}:
        raise Refused(
            Reason.DIGEST_MISMATCH,
            f"the SHA-256 of {artifact.path} in {artifact.ref} is not {artifact.sha256}, which the NodeUpgrade "
            "promises; create another NodeUpgrade with the right digest",
        )


def _require_room(free: int, where: str) -> None:
    """Refuse to fetch if that could fill the node's disk."""
    if why := no_room_to_fetch(free, where):
        raise Refused(Reason.INSUFFICIENT_SPACE, why, check=there_is_space.name)


def _refusal(error: Exception) -> Refused:
    cause = error.__cause__ if isinstance(error, StepFailed | CopyError) else error
    if isinstance(cause, OSError) and cause.errno in {errno.ENOSPC, errno.EDQUOT}:
        return Refused(Reason.INSUFFICIENT_SPACE, f"the kubelet does not fit on the node: {error}; free some space")
    return Refused(Reason.ARTIFACT_UNAVAILABLE, f"the kubelet cannot be staged on the node: {error}")
