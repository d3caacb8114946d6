"""Simulates a kubelet that starts, and that can exit."""

from dataclasses import dataclass, field
from typing import cast

from nodeupgrade.api.values import AwakeTime
from nodeupgrade.node.host.systemd.units import UnitStatus
from nodeupgrade.node.node import Node

UNIT, LIMIT = "kubelet.service", 60.0


@dataclass
class Starting:
    """A kubelet that dies at these moments, is started again a while after each, and is well from one on."""

    dies: tuple[float, ...]
    pause: float = 10.0  # seconds from each death to the next start
    well_from: float = 1e9
    now: float = field(default=0.0)
    wrote: tuple[str, ...] = ()

    def awake(self) -> AwakeTime:
        return AwakeTime(self.now)

    def sleep(self, seconds: float) -> None:
        self.now += seconds

    def diverted(self) -> bool:
        return False

    def healthy(self) -> bool:
        return self.now >= self.well_from

    def log(self, unit: str, *, since: AwakeTime | None = None) -> tuple[str, ...]:
        """What it wrote before it died, in the log of that start, a moment later."""
        assert unit == UNIT
        ended = any(death + 2 <= self.now < death + self.pause for death in self.dies)
        return self.wrote if ended or not self.dies else ()

    def status(self, unit: str) -> UnitStatus:
        waiting = any(death <= self.now < death + self.pause for death in self.dies)
        starts = [0.0, *(again for death in self.dies if (again := death + self.pause) <= self.now)]
        restarts = len(starts) - 1
        return UnitStatus(
            name=unit,
            load_state="loaded",
            active_state="activating" if waiting else "active",
            sub_state="auto-restart" if waiting else "running",
            main_pid=0 if waiting else 100 + restarts,
            restarts=restarts,
            result="exit-code" if waiting else "success",
            started=AwakeTime(starts[-1]),
        )


def node_of(kubelet: Starting) -> Node:
    return Node(
        runtime=cast("object", None),  # type: ignore[arg-type]  # nothing here asks it
        files=cast("object", None),  # type: ignore[arg-type]  # likewise
        services=kubelet,  # type: ignore[arg-type]  # only status() and log() are asked
        kubelet=kubelet,  # type: ignore[arg-type]  # only these two are asked
        clock=kubelet,  # type: ignore[arg-type]  # only what is defined above
        shield=cast("object", None),  # type: ignore[arg-type]  # nothing here asks it
        packages=cast("object", None),  # type: ignore[arg-type]  # likewise
    )


ENDED = 'E1126 16:07:00.395425    9295 run.go:74] "command failed" err="unable to load bootstrap kubeconfig"'

WROTE = "kubelet.service; the kubelet wrote: "
