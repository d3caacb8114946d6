"""Finds stop requests in a runtime's log."""

import re
from collections.abc import Iterable

INFO_LEVEL = re.compile(r'level=info|"level":"info"')
SUPPRESSED = re.compile(r"^Suppressed \d+ messages")


def stop_requests(lines: Iterable[str], request: re.Pattern[str]) -> frozenset[str] | None:
    """Return the ids of containers and sandboxes that a runtime was asked to stop or remove.

    Args:
        lines: everything that the running runtime has logged, oldest first.
        request: finds a request that is logged at level info, with the id as its group.

    Returns:
        ``None`` if the log is inconclusive: it has no line at level info, or lines were dropped.
    """
    stopped: set[str] = set()
    logs_info = False
    for line in lines:
        if SUPPRESSED.search(line):
            return None
        logs_info = logs_info or INFO_LEVEL.search(line) is not None
        if (found := request.search(line)) is not None:
            stopped.add(found.group(1))
    return frozenset(stopped) if logs_info else None
