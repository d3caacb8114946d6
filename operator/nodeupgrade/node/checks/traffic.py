"""Checks of Services, webhooks and disruption budgets: do clients of the node's pods notice the kubelet swap?

Services may lose endpoints although no container restarts: kubelets before 1.35 report pods unready until probed.

``verify.readinessGuard`` decides what is checked. Where pods are guarded, or the new kubelet keeps the results of
probes, Services lose no endpoint. With ``Off`` Services are not even read. ``Auto`` continues without a guard, so it
only warns. ``Require`` promises that no endpoint is lost, so a Service that would lose its last one forbids the run;
one that would keep some is a warning. Whether a node will be guarded is in the task, also for ``action: Plan``.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

from nodeupgrade.api.reasons import Reason
from nodeupgrade.api.run_settings import GuardPolicy
from nodeupgrade.api.wording import counted
from nodeupgrade.cluster.pods import Pod, Role
from nodeupgrade.findings.check import Found, check
from nodeupgrade.findings.finding import Finding, named
from nodeupgrade.findings.hazards import Hazard
from nodeupgrade.kubelet import history
from nodeupgrade.kubelet.probe_delay import keeps_probes
from nodeupgrade.kubelethash import KubeletVersion
from nodeupgrade.node.checks.dependants import Dependants

MOST_SERVICES = 5
"""At most this many Services are reported one by one."""


class Risk(StrEnum):
    """What to do about endpoints that may be lost."""

    NONE = "none"
    """Pods stay Ready, or the policy is ``Off``."""
    ACCEPTED = "accepted"
    REFUSED = "refused"


@dataclass(frozen=True, slots=True, kw_only=True)
class Clients:
    """The Services that the node's pods are endpoints of."""

    risk: Risk = Risk.NONE
    services: Mapping[str, frozenset[str]] = field(default_factory=dict)  # their ready endpoints; empty without a risk
    unread: str = ""  # why they could not be read; empty if they were
    dependants: Dependants = Dependants()  # what else depends on the readiness of these pods
    unread_dependants: str = ""  # why that could not be read; empty if it was


@dataclass(frozen=True, slots=True, kw_only=True)
class Traffic:
    """The facts that the checks of this module judge."""

    pods: tuple[Pod, ...]  # the node's pods from the API server; manifests have no results of probes
    current: KubeletVersion | None  # version of the running kubelet; None if unknown
    target: KubeletVersion
    settle: float  # seconds for which the run watches the containers once the new kubelet runs
    clients: Clients = Clients()
    gates: Mapping[str, bool] = field(default_factory=dict)  # feature gates that are set
    gates_before: Mapping[str, bool] = field(default_factory=dict)  # those that are set in the running kubelet


def risk_of(target: KubeletVersion, policy: GuardPolicy, *, guarded: bool) -> Risk:
    """Return what a run means for endpoints; ``guarded`` if the control plane will guard the node's pods."""
    if guarded or policy is GuardPolicy.OFF or keeps_probes(target):
        return Risk.NONE
    return Risk.REFUSED if policy is GuardPolicy.REQUIRE else Risk.ACCEPTED


def namespaces(pods: Iterable[Pod]) -> tuple[str, ...]:
    """Return the namespaces of the Services that may lose one of these pods."""
    return tuple(sorted({pod.ref.namespace for pod in pods if becomes_unready(pod)}))


@check(Reason.ENDPOINTS_WOULD_BE_LOST, Hazard.ENDPOINTS_LOST, history.PROBES_KEPT, acceptable=False)
def services_keep_endpoints(facts: Traffic) -> Iterator[Found]:
    """No Service loses its last endpoint where ``verify.readinessGuard: Require`` is set."""
    if facts.clients.risk is Risk.REFUSED:
        yield from (_deserted(facts, service, gone) for service, gone, left in lost_endpoints(facts) if not left)


