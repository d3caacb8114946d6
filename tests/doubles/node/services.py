"""The node's service manager: the kubelet's unit, the runtime's, and the dead-man timer."""

import shlex
from collections.abc import MutableMapping
from dataclasses import dataclass, field, replace
from functools import cache
from math import floor

from nodeupgrade.api.values import AwakeTime
from nodeupgrade.errors import StepFailed
from nodeupgrade.node.host.device_rules import UnitDevices
from nodeupgrade.node.host.systemd import fence
from nodeupgrade.node.host.systemd.services import Look
from nodeupgrade.node.host.systemd.units import UnitCommand, UnitStatus
from nodeupgrade.node.node import LEASE_KEEPER, SHIELD
from nodeupgrade.node.rescue import script
from tests.doubles.node.calls import Calls
from tests.doubles.node.containers.runtime import MAIN_PID, SimulatedRuntime
from tests.doubles.node.containers.runtime_restart import RUNTIME_PROGRAM, RUNTIME_UNIT
from tests.doubles.node.kubelet import PROGRAM, SimulatedKubelet, is_program
from tests.doubles.node.shield import SimulatedShield
from tests.doubles.node.storage.reading import readable
from tests.doubles.node.timeline import Timeline

KUBELET_UNIT = "kubelet.service"
FLAG = str(fence.flag(KUBELET_UNIT))
FENCE_DROP_IN = str(fence.drop_in(KUBELET_UNIT))
RESTART_SECONDS = 10.0
RUNTIME_COMMAND = (RUNTIME_PROGRAM,)
UNIT_FILES = {
    KUBELET_UNIT: f"[Service]\nEnvironmentFile=-/etc/default/kubelet\nExecStart={PROGRAM} $KUBELET_FLAGS\n".encode(),
    RUNTIME_UNIT: f"[Service]\nExecStartPre=-/sbin/modprobe overlay\nExecStart={RUNTIME_PROGRAM}\n".encode(),
}
UNIT_DIRECTORY = "/lib/systemd/system"
DROP_IN_DIRECTORIES = ("/etc/systemd/system", "/run/systemd/system")
CANNOT_EXECUTE = 203
"""EXIT_EXEC of systemd.exec(5)."""
IN_MEMORY = frozenset({script.TIMER, LEASE_KEEPER, SHIELD})


@dataclass(slots=True)
class KubeletUnit:
    """What systemd holds in memory about the kubelet's unit; a reboot clears it."""

    disk: MutableMapping[str, bytes]  # where the fence is
    arguments: tuple[str, ...] = ()  # as of the last time unit files were read
    program: str = PROGRAM  # as of the last time unit files were read
    waiting: bool = False  # it exited and is about to be restarted automatically
    restarts: int = 0
    result: str = "success"

    @property
    def fenced(self) -> bool:
        """Whether the flag of the fence is in its place, which anybody may remove."""
        return FLAG in self.disk

    @fenced.setter
    def fenced(self, up: bool) -> None:
        self.disk.pop(FLAG, None)
        if up:
            self.disk[FLAG] = b""


@dataclass(frozen=True, slots=True)
class LoadedFiles:
    """The files of one unit, by path, with their content when they were read."""

    files: dict[str, bytes] = field(default_factory=dict)

    def commands(self) -> tuple[UnitCommand, ...]:
        """Return the commands that systemd runs; an empty assignment clears the ones before it."""
        return _commands(self._text)

    def environment_files(self) -> tuple[tuple[str, bool], ...]:
        """Files with further arguments, and whether they are required."""
        return _environment_files(self._text)

    @property
    def _text(self) -> bytes:
        return b"\n".join(self.files.values())


# A status is asked for many times in each second of a run, and what the same lines say never changes.


@cache
def _commands(text: bytes) -> tuple[UnitCommand, ...]:
    found: list[UnitCommand] = []
    for line in text.decode(errors="replace").splitlines():
        when, _, value = line.partition("=")
        if when.startswith("Exec"):
            words = value.removeprefix("-")
            found = [command for command in found if value or command.when != when]
            found += [
                UnitCommand(when=when, program=words.split(" ")[0], line=words, may_fail=value.startswith("-"))
                for _ in range(1 if value else 0)
            ]
    return tuple(found)


