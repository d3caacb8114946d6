"""Why a change is not made in place. Cluster API then replaces the Machines, as it would without this extension.

So only what lasts objects. A node that is not Ready at this moment, or cordoned, is no reason to end all its
containers: its NodeUpgrade waits, or says what to do.
"""

from collections.abc import Iterable
from datetime import datetime

from nodeupgrade.api.upgrade.object import Upgrade
from nodeupgrade.api.upgrade.spec import UpgradeSpec
from nodeupgrade.capi.requests import Change
from nodeupgrade.cluster.nodes import NodeView
from nodeupgrade.findings.check import Check
from nodeupgrade.fleet.decide import request_checks as request
from nodeupgrade.fleet.decide import state_checks as state
from nodeupgrade.fleet.decide.candidate import Candidate
from nodeupgrade.kubelet.supported import unsupported_version
from nodeupgrade.kubelet.version_skew import is_newer_than_server
from nodeupgrade.kubelethash import KubeletVersion

LASTING: tuple[Check[Candidate], ...] = (
    request.node_version_is_known,
    state.node_is_not_to_be_skipped,
    request.downgrade_is_allowed,
    request.source_is_wanted,
    request.skew_is_supported,
    request.kubelet_can_be_replaced,
    request.runtime_is_supported,
    request.artifact_has_platform,
)

CONTROL_PLANE = (
    "kubeadm has to upgrade a control plane's node before its kubelet (kubeadm upgrade), which is not done in place; "
    "to keep this machine, leave the version of its control plane as it is, and follow docs/kubeadm.md"
)


def objection_to(change: Change) -> str | None:
    """Return what speaks against a change whatever the nodes are; None if nothing does."""
    if change.control_plane:
        return CONTROL_PLANE
    if change.deployment is None:
        return "only Machines of a MachineDeployment are updated in place"
    if change.others:
        return f"more than the version changes: {', '.join(change.others)}"
    if change.current is None or change.desired is None or change.current == change.desired:
        return "no version changes"
    for version in (change.current, change.desired):
        if (unknown := unsupported_version(version)) is not None:
            return unknown
    if KubeletVersion.parse(change.desired) < KubeletVersion.parse(change.current):
        return f"{change.desired} is older than {change.current}"
    return None


def objection_of(nodes: Iterable[NodeView], spec: UpgradeSpec, server: KubeletVersion, now: datetime) -> str | None:
    """Return why the control plane would refuse one of these nodes for good; None if it would refuse none."""
    target = KubeletVersion.parse(spec.version)
    if is_newer_than_server(target, server):
        return f"{target} is newer than the API server {server}"
    candidates = (_candidate(node, spec, server, now) for node in nodes if node.kubelet_version != spec.version)
    # One by one: the later checks rely on what the earlier ones have found.
    found = (finding for each in candidates for check in LASTING for finding in check(each))
    return next((finding.message for finding in found if finding.forbids), None)


def _candidate(node: NodeView, spec: UpgradeSpec, server: KubeletVersion, now: datetime) -> Candidate:
    """Return a node as a candidate of a rollout that does not exist yet."""
    return Candidate(
        upgrade=Upgrade(name="", uid="", resource_version="", generation=0, spec=spec),
        spec=spec,
        node=node,
        now=now,
        task=None,
        problem=None,
        pods=None,
        holder=None,
        setbacks={},
        server=server,
        api_servers=(),
        deschedulers=(),
        guard_obstacle=None,
        active_upgrades=frozenset(),
    )