@check(
    Reason.ENDPOINTS_WOULD_BE_LOST,
    Reason.SERVICES_NOT_READABLE,
    Hazard.ENDPOINTS_LOST,
    Hazard.NODE_REPORTS_NOT_READY,
    history.PROBES_KEPT,
    history.NODE_STEADY,
    warns=True,
)
def clients_notice_nothing(facts: Traffic) -> Iterator[Found]:
    """Services keep all endpoints, unless ``verify.readinessGuard: Off`` is set."""
    clients, losses = facts.clients, tuple(lost_endpoints(facts))
    if clients.risk is Risk.NONE:
        return
    if not history.NODE_STEADY.applies_to(facts.target):
        yield (
            f"kubelet {facts.target} may report its node NotReady once when it starts "
            f"({history.NODE_STEADY.reference}), and all pods of the node count as unready until it is Ready again"
        )
    if clients.unread:
        detail = f"it is unknown whether Services lose their last endpoint: {clients.unread}"
        yield Finding(reason=Reason.SERVICES_NOT_READABLE, detail=detail)
    if clients.unread_dependants:
        detail = f"it is unknown whether budgets, webhooks or APIs depend on the pods: {clients.unread_dependants}"
        yield Finding(reason=Reason.SERVICES_NOT_READABLE, detail=detail)
    deserted = [(service, gone) for service, gone, left in losses if not left and clients.risk is not Risk.REFUSED]
    yield from (_deserted(facts, service, gone) for service, gone in deserted[:MOST_SERVICES])
    if rest := [service for service, _ in deserted[MOST_SERVICES:]]:
        yield f"no ready endpoint would be left for {counted(len(rest), 'other Service')}: {named(rest)}"
    if fewer := [service for service, _, left in losses if left]:
        gone = [pod for _, pods, left in losses if left for pod in pods]
        yield (
            f"{counted(len(fewer), 'Service')} ({named(fewer)}) would keep some endpoints and lose others for up to "
            f"{_seconds(facts, gone)} s, until kubelet {facts.target} has probed their pods"
        )


def _deserted(facts: Traffic, service: str, gone: Sequence[str]) -> str:
    return (
        f"Service {service} has no other ready endpoint than {named(gone)}: it would have none for up to "
        f"{_seconds(facts, gone)} s, until kubelet {facts.target} has probed its pods"
    )


def lost_endpoints(facts: Traffic) -> Iterator[tuple[str, Sequence[str], frozenset[str]]]:
    """Yield each Service that loses endpoints, with those that it loses and those that are left."""
    unready = {str(pod.ref) for pod in facts.pods if becomes_unready(pod)}
    for service, ready in facts.clients.services.items():
        if gone := sorted(ready & unready):
            yield service, gone, ready - unready


def _seconds(facts: Traffic, names: Collection[str]) -> int:
    """Return the longest time, in seconds, until all of these pods are probed."""
    exposed = (pod.exposure for pod in facts.pods if str(pod.ref) in names)
    return round(max(exposed).total_seconds())


def becomes_unready(pod: Pod) -> bool:
    """Report whether it is Ready, and a kubelet without its probe results would report it unready."""
    lasting = (container.spec for container in pod.containers if container.role in {Role.REGULAR, Role.SIDECAR})
    probed = any(spec.get("readinessProbe") or spec.get("startupProbe") for spec in lasting)
    return pod.ready and not pod.leaving and probed


@check(Reason.ENDPOINTS_WOULD_BE_LOST, Hazard.WEBHOOK_HOSTED, history.PROBES_KEPT, warns=True)
def api_server_keeps_its_webhooks(facts: Traffic) -> Iterator[Found]:
    """No Service that the API server calls, for a webhook or an aggregated API, loses its last endpoint."""
    if facts.clients.risk is Risk.NONE:
        return
    callers = facts.clients.dependants.callers
    for service, gone, left in lost_endpoints(facts):
        called_for = [caller for called, caller in callers if called == service]
        if called_for and not left:
            yield (
                f"the API server calls Service {service} for {named(called_for)}, which has no other ready "
                f"endpoint than {named(gone)}: requests may fail until kubelet {facts.target} has probed it"
            )


@check(Reason.ENDPOINTS_WOULD_BE_LOST, Hazard.DISRUPTION_BUDGET_BROKEN, history.PROBES_KEPT, warns=True)
def budgets_are_kept(facts: Traffic) -> Iterator[Found]:
    """No PodDisruptionBudget allows fewer unready pods than the node has of its own."""
    if facts.clients.risk is Risk.NONE:
        return
    unready = [pod for pod in facts.pods if becomes_unready(pod)]
    for budget in facts.clients.dependants.budgets:
        concerned = [str(pod.ref) for pod in unready if budget.selects(pod.ref.namespace, pod.labels)]
        if len(concerned) > budget.spare:
            yield (
                f"PodDisruptionBudget {budget.namespace}/{budget.name} allows {counted(budget.spare, 'disruption')} "
                f"now, and {counted(len(concerned), 'pod')} of it on this node would be unready until kubelet "
                f"{facts.target} has probed them: {named(concerned)}"
            )
