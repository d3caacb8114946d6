"""Checks of settings that mean something else to the new kubelet than to the old one."""

from collections.abc import Iterator

from nodeupgrade.api.reasons import Reason
from nodeupgrade.domain.check import Check, check
from nodeupgrade.domain.finding import Finding
from nodeupgrade.domain.hazards import Hazard
from nodeupgrade.domain.node.checks.startup.facts import Readiness
from nodeupgrade.kubelet import history
from nodeupgrade.kubelethash import KubeletVersion

CLOUDS_GATE = "DisableCloudProviders"
PULLS_GATE = "KubeletEnsureSecretPulledImages"
PULLS_POLICY = "imagePullCredentialsVerificationPolicy"
VERIFYING = frozenset({"AlwaysVerify", "NeverVerifyAllowlistedImages"})
"""Policies that concern images which an older kubelet pulled; by default those are never verified."""


@check(
    Reason.KUBELET_WOULD_NOT_START,
    follows=(history.AWS_CLOUD_REMOVED, history.CLOUDS_OFF, history.CLOUDS_REMOVED),
    covers=(Hazard.CLOUD_PROVIDER_REMOVED,),
)
def cloud_provider_is_there(facts: Readiness) -> Iterator[Finding]:
    """The new kubelet still has the cloud provider that it would be started with."""
    provider = facts.layout.settings.flag("cloud-provider") or ""
    if provider in {"", "external"}:
        return
    removed = [history.CLOUDS_REMOVED]
    if facts.layout.gates.get(CLOUDS_GATE, True):
        removed.append(history.CLOUDS_OFF)
    if provider == "aws":
        removed.append(history.AWS_CLOUD_REMOVED)
    for change in removed:
        if change.applies_to(facts.target):
            detail = (
                f"kubelet {facts.target} does not start with --cloud-provider={provider}, which is built in no longer "
                f"({change.reference}); move the cluster to an external cloud provider first"
            )
            yield Finding(reason=Reason.KUBELET_WOULD_NOT_START, detail=detail)
            return


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


CHECKS: tuple[Check[Readiness], ...] = (cloud_provider_is_there,)
WARNINGS: tuple[Check[Readiness], ...] = (gates_are_set_one_by_one, pulled_images_stay_usable)
