"""Checks of the request: can the node's kubelet be replaced by this version?"""

from nodeupgrade.api.reasons import Reason
from nodeupgrade.api.run_settings import GuardPolicy
from nodeupgrade.api.runtimes import is_supported
from nodeupgrade.api.upgrade.spec import SkewPolicy
from nodeupgrade.cluster.distributions import APPLIANCES, EMBEDDED
from nodeupgrade.findings.check import Found, check
from nodeupgrade.findings.hazards import Hazard
from nodeupgrade.fleet.decide.candidate import Candidate, named
from nodeupgrade.kubelet import history, probe_delay
from nodeupgrade.kubelet.version_skew import is_newer_than_server, is_too_old_for_server, supported_minors_behind


@check(Reason.UNSUPPORTED_VERSION, Hazard.PAIR_UNKNOWN, acceptable=False)
def node_version_is_known(candidate: Candidate) -> Found | None:
    """The hashes stored on the node can be recomputed, which is possible only for known versions."""
    problem = candidate.node.unsupported
    return f"{named(candidate)}: {problem}" if problem else None


@check(Reason.ALREADY_AT_TARGET, acceptable=False)
def node_is_not_at_target(candidate: Candidate) -> Found | None:
    """The node does not run the target version already, unless another rollout is changing it right now."""
    if candidate.current != candidate.target or _is_being_changed(candidate):
        return None
    return f"{named(candidate)} runs {candidate.target} already"


def _is_being_changed(candidate: Candidate) -> bool:
    """Report whether a run of another rollout may be in progress on the node."""
    task = candidate.task
    return task is not None and task.open and candidate.holder is not None


@check(Reason.SOURCE_VERSION_NOT_LISTED, acceptable=False)
def source_is_wanted(candidate: Candidate) -> Found | None:
    """The node's version matches ``spec.fromVersions``, a list of versions or version prefixes."""
    wanted, runs = candidate.spec.from_versions, str(candidate.current)
    if not wanted or any(runs == start or runs.startswith((f"{start}.", f"{start}+", f"{start}-")) for start in wanted):
        return None
    return f"{named(candidate)} runs {runs}, which is none of spec.fromVersions ({', '.join(wanted)})"


@check(Reason.DOWNGRADE_NOT_ALLOWED, acceptable=False)
def downgrade_is_allowed(candidate: Candidate) -> Found | None:
    """The target is not older than the current version, unless ``spec.allowDowngrade`` is set."""
    if candidate.target >= candidate.current or candidate.spec.allow_downgrade:
        return None
    return f"{named(candidate)} runs {candidate.current}, which is newer than {candidate.target}"


@check(
    Reason.VERSION_SKEW,
    Hazard.KUBELET_NEWER_THAN_API,
    Hazard.KUBELET_TOO_OLD_FOR_API,
    history.THREE_MINORS_BEHIND,
    acceptable=False,
)
def skew_is_supported(candidate: Candidate) -> Found | None:
    """The API server supports the target, unless the upgrade brings a node that is too old closer to it."""
    newer = is_newer_than_server(candidate.target, candidate.server)
    if candidate.spec.skew_policy is SkewPolicy.WARN or not (newer or candidate.target < candidate.current):
        return None
    return unsupported_skew(candidate)


def unsupported_skew(candidate: Candidate) -> str | None:
    """Return why the API server does not support the target; None if it does."""
    target, server = candidate.target, candidate.server
    if is_newer_than_server(target, server):
        return f"{target} is newer than the API server {server}"
    if is_too_old_for_server(target, server):
        return f"{target} is more than {supported_minors_behind(target)} minors older than the API server {server}"
    return None


@check(Reason.CONTROL_PLANE_VERSIONS_DIFFER, Hazard.CONTROL_PLANE_IN_CHANGE)
def api_servers_agree(candidate: Candidate) -> Found | None:
    """All API servers that run as pods are of one minor, so that the kubelet is not newer than one of them."""
    minors = sorted({(server.major, server.minor): str(server) for server in candidate.api_servers}.items())
    if len(minors) < 2 or candidate.spec.skew_policy is SkewPolicy.WARN:
        return None
    return f"the API servers are of several versions: {', '.join(version for _, version in minors)}"


