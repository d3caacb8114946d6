"""Checks of the target release: has it a known defect that matters to this node?

What is known is data (``kubelet/known_defects.py``); here is only what makes each kind of defect matter.
"""

from collections.abc import Callable, Iterator, Mapping

from nodeupgrade.api.reasons import Reason, Severity, counted
from nodeupgrade.domain.check import Check, check
from nodeupgrade.domain.hazards import Finding, Hazard, named
from nodeupgrade.domain.node.checks.facts import NodeFacts
from nodeupgrade.domain.node.checks.resources import is_guaranteed
from nodeupgrade.domain.node.checks.volumes import claims_of
from nodeupgrade.domain.pods import Pod, Role
from nodeupgrade.kubelet import known_defects
from nodeupgrade.kubelet.known_defects import Concern, KnownDefect

_FORBIDDING = tuple(defect for defect in known_defects.KNOWN_BAD.values() if not defect.only_warns)
_WARNING = tuple(defect for defect in known_defects.KNOWN_BAD.values() if defect.only_warns)


@check(Reason.KUBELET_DEFECT, follows=_FORBIDDING, covers=(Hazard.RELEASE_DEFECT,))
def release_harms_no_pod(facts: NodeFacts) -> Iterator[Finding]:
    """The target release has no known defect that costs this node a container or its kubelet."""
    yield from _found(facts, _FORBIDDING)


@check(Reason.KUBELET_DEFECT, follows=_WARNING, covers=(Hazard.RELEASE_DEFECT,))
def release_has_no_known_flaw(facts: NodeFacts) -> Iterator[Finding]:
    """The target release has no known defect that shows on this node but costs no container."""
    for finding in _found(facts, _WARNING):
        yield Finding(reason=finding.reason, detail=finding.detail, severity=Severity.WARN)


def _found(facts: NodeFacts, defects: tuple[KnownDefect, ...]) -> Iterator[Finding]:
    for defect in defects:
        if defect.affects(facts.target) and (concerned := _CONCERNED[defect.concern](facts)) is not None:
            fixed = defect.fixed_after(facts.target)
            until = f", fixed in {fixed}" if fixed else ""
            detail = f"kubelet {facts.target} has a known defect ({defect.reference}{until}): {defect.what[0].lower()}"
            detail = f"{detail}{defect.what[1:].removesuffix('.')}{concerned}"
            yield Finding(reason=Reason.KUBELET_DEFECT, detail=detail)


def _every_node(_: NodeFacts) -> str | None:
    return ""


def _ended(facts: NodeFacts) -> str | None:
    return _listed([pod for pod in facts.pods if pod.finished])


def _pinned(facts: NodeFacts) -> str | None:
    settings = facts.readiness.layout.settings
    if not (settings.pins_cpus or settings.pins_memory):
        return None
    several = (pod for pod in facts.running_pods() if len(_lasting(pod)) > 1)
    return _listed([pod for pod in several if is_guaranteed(facts.admission, pod)])


def _claiming(facts: NodeFacts) -> str | None:
    return _listed([pod for pod in facts.running_pods() if any(claims_of(pod))])


def _on_zfs(facts: NodeFacts) -> str | None:
    root = facts.readiness.layout.root
    return f"; {root} is on it" if facts.surroundings.filesystem == "zfs" else None


_CONCERNED: Mapping[Concern, Callable[[NodeFacts], str | None]] = {
    Concern.EVERY_NODE: _every_node,
    Concern.ENDED_PODS: _ended,
    Concern.PINNED_PODS: _pinned,
    Concern.CLAIMED_VOLUMES: _claiming,
    Concern.ROOT_ON_ZFS: _on_zfs,
}
"""For each concern: the end of the message if the node has it, else ``None``."""


def _listed(pods: list[Pod]) -> str | None:
    return f"; it concerns {counted(len(pods), 'pod')}: {named([str(pod.ref) for pod in pods])}" if pods else None


def _lasting(pod: Pod) -> list[str]:
    return [container.name for container in pod.containers if container.role in {Role.REGULAR, Role.SIDECAR}]


CHECKS: tuple[Check[NodeFacts], ...] = (release_harms_no_pod,)
WARNINGS: tuple[Check[NodeFacts], ...] = (release_has_no_known_flaw,)
