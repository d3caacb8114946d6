"""Examine a node: from its facts to the complete plan of its run, or to the findings that forbid one."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace

from nodeupgrade.api.json import timestamp
from nodeupgrade.api.reasons import Reason
from nodeupgrade.api.run_settings import ShieldPolicy, StaticPodPolicy
from nodeupgrade.api.task.status import HashCensus
from nodeupgrade.api.values import PodUid
from nodeupgrade.cluster.agent_pods import agents_of
from nodeupgrade.cluster.owner_changes import Planned, StaticSource, specs_of
from nodeupgrade.cluster.pod_owner import with_owners
from nodeupgrade.cluster.pods import Pod
from nodeupgrade.findings.finding import Finding
from nodeupgrade.kubelet.flags import drop_in
from nodeupgrade.kubelet.layout import KubeletLayout, path_of
from nodeupgrade.kubelet.served_ports import served_ports
from nodeupgrade.kubelet.state_files.formats import read_by
from nodeupgrade.kubelethash import KubeletVersion, UnsupportedKubelet
from nodeupgrade.kubelethash.changes import NAME_AND_IMAGE_HASHED
from nodeupgrade.node.checks import registry
from nodeupgrade.node.checks.facts import NodeFacts
from nodeupgrade.node.checks.hashes import Proof
from nodeupgrade.node.checks.other_tools import holds_package
from nodeupgrade.node.checks.pods import evicted_without_a_mark
from nodeupgrade.node.checks.resource_managers import devices, devices_are_kept
from nodeupgrade.node.host.pod_cgroups import ExpectedCgroups
from nodeupgrade.node.host.systemd.drop_ins import last_drop_in
from nodeupgrade.node.names_beside import backup_path, staged_path
from nodeupgrade.node.plan.derived_uids import OwnUid, is_computed_again, render_gates
from nodeupgrade.node.plan.exchanged_files import changes_of
from nodeupgrade.node.plan.hash_rewriting import Rewriting, plan_rewriting
from nodeupgrade.node.plan.manifest_uid import digests_of
from nodeupgrade.node.plan.plan import (
    PLAN_SCHEMA,
    ArgumentsOverride,
    ExchangedFile,
    KubeletSwap,
    RunPlan,
    ShieldPlan,
    StopHook,
)
from nodeupgrade.node.plan.request import RunRequest
from nodeupgrade.node.plan.static_pod_uids import (
    Pins,
    StaticPod,
    StaticPods,
    edited_since,
    manifest_views,
    match,
    plan_pins,
    plan_recreation,
)
from nodeupgrade.node.run.report import census
from nodeupgrade.node.verification.ended_pods import completing
from nodeupgrade.text import integer

GRACE_MORE = 5
"""Seconds that a call may take beyond a pod's grace period."""
SERVES_ON_LEAST, SERVES_ON_MOST = 60, 3600
_PROGRAM_VANISHED = Finding(
    reason=Reason.ARTIFACT_UNAVAILABLE,
    detail="a kubelet program disappeared from the node during its examination; find out what removes it",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Examination:
    """The result of examining a node."""

    request: RunRequest
    facts: NodeFacts  # as gathered, with static pods taken from their manifests
    static: StaticPods  # the static pods
    rewriting: Rewriting  # the hashes that would be written; empty if one of the versions is not supported
    pins: Pins  # what would be done about the UIDs in manifests
    agents: frozenset[PodUid]  # the pods of this run's agent, which exist only for the run
    refusals: tuple[Finding, ...]  # the findings that forbid the run
    layout: KubeletLayout  # the running kubelet's
    accepted: tuple[Finding, ...] = ()  # the findings that would, had the NodeUpgrade not accepted their checks
    plan: RunPlan | None = None  # the complete plan; None exactly if something forbids the run
    to_target: tuple[Pod, ...] = ()  # static pods as the new kubelet reads their manifests

    @property
    def warnings(self) -> tuple[Finding, ...]:
        """Return the findings that only warn; first those that were accepted."""
        return (*self.accepted, *registry.warnings(self.facts))

    @property
    def findings(self) -> tuple[Finding, ...]:
        """Return all findings about the node, refusals first."""
        return (*self.refusals, *self.warnings)

    @property
    def census(self) -> HashCensus:
        """Return how many running containers carry which kubelet's hash; those of the agent do not count."""
        found = ((c.pod.uid, c.written_by) for c in self.rewriting.containers if c.written_by is not None)
        unproven = ((each.pod, each.written_by) for each in self.rewriting.unproven)
        return census((kubelet for pod, kubelet in (*found, *unproven) if pod not in self.agents), self.facts.now)


def examine(
    request: RunRequest, facts: NodeFacts, layout: KubeletLayout, manifests: Mapping[str, bytes]
) -> Examination:
    """Run every check, prove every hash, and plan the run if nothing forbids it."""
    static = match(manifests, facts.inventory, request.spec.node_name)
    from_manifests, unread = manifest_views(static, in_place_resize=layout.resizes_in_place)
    to_target, _ = manifest_views(static, in_place_resize=facts.readiness.layout.resizes_in_place)
    facts = replace(
        facts,
        pods=prefer_manifests(facts.pods, from_manifests),
        edited=edited_since(static, _known_of(facts)),
    )
    rewriting = _rewriting(facts, to_target)
    pins, unpinned = plan_uids(facts, static, layout)
    restarts = any(container.changes for container in rewriting.containers)
    facts = replace(facts, recreated=pins.recreated, restarts_runtime=restarts)
    agents = agents_of(request.run_id, request.namespace, facts.pods)
    proof = Proof(node=facts, rewriting=rewriting, unread=unread, unpinned=unpinned, agents=agents)
    found = with_owners(registry.refusals(facts, proof), facts.pods)
    examination = Examination(
        request=request,
        facts=facts,
        static=static,
        rewriting=rewriting,
        pins=pins,
        agents=agents,
        refusals=tuple(finding for finding in found if finding.forbids),
        accepted=tuple(finding for finding in found if not finding.forbids),
        layout=layout,
        to_target=to_target,
    )
    if examination.refusals:
        return examination
    plan = _plan(examination)
    return replace(examination, plan=plan, refusals=() if plan is not None else (_PROGRAM_VANISHED,))


def plan_uids(facts: NodeFacts, static: StaticPods, layout: KubeletLayout) -> tuple[Pins, tuple[Finding, ...]]:
    """Return what is done about the UIDs in manifests, and what forbids it.

    Without another minor version or other feature gates no UID changes, so nothing needs to be added.
    """
    current, gates, known = facts.current, facts.gates, _known_of(facts)
    moves = current is not None and (current.minor != facts.target.minor or layout.gates != gates)
    if facts.spec.kubelet.static_pods is StaticPodPolicy.RECREATE:
        return plan_recreation(static, moves=moves), static.findings if moves else ()

    def is_needless(pod: StaticPod, without: bytes) -> bool:
        # If the record were wrong, the shield would still keep the pod.
        own = known(pod) if _is_shielded(facts) else None
        return own is not None and is_computed_again(own, without, facts.target, gates)

    pins = plan_pins(static, is_needless)
    if not moves:
        return replace(pins, pins=tuple(pin for pin in pins.pins if pin.removes), findings=()), ()
    return pins, (*static.findings, *pins.findings)


def _known_of(facts: NodeFacts) -> Callable[[StaticPod], OwnUid | None]:
    return lambda pod: facts.own_uids.of(pod.path, pod.sandbox.pod.uid, facts.spec.node_name)


def _rewriting(facts: NodeFacts, to_target: tuple[Pod, ...]) -> Rewriting:
    current = facts.current
    if current is not None:
        with suppress(UnsupportedKubelet):  # reported by the preflight
            found = plan_rewriting(
                facts.pods,
                facts.inventory,
                current=current,
                target=facts.target,
                also_accepted=map(KubeletVersion.parse, facts.spec.hash_also_accepted),
                to_target=to_target,
                heeding=facts.heeding,
            )
            return with_facts(found, facts)
    return Rewriting(containers=(), findings=())


def with_facts(rewriting: Rewriting, facts: NodeFacts) -> Rewriting:
    """Return the planned containers with what their pods do not say: what they use of the runtime's sockets."""
    clients, rejects = facts.clients, bool(facts.spec.kubelet.also_rejects)
    names = frozenset() if devices_are_kept.name in facts.spec.preflight.accept else devices(facts.admission)
    holding = {(pod.ref, c.name) for pod in facts.pods for c in pod.containers if names & c.resources.keys()}
    containers = (
        replace(
            each,
            sockets=clients.mounted.get(each.id, ()),
            connected=each.id in clients.connected,
            start_matters=each.start_matters or rejects,
            has_devices=(each.pod, each.name) in holding,
        )
        for each in rewriting.containers
    )
    return replace(rewriting, containers=tuple(containers))


def _plan(examination: Examination) -> RunPlan | None:
    """Assemble the plan; ``None`` if a kubelet program vanished meanwhile."""
    request, facts, layout = examination.request, examination.facts, examination.layout
    kubelet, current = facts.kubelet, facts.current
    if current is None or kubelet.program is None or kubelet.before is None or kubelet.after is None:
        return None
    recreated = tuple(pod.uid for pod in examination.pins.recreated)
    return RunPlan(
        schema=PLAN_SCHEMA,
        run_id=request.run_id,
        node=request.spec.node_name,
        upgrade=request.spec.upgrade_ref.name,
        from_version=str(current),
        to_version=str(facts.target),
        runtime=f"{facts.runtime.name} {facts.runtime.version}",
        runtime_unit=facts.runtime_unit.name,
        runtime_endpoint=layout.endpoint,
        healthz_url=layout.healthz_url or "",
        swap=KubeletSwap(
            unit=kubelet.unit.name,
            path=kubelet.program,
            staged=request.staged,
            backup=request.backup,
            before=kubelet.before,
            after=kubelet.after,
            arguments=_override(facts),
        ),
        containers=tuple(
            replace(c, expendable=c.pod.uid in examination.agents.union(recreated))
            for c in examination.rewriting.containers
        ),
        awaited=examination.rewriting.awaited,
        baseline=facts.inventory,
        pins=examination.pins.pins,
        recreated=recreated,
        pinned=examination.pins.kept,
        own_uids=facts.own_uids,
        gates=render_gates(layout.gates),
        state_files=tuple(str(path_of(name, layout.root)) for name in read_by(current, layout)),
        limits=request.limits,
        kubeconfig=layout.kubeconfig,
        boot=request.boot,
        cautions=examination.warnings,
        tuning=facts.tuning,
        kubelet_start=facts.kubelet_start,
        runtime_start=facts.runtime_start,
        runtime_root=None if facts.runtime.places is None else facts.runtime.places.root,
        shield=_shield(examination),
        exchanged=tuple(_exchanged(facts)),
        package=facts.around.package,
        holds_package=holds_package(facts),
        cgroups=ExpectedCgroups() if facts.around.cgroups is None else facts.around.cgroups.complete,
        completing=tuple(each for pod in facts.pods if (each := completing(pod)) is not None),
        owned=_owned(examination),
        ports=served_ports(facts.readiness.layout.settings),
        old_ports=served_ports(layout.settings),
        examined_at=timestamp(facts.now),
        examined=facts.at,
        logs=layout.logs,
    )


def _exchanged(facts: NodeFacts) -> Iterator[ExchangedFile]:
    if (files := facts.files) is None:
        return
    for each in changes_of(files.found):
        path = each.new.path
        yield ExchangedFile(
            path=path,
            staged=staged_path(path),
            backup=backup_path(path),
            before=each.before,
            after=each.new.digest,
            also=files.names.get(path, ()),
        )


def _shield(examination: Examination) -> ShieldPlan | None:
    facts = examination.facts
    if not _is_shielded(facts) or facts.socket.path is None:
        return None
    return ShieldPlan(
        socket=facts.socket.path,
        required=facts.spec.verify.shield is ShieldPolicy.REQUIRE,
        serves_on=_longest_grace(facts),
        steps_aside=facts.socket.kind.needs_free_path,
        hooks=tuple(
            StopHook(container=instance.id, command=command)
            for instance, _, container in facts.running_containers()
            if (command := container.stop_command)
        ),
    )


def _is_shielded(facts: NodeFacts) -> bool:
    socket = facts.socket
    return facts.spec.verify.shield is not ShieldPolicy.OFF and not socket.obstacle and socket.path is not None


def _longest_grace(facts: NodeFacts) -> float:
    graces = (pod.spec.get("terminationGracePeriodSeconds") for pod in facts.pods)
    longest = max((30 if grace is None else integer(grace) for grace in graces), default=0)
    return min(max(longest + GRACE_MORE, SERVES_ON_LEAST), SERVES_ON_MOST)


def _owned(examination: Examination) -> Planned:
    sources = static_sources(examination.static, examination.pins)
    return owned_by(examination.facts, sources)


def owned_by(facts: NodeFacts, sources: Iterable[StaticSource]) -> Planned:
    """Return what the owners of pods want now."""
    containers, evicted = specs_of(facts.pods), evicted_without_a_mark(facts)
    by_name = facts.current is not None and all(map(NAME_AND_IMAGE_HASHED.applies_to, (facts.current, facts.target)))
    return Planned(
        containers=containers,
        manifests=tuple(sources),
        may_be_evicted=tuple(evicted),
        resizes_restart=not by_name,
        resizes_reject=not (facts.admission.as_allocated and facts.way_back.as_allocated),
    )


def static_sources(static: StaticPods, pins: Pins) -> Iterator[StaticSource]:
    """Yield the manifests of static pods, with what they may be during the run."""
    pinned = {pin.path: pin.content for pin in pins.pins}
    for pod in static.pods:
        contents = (pod.data, *((pinned[pod.path],) if pod.path in pinned else ()))
        digests = dict.fromkeys(digest for content in contents for digest in digests_of(content))
        yield StaticSource(pod=pod.sandbox.pod.uid, path=pod.path, digests=tuple(digests))


def _override(facts: NodeFacts) -> ArgumentsOverride | None:
    kubelet = facts.kubelet
    if not kubelet.arguments.changed or kubelet.program is None:
        return None
    return ArgumentsOverride(
        path=f"/etc/systemd/system/{kubelet.unit.name}.d/{last_drop_in(kubelet.unit)}",
        content=drop_in(kubelet.unit.program, kubelet.arguments.words),  # the same name of it, should that be a link
    )


def prefer_manifests(served: tuple[Pod, ...], from_manifests: tuple[Pod, ...]) -> tuple[Pod, ...]:
    """Return the pods of the API server, with mirror pods replaced by what their manifests say."""
    from_files = {pod.ref for pod in from_manifests}
    return (*(pod for pod in served if pod.ref not in from_files), *from_manifests)
