"""Stages the files of ``spec.files`` on the node, beside those that they replace.

The agent's pod mounts ConfigMaps and Secrets; another pod extracts files of the artifact's image. So the agent needs
no right to read ConfigMaps or Secrets, and no object that it writes contains a Secret's value.
"""

import hashlib
import os
from collections.abc import Iterable
from pathlib import PurePosixPath

from nodeupgrade.api.node_files import LARGEST_FILE, NodeFile
from nodeupgrade.api.reasons import Reason
from nodeupgrade.api.values import Digest
from nodeupgrade.cluster.agent_pods import file_from_image
from nodeupgrade.errors import Refused, StepFailed
from nodeupgrade.node.agent.settings import AgentSettings
from nodeupgrade.node.artifacts.artifacts import Artifacts
from nodeupgrade.node.facts.next_start import find_files
from nodeupgrade.node.host.files.files import Files
from nodeupgrade.node.host.files.opening import CopyError
from nodeupgrade.node.host.files.reading import opened
from nodeupgrade.node.names_beside import backup_path, staged_path
from nodeupgrade.node.plan.exchanged_files import FileFound, NewFile, changes_of, obstacle


def read_new_files(settings: AgentSettings, artifacts: Artifacts, files: tuple[NodeFile, ...]) -> tuple[NewFile, ...]:
    """Return the files that the task asks for.

    Raises:
        Refused: one is missing, too large, or has another digest.
    """
    return tuple(_read_new_file(settings, artifacts, index, file) for index, file in enumerate(files))


def _read_new_file(settings: AgentSettings, artifacts: Artifacts, index: int, file: NodeFile) -> NewFile:
    content = _content(settings, artifacts, index, file)
    actual = Digest(hashlib.sha256(content).hexdigest())
    if actual != file.sha256:  # the message omits it: a digest helps to guess the content
        raise Refused(
            Reason.DIGEST_MISMATCH,
            f"{file.source}, for {file.path}, has another SHA-256 than {file.sha256}, which the NodeUpgrade "
            "specifies; correct the content or spec.files[].sha256",
        )
    return NewFile(path=file.path, mode=file.permissions, digest=actual, source=file.source, content=content)


def _content(settings: AgentSettings, artifacts: Artifacts, index: int, file: NodeFile) -> bytes:
    try:
        if file.image_path is not None:
            extracted = settings.extracted(file_from_image(index))
            content = artifacts.read(artifacts.real(extracted.parent) / extracted.name, LARGEST_FILE + 1)
        else:
            mounted = opened(settings.file(index), follow=True)
            with mounted as descriptor, os.fdopen(descriptor, "rb", closefd=False) as reader:
                content = reader.read(LARGEST_FILE + 1)
    except (OSError, CopyError) as error:
        why = error.strerror if isinstance(error, OSError) else error
        message = f"{file.source}, for {file.path}, does not exist ({why}); {Reason.FILE_UNAVAILABLE.remedy}"
        raise Refused(Reason.FILE_UNAVAILABLE, message) from error
    if len(content) > LARGEST_FILE:
        message = f"{file.source}, for {file.path}, is larger than {LARGEST_FILE // 1024} KiB; leave it out"
        raise Refused(Reason.FILE_UNAVAILABLE, message)
    return content


def stage(files: Files, new: Iterable[NewFile]) -> None:
    """Put each new file beside the one that it replaces, with its owner and attributes, durably.

    Raises:
        Refused: a file cannot be exchanged; nothing is left behind.
    """
    new = tuple(new)
    try:
        changing = tuple(changes_of(find_files(files, new)))
        problem = next((f"{each.new.path}: {why}" for each in changing if (why := obstacle(each))), None)
        for each in changing if problem is None else ():
            _stage_one(files, each)
    except StepFailed as error:
        remove_staged(files, (each.path for each in new))
        raise _refusal(str(error)) from error
    if problem is not None:
        raise _refusal(problem)


def _stage_one(files: Files, found: FileFound) -> None:
    path = PurePosixPath(found.new.path)
    staged = staged_path(path)
    files.remove(backup_path(path))
    files.remove(staged)
    files.write(staged, found.new.content, mode=found.new.mode)
    if found.before is not None:
        files.adopt(path, staged, mode=found.new.mode)


def _refusal(problem: str) -> Refused:
    return Refused(Reason.FILE_NOT_REPLACEABLE, f"a file of spec.files cannot be replaced: {problem}")


def remove_staged(files: Files, paths: Iterable[str]) -> None:
    """Remove what was staged.

    Raises:
        StepFailed: something cannot be removed.
    """
    for path in paths:
        staged = PurePosixPath(staged_path(path))
        if files.entry(staged) is not None:
            files.remove(staged)
