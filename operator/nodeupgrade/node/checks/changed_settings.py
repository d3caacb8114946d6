"""Checks of unchanged settings that mean something else to the new kubelet."""

from collections.abc import Iterator

from nodeupgrade.api.reasons import Reason
from nodeupgrade.findings.check import Found, check
from nodeupgrade.findings.hazards import Hazard
from nodeupgrade.kubelet import history
from nodeupgrade.node.checks.startup import Readiness

STATUS_GATE = "ChangeContainerStatusOnKubeletRestart"


@check(Reason.KUBELET_DEFAULT_CHANGES, Hazard.GATE_DEFAULT_FLIPS)
def gates_are_set_one_by_one(facts: Readiness) -> Iterator[Found]:
    """No feature gate turns on all features of a stage, which are others in every version."""
    for gate in ("AllAlpha", "AllBeta"):
        if facts.layout.gates.get(gate):
            yield (
                f"{gate}: true turns on other features in kubelet {facts.target} than in {facts.current}; "
                "name the wanted features one by one"
            )


@check(Reason.KUBELET_DEFAULT_CHANGES, Hazard.DEFAULT_CHANGES, history.EVENTS_UNLIMITED)
def events_stay_limited(facts: Readiness) -> Iterator[Found]:
    """The rate of the kubelet's events does not become unlimited."""
    change = history.EVENTS_UNLIMITED
    limit = facts.layout.settings.text("event-qps", "eventRecordQPS")
    if limit == "0" and change.begins_between(facts.current, facts.target):
        yield (
            f"eventRecordQPS: 0 is no limit for kubelet {facts.target} ({change.reference}), and was the default limit "
            "before; set the intended limit"
        )


@check(Reason.ENDPOINTS_WOULD_BE_LOST, Hazard.ENDPOINTS_LOST, history.PROBES_KEPT)
def status_outlasts_a_restart(facts: Readiness) -> Iterator[Found]:
    """The new kubelet keeps the status of containers when it starts, as its version lets one expect."""
    if history.PROBES_KEPT.applies_to(facts.target) and facts.layout.gates.get(STATUS_GATE):
        yield (
            f"{STATUS_GATE}: true makes kubelet {facts.target} report every container as not ready when it starts, "
            f"and no readiness guard is used with kubelets that keep it ({history.PROBES_KEPT.reference}); turn it off"
        )
