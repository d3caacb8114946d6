"""May this node be touched? A chain of named checks over what was gathered on the node.

Each check yields what speaks against it. Nothing is changed before all of them are silent.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import TypeAlias

from nodeupgrade.domain.node.arguments import Arguments, complaint
from nodeupgrade.domain.node.host import RuntimeInfo, UnitStatus
from nodeupgrade.domain.node.inventory import Inventory, StoredHashes
from nodeupgrade.domain.node.pods import Json, NodePod
from nodeupgrade.domain.node.readiness import Readiness, unready
from nodeupgrade.domain.node.shim_limit import AS_CONFIGURED, ShimLimit
from nodeupgrade.domain.node.traffic import Traffic, objections
from nodeupgrade.domain.reasons import Reason
from nodeupgrade.domain.values import ContainerId, Digest
from nodeupgrade.domain.violations import Violation
from nodeupgrade.kubelethash import KubeletVersion, UnreadablePod, UnsupportedKubelet, era_of, qos_class

SUPPORTED_RUNTIME = "containerd"
CRI_V1_ONLY_FROM_MINOR = 26
RESIZE_FROM_MINOR = 33
FREE_BYTES = 64 * 1024 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class KubeletFacts:
    """The kubelet that runs now, and the program that shall replace it.

    Attributes:
        program: real path of the running program; ``None`` if its file was deleted or replaced since.
        words: its arguments, without the program.
        current: version of the running program.
        before: digest of the program on disk.
        arguments: the command line for the new program.
        missing: why the new program cannot be had; nothing else is known of it then.
        staged_version: what the new program says it is; empty if it could not be run.
        staged_output: what it printed.
        after: digest of the new program.
        arguments_status: exit status of the new program when it parsed them.
        arguments_output: what it printed then.
        free_bytes: free space on the filesystem of the program with the new one beside it.
    """

    unit: UnitStatus
    program: str | None
    words: tuple[str, ...]
    current: KubeletVersion | None
    before: Digest | None
    arguments: Arguments
    free_bytes: int
    missing: Violation | None = None
    staged_version: str = ""
    staged_output: str = ""
    after: Digest | None = None
    arguments_status: int = 0
    arguments_output: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeFacts:
    """Everything the checks look at, gathered in one go.

    Attributes:
        promised: digest that the NodeUpgrade promises; ``None`` where an image's digest stands for it.
        readiness: what the start of the new kubelet and the restart of the runtime depend on.
        stored: hashes as they are stored, where ``inventory`` has them as the runtime serves them.
        traffic: what clients of the pods depend on.
        shims: how long they would get to answer the restarted runtime.
    """

    node: Json
    pods: tuple[NodePod, ...]
    target: KubeletVersion
    allow_downgrade: bool
    promised: Digest | None
    kubelet: KubeletFacts
    runtime: RuntimeInfo
    runtime_unit: UnitStatus
    inventory: Inventory
    stored: Mapping[ContainerId, StoredHashes]
    state_free_bytes: int
    readiness: Readiness
    traffic: Traffic
    shims: ShimLimit = AS_CONFIGURED


Check: TypeAlias = Callable[[NodeFacts], Iterator[Violation]]


def preflight(facts: NodeFacts, *more: Check) -> tuple[Violation, ...]:
    """Run every check; an empty answer permits the upgrade."""
    return tuple(violation for check in (*CHECKS, *more) for violation in check(facts))


def kubelet_is_managed(facts: NodeFacts) -> Iterator[Violation]:
    """The kubelet runs as a systemd service of its own program file."""
    unit = facts.kubelet.unit
    if unit.load_state != "loaded" or not unit.running:
        detail = f"unit {unit.name} is {unit.load_state} and {unit.active_state}; the kubelet must run as this unit"
        yield Violation(reason=Reason.UNSUPPORTED_SERVICE_MANAGER, detail=detail)
    elif facts.kubelet.program is None:
        detail = "the program of the running kubelet was deleted or replaced on disk; restart the kubelet first"
        yield Violation(reason=Reason.UNSUPPORTED_SERVICE_MANAGER, detail=detail)
    elif facts.kubelet.current is None:
        detail = f"{facts.kubelet.program} does not say which kubelet version it is"
        yield Violation(reason=Reason.UNSUPPORTED_SERVICE_MANAGER, detail=detail)


def versions_are_known(facts: NodeFacts) -> Iterator[Violation]:
    """Both versions' hashes are known, and the step is one that was asked for."""
    current = facts.kubelet.current
    for version in (current, facts.target):
        try:
            if version is not None:
                era_of(version)
        except UnsupportedKubelet as error:
            yield Violation(reason=Reason.UNSUPPORTED_VERSION, detail=str(error))
    if current is None:
        return
    if current == facts.target:
        yield Violation(reason=Reason.ALREADY_AT_TARGET, detail=f"the kubelet is {current} already")
    elif facts.target < current and not facts.allow_downgrade:
        detail = f"{facts.target} is older than the node's {current}; set allowDowngrade: true if that is meant"
        yield Violation(reason=Reason.DOWNGRADE_NOT_ALLOWED, detail=detail)


