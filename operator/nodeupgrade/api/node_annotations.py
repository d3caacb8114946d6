"""Annotations on Nodes: people ask to skip or hold one, whatever NodeUpgrade selects it; we and kured mark ours.

A pod may be annotated to hold its node, too, for as long as the NodeUpgrade allows.
"""

from collections.abc import Mapping

from nodeupgrade.api.limits import ANNOTATION_REASON_LENGTH, shorten

SKIP_ANNOTATION = "nodeupgrade.dev/skip"
"""The rollout goes on, and ends, without the node."""
HOLD_ANNOTATION = "nodeupgrade.dev/hold"
"""The node is not started, and its wave waits for it. A run that has been started is not interrupted."""
CORDON_ANNOTATION = "nodeupgrade.dev/cordoned-by"
"""Annotation on a Node: UID of the NodeUpgrade that cordoned it. Only that NodeUpgrade may uncordon the node."""
REBOOT_ANNOTATION = "weave.works/kured-reboot-in-progress"
"""Annotation on a Node that kured is about to reboot, or is rebooting."""

_NO = "false"
_YES = "true"


def annotation_reason(annotations: Mapping[str, str], name: str) -> str | None:
    """Return why an annotation asks for what it is named for; None if it does not ask.

    Any value but ``false`` asks: a word that was misspelt must not let a node be touched. What is not just ``true`` is
    taken for the reason, for people.
    """
    value = annotations.get(name)
    if value is None or value.strip().lower() == _NO:
        return None
    printable = "".join(letter if letter.isprintable() else " " for letter in value)
    reason = shorten(" ".join(printable.split()), ANNOTATION_REASON_LENGTH)
    return "" if reason.lower() == _YES else reason
