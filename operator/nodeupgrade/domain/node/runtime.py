"""What one kind of container runtime is, and what it says about being restarted, for the engine and the checks.

Runtimes differ in all of it, so that nothing in here may name one: the values come from the adapter behind the port.
"""

from dataclasses import dataclass
from pathlib import PurePosixPath

from nodeupgrade.domain.finding import Finding
from nodeupgrade.domain.node.host import RuntimeInfo, RuntimePlaces, UnitStatus
from nodeupgrade.domain.node.inventory import Inventory

TRANSIENT_UNITS = PurePosixPath("/run/systemd/system")
"""Where drop-ins lie that a reboot takes away."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RuntimeKind:
    """What is the same for a runtime on every node.

    Attributes:
        name: as the Node's status and the CRI name it, for example ``cri-o``.
        unit: the systemd unit that is restarted.
        tuning: every path that a RestartTuning of this runtime may write, so that it can be taken away without one.
    """

    name: str
    unit: str
    tuning: tuple[PurePosixPath, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class TuningFile:
    """A file that lies on the node for as long as a run lasts."""

    path: str
    content: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class RestartTuning:
    """What makes the restart of one run gentler.

    Attributes:
        why: in words, for the journal.
        files: in the order in which they are written; empty if the runtime is restarted as it is configured.
    """

    why: str = "the runtime is restarted as it is configured"
    files: tuple[TuningFile, ...] = ()

    @property
    def drop_in(self) -> str | None:
        """The drop-in of the runtime's unit, if there is one."""
        return next((file.path for file in self.files if is_drop_in(PurePosixPath(file.path))), None)


AS_CONFIGURED = RestartTuning()


def is_drop_in(path: PurePosixPath) -> bool:
    """Whether systemd reads that file."""
    return path.is_relative_to(TRANSIENT_UNITS)


@dataclass(frozen=True, slots=True, kw_only=True)
class NextStart:
    """How a runtime would come back, as its own program on disk tells.

    Attributes:
        program: path of the runtime's own program.
        starter: of what the unit runs in its stead, such as a script; empty if there is no such thing.
        as_it_runs: whether the unit's command line is that of the running process, apart from what an earlier run of
            ours set for a time.
        places: where it would keep everything; ``None`` if that cannot be told.
        complaint: why it cannot be told.
        files: what it would read beside the unit's files, there or not: it would count if it appeared.
        directories: where it would look for such files.
    """

    program: str
    starter: str = ""
    as_it_runs: bool = True
    places: RuntimePlaces | None = None
    complaint: str = ""
    files: tuple[str, ...] = ()
    directories: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class RuntimeAtWork:
    """A runtime as it runs, with everything in its charge.

    Attributes:
        listing_seconds: how long it took to list all of that.
    """

    info: RuntimeInfo
    unit: UnitStatus
    inventory: Inventory
    listing_seconds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class RestartHazards:
    """What a restart of the runtime would cost, however well everything else is.

    Attributes:
        unit: by the way systemd stops it.
        pods: by the state that single pods are in.
        runtime: by its version, and by how it is just now.
    """

    unit: tuple[Finding, ...] = ()
    pods: tuple[Finding, ...] = ()
    runtime: tuple[Finding, ...] = ()


NO_HAZARDS = RestartHazards()