def program_is_as_promised(facts: NodeFacts) -> Iterator[Violation]:
    """The new program has the promised digest, runs here, and is the version it should be."""
    kubelet = facts.kubelet
    if kubelet.missing is not None:
        yield kubelet.missing
    elif facts.promised is not None and kubelet.after != facts.promised:
        detail = f"the staged kubelet has SHA-256 {kubelet.after}, the NodeUpgrade promises {facts.promised}"
        yield Violation(reason=Reason.DIGEST_MISMATCH, detail=detail)
    elif kubelet.staged_version != str(facts.target):
        said = kubelet.staged_version or f"nothing usable ({kubelet.staged_output.strip()[:120] or 'no output'})"
        detail = f"asked for its version, the staged kubelet says {said}, not {facts.target}"
        yield Violation(reason=Reason.WRONG_VERSION_REPORTED, detail=detail)
    elif kubelet.arguments_status != 0:
        detail = (
            f"kubelet {facts.target} does not accept the node's command line: "
            f"{complaint(kubelet.arguments_output)[:160]}; "
            "change the flags on the node, list them in spec.kubelet.removeFlags, or set flagPolicy: Strip"
        )
        yield Violation(reason=Reason.KUBELET_FLAGS_REJECTED, detail=detail)


def arguments_can_be_changed(facts: NodeFacts) -> Iterator[Violation]:
    """Where flags have to go, the unit starts the program directly, so that a drop-in can replace its line."""
    kubelet = facts.kubelet
    if kubelet.arguments.removed and kubelet.unit.program != kubelet.program:
        flags = ", ".join(kubelet.arguments.removed)
        detail = (
            f"{flags} must go for {facts.target}, but unit {kubelet.unit.name} starts {kubelet.unit.program or '?'} "
            f"rather than {kubelet.program}; remove them where that program takes them from"
        )
        yield Violation(reason=Reason.KUBELET_FLAGS_REJECTED, detail=detail)


def runtime_is_restartable(facts: NodeFacts) -> Iterator[Violation]:
    """The runtime is one whose stored hashes can be rewritten, and restarting it leaves containers alone."""
    runtime, unit = facts.runtime, facts.runtime_unit
    if runtime.name != SUPPORTED_RUNTIME:
        detail = f"the runtime is {runtime.name} {runtime.version}; only {SUPPORTED_RUNTIME} is supported"
        yield Violation(reason=Reason.UNSUPPORTED_RUNTIME, detail=detail)
        return
    if not unit.running:
        detail = f"{runtime.name} does not run as unit {unit.name} ({unit.load_state}, {unit.active_state})"
        yield Violation(reason=Reason.UNSUPPORTED_RUNTIME, detail=detail)
    elif unit.kill_mode not in {"process", "none"}:
        detail = (
            f"unit {unit.name} has KillMode={unit.kill_mode}, so restarting it would kill every container; "
            "set KillMode=process"
        )
        yield Violation(reason=Reason.UNSUPPORTED_RUNTIME, detail=detail)
    yield from _nothing_else_restarts(facts)
    if runtime.binary_version is not None and runtime.binary_version != runtime.version:
        detail = (
            f"{runtime.name} {runtime.version} runs, but {runtime.binary_version} is installed: a restart would be "
            "an upgrade of the runtime; restart it at a time of your choice first"
        )
        yield Violation(reason=Reason.UNSUPPORTED_RUNTIME, detail=detail)
    if facts.target.minor >= CRI_V1_ONLY_FROM_MINOR and "v1" not in runtime.cri_versions:
        detail = f"kubelet {facts.target} needs CRI v1, {runtime.name} {runtime.version} does not serve it"
        yield Violation(reason=Reason.UNSUPPORTED_RUNTIME, detail=detail)


