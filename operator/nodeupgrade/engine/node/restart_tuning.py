"""Makes the restart of a run gentler for as long as the run lasts, by files that only lie there meanwhile."""

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
    """Have systemd start the runtime as tuned from now on; as configured, if that fails."""
    if not plan.tuning.files:
        return
    try:
        for file in plan.tuning.files:
            node.files.write(PurePosixPath(file.path), file.content, mode=MODE)
        node.services.reload()
    except StepFailed:  # a file that systemd has not read would look like somebody's change of the unit
        with suppress(StepFailed):
            _remove(node.files, filter(is_drop_in, node.runtime.kind.tuning))


def take_back(files: Files, services: ServiceManager, kind: RuntimeKind) -> None:
    """Have systemd start the runtime as before; what the drop-ins name goes last, since until then it may be needed.

    Raises:
        StepFailed: something of it is still there.
    """
    _remove(files, filter(is_drop_in, kind.tuning))
    services.reload()
    _remove(files, (path for path in kind.tuning if not is_drop_in(path)))


def _remove(files: Files, paths: Iterable[PurePosixPath]) -> None:
    for path in paths:
        files.remove(path)
