"""Checks of what else depends on the readiness of the node's pods: disruption budgets, webhooks, aggregated APIs.

They only warn: pods are unready for some seconds, and where that is too much, ``verify.readinessGuard`` keeps them
Ready.
"""

from collections.abc import Iterator

from nodeupgrade.api.reasons import Reason, Severity, counted
from nodeupgrade.domain.check import Check, check
from nodeupgrade.domain.hazards import Finding, Hazard, named
from nodeupgrade.domain.node.checks.services import Risk, Traffic, becomes_unready, lost_endpoints
from nodeupgrade.kubelet import history


@check(Reason.ENDPOINTS_WOULD_BE_LOST, follows=(history.PROBES_KEPT,), covers=(Hazard.WEBHOOK_HOSTED,))
def api_server_keeps_its_webhooks(facts: Traffic) -> Iterator[Finding]:
    """No Service that the API server calls, for a webhook or an aggregated API, loses its last endpoint."""
    if facts.clients.risk is Risk.NONE:
        return
    callers = facts.clients.dependants.callers
    for service, gone, left in lost_endpoints(facts):
        called_for = [caller for called, caller in callers if called == service]
        if called_for and not left:
            detail = (
                f"the API server calls Service {service} for {named(called_for)}, and nobody but {named(gone)} answers "
                f"for it: requests may fail until kubelet {facts.target} has probed it"
            )
            yield Finding(reason=Reason.ENDPOINTS_WOULD_BE_LOST, detail=detail, severity=Severity.WARN)


@check(Reason.ENDPOINTS_WOULD_BE_LOST, follows=(history.PROBES_KEPT,), covers=(Hazard.DISRUPTION_BUDGET_BROKEN,))
def budgets_are_kept(facts: Traffic) -> Iterator[Finding]:
    """No PodDisruptionBudget allows fewer unready pods than the node has of its own."""
    if facts.clients.risk is Risk.NONE:
        return
    unready = [pod for pod in facts.pods if becomes_unready(pod)]
    for budget in facts.clients.dependants.budgets:
        concerned = [str(pod.ref) for pod in unready if budget.selects(pod.ref.namespace, pod.labels)]
        if len(concerned) > budget.spare:
            detail = (
                f"PodDisruptionBudget {budget.namespace}/{budget.name} allows {counted(budget.spare, 'disruption')} "
                f"now, and {counted(len(concerned), 'pod')} of it on this node would be unready until kubelet "
                f"{facts.target} has probed them: {named(concerned)}"
            )
            yield Finding(reason=Reason.ENDPOINTS_WOULD_BE_LOST, detail=detail, severity=Severity.WARN)


WARNINGS: tuple[Check[Traffic], ...] = (api_server_keeps_its_webhooks, budgets_are_kept)
