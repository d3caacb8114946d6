"""A container runtime, as the engine and the checks see it: its unit, its next start, and the hazards of a restart.

Nothing here may name a particular runtime: the values come from its adapter.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import PurePosixPath

from nodeupgrade.api.values import ContainerId, Digest
from nodeupgrade.domain.hazards import Finding
from nodeupgrade.domain.node.inventory import Inventory
from nodeupgrade.domain.node.units import UnitStatus

TRANSIENT_UNITS = PurePosixPath("/run/systemd/system")
"""Directory of drop-ins that a reboot removes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RuntimeKind:
    """A kind of runtime: what is the same on every node.

    Attributes:
        name: as the Node's status and the CRI report it, for example ``cri-o``.
        unit: the systemd unit that is restarted.
        other_units: whether a unit of another name may be restarted instead, if its main process is the runtime.
        tuning: every path that a RestartTuning of this runtime may write, for cleaning up without one.
        exchangeable_socket: whether another socket may lie at the path of its socket while it runs.
        needs_free_path: whether it does not start while anybody accepts connections at the path of its socket.
        remembers_ends: whether it writes down that a container ended and asks nobody again, so that an error during its
            start would last (see ContainerRuntime.reinstate).
        why_no_shield: why no shield can take the place of its socket, if that is known.
        proven: minor versions that runs on real nodes are known of; ``None`` where no version is held back.
        stops_for_rewriting: whether it is stopped for hashes to be written, and starts only when it is next needed.
    """

    name: str
    unit: str
    other_units: bool = False
    tuning: tuple[PurePosixPath, ...] = ()
    exchangeable_socket: bool = False
    needs_free_path: bool = False
    remembers_ends: bool = False
    why_no_shield: str = ""
    proven: tuple[str, ...] | None = None
    stops_for_rewriting: bool = False

    def unproven(self, version: str) -> str:
        """Return what has never been tried on a real node with a version; empty if it is not held back."""
        if self.proven is None or ".".join(version.split(".")[:2]) in self.proven:
            return ""
        return f"runs on real nodes are known of {', '.join(self.proven)} only"


SHIELD_SOCKET, RUNTIME_SOCKET = "nodeupgrade-shield.sock", "nodeupgrade-runtime.sock"
SOCKETS_BESIDE = (SHIELD_SOCKET, RUNTIME_SOCKET)
"""Names in the directory of the runtime's socket: the shield's own socket, and the runtime's while the shield is up."""

LONGEST_SOCKET_PATH = 107
"""In bytes: the kernel's 108 without the terminating zero."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RuntimeSocket:
    """The socket through which kubelets reach the runtime.

    Attributes:
        endpoint: its path as the kubelet is configured.
        path: the same without symbolic links; ``None`` if it does not lead to a socket.
        fixed: whether nothing in its directory can be changed.
        mounted: whether it is a mount point, and so cannot be replaced by a rename.
        exchangeable: whether the runtime tolerates another socket in its place.
        why_no_shield: why it does not, if that is known.
        needs_free_path: whether the runtime does not start while anybody accepts connections there.
        unknown: why the path could not be followed; empty if it could.
    """

    endpoint: str
    path: str | None
    fixed: bool
    mounted: bool
    exchangeable: bool
    unknown: str = ""
    why_no_shield: str = ""
    needs_free_path: bool = False

    @property
    def obstacle(self) -> str:
        """Why no shield can take its place; empty if one can."""
        if not self.exchangeable:
            untried = "nobody has tried yet whether this runtime tolerates another socket in place of its own"
            return self.why_no_shield or untried
        if self.path is None:
            return self.unknown or f"{self.endpoint} is not a socket"
        directory = PurePosixPath(self.path).parent
        if self.mounted:
            return f"{self.path} is a mount point, which cannot be replaced"
        if self.fixed:
            return f"nothing in {directory} can be changed: it is immutable or mounted read-only"
        for name in SOCKETS_BESIDE:
            if (size := len(str(directory / name).encode())) > LONGEST_SOCKET_PATH:
                return f"{directory / name} has {size} bytes, and the path of a socket at most {LONGEST_SOCKET_PATH}"
        return ""


@dataclass(frozen=True, slots=True, kw_only=True)
class TuningFile:
    """A file that exists on the node only during a run."""

    path: str
    content: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class RestartTuning:
    """Temporary settings that make the runtime's restart gentler.

    Attributes:
        why: a description, for the journal.
        files: in the order of writing; empty if the runtime is restarted as configured.
    """

    why: str = "the runtime is restarted as it is configured"
    files: tuple[TuningFile, ...] = ()

    @property
    def drop_in(self) -> str | None:
        """Return the path of the runtime unit's drop-in, if there is one."""
        return next((file.path for file in self.files if is_drop_in(PurePosixPath(file.path))), None)


AS_CONFIGURED = RestartTuning()


def is_drop_in(path: PurePosixPath) -> bool:
    """Report whether a file is a systemd drop-in."""
    return path.is_relative_to(TRANSIENT_UNITS)


