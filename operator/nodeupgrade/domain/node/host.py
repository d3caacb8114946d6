"""What the container runtime and systemd report about a node."""

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


@dataclass(frozen=True, slots=True, kw_only=True)
class DiskUsage:
    """How full a filesystem is.

    Attributes:
        free: bytes that an unprivileged user can still write.
        inodes: 0 if the filesystem makes them as needed.
    """

    size: int
    free: int
    inodes: int
    free_inodes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class UnitCommand:
    """One command that systemd runs for a unit.

    Attributes:
        when: the setting it comes from, for example ``ExecStartPre``.
        program: path of the program.
        line: the command line, words separated by blanks; systemd does not show where a quoted word ends.
        may_fail: whether the unit continues if it fails.
    """

    when: str
    program: str
    line: str
    may_fail: bool = False

    def __str__(self) -> str:
        return f"{self.when}={'-' if self.may_fail else ''}{self.line}"


@dataclass(frozen=True, slots=True, kw_only=True)
class UnitStatus:
    """One unit, as ``systemctl show`` reports it.

    Attributes:
        load_state: ``loaded``, ``masked``, ``not-found`` …
        active_state: ``active``, ``activating``, ``inactive``, ``failed`` …
        sub_state: for example ``running``, ``auto-restart``.
        main_pid: 0 when no process runs.
        kill_mode: ``process``, ``control-group`` …
        fragment_path: the unit file; empty for units that have none.
        result: result of the last run, for example ``success``, ``exit-code``.
        exit_status: exit status of the last main process that ended (ExecMainStatus); 0 if none has.
        bound_by: units that stop or restart with this one (BoundBy, RequiredBy, ConsistsOf, PropagatesStopTo).
        restarts: automatic restarts since the unit was last started manually (NRestarts).
        fenced: whether our fence (see ServiceManager.mask) is up.
        needs_reload: whether its files were changed after systemd read them.
        started: when its main process was started, in seconds since boot; ``None`` if it never was.
        program: first word of ExecStart, for example ``/usr/bin/kubelet``; empty if there are several or none.
        command: all words of ExecStart; empty if they cannot be determined.
        commands: every command that systemd runs for it, including ExecStart.
        drop_ins: paths of the drop-ins that systemd has read.
        environment_files: path of each EnvironmentFile, and whether the unit needs it to start.
        start_line: ExecStart as systemd shows it, without quotes and with variables not expanded; empty if there are
            several commands or none.
        environment: assignments of the unit's Environment setting.
        started_at: when its main process was started by the wall clock of that time, in seconds since 1970.
        watchdog: within what time it must report to systemd (WatchdogSec), as systemd shows it; empty if it need not.
        control_group: its cgroup, as systemd names it; empty if it has none.
    """

    name: str
    load_state: str
    active_state: str
    sub_state: str
    main_pid: int
    kill_mode: str = "control-group"
    fragment_path: str = ""
    result: str = "success"
    exit_status: int = 0
    bound_by: tuple[str, ...] = ()
    restarts: int = 0
    fenced: bool = False
    program: str = ""
    command: tuple[str, ...] = ()
    commands: tuple[UnitCommand, ...] = ()
    drop_ins: tuple[str, ...] = ()
    environment_files: tuple[tuple[str, bool], ...] = ()
    started: float | None = None
    needs_reload: bool = False
    start_line: str = ""
    environment: tuple[str, ...] = ()
    started_at: float | None = None
    watchdog: str = ""
    control_group: str = ""

    @property
    def running(self) -> bool:
        """Report whether a main process runs now."""
        return self.active_state in {"active", "reloading"} and self.main_pid > 0
