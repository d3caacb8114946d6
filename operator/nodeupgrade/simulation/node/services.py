"""The node's service manager: the kubelet's unit, the runtime's, and the dead-man timer."""

import shlex
from collections.abc import MutableMapping
from dataclasses import dataclass

from nodeupgrade.domain.errors import StepFailed
from nodeupgrade.domain.node import rescue, shim_limit
from nodeupgrade.domain.node.host import UnitStatus
from nodeupgrade.engine.node import LEASE_KEEPER
from nodeupgrade.simulation.node.calls import Calls
from nodeupgrade.simulation.node.kubelet import PROGRAM, SimulatedKubelet
from nodeupgrade.simulation.node.runtime import RAISED_SECONDS, SHIMS_GET_SECONDS, SimulatedRuntime
from nodeupgrade.simulation.node.timeline import Timeline

KUBELET_UNIT = "kubelet.service"
RUNTIME_UNIT = "containerd.service"
DROP_IN = "/etc/systemd/system/kubelet.service.d/99-nodeupgrade.conf"
RESTART_SECONDS = 10.0
RUNTIME_COMMAND = ("/usr/bin/containerd",)
CANNOT_EXECUTE = 203
"""EXIT_EXEC of systemd.exec(5)."""
IN_MEMORY = frozenset({rescue.TIMER, LEASE_KEEPER})


@dataclass(slots=True)
class KubeletUnit:
    """What systemd has in memory about the kubelet's unit; all of it is gone after a reboot.

    Attributes:
        arguments: as of the last time unit files were read.
        waiting: it exited and is going to be restarted automatically.
    """

    arguments: tuple[str, ...]
    fenced: bool = False
    waiting: bool = False
    restarts: int = 0
    result: str = "success"


