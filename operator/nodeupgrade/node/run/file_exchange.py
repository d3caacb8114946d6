"""Exchange and restore one file: content, mode, owner and extended attributes.

Each time by a renamed copy, as long as there is space for one: removing the other name of a hard link would change the
file's times after the kubelet has started, which the next run would consider drift.
"""

from contextlib import suppress
from pathlib import PurePosixPath

from nodeupgrade.api.reasons import Reason
from nodeupgrade.api.values import Digest
from nodeupgrade.errors import StepFailed
from nodeupgrade.node.node import Node
from nodeupgrade.node.plan.exchanged_files import entry_obstacle
from nodeupgrade.node.plan.plan import ExchangedFile, RunPlan
from nodeupgrade.node.run import kept_files
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
    require_as_planned(node, plan)
    for file in plan.exchanged:
        node.files.tidy(PurePosixPath(file.path))
        _back_up(node, file)


def require_as_planned(node: Node, plan: RunPlan) -> None:
    """Require every file that is still to be exchanged, and its successor, to be as planned.

    Raises:
        StepFailed: a file was changed since planning.
    """
    for file in plan.exchanged:
        _require_as_planned(node, file)


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


def restore(node: Node, file: ExchangedFile) -> str | None:
    """Restore the old file. A file that was changed since is left as it is; what is none is moved aside.

    One that cannot be read is replaced: no kubelet could read it either.

    Returns:
        What became of what is not ours.

    Raises:
        StepFailed: the copy of the old file is not what it was.
    """
    path = PurePosixPath(file.path)
    entry = node.files.entry(path)
    found = None
    with suppress(StepFailed):
        found = digest(node, file.path)
    if found == file.before and (found is not None or entry is None):
        return None
    if found not in {file.after, None}:
        return f"not restored, since changed during the run: {path}"
    aside = set_aside(node, path)
    if file.before is None:
        node.files.remove(path)
    else:
        require_digest(node, file.backup, {file.before})
        try:
            node.files.copy(PurePosixPath(file.backup), path)
        except StepFailed:  # pods may have filled the disk
            kept_files.rename(node, file.backup, file.path)
    return aside


def set_aside(node: Node, path: PurePosixPath) -> str | None:
    """Move aside what lies in place of a file of ours and is no file, such as a directory; return what was done."""
    aside = node.files.set_aside(path)
    return None if aside is None else f"what lay at {path}, which is no file, was moved to {aside}"


def _back_up(node: Node, file: ExchangedFile) -> None:
    if file.before is not None:
        node.files.copy(PurePosixPath(file.path), PurePosixPath(file.backup))
        require_digest(node, file.backup, {file.before})


def _require_as_planned(node: Node, file: ExchangedFile) -> None:
    path = PurePosixPath(file.path)
    planned_ends = {path.parent: path.parent} | {PurePosixPath(name): path for name in file.also}
    for name, end in planned_ends.items():
        if (found_end := node.files.follow(name)) != end:
            why = f"{name} leads to {found_end}, planned {end}: a symbolic link was changed after planning"
            raise StepFailed(why, reason=Reason.FILE_NOT_REPLACEABLE)
    entry = node.files.entry(path)
    if entry is not None and (problem := entry_obstacle(path, entry)):
        raise StepFailed(f"{path} was changed after planning: {problem}", reason=Reason.FILE_NOT_REPLACEABLE)
    if (found := digest(node, file.path)) != file.before:
        planned = f"planned {file.before or 'none'}: it was changed after planning"
        raise StepFailed(f"{path} has SHA-256 {found or 'none, it is gone'}, {planned}", reason=Reason.DIGEST_MISMATCH)
    require_digest(node, file.staged, {file.after})
