"""Checks of cgroups: would a starting kubelet find every pod's, leave it as it is, and limit it no further?"""

from collections.abc import Iterator

from nodeupgrade.api.reasons import Reason
from nodeupgrade.findings.check import Found, check
from nodeupgrade.findings.finding import Finding
from nodeupgrade.findings.hazards import Hazard
from nodeupgrade.kubelet import history
from nodeupgrade.kubelet.feature_gates import POD_RESOURCES_GATE
from nodeupgrade.kubelet.settings import Configured
from nodeupgrade.kubelethash import UnreadablePod, UnsupportedKubelet, changes, qos_class
from nodeupgrade.node.checks.facts import NodeFacts
from nodeupgrade.node.checks.resources import MEMORY, capacity_of, reserved, shown
from nodeupgrade.node.checks.startup import Readiness


@check(
    Reason.POD_CGROUP_WOULD_CHANGE,
    Reason.KUBELET_WOULD_NOT_START,
    Hazard.CGROUP_DRIVER_CHANGES,
    Hazard.CGROUP_V1_REFUSED,
    history.CGROUP_DRIVER_FROM_RUNTIME,
    history.CGROUP_V1_REFUSED,
)
def cgroups_stay_where_they_are(facts: Readiness) -> Iterator[Found]:
    """The new kubelet uses the cgroup driver that the pods were started with, and runs on the node's cgroup version.

    From 1.31 on a kubelet takes the driver from the runtime, if that reports one, and not from its own configuration.
    With another driver it finds no pod's cgroup, and kills every pod.
    """
    reported = facts.runtime.cgroup_driver if history.CGROUP_DRIVER_FROM_RUNTIME.applies_to(facts.target) else None
    driver = reported or facts.layout.cgroup_driver
    if facts.cgroup_driver is not None and driver != facts.cgroup_driver:
        source = f"reported by {facts.runtime.name}" if reported else "from its configuration"
        yield (
            f"kubelet {facts.target} would use the cgroup driver {driver} ({source}), but pods were started with "
            f"{facts.cgroup_driver}, so it would kill all of them; set both to {facts.cgroup_driver}"
        )
    refused = history.CGROUP_V1_REFUSED
    if not facts.cgroup_v2 and refused.applies_to(facts.target) and facts.layout.fails_on_cgroup_v1:
        detail = (
            f"kubelet {facts.target} does not start on cgroup v1 ({refused.reference}); "
            "set failCgroupV1: false in its configuration, or move the node to cgroup v2"
        )
        yield Finding(reason=Reason.KUBELET_WOULD_NOT_START, detail=detail)


@check(
    Reason.POD_CGROUP_WOULD_CHANGE,
    Hazard.QOS_CLASS_CHANGES,
    changes.HUGE_PAGES_COUNT,
    changes.INIT_CONTAINERS_COUNT,
    changes.STATUS_TRUSTED,
    changes.POD_RESOURCES_COUNT,
    changes.POD_RESOURCES_COUNT_ONLY_IF_SET,
    changes.EACH_CONTAINER_MUST_MATCH,
    changes.POD_RESOURCES_ALLOCATED,
)
def pods_keep_their_cgroup(facts: NodeFacts) -> Iterator[Found]:
    """Every pod has the same QoS class, and so the same cgroup, for both kubelets.

    The class is part of the cgroup's path, and a kubelet kills a pod whose cgroup it does not find. From 1.16 on init
    containers count for the class (kubernetes #75223). From 1.36 on a kubelet looks for a static pod without resources
    of the pod itself that an older one admitted; of pods of the API it knows the class by their status.
    """
    current = facts.current
    if current is None:
        return
    recorded = history.RESIZE_POLICY_ACTED_ON.applies_to(current) and facts.recorded
    begins = recorded and facts.allocating == (False, True)
    for pod in facts.running_pods():
        try:
            before, after = qos_class(pod.raw, current), qos_class(pod.raw, facts.target)
            at_start = qos_class(pod.raw, facts.target, forgets=begins and pod.from_manifest)
        except UnsupportedKubelet:  # reported by versions_are_known
            return
        except UnreadablePod as error:
            yield pod, str(error)
            continue
        if before != after:
            detail = (
                f"its QoS class is {before} for kubelet {current} and {after} for {facts.target}, "
                "so the new kubelet would not find its cgroup and kill it; delete the pod first"
            )
            yield pod, detail
        elif before != at_start:
            detail = (
                f"its QoS class is {before} by spec.resources, which kubelet {facts.target} takes from a record in "
                f"which {current} wrote none: by {at_start} it would not find its cgroup and kill it; set the "
                f"resources of its containers instead, or turn the feature gate {POD_RESOURCES_GATE} off"
            )
            yield pod, detail


RELOAD = "delete the pod first, and find out what removed it (a `systemctl daemon-reload` may, kubernetes #128397)"


