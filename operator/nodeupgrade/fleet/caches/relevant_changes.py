"""Which changes of a Node matter: its heartbeat does not."""

from dataclasses import replace

from nodeupgrade.api.task.object import Task
from nodeupgrade.cluster.nodes import NodeView
from nodeupgrade.fleet.caches.object_cache import Delta


def differs(delta: Delta[NodeView] | Delta[Task]) -> bool:
    """Report whether more than the resourceVersion changed: most writes to a Node are heartbeats, which we ignore."""
    before, after = delta.before, delta.after
    if before is None or after is None:
        return True
    return replace(before, resource_version=after.resource_version) != after
