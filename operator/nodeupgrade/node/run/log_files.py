"""The logs of containers: a runtime that opens them when it starts does not know a container whose log it cannot open.

For the reader of a FIFO, it waits without end. Pods that collect logs may write where they are. There as well are
directories without which a runtime exits, and that it cannot make where something else lies.
"""

from collections.abc import Iterable
from contextlib import suppress
from pathlib import PurePosixPath

from nodeupgrade.api.reasons import Reason
from nodeupgrade.errors import StepFailed
from nodeupgrade.kubelet.layout import above_logs
from nodeupgrade.node.host.files import made_directories
from nodeupgrade.node.host.files.files import Misplaced
from nodeupgrade.node.node import Node
from nodeupgrade.node.plan.plan import RunPlan
from nodeupgrade.node.runtimes.inventory import ContainerInstance


def anything_in_the_way(node: Node, plan: RunPlan) -> bool:
    """Report whether anything keeps a starting runtime from opening logs of planned containers, or from starting."""
    with suppress(StepFailed):
        if any(made_directories.misplaced_at(node.files, node.runtime.kind.makes)):
            return True
    return any(_misplaced(node, log, plan) is not None for log in _logs(node, plan))


def put_away(node: Node, plan: RunPlan, newer: Iterable[ContainerInstance] = ()) -> PurePosixPath | None:
    """Move aside what is in the way of a starting runtime: of the logs of planned containers, and of ``newer`` ones.

    Returns:
        Where the first of it is now; ``None`` if nothing was moved.
    """
    moved = list[PurePosixPath]()
    for directory in node.runtime.kind.makes:
        with suppress(StepFailed):
            if (aside := made_directories.make_way(node.files, directory)) is not None:
                moved.append(aside)
    for log in _logs(node, plan, newer):
        with suppress(StepFailed):
            if (aside := node.files.clear_way(log, _above(plan))) is not None:
                moved.append(aside)
    return moved[0] if moved else None


def require_put_away(node: Node, plan: RunPlan) -> None:
    """Move aside what is in the way of the logs of planned containers, before anything is restarted that may lose them.

    Likewise what is in the way of its own directories.

    Raises:
        StepFailed: it is there still.
    """
    for directory in node.runtime.kind.makes:
        made_directories.make_way(node.files, directory)
    for log in _logs(node, plan):
        try:
            node.files.clear_way(log, _above(plan))
        except StepFailed as error:
            if (found := _misplaced(node, log, plan)) is not None:
                raise StepFailed(
                    f"{error}: {found.path} {found.what}, and {plan.runtime_unit} would lose a container by that",
                    reason=Reason.INVENTORY_CHANGED,
                ) from error


def _misplaced(node: Node, log: PurePosixPath, plan: RunPlan) -> Misplaced | None:
    with suppress(StepFailed):  # perhaps it can be opened
        return node.files.misplaced(log, _above(plan))
    return None


def _above(plan: RunPlan) -> PurePosixPath:
    """Return the directory above that of all logs which no pod writes that could not be root as well."""
    return above_logs(PurePosixPath(plan.logs))


def _logs(node: Node, plan: RunPlan, newer: Iterable[ContainerInstance] = ()) -> dict[PurePosixPath, None]:
    if not node.runtime.kind.opens_logs:
        return {}
    # Those of pods that need not survive as well.
    return dict.fromkeys(_log(PurePosixPath(plan.logs), each) for each in (*plan.baseline.running(), *newer))


def _log(root: PurePosixPath, container: ContainerInstance) -> PurePosixPath:
    """Return where a kubelet has a container log (1.14+, #74441)."""
    pod = container.pod
    return root / f"{pod.namespace}_{pod.name}_{pod.uid}" / container.name / f"{container.attempt}.log"
