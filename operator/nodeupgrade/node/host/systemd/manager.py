"""Implements ServiceManager with systemd."""

import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import replace
from pathlib import Path, PurePosixPath

from nodeupgrade.api.values import AwakeTime
from nodeupgrade.errors import StepFailed
from nodeupgrade.node.host.device_rules import UnitDevices
from nodeupgrade.node.host.files.reading import read_file
from nodeupgrade.node.host.files.resolving import resolve
from nodeupgrade.node.host.retries import translate_errors
from nodeupgrade.node.host.systemd import properties
from nodeupgrade.node.host.systemd.fence import Fence
from nodeupgrade.node.host.systemd.loaded_settings import ReadFile, say_what_is_loaded
from nodeupgrade.node.host.systemd.services import Look
from nodeupgrade.node.host.systemd.systemctl import Systemctl
from nodeupgrade.node.host.systemd.units import UnitCommand, UnitStatus
from nodeupgrade.node.host.systemd.unloaded_units import has_unloaded_files
from nodeupgrade.text import lines, number, words

RUN = ("ExecCondition", "ExecStartPre", "ExecStartPost", "ExecStop", "ExecStopPost")
"""Commands that systemd runs when it starts or stops a service, in addition to ExecStart."""
NOTHING = UnitCommand(when="ExecStart", program="", line="")
BINDINGS = ("BoundBy", "RequiredBy", "RequisiteOf", "ConsistsOf", "PropagatesStopTo")
"""Units that stop when this one does; systemd 249 introduced the last."""
REQUISITE = ("Requisite",)
REQUIREMENTS = ("Requires", "BindsTo", *REQUISITE)
"""Units without which this one is not started; where one has no file, or is masked, systemd does not even try."""
ACTIONS = ("FailureAction", "SuccessAction", "StartLimitAction", "JobTimeoutAction")
"""Actions on the machine when a unit has failed, has stopped, was started too often or takes too long."""
TRIGGERS = ("OnFailure", "OnSuccess")
"""Units that systemd starts once this one has failed or stopped; systemd 249 introduced the last."""
ENDS_MACHINE = re.compile(
    r"(systemd-)?(reboot|soft-reboot|poweroff|halt|kexec|shutdown|emergency|rescue|exit|ctrl-alt-del)\.(target|service)"
)
PROPERTIES = (
    "LoadState", "ActiveState", "SubState", "MainPID", "KillMode", "FragmentPath", "Result",
    *BINDINGS, *REQUIREMENTS, "After", "CanStart", "NRestarts", "DropInPaths", "ExecStart",
    "ExecMainStartTimestampMonotonic",
    "ControlGroup", "NeedDaemonReload", "Environment", "UnsetEnvironment", "EnvironmentFiles",
    "ExecMainStartTimestamp", "ExecMainStatus",
    "WatchdogUSec", "ExecSearchPath", "StandardOutput", "StandardError", "LogNamespace", "Transient",
    *ACTIONS, *TRIGGERS, *RUN,
)  # fmt: skip
DEVICES = ("ControlGroup", "DevicePolicy", "DeviceAllow")
SCOPES = "*.scope"
UNIT_NAME = re.compile(r"(-|[A-Za-z0-9:_\\@][A-Za-z0-9:_.\\@-]*)\.[a-z]+")
"""Of those that begin with a hyphen, only the root of mounts and that of slices exist."""
VERSION = re.compile(r"Version=(?:systemd )?v?([0-9]{1,4})")
LOG_LINES = 20_000
INHERITED = frozenset({"", "inherit"})
JOURNALED = frozenset({"", "journal", "journal+console", "syslog", "syslog+console"})
"""Values of StandardOutput and StandardError that lead to journald; syslog is journald's, too."""
IN_FILES = frozenset({"file", "append", "truncate"})
LOADED = ("--timestamp=us", "--value", "--property=UnitsLoadTimestamp")
"""When systemd has read its files for the last time; from 250 on."""
LARGEST_UNIT_FILE = 1 << 20
DOWN = frozenset({"inactive", "failed"})


