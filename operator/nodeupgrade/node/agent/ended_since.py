"""Adds what has ended by itself since a run, while its agent waited for probes: the API does not show why it ended."""

from dataclasses import replace

from nodeupgrade.api.limits import CONTAINERS_LISTED
from nodeupgrade.api.task.status import TaskPhase, TaskStatus
from nodeupgrade.node.journal.journal import Journal
from nodeupgrade.node.node import Node
from nodeupgrade.node.plan.plan import RunPlan
from nodeupgrade.node.run.container_watch import last_look
from nodeupgrade.node.verification.verification import affected


def with_ended_since(status: TaskStatus, node: Node, plan: RunPlan, journal: Journal) -> TaskStatus:
    """Return the status of a successful run with the containers that have ended by themselves until now.

    Without the evidence, the control plane counts them as restarted. Any other status is returned as it is.
    """
    if status.phase is not TaskPhase.SUCCEEDED:
        return status
    seen = last_look(replace(node, recorded=journal.payload), plan, new_kubelet=True).seen
    before = status.containers
    ended = affected((*before.ended_list, *(each.label for each in seen.ended)))
    new = sum(label not in before.ended_list for label in ended)
    listed = ended[:CONTAINERS_LISTED]
    return replace(status, containers=replace(before, ended_list=listed, unchanged=before.unchanged - new))
