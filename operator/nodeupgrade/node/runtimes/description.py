"""A container runtime, as runs and checks see it: its unit, its next start, and the hazards of a restart.

Nothing here may name a particular runtime: the values come from its adapter.
"""

from dataclasses import dataclass
from functools import reduce
from pathlib import PurePosixPath

from nodeupgrade.api.values import Digest
from nodeupgrade.findings.finding import Finding
from nodeupgrade.node.host.systemd.units import UnitStatus
from nodeupgrade.node.runtimes.inventory import Inventory

TRANSIENT_UNITS = PurePosixPath("/run/systemd/system")
"""Directory of drop-ins that a reboot removes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RuntimeKind:
    """A kind of runtime: its properties on every node."""

    name: str  # as the Node's status and the CRI report it, for example ``cri-o``
    unit: str  # the systemd unit that is restarted
    # whether a unit of another name may be restarted instead, if its main process is the runtime
    other_units: bool = False
    # every path that a RestartTuning of this runtime may write, for cleaning up without one
    tuning: tuple[PurePosixPath, ...] = ()
    exchangeable_socket: bool = False  # whether another socket may take the path of its socket while it runs
    needs_free_path: bool = False  # whether it starts only if no process accepts connections at that path
    # whether it looks only when it starts whether containers run, and records that they ended: an error during its
    # start would last (see ContainerRuntime.reinstate), and what ends then may be shown as running until its next start
    remembers_ends: bool = False
    why_no_shield: str = ""  # why no shield can take the place of its socket, if that is known
    proven: tuple[str, ...] | None = None  # minor versions proven on real nodes; None if no version is held back
    # whether a pod does not survive a restart of it if a container runs under another monitor than the sandbox
    one_monitor_per_pod: bool = False
    opens_logs: bool = False  # whether it opens the log of every container that runs when it starts
    # files below its root that it locks when it starts, and waits for as long as another process has one locked
    locks: tuple[PurePosixPath, ...] = ()
    makes: tuple[PurePosixPath, ...] = ()  # directories that it makes when it starts, or else exits
    stops_for_rewriting: bool = False  # whether it is stopped to write hashes, and starts only when it is next needed

    def locked_in(self, root: str) -> tuple[PurePosixPath, ...]:
        """Return the files that it locks, if this is its root."""
        return tuple(reduce(_step, name.parts, PurePosixPath(root)) for name in self.locks)

    def unproven(self, version: str) -> str:
        """Return why a version is held back as unproven on real nodes; empty if it is not."""
        if self.proven is None or ".".join(version.split(".")[:2]) in self.proven:
            return ""
        return f"on real nodes, runs are proven with {', '.join(self.proven)} only"


def _step(directory: PurePosixPath, name: str) -> PurePosixPath:
    return directory.parent if name == ".." else directory / name


SHIELD_SOCKET, RUNTIME_SOCKET = "nodeupgrade-shield.sock", "nodeupgrade-runtime.sock"
SOCKETS_BESIDE = (SHIELD_SOCKET, RUNTIME_SOCKET)
"""Names in the directory of the runtime's socket: the shield's own socket, and the runtime's while the shield is up."""

LONGEST_SOCKET_PATH = 107
"""In bytes: the kernel's 108 without the terminating zero."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RuntimeSocket:
    """The socket through which kubelets reach the runtime."""

    endpoint: str  # its path as the kubelet is configured
    path: str | None  # the same without symbolic links; None if it does not lead to a socket
    fixed: bool  # whether nothing in its directory can be changed
    mounted: bool  # whether it is a mount point, and so cannot be replaced by a rename
    kind: RuntimeKind  # of the runtime that listens there
    unknown: str = ""  # why the path could not be followed; empty if it could

    @property
    def obstacle(self) -> str:
        """Why no shield can take its place; empty if one can."""
        if not self.kind.exchangeable_socket:
            untried = "it is unproven whether this runtime tolerates another socket in place of its own"
            return self.kind.why_no_shield or untried
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
    """Temporary settings that make the runtime's restart gentler."""

    why: str = "the runtime is restarted as it is configured"  # for the journal
    files: tuple[TuningFile, ...] = ()  # in the order of writing; empty if the runtime is restarted as configured

    @property
    def override(self) -> str | None:
        """Return the path of the drop-in that replaces the runtime's command line, if there is one."""
        drop_ins = (file for file in self.files if is_drop_in(PurePosixPath(file.path)))
        return next((file.path for file in drop_ins if b"\nExecStart=" in file.content), None)


