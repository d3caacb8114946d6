"""Checks of the host: would the new kubelet start on this kernel, these disks and these units, by a right clock?"""

import contextlib
from collections.abc import Iterator, Mapping
from datetime import timedelta
from math import trunc

from nodeupgrade.api.reasons import Reason
from nodeupgrade.cluster.clock_offset import ahead
from nodeupgrade.findings.check import Found, check
from nodeupgrade.findings.finding import Finding, named
from nodeupgrade.findings.hazards import Hazard
from nodeupgrade.kubelet import history
from nodeupgrade.kubelet.settings import threshold
from nodeupgrade.node.checks.facts import NodeFacts
from nodeupgrade.node.checks.startup import Readiness
from nodeupgrade.node.running_kubelet.kernel_limits import used_up
from nodeupgrade.text import lines


@check(Reason.KUBELET_WOULD_NOT_START, Hazard.COMMAND_LINE_DRIFTED, acceptable=False)
def units_are_as_loaded(facts: Readiness) -> Iterator[Found]:
    """The unit files are those that systemd has loaded, so that what starts is what was examined."""
    for unit in facts.units:
        if unit.needs_reload:
            yield (
                f"the files of {unit.name} were changed after systemd read them, so it would start differently than "
                "it runs now; run `systemctl daemon-reload`, and restart it if the change is intended"
            )


@check(Reason.KUBELET_BINARY_NOT_REPLACEABLE, acceptable=False)
def files_can_be_changed(facts: Readiness) -> Iterator[Found]:
    """No file that has to be replaced is immutable, a mount point or on a read-only filesystem, nor are logs of pods.

    A runtime that starts and cannot open the log of a container may show it as unknown, and kubelets replace it.
    """
    for path in facts.read_only:
        yield f"{path} is on a filesystem that is mounted read-only; remount it, or exclude the node"
    for path in facts.mounted:
        yield f"{path} is a mount point, so the file cannot be replaced; unmount it, and put the file itself there"
    for path in facts.unchangeable:
        yield f"{path} has the attribute immutable or append-only; remove it: chattr -ia {path}"


@check(Reason.EXECUTOR_UNAVAILABLE, acceptable=False)
def executor_can_be_started(facts: Readiness) -> Iterator[Found]:
    """There is a directory on the node from which systemd may start the executor's programs.

    That is /var/lib/nodeupgrade, or else /var/lib/kubelet/nodeupgrade.
    """
    if facts.unfit_for_programs:
        places = "; ".join(f"{place} is {why}" for place, why in facts.unfit_for_programs.items())
        yield f"the executor cannot be started from anywhere: {places}; remount one of them with the option exec"


@check(Reason.RUN_DIRECTORY_NOT_PERSISTENT, Hazard.RUN_FORGOTTEN_AT_BOOT)
def run_outlives_a_boot(facts: Readiness) -> Iterator[Found]:
    """The units and records of a run survive a boot, so that a node that loses power is brought to an end state.

    Accept this check if the node, should it be rebooted during its run, may be looked after by hand.
    """
    for path in facts.volatile:
        yield f"{path} is empty after a boot (tmpfs), but the files that a run changes are not"


PROTECTED: Mapping[str, int] = {
    "vm/overcommit_memory": 1,
    "vm/panic_on_oom": 0,
    "kernel/panic": 10,
    "kernel/panic_on_oops": 1,
    "kernel/keys/root_maxkeys": 1_000_000,
    "kernel/keys/root_maxbytes": 25_000_000,
}
"""What a kubelet sets, or insists on with protectKernelDefaults; the same in every version from 1.15 on."""


