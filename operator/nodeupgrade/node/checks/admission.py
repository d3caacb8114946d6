"""Checks of admission: would a kubelet that starts admit every pod again? One check for each condition of admission.

A kubelet admits all pods again when it starts, running or not, static pods included, in the order of their creation
and source by source; it kills those that it rejects (kubernetes #123980, still true). The order decides which pods are
rejected, not whether any is; so these checks ask whether all of them fit together.
"""

from collections.abc import Iterator

from nodeupgrade.api.reasons import Reason
from nodeupgrade.api.wording import counted
from nodeupgrade.cluster.nodes import view_node
from nodeupgrade.cluster.placement import unmet_placement
from nodeupgrade.cluster.pods import Pod, Role
from nodeupgrade.findings.check import Found, check
from nodeupgrade.findings.finding import named
from nodeupgrade.findings.hazards import Hazard
from nodeupgrade.kubelet import history, known_defects
from nodeupgrade.node.checks.facts import Admission
from nodeupgrade.node.checks.resource_managers import devices
from nodeupgrade.node.checks.resources import allocatable, capacity_of, requests


@check(Reason.POD_WOULD_NOT_BE_ADMITTED, Hazard.SIDECARS_UNKNOWN, history.SIDECARS, history.SIDECARS_BY_DEFAULT)
def sidecars_are_known(facts: Admission) -> Iterator[Found]:
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
                detail = (
                    f"kubelet {version} {why} restartable init containers, and {', '.join(named)} of it "
                    "is one, so it would be killed or never start again; delete the pod first, or choose "
                    f"{history.SIDECARS_BY_DEFAULT.since} or later"
                )
                yield pod, detail
        return  # the other version would only report the same pods again


@check(Reason.POD_WOULD_NOT_BE_ADMITTED, Hazard.SYSCTL_FORBIDDEN, *tuple(dict.fromkeys(history.SAFE_SYSCTLS.values())))
def sysctls_are_allowed(facts: Admission) -> Iterator[Found]:
    """Every sysctl of a pod is allowed by the kubelet, by default or by its configuration."""
    allowed = facts.settings.names("allowed-unsafe-sysctls", "allowedUnsafeSysctls")
    for pod in facts.admitted():
        context = pod.spec.get("securityContext") or {}
        for sysctl in context.get("sysctls") or ():
            name = str(sysctl.get("name", "")).replace("/", ".")
            if any(_matches(pattern.replace("/", "."), name) for pattern in allowed):
                continue
            for version in facts.starting:
                safe = history.SAFE_SYSCTLS.get(name)
                if safe is None or not safe.applies_to(version):
                    detail = (
                        f"it sets sysctl {name}, which kubelet {version} does not allow with the configuration on "
                        "disk, so it would be killed (SysctlForbidden); list it in allowedUnsafeSysctls"
                    )
                    yield pod, detail
                    break


def _matches(pattern: str, name: str) -> bool:
    return name.startswith(pattern.removesuffix("*")) if pattern.endswith("*") else name == pattern


Port = tuple[str, str, int]
"""Address, protocol and number of a port of the host."""
_ANY = "0.0.0.0"  # noqa: S104 - compared with, not bound to


@check(Reason.POD_WOULD_NOT_BE_ADMITTED, Hazard.HOST_PORTS_COLLIDE, known_defects.SIDECAR_PORTS_IGNORED)
def host_ports_are_free(facts: Admission) -> Iterator[Found]:
    """No two pods claim the same port of the host; a kubelet that starts admits only one of them."""
    sidecars = not all(map(known_defects.SIDECAR_PORTS_IGNORED.affects, facts.starting))
    taken: dict[Port, Pod] = {}
    for pod in facts.admitted():
        claimed = set(_host_ports(pod, sidecars=sidecars))
        for address, protocol, number in sorted(claimed):
            other = next((taken[port] for port in taken if _collide(port, (address, protocol, number))), None)
            if other is not None:
                detail = (
                    f"it claims port {number}/{protocol} of the host, as {other} does, so any start of a kubelet would "
                    "kill one of them (NodePorts); delete one of the pods first"
                )
                yield pod, detail
        taken.update(dict.fromkeys(claimed, pod))


def _host_ports(pod: Pod, *, sidecars: bool) -> Iterator[Port]:
    roles = {Role.REGULAR, Role.SIDECAR} if sidecars else {Role.REGULAR}
    for container in pod.containers:
        for port in (container.spec.get("ports") or ()) if container.role in roles else ():
            if isinstance(number := port.get("hostPort"), int) and number > 0:
                yield str(port.get("hostIP") or _ANY), str(port.get("protocol") or "TCP"), number


def _collide(one: Port, other: Port) -> bool:
    return one[1:] == other[1:] and (one[0] == other[0] or _ANY in {one[0], other[0]})


@check(Reason.POD_WOULD_NOT_BE_ADMITTED, Hazard.OPERATING_SYSTEM_DIFFERS, history.OS_LABEL_COMPARED)
def operating_system_fits(facts: Admission) -> Iterator[Found]:
    """No pod requires another operating system."""
    compared = any(map(history.OS_LABEL_COMPARED.applies_to, facts.starting))
    for pod in facts.admitted():
        system = (pod.spec.get("os") or {}).get("name", "linux")
        labels = pod.metadata.get("labels") or {}
        asked = labels.get("kubernetes.io/os", "linux") if compared else "linux"
        if system != "linux":
            yield pod, f"its spec.os is {system}, so any kubelet here would reject it (PodOSNotSupported)"
        elif asked != "linux":
            detail = (
                f"its label kubernetes.io/os is {asked}, so a kubelet from {history.OS_LABEL_COMPARED.since} on would "
                "reject it (PodOSSelectorNodeLabelDoesNotMatch); correct the label, or delete the pod"
            )
            yield pod, detail


@check(Reason.KUBELET_DEFECT, Hazard.FINALIZERS, known_defects.ENDED_PODS_ADMITTED, warns=True, remedy="")
def ended_pods_keep_their_phase(facts: Admission) -> Iterator[Found]:
    """No pod that has succeeded becomes Failed because the new kubelet would not admit it now.

    Pods stay that way until their finalizers are removed or they are deleted, as those of Jobs. Other kubelets
    leave pods alone that have ended.
    """
    defect = known_defects.ENDED_PODS_ADMITTED
    if not defect.affects(facts.target):
        return
    succeeded = [pod for pod in facts.pods if pod.status.get("phase") == "Succeeded"]
    if changed := [str(pod.ref) for pod in succeeded if not _would_be_admitted(facts, pod)]:
        yield (
            f"kubelet {facts.target} would report as Failed {counted(len(changed), 'pod')} that succeeded "
            f"({defect.reference}), which their Jobs may count: {named(changed)}; delete them first, or choose a later "
            "patch release"
        )


def _would_be_admitted(facts: Admission, pod: Pod) -> bool:
    """Report whether a pod fits next to those that run; what cannot be read is reported by ``pods_fit``."""
    if unmet_placement(pod, view_node(dict(facts.node))) is not None:
        return False
    if any(devices(facts) & container.resources.keys() for container in pod.containers):
        return False  # the device plugin has not registered again by then
    try:
        given = allocatable(facts.settings, capacity_of(facts))
        requested = requests(facts, pod)
    except ValueError:
        return True
    return all(amount <= given[name] for name, amount in requested.items() if name in given)
