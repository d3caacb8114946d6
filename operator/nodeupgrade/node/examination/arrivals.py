"""Plan what came to the node after its examination: prove its hashes, and ask the checks about its pods.

A static pod that came keeps its UID like the others, by its manifest.
"""

from collections.abc import Iterable, Mapping
from dataclasses import replace

from nodeupgrade.api.values import PodUid
from nodeupgrade.cluster.pods import Pod
from nodeupgrade.findings.finding import PASSING, Finding
from nodeupgrade.kubelethash import KubeletVersion
from nodeupgrade.node.checks import registry
from nodeupgrade.node.checks.facts import NodeFacts
from nodeupgrade.node.checks.hashes import Proof
from nodeupgrade.node.checks.pod_lifecycle import hooks_are_over
from nodeupgrade.node.checks.probes import probes_let_containers_live
from nodeupgrade.node.checks.resource_managers import devices_are_kept
from nodeupgrade.node.examination.planning import (
    Examination,
    owned_by,
    plan_uids,
    prefer_manifests,
    static_sources,
    with_facts,
)
from nodeupgrade.node.plan.amendment import AMENDMENT_SCHEMA, Arrivals, PlannedArrivals
from nodeupgrade.node.plan.current_instances import as_they_run
from nodeupgrade.node.plan.hash_rewriting import Rewriting, plan_rewriting
from nodeupgrade.node.plan.mirror_pods import without_pretenders
from nodeupgrade.node.plan.plan import StopHook
from nodeupgrade.node.plan.static_pod_uids import manifest_views, match
from nodeupgrade.node.runtimes.inventory import Inventory
from nodeupgrade.node.verification.ended_pods import completing

_OF_STARTS = frozenset({devices_are_kept.name, hooks_are_over.name, probes_let_containers_live.name})
"""Checks that find containers whose start is not over."""


def plan_arrivals(
    examination: Examination, pods: Iterable[Pod], manifests: Mapping[str, bytes], asked: Arrivals
) -> PlannedArrivals:
    """Return the plan of the containers that the executor asks about, or why they cannot be taken in.

    What passes by itself is no obstacle: without a kubelet, the API server shows what was, not what is. A start that is
    not over is one: the run would interrupt it.

    Args:
        examination: with the facts since_examined().
        pods: as the API server shows them now.
        manifests: those of static pods now, by path.
        asked: the containers.

    Raises:
        UnsupportedKubelet: one of the two versions is not supported.
    """
    concerned = {c.pod for c in asked.inventory.containers}
    node_name = examination.request.spec.node_name
    seen = Inventory(sandboxes=(*examination.facts.inventory.sandboxes, *asked.inventory.sandboxes))
    pods = as_they_run(without_pretenders(pods, seen, manifests, node_name), asked.inventory)
    static = match(manifests, asked.inventory, node_name)
    views, unread = manifest_views(static, in_place_resize=examination.layout.resizes_in_place)
    gates_then = examination.facts.readiness.layout.resizes_in_place
    to_target, _ = manifest_views(static, in_place_resize=gates_then)
    known = {pod.ref: pod for pod in pods} | {p.ref: p for p in examination.facts.pods if p.from_manifest}
    unchanged = {pod.sandbox.pod for pod in examination.static.pods if manifests.get(pod.path) == pod.data}
    others = (known[ref] for ref in sorted(known.keys() - concerned) if ref in unchanged or not known[ref].static)
    facts = replace(
        examination.facts,
        pods=prefer_manifests(tuple(known[ref] for ref in sorted(concerned & known.keys())), views),
        inventory=asked.inventory,
        traffic=replace(examination.facts.traffic, pods=tuple(pod for pod in pods if pod.ref in concerned)),
    )
    pins, unpinned = plan_uids(facts, static, examination.layout)
    rewriting = _rewriting(facts, (*examination.to_target, *to_target))
    answer = PlannedArrivals(
        schema=AMENDMENT_SCHEMA, run_id=asked.run_id, asked=tuple(c.id for c in asked.inventory.containers)
    )
    held = replace(asked.inventory, containers=(*asked.inventory.containers, *asked.others))
    whole = replace(facts, inventory=held, stored={c.id: c.hashes for c in held.containers})
    proof = Proof(node=whole, rewriting=rewriting, unread=unread, unpinned=unpinned, agents=examination.agents)
    everything = replace(facts, pods=(*others, *facts.pods))
    if obstacles := _obstacles(proof, everything):
        return replace(answer, obstacle=str(obstacles[0]))
    recreated = (*examination.pins.recreated, *pins.recreated)
    expendable = examination.agents | {PodUid(ref.uid) for ref in recreated}
    return replace(
        answer,
        owned=owned_by(facts, static_sources(static, pins)),
        pins=tuple(pin for pin in pins.pins if not pin.removes),
        containers=tuple(replace(c, expendable=c.pod.uid in expendable) for c in rewriting.containers),
        awaited=rewriting.awaited,
        completing=tuple(each for pod in facts.pods if (each := completing(pod)) is not None),
        hooks=tuple(
            StopHook(container=instance.id, command=command)
            for instance, _, container in facts.running_containers()
            if (command := container.stop_command)
        ),
    )


def _rewriting(facts: NodeFacts, to_target: tuple[Pod, ...]) -> Rewriting:
    if facts.current is None:
        raise ValueError("a kubelet of an unknown version was examined, and a run was planned for it")
    found = plan_rewriting(
        facts.pods,
        facts.inventory,
        current=facts.current,
        target=facts.target,
        also_accepted=map(KubeletVersion.parse, facts.spec.hash_also_accepted),
        to_target=to_target,
        heeding=facts.heeding,
        stopped=True,
    )
    return with_facts(found, facts)


def _obstacles(proof: Proof, everything: NodeFacts) -> tuple[Finding, ...]:
    """Return why what came cannot be taken in: because of itself, or because not all pods fit any more."""
    found = (*registry.refusals(proof.node, proof), *registry.crowding(everything))
    lasting = (each for each in found if each.reason not in PASSING or each.check in _OF_STARTS)
    return (*proof.rewriting.findings, *(each for each in lasting if each.forbids))
