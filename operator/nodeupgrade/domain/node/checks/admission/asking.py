"""Checks of what single pods require: an operating system, sysctls, AppArmor, sidecars."""

from collections.abc import Iterator

from nodeupgrade.api.encoding.json import Json
from nodeupgrade.api.reasons import Reason
from nodeupgrade.domain.check import check
from nodeupgrade.domain.finding import Finding
from nodeupgrade.domain.hazards import Hazard
from nodeupgrade.domain.node.checks.admission.facts import Admission, all_containers, rejected, spec_of
from nodeupgrade.domain.pods import Pod, Role
from nodeupgrade.kubelet import history

APPARMOR_ANNOTATION = "container.apparmor.security.beta.kubernetes.io/"


@check(
    Reason.POD_WOULD_NOT_BE_ADMITTED,
    follows=(history.SIDECARS, history.SIDECARS_BY_DEFAULT),
    covers=(Hazard.SIDECARS_UNKNOWN,),
)
def sidecars_are_known(facts: Admission) -> Iterator[Finding]:
    """No kubelet that may start rejects sidecars, as 1.28 does while its gate is off, or is the first not to know them.

    Older kubelets wait for a sidecar to end, as for any init container. If the running kubelet is one of them, that
    does not forbid the upgrade, nor a rollback to it.
    """
    for version in facts.starting:
        known, by_default = history.SIDECARS.applies_to(version), history.SIDECARS_BY_DEFAULT.applies_to(version)
        gated = known and not by_default and not facts.gates.get("SidecarContainers", False)
        unlearned = version == facts.target and history.SIDECARS.begins_between(version, facts.current)
        if not gated and not unlearned:
            continue
        for pod in facts.admitted():
            named = [container.name for container in pod.containers if container.role is Role.SIDECAR]
            if named:
                why = "rejects" if gated else "does not know"
                yield rejected(
                    pod,
                    f"kubelet {version} {why} restartable init containers, and {', '.join(named)} of it "
                    "is one, so it would be killed or never start again; delete the pod first, or choose "
                    f"{history.SIDECARS_BY_DEFAULT.since} or later",
                )
        return  # the other version would only report the same pods again


@check(
    Reason.POD_WOULD_NOT_BE_ADMITTED,
    follows=tuple(dict.fromkeys(history.SAFE_SYSCTLS.values())),
    covers=(Hazard.SYSCTL_FORBIDDEN,),
)
def sysctls_are_allowed(facts: Admission) -> Iterator[Finding]:
    """Every sysctl of a pod is allowed by the kubelet, by default or by its configuration."""
    allowed = facts.settings.names("allowed-unsafe-sysctls", "allowedUnsafeSysctls")
    for pod in facts.admitted():
        context = spec_of(pod).get("securityContext") or {}
        for sysctl in context.get("sysctls") or ():
            name = str(sysctl.get("name", "")).replace("/", ".")
            if any(_matches(pattern.replace("/", "."), name) for pattern in allowed):
                continue
            for version in facts.starting:
                safe = history.SAFE_SYSCTLS.get(name)
                if safe is None or not safe.applies_to(version):
                    yield rejected(
                        pod,
                        f"it sets sysctl {name}, which kubelet {version} does not allow with the configuration on "
                        "disk, so it would be killed (SysctlForbidden); list it in allowedUnsafeSysctls",
                    )
                    break


@check(
    Reason.POD_WOULD_NOT_BE_ADMITTED, follows=(history.OS_LABEL_COMPARED,), covers=(Hazard.OPERATING_SYSTEM_DIFFERS,)
)
def operating_system_fits(facts: Admission) -> Iterator[Finding]:
    """No pod requires another operating system."""
    compared = any(map(history.OS_LABEL_COMPARED.applies_to, facts.starting))
    for pod in facts.admitted():
        system = (spec_of(pod).get("os") or {}).get("name", "linux")
        labels = (pod.raw.get("metadata") or {}).get("labels") or {}
        asked = labels.get("kubernetes.io/os", "linux") if compared else "linux"
        if system != "linux":
            yield rejected(pod, f"its spec.os is {system}, so any kubelet here would reject it (PodOSNotSupported)")
        elif asked != "linux":
            yield rejected(
                pod,
                f"its label kubernetes.io/os is {asked}, so a kubelet from {history.OS_LABEL_COMPARED.since} on would "
                "reject it (PodOSSelectorNodeLabelDoesNotMatch); correct the label, or delete the pod",
            )


@check(
    Reason.POD_WOULD_NOT_BE_ADMITTED,
    follows=(history.APPARMOR_PROFILES_LOOKED_UP,),
    covers=(Hazard.APPARMOR_PROFILE_MISSING,),
)
def apparmor_is_there(facts: Admission) -> Iterator[Finding]:
    """AppArmor is on where a pod requests it, and the profiles are loaded where a kubelet looks them up."""
    looked_up = any(map(history.APPARMOR_PROFILES_LOOKED_UP.applies_to, facts.starting))
    for pod in facts.admitted():
        asked = tuple(dict.fromkeys(_profiles(pod)))
        missing = [name for name in asked if name and name not in facts.host.profiles]
        if asked and not facts.host.apparmor:
            yield rejected(
                pod, "it asks for AppArmor, which is off on this host, so it would be killed; delete the pod first"
            )
        elif missing and looked_up:
            yield rejected(
                pod, f"it asks for the AppArmor profile {missing[0]}, which is not loaded; load it: apparmor_parser"
            )


def _profiles(pod: Pod) -> Iterator[str]:
    """Yield the localhost profiles that a pod requests, and an empty name for any other kind of profile."""
    for key, value in ((pod.raw.get("metadata") or {}).get("annotations") or {}).items():
        if key.startswith(APPARMOR_ANNOTATION) and value != "unconfined":
            yield str(value).removeprefix("localhost/") if str(value).startswith("localhost/") else ""
    for holder in (spec_of(pod), *all_containers(pod)):
        profile: Json = (holder.get("securityContext") or {}).get("appArmorProfile") or {}
        if profile.get("type", "Unconfined") != "Unconfined":
            yield str(profile.get("localhostProfile") or "")


def _matches(pattern: str, name: str) -> bool:
    return name.startswith(pattern.removesuffix("*")) if pattern.endswith("*") else name == pattern
