"""What a node's runtime and service manager say about themselves."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class RuntimeInfo:
    """Which runtime answers.

    Attributes:
        name: as the CRI names it, for example ``containerd``.
        version: for example ``1.6.20``.
        cri_versions: CRI API versions it serves, for example ``("v1", "v1alpha2")``.
        cgroup_driver: the driver that it tells kubelets to use, ``cgroupfs`` or ``systemd``; ``None`` if it does not.
        binary_version: version of the program on disk; a restart would start that one. ``None`` if unknown.
    """

    name: str
    version: str
    cri_versions: tuple[str, ...]
    binary_version: str | None = None
    cgroup_driver: str | None = None


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
        start_line: ExecStart as systemd shows it, without quotes and with variables in their places; empty if there
            are several commands or none.
        drop_ins: files that add to the unit file.
        environment: assignments of the unit's own Environment.
        environment_files: path of each, and whether the unit needs it to start.
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
    started: float | None = None
    needs_reload: bool = False
    start_line: str = ""
    drop_ins: tuple[str, ...] = ()
    environment: tuple[str, ...] = ()
    environment_files: tuple[tuple[str, bool], ...] = ()
    started_at: float | None = None

    @property
    def running(self) -> bool:
        """Whether a main process runs now."""
        return self.active_state in {"active", "reloading"} and self.main_pid > 0