def is_drop_in(path: PurePosixPath) -> bool:
    """Report whether a file is a systemd drop-in."""
    return path.is_relative_to(TRANSIENT_UNITS)


@dataclass(frozen=True, slots=True, kw_only=True)
class RuntimePlaces:
    """The directories and the socket that a runtime uses."""

    root: str  # directory for images, containers and their metadata
    state: str  # directory for the state of running processes
    address: str  # path of its socket


@dataclass(frozen=True, slots=True, kw_only=True)
class NextStart:
    """How a runtime would come back after a restart, according to its program on disk."""

    program: str  # path of the runtime's program
    starter: str = ""  # path of the script that the unit runs instead; empty if it runs the program itself
    # whether the unit's command line is that of the running process, apart from temporary settings of an earlier run
    as_it_runs: bool = True
    places: RuntimePlaces | None = None  # the directories and the socket that it would use; None if unknown
    cgroup_driver: str | None = None  # that it would report: ``cgroupfs`` or ``systemd``; None if unknown
    complaint: str = ""  # why it would not come back, or why its places are unknown
    unknown: str = ""  # why that could not be found out this time; empty if it could
    # files that it would read besides the unit's, including those that do not exist yet, and patterns of such
    files: tuple[str, ...] = ()
    directories: tuple[str, ...] = ()  # directories in which it would look for such files
    makes: tuple[str, ...] = ()  # directories that it makes if they are missing, which changes their parents' times


@dataclass(frozen=True, slots=True, kw_only=True)
class RuntimeProcess:
    """The process that listens on the runtime's socket."""

    pid: int
    words: tuple[str, ...]  # its command line
    program: Digest | None  # digest of the program that it runs, even if the file was replaced since; None if unknown


@dataclass(frozen=True, slots=True, kw_only=True)
class RuntimeInfo:
    """The runtime that answers on the CRI socket."""

    name: str  # as the CRI names it, for example ``cri-o``
    version: str  # for example ``1.6.20``
    cri_versions: tuple[str, ...]  # CRI API versions it serves, for example ``("v1", "v1alpha2")``
    binary_version: str | None = None  # version of the program on disk, which a restart would start; None if unknown
    cgroup_driver: str | None = None  # reported to kubelets: ``cgroupfs`` or ``systemd``; None if it reports none
    process: RuntimeProcess | None = None  # None if unknown
    places: RuntimePlaces | None = None  # those in use, as it reports them; None if it does not
    images: str | None = None  # directory on the filesystem of images, as it reports it to kubelets
    objections: tuple[str, ...] = ()  # why its present settings forbid a restart


@dataclass(frozen=True, slots=True, kw_only=True)
class RuntimeAsFound:
    """The running runtime, and the one that its unit would start."""

    name: str  # name of this kind of runtime
    unit: UnitStatus
    process: RuntimeProcess | None  # the process that listens on the socket; None if unknown
    owner: str  # the unit that this process belongs to, according to its cgroup; empty if unknown
    # the directories and the socket that the running one uses; None if it does not report them
    places: RuntimePlaces | None
    next: NextStart  # how it would come back
    changed: tuple[str, ...]  # files and directories that a start reads and that were changed after the last start
    program: Digest | None  # digest of the program on disk
    missing: str | None = None  # an environment file that its unit needs to start and that does not exist
    unproven: str = ""  # why this version is held back as unproven on real nodes; empty if it is not
    cgroup_driver: str | None = None  # reported to kubelets: ``cgroupfs`` or ``systemd``; None if it reports none
    restartable: bool = True  # whether a restart is known to be harmless, so that it can be recommended


@dataclass(frozen=True, slots=True, kw_only=True)
class RuntimeAtWork:
    """A running runtime, with everything that must survive a restart of it."""

    info: RuntimeInfo  # at least its name and version
    unit: UnitStatus
    inventory: Inventory  # without the pod of the agent
    listing_seconds: float  # how long listing the inventory took


@dataclass(frozen=True, slots=True, kw_only=True)
class RestartHazards:
    """Findings that make a restart of the runtime unsafe."""

    unit: tuple[Finding, ...] = ()  # because of how systemd stops it
    pods: tuple[Finding, ...] = ()  # because of the state of single pods
    runtime: tuple[Finding, ...] = ()  # because of its version or its present state