@check(Reason.POD_CGROUP_WOULD_CHANGE, Reason.POD_IN_TRANSITION, Hazard.CGROUP_CONTROLLER_MISSING)
def pods_have_their_controllers(facts: NodeFacts) -> Iterator[Found]:
    """Every running pod has a cgroup with all controllers that kubelets need; a starting one kills other pods.

    A kubelet looks for a pod's cgroup before it does anything else for the pod. On cgroup v2 a cgroup counts only with
    the controllers cpu, cpuset, memory, hugetlb and pids, on v1 only if it exists in all of these hierarchies.
    """
    cgroups = facts.around.cgroups
    if cgroups is None:
        return
    if not cgroups.exists:
        yield (
            f"there is no cgroup {cgroups.base}, in which a kubelet with the node's configuration looks for its pods, "
            "so it would find none of them and kill them all"
        )
        return
    for pod, missing in cgroups.incomplete.items():
        if pod in cgroups.ended:
            yield Finding(reason=Reason.POD_IN_TRANSITION, subject=pod, detail="it ended while the node was examined")
            continue
        detail = f"its cgroup lacks {', '.join(missing)}, so that any kubelet that starts would kill it"
        yield Finding(reason=Reason.POD_CGROUP_WOULD_CHANGE, subject=pod, detail=detail, remedy=RELOAD)


@check(Reason.DEVICES_WOULD_BE_LOST, Hazard.DEVICES_TAKEN_AWAY)
def devices_outlast_a_reload(facts: NodeFacts) -> Iterator[Found]:
    """Containers keep their devices through a ``systemctl daemon-reload``, which every run does.

    Where systemd manages cgroups, it then allows every container again just the devices that it was told of when the
    container started. What was added without it, as the legacy hook of NVIDIA's container toolkit adds GPUs, is lost,
    and so is what runc 1.1.3 to 1.1.6 did not tell it of.
    """
    for container, lost in facts.around.fragile_devices.items():
        yield container, f"systemd does not know of its devices {', '.join(lost)}: a daemon-reload takes them away"


@check(Reason.POD_CGROUP_WOULD_CHANGE, Hazard.CGROUP_LIMIT_BELOW_USAGE)
def limit_covers_usage(facts: NodeFacts) -> Iterator[Found]:
    """The memory limit that the kubelet would set for all pods is not lowered below what they use.

    A kubelet sets this limit when it starts, and on cgroup v2 the kernel ends processes until the limit is met.
    """
    cgroups = facts.around.cgroups
    if cgroups is None or cgroups.used is None or not _enforces(facts.settings):
        return
    try:
        limit = _limit(facts)
    except ValueError as error:
        yield f"it is unknown which memory limit the kubelet would set for all pods: {error}"
        return
    sinks = limit is not None and (cgroups.limit is None or limit < cgroups.limit)
    if limit is not None and sinks and cgroups.used > limit:
        before = "no limit" if cgroups.limit is None else shown(MEMORY, cgroups.limit)
        used, lowered = shown(MEMORY, cgroups.used), shown(MEMORY, limit)
        yield (
            f"the pods use {used} of memory under {before}, and a kubelet with the configuration on "
            f"disk (kubeReserved and systemReserved) would limit them to {lowered}, so the kernel would end some"
        )


def _enforces(settings: Configured) -> bool:
    """Report whether the kubelet sets a limit for all pods, as it does by default."""
    given = settings.flag("enforce-node-allocatable")
    listed = settings.document.get("enforceNodeAllocatable") if given is None else given.split(",")
    return listed is None or (isinstance(listed, list) and "pods" in listed)


def _limit(facts: NodeFacts) -> int | None:
    """Return the limit in bytes; ``None`` if the node does not say how much memory it has.

    Raises:
        ValueError: an amount cannot be parsed.
    """
    capacity = capacity_of(facts.admission)
    return capacity[MEMORY] - reserved(facts.settings)[MEMORY] if MEMORY in capacity else None


MEMORY_GATE, MEMORY_FACTOR = "MemoryQoS", "memoryThrottlingFactor"


@check(Reason.KUBELET_DEFAULT_CHANGES, Hazard.DEFAULT_CHANGES, history.MEMORY_QOS)
def memory_is_not_throttled_anew(facts: Readiness) -> Iterator[Found]:
    """The new kubelet is not the first to set a limit from which running containers are throttled for their memory."""
    change = history.MEMORY_QOS
    on = facts.layout.gates.get(MEMORY_GATE, change.applies_to(facts.target))
    before = facts.current is not None and facts.layout.gates.get(MEMORY_GATE, change.applies_to(facts.current))
    factor = facts.layout.settings.document.get(MEMORY_FACTOR)
    if facts.cgroup_v2 and on and not before and factor is not None:
        yield (
            f"kubelet {facts.target} throttles containers for their memory by {MEMORY_FACTOR}: {factor} "
            f"({change.reference}), which kubelet {facts.current} ignored; remove it, or turn the gate {MEMORY_GATE} "
            "off, if that is not intended"
        )
