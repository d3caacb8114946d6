"""Exchange and restore one file: content, mode, owner and extended attributes.

Each time by a renamed copy: removing the other name of a hard link would change the file's times after the kubelet has
started, which the next run would consider drift.
"""

from pathlib import PurePosixPath

from nodeupgrade.api.reasons import Reason
from nodeupgrade.api.values import Digest
from nodeupgrade.errors import StepFailed
from nodeupgrade.node.node import Node
from nodeupgrade.node.plan.exchanged_files import entry_obstacle
from nodeupgrade.node.plan.plan import ExchangedFile, RunPlan
from nodeupgrade.node.run.start_preconditions import require_digest


def digest(node: Node, path: str) -> Digest | None:
    """Return the digest of a file; ``None`` if there is none."""
    return node.files.digest(PurePosixPath(path))


def back_up(node: Node, plan: RunPlan) -> None:
    """Confirm that every file and its successor are as planned, and copy the old one.

    A hard link would change with the file, and change its times.

    Raises:
        StepFailed: a file was changed since planning.
    """
    for file in plan.exchanged:
        _require_as_planned(node, file)
        node.files.tidy(PurePosixPath(file.path))
        _back_up(node, file)


def install(node: Node, file: ExchangedFile) -> None:
    """Put the new file in place, unless it is; the staged file stays, so that a repetition is harmless.

    Raises:
        StepFailed: either file was changed since planning.
    """
    if digest(node, file.path) == file.after:
        return
    _require_as_planned(node, file)
    if digest(node, file.backup) != file.before:  # somebody has removed or changed it
        _back_up(node, file)
    node.files.copy(PurePosixPath(file.staged), PurePosixPath(file.path))


def restore(node: Node, file: ExchangedFile) -> bool:
    """Restore the old file; return whether it is there. A file that was changed since is left as it is.

    Raises:
        StepFailed: the copy of the old file is not what it was.
    """
    found = digest(node, file.path)
    if found == file.before:
        return True
    if found not in {file.after, None}:
        return False
    if file.before is None:
        node.files.remove(PurePosixPath(file.path))
    else:
        require_digest(node, file.backup, {file.before})
        node.files.copy(PurePosixPath(file.backup), PurePosixPath(file.path))
    return True


def _back_up(node: Node, file: ExchangedFile) -> None:
    if file.before is not None:
        node.files.copy(PurePosixPath(file.path), PurePosixPath(file.backup))
        require_digest(node, file.backup, {file.before})


def _require_as_planned(node: Node, file: ExchangedFile) -> None:
    path = PurePosixPath(file.path)
    entry = node.files.entry(path)
    if entry is not None and (problem := entry_obstacle(path, entry)):
        raise StepFailed(f"{path} was changed after planning: {problem}", reason=Reason.FILE_NOT_REPLACEABLE)
    if (found := digest(node, file.path)) != file.before:
        planned = f"planned {file.before or 'none'}: it was changed after planning"
        raise StepFailed(f"{path} has SHA-256 {found or 'none, it is gone'}, {planned}", reason=Reason.DIGEST_MISMATCH)
    require_digest(node, file.staged, {file.after})
