"""The container runtime that answers on the CRI socket, as it reports itself."""

from dataclasses import dataclass

from nodeupgrade.api.values import Digest


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
