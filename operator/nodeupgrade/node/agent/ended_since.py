"""Adds what has ended by itself or for its owner since a run, while its agent waited for probes.

The API shows neither why a container ended nor the manifest of a static pod.
"""

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
from nodeupgrade.node.run.report import report_of
from nodeupgrade.node.run.summary import changes_by_owners
from nodeupgrade.node.verification.verification import DifferenceKind, affected

log = structlog.get_logger()


def with_ended_since(status: TaskStatus, host: Host, plan: RunPlan, journal: Journal) -> TaskStatus:
    """Return the status of a successful run with what has ended by itself, or for its owner, until now.

    Without the evidence, the control plane counts them as restarted, as it does what ended by itself before and was
    restarted by the kubelet since. Any other status is returned as it is. So is one after whose run the kubelet was
    started again: the runtime's log may begin after a request of the former kubelet.
    """
    started = journal.first(Step.START_KUBELET, Mark.DONE)
    if status.phase is not TaskPhase.SUCCEEDED or started is None:
        return status
    try:
        node = replace(host.node(plan.runtime_endpoint, plan.runtime_name), recorded=journal.payload)
        present = node.services.status(plan.swap.unit).started
        # Two clocks, of which one stands still while the node is suspended: it only makes a kubelet younger.
        if present is None or node.clock.awake() - present < node.clock.monotonic() - started.monotonic:
            return status
        in_effect, report = plan_in_effect(plan, journal), report_of(journal)
        look = last_look(node, in_effect, one_kubelet=True)
        changes = changes_by_owners(node, plan, in_effect)
    except NodeUpgradeError as error:
        log.info("ended_containers_unknown", error=str(error))
        return status
    if report is None:
        return status
    seen, before, ended = look.seen, status.containers, tuple(each.label for each in look.seen.ended)
    restarted = frozenset(each.label for each in seen.damage if each.kind is DifferenceKind.RESTARTED)
    every = (*ended, *before.ended_list, *report.ended)
    excused = affected(each for each in every if not (look.knows_requests and each in restarted))
    known = {*report.ended, *report.ended_before, *report.changed, *report.recreated, *report.listed}
    gone = {*ended, *(each.label for each in seen.changed)} - known
    containers = replace(
        before,
        ended=len(excused),
        ended_list=excused[:CONTAINERS_LISTED],
        owner_changes=tuple(dict.fromkeys((*before.owner_changes, *changes)))[:CONTAINERS_LISTED],
        unchanged=max(0, before.unchanged - len(gone & {each.label for each in in_effect.baseline.running()})),
    )
    return replace(status, containers=containers)