@check(Reason.KUBELET_WOULD_NOT_START, Hazard.SWAP_REFUSED, history.LIMITED_SWAP_NEEDS_V2)
def swap_is_as_configured(facts: Readiness) -> Iterator[Found]:
    """Swap is off, or the kubelet is configured to start with it, in a way that it supports on the node's cgroups."""
    swaps = lines((facts.host.swaps or b"").decode(errors="replace"))[1:]
    devices = [line.partition(" ")[0] for line in swaps]
    if devices and facts.layout.settings.text("fail-swap-on", "failSwapOn", "true").lower() != "false":
        yield (
            f"swap is on ({', '.join(devices)}), and the kubelet does not start with it; "
            "turn it off with `swapoff -a`, or set failSwapOn: false"
        )
    refused = history.LIMITED_SWAP_NEEDS_V2
    section = facts.layout.settings.document.get("memorySwap")
    limited = isinstance(section, Mapping) and section.get("swapBehavior") == "LimitedSwap"
    looked_at = refused.applies_to(facts.target) and facts.layout.gates.get("NodeSwap", True)
    if limited and looked_at and not facts.cgroup_v2:
        yield (
            f"kubelet {facts.target} does not start with memorySwap.swapBehavior: LimitedSwap on cgroup v1 "
            f"({refused.reference}); set it to NoSwap"
        )


@check(Reason.KUBELET_WOULD_NOT_START, Hazard.KERNEL_DEFAULTS_PROTECTED)
def kernel_settings_are_as_wanted(facts: Readiness) -> Iterator[Found]:
    """With protectKernelDefaults, the kernel's settings are those that a kubelet insists on."""
    if facts.layout.settings.text("protect-kernel-defaults", "protectKernelDefaults").lower() != "true":
        return
    wrong = {name: value for name, wanted in PROTECTED.items() if (value := facts.host.kernel.get(name)) != str(wanted)}
    if wrong:
        seen = ", ".join(f"{name.replace('/', '.')} is {value or 'not readable'}" for name, value in wrong.items())
        wanted = " ".join(f"{name.replace('/', '.')}={PROTECTED[name]}" for name in wrong)
        yield f"protectKernelDefaults is set, and {seen}: the kubelet would not start; run `sysctl -w {wanted}`"


@check(Reason.KUBELET_WOULD_NOT_START, Hazard.KERNEL_LIMIT_REACHED, warns=True, remedy="")
def kernel_limits_leave_room(facts: Readiness) -> Iterator[Found]:
    """Pods and all others have not used up inotify, epoll or processes, without which no kubelet starts.

    This only warns: the limits are raised while no kubelet runs.
    """
    if limit := facts.host.used_up:
        yield used_up(limit)


@check(Reason.KUBELET_WOULD_NOT_START, Hazard.UNIT_LIMITS_STARTS, history.WATCHDOG)
def watchdog_is_known(facts: Readiness) -> Iterator[Found]:
    """Where systemd's watchdog is set for the kubelet, both versions report to it.

    How often a unit may be started does not matter: the counter is reset before every start.
    """
    kubelet = facts.units[0] if facts.units else None
    for version in (facts.current, facts.target):
        if kubelet is not None and kubelet.watchdog and version and not history.WATCHDOG.applies_to(version):
            yield (
                f"{kubelet.name} has WatchdogSec={kubelet.watchdog}, but kubelet {version} does not report to the "
                f"watchdog ({history.WATCHDOG.reference}), so systemd would end it again and again; remove it"
            )
            return


@check(
    Reason.EVICTION_THRESHOLD_MET,
    Reason.KUBELET_WOULD_NOT_START,
    Hazard.DISK_FULL,
    Hazard.DEFAULT_CHANGES,
    history.IMAGE_INODES,
)
def disks_have_room(facts: Readiness) -> Iterator[Found]:
    """The filesystems of kubelet and runtime stay above its eviction thresholds, with all that the run stores there."""
    try:
        thresholds = _thresholds(facts)
    except ValueError as error:
        yield Finding(reason=Reason.KUBELET_WOULD_NOT_START, detail=f"{error}; correct it")
        return
    for (name, path), disk in facts.host.disks.items():
        for signal, free, size, unit in (
            (f"{name}.available", disk.free, disk.size, "bytes"),
            (f"{name}.inodesFree", disk.free_inodes, disk.inodes, "inodes"),
        ):
            if size <= 0 or signal not in thresholds:
                continue
            try:
                least = threshold(thresholds[signal], size)
            except ValueError:
                detail = f"the threshold {signal}<{thresholds[signal]} of evictionHard is not a quantity; correct it"
                yield Finding(reason=Reason.KUBELET_WOULD_NOT_START, detail=detail)
                continue
            if free < least:
                yield (
                    f"{free} {unit} would be free on the filesystem of {path} during the run, and kubelet "
                    f"{facts.target} evicts pods below {trunc(least)} ({signal} of evictionHard)"
                )


