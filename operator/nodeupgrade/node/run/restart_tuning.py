"""Temporary settings of the runtime's restart: files that exist only during a run."""

from collections.abc import Iterable
from contextlib import suppress
from pathlib import PurePosixPath

from nodeupgrade.errors import StepFailed
from nodeupgrade.node.facts.device_access import Harmless
from nodeupgrade.node.host.files.files import Files
from nodeupgrade.node.host.systemd.services import Look, ServiceManager
from nodeupgrade.node.node import Node
from nodeupgrade.node.plan.plan import RunPlan
from nodeupgrade.node.runtimes.description import RuntimeKind, TuningFile, is_drop_in

MODE = 0o644


def apply_tuning(node: Node, plan: RunPlan, look: Look) -> None:
    """Make systemd start the runtime with the tuning; if that fails, as configured."""
    if not plan.tuning.files:
        return
    try:
        for file in plan.tuning.files:
            node.files.write(PurePosixPath(file.path), file.content, mode=MODE)
        node.services.reload(look)
    except StepFailed:  # a file that systemd has not loaded would look like a foreign change of the unit
        with suppress(StepFailed):
            _remove(node.files, filter(is_drop_in, node.runtime.kind.tuning))


def restore_tuning(node: Node, plan: RunPlan, look: Look) -> None:
    """Write the files again that were removed or changed since systemd read the drop-in that starts the runtime so.

    Raises:
        StepFailed: a file could not be written, systemd does not answer, or its reload has to wait (see ``look``).
    """
    missing = [file for file in plan.tuning.files if not _is_as_written(node, file)]
    if not missing or not {file.path for file in plan.tuning.files} & {*_loaded(node, plan)}:
        return
    reloads = any(is_drop_in(PurePosixPath(file.path)) for file in missing)
    if reloads:  # a newer file would look like a foreign change, so it is not written where it cannot be loaded
        look()
    for file in missing:
        node.files.set_aside(PurePosixPath(file.path))
        node.files.write(PurePosixPath(file.path), file.content, mode=MODE)
    if reloads:
        node.services.reload(look)


def _is_as_written(node: Node, file: TuningFile) -> bool:
    with suppress(StepFailed):  # something else lies there
        return node.files.read(PurePosixPath(file.path)) == file.content
    return False


def remains(node: Node, plan: RunPlan) -> bool:
    """Report whether a file of the tuning is there, or systemd still uses one.

    Raises:
        StepFailed: systemd does not answer.
    """
    paths = {file.path for file in plan.tuning.files}
    return any(node.files.stamp(PurePosixPath(path)) is not None for path in paths) or not paths.isdisjoint(
        _loaded(node, plan)
    )


def _loaded(node: Node, plan: RunPlan) -> tuple[str, ...]:
    return node.services.status(plan.runtime_unit).drop_ins


def remove_tuning(files: Files, services: ServiceManager, *kinds: RuntimeKind) -> None:
    """Make systemd start runtimes of these kinds as configured again, with a single reload for all of them.

    Files that the drop-ins refer to are removed last.

    Raises:
        StepFailed: a file could not be removed, or the reload would take a device from a container: nothing is removed.
    """
    look = Harmless.by_now(files, services)
    tuning = [path for kind in kinds for path in kind.tuning]
    _remove(files, filter(is_drop_in, tuning))
    services.reload(look)
    _remove(files, (path for path in tuning if not is_drop_in(path)))


def _remove(files: Files, paths: Iterable[PurePosixPath]) -> None:
    for path in paths:
        files.remove(path)
