"""Checks of the kubelet's start: would the new kubelet accept its configuration, and do its settings mean the same?"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from nodeupgrade.api.limits import shorten
from nodeupgrade.api.reasons import Reason
from nodeupgrade.findings.check import Found, check
from nodeupgrade.findings.hazards import Hazard
from nodeupgrade.kubelet import history
from nodeupgrade.kubelet.layout import KubeletLayout
from nodeupgrade.kubelet.trial_command import accepted, objection, unknown_fields
from nodeupgrade.kubelethash import KubeletVersion
from nodeupgrade.node.host.files.files import DiskUsage
from nodeupgrade.node.host.systemd.units import UnitStatus
from nodeupgrade.node.running_kubelet.taken_ports import TakenPort
from nodeupgrade.node.runtimes.description import RuntimeInfo


@dataclass(frozen=True, slots=True, kw_only=True)
class CredentialProviders:
    """The programs that fetch credentials for images, as the command line names them."""

    directory: str  # where the programs are
    files: Mapping[str, bytes | None]  # content of each configuration file, by path; None if there is no such file
    executable: frozenset[str]  # names of the programs that are there


@dataclass(frozen=True, slots=True, kw_only=True)
class Identity:
    """The credentials that a kubelet would start with."""

    now: datetime  # when they were looked at, by the API server's clock if that is known
    # client certificates that it may use, by path; good if one of them is
    certificates: Mapping[str, bytes] = field(default_factory=dict)
    problem: str = ""  # why there are none; empty if nothing is wrong
    by_program: bool = False  # whether its kubeconfig names a program that prints them


@dataclass(frozen=True, slots=True, kw_only=True)
class StartingHost:
    """What a starting kubelet reads of its host."""

    swaps: bytes | None = None  # content of /proc/swaps; None if there is no such file
    # kernel settings by name, such as ``vm/panic_on_oom``; empty if a setting could not be read
    kernel: Mapping[str, str] = field(default_factory=dict)
    # how full each filesystem is, by the name that a kubelet gives it and by path
    disks: Mapping[tuple[str, str], DiskUsage] = field(default_factory=dict)
    credential_providers: CredentialProviders | None = None  # None if none are configured
    identity: Identity | None = None  # None if the kubelet has no kubeconfig
    # whether the certificates and keys are there that it serves with and knows its clients by, by setting and path
    certificates: Mapping[tuple[str, str], bool] = field(default_factory=dict)
    used_up: str = ""  # the kernel's limit (see kernel_limits) that is used up; empty if none is, or that is not known
    online_cpus: str = ""  # as Linux lists them, such as ``0-3``; empty if that could not be read
    # content of /proc/meminfo by name, in bytes; empty if that could not be read
    memory: Mapping[str, int] = field(default_factory=dict)
    # CPUs, memory and huge pages, by the name of the resource, in millicores and bytes; what is unknown is missing
    capacity: Mapping[str, int] = field(default_factory=dict)
    # memory and huge pages of each NUMA node, in bytes, likewise; empty if there are no such nodes
    numa: Mapping[int, Mapping[str, int]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Readiness:
    """The facts that the checks of a start judge."""

    current: KubeletVersion | None  # version of the running kubelet; None if unknown
    target: KubeletVersion
    layout: KubeletLayout  # its command line and configuration
    dry_run: str | None  # what the new kubelet prints in a dry run; None if none can run with its arguments
    units: tuple[UnitStatus, ...]  # the units of the kubelet and the runtime
    unchangeable: tuple[str, ...]  # paths that have to be changed but are immutable
    runtime: RuntimeInfo
    cgroup_driver: str | None  # the driver that created the cgroups of the running pods; None if unknown
    cgroup_v2: bool  # whether the node has the unified hierarchy
    state: Mapping[str, bytes]  # content of the kubelet's state files, by their path below its root directory
    read_only: tuple[str, ...] = ()  # directories that have to be written to but are mounted read-only
    mounted: tuple[str, ...] = ()  # files that have to be replaced but are mount points
    # why the run's own programs cannot be kept in any of the places for them, by place; empty if they can in one
    unfit_for_programs: Mapping[str, str] = field(default_factory=dict)
    volatile: tuple[str, ...] = ()  # directories that a boot empties, and without which a run cannot be ended after it
    host: StartingHost = StartingHost()  # what a starting kubelet reads of its host
    taken: tuple[TakenPort, ...] = ()  # ports that a starting kubelet would not get
    down_budget: timedelta = timedelta()  # how long the node may be without a kubelet


SAID = 300
"""Characters of what a kubelet says that are quoted."""
ABOUT_GATES = ("unrecognized feature gate", "cannot set feature gate")


@check(Reason.KUBELET_WOULD_NOT_START, Hazard.GATE_REJECTED)
def feature_gates_are_known(facts: Readiness) -> Iterator[Found]:
    """The new kubelet accepts every feature gate that is set.

    Its own program is asked: it exits at once on a gate that was removed, or that is locked to the other value.
    """
    if (said := _about_gates(facts)) is not None:
        yield (
            f"kubelet {facts.target} does not start with the node's feature gates: {said}; "
            "remove the gate from the kubelet's configuration first"
        )


@check(
    Reason.KUBELET_WOULD_NOT_START,
    Hazard.CONFIGURATION_REJECTED,
    Hazard.NODE_LABEL_REJECTED,
    Hazard.RUNTIME_ENDPOINT_UNSET,
)
def configuration_is_accepted(facts: Readiness) -> Iterator[Found]:
    """The new kubelet decodes and validates the configuration, drop-ins and flags that it would be started with.

    Its own program is run with copies of them where it can touch nothing, up to the end of its validation.
    """
    output = facts.dry_run
    if output is not None and not accepted(output) and _about_gates(facts) is None:
        yield (
            f"kubelet {facts.target} does not accept its configuration in a dry run: "
            f"{shorten(objection(output), SAID)}; correct that in its configuration file or flags first"
        )


@check(Reason.KUBELET_PORT_TAKEN, acceptable=False)
def ports_are_free(facts: Readiness) -> Iterator[Found]:
    """No other process listens at a port that the new kubelet serves on; the running kubelet's own are free then."""
    yield from map(str, facts.taken)