class SystemdManager:
    """Controls units through ``systemctl``: one short process per call, 3 ms each.

    mask() and unmask() put up and lift a fence (see fence.py). For the shortest downtime of the service: mask, stop,
    work, unmask, start, and once it runs again remove_mask() and reload(). The first mask and the reload make systemd
    read all its units (0.1 s); nothing between them does.

    Args:
        prefix: of each command, for example ``("chroot", "/host")`` in the agent's pod.
        root: mount point of the node's root directory, for example ``/host``.
        timeout: seconds for one call.
    """

    def __init__(self, *, prefix: tuple[str, ...] = (), root: Path = Path("/"), timeout: float = 120.0) -> None:
        self._systemctl = Systemctl(prefix, timeout=timeout)
        self._root = root

    def status(self, unit: str) -> UnitStatus:
        shown = self._show(unit)
        starts = properties.commands_of("ExecStart", shown.get("ExecStart", ""))
        start = starts[0] if len(starts) == 1 else NOTHING
        found = UnitStatus(
            name=unit,
            load_state=shown.get("LoadState", "not-found"),
            active_state=shown.get("ActiveState", "inactive"),
            sub_state=shown.get("SubState", "dead"),
            main_pid=properties.number_of("MainPID", shown),
            kill_mode=shown.get("KillMode", ""),
            fragment_path=shown.get("FragmentPath", ""),
            result=shown.get("Result", ""),
            exit_status=properties.number_of("ExecMainStatus", shown),
            bound_by=_units_of(BINDINGS, shown),
            requires=(requires := _units_of(REQUIREMENTS, shown)),
            awaits=tuple(name for name in _units_of(("After",), shown) if name in requires),
            requisite=_units_of(REQUISITE, shown),
            startable=shown.get("CanStart") != "no",
            restarts=properties.number_of("NRestarts", shown),
            fenced=self._fence(unit).up() and self._holds_fence(unit, shown),
            program=start.program,
            command=properties.words_of(start),
            commands=(*starts, *(c for when in RUN for c in properties.commands_of(when, shown.get(when, "")))),
            drop_ins=properties.strings_of(shown.get("DropInPaths", "")),
            environment_files=properties.environment_files_of(
                shown.get("EnvironmentFiles") or shown.get("EnvironmentFile", "")
            ),
            started=properties.awake_time_of("ExecMainStartTimestampMonotonic", shown),
            start_line=start.line,
            environment=properties.assignments_of(shown.get("Environment", "")),
            unset=properties.assignments_of(shown.get("UnsetEnvironment", "")),
            started_at=properties.moment_of(shown.get("ExecMainStartTimestamp", "")),
            watchdog=properties.limit_of(shown.get("WatchdogUSec", "")),
            control_group=shown.get("ControlGroup", ""),
            output=output_of(
                shown.get("StandardOutput", ""), shown.get("StandardError", ""), shown.get("LogNamespace", "")
            ),
            log_files=tuple(
                f"{name}={shown[name]}" for name in ("StandardOutput", "StandardError") if shown.get(name) in IN_FILES
            ),
            search_path=shown.get("ExecSearchPath", ""),
            transient=shown.get("Transient") == "yes",
            ends_machine=endings_of(shown),
        )
        return replace(found, needs_reload=self._needs_reload(found, shown))

    def environment(self) -> dict[str, str]:
        shown = lines(self._systemctl.run("show-environment"))
        pairs = (properties.assignment_of(line).partition("=") for line in shown)
        return {name: value for name, _, value in pairs}

    def version(self) -> int:
        shown = self._systemctl.run("show", "--property=Version")
        if (found := VERSION.match(shown)) is None:
            raise StepFailed(f"cannot read the version of systemd in {shown[:100]!r}")
        return number(found[1]) or 0

    def devices(self) -> dict[str, UnitDevices]:
        return {name: properties.devices_of(shown) for name, shown in self._systemctl.show_all(SCOPES, DEVICES).items()}

    def scope_names(self) -> frozenset[str]:
        listed = self._systemctl.run("list-units", "--no-legend", "--full", "--plain", "--", SCOPES)
        return frozenset(word for word in words(listed) if word.endswith(".scope") and UNIT_NAME.fullmatch(word))

    def shuts_down(self) -> bool:
        """Report whether systemd is stopping everything, or logind is about to have it do so.

        Kubelets delay a shutdown by an inhibitor, and end their pods while logind waits (GracefulNodeShutdown, 1.21+).
        """
        if self._systemctl.says("systemctl", "is-system-running") == "stopping":
            return True
        # Without a session, these are the manager's own properties; systemd before 230 knows no ``--value``.
        shown = self._systemctl.says("loginctl", "show-session", "--property=PreparingForShutdown")
        return shown == "PreparingForShutdown=yes"

    def kill(self, unit: str) -> None:
        with suppress(StepFailed):
            self._systemctl.run("kill", "--signal=SIGKILL", _checked(unit))

    def start(self, unit: str, *, wait: bool = True) -> None:
        self._forget_failures(unit)
        self._systemctl.run("start", *(() if wait else ("--no-block",)), unit)

    def stop(self, unit: str, *, wait: bool = True) -> None:
        """Stop a unit and, with ``wait``, make sure that its main process is gone.

        Raises:
            StepFailed: the unit still runs, for example because something started it again.
        """
        self._systemctl.run("stop", *(() if wait else ("--no-block",)), _checked(unit))
        if not wait:
            return
        shown = self._show(unit)
        if shown.get("ActiveState", "inactive") not in DOWN or properties.number_of("MainPID", shown):
            raise StepFailed(
                f"cannot keep {unit} stopped because it is {shown.get('ActiveState')} again right after the stop; "
                f"find out what starts it: systemctl status {unit}"
            )
        # Otherwise systemd would list it as failed for ever, even once its file is removed.
        if shown.get("LoadState") == "not-found" or shown.get("ActiveState") == "failed":
            self._forget_failures(unit)

    def restart(self, unit: str, *, seconds: float) -> None:
        self._forget_failures(unit)
        self._systemctl.wait(seconds, "restart", unit)

    def prepare_mask(self, unit: str, look: Look) -> None:
        """Make systemd load the fence without putting it up, which saves 0.1 s in mask()."""
        fence = self._fence(unit)
        with translate_errors(f"cannot prepare the fence of {unit}"):
            fence.prepare()
            if fence.written() and self._holds_fence(unit, self._show(unit)):
                return
        look()  # before the write as well: a file that is not loaded would look like a foreign change of the unit
        with translate_errors(f"cannot prepare the fence of {unit}"):
            fence.write()
        self.reload(look)
        shown = self._show(unit)
        if not self._holds_fence(unit, shown):
            raise StepFailed(
                f"cannot fence {unit} because systemd ignores the drop-in {fence.drop_in} "
                f"(the unit is {shown.get('LoadState')}); look at: systemctl cat {unit}"
            )

    def mask(self, unit: str, look: Look) -> None:
        """Put up the fence. A running unit keeps running, but is not restarted when it ends."""
        self.prepare_mask(unit, look)
        with translate_errors(f"cannot fence {unit}"):
            self._fence(unit).put_up()

    def unmask(self, unit: str) -> None:
        """Lift the fence; its drop-in stays, so that it can be put up again at once."""
        with translate_errors(f"cannot lift the fence of {unit}"):
            self._fence(unit).take_down()

    def remove_mask(self, unit: str) -> None:
        """Remove the drop-in of a fence that is down."""
        with translate_errors(f"cannot remove the fence of {unit}"):
            self._fence(unit).remove()

    def log(self, unit: str, *, since: AwakeTime | None = None) -> tuple[str, ...]:
        """Return the unit's log since its last start; if it has LOG_LINES lines or more, only the newest, if at all."""
        invocation = self._systemctl.show(_checked(unit), ("InvocationID",)).get("InvocationID", "")
        if not invocation:
            return ()
        logged = lines(self._systemctl.journal(invocation, LOG_LINES))
        if len(logged) >= LOG_LINES:
            # Asked for later, so that the lines above go back at least as far.
            oldest = None if since is None else self._systemctl.oldest_of(invocation, LOG_LINES)
            if since is None or oldest is None or oldest >= since:
                return ()
        return tuple(filter(None, logged))

    def remembers_start(self, unit: str) -> bool:
        """Report whether the node's journal has anything from before the last start of a unit."""
        shown = self._systemctl.show(_checked(unit), ("ExecMainStartTimestamp",))
        started = properties.moment_of(shown.get("ExecMainStartTimestamp", ""))
        return started is not None and self._systemctl.journal_reaches(started)

    def reload(self, look: Look) -> None:
        """Run daemon-reload directly after a look. It takes 0.1 s, so avoid it while no kubelet runs."""
        look()
        self._systemctl.run("daemon-reload")

    def _needs_reload(self, unit: UnitStatus, shown: Mapping[str, str]) -> bool:
        """Report whether systemd would start the unit in another way once it reads its files again."""
        if self._has_unloaded_files(unit.name, shown):
            return True
        if shown.get("NeedDaemonReload") != "yes":
            return False
        try:
            return not say_what_is_loaded(unit, [*self._files_of(unit)])
        except OSError:  # a file that it has loaded is gone
            return True

    def _files_of(self, unit: UnitStatus) -> Iterator[ReadFile]:
        """Yield the unit file and all drop-ins as they are on disk."""
        loaded = properties.moment_of(self._systemctl.says("systemctl", "show", *LOADED))
        for path in filter(None, (unit.fragment_path, *unit.drop_ins)):
            file = resolve(self._root, PurePosixPath(path), follow_last=True)
            content = read_file(file, limit=LARGEST_UNIT_FILE)
            status = file.stat()  # after the content, so that a change in between counts as one
            changed = max(status.st_mtime, status.st_ctime)
            yield ReadFile(content=content, written=loaded is None or changed >= loaded)

    def _has_unloaded_files(self, unit: str, shown: Mapping[str, str]) -> bool:
        fragment, drop_ins = shown.get("FragmentPath", ""), shown.get("DropInPaths", "")
        with translate_errors(f"cannot look for files of {unit} that systemd has not read"):
            return shown.get("LoadState") == "loaded" and has_unloaded_files(self._root, unit, fragment, drop_ins)

    def _holds_fence(self, unit: str, shown: dict[str, str]) -> bool:
        # A masked unit has no drop-ins and needs none, since it cannot be started anyway.
        loaded = str(self._fence(unit).drop_in) in properties.strings_of(shown.get("DropInPaths", ""))
        return loaded or shown.get("LoadState") == "masked"

    def _forget_failures(self, unit: str) -> None:
        # This fails for a unit that is not loaded, which has no failures to reset.
        self._systemctl.attempt("reset-failed", _checked(unit))

    def _show(self, unit: str) -> dict[str, str]:
        return self._systemctl.show(_checked(unit), PROPERTIES)

    def _fence(self, unit: str) -> Fence:
        return Fence(_checked(unit), self._root)


