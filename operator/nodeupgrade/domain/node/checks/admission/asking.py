"""Does the node still grant what single pods ask for: an operating system, sysctls, AppArmor, sidecars?"""

from collections.abc import Iterator, Mapping

from nodeupgrade.domain.finding import Finding
from nodeupgrade.domain.node.checks.admission.facts import Admission, all_containers, rejected, spec_of
from nodeupgrade.domain.node.pods import Json, NodePod, Role

SIDECARS_MINOR = 28
"""The first kubelet that knows restartable init containers; it rejects them while their gate is off, as 1.28's is."""
OS_LABEL_MINOR = 23
"""The first kubelet that compares a pod's label kubernetes.io/os with its own system."""
PROFILES_LOADED_UNTIL_MINOR = 26
"""The last kubelet that may ask whether an AppArmor profile is loaded; later ones leave it to the runtime."""
APPARMOR_ANNOTATION = "container.apparmor.security.beta.kubernetes.io/"

SAFE_SYSCTLS: Mapping[str, int] = {
    "kernel.shm_rmid_forced": 0,
    "net.ipv4.ip_local_port_range": 0,
    "net.ipv4.tcp_syncookies": 0,
    "net.ipv4.ping_group_range": 18,
    "net.ipv4.ip_unprivileged_port_start": 22,
    "net.ipv4.ip_local_reserved_ports": 27,
    "net.ipv4.tcp_keepalive_time": 29,
    "net.ipv4.tcp_fin_timeout": 29,
    "net.ipv4.tcp_keepalive_intvl": 29,
    "net.ipv4.tcp_keepalive_probes": 29,
    "net.ipv4.tcp_rmem": 32,
    "net.ipv4.tcp_wmem": 32,
    "net.ipv4.tcp_slow_start_after_idle": 37,
    "net.ipv4.tcp_notsent_lowat": 37,
}
"""Sysctls that kubelets allow by themselves, with the first minor surely known to do so."""


def sidecars_are_known(facts: Admission) -> Iterator[Finding]:
    """No kubelet that may start rejects restartable init containers, as 1.28 does while its gate is off.

    Older ones do not know them at all: they wait for a sidecar to end as for any init container. That they did so
    before is no reason not to leave them, and is as it was on the way back to them.
    """
    for version in facts.starting:
        gated = version.minor == SIDECARS_MINOR and not facts.gates.get("SidecarContainers", False)
        unlearned = version == facts.target and version.minor < SIDECARS_MINOR <= _newest(facts)
        if not gated and not unlearned:
            continue
        for pod in facts.admitted():
            named = [container.name for container in pod.containers if container.role is Role.SIDECAR]
            if named:
                why = "rejects" if gated else "does not know"
                yield rejected(
                    pod,
                    f"kubelet {version} {why} restartable init containers, and {', '.join(named)} of it "
                    "is one, so it would be killed or never start again; delete the pod first, or choose 1.29 or later",
                )
        return  # the same pods, by the same right


def sysctls_are_allowed(facts: Admission) -> Iterator[Finding]:
    """Each sysctl of a pod is one that the kubelet allows by itself or by its configuration."""
    allowed = facts.settings.names("allowed-unsafe-sysctls", "allowedUnsafeSysctls")
    for pod in facts.admitted():
        context = spec_of(pod).get("securityContext") or {}
        for sysctl in context.get("sysctls") or ():
            name = str(sysctl.get("name", "")).replace("/", ".")
            if any(_matches(pattern.replace("/", "."), name) for pattern in allowed):
                continue
            for version in facts.starting:
                if SAFE_SYSCTLS.get(name, version.minor + 1) > version.minor:
                    yield rejected(
                        pod,
                        f"it sets sysctl {name}, which kubelet {version} does not allow with the configuration on "
                        "disk, so it would be killed (SysctlForbidden); list it in allowedUnsafeSysctls",
                    )
                    break


def operating_system_fits(facts: Admission) -> Iterator[Finding]:
    """No pod is for another operating system."""
    for pod in facts.admitted():
        system = (spec_of(pod).get("os") or {}).get("name", "linux")
        labels = (pod.raw.get("metadata") or {}).get("labels") or {}
        asked = labels.get("kubernetes.io/os", "linux") if _newest(facts) >= OS_LABEL_MINOR else "linux"
        if system != "linux":
            yield rejected(pod, f"its spec.os is {system}, so any kubelet here would reject it (PodOSNotSupported)")
        elif asked != "linux":
            yield rejected(
                pod,
                f"its label kubernetes.io/os is {asked}, so a kubelet from 1.23 on would reject it "
                "(PodOSSelectorNodeLabelDoesNotMatch); correct the label, or delete the pod",
            )


def apparmor_is_there(facts: Admission) -> Iterator[Finding]:
    """The host confines programs by AppArmor where a pod asks for it, and older kubelets find the profiles loaded."""
    oldest = min(version.minor for version in facts.starting)
    for pod in facts.admitted():
        asked = tuple(dict.fromkeys(_profiles(pod)))
        missing = [name for name in asked if name and name not in facts.host.profiles]
        if asked and not facts.host.apparmor:
            yield rejected(
                pod, "it asks for AppArmor, which is off on this host, so it would be killed; delete the pod first"
            )
        elif missing and oldest <= PROFILES_LOADED_UNTIL_MINOR:
            yield rejected(
                pod, f"it asks for the AppArmor profile {missing[0]}, which is not loaded; load it: apparmor_parser"
            )


def _profiles(pod: NodePod) -> Iterator[str]:
    """Names of the localhost profiles that a pod asks for, and an empty one for any other kind."""
    for key, value in ((pod.raw.get("metadata") or {}).get("annotations") or {}).items():
        if key.startswith(APPARMOR_ANNOTATION) and value != "unconfined":
            yield str(value).removeprefix("localhost/") if str(value).startswith("localhost/") else ""
    for holder in (spec_of(pod), *all_containers(pod)):
        profile: Json = (holder.get("securityContext") or {}).get("appArmorProfile") or {}
        if profile.get("type", "Unconfined") != "Unconfined":
            yield str(profile.get("localhostProfile") or "")


def _matches(pattern: str, name: str) -> bool:
    return name.startswith(pattern.removesuffix("*")) if pattern.endswith("*") else name == pattern


def _newest(facts: Admission) -> int:
    return max(version.minor for version in facts.starting)
