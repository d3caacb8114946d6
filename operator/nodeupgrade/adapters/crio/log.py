"""Finds stop requests in CRI-O's log."""

import re
from collections.abc import Iterable

from nodeupgrade.adapters.cri.log import stop_requests

# CRI-O logs these at level info, its default, before it acts (server/container_stop.go, sandbox_stop.go …).
REQUEST = re.compile(
    r"(?:Stopping container|Stopping pod sandbox|Removing container|Removing pod sandbox): ([0-9a-f]+)"
)


def asked_to_stop(lines: Iterable[str]) -> frozenset[str] | None:
    """Return the ids of containers and sandboxes that CRI-O was asked to stop; see ``stop_requests``."""
    return stop_requests(lines, REQUEST)
