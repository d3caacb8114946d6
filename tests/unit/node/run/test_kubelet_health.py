"""Tests how long a run waits for a starting kubelet."""

import pytest

from nodeupgrade.api.reasons import Reason
from nodeupgrade.errors import StepFailed
from nodeupgrade.node.run.kubelet_health import STAYS_UP_SECONDS, require_stays_up, wait_until_healthy
from tests.builders.starting_kubelet import ENDED, LIMIT, UNIT, WROTE, Starting, node_of


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

JSON = '{"ts":1,"caller":"app/run.go:74","msg":"command failed","err":"no file"}'


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


TAKEN = (
    'E1126 16:07:00.39 9295 server.go:995] "Failed to start healthz server" '
    'err="listen tcp 127.0.0.1:10248: bind: address already in use"'
)


def test_an_old_kubelet_whose_port_another_process_has_taken_runs() -> None:
    """Any user of the node can, while no kubelet runs; the new one is turned back for it."""
    wait(Starting(dies=(), wrote=(TAKEN,)), forgiving=True)

    with pytest.raises(StepFailed, match="address already in use"):
        wait(Starting(dies=(), wrote=(TAKEN,)), forgiving=False)


@pytest.mark.parametrize(
    "wrote", [f"\t{TAKEN}", TAKEN.replace("server.go", "prober.go"), TAKEN.replace("address", "no")]
)
def test_no_other_line_says_so(wrote: str) -> None:
    with pytest.raises(StepFailed, match="did not become healthy"):
        wait(Starting(dies=(), wrote=(wrote,)), forgiving=True)


@pytest.mark.parametrize("dies", [(), (STAYS_UP_SECONDS + 1,)], ids=["never", "later"])
def test_a_kubelet_that_has_run_for_a_while_stays_up(dies: tuple[float, ...]) -> None:
    kubelet = Starting(dies=dies)

    require_stays_up(node_of(kubelet), UNIT)

    assert kubelet.now == STAYS_UP_SECONDS


@pytest.mark.parametrize("pause", [0.0, 0.1, 10.0])
def test_one_that_exits_again_and_again_does_not_however_soon_it_is_started_again(pause: float) -> None:
    """systemd waits for 100 ms unless RestartSec is set, which hardly any look falls into."""
    kubelet = Starting(dies=tuple(2.5 + 2.5 * times for times in range(10)), pause=pause)

    with pytest.raises(StepFailed, match="became healthy, but exits") as failed:
        require_stays_up(node_of(kubelet), UNIT)

    assert failed.value.reason is Reason.KUBELET_DID_NOT_START
    assert kubelet.now <= STAYS_UP_SECONDS
