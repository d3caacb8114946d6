"""Checks of what surrounds a kubelet on its host: cgroups, units, processes, its name, and the network."""

from nodeupgrade.domain.check import Check
from nodeupgrade.domain.node.checks.surroundings.cgroups import limit_covers_usage, pods_have_their_controllers
from nodeupgrade.domain.node.checks.surroundings.facts import (
    NOTHING_AROUND,
    Daemon,
    HostSurroundings,
    PodCgroups,
)
from nodeupgrade.domain.node.checks.surroundings.network import chains_are_not_missed
from nodeupgrade.domain.node.checks.surroundings.others import (
    clock_is_right,
    kubelet_keeps_its_name,
    nobody_else_changes_the_node,
    nothing_else_stops,
    systemd_is_new_enough,
)
from nodeupgrade.domain.node.checks.surroundings.packages import package_manager_leaves_the_kubelet

__all__ = ["CHECKS", "NOTHING_AROUND", "WARNINGS", "Daemon", "HostSurroundings", "PodCgroups"]

CHECKS: tuple[Check[HostSurroundings], ...] = (
    systemd_is_new_enough,
    nothing_else_stops,
    kubelet_keeps_its_name,
    pods_have_their_controllers,
    limit_covers_usage,
    nobody_else_changes_the_node,
    package_manager_leaves_the_kubelet,
)
WARNINGS: tuple[Check[HostSurroundings], ...] = (clock_is_right, chains_are_not_missed)
