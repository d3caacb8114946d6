"""A unit and its commands, as systemd reports them."""

from dataclasses import dataclass

from nodeupgrade.api.values import AwakeTime


@dataclass(frozen=True, slots=True, kw_only=True)
class UnitCommand:
    """One command that systemd runs for a unit."""

    when: str  # the setting it comes from, for example ``ExecStartPre``
    program: str  # path of the program
    line: str  # the command line, words separated by blanks; systemd does not show where a quoted word ends
    may_fail: bool = False  # whether the unit continues if it fails

    def __str__(self) -> str:
        return f"{self.when}={'-' if self.may_fail else ''}{self.line}"


@dataclass(frozen=True, slots=True, kw_only=True)
class UnitStatus:
    """One unit, as ``systemctl show`` reports it."""

    name: str
    load_state: str  # ``loaded``, ``masked``, ``not-found`` …
    active_state: str  # ``active``, ``activating``, ``inactive``, ``failed`` …
    sub_state: str  # for example ``running``, ``auto-restart``
    main_pid: int  # 0 when no process runs
    kill_mode: str = "control-group"  # ``process``, ``control-group`` …
    fragment_path: str = ""  # the unit file; empty for units that have none
    result: str = "success"  # result of the last run, for example ``success``, ``exit-code``
    exit_status: int = 0  # exit status of the last main process that ended (ExecMainStatus); 0 if none has
    # units that stop or restart with this one (BoundBy, RequiredBy, RequisiteOf, …)
    bound_by: tuple[str, ...] = ()
    requires: tuple[str, ...] = ()  # units without which it is not started (Requires, BindsTo, Requisite)
    awaits: tuple[str, ...] = ()  # those of them whose own start its start waits for (After)
    requisite: tuple[str, ...] = ()  # those of them that must be active by then, as they are not started (Requisite)
    startable: bool = True  # whether systemd starts it on demand (CanStart), unlike with RefuseManualStart
    restarts: int = 0  # automatic restarts since the unit was last started manually (NRestarts)
    fenced: bool = False  # whether our fence (see ServiceManager.mask) is up
    program: str = ""  # first word of ExecStart, for example ``/usr/bin/kubelet``; empty if there are several or none
    command: tuple[str, ...] = ()  # all words of ExecStart; empty if they cannot be determined
    commands: tuple[UnitCommand, ...] = ()  # every command that systemd runs for it, including ExecStart
    drop_ins: tuple[str, ...] = ()  # paths of the drop-ins that systemd has read
    # path of each EnvironmentFile, and whether the unit needs it to start
    environment_files: tuple[tuple[str, bool], ...] = ()
    started: AwakeTime | None = None  # when its main process was started; None if it never was
    needs_reload: bool = False  # whether its files were changed after systemd read them
    # ExecStart as systemd shows it, without quotes, variables not expanded; empty unless there is exactly one command
    start_line: str = ""
    environment: tuple[str, ...] = ()  # assignments of the unit's Environment setting
    # variables, or assignments, that it takes out of the environment in the end (UnsetEnvironment)
    unset: tuple[str, ...] = ()
    # when its main process was started by the wall clock of that time, in seconds since 1970
    started_at: float | None = None
    # the interval at which it must report to systemd (WatchdogSec), as systemd shows it; empty if it need not
    watchdog: str = ""
    control_group: str = ""  # its cgroup, as systemd names it; empty if it has none
    output: str = ""  # the setting that keeps its messages from the node's journal: ``StandardError=file``; or empty
    # the settings by which systemd opens a file for its messages at each start: ``StandardError=append``
    log_files: tuple[str, ...] = ()
    search_path: str = ""  # where systemd looks for programs without a path, if the unit says so (ExecSearchPath)
    # settings with which systemd reboots or stops the machine once the unit stops or fails: ``FailureAction=reboot``
    ends_machine: tuple[str, ...] = ()
    transient: bool = False  # whether it was made while systemd ran, as by systemd-run: once stopped, it may be gone

    @property
    def spares_others(self) -> bool:
        """Report whether systemd, when it stops the unit, ends only its main process (KillMode)."""
        return self.kill_mode in {"process", "none"}

    @property
    def gone(self) -> bool:
        """Report whether nothing of it is left. A unit whose file was removed runs on until it is stopped."""
        return self.load_state == "not-found" and self.active_state == "inactive"

    @property
    def down(self) -> bool:
        """Report whether none of its processes runs, nor is about to."""
        return self.active_state in {"inactive", "failed"}

    @property
    def running(self) -> bool:
        """Report whether a main process runs now."""
        return self.active_state in {"active", "reloading"} and self.main_pid > 0
