"""The service manager of one node."""

from dataclasses import dataclass
from typing import Protocol


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
        bound_by: units that stop or restart with this one (BoundBy, RequiredBy, ConsistsOf).
        restarts: automatic restarts since the unit was last started by hand (NRestarts).
        fenced: our mask (see ServiceManager.mask) is in force.
        program: first word of ExecStart, for example ``/usr/bin/kubelet``; empty if there are several or none.
    """

    name: str
    load_state: str
    active_state: str
    sub_state: str
    main_pid: int
    kill_mode: str = "control-group"
    fragment_path: str = ""
    result: str = "success"
    bound_by: tuple[str, ...] = ()
    restarts: int = 0
    fenced: bool = False
    program: str = ""

    @property
    def running(self) -> bool:
        """Whether a main process runs now."""
        return self.active_state in {"active", "reloading"} and self.main_pid > 0


class ServiceManager(Protocol):
    """Controls units. Every method is idempotent, bounded in time and raises StepFailed when it does not take."""

    def status(self, unit: str) -> UnitStatus:
        """Look at a unit; an unknown unit has load_state ``not-found``."""
        ...

    def start(self, unit: str, *, wait: bool = True) -> None:
        """Start a unit, after forgetting earlier failures; ``wait`` for the job to end."""
        ...

    def stop(self, unit: str) -> None:
        """Stop a unit and wait until no process of its main service is left."""
        ...

    def restart(self, unit: str) -> None:
        """Restart a unit, after forgetting earlier failures, and wait for the job to end."""
        ...

    def mask(self, unit: str) -> None:
        """Forbid starting until unmask or reboot (a runtime mask)."""
        ...

    def unmask(self, unit: str) -> None:
        """Lift a runtime mask; an administrator's persistent mask is not touched."""
        ...

    def reload(self) -> None:
        """Make systemd read unit files again."""
        ...
