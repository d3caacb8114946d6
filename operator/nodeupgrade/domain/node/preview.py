"""What an upgrade would do on a node, and what a plain kubelet swap would do there instead.

Both come from the examination that a real run is planned from; nothing is decided here that is not decided there.
"""

from collections.abc import Iterator, Mapping

from nodeupgrade.api.limits import CONTAINERS_LISTED, FORECAST_LENGTH
from nodeupgrade.api.reasons import Reason
from nodeupgrade.api.task.status import Preview, RestartForecast
from nodeupgrade.api.values import PodUid
from nodeupgrade.domain.node.hashes.rewriting import hash_of, is_compared
from nodeupgrade.domain.node.inventory import ContainerInstance
from nodeupgrade.domain.node.planning import Examination
from nodeupgrade.domain.node.run.task_report import shorten
from nodeupgrade.domain.pods import Pod, Role
from nodeupgrade.kubelethash import (
    KubeletVersion,
    UnhashableContainer,
    UnsupportedKubelet,
    era_of,
    explain,
    static_uid_may_stay,
)

_RESTARTS = frozenset(
    {
        Reason.POD_CGROUP_MOVES,
        Reason.NODE_AFFINITY_NOT_MET,
        Reason.POD_WOULD_NOT_BE_ADMITTED,
        Reason.RESIZE_POLICY_RESTART,
    }
)
"""Findings about a pod, or one of its containers, which say that the next kubelet kills or restarts it."""


def preview(found: Examination) -> Preview | None:
    """Sum up what would be done; ``None`` when the hashes of one of the two versions are not known.

    The pod of the agent that looked is left out: it is gone before anything else happens.
    """
    current, target = found.facts.kubelet.current, found.facts.target
    if current is None or not (_is_known(current) and _is_known(target)):
        return None
    planned = [container for container in found.rewriting.containers if container.pod.uid not in found.agents]
    rewritten = sum(container.changes for container in planned)
    restarts = sorted(_restarts(found, current), key=lambda restart: restart.container)
    return Preview(
        rewritten=rewritten,
        unchanged=len(planned) - rewritten,
        would_restart=len(restarts),
        would_restart_list=tuple(restarts[:CONTAINERS_LISTED]),
        static_pods=len(found.pins),
        removed_flags=found.facts.kubelet.arguments.removed,
    )


def _restarts(found: Examination, current: KubeletVersion) -> Iterator[RestartForecast]:
    """Every container that would not outlive an exchange of the kubelet's program and nothing else."""
    pods = {pod.ref.uid: pod for pod in found.facts.pods}
    renamed = dict(_renamed(found, current))
    killed = {v.subject: v.detail for v in found.refusals if v.reason in _RESTARTS}
    for instance in found.facts.inventory.running():
        if instance.pod.uid in found.agents:
            continue
        whys = (
            renamed.get(instance.pod.uid),
            killed.get(str(instance.pod)),
            killed.get(instance.label),
            _other_hash(instance, pods, current, found.facts.target),
        )
        told = "; besides, ".join(why for why in whys if why)
        if told:
            yield RestartForecast(container=instance.label, why=shorten(told, FORECAST_LENGTH))


def _renamed(found: Examination, current: KubeletVersion) -> Iterator[tuple[PodUid, str]]:
    """Static pods whose UID is another one for the new kubelet, which takes them for other pods."""
    target = found.facts.target
    if static_uid_may_stay(current, target):
        return
    named = {pod.sandbox.pod.uid for pod in found.static.pods if pod.manifest["metadata"].get("uid")}
    for sandbox in found.facts.inventory.sandboxes:
        if sandbox.ready and sandbox.is_static and sandbox.pod.uid not in named:
            why = f"kubelet {target.series} gives its static pod another UID, since its manifest names none"
            yield sandbox.pod.uid, why


def _other_hash(
    instance: ContainerInstance, pods: Mapping[PodUid, Pod], current: KubeletVersion, target: KubeletVersion
) -> str | None:
    """Why the new kubelet would not recognise a container by its stored hash; ``None`` when it would."""
    pod = pods.get(instance.pod.uid)
    spec = None if pod is None else pod.container(instance.name)
    if pod is None or spec is None or not is_compared(spec.role, target):
        return None
    try:
        wanted = hash_of(pod, spec, target)
        if instance.hashes.container == wanted:
            return None
        was = hash_of(pod, spec, current)
        change = explain(spec.spec, current, target)
    except UnhashableContainer:  # the proof has named it
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
