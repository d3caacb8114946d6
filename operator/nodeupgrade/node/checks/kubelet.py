"""Checks of the running kubelet and of the program that replaces it."""

from collections.abc import Callable, Iterator, Mapping

from nodeupgrade.api.limits import shorten
from nodeupgrade.api.reasons import Reason
from nodeupgrade.api.wording import counted
from nodeupgrade.cluster.pods import Pod, Role
from nodeupgrade.findings.check import Found, check
from nodeupgrade.findings.finding import Finding, named
from nodeupgrade.findings.hazards import Hazard
from nodeupgrade.kubelet import history, known_defects
from nodeupgrade.kubelet.built_in_runtime import BUILT_IN_RUNTIME_REMOVED, built_in_runtime_objection
from nodeupgrade.kubelet.flags import complaint
from nodeupgrade.kubelet.known_defects import Concern, KnownDefect
from nodeupgrade.kubelethash import UnsupportedKubelet, era_of
from nodeupgrade.node.checks.facts import NodeFacts
from nodeupgrade.node.checks.resource_managers import is_guaranteed
from nodeupgrade.node.checks.runtime import is_as_expected
from nodeupgrade.node.checks.volumes import claims_of
from nodeupgrade.node.host.files.files import LARGEST_KUBELET
from nodeupgrade.text import trimmed

FREE_BYTES = 64 * 1024 * 1024
PROGRAM_STORED = "the kubelet binary is stored"


@check(Reason.UNSUPPORTED_SERVICE_MANAGER, Hazard.KUBELET_NOT_A_SERVICE, acceptable=False)
def kubelet_is_managed(facts: NodeFacts) -> Iterator[Found]:
    """The kubelet runs as a systemd service that a file defines, and its program file is still in place."""
    unit = facts.kubelet.unit
    if unit.load_state != "loaded" or not unit.running:
        yield f"unit {unit.name} is {unit.load_state} and {unit.active_state}; the kubelet must run as this unit"
    elif unit.transient:
        yield (
            f"unit {unit.name} is transient, as systemd-run creates it: systemd may forget it once it is stopped, so "
            "that the kubelet could not be started again; write a unit file, and run the kubelet as that unit first"
        )
    elif facts.kubelet.program is None:
        yield "the program of the running kubelet was deleted or replaced on disk; restart the kubelet first"
    elif facts.current is None:
        yield f"{facts.kubelet.program} does not report its version"


@check(
    Reason.UNSUPPORTED_VERSION,
    Reason.ALREADY_AT_TARGET,
    Reason.DOWNGRADE_NOT_ALLOWED,
    Hazard.PAIR_UNKNOWN,
    acceptable=False,
)
def versions_are_known(facts: NodeFacts) -> Iterator[Found]:
    """Both kubelet versions are supported, and the target is newer, or older where ``allowDowngrade`` permits it."""
    current = facts.current
    for version in (current, facts.target):
        try:
            if version is not None:
                era_of(version)
        except UnsupportedKubelet as error:
            yield str(error)
    if current is None:
        return
    if current == facts.target:
        yield Finding(reason=Reason.ALREADY_AT_TARGET, detail=f"the kubelet is already {current}")
    elif facts.target < current and not facts.spec.allow_downgrade:
        detail = f"{facts.target} is older than the node's {current}; set allowDowngrade: true if that is intended"
        yield Finding(reason=Reason.DOWNGRADE_NOT_ALLOWED, detail=detail)


@check(
    Reason.UNSUPPORTED_RUNTIME,
    Hazard.RUNTIME_API_TOO_OLD,
    history.CRI_V1,
    history.CRI_V1_REQUIRED,
    history.RUNTIME_CONFIG_REQUIRED,
    BUILT_IN_RUNTIME_REMOVED,
    acceptable=False,
)
def runtime_is_understood(facts: NodeFacts) -> Iterator[Found]:
    """The new kubelet can talk to the runtime: by itself where the old one does, or by a CRI that both know."""
    runtime = facts.runtime
    if facts.readiness.layout.built_in:
        if objection := built_in_runtime_objection(facts.target):
            yield objection
    elif not is_as_expected(facts):
        return
    elif history.CRI_V1_REQUIRED.applies_to(facts.target) and "v1" not in runtime.cri_versions:
        yield f"kubelet {facts.target} needs CRI v1, which {runtime.name} {runtime.version} does not serve; upgrade it"
    elif not history.CRI_V1.applies_to(facts.target) and "v1alpha2" not in runtime.cri_versions:
        yield (
            f"kubelet {facts.target} needs CRI v1alpha2, which {runtime.name} {runtime.version} does not serve; choose "
            f"{history.CRI_V1.since} or later"
        )
    elif history.RUNTIME_CONFIG_REQUIRED.applies_to(facts.target) and runtime.cgroup_driver is None:
        yield (
            f"kubelet {facts.target} needs a runtime that reports its cgroup driver (RuntimeConfig, "
            f"{history.RUNTIME_CONFIG_REQUIRED.reference}); upgrade {runtime.name} {runtime.version} first"
        )