class SimulatedServices:
    """Implements ports.services.ServiceManager; the kubelet's unit has ``Restart=always``.

    Attributes:
        arguments: the kubelet's arguments as its own unit file has them.
        active: names of other active units, such as timers.
        lost: units whose files lay in memory when the node rebooted.
        unstartable: units whose program systemd cannot execute, and that it starts again and again.
        runtime_command: how the runtime is started, as of the last time unit files were read.
    """

    def __init__(
        self,
        *,
        disk: MutableMapping[str, bytes],
        kubelet: SimulatedKubelet,
        runtime: SimulatedRuntime,
        timeline: Timeline,
        calls: Calls,
    ) -> None:
        self.arguments: tuple[str, ...] = ()
        self.active: set[str] = set()
        self.lost: set[str] = set()
        self.unstartable: set[str] = set()
        self.unit = KubeletUnit(())
        self.runtime_command: tuple[str, ...] = RUNTIME_COMMAND
        self._disk = disk
        self._kubelet = kubelet
        self._runtime = runtime
        self._timeline = timeline
        self._calls = calls
        kubelet.exited = self._kubelet_exited

    def status(self, unit: str) -> UnitStatus:
        """Look at a unit."""
        self._calls.read(f"services.status {unit}")
        if unit == KUBELET_UNIT:
            return self._kubelet_status()
        active = unit in self.active or unit == RUNTIME_UNIT
        if active and unit in self.unstartable:
            return self._unstartable_status(unit)
        expected = self._expected_exit(unit) if active else None
        return UnitStatus(
            name=unit,
            load_state="not-found" if unit in self.lost else "loaded",
            active_state="active" if active else "inactive",
            sub_state="dead" if not active else "running" if expected is None else "exited",
            exit_status=expected or 0,
            main_pid=1 if unit == RUNTIME_UNIT else 0,
            kill_mode="process",
            started=self._runtime.started if unit == RUNTIME_UNIT else 0.0 if active else None,
            command=self.runtime_command if unit == RUNTIME_UNIT else (),
        )

    def environment(self) -> dict[str, str]:
        """What every service is given."""
        return {"PATH": "/usr/bin:/bin"}

    def log(self, unit: str) -> tuple[str, ...]:
        """What the kubelet wrote; of the runtime, whether it writes at all."""
        self._calls.read(f"services.log {unit}")
        if unit == KUBELET_UNIT:
            return tuple(self._kubelet.wrote)
        if unit != RUNTIME_UNIT:
            return ("Permission denied",) if unit in self.unstartable else ()
        return () if self._runtime.troubles.silent else ("level=info",)

    def start(self, unit: str, *, wait: bool = True) -> None:  # noqa: ARG002 - jobs end at once here
        """Start a unit."""
        with self._calls.effect(f"services.start {unit}"):
            if unit != KUBELET_UNIT:
                self.lost.discard(unit)
                self.active.add(unit)
                return
            if self.unit.fenced:
                raise StepFailed(f"cannot start {unit} because it is masked")
            if self._kubelet.process is None:
                self.unit.restarts = 0
                self.start_kubelet()

    def stop(self, unit: str) -> None:
        """Stop a unit."""
        with self._calls.effect(f"services.stop {unit}"):
            if unit == KUBELET_UNIT:
                self._kubelet.stop()
                self.unit.waiting = False
            if unit in self.lost:
                raise StepFailed(f"cannot stop {unit} because it is not loaded")
            self.active.discard(unit)

    def restart(self, unit: str) -> None:
        """Restart the runtime; nothing else is ever restarted."""
        with self._calls.effect(f"services.restart {unit}"):
            if unit != RUNTIME_UNIT:
                raise StepFailed(f"cannot restart {unit} because only {RUNTIME_UNIT} is expected to be")
            if (missing := self.missing_config) is not None:
                raise StepFailed(f"cannot restart {unit} because there is no {missing}")
            raised = str(shim_limit.CONFIG) in self.runtime_command
            self._runtime.restart(shims_get=RAISED_SECONDS if raised else SHIMS_GET_SECONDS)

    @property
    def missing_config(self) -> str | None:
        """The configuration without which the runtime could not be started just now, if it is not there."""
        named = self.runtime_command[2] if len(self.runtime_command) > 1 else None
        return named if named is not None and named not in self._disk else None

    def prepare_mask(self, unit: str) -> None:
        """Nothing is slow here."""
        with self._calls.effect(f"services.prepare_mask {unit}"):
            return

    def mask(self, unit: str) -> None:
        """Put up the fence; a running unit runs on."""
        with self._calls.effect(f"services.mask {unit}"):
            self.unit.fenced = True

    def unmask(self, unit: str) -> None:
        """Lift the fence."""
        with self._calls.effect(f"services.unmask {unit}"):
            self.unit.fenced = False

    def reload(self) -> None:
        """Read unit files."""
        with self._calls.effect("services.reload"):
            self.read_unit_files()

    def read_unit_files(self) -> None:
        """Take command lines from the drop-ins, if there are any, or from the units."""
        overridden = self._command(DROP_IN)
        self.unit.arguments = self.arguments if overridden is None else overridden[1:]
        self.runtime_command = self._command(str(shim_limit.drop_in_path(RUNTIME_UNIT))) or RUNTIME_COMMAND

    def start_kubelet(self) -> None:
        """Run the kubelet as its unit says."""
        self.unit.waiting = False
        self._kubelet.start(self.unit.arguments)

    def power_on(self) -> None:
        """Forget everything that only systemd's memory held."""
        self.lost |= self.active & IN_MEMORY
        self.active.clear()
        self.unit = KubeletUnit(())
        self.read_unit_files()

    def _command(self, path: str) -> tuple[str, ...] | None:
        """The command line in a drop-in; ``None`` if there is no such file, or no command line in it."""
        lines = self._disk.get(path, b"").decode().splitlines()
        commands = [line.removeprefix("ExecStart=") for line in lines if line.startswith("ExecStart=")]
        return tuple(shlex.split(commands[-1])) if commands else None

    def _expected_exit(self, unit: str) -> int | None:
        """With which status the program of a oneshot service ends if all is well; ``None`` for other units."""
        lines = self._disk.get(f"/run/systemd/system/{unit}", b"").decode().splitlines()
        if "Type=oneshot" not in lines:
            return None
        return next((int(line.partition("=")[2]) for line in lines if line.startswith("SuccessExitStatus=")), 0)

    def _unstartable_status(self, unit: str) -> UnitStatus:
        """What systemd 252 shows of a program that it may not execute; one with a dash before it is merely skipped."""
        skipped = self._expected_exit(unit) is not None
        return UnitStatus(
            name=unit,
            load_state="loaded",
            active_state="active" if skipped else "activating",
            sub_state="exited" if skipped else "auto-restart",
            main_pid=0,
            result="success" if skipped else "exit-code",
            exit_status=0 if skipped else CANNOT_EXECUTE,
            started=0.0,
        )

    def _kubelet_status(self) -> UnitStatus:
        process = self._kubelet.process
        state = ("active", "running") if process else ("activating", "auto-restart") if self.unit.waiting else None
        active, sub = state or ("inactive" if self.unit.result == "success" else "failed", "dead")
        return UnitStatus(
            name=KUBELET_UNIT,
            load_state="masked" if self.unit.fenced else "loaded",
            active_state=active,
            sub_state=sub,
            main_pid=process.pid if process else 0,
            kill_mode="process",
            result=self.unit.result,
            restarts=self.unit.restarts,
            fenced=self.unit.fenced,
            program=PROGRAM,
            start_line=" ".join((PROGRAM, *self.unit.arguments)),
            started=process.started if process else None,
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
