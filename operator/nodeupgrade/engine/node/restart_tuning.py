"""Apply and remove the temporary settings of the runtime's restart, files that exist only during a run."""

from collections.abc import Iterable
from contextlib import suppress
from pathlib import PurePosixPath

from nodeupgrade.domain.errors import StepFailed
from nodeupgrade.domain.node.plan import RunPlan
from nodeupgrade.domain.node.runtime import RuntimeKind, is_drop_in
from nodeupgrade.engine.node.node import Node
from nodeupgrade.ports.files import Files
from nodeupgrade.ports.services import ServiceManager

MODE = 0o644


def give(node: Node, plan: RunPlan) -> None:
    """Make systemd start the runtime with the tuning; if that fails, as configured."""
    if not plan.tuning.files:
        return
    try:
        for file in plan.tuning.files:
            node.files.write(PurePosixPath(file.path), file.content, mode=MODE)
        node.services.reload()
    except StepFailed:  # a file that systemd has not loaded would look like a change of the unit by somebody else
        with suppress(StepFailed):
            _remove(node.files, filter(is_drop_in, node.runtime.kind.tuning))


def take_back(files: Files, services: ServiceManager, *kinds: RuntimeKind) -> None:
    """Make systemd start runtimes of these kinds as configured again, with a single reload for all of them.

    Files that the drop-ins refer to are removed last.

    Raises:
        StepFailed: a file could not be removed.
    """
    tuning = [path for kind in kinds for path in kind.tuning]
    _remove(files, filter(is_drop_in, tuning))
    services.reload()
    _remove(files, (path for path in tuning if not is_drop_in(path)))


def _remove(files: Files, paths: Iterable[PurePosixPath]) -> None:
    for path in paths:
        files.remove(path)
