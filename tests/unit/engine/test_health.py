"""When hope for a starting kubelet ends: early for a new one that keeps dying, in the end for the old one."""

from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import cast

import pytest

from nodeupgrade.api.reasons import Reason
from nodeupgrade.api.values import AwakeTime
from nodeupgrade.errors import StepFailed
from nodeupgrade.node.host.systemd.units import UnitStatus
from nodeupgrade.node.node import Node
from nodeupgrade.node.plan.plan import RunPlan
from nodeupgrade.node.run.kubelet_health import wait_until_healthy
from nodeupgrade.node.run.steps.kubelet import require_same_process

UNIT, LIMIT = "kubelet.service", 60.0


@dataclass
class Starting:
    """A kubelet that dies at these moments, is started again ten seconds after each, and is well from one on."""

    dies: tuple[float, ...]
    well_from: float = 1e9
    now: float = field(default=0.0)
    wrote: tuple[str, ...] = ()

    def awake(self) -> AwakeTime:
        return AwakeTime(self.now)

    def sleep(self, seconds: float) -> None:
        self.now += seconds

    def healthy(self) -> bool:
        return self.now >= self.well_from

    def log(self, unit: str) -> tuple[str, ...]:
        """What it wrote before it died, in the log of that start, a moment later."""
        assert unit == UNIT
        return self.wrote if not self.dies or any(death + 2 <= self.now < death + 10 for death in self.dies) else ()

    def status(self, unit: str) -> UnitStatus:
        waiting = any(death <= self.now < death + 10 for death in self.dies)
        restarts = sum(death + 10 <= self.now for death in self.dies)
        return UnitStatus(
            name=unit,
            load_state="loaded",
            active_state="activating" if waiting else "active",
            sub_state="auto-restart" if waiting else "running",
            main_pid=0 if waiting else 100 + restarts,
            restarts=restarts,
            result="exit-code" if waiting else "success",
        )


def node_of(kubelet: Starting) -> Node:
    return Node(
        runtime=cast("object", None),  # type: ignore[arg-type]  # nothing here asks it
        files=cast("object", None),  # type: ignore[arg-type]  # likewise
        services=kubelet,  # type: ignore[arg-type]  # only status() and log() are asked
        kubelet=kubelet,  # type: ignore[arg-type]  # only healthy() is asked
        clock=kubelet,  # type: ignore[arg-type]  # only what is defined above
        shield=cast("object", None),  # type: ignore[arg-type]  # nothing here asks it
        packages=cast("object", None),  # type: ignore[arg-type]  # likewise
    )


def wait(kubelet: Starting, *, forgiving: bool) -> None:
    wait_until_healthy(node_of(kubelet), UNIT, LIMIT, forgiving=forgiving, watch=lambda: None)


def test_a_new_kubelet_that_dies_twice_is_given_up_at_once() -> None:
    kubelet = Starting(dies=(0.1, 10.2, 20.3))

    with pytest.raises(StepFailed, match="exits right after its start") as failed:
        wait(kubelet, forgiving=False)

    assert failed.value.reason is Reason.KUBELET_DID_NOT_START
    assert 10.2 < kubelet.now < 13


def test_a_new_kubelet_may_die_once() -> None:
    wait(Starting(dies=(0.1,), well_from=12.0), forgiving=False)


def test_the_old_kubelet_may_die_as_often_as_it_takes() -> None:
    wait(Starting(dies=(0.1, 10.2, 20.3, 30.4), well_from=42.0), forgiving=True)


@pytest.mark.parametrize("forgiving", [True, False])
def test_hope_ends_with_the_limit(forgiving: bool) -> None:
    kubelet = Starting(dies=())

    with pytest.raises(StepFailed, match="did not become healthy within 60 s"):
        wait(kubelet, forgiving=forgiving)

    assert LIMIT <= kubelet.now < LIMIT + 1


EXPIRED = 'E1126 16:07:00.39 9295 bootstrap.go:266] "Unhandled Error" err="the certificate is \\"expired\\"" logger="U"'
PLAIN = "E1126 16:07:00.395017    9295 bootstrap.go:266] the certificate is expired"
ENDED = 'E1126 16:07:00.395425    9295 run.go:74] "command failed" err="unable to load bootstrap kubeconfig"'
JSON = '{"ts":1,"caller":"app/run.go:74","msg":"command failed","err":"no file"}'
WROTE = "kubelet.service; the kubelet wrote: "


@pytest.mark.parametrize(("wrote", "said"), [
    ((), "see journalctl -u kubelet.service"),
    (("I1126 16:07:00.2 9295 server.go:1] fine", ENDED, "it is over"), f"{WROTE}unable to load bootstrap kubeconfig"),
    ((ENDED, PLAIN, ENDED), f"{WROTE}the certificate is expired; unable to load bootstrap kubeconfig"),
    ((EXPIRED, JSON), f'{WROTE}the certificate is \\"expired\\"; no file'),
])  # fmt: skip
@pytest.mark.parametrize("dies", [(), (0.1, 10.2, 20.3)])
def test_the_last_errors_of_a_kubelet_that_does_not_start_is_told(
    dies: tuple[float, ...], wrote: tuple[str, ...], said: str
) -> None:
    with pytest.raises(StepFailed) as failed:
        wait(Starting(dies=dies, wrote=wrote), forgiving=False)

    assert str(failed.value).endswith(said)


def test_the_last_errors_of_a_kubelet_that_exits_while_it_settles_are_told() -> None:
    plan = cast("RunPlan", SimpleNamespace(swap=SimpleNamespace(unit=UNIT)))

    with pytest.raises(StepFailed, match="exited during the settle period") as failed:
        require_same_process(node_of(Starting(dies=(), wrote=(ENDED,))), plan, 99)

    assert str(failed.value).endswith(f"{WROTE}unable to load bootstrap kubeconfig")