@cache
def _environment_files(text: bytes) -> tuple[tuple[str, bool], ...]:
    named = [
        line.partition("=")[2]
        for line in text.decode(errors="replace").splitlines()
        if line.startswith("EnvironmentFile=")
    ]
    return tuple((name.removeprefix("-"), not name.startswith("-")) for name in named)


@cache
def _words(line: str) -> tuple[str, ...]:
    return tuple(shlex.split(line))


class SimulatedServices:
    """Implements node.host.systemd.services.ServiceManager; the kubelet's unit has ``Restart=always``.

    Attributes:
        arguments: the kubelet's arguments in its own unit file.
        active: names of other active units, such as timers.
        shutting_down: the node is shutting down, and its kubelet ends its pods.
        lost: units whose files were in memory when the node rebooted, or were removed before systemd read its files.
        unstartable: units whose program systemd cannot execute and keeps restarting.
        scopes: what systemd knows of the devices of containers, by their unit.
        loaded_beside: the scopes that were there when the run made systemd read its files: what it then took is theirs.
        stops: what a stop of a unit ends besides its main process, by its name: KillMode, and other units.
        requires: what a unit requires, and waits for when it is started, by its name.
        requisite: the units that are not started for one which requires them.
        states: the active states of other units, where these are neither active nor inactive.
        runtime_command: the runtime's command line, as of the last time unit files were read.
    """

    def __init__(
        self,
        *,
        disk: MutableMapping[str, bytes],
        kubelet: SimulatedKubelet,
        runtime: SimulatedRuntime,
        shield: SimulatedShield,
        timeline: Timeline,
        calls: Calls,
    ) -> None:
        self.arguments: tuple[str, ...] = ()
        self.active: set[str] = set()
        self.shutting_down = False
        self.lost: set[str] = set()
        self.unstartable: set[str] = set()
        self.scopes: dict[str, UnitDevices] = {}
        self.loaded_beside: list[str] = []
        self.stops: dict[str, tuple[str, tuple[str, ...]]] = {}
        self.requires: dict[str, tuple[str, ...]] = {}
        self.requisite: set[str] = set()
        self.states: dict[str, str] = {}
        self.unit = KubeletUnit(disk)
        self.runtime_command: tuple[str, ...] = RUNTIME_COMMAND
        self._loaded = dict.fromkeys(UNIT_FILES, LoadedFiles())
        self._disk = disk
        self._kubelet = kubelet
        self._runtime = runtime
        self._shield = shield
        self._timeline = timeline
        self._calls = calls
        kubelet.exited = self._kubelet_exited

    def status(self, unit: str) -> UnitStatus:
        """Return the status of a unit."""
        self._calls.read(f"services.status {unit}")
        if unit in {KUBELET_UNIT, RUNTIME_UNIT}:
            kill_mode, bound = self.stops.get(unit, ("process", ()))
            found = self._kubelet_status() if unit == KUBELET_UNIT else self._runtime_status()
            return self._with_requirements(replace(found, kill_mode=kill_mode, bound_by=bound))
        active = unit in self.active
        if active and unit in self.unstartable:
            return self._unstartable_status(unit)
        expected = self._expected_exit(unit) if active else None
        found = UnitStatus(
            name=unit,
            load_state="not-found" if unit in self.lost else "loaded",
            active_state=self.states.get(unit, "active" if active else "inactive"),
            sub_state="dead" if not active else "running" if expected is None else "exited",
            exit_status=expected or 0,
            main_pid=0,
            kill_mode="process",
            bound_by=self.stops.get(unit, ("process", ()))[1],
            started=self._timeline.awake_at(0.0) if active else None,
        )
        return self._with_requirements(found)

    def _with_requirements(self, found: UnitStatus) -> UnitStatus:
        requires = self.requires.get(found.name, ())
        requisite = tuple(name for name in requires if name in self.requisite)
        return replace(found, requires=requires, awaits=requires, requisite=requisite)

    def _runtime_status(self) -> UnitStatus:
        up = not (self._runtime.broken or self._runtime.stopped)
        loaded = self._loaded[RUNTIME_UNIT]
        return UnitStatus(
            name=RUNTIME_UNIT,
            load_state=self._load_state(RUNTIME_UNIT),
            active_state="active" if up else "inactive" if self._runtime.stopped else "failed",
            sub_state="running" if up else "dead",
            main_pid=MAIN_PID if up else 0,
            fragment_path=f"{UNIT_DIRECTORY}/{RUNTIME_UNIT}",
            started=self._timeline.awake_at(self._runtime.started),
            started_at=floor(self._timeline.wall.timestamp() - self._timeline.monotonic + self._runtime.started),
            program=self.runtime_command[0],
            command=self.runtime_command,
            commands=loaded.commands(),
            drop_ins=self._drop_ins(RUNTIME_UNIT, loaded),
            environment_files=loaded.environment_files(),
            needs_reload=loaded.files != self._files(RUNTIME_UNIT),
        )

    def shuts_down(self) -> bool:
        """Whether the node is shutting down."""
        self._calls.read("services.shuts_down")
        return self.shutting_down

    def environment(self) -> dict[str, str]:
        """What every service is given."""
        return {"PATH": "/usr/bin:/bin"}

    def version(self) -> int:
        """What the nodes of the lab have."""
        return 252

    def devices(self) -> dict[str, UnitDevices]:
        """What ``scopes`` says."""
        self._calls.read("services.devices")
        return dict(self.scopes)

    def scope_names(self) -> frozenset[str]:
        """The names in ``scopes``."""
        self._calls.read("services.scope_names")
        return frozenset(self.scopes)

    def log(self, unit: str, *, since: AwakeTime | None = None) -> tuple[str, ...]:
        """The log of a unit: what the kubelet wrote; for the runtime, whether it logs at all."""
        self._calls.read(f"services.log {unit}")
        if unit == KUBELET_UNIT:
            return tuple(self._kubelet.wrote)
        if unit != RUNTIME_UNIT:
            return ("Permission denied",) if unit in self.unstartable else ()
        troubles, started = self._runtime.troubles, self.status(KUBELET_UNIT).started
        too_long = troubles.talkative and (since is None or started is None or since < started)
        return () if troubles.silent or too_long else ("level=info", *self._runtime.troubles.wrote)

    def remembers_start(self, unit: str) -> bool:
        """Whether nobody has filled the journal."""
        self._calls.read(f"services.remembers_start {unit}")
        return not self._runtime.troubles.forgotten

    def start(self, unit: str, *, wait: bool = True) -> None:
        """Start a unit."""
        with self._calls.effect(f"services.start {unit}"):
            if unit in self.lost:
                raise StepFailed(f"cannot start {unit} because it is not found")
            if unit == SHIELD:
                self._shield.start()
            if unit == RUNTIME_UNIT:
                self._start_runtime(unit)
                return
            if unit != KUBELET_UNIT:
                self.active.add(unit)
                return
            if self.unit.fenced:
                raise StepFailed(f"cannot start {unit} because it is masked")
            if not self._is_loadable(unit):
                raise StepFailed(f"cannot start {unit} because it has no command that could be run")
            if self._kubelet.process is None:
                self.unit.restarts = 0
                self.start_kubelet()

    def kill(self, unit: str) -> None:
        """Kill a unit's processes."""
        with self._calls.effect(f"services.kill {unit}"):
            self.active.discard(unit)

    def stop(self, unit: str, *, wait: bool = True) -> None:
        """Stop a unit."""
        with self._calls.effect(f"services.stop {unit}"):
            if unit == KUBELET_UNIT:
                self._kubelet.stop()
                self.unit.waiting = False
            if unit == SHIELD:
                self._shield.stop()
            if unit in self.lost and unit not in self.active:
                raise StepFailed(f"cannot stop {unit} because it is not loaded")
            self.active.discard(unit)

    def restart(self, unit: str, *, seconds: float) -> None:
        """Restart the runtime; nothing else is ever restarted."""
        with self._calls.effect(f"services.restart {unit}"):
            if unit != RUNTIME_UNIT:
                raise StepFailed(f"cannot restart {unit} because only {RUNTIME_UNIT} is expected to be")
            self._start_runtime(unit)
            self._timeline.advance(min(seconds, self._runtime.troubles.starts_in))

    def _start_runtime(self, unit: str) -> None:
        if (missing := self.missing_config) is not None:
            self._runtime.broken = True
            raise StepFailed(f"cannot start {unit} because there is no {missing}")
        if not self._is_loadable(RUNTIME_UNIT):
            raise StepFailed(f"cannot start {unit} because it has no command that could be run")
        if readable(self._disk, self.runtime_command[0]) is None:
            self._runtime.broken = True
            raise StepFailed(f"cannot start {unit} because its program cannot be executed")
        self._runtime.restart(words=self.runtime_command)
        self._shield.runtime_restarted()

    @property
    def missing_config(self) -> str | None:
        """A file that the runtime needs to start and that does not exist; ``None`` if nothing is missing."""
        environment = self._loaded[RUNTIME_UNIT].environment_files()
        needed = (*self.runtime_command[2:3], *(name for name, required in environment if required))
        return next((name for name in needed if name not in self._disk), None)

    def prepare_mask(self, unit: str, look: Look) -> None:
        """Make systemd load the fence's drop-in, unless it has."""
        with self._calls.effect(f"services.prepare_mask {unit}"):
            self._load_fence(unit, look)

    def mask(self, unit: str, look: Look) -> None:
        """Set up the fence; a running unit keeps running."""
        with self._calls.effect(f"services.mask {unit}"):
            self._load_fence(unit, look)
            self.unit.fenced = True

    def _load_fence(self, unit: str, look: Look) -> None:
        if FENCE_DROP_IN not in self._disk or FENCE_DROP_IN not in self._loaded[unit].files:
            look()
            self._disk[FENCE_DROP_IN] = fence.drop_in_text(unit).encode()
            self._read_again()

    def unmask(self, unit: str) -> None:
        """Lift the fence."""
        with self._calls.effect(f"services.unmask {unit}"):
            self.unit.fenced = False

    def remove_mask(self, unit: str) -> None:
        """Remove the drop-in of a fence that is down."""
        with self._calls.effect(f"services.remove_mask {unit}"):
            if not self.unit.fenced:
                self._disk.pop(FENCE_DROP_IN, None)

    def lose(self, *units: str) -> None:
        """Somebody removes the files of units and has systemd read its files: services run on, timers fail."""
        self.lost.update(units)
        self.active -= {unit for unit in units if unit.endswith(".timer")}

    def reload(self, look: Look) -> None:
        """Read unit files."""
        look()
        with self._calls.effect("services.reload"):
            self._read_again()

    def _read_again(self) -> None:
        self.loaded_beside += self.scopes
        self.read_unit_files()

    def read_unit_files(self) -> None:
        """Take command lines from the units and their drop-ins; the kubelet's variable stands for its arguments."""
        self.lost = {unit for unit in self.lost if not any(f"{at}/{unit}" in self._disk for at in DROP_IN_DIRECTORIES)}
        self._loaded = {unit: LoadedFiles(self._files(unit)) for unit in UNIT_FILES}
        program, *arguments = self._command(KUBELET_UNIT)
        self.unit.program = program
        self.unit.arguments = self.arguments if arguments == ["$KUBELET_FLAGS"] else tuple(arguments)
        self.runtime_command = self._command(RUNTIME_UNIT)

    def start_kubelet(self, *, examined: bool = True) -> None:
        """Run the kubelet as its unit says, after its ExecStartPre commands; only copying has an effect here."""
        self.unit.waiting = False
        for command in self._loaded[KUBELET_UNIT].commands():
            match _words(command.line):
                case ["/bin/cp", source, target] if command.when == "ExecStartPre":
                    self._disk[target] = self._disk[source]
        if not is_program(readable(self._disk, self.unit.program)):
            self._kubelet_exited()
            return
        self._kubelet.start(self.unit.arguments, self.unit.program, examined=examined)

    def power_on(self) -> None:
        """Forget everything that only systemd's memory held."""
        self.lost |= self.active & IN_MEMORY
        self.active.clear()
        self.shutting_down = False
        self.unit = KubeletUnit(self._disk)
        self.read_unit_files()

    def _command(self, unit: str) -> tuple[str, ...]:
        """The command line of a unit, as loaded; of one that has none, that nothing can be run."""
        lines = [c.line for c in self._loaded[unit].commands() if c.when == "ExecStart"]
        return _words(lines[0]) if len(lines) == 1 else ("",)

    def _is_loadable(self, unit: str) -> bool:
        """Whether a unit has a file, and one command to run; a file that has come since is read."""
        if self._load_state(unit) != "loaded":
            self.read_unit_files()
        return self._load_state(unit) == "loaded"

    def _load_state(self, unit: str) -> str:
        if f"{UNIT_DIRECTORY}/{unit}" not in self._loaded[unit].files:
            return "not-found"
        return "loaded" if self._command(unit) != ("",) else "bad-setting"

    def _files(self, unit: str) -> dict[str, bytes]:
        """The files of a unit on the disk: its own, and its drop-ins sorted by name."""
        directories = {f"{directory}/{unit}.d" for directory in DROP_IN_DIRECTORIES}
        # Called for every status, so it avoids a path object for each of the node's files.
        split = (path.rpartition("/") for path in self._disk if path.endswith(".conf"))
        found = sorted((name, directory) for directory, _, name in split if directory in directories)
        paths = [f"{UNIT_DIRECTORY}/{unit}", *(f"{directory}/{name}" for name, directory in found)]
        return {path: data for path in paths if (data := readable(self._disk, path)) is not None}

    def _drop_ins(self, unit: str, loaded: LoadedFiles) -> tuple[str, ...]:
        return tuple(path for path in loaded.files if path != f"{UNIT_DIRECTORY}/{unit}")

    def _expected_exit(self, unit: str) -> int | None:
        """Return the exit status that a oneshot service has on success; ``None`` for other units."""
        lines = (readable(self._disk, f"/run/systemd/system/{unit}") or b"").decode(errors="replace").splitlines()
        if "Type=oneshot" not in lines:
            return None
        return next((int(line.partition("=")[2]) for line in lines if line.startswith("SuccessExitStatus=")), 0)

    def _unstartable_status(self, unit: str) -> UnitStatus:
        """Return what systemd 252 shows for a program that it may not execute; one with a dash before it is skipped."""
        skipped = self._expected_exit(unit) is not None
        return UnitStatus(
            name=unit,
            load_state="loaded",
            active_state="active" if skipped else "activating",
            sub_state="exited" if skipped else "auto-restart",
            main_pid=0,
            result="success" if skipped else "exit-code",
            exit_status=0 if skipped else CANNOT_EXECUTE,
            started=self._timeline.awake_at(0.0),
        )

    def _kubelet_status(self) -> UnitStatus:
        process, loaded = self._kubelet.process, self._loaded[KUBELET_UNIT]
        state = ("active", "running") if process else ("activating", "auto-restart") if self.unit.waiting else None
        active, sub = state or ("inactive" if self.unit.result == "success" else "failed", "dead")
        return UnitStatus(
            name=KUBELET_UNIT,
            load_state="masked" if self.unit.fenced else self._load_state(KUBELET_UNIT),
            active_state=active,
            sub_state=sub,
            main_pid=process.pid if process else 0,
            control_group=f"/system.slice/{KUBELET_UNIT}" if process else "",
            result=self.unit.result,
            restarts=self.unit.restarts,
            fenced=self.unit.fenced,
            fragment_path=f"{UNIT_DIRECTORY}/{KUBELET_UNIT}",
            program=self.unit.program,
            commands=loaded.commands(),
            drop_ins=self._drop_ins(KUBELET_UNIT, loaded),
            environment_files=loaded.environment_files(),
            needs_reload=loaded.files != self._files(KUBELET_UNIT),
            start_line=" ".join((self.unit.program, *self.unit.arguments)),
            started=self._timeline.awake_at(process.started) if process else None,
        )

    def _kubelet_exited(self) -> None:
        self.unit.result = "exit-code"
        if self.unit.fenced:
            return
        self.unit.waiting = True

        def restart() -> None:
            if self.unit.waiting and not self.unit.fenced:
                self.unit.restarts += 1
                self.start_kubelet()

        self._timeline.after(RESTART_SECONDS, restart)