@dataclass(frozen=True, slots=True, kw_only=True)
class RuntimePlaces:
    """The directories and the socket that a runtime uses.

    Attributes:
        root: directory for images, containers and their metadata.
        state: directory for the state of running processes.
        address: path of its socket.
    """

    root: str
    state: str
    address: str


@dataclass(frozen=True, slots=True, kw_only=True)
class NextStart:
    """How a runtime would come back after a restart, according to its program on disk.

    Attributes:
        program: path of the runtime's program.
        starter: path of what the unit runs instead, such as a script; empty if it runs the program itself.
        as_it_runs: whether the unit's command line is that of the running process, apart from temporary settings of
            an earlier run.
        places: the directories and the socket that it would use; ``None`` if unknown.
        complaint: why they are unknown.
        files: files that it would read besides the unit's, including those that do not exist yet.
        directories: directories in which it would look for such files.
        makes: directories that it makes itself where they are missing, which changes the time of their parents.
    """

    program: str
    starter: str = ""
    as_it_runs: bool = True
    places: RuntimePlaces | None = None
    complaint: str = ""
    files: tuple[str, ...] = ()
    directories: tuple[str, ...] = ()
    makes: tuple[str, ...] = ()


# The container runtime that answers on the CRI socket, as it reports itself.


@dataclass(frozen=True, slots=True, kw_only=True)
class RuntimeProcess:
    """The process that listens on the runtime's socket.

    Attributes:
        words: its command line.
        program: digest of the program that it runs, even if the file was replaced since; ``None`` if unknown.
    """

    pid: int
    words: tuple[str, ...]
    program: Digest | None


@dataclass(frozen=True, slots=True, kw_only=True)
class RuntimeInfo:
    """The runtime that answers on the CRI socket.

    Attributes:
        name: as the CRI names it, for example ``cri-o``.
        version: for example ``1.6.20``.
        cri_versions: CRI API versions it serves, for example ``("v1", "v1alpha2")``.
        cgroup_driver: the driver that it reports to kubelets, ``cgroupfs`` or ``systemd``; ``None`` if it reports none.
        binary_version: version of the program on disk, which a restart would start; ``None`` if unknown.
        process: ``None`` if unknown.
        places: those in use, as it reports them; ``None`` if it does not.
        images: directory on the filesystem of images, as it reports it to kubelets; ``None`` if it does not.
        objections: why its present settings forbid a restart.
    """

    name: str
    version: str
    cri_versions: tuple[str, ...]
    binary_version: str | None = None
    cgroup_driver: str | None = None
    process: RuntimeProcess | None = None
    places: RuntimePlaces | None = None
    images: str | None = None
    objections: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class RuntimeAsFound:
    """The running runtime, and the one that its unit would start.

    Attributes:
        name: name of this kind of runtime.
        process: the process that listens on the socket; ``None`` if unknown.
        owner: the unit that this process belongs to, according to its cgroup; empty if unknown.
        places: the directories and the socket that the running one uses; ``None`` if it does not report them.
        next: how it would come back.
        changed: files and directories that a start reads and that were changed after the last start.
        program: digest of the program on disk.
        unproven: what has never been tried on a real node with this version; empty if it has been.
    """

    name: str
    unit: UnitStatus
    process: RuntimeProcess | None
    owner: str
    places: RuntimePlaces | None
    next: NextStart
    changed: tuple[str, ...]
    program: Digest | None
    unproven: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class RuntimeAtWork:
    """A running runtime, with everything that a restart of it must spare.

    Attributes:
        inventory: what it holds, without the pod of the agent that looks.
        listing_seconds: how long listing the inventory took.
    """

    info: RuntimeInfo
    unit: UnitStatus
    inventory: Inventory
    listing_seconds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class RestartHazards:
    """Findings that make a restart of the runtime unsafe.

    Attributes:
        unit: because of how systemd stops it.
        pods: because of the state of single pods.
        runtime: because of its version or its present state.
    """

    unit: tuple[Finding, ...] = ()
    pods: tuple[Finding, ...] = ()
    runtime: tuple[Finding, ...] = ()


NO_HAZARDS = RestartHazards()


# The containers of a node that use the runtime's own sockets, and what a restart of the runtime means to them.
#
# A runtime that starts removes the file of its socket and makes another one. A container that has mounted the directory
# finds it there; one that has mounted the file keeps the old one, at which nobody listens any more, until it is started
# again. A connection ends with the runtime in any case; most programs open another, some exit.


@dataclass(frozen=True, slots=True, kw_only=True)
class RuntimeClients:
    """The containers that use the runtime's sockets.

    Attributes:
        mounted: containers that have mounted the file of a socket which a restart makes anew, with the paths of these
            sockets on the node.
        connected: containers of which a process is connected to the runtime.
        unknown: why the connections could not be read; empty if they could.
    """

    mounted: Mapping[ContainerId, tuple[str, ...]] = field(default_factory=dict)
    connected: frozenset[ContainerId] = frozenset()
    unknown: str = ""


NO_CLIENTS = RuntimeClients()
