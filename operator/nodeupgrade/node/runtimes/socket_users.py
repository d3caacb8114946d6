"""The containers of a node that use the runtime's own sockets, and what a restart of the runtime means to them.

A runtime that starts removes the file of its socket and makes another one. A container that has mounted the directory
finds it there; one that has mounted the file keeps the old one, at which nobody listens any more, until it is started
again. A connection ends with the runtime in any case; most programs open another, some exit.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from nodeupgrade.api.values import ContainerId


@dataclass(frozen=True, slots=True, kw_only=True)
class RuntimeClients:
    """The containers that use the runtime's sockets."""

    # containers that have mounted the file of a socket which a restart makes anew, with the paths of these sockets on
    # the node
    mounted: Mapping[ContainerId, tuple[str, ...]] = field(default_factory=dict)
    connected: frozenset[ContainerId] = frozenset()  # containers of which a process is connected to the runtime
    unknown: str = ""  # why the connections could not be read; empty if they could