def _nothing_else_restarts(facts: NodeFacts) -> Iterator[Violation]:
    others = [
        name for name in facts.runtime_unit.bound_by if name.endswith(".service") and name != facts.kubelet.unit.name
    ]
    if others:
        detail = (
            f"{', '.join(others)} would be restarted together with {facts.runtime_unit.name}; "
            "remove that dependency, or stop these services first"
        )
        yield Violation(reason=Reason.UNSUPPORTED_RUNTIME, detail=detail)


def stored_is_served(facts: NodeFacts) -> Iterator[Violation]:
    """What the runtime stores is what it serves, so that a restart of the runtime alone changes nothing."""
    for container in facts.inventory.running():
        stored = facts.stored.get(container.id)
        if stored != container.hashes:
            found = "nothing" if stored is None else stored.container or "no hash"
            detail = (
                f"the runtime serves hash {container.hashes.container} but stores {found}: somebody changed it, and "
                "the next restart of the runtime would bring it to light; delete the pod first"
            )
            yield Violation(reason=Reason.STORED_HASH_NOT_REPRODUCED, subject=container.label, detail=detail)


def sandboxes_are_sound(facts: NodeFacts) -> Iterator[Violation]:
    """Every pod with a running container has one ready sandbox with an address.

    Otherwise any kubelet start replaces the sandbox and all its containers (kubernetes ``PodSandboxChanged``).
    """
    alive = {container.sandbox_id for container in facts.inventory.running()}
    ready: dict[str, int] = {}
    newest: dict[str, int] = {}
    for sandbox in facts.inventory.sandboxes:
        newest[sandbox.pod.uid] = max(newest.get(sandbox.pod.uid, 0), sandbox.created_at)
        if sandbox.ready:
            ready[sandbox.pod.uid] = ready.get(sandbox.pod.uid, 0) + 1
    for sandbox in facts.inventory.sandboxes:
        if sandbox.id not in alive:
            continue
        if not sandbox.ready:
            problem = "its sandbox is not ready although containers run in it"
        elif ready[sandbox.pod.uid] > 1:
            problem = f"it has {ready[sandbox.pod.uid]} ready sandboxes"
        elif sandbox.created_at < newest[sandbox.pod.uid]:
            problem = "it has a newer sandbox, which is not ready"
        elif sandbox.ip == "" and not sandbox.host_network:
            problem = "its sandbox has no address"
        else:
            continue
        yield Violation(reason=Reason.POD_IN_TRANSITION, subject=str(sandbox.pod), detail=problem)


def runtime_holds_the_pods(facts: NodeFacts) -> Iterator[Violation]:
    """Every container that the API server shows running is one the runtime holds.

    Otherwise the kubelet uses another runtime than the one looked at, and what was proven says nothing about it.
    """
    held = {container.id for container in facts.inventory.containers}
    for pod in facts.pods:
        for name, container_id in () if pod.finished else pod.running:
            if container_id not in held:
                detail = (
                    f"the API server shows container {container_id[:12]} running, which {facts.runtime.name} does not "
                    "hold: it was just replaced, or the kubelet uses another runtime"
                )
                yield Violation(reason=Reason.POD_IN_TRANSITION, subject=f"{pod.ref}/{name}", detail=detail)


