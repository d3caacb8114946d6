"""What containerd's own log says about requests to end something."""

import re
from collections.abc import Iterable

# containerd 1.4 to 2.3 log these on level info before they act (pkg/cri … instrumented_service.go); the message is
# quoted once more in either format of the log, text or JSON.
REQUEST = re.compile(r'(?:StopContainer|StopPodSandbox|RemovePodSandbox) for \\?"([0-9a-f]+)\\?"')
SAYS_ENOUGH = re.compile(r'level=info|"level":"info"')
HAS_GAPS = re.compile(r"^Suppressed \d+ messages")


def asked_to_stop(lines: Iterable[str]) -> frozenset[str] | None:
    """Ids of containers and sandboxes that somebody asked containerd to stop.

    Args:
        lines: all that the running containerd wrote, oldest first.

    Returns:
        ``None`` if the log does not tell: nothing on level info is in it, or lines were dropped.
    """
    found: set[str] = set()
    says_enough = False
    for line in lines:
        if HAS_GAPS.search(line):
            return None
        says_enough = says_enough or SAYS_ENOUGH.search(line) is not None
        if (request := REQUEST.search(line)) is not None:
            found.add(request.group(1))
    return frozenset(found) if says_enough else None