@check(
    Reason.TOKENS_NOT_REQUESTED, Hazard.TOKENS_NOT_REQUESTED, history.TOKENS_REQUESTED, history.TOKENS_ONLY_ON_REQUEST
)
def tokens_are_requested(candidate: Candidate) -> Found | None:
    """Pods get tokens, and so does the agent: their kubelets request them, or the API server has them in Secrets.

    A kubelet that knows no such request leaves the token out of the volume, also where another kubelet wrote one.
    """
    if not history.TOKENS_ONLY_ON_REQUEST.applies_to(candidate.server):
        return None
    versions = (candidate.current, candidate.target)
    if (old := next((v for v in versions if not history.TOKENS_REQUESTED.applies_to(v)), None)) is None:
        return None
    return (
        f"kubelet {old} does not request tokens of service accounts, and an API server {candidate.server} gives pods "
        f"no others: neither the agent nor any other pod of {named(candidate)} could use the API"
    )


@check(Reason.CORDON_REMOVES_TRAFFIC, Hazard.CORDON_REMOVES_TRAFFIC, history.CORDONED_NODES_SERVE)
def cordoned_node_keeps_its_traffic(candidate: Candidate) -> Found | None:
    """The control plane does not take a cordoned node out of the load balancers of Services."""
    change = history.CORDONED_NODES_SERVE
    cordons = candidate.spec.nodes.cordon and not candidate.node.unschedulable
    if change.applies_to(candidate.server) or not cordons:
        return None
    return (
        f"{named(candidate)} is cordoned for its upgrade, and a control plane of {candidate.server} takes "
        f"cordoned nodes out of the load balancers of cloud providers ({change.reference}, changed in {change.since})"
    )


@check(Reason.UNSUPPORTED_NODE, Hazard.KUBELET_NOT_A_SERVICE, acceptable=False)
def kubelet_can_be_replaced(candidate: Candidate) -> Found | None:
    """The node runs Linux, and its kubelet is a separate program."""
    system, suffix = candidate.node.platform.partition("-")[0], candidate.current.suffix
    if system != "linux":
        return f"{named(candidate)} runs {system or 'an unknown operating system'}, not linux"
    if suffix.startswith(tuple(f"+{distribution}" for distribution in EMBEDDED)):
        return f"{named(candidate)} runs {candidate.current}, whose kubelet is part of its distribution"
    if found := next((each for each in APPLIANCES if each.runs(candidate.node)), None):
        return f"{named(candidate)} runs {found.name}, whose kubelet is part of it and is upgraded with {found.tool}"
    return None


@check(Reason.UNSUPPORTED_RUNTIME, acceptable=False)
def runtime_is_supported(candidate: Candidate) -> Found | None:
    """The hashes stored by the node's runtime can be rewritten."""
    if is_supported(candidate.node.runtime_name):
        return None
    return f"{named(candidate)} runs {candidate.node.runtime or 'an unknown runtime'}"


@check(
    Reason.READINESS_GUARD_UNAVAILABLE,
    Hazard.ENDPOINTS_LOST,
    history.ADMISSION_POLICIES,
    history.PROBES_KEPT,
    acceptable=False,
)
def required_guard_is_possible(candidate: Candidate) -> Found | None:
    """Where the readiness guard is required, it is available."""
    verify = candidate.spec.verify
    if verify.readiness_guard is not GuardPolicy.REQUIRE or not probe_delay.is_guarded(verify, candidate.target):
        return None
    problem = candidate.guard_obstacle
    return f"{named(candidate)} cannot be guarded: {problem}" if problem else None


@check(Reason.ARTIFACT_UNAVAILABLE, Hazard.PROGRAM_WRONG, acceptable=False)
def artifact_has_platform(candidate: Candidate) -> Found | None:
    """There is a kubelet binary for the node's platform."""
    if candidate.spec.artifact.serves(candidate.node.platform):
        return None
    return f"spec.artifact has no {candidate.node.platform}, which is the platform of {named(candidate)}"
