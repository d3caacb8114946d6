"""Preview what an upgrade would do on a node, and what a plain kubelet swap would do instead.

Both are derived from the same examination that a real run is planned from, so that the two never differ.
"""

from collections.abc import Iterator, Mapping

from nodeupgrade.api.limits import CONTAINERS_LISTED, FORECAST_LENGTH, shorten
from nodeupgrade.api.reasons import Reason
from nodeupgrade.api.task.status import FileChange, Preview, RestartForecast
from nodeupgrade.api.values import PodRef, PodUid
from nodeupgrade.cluster.pods import Pod, Role
from nodeupgrade.kubelethash import (
    KubeletVersion,
    UnhashableContainer,
    UnsupportedKubelet,
    era_of,
    explain,
    static_uid_may_stay,
)
from nodeupgrade.node.examination.planning import Examination
from nodeupgrade.node.plan.exchanged_files import changes_of
from nodeupgrade.node.plan.hash_rewriting import hash_of, is_compared
from nodeupgrade.node.runtimes.inventory import ContainerInstance
from nodeupgrade.node.task_status.run_status import planned_manifests

_RESTARTS = frozenset(
    {
        Reason.POD_CGROUP_WOULD_CHANGE,
        Reason.NODE_AFFINITY_NOT_MET,
        Reason.POD_WOULD_NOT_BE_ADMITTED,
        Reason.RESIZE_POLICY_RESTART,
    }
)
"""Reasons of findings which say that the next kubelet kills or restarts a pod or one of its containers."""


def preview(examination: Examination) -> Preview | None:
    """Sum up what would be done; ``None`` if one of the two versions is not supported.

    The agent's own pod is left out: it is gone before anything else happens.
    """
    current, target = examination.facts.current, examination.facts.target
    if current is None or not (_is_known(current) and _is_known(target)):
        return None
    planned = [
        container for container in examination.rewriting.containers if container.pod.uid not in examination.agents
    ]
    found = () if examination.facts.files is None else examination.facts.files.found
    rewritten = sum(container.changes for container in planned)
    restarts = sorted(_restarts(examination, current), key=lambda restart: restart.container)
    return Preview(
        rewritten=rewritten,
        unchanged=len(planned) - rewritten,
        would_restart=len(restarts),
        would_restart_list=tuple(restarts[:CONTAINERS_LISTED]),
        static_pods=sum(not pin.removes for pin in examination.pins.pins),
        manifests=planned_manifests(examination.pins),
        recreated_pods=tuple(sorted(map(str, examination.pins.recreated)))[:CONTAINERS_LISTED],
        removed_flags=examination.facts.kubelet.arguments.removed,
        added_flags=examination.facts.kubelet.arguments.added,
        files=tuple(
            FileChange(path=each.new.path, before=each.before, after=each.new.digest) for each in changes_of(found)
        ),
    )


def _restarts(examination: Examination, current: KubeletVersion) -> Iterator[RestartForecast]:
    """Forecast every container that would not survive a plain swap of the kubelet's program."""
    pods = {pod.ref: pod for pod in (*examination.facts.pods, *examination.to_target)}
    renamed = dict(_with_another_uid(examination, current))
    killed = {v.subject: v.detail for v in (*examination.refusals, *examination.accepted) if v.reason in _RESTARTS}
    for instance in examination.facts.inventory.running():
        if instance.pod.uid in examination.agents:
            continue
        explanations = (
            renamed.get(instance.pod.uid),
            killed.get(str(instance.pod)),
            killed.get(instance.label),
            _hash_difference(instance, pods, current, examination.facts.target),
        )
        explanation = "; besides, ".join(why for why in explanations if why)
        if explanation:
            yield RestartForecast(container=instance.label, why=shorten(explanation, FORECAST_LENGTH))


def _with_another_uid(examination: Examination, current: KubeletVersion) -> Iterator[tuple[PodUid, str]]:
    """Find static pods to which the new kubelet gives another UID, and so takes them for new pods."""
    target = examination.facts.target
    if static_uid_may_stay(current, target):
        return
    named = {pod.sandbox.pod.uid for pod in examination.static.pods if pod.manifest["metadata"].get("uid")}
    for sandbox in examination.facts.inventory.sandboxes:
        if sandbox.ready and sandbox.is_static and sandbox.pod.uid not in named:
            why = f"kubelet {target.series} gives its static pod another UID, since its manifest names none"
            yield sandbox.pod.uid, why


def _hash_difference(
    instance: ContainerInstance, pods: Mapping[PodRef, Pod], current: KubeletVersion, target: KubeletVersion
) -> str | None:
    """Explain why the new kubelet would not recognise a container by its stored hash; ``None`` if it would."""
    pod = pods.get(instance.pod)
    spec = None if pod is None else pod.container(instance.name)
    if pod is None or spec is None or not is_compared(spec.role, target):
        return None
    try:
        wanted = hash_of(pod, spec, target)
        if instance.hashes.container == wanted:
            return None
        was = hash_of(pod, spec, current)
        change = explain(spec.spec, current, target)
    except UnhashableContainer:  # reported by the proof
        return None
    stored = instance.hashes.container or "(missing)"
    if stored != was or change is None:
        return f"its stored hash {stored} is not the {wanted} that kubelet {target} computes"
    newly = spec.role is Role.SIDECAR and not is_compared(spec.role, current)
    return f"kubelet {target.series} compares sidecars too; {change.sentence()}" if newly else change.sentence()


def _is_known(version: KubeletVersion) -> bool:
    try:
        era_of(version)
    except UnsupportedKubelet:
        return False
    return True
