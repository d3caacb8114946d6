"""Composes messages for people."""

from nodeupgrade.api.reasons import NOTHING_TO_DO, Reason

LONG = 200
"""Characters of a cause after which nobody would find a remedy."""


def sentence(reason: Reason, because: str) -> str:
    """Join a concrete cause, without a full stop as in ``node a is NotReady``, and the reason's remedy."""
    return with_remedy(because, reason.remedy)


def with_remedy(because: str, remedy: str) -> str:
    """Join a concrete cause and a remedy into one message; before a long cause, the remedy comes first."""
    if remedy == NOTHING_TO_DO:
        return f"{because}."
    return f"{remedy}: {because}." if len(because) > LONG else f"{because}; {remedy}."


def counted(number: int, noun: str) -> str:
    """Write a number with its noun: ``1 node``, ``2 nodes``."""
    return f"{number} {noun}{'' if number == 1 else 's'}"