@check(
    Reason.ARTIFACT_UNAVAILABLE,
    Reason.DIGEST_MISMATCH,
    Reason.INSUFFICIENT_SPACE,
    Reason.WRONG_VERSION_REPORTED,
    Reason.KUBELET_FLAGS_REJECTED,
    Hazard.PROGRAM_WRONG,
    Hazard.FLAG_REJECTED,
    acceptable=False,
)
def program_is_as_promised(facts: NodeFacts) -> Iterator[Found]:
    """The new program is a binary with the specified digest, runs here, reports the target and accepts the flags."""
    kubelet, promised = facts.kubelet, facts.spec.artifact.sha256
    if kubelet.missing is not None:
        yield kubelet.missing
    elif promised and kubelet.after != promised:
        detail = f"the staged kubelet has SHA-256 {kubelet.after}, the NodeUpgrade specifies {promised}"
        yield Finding(reason=Reason.DIGEST_MISMATCH, detail=detail)
    elif kubelet.staged_version != str(facts.target):
        said = (
            kubelet.staged_version or f"nothing usable ({shorten(trimmed(kubelet.staged_output), 120) or 'no output'})"
        )
        detail = f"the staged kubelet reports {said} as its version, not {facts.target}"
        yield Finding(reason=Reason.WRONG_VERSION_REPORTED, detail=detail)
    elif not kubelet.staged_is_elf:
        detail = "the staged kubelet is a script: what it would start cannot be verified"
        remedy = "point spec.artifact at the kubelet binary itself"
        yield Finding(reason=Reason.ARTIFACT_UNAVAILABLE, detail=detail, remedy=remedy)
    elif kubelet.arguments_status != 0:
        detail = (
            f"kubelet {facts.target} does not accept the node's command line: "
            f"{shorten(complaint(kubelet.arguments_output), 160)}; "
            "change the flags on the node, list them in spec.kubelet.removeFlags, or set flagPolicy: Strip"
        )
        yield Finding(reason=Reason.KUBELET_FLAGS_REJECTED, detail=detail)


@check(
    Reason.KUBELET_BINARY_NOT_REPLACEABLE,
    Hazard.PROGRAM_SHARED,
    remedy="have the node start a kubelet on a filesystem of its own",
)
def program_is_of_this_node(facts: NodeFacts) -> Iterator[Found]:
    """The kubelet's program is not on another machine's filesystem, where other nodes may start the same file.

    Their next kubelet would be the new one, on hashes that nobody has rewritten. Accept this check if no other does.
    """
    if facts.around.remote_program:
        yield (
            f"{facts.kubelet.program} is on another machine's filesystem ({facts.around.remote_program}): other nodes "
            "that start it would get the new kubelet as well, and lose their containers"
        )


@check(Reason.KUBELET_FLAGS_REJECTED, Hazard.FLAG_REJECTED, acceptable=False)
def arguments_can_be_changed(facts: NodeFacts) -> Iterator[Found]:
    """Where flags have to be removed or added, the unit starts the kubelet directly, so that a drop-in can do it.

    A link to the kubelet is the kubelet.
    """
    kubelet = facts.kubelet
    if kubelet.started is not None and kubelet.started == kubelet.program:
        return
    for flags, done, do in (
        (kubelet.arguments.removed, "removed", "remove them where that program takes them from"),
        (kubelet.arguments.added, "added", "add them where that program takes its flags from"),
    ):
        if flags:
            yield (
                f"{', '.join(flags)} must be {done} for {facts.target}, but unit {kubelet.unit.name} starts "
                f"{kubelet.unit.program or '?'}, not {kubelet.program}; {do}"
            )


def no_room_to_fetch(free: int, where: str) -> str | None:
    """Return why a kubelet of unknown size is not fetched to a filesystem with so many free bytes.

    It could fill the filesystem, which would get other pods evicted.
    """
    if free >= LARGEST_KUBELET:
        return None
    return (
        f"only {free // 1024**2} MiB are free where {where}; {LARGEST_KUBELET // 1024**2} MiB are needed to fetch "
        "a kubelet"
    )


