"""A pod of the superuser may have a lease on any file that it may read: nobody waits for it while no kubelet runs."""

import pytest

from nodeupgrade.node.journal.journal import Outcome
from tests.doubles.node import Behaviour
from tests.scenario.node_run.test_lost_pods import well_again
from tests.scenario.node_run.test_node_run import Story, story

ENABLE, SECONDS = "/proc/sys/fs/leases-enable", "/proc/sys/fs/lease-break-time"
STOP = "services.stop kubelet.service"


def on_kernel(enable: bytes = b"1\n", seconds: bytes = b"45\n") -> Story:
    it = story()
    it.node.disk.update({ENABLE: enable, SECONDS: seconds})
    return it


def settings(it: Story) -> tuple[bytes, bytes]:
    return it.node.disk[ENABLE], it.node.disk[SECONDS]


@pytest.mark.parametrize("back", [False, True])
@pytest.mark.parametrize(
    ("before", "meanwhile"),
    [
        ((b"1\n", b"45\n"), (b"0\n", b"1\n")),
        ((b"0\n", b"10\n"), (b"0\n", b"1\n")),
        ((b"1\n", b"0\n"), (b"0\n", b"1\n")),  # of the second, 0 means without end
    ],
)
def test_while_no_kubelet_runs_no_lease_keeps_anybody_waiting(
    before: tuple[bytes, bytes], meanwhile: tuple[bytes, bytes], *, back: bool
) -> None:
    it = on_kernel(*before)
    seen = list[tuple[bytes, bytes]]()
    it.node.calls.before(STOP, lambda: seen.append(settings(it)))
    if back:
        it.node.kubelet.behaviour["v1.33.13"] = Behaviour.NEVER_HEALTHY

    report = it.tell()

    assert well_again(it, report) if back else report.outcome is Outcome.UPGRADED
    assert seen[0] == meanwhile
    assert settings(it) == before


def test_what_somebody_has_set_meanwhile_stays() -> None:
    it = on_kernel()
    it.node.calls.before(STOP, lambda: it.node.disk.update({SECONDS: b"30\n"}))

    assert it.tell().outcome is Outcome.UPGRADED
    assert settings(it) == (b"1\n", b"30\n")


def test_a_kernel_without_them_is_left_alone() -> None:
    it = story()

    assert it.tell().outcome is Outcome.UPGRADED
    assert not [effect for effect in it.node.calls.effects if "/proc/sys/fs/lease" in effect]
