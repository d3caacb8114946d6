"""Exchange one file, and put it back: content, mode, owner and extended attributes.

Each time by a copy that is renamed: to remove the other name of a link would change the times of the file after the
kubelet has started, which the next run would take for drift.
"""

from pathlib import PurePosixPath

from nodeupgrade.api.reasons import Reason
from nodeupgrade.api.values import Digest
from nodeupgrade.errors import StepFailed
from nodeupgrade.node.node import Node
from nodeupgrade.node.plan.exchanged_files import entry_obstacle
from nodeupgrade.node.plan.plan import ExchangedFile, RunPlan
from nodeupgrade.node.run.before_images import require_digest


def digest(node: Node, path: str) -> Digest | None:
    """Return the digest of a file; ``None`` if there is none."""
    return node.files.digest(PurePosixPath(path))


def keep(node: Node, plan: RunPlan) -> None:
    """Confirm that every file and its successor are as planned, and keep a copy of the old one.

    A copy and not a link: it must not change with a file that somebody writes to, and a link would change the times of
    the original.

    Raises:
        StepFailed: a file was changed since planning.
    """
    for file in plan.exchanged:
        _require_as_planned(node, file)
        node.files.tidy(PurePosixPath(file.path))
        if file.before is not None:
            node.files.copy(PurePosixPath(file.path), PurePosixPath(file.backup))
            require_digest(node, file.backup, {file.before})


def put(node: Node, file: ExchangedFile) -> None:
    """Put the new file in place, unless it is; the staged name stays, so that a repetition is harmless.

    Raises:
        StepFailed: either file was changed since planning.
    """
    if digest(node, file.path) == file.after:
        return
    _require_as_planned(node, file)
    node.files.copy(PurePosixPath(file.staged), PurePosixPath(file.path))


def put_back(node: Node, file: ExchangedFile) -> bool:
    """Put the old file back; return whether it is there. A file that somebody else changed is left as it is.

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
        return True
    require_digest(node, file.backup, {file.before})
    node.files.copy(PurePosixPath(file.backup), PurePosixPath(file.path))
    return True


def _require_as_planned(node: Node, file: ExchangedFile) -> None:
    """Confirm that neither a file nor its successor was changed since planning."""
    path = PurePosixPath(file.path)
    entry = node.files.entry(path)
    if entry is not None and (problem := entry_obstacle(path, entry)):
        raise StepFailed(f"{path} was changed after planning: {problem}", reason=Reason.FILE_NOT_REPLACEABLE)
    found = digest(node, file.path)
    if found != file.before:
        raise StepFailed(
            f"{file.path} has SHA-256 {found or 'none, it is gone'}, planned {file.before or 'none'}: it was changed "
            "after planning",
            reason=Reason.DIGEST_MISMATCH,
        )
    require_digest(node, file.staged, {file.after})
