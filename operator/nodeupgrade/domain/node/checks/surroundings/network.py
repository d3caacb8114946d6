"""Checks of what else in the network depends on the kubelet."""

from collections.abc import Iterator

from nodeupgrade.api.reasons import Reason
from nodeupgrade.domain.check import check
from nodeupgrade.domain.finding import Finding, named
from nodeupgrade.domain.hazards import Hazard
from nodeupgrade.domain.node.checks.surroundings.facts import HostSurroundings
from nodeupgrade.kubelet import history


@check(Reason.IPTABLES_CHAINS_GONE, follows=(history.MARKING_CHAINS_GONE,), covers=(Hazard.IPTABLES_CHAINS_GONE,))
def chains_are_not_missed(facts: HostSurroundings) -> Iterator[Finding]:
    """No network plugin refers to a chain that only the old kubelet creates; kube-proxy creates it too."""
    change = history.MARKING_CHAINS_GONE
    kept = facts.gates.get("IPTablesOwnershipCleanup") is False
    if facts.marking and not kept and change.begins_between(facts.current, facts.target) and not _has_proxy(facts):
        detail = (
            f"{named(facts.marking)} refers to KUBE-MARK-MASQ, which kubelet {facts.target} does not create "
            f"({change.reference}), nor does a kube-proxy on the node: it is gone after the next restart of the node"
        )
        yield Finding(reason=Reason.IPTABLES_CHAINS_GONE, detail=detail)


def _has_proxy(facts: HostSurroundings) -> bool:
    running = (pod for pod in facts.pods if not pod.finished)
    return any("kube-proxy" in str(container.spec.get("image")) for pod in running for container in pod.containers)
