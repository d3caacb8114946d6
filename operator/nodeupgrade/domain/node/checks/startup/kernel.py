"""Checks of swap, kernel settings and systemd's watchdog: each can keep a kubelet from starting, or end it."""

from collections.abc import Iterator, Mapping

from nodeupgrade.api.reasons import Reason, Severity
from nodeupgrade.domain.check import Check, check
from nodeupgrade.domain.finding import Finding
from nodeupgrade.domain.hazards import Hazard
from nodeupgrade.domain.node.checks.startup.facts import Readiness
from nodeupgrade.kubelet import history

PROTECTED: Mapping[str, int] = {
    "vm/overcommit_memory": 1,
    "vm/panic_on_oom": 0,
    "kernel/panic": 10,
    "kernel/panic_on_oops": 1,
    "kernel/keys/root_maxkeys": 1_000_000,
    "kernel/keys/root_maxbytes": 25_000_000,
}
"""What a kubelet sets, or insists on with protectKernelDefaults; the same in every version from 1.15 on."""


@check(Reason.KUBELET_WOULD_NOT_START, follows=(history.LIMITED_SWAP_NEEDS_V2,), covers=(Hazard.SWAP_REFUSED,))
def swap_is_as_configured(facts: Readiness) -> Iterator[Finding]:
    """Swap is off, or the kubelet is configured to start with it, in a way that it supports on the node's cgroups."""
    swaps = (facts.host.swaps or b"").split(b"\n")[1:]
    devices = [line.split()[0].decode(errors="replace") for line in swaps if line.strip()]
    if devices and facts.layout.settings.text("fail-swap-on", "failSwapOn", "true").lower() != "false":
        detail = (
            f"swap is on ({', '.join(devices)}), and the kubelet does not start with it; "
            "turn it off with `swapoff -a`, or set failSwapOn: false"
        )
        yield Finding(reason=Reason.KUBELET_WOULD_NOT_START, detail=detail)
    refused = history.LIMITED_SWAP_NEEDS_V2
    section = facts.layout.settings.document.get("memorySwap")
    limited = isinstance(section, Mapping) and section.get("swapBehavior") == "LimitedSwap"
    looked_at = refused.applies_to(facts.target) and facts.layout.gates.get("NodeSwap", True)
    if limited and looked_at and not facts.cgroup_v2:
        detail = (
            f"kubelet {facts.target} does not start with memorySwap.swapBehavior: LimitedSwap on cgroup v1 "
            f"({refused.reference}); set it to NoSwap"
        )
        yield Finding(reason=Reason.KUBELET_WOULD_NOT_START, detail=detail)


@check(Reason.KUBELET_WOULD_NOT_START, covers=(Hazard.KERNEL_DEFAULTS_PROTECTED,))
def kernel_settings_are_as_wanted(facts: Readiness) -> Iterator[Finding]:
    """With protectKernelDefaults, the kernel's settings are those that a kubelet insists on."""
    if facts.layout.settings.text("protect-kernel-defaults", "protectKernelDefaults").lower() != "true":
        return
    wrong = {name: value for name, wanted in PROTECTED.items() if (value := facts.host.kernel.get(name)) != str(wanted)}
    if wrong:
        seen = ", ".join(f"{name.replace('/', '.')} is {value or 'not readable'}" for name, value in wrong.items())
        wanted = " ".join(f"{name.replace('/', '.')}={PROTECTED[name]}" for name in wrong)
        detail = f"protectKernelDefaults is set, and {seen}: the kubelet would not start; run `sysctl -w {wanted}`"
        yield Finding(reason=Reason.KUBELET_WOULD_NOT_START, detail=detail)


@check(Reason.KUBELET_WOULD_NOT_START, covers=(Hazard.INOTIFY_EXHAUSTED,))
def inotify_instances_are_left(facts: Readiness) -> Iterator[Finding]:
    """The superuser has not used up all inotify instances, of which a kubelet needs some to watch its files.

    Instances that processes share are counted for each of them, so this only warns.
    """
    if facts.host.inotify is not None and facts.host.inotify[0] >= facts.host.inotify[1]:
        detail = (
            f"the {facts.host.inotify[1]} inotify instances of the superuser seem to be used up, and a kubelet that "
            "cannot get one does not start; raise fs.inotify.max_user_instances"
        )
        yield Finding(reason=Reason.KUBELET_WOULD_NOT_START, detail=detail, severity=Severity.WARN, remedy="")


@check(Reason.KUBELET_WOULD_NOT_START, follows=(history.WATCHDOG,), covers=(Hazard.UNIT_LIMITS_STARTS,))
def watchdog_is_known(facts: Readiness) -> Iterator[Finding]:
    """Where systemd's watchdog is set for the kubelet, both versions report to it.

    How often a unit may be started does not matter: the counter is reset before every start.
    """
    kubelet = facts.units[0] if facts.units else None
    for version in (facts.current, facts.target):
        if kubelet is not None and kubelet.watchdog and version and not history.WATCHDOG.applies_to(version):
            detail = (
                f"{kubelet.name} has WatchdogSec={kubelet.watchdog}, but kubelet {version} does not report to the "
                f"watchdog ({history.WATCHDOG.reference}), so systemd would end it again and again; take it out"
            )
            yield Finding(reason=Reason.KUBELET_WOULD_NOT_START, detail=detail)
            return


CHECKS: tuple[Check[Readiness], ...] = (
    swap_is_as_configured,
    kernel_settings_are_as_wanted,
    watchdog_is_known,
)
WARNINGS: tuple[Check[Readiness], ...] = (inotify_instances_are_left,)
