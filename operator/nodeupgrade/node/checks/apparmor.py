"""Checks of AppArmor: would a kubelet that starts reject a pod because of its profile?"""

from collections.abc import Iterator

from nodeupgrade.api.json import Json
from nodeupgrade.api.reasons import Reason
from nodeupgrade.cluster.pods import Pod
from nodeupgrade.findings.check import Found, check
from nodeupgrade.findings.hazards import Hazard
from nodeupgrade.kubelet import history
from nodeupgrade.node.checks.facts import Admission
from nodeupgrade.node.checks.pod_security import security_contexts

APPARMOR_ANNOTATION = "container.apparmor.security.beta.kubernetes.io/"


@check(Reason.POD_WOULD_NOT_BE_ADMITTED, Hazard.APPARMOR_PROFILE_MISSING, history.APPARMOR_PROFILES_LOOKED_UP)
def apparmor_is_there(facts: Admission) -> Iterator[Found]:
    """AppArmor is on where a pod requests it, and the profiles are loaded where a kubelet looks them up.

    Only pods that are Pending are looked at (lifecycle/handlers.go, appArmorAdmitHandler). So are static pods, whose
    phase a starting kubelet does not read.
    """
    looked_up = any(map(history.APPARMOR_PROFILES_LOOKED_UP.applies_to, facts.starting))
    for pod in facts.admitted():
        if not pod.static and pod.status.get("phase") != "Pending":
            continue
        asked = tuple(dict.fromkeys(_profiles(pod)))
        missing = [name for name in asked if name and name not in facts.host.profiles]
        if asked and not facts.host.apparmor:
            yield pod, "it asks for AppArmor, which is off on this host, so it would be killed; delete the pod first"
        elif missing and looked_up:
            yield pod, f"it asks for the AppArmor profile {missing[0]}, which is not loaded; load it: apparmor_parser"


def _profiles(pod: Pod) -> Iterator[str]:
    """Yield the localhost profiles that a pod requests, and an empty name for any other kind of profile."""
    for key, value in pod.annotations.items():
        if key.startswith(APPARMOR_ANNOTATION) and value != "unconfined":
            yield str(value).removeprefix("localhost/") if str(value).startswith("localhost/") else ""
    for context in security_contexts(pod):
        profile: Json = context.get("appArmorProfile") or {}
        if profile.get("type", "Unconfined") != "Unconfined":
            yield str(profile.get("localhostProfile") or "")
