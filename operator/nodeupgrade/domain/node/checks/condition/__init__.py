"""Checks of the condition of pods: what would an exchange of the kubelet interrupt, and what could be lost for good?"""

from nodeupgrade.domain.check import Check
from nodeupgrade.domain.node.checks.condition.facts import PodConditions
from nodeupgrade.domain.node.checks.condition.loss import (
    containers_do_not_crash,
    deadlines_are_far,
    nobody_is_debugging,
    pods_would_be_replaced,
)
from nodeupgrade.domain.node.checks.condition.transition import (
    hooks_are_over,
    init_containers_are_remembered,
    resizes_are_over,
)

CHECKS: tuple[Check[PodConditions], ...] = (hooks_are_over, resizes_are_over, init_containers_are_remembered)
WARNINGS: tuple[Check[PodConditions], ...] = (
    containers_do_not_crash,
    deadlines_are_far,
    pods_would_be_replaced,
    nobody_is_debugging,
)

__all__ = ["CHECKS", "WARNINGS", "PodConditions"]