@check(Reason.INSUFFICIENT_SPACE, Hazard.DISK_FULL, acceptable=False)
def there_is_space(facts: NodeFacts) -> Iterator[Found]:
    """The new kubelet can be staged, and with all that the run stores, there is still some space left."""
    if (now := facts.kubelet.unstaged_free_bytes) is not None and (why := no_room_to_fetch(now, PROGRAM_STORED)):
        yield why
        return
    for what, free in (
        (PROGRAM_STORED, facts.kubelet.free_bytes),
        ("a run stores its journal, programs and files", facts.state_free_bytes),
    ):
        if free < FREE_BYTES:
            yield f"only {free // 1024**2} MiB are free where {what}; {FREE_BYTES // 1024**2} MiB are needed"


@check(Reason.UNSUPPORTED_SERVICE_MANAGER, acceptable=False)
def health_can_be_asked(facts: NodeFacts) -> Iterator[Found]:
    """The kubelet serves its health endpoint, so that the health of the new one can be determined."""
    if facts.readiness.layout.healthz_url is None:
        yield "the kubelet's healthz port is switched off, so the health of the new kubelet could not be checked"


_FORBIDDING = tuple(defect for defect in known_defects.KNOWN_BAD.values() if not defect.only_warns)
_WARNING = tuple(defect for defect in known_defects.KNOWN_BAD.values() if defect.only_warns)


@check(Reason.KUBELET_DEFECT, Hazard.RELEASE_DEFECT, *_FORBIDDING)
def release_harms_no_pod(facts: NodeFacts) -> Iterator[Found]:
    """The target release has no known defect that costs this node a container or its kubelet."""
    yield from _found(facts, _FORBIDDING)


@check(Reason.KUBELET_DEFECT, Hazard.RELEASE_DEFECT, *_WARNING, warns=True)
def release_has_no_known_flaw(facts: NodeFacts) -> Iterator[Found]:
    """The target release has no known defect that shows on this node but costs no container."""
    yield from _found(facts, _WARNING)


def _found(facts: NodeFacts, defects: tuple[KnownDefect, ...]) -> Iterator[str]:
    for defect in defects:
        if defect.affects(facts.target) and (concerned := _CONCERNED[defect.concern](facts)) is not None:
            fixed = defect.fixed_after(facts.target)
            until = f", fixed in {fixed}" if fixed else ""
            detail = f"kubelet {facts.target} has a known defect ({defect.reference}{until}): {defect.what[0].lower()}"
            yield f"{detail}{defect.what[1:].removesuffix('.')}{concerned}"


def _pinned(facts: NodeFacts) -> str | None:
    if not (facts.settings.pins_cpus or facts.settings.pins_memory):
        return None
    lasting = {Role.REGULAR, Role.SIDECAR}
    several = (pod for pod in facts.running_pods() if sum(each.role in lasting for each in pod.containers) > 1)
    return _listed([pod for pod in several if is_guaranteed(facts.admission, pod)])


def _on_zfs(facts: NodeFacts) -> str | None:
    return f"; {facts.readiness.layout.root} is on it" if facts.around.filesystem == "zfs" else None


_CONCERNED: Mapping[Concern, Callable[[NodeFacts], str | None]] = {
    Concern.EVERY_NODE: lambda _: "",
    Concern.ENDED_PODS: lambda facts: _listed([pod for pod in facts.pods if pod.finished]),
    Concern.PINNED_PODS: _pinned,
    Concern.CLAIMED_VOLUMES: lambda facts: _listed([pod for pod in facts.running_pods() if any(claims_of(pod))]),
    Concern.ROOT_ON_ZFS: _on_zfs,
}
"""For each concern: the end of the message if the node has it, else ``None``."""


def _listed(pods: list[Pod]) -> str | None:
    return f"; it concerns {counted(len(pods), 'pod')}: {named([str(pod.ref) for pod in pods])}" if pods else None


OUTSIDE = frozenset({"", "external"})
"""Cloud providers with which a kubelet names its node after the host."""


@check(
    Reason.CONFIGURATION_DRIFT,
    Hazard.NODE_IDENTITY_CHANGES,
    remedy="give the host its former name, or set --hostname-override",
)
def kubelet_keeps_its_name(facts: NodeFacts) -> Iterator[Found]:
    """The kubelet would register under the Node's name, which it takes from --hostname-override or from the host.

    Under another name it would find no pod of its own, and kill all that run.
    """
    name, registered = facts.settings.hostname(facts.around.hostname), (facts.node.get("metadata") or {}).get("name")
    if (facts.settings.flag("cloud-provider") or "") not in OUTSIDE or not name or name == registered:
        return
    source = "--hostname-override" if facts.settings.flag("hostname-override") else "the host"
    yield f"the kubelet would register as {name}, the name that {source} gives it now, but its Node is {registered}"
