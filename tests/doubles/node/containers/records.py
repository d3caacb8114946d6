"""What a runtime keeps on disk for each container, besides what it serves from memory, and what it does wrong."""

import json
from dataclasses import dataclass, field, replace
from typing import TypeAlias

from nodeupgrade.api.values import ContainerId, SandboxId
from nodeupgrade.errors import StepFailed
from nodeupgrade.node.runtimes.inventory import ContainerInstance, SandboxInstance, StoredHashes

ENCODING = "simulation/metadata"


@dataclass(slots=True)
class Stored:
    """One container: ``instance`` as served from memory, ``hashes`` as on disk, ``other`` metadata next to them."""

    instance: ContainerInstance
    hashes: StoredHashes
    other: str = "log path, image, mounts"
    ended: bool = False  # what a runtime that remembers ends has written down about it
    _listed: tuple[ContainerInstance, ContainerInstance] | None = field(default=None, repr=False, compare=False)

    @property
    def listed(self) -> ContainerInstance:
        """The instance as a listing shows it, without what needs a call of its own."""
        if self._listed is None or self._listed[0] is not self.instance:
            self._listed = self.instance, replace(self.instance, started_at=None, exit_code=None)
        return self._listed[1]

    def document(self, hashes: StoredHashes | None = None) -> bytes:
        """Return the metadata on disk, with other hashes if given."""
        shown = self.hashes if hashes is None else hashes
        document = {"hash": shown.container, "withoutResources": shown.without_resources, "other": self.other}
        return json.dumps(document).encode()


@dataclass(slots=True)
class Troubles:
    """What the runtime does wrong, on request."""

    loses: set[ContainerId] = field(default_factory=set)  # containers that it does not find again after a restart
    paused: set[ContainerId] = field(default_factory=set)  # likewise, which it says itself if it is asked
    answers_after: float = 0.2  # seconds until it answers after a restart
    starts_in: float = 0.0  # seconds after which systemd counts it as started again
    silent: bool = False  # it logs nothing
    talkative: bool = False  # its log is too long to be read as a whole
    wrote: tuple[str, ...] = ()  # lines of its log
    forgotten: bool = False  # the journal has given up what it logged first
    overlooks: set[ContainerId] = field(default_factory=set)  # containers that it does not list for now
    # seconds after which the monitors of containers answer when it restarts
    slow_monitors: dict[ContainerId, float] = field(default_factory=dict)
    hears_late: float = 0.0  # seconds until it detects that a process has ended
    hangs: bool = False  # it accepts calls and answers none
    unlisted: StepFailed | None = None  # what it answers instead of a list of its containers
    elsewhere: bool = False  # it is started with another, empty root, whatever its configuration file says
    peer: int | None = None  # the process that answers on its socket, if it is not the unit's
    # containers that it takes for ended at its next restart, although they run
    errs_about: set[ContainerId] = field(default_factory=set)
    # containers that have mounted the files of its sockets
    mounters: dict[ContainerId, tuple[str, ...]] = field(default_factory=dict)
    # containers with a connection to it, and the exit code with which they end when it breaks; None if they run on
    followers: dict[ContainerId, int | None] = field(default_factory=dict)
    garbled: set[ContainerId] = field(default_factory=set)  # containers whose metadata has no known form
    # exit codes of containers that handle SIGTERM
    exits_when_stopped: dict[ContainerId, int] = field(default_factory=dict)
    unseen_followers: str = ""  # why it cannot be told which containers have one


Records: TypeAlias = tuple[dict[ContainerId, Stored], dict[SandboxId, SandboxInstance]]
"""Everything that is kept below one root."""


def changed(stored: StoredHashes, wanted: StoredHashes) -> StoredHashes:
    """Return the hashes after a write: each hash changes only where both sides have one."""
    return StoredHashes(
        container=stored.container and (wanted.container or stored.container),
        without_resources=stored.without_resources and (wanted.without_resources or stored.without_resources),
    )


def document(image: bytes, hashes: StoredHashes) -> bytes:
    """Return the metadata of ``image`` with other hashes."""
    document = json.loads(image)
    return json.dumps(document | {"hash": hashes.container, "withoutResources": hashes.without_resources}).encode()
