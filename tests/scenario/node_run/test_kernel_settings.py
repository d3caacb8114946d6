"""What pods have of the kernel's limits, or leases of files, keeps nothing from starting while no kubelet runs."""

from dataclasses import replace
from functools import partial
from pathlib import PurePosixPath

import pytest

from nodeupgrade.errors import StepFailed
from nodeupgrade.node.failpoints.failpoints import SHIELD_LOWERED
from nodeupgrade.node.journal.journal import Mark, Outcome, parse
from nodeupgrade.node.journal.run_store import Rescue
from nodeupgrade.node.running_kubelet.kernel_limits import INSTANCES, LIMITS, path_of
from nodeupgrade.text import number, trimmed
from tests.doubles.node import Behaviour
from tests.doubles.node.calls import Moment
from tests.scenario.node_run.test_lost_pods import well_again
from tests.scenario.node_run.test_node_run import Story, story

ENABLE, SECONDS = "/proc/sys/fs/leases-enable", "/proc/sys/fs/lease-break-time"
BEFORE = {ENABLE: b"1\n", SECONDS: b"45\n"} | dict.fromkeys(map(str, map(path_of, LIMITS)), b"128\n")
MEANWHILE = {ENABLE: b"0\n", SECONDS: b"1\n"} | {
    str(path_of(name)): f"{most}\n".encode() for name, most in LIMITS.items()
}
STOP, START = "services.stop kubelet.service", "services.start kubelet.service"
BACK = pytest.mark.parametrize("back", [False, True], ids=["there", "and back"])


def on_kernel(*, back: bool = False, **settings: bytes) -> Story:
    it = story()
    it.node.disk.update(BEFORE | settings)
    if back:
        it.node.kubelet.behaviour["v1.33.13"] = Behaviour.NEVER_HEALTHY
    return it


def hungry(limit: str, when: str = STOP, *, back: bool = False, takes: int = 10**6) -> Story:
    """A pod takes so much from when on, as far as it gets it; then nothing starts, and systemd answers nobody."""
    it, path = on_kernel(back=back), str(path_of(limit))

    def used_up() -> str | None:
        return limit if (number(trimmed(it.node.disk[path].decode())) or 0) <= takes else None

    def refuse(name: str, _number: int, _moment: Moment) -> None:
        if name.startswith(("services.", "runtime.")) and used_up() is not None:
            raise StepFailed("systemctl: Resource temporarily unavailable")

    def take() -> None:
        it.node.kubelet.limit_used_up = used_up
        it.node.calls.interrupt = refuse

    it.node.calls.before(when, take)
    return it


def settings(it: Story) -> dict[str, bytes]:
    return {path: it.node.disk[path] for path in BEFORE}


def ended_well(it: Story, *, back: bool) -> bool:
    report = it.tell()
    return well_again(it, report) if back else report.outcome is Outcome.UPGRADED


def told(it: Story) -> str:
    return str(parse(it.node.journal.data)[0].finished)


@BACK
@pytest.mark.parametrize(
    "before",
    [{}, {ENABLE: b"0\n", SECONDS: b"10\n"}, {SECONDS: b"0\n"}, {str(path_of(INSTANCES)): b"4294967296\n"}],
    ids=["usual", "without leases", "leases without end", "a limit above"],
)
def test_they_are_others_while_no_kubelet_runs_and_what_they_were_afterwards(
    before: dict[str, bytes], *, back: bool
) -> None:
    it = on_kernel(back=back, **before)
    seen = list[dict[str, bytes]]()
    it.node.calls.before(STOP, lambda: seen.append(settings(it)))

    assert ended_well(it, back=back)
    assert seen[0] == MEANWHILE | {path: data for path, data in before.items() if path not in {ENABLE, SECONDS}}
    assert settings(it) == BEFORE | before
    assert "raised" not in told(it)


@BACK
@pytest.mark.parametrize("limit", LIMITS)
@pytest.mark.parametrize("when", [STOP, "services.restart containerd.service", START])
def test_what_pods_take_once_the_kubelet_is_stopped_keeps_nothing_from_starting(
    limit: str, when: str, *, back: bool
) -> None:
    """They keep it: so the limit is not restored, and that is told."""
    it = hungry(limit, when, back=back)

    assert ended_well(it, back=back)
    path = str(path_of(limit))
    assert settings(it) == BEFORE | {path: MEANWHILE[path]}
    assert f"{path} from 128 to {LIMITS[limit]}" in told(it)


def test_limits_that_cannot_be_written_keep_no_old_kubelet_from_its_start(monkeypatch: pytest.MonkeyPatch) -> None:
    """The pod may have ended by then."""
    it = hungry(INSTANCES)

    def refuse(path: PurePosixPath, _data: bytes) -> None:
        raise StepFailed(f"cannot write {path}")

    monkeypatch.setattr(it.node.files, "write_kernel", refuse)
    ends = partial(setattr, it.node.kubelet, "limit_used_up", lambda: None)
    it.node.calls.before(STOP, lambda: it.node.timeline.after(60.0, ends))
    it.node.calls.before(
        STOP, lambda: it.node.timeline.after(60.0, partial(it.node.calls.__setattr__, "interrupt", quiet))
    )

    assert well_again(it, it.tell())
    assert "raised" not in told(it)


def quiet(_name: str, _number: int, _moment: Moment) -> None:
    return


def test_an_executor_that_comes_after_the_rescue_restores_them() -> None:
    it, done = on_kernel(), list[bool]()
    before = it.node.ports.rescue
    it.node.ports = replace(it.node.ports, rescue=lambda: Rescue.DONE if done else before())
    it.node.calls.before("services.restart containerd.service", lambda: done.append(True))

    it.tell()

    assert settings(it) == BEFORE


def test_what_somebody_has_set_meanwhile_stays() -> None:
    """Also a limit that is used up by then."""
    it = on_kernel()
    theirs = {SECONDS: b"30\n", str(path_of(INSTANCES)): b"9000\n"}
    it.node.calls.before(STOP, lambda: it.node.disk.update(theirs))
    it.node.calls.failpoints[SHIELD_LOWERED] = lambda: setattr(it.node.kubelet, "limit_used_up", lambda: INSTANCES)

    assert it.tell().outcome is Outcome.UPGRADED
    assert settings(it) == BEFORE | theirs
    assert "raised" not in told(it)


@pytest.mark.parametrize("found", [None, b"?", b""], ids=["nothing", "no number", "nothing in it"])
def test_what_a_kernel_does_not_have_is_left_alone(found: bytes | None) -> None:
    it = story()
    it.node.disk.update({} if found is None else dict.fromkeys(BEFORE, found))

    assert it.tell().outcome is Outcome.UPGRADED
    assert not [effect for effect in it.node.calls.effects if "/proc/sys/" in effect]
    assert Mark.FAILED not in {record.mark for record in parse(it.node.journal.data)[0].records}
