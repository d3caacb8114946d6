"""Checks of settings that mean something else to the new kubelet, though nobody has changed them."""

from collections.abc import Iterator

from nodeupgrade.api.reasons import Reason
from nodeupgrade.domain.check import Check, check
from nodeupgrade.domain.hazards import Finding, Hazard
from nodeupgrade.domain.node.checks.startup import Readiness
from nodeupgrade.kubelet import history
from nodeupgrade.kubelethash import KubeletVersion

PULLS_GATE = "KubeletEnsureSecretPulledImages"
PULLS_POLICY = "imagePullCredentialsVerificationPolicy"
VERIFYING = frozenset({"AlwaysVerify", "NeverVerifyAllowlistedImages"})
"""Policies that concern images which an older kubelet pulled; by default those are never verified."""

STATUS_GATE = "ChangeContainerStatusOnKubeletRestart"
MEMORY_GATE, MEMORY_FACTOR = "MemoryQoS", "memoryThrottlingFactor"


@check(Reason.DEFAULT_CHANGES, covers=(Hazard.GATE_DEFAULT_FLIPS,))
def gates_are_set_one_by_one(facts: Readiness) -> Iterator[Finding]:
    """No feature gate turns on all features of a stage, which are others in every version."""
    for gate in ("AllAlpha", "AllBeta"):
        if facts.layout.gates.get(gate):
            detail = (
                f"{gate}: true turns on other features in kubelet {facts.target} than in {facts.current}; "
                "name those that are wanted"
            )
            yield Finding(reason=Reason.DEFAULT_CHANGES, detail=detail)


@check(
    Reason.DEFAULT_CHANGES,
    follows=(history.IMAGE_PULLS_VERIFIED,),
    covers=(Hazard.IMAGE_PULLS_VERIFIED, Hazard.DEFAULT_CHANGES),
)
def pulled_images_stay_usable(facts: Readiness) -> Iterator[Finding]:
    """The new kubelet does not begin to verify images that the old one pulled without a record of who may use them."""
    policy = str(facts.layout.settings.document.get(PULLS_POLICY))
    if policy in VERIFYING and _verifies(facts, facts.target) and not _verifies(facts, facts.current):
        detail = (
            f"kubelet {facts.target} verifies pulled images by {policy} ({history.IMAGE_PULLS_VERIFIED.reference}) and "
            "has no record of those on the node: a container that is restarted needs its registry and credentials; set "
            f"{PULLS_POLICY}: NeverVerifyPreloadedImages, or the gate {PULLS_GATE} to false"
        )
        yield Finding(reason=Reason.DEFAULT_CHANGES, detail=detail)


def _verifies(facts: Readiness, kubelet: KubeletVersion | None) -> bool:
    by_default = kubelet is not None and history.IMAGE_PULLS_VERIFIED.applies_to(kubelet)
    return facts.layout.gates.get(PULLS_GATE, by_default) if kubelet == facts.target else by_default


@check(Reason.DEFAULT_CHANGES, follows=(history.EVENTS_UNLIMITED,), covers=(Hazard.DEFAULT_CHANGES,))
def events_stay_limited(facts: Readiness) -> Iterator[Finding]:
    """The rate of the kubelet's events does not become unlimited."""
    change = history.EVENTS_UNLIMITED
    limit = facts.layout.settings.text("event-qps", "eventRecordQPS")
    if limit == "0" and change.begins_between(facts.current, facts.target):
        detail = (
            f"eventRecordQPS: 0 is no limit for kubelet {facts.target} ({change.reference}), and was the default limit "
            "before; set the limit that is meant"
        )
        yield Finding(reason=Reason.DEFAULT_CHANGES, detail=detail)


@check(Reason.DEFAULT_CHANGES, follows=(history.MEMORY_QOS,), covers=(Hazard.DEFAULT_CHANGES,))
def memory_is_not_throttled_anew(facts: Readiness) -> Iterator[Finding]:
    """The new kubelet is not the first to set a limit from which running containers are throttled for their memory."""
    change = history.MEMORY_QOS
    on = facts.layout.gates.get(MEMORY_GATE, change.applies_to(facts.target))
    before = facts.current is not None and facts.layout.gates.get(MEMORY_GATE, change.applies_to(facts.current))
    factor = facts.layout.settings.document.get(MEMORY_FACTOR)
    if facts.cgroup_v2 and on and not before and factor is not None:
        detail = (
            f"kubelet {facts.target} throttles containers for their memory by {MEMORY_FACTOR}: {factor} "
            f"({change.reference}), which kubelet {facts.current} ignored; take it out, or turn the gate {MEMORY_GATE} "
            "off, if that is not meant"
        )
        yield Finding(reason=Reason.DEFAULT_CHANGES, detail=detail)


@check(Reason.ENDPOINTS_WOULD_BE_LOST, follows=(history.PROBES_KEPT,), covers=(Hazard.ENDPOINTS_LOST,))
def status_outlasts_a_restart(facts: Readiness) -> Iterator[Finding]:
    """The new kubelet keeps the status of containers when it starts, as its version lets one expect."""
    if history.PROBES_KEPT.applies_to(facts.target) and facts.layout.gates.get(STATUS_GATE):
        detail = (
            f"{STATUS_GATE}: true makes kubelet {facts.target} report every container as not ready when it starts, "
            f"and no readiness guard is used with kubelets that keep it ({history.PROBES_KEPT.reference}); turn it off"
        )
        yield Finding(reason=Reason.ENDPOINTS_WOULD_BE_LOST, detail=detail)


CHECKS: tuple[Check[Readiness], ...] = (status_outlasts_a_restart,)
WARNINGS: tuple[Check[Readiness], ...] = (
    gates_are_set_one_by_one,
    pulled_images_stay_usable,
    events_stay_limited,
    memory_is_not_throttled_anew,
)
