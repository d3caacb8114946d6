"""Annotations on Nodes: people skip or hold a node, whatever NodeUpgrade selects it; kured and the operator mark it.

An annotated pod holds its node, too, for as long as the NodeUpgrade allows.
"""

from collections.abc import Mapping

from nodeupgrade.api.limits import ANNOTATION_REASON_LENGTH, shorten
from nodeupgrade.text import one_line, trimmed

SKIP_ANNOTATION = "nodeupgrade.dev/skip"
"""The rollout continues, and ends, without the node."""
HOLD_ANNOTATION = "nodeupgrade.dev/hold"
"""The node is not started, and its wave waits for it. A run that has been started is not interrupted."""
CORDON_ANNOTATION = "nodeupgrade.dev/cordoned-by"
"""Annotation on a Node: UID of the NodeUpgrade that cordoned it. Only that NodeUpgrade may uncordon the node."""
REBOOT_ANNOTATION = "weave.works/kured-reboot-in-progress"
"""Annotation on a Node that kured is about to reboot, or is rebooting."""

_NO = "false"
_YES = "true"


def annotation_reason(annotations: Mapping[str, str], name: str) -> str | None:
    """Return the reason that an annotation gives, which may be empty; None if it is absent or ``false``.

    Any other value sets it: a misspelt word must not let a node be touched. Any value but ``true`` is the reason.
    """
    value = annotations.get(name)
    if value is None or trimmed(value).lower() == _NO:
        return None
    printable = "".join(letter if letter.isprintable() else " " for letter in value)
    reason = shorten(one_line(printable), ANNOTATION_REASON_LENGTH)
    return "" if reason.lower() == _YES else reason