PROCESS_BYTES = 160 * 1024**2
"""What a run's own processes take at most: the executor 52 MB, the shield 48, the lease keeper 30."""


@check(Reason.EVICTION_THRESHOLD_MET, Hazard.MEMORY_SHORT, history.HUGE_PAGES_TAKEN_OFF)
def memory_has_room(facts: Readiness) -> Iterator[Found]:
    """With the run's processes, the node has more memory available than the eviction threshold of the new kubelet.

    The kubelet's own number differs a little from the kernel's: it leaves out less of the page cache.
    """
    memory, signal, change = facts.host.memory, "memory.available", history.HUGE_PAGES_TAKEN_OFF
    with contextlib.suppress(ValueError):  # reported by disks_have_room
        least_free = _thresholds(facts).get(signal)
        if least_free is None or not memory.keys() >= {"MemAvailable", "MemTotal"}:
            return
        # Kernels before 4.19 show only those of the usual size.
        pages = memory.get("Hugetlb", memory.get("HugePages_Total", 0) * memory.get("Hugepagesize", 0))
        taken_off = pages if change.applies_to(facts.target) else 0
        free = max(0, memory["MemAvailable"] + pages - taken_off - PROCESS_BYTES)
        least = threshold(least_free, memory["MemTotal"])
        if free < least:
            of_pages = f"; {pages} bytes are set aside for huge pages, which no longer count ({change.reference})"
            yield (
                f"{free} bytes of memory would be available during the run, and kubelet {facts.target} evicts pods "
                f"below {trunc(least)} ({signal} of evictionHard){of_pages if taken_off else ''}"
            )


def _thresholds(facts: Readiness) -> Mapping[str, str]:
    without = () if history.IMAGE_INODES.applies_to(facts.target) else ("imagefs.inodesFree",)
    return facts.layout.settings.eviction_hard(without)


TOLERATED_SKEW = timedelta(minutes=1)


@check(Reason.CLOCK_SKEW, Hazard.NODE_UNDER_PRESSURE)
def clock_is_right(facts: NodeFacts) -> Iterator[Found]:
    """The node's clock is that of the API server, give or take a minute."""
    off = ahead(facts.node)
    if off is not None and abs(off) > TOLERATED_SKEW:
        where = "ahead of" if off > timedelta() else "behind"
        yield (
            f"the node's clock is {abs(off) // timedelta(seconds=1)} s {where} that of the API server: a kubelet that "
            "starts opens new connections, and may find the certificates that it uses expired, or not valid "
            "yet"
        )


@check(Reason.IPTABLES_CHAINS_NOT_CREATED, Hazard.IPTABLES_CHAINS_GONE, history.MARKING_CHAINS_GONE)
def chains_are_not_missed(facts: NodeFacts) -> Iterator[Found]:
    """No network plugin refers to a chain that only the old kubelet creates; kube-proxy creates it too."""
    change = history.MARKING_CHAINS_GONE
    kept = facts.gates.get("IPTablesOwnershipCleanup") is False
    if (
        facts.around.marking
        and not kept
        and change.begins_between(facts.current, facts.target)
        and not _has_proxy(facts)
    ):
        yield (
            f"{named(facts.around.marking)} refers to KUBE-MARK-MASQ, which kubelet {facts.target} does not create "
            f"({change.reference}), nor does a kube-proxy on the node: it is gone after the next restart of the node"
        )


def _has_proxy(facts: NodeFacts) -> bool:
    running = (pod for pod in facts.pods if not pod.finished)
    return any("kube-proxy" in str(container.spec.get("image")) for pod in running for container in pod.containers)
