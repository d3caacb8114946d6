"""Finds stop requests in containerd's log."""

import re
from collections.abc import Iterable

from nodeupgrade.adapters.cri.log import stop_requests

# containerd 1.4 to 2.3 log these at level info before they act (pkg/cri … instrumented_service.go). Both log formats,
# text and JSON, quote the message once more.
REQUEST = re.compile(r'(?:StopContainer|StopPodSandbox|RemovePodSandbox) for \\?"([0-9a-f]+)\\?"')


def asked_to_stop(lines: Iterable[str]) -> frozenset[str] | None:
    """Return the ids of containers and sandboxes that containerd was asked to stop; see ``stop_requests``."""
    return stop_requests(lines, REQUEST)
