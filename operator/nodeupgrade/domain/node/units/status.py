"""A unit and its commands, as systemd reports them."""

from dataclasses import dataclass

from nodeupgrade.api.values import AwakeTime


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
        started: when its main process was started; ``None`` if it never was.
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
    started: AwakeTime | None = None
    needs_reload: bool = False
    start_line: str = ""
    environment: tuple[str, ...] = ()
    started_at: float | None = None
    watchdog: str = ""
    control_group: str = ""

    @property
    def gone(self) -> bool:
        """Report whether nothing of it is left. A unit whose file was removed runs on until it is stopped."""
        return self.load_state == "not-found" and self.active_state == "inactive"

    @property
    def running(self) -> bool:
        """Report whether a main process runs now."""
        return self.active_state in {"active", "reloading"} and self.main_pid > 0
