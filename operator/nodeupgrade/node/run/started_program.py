"""Check that a started kubelet runs the right program: it may be exchanged after the last check before the start."""

from dataclasses import dataclass

from nodeupgrade.api.reasons import Reason
from nodeupgrade.errors import StepFailed
from nodeupgrade.node.host.systemd.units import UnitStatus
from nodeupgrade.node.node import Node
from nodeupgrade.node.plan.plan import RunPlan

LOOK_AT_PROGRAM_SECONDS = 0.03
"""A kubelet takes a third of a second before it does anything to a container."""
CONFIRM_SECONDS = 20.0
"""How long systemd may take from the start to the kubelet's program, after commands of the unit such as ExecStartPre.
Its health endpoint may answer before: anybody may listen there while no kubelet does.
"""


@dataclass(slots=True)
class ProgramWatch:
    """Checks which program a newly started kubelet runs, until it is known to be the right one."""

    node: Node
    plan: RunPlan
    stamp: str | None  # stamp of the right program; None if there is nothing to compare with
    _next: float = 0.0
    _seen: bool = False

    def __call__(self) -> None:
        """Check, if the next check is due.

        Raises:
            StepFailed: another program runs.
        """
        if not self._seen and self.node.clock.monotonic() >= self._next:
            self._look(last=False)
            self._next = self.node.clock.monotonic() + LOOK_AT_PROGRAM_SECONDS

    def confirm(self) -> None:
        """Wait until the right program is seen, unless it was already.

        Raises:
            StepFailed: another program runs, or it cannot be determined which.
        """
        end = self.node.clock.awake() + CONFIRM_SECONDS
        while not self._seen and self.node.clock.awake() < end:
            self.node.clock.sleep(LOOK_AT_PROGRAM_SECONDS)
            self._look(last=False)
        if not self._seen:
            self._look(last=True)

    def _look(self, *, last: bool) -> None:
        unit = self.node.services.status(self.plan.swap.unit)
        found = self.node.kubelet.program_stamp(unit.main_pid)
        self._seen = self.stamp is None or found == self.stamp
        if self._seen or not (last or (found is not None and self._starts_directly(unit))):
            return
        runs = self.node.kubelet.executable(unit.main_pid) if found is not None else None
        raise StepFailed(
            f"{unit.name} runs {runs or 'an unknown program'}, which is not the planned kubelet; find out what puts it "
            "there",
            reason=Reason.DIGEST_MISMATCH,
        )

    def _starts_directly(self, unit: UnitStatus) -> bool:
        """Report whether the unit starts the kubelet itself, not a program that then executes the kubelet."""
        planned = self.plan.kubelet_start
        return planned is None or planned.program == self.plan.swap.path or unit.program != planned.program
