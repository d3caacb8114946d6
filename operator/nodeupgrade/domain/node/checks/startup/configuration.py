"""Checks of flags, feature gates and configuration: the new kubelet itself is asked, in a dry run."""

from collections.abc import Iterator

from nodeupgrade.api.limits import shorten
from nodeupgrade.api.reasons import Reason
from nodeupgrade.domain.check import Check, check
from nodeupgrade.domain.finding import Finding
from nodeupgrade.domain.hazards import Hazard
from nodeupgrade.domain.node.checks.startup.facts import Readiness
from nodeupgrade.kubelet.dry_run import accepted, objection, unknown_fields

SAID = 300
"""Characters of what a kubelet says that are quoted."""
ABOUT_GATES = ("unrecognized feature gate", "cannot set feature gate")


@check(Reason.KUBELET_WOULD_NOT_START, covers=(Hazard.GATE_REJECTED,))
def feature_gates_are_known(facts: Readiness) -> Iterator[Finding]:
    """The new kubelet accepts every feature gate that is set.

    Its own program is asked: it exits at once on a gate that was removed, or that is locked to the other value.
    """
    if (said := _about_gates(facts)) is not None:
        detail = (
            f"kubelet {facts.target} does not start with the node's feature gates: {said}; "
            "take the gate out of the kubelet's configuration first"
        )
        yield Finding(reason=Reason.KUBELET_WOULD_NOT_START, detail=detail)


@check(
    Reason.KUBELET_WOULD_NOT_START,
    covers=(Hazard.CONFIGURATION_REJECTED, Hazard.NODE_LABEL_REJECTED, Hazard.RUNTIME_ENDPOINT_UNSET),
)
def configuration_is_accepted(facts: Readiness) -> Iterator[Finding]:
    """The new kubelet decodes and validates the configuration, drop-ins and flags that it would be started with.

    Its own program is run with copies of them where it can touch nothing, up to the end of its validation.
    """
    output = facts.dry_run
    if output is not None and not accepted(output) and _about_gates(facts) is None:
        detail = (
            f"kubelet {facts.target} does not accept its configuration in a dry run: "
            f"{shorten(objection(output), SAID)}; correct that in its configuration file or flags first"
        )
        yield Finding(reason=Reason.KUBELET_WOULD_NOT_START, detail=detail)


@check(Reason.SETTING_IGNORED)
def settings_are_known(facts: Readiness) -> Iterator[Finding]:
    """The new kubelet knows every field of its configuration file; it ignores those that it does not know."""
    fields = unknown_fields(facts.dry_run or "")
    if fields:
        detail = f"kubelet {facts.target} does not know, and ignores, in its configuration: {', '.join(fields)}"
        yield Finding(reason=Reason.SETTING_IGNORED, detail=shorten(detail, SAID))


def _about_gates(facts: Readiness) -> str | None:
    if facts.dry_run is None or accepted(facts.dry_run):
        return None
    said = objection(facts.dry_run)
    return next((shorten(said[said.index(sign) :], SAID) for sign in ABOUT_GATES if sign in said), None)


CHECKS: tuple[Check[Readiness], ...] = (feature_gates_are_known, configuration_is_accepted)
WARNINGS: tuple[Check[Readiness], ...] = (settings_are_known,)
