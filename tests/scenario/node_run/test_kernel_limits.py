"""Pods share limits of the kernel with the kubelet, and may take all that it gives up, or all that there is."""

from functools import partial
from pathlib import PurePosixPath

import pytest

from nodeupgrade.errors import StepFailed
from nodeupgrade.node.failpoints.failpoints import RUNTIME_RESTARTED
from nodeupgrade.node.journal.journal import Mark, parse
from nodeupgrade.node.running_kubelet.kernel_limits import INSTANCES, WATCHES, path_of
from nodeupgrade.text import number, trimmed
from tests.scenario.node_run.test_lost_pods import RESTART, serve_no_cri_while_it_hangs, well_again
from tests.scenario.node_run.test_node_run import Story, story

LIMIT, OTHER = str(path_of(INSTANCES)), str(path_of(WATCHES))
STOP = "services.stop kubelet.service"


def hungry(when: str = STOP, *, takes: int = 1000) -> Story:
    """A pod takes so many instances from when on, as far as it gets them."""
    it = story()
    it.node.disk.update({LIMIT: b"128\n", OTHER: b"2000000\n"})

    def used_up() -> str | None:
        return INSTANCES if (number(trimmed(it.node.disk[LIMIT].decode())) or 0) <= takes else None

    it.node.calls.before(when, lambda: setattr(it.node.kubelet, "limit_used_up", used_up))
    return it


def told(it: Story) -> str:
    return str(parse(it.node.journal.data)[0].finished)


@pytest.mark.parametrize(("takes", "raised"), [(1000, 65536), (100_000, 131_072)], ids=["some", "ever more"])
def test_what_pods_take_once_the_kubelet_is_stopped_keeps_no_old_one_from_running(takes: int, raised: int) -> None:
    it = hungry(takes=takes)

    assert well_again(it, it.tell())
    assert (it.node.disk[LIMIT], it.node.disk[OTHER]) == (f"{raised}\n".encode(), b"2000000\n")
    assert f"{LIMIT} from 128 to {raised}" in told(it)
    assert OTHER not in told(it)


@pytest.mark.parametrize("readable", [False, True], ids=["read", "written"])
def test_limits_that_cannot_be_keep_no_old_kubelet_from_its_start(
    monkeypatch: pytest.MonkeyPatch, *, readable: bool
) -> None:
    """The pod may have ended by then."""
    it = hungry()

    def refuse(path: PurePosixPath, _data: bytes) -> None:
        raise StepFailed(f"cannot write {path}")

    monkeypatch.setattr(it.node.files, "write_kernel", refuse)
    ends = partial(setattr, it.node.kubelet, "limit_used_up", lambda: None)
    it.node.calls.before(STOP, lambda: it.node.timeline.after(60.0, ends))
    if not readable:
        it.node.calls.before(STOP, lambda: it.node.disk.update({LIMIT: b"?", OTHER: b""}))

    assert well_again(it, it.tell())
    assert "was used up" not in told(it)
    assert Mark.UNDO_FAILED not in {record.mark for record in parse(it.node.journal.data)[0].records}


def test_a_runtime_that_is_restarted_for_its_cri_gets_what_it_needs(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its plugin is not loaded without, and a restart would change nothing; neither would any patience."""
    it, at = hungry(RESTART), list[float]()
    runtime = it.node.runtime
    serve_no_cri_while_it_hangs(it, monkeypatch)

    def started() -> None:
        at.append(it.node.timeline.monotonic)
        runtime.troubles.hangs = it.node.kubelet.limit_used_up() is not None
        it.node.calls.before(RESTART, started)

    it.node.calls.failpoints[RUNTIME_RESTARTED] = started

    assert well_again(it, it.tell())
    assert f"{LIMIT} from 128 to 65536" in told(it)
    assert at[1] - at[0] < 60.0
