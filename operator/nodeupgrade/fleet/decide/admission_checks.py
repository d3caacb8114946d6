"""Admission checks, in order: is the requested upgrade of a node possible, and may the node be touched now?"""

from nodeupgrade.findings.check import Check
from nodeupgrade.fleet.decide import request_checks as request
from nodeupgrade.fleet.decide import state_checks as state
from nodeupgrade.fleet.decide.candidate import Candidate

BEFORE_PODS: tuple[Check[Candidate], ...] = (
    state.task_is_readable,
    request.node_version_is_known,
    request.node_is_not_at_target,
    request.source_is_wanted,
    state.node_is_not_to_be_skipped,
    request.downgrade_is_allowed,
    request.skew_is_supported,
    request.api_servers_agree,
    request.tokens_are_requested,
    request.kubelet_can_be_replaced,
    request.runtime_is_supported,
    request.required_guard_is_possible,
    request.artifact_has_platform,
    state.node_is_free,
    state.node_is_not_cordoned_by_others,
    state.node_is_ready,
    state.node_is_not_under_pressure,
    state.node_is_to_stay,
    state.pods_stay_on_a_cordoned_node,
    state.writes_are_accepted,
    state.node_is_not_held,
)
"""In the order of their reports: that a node is held comes last, when nothing else prevents its upgrade."""

WITH_PODS: tuple[Check[Candidate], ...] = (
    state.placements_are_met,
    state.taints_are_tolerated,
    state.no_pod_holds_the_node,
)

WARNINGS: tuple[Check[Candidate], ...] = (request.cordoned_node_keeps_its_traffic, state.longhorn_stays_ready)