def pods_keep_their_cgroup(facts: NodeFacts) -> Iterator[Violation]:
    """The new kubelet looks for each pod where the old one put it.

    A kubelet kills a pod whose cgroup it does not find. From 1.16 init containers count for the QoS class
    (kubernetes #75223), which is part of the cgroup's path.
    """
    current = facts.kubelet.current
    if current is None:
        return
    for pod in _running_pods(facts):
        try:
            before, after = qos_class(pod.raw, current), qos_class(pod.raw, facts.target)
        except UnsupportedKubelet:  # versions_are_known has named it
            return
        except UnreadablePod as error:
            yield Violation(reason=Reason.POD_CGROUP_MOVES, subject=str(pod.ref), detail=str(error))
            continue
        if before != after:
            detail = (
                f"its QoS class is {before} for kubelet {current} and {after} for {facts.target}, "
                "so the new kubelet would not find its cgroup and kill it; delete the pod first"
            )
            yield Violation(reason=Reason.POD_CGROUP_MOVES, subject=str(pod.ref), detail=detail)


def nothing_is_resized(facts: NodeFacts) -> Iterator[Violation]:
    """No container has a restarting resize policy on the first step to a kubelet that acts on it.

    Kubelets from 1.33 (gate InPlacePodVerticalScaling on) compare resources with a record that older ones did
    not keep, and act by restarting where the policy says RestartContainer.
    """
    current = facts.kubelet.current
    if current is None or not current.minor < RESIZE_FROM_MINOR <= facts.target.minor:
        return
    for pod in _running_pods(facts):
        for container in pod.containers:
            policies = container.spec.get("resizePolicy") or ()
            resources = container.spec.get("resources") or {}
            restarting = any(policy.get("restartPolicy") == "RestartContainer" for policy in policies)
            if restarting and (resources.get("limits") or resources.get("requests")):
                detail = (
                    f"its resizePolicy says RestartContainer, so kubelet {facts.target} may restart it once; "
                    "delete the pod first, or change the policy in its template"
                )
                yield Violation(
                    reason=Reason.RESIZE_POLICY_RESTART, subject=f"{pod.ref}/{container.name}", detail=detail
                )


def there_is_space(facts: NodeFacts) -> Iterator[Violation]:
    """With the new program staged there is still room for the journal and for what the kubelet itself writes."""
    for what, free in (
        ("the kubelet's program lies", facts.kubelet.free_bytes),
        ("the journal is kept", facts.state_free_bytes),
    ):
        if free < FREE_BYTES:
            detail = f"only {free // 1024**2} MiB are free where {what}; {FREE_BYTES // 1024**2} MiB are needed"
            yield Violation(reason=Reason.INSUFFICIENT_SPACE, detail=detail)


def _running_pods(facts: NodeFacts) -> Iterator[NodePod]:
    running = {container.pod.uid for container in facts.inventory.running()}
    return (pod for pod in facts.pods if pod.ref.uid in running)


def node_is_ready(facts: NodeFacts) -> Iterator[Violation]:
    """The new kubelet would start, and the runtime would survive its restart: see domain.readiness."""
    if facts.runtime.name == SUPPORTED_RUNTIME:
        yield from unready(facts.readiness)


def clients_are_served(facts: NodeFacts) -> Iterator[Violation]:
    """No probe makes the new kubelet kill a container, and no Service loses its last endpoint: see domain.traffic."""
    yield from objections(facts.traffic)


CHECKS: tuple[Check, ...] = (
    kubelet_is_managed,
    versions_are_known,
    program_is_as_promised,
    arguments_can_be_changed,
    runtime_is_restartable,
    stored_is_served,
    runtime_holds_the_pods,
    sandboxes_are_sound,
    pods_keep_their_cgroup,
    nothing_is_resized,
    there_is_space,
    node_is_ready,
    clients_are_served,
)
