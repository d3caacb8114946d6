"""How the number of nodes at once grows with each success of a wave, and falls back after a failure."""

from collections.abc import Iterable
from typing import assert_never

from nodeupgrade.api.upgrade.strategy import Growth, GrowthType


def slots(growth: Growth, limit: int, outcomes: Iterable[bool]) -> int:
    """Return how many nodes of a wave may be in flight at the same time.

    Args:
        growth: The rule.
        limit: The number that other rules allow; the result exceeds neither it nor the rule's cap.
        outcomes: Whether each finished node of the wave succeeded, in the order of the verdicts.
    """
    if growth.type is GrowthType.FIXED:
        return limit
    ceiling = limit if growth.cap is None else max(1, min(limit, growth.cap.of(limit)))
    successes = 0
    for succeeded in outcomes:
        successes = successes + 1 if succeeded else 0
    width = 1
    while width < ceiling and successes >= width:
        successes -= width
        width = _next(growth, width)
    return min(width, ceiling)


def _next(growth: Growth, width: int) -> int:
    match growth.type:
        case GrowthType.LINEAR:
            return width + growth.factor
        case GrowthType.EXPONENTIAL:
            return width * max(2, growth.factor)
        case GrowthType.FIXED:
            return width
        case never:
            assert_never(never)
