"""What a node's runtime and service manager say about themselves."""

from dataclasses import dataclass

from nodeupgrade.api.values import Digest


@dataclass(frozen=True, slots=True, kw_only=True)
class RuntimeProcess:
    """The process that answers on the runtime's socket.

    Attributes:
        words: its command line.
        program: digest of the program that it runs, whatever lies in its place by now.
    """

    pid: int
    words: tuple[str, ...]
    program: Digest | None


@dataclass(frozen=True, slots=True, kw_only=True)
class RuntimePlaces:
    """Where a runtime keeps everything.

    Attributes:
        root: directory of images, containers and their metadata.
        state: directory of what is about processes.
        address: its socket.
    """

    root: str
    state: str
    address: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RuntimeInfo:
    """Which runtime answers.

    Attributes:
        name: as the CRI names it, for example ``cri-o``.
        version: for example ``1.6.20``.
        cri_versions: CRI API versions it serves, for example ``("v1", "v1alpha2")``.
        cgroup_driver: the driver that it tells kubelets to use, ``cgroupfs`` or ``systemd``; ``None`` if it does not.
        binary_version: version of the program on disk; a restart would start that one. ``None`` if unknown.
        process: ``None`` if it cannot be told.
        places: those in use, as it says itself; ``None`` if it does not.
    """

    name: str
    version: str
    cri_versions: tuple[str, ...]
    binary_version: str | None = None
    cgroup_driver: str | None = None
    process: RuntimeProcess | None = None
    places: RuntimePlaces | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class UnitCommand:
    """One command that systemd runs for a unit.

    Attributes:
        when: the setting it comes from, for example ``ExecStartPre``.
        program: path of the program.
        line: all its words, a blank between them; systemd marks no borders.
        may_fail: whether the unit goes on if it fails.
    """

    when: str
    program: str
    line: str
    may_fail: bool = False

    def __str__(self) -> str:
        return f"{self.when}={'-' if self.may_fail else ''}{self.line}"


@dataclass(frozen=True, slots=True, kw_only=True)
class UnitStatus:
    """One unit, as systemd shows it.

    Attributes:
        load_state: ``loaded``, ``masked``, ``not-found`` …
        active_state: ``active``, ``activating``, ``inactive``, ``failed`` …
        sub_state: for example ``running``, ``auto-restart``.
        main_pid: 0 when no process runs.
        kill_mode: ``process``, ``control-group`` …
        fragment_path: the unit file; empty for units that have none.
        result: result of the last run, for example ``success``, ``exit-code``.
        exit_status: of the main process that ended last (ExecMainStatus); 0 if none has.
        bound_by: units that stop or restart with this one (BoundBy, RequiredBy, ConsistsOf).
        restarts: automatic restarts since the unit was last started by hand (NRestarts).
        fenced: our mask (see ServiceManager.mask) is in force.
        needs_reload: its files were changed after systemd read them.
        started: when its main process was started, seconds since boot; ``None`` if it never was.
        program: first word of ExecStart, for example ``/usr/bin/kubelet``; empty if there are several or none.
        command: all words of ExecStart; empty where they cannot be told for sure.
        commands: everything that is run for it, ExecStart among others.
        drop_ins: paths of the files that systemd has read beside the unit's own.
        environment_files: path of each file with further variables, and whether the unit needs it to start.
        start_line: ExecStart as systemd shows it, without quotes and with variables in their places; empty if there
            are several commands or none.
        environment: assignments of the unit's own Environment.
        started_at: when its main process was started by the clock of that time, seconds since 1970.
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

    @property
    def running(self) -> bool:
        """Whether a main process runs now."""
        return self.active_state in {"active", "reloading"} and self.main_pid > 0
