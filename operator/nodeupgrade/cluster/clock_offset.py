"""How far a node's clock is off, as its Node object shows."""

from datetime import timedelta

from nodeupgrade.api.json import Json
from nodeupgrade.text import known_time

KUBELET = "kubelet"


def ahead(node: Json) -> timedelta | None:
    """Return how far the node's clock is ahead of the API server's; ``None`` if the Node does not show it.

    A kubelet writes the time by its own clock into each status that it sends, and the API server (from 1.18 on) notes
    by its own when it stored that. So the difference contains the time that the request took.
    """
    status, metadata = node.get("status") or {}, node.get("metadata") or {}
    beats = (c.get("lastHeartbeatTime") for c in status.get("conditions") or () if c.get("type") == "Ready")
    stored = (
        entry.get("time")
        for entry in metadata.get("managedFields") or ()
        if entry.get("manager") == KUBELET and entry.get("subresource", "status") == "status"
    )
    by_node, by_server = known_time(next(beats, None)), max(filter(None, map(known_time, stored)), default=None)
    return None if by_node is None or by_server is None else by_node - by_server
