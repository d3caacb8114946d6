"""The logs of containers: a runtime that opens them when it starts waits without end for the reader of a FIFO."""

from collections.abc import Iterator
from contextlib import suppress
from pathlib import PurePosixPath

from nodeupgrade.errors import StepFailed
from nodeupgrade.node.node import Node
from nodeupgrade.node.plan.plan import RunPlan


def put_away(node: Node, plan: RunPlan) -> str | None:
    """Move aside what pods have put in the place of the logs of others; return a sentence about it."""
    moved = [*_moved(node, plan)] if node.runtime.kind.opens_logs else []
    return f"what lay in the place of logs was moved aside, first to {moved[0]}" if moved else None


def _moved(node: Node, plan: RunPlan) -> Iterator[PurePosixPath]:
    for container in plan.baseline.running():  # those of pods that need not survive as well
        pod = container.pod
        directory = PurePosixPath(plan.logs) / f"{pod.namespace}_{pod.name}_{pod.uid}" / container.name
        with suppress(StepFailed):  # perhaps it can be opened
            if (aside := node.files.set_aside(directory / f"{container.attempt}.log")) is not None:
                yield aside
