"""Finds stop requests in CRI-O's log."""

import re
from collections.abc import Iterable

# CRI-O logs these at level info, its default, before it acts (server/container_stop.go, sandbox_stop.go …).
REQUEST = re.compile(
    r"(?:Stopping container|Stopping pod sandbox|Removing container|Removing pod sandbox): ([0-9a-f]+)"
)
INFO_LEVEL = re.compile(r'level=info|"level":"info"')
SUPPRESSED = re.compile(r"^Suppressed \d+ messages")


def asked_to_stop(lines: Iterable[str]) -> frozenset[str] | None:
    """Return the ids of containers and sandboxes that CRI-O was asked to stop or remove.

    Args:
        lines: everything that the running CRI-O has logged, oldest first.

    Returns:
        ``None`` if the log is inconclusive: it has no line at level info, or lines were dropped.
    """
    stopped: set[str] = set()
    logs_info = False
    for line in lines:
        if SUPPRESSED.search(line):
            return None
        logs_info = logs_info or INFO_LEVEL.search(line) is not None
        if (request := REQUEST.search(line)) is not None:
            stopped.add(request.group(1))
    return frozenset(stopped) if logs_info else None
