"""Adds what has ended by itself since a run, while its agent waited for probes: the API does not show why it ended."""

from dataclasses import replace

import structlog

from nodeupgrade.api.limits import CONTAINERS_LISTED
from nodeupgrade.api.task.status import TaskPhase, TaskStatus
from nodeupgrade.api.task.step import Step
from nodeupgrade.errors import NodeUpgradeError
from nodeupgrade.node.journal.journal import Journal, Mark
from nodeupgrade.node.journal.plan_in_effect import plan_in_effect
from nodeupgrade.node.node import Host
from nodeupgrade.node.plan.plan import RunPlan
from nodeupgrade.node.run.container_watch import last_look
from nodeupgrade.node.verification.verification import affected

log = structlog.get_logger()


def with_ended_since(status: TaskStatus, host: Host, plan: RunPlan, journal: Journal) -> TaskStatus:
    """Return the status of a successful run with the containers that have ended by themselves until now.

    Without the evidence, the control plane counts them as restarted. Any other status is returned as it is. So is one
    after whose run the kubelet was started again: the runtime's log may begin after a request of the former kubelet.
    """
    started = journal.first(Step.START_KUBELET, Mark.DONE)
    if status.phase is not TaskPhase.SUCCEEDED or started is None:
        return status
    try:
        node = replace(host.node(plan.runtime_endpoint, plan.runtime_name), recorded=journal.payload)
        present = node.services.status(plan.swap.unit).started
        if present is None or present.seconds > started.monotonic:
            return status
        seen = last_look(node, plan_in_effect(plan, journal), new_kubelet=True).seen
    except NodeUpgradeError as error:
        log.info("ended_containers_unknown", error=str(error))
        return status
    before = status.containers
    ended = affected((*before.ended_list, *(each.label for each in seen.ended)))
    new = sum(label not in before.ended_list for label in ended)
    listed = ended[:CONTAINERS_LISTED]
    return replace(status, containers=replace(before, ended_list=listed, unchanged=before.unchanged - new))