def output_of(output: str, error: str, namespace: str) -> str:
    """Return the setting that keeps a service's standard error from the node's journal; empty if none does.

    A log namespace has a journald and a journal of its own.
    """
    setting, where = ("StandardOutput", output) if error in INHERITED else ("StandardError", error)
    if where not in JOURNALED:
        return f"{setting}={where}"
    return f"LogNamespace={namespace}" if namespace else ""


def endings_of(shown: Mapping[str, str]) -> tuple[str, ...]:
    """Return the settings with which systemd reboots or stops the machine, such as ``FailureAction=reboot``."""
    actions = (f"{name}={value}" for name in ACTIONS if (value := shown.get(name, "")) not in {"", "none"})
    units = (
        f"{name}={unit}"
        for name in TRIGGERS
        for unit in properties.strings_of(shown.get(name, ""))
        if ENDS_MACHINE.fullmatch(unit)
    )
    return (*actions, *units)


def _units_of(keys: Iterable[str], shown: Mapping[str, str]) -> tuple[str, ...]:
    return tuple(sorted({unit for key in keys for unit in properties.strings_of(shown.get(key, ""))}))


def _checked(unit: str) -> str:
    if not UNIT_NAME.fullmatch(unit):
        raise StepFailed(f"cannot act on {unit!r} because it is not the full name of a unit, such as kubelet.service")
    return unit