@check(Reason.SETTING_IGNORED)
def settings_are_known(facts: Readiness) -> Iterator[Found]:
    """The new kubelet knows every field of its configuration file; it ignores those that it does not know."""
    fields = unknown_fields(facts.dry_run or "")
    if fields:
        detail = f"kubelet {facts.target} ignores these unknown fields of its configuration: {', '.join(fields)}"
        yield shorten(detail, SAID)


def _about_gates(facts: Readiness) -> str | None:
    if facts.dry_run is None or accepted(facts.dry_run):
        return None
    said = objection(facts.dry_run)
    return next((shorten(said[said.index(sign) :], SAID) for sign in ABOUT_GATES if sign in said), None)


@check(
    Reason.KUBELET_WOULD_NOT_START,
    Hazard.CLOUD_PROVIDER_REMOVED,
    history.AWS_CLOUD_REMOVED,
    history.CLOUDS_OFF,
    history.CLOUDS_REMOVED,
)
def cloud_provider_is_there(facts: Readiness) -> Iterator[Found]:
    """The new kubelet still has the cloud provider that it would be started with."""
    provider = facts.layout.settings.flag("cloud-provider") or ""
    if provider in {"", "external"}:
        return
    removed = [history.CLOUDS_REMOVED]
    if facts.layout.gates.get("DisableCloudProviders", True):
        removed.append(history.CLOUDS_OFF)
    if provider == "aws":
        removed.append(history.AWS_CLOUD_REMOVED)
    if change := next((each for each in removed if each.applies_to(facts.target)), None):
        yield (
            f"kubelet {facts.target} does not start with --cloud-provider={provider}, which is no longer built in "
            f"({change.reference}); move the cluster to an external cloud provider first"
        )
