"""Admission checks: is what is asked of a node possible, and may the node be touched now?"""

from nodeupgrade.findings.check import Check
from nodeupgrade.fleet.decide.candidate import Candidate
from nodeupgrade.fleet.decide.request_checks import (
    api_servers_agree,
    artifact_has_platform,
    cordoned_node_keeps_its_traffic,
    downgrade_is_allowed,
    kubelet_can_be_replaced,
    node_is_not_at_target,
    node_version_is_known,
    required_guard_is_possible,
    runtime_is_supported,
    skew_is_supported,
    source_is_wanted,
)
from nodeupgrade.fleet.decide.state_checks import (
    no_pod_holds_the_node,
    node_is_free,
    node_is_not_cordoned_by_others,
    node_is_not_held,
    node_is_not_to_be_skipped,
    node_is_not_under_pressure,
    node_is_ready,
    node_is_to_stay,
    placements_are_met,
    taints_are_tolerated,
    task_is_readable,
    writes_are_accepted,
)

BEFORE_PODS: tuple[Check[Candidate], ...] = (
    task_is_readable,
    node_version_is_known,
    node_is_not_at_target,
    source_is_wanted,
    node_is_not_to_be_skipped,
    downgrade_is_allowed,
    skew_is_supported,
    api_servers_agree,
    kubelet_can_be_replaced,
    runtime_is_supported,
    required_guard_is_possible,
    artifact_has_platform,
    node_is_free,
    node_is_not_cordoned_by_others,
    node_is_ready,
    node_is_not_under_pressure,
    node_is_to_stay,
    writes_are_accepted,
    node_is_not_held,
)
"""What must be done is told first; that a node is held, last, since nothing else stands in its way then."""

WITH_PODS: tuple[Check[Candidate], ...] = (
    placements_are_met,
    taints_are_tolerated,
    no_pod_holds_the_node,
)

WARNINGS: tuple[Check[Candidate], ...] = (cordoned_node_keeps_its_traffic,)
"""Checks that only warn."""
