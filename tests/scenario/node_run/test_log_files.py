"""A runtime opens the logs of its containers when it starts: nothing that lies in their place holds a run."""

import contextlib
from collections.abc import Callable
from dataclasses import replace
from pathlib import PurePosixPath

import pytest

from nodeupgrade.api.values import MonotonicSeconds
from nodeupgrade.errors import StepFailed
from nodeupgrade.node.failpoints.failpoints import KUBELET_STARTED
from nodeupgrade.node.journal.journal import Outcome
from nodeupgrade.node.run.start_preconditions import restart_for_logs, restart_for_lost, start_runtime
from tests.doubles.node import Behaviour
from tests.scenario.node_run.test_lost_pods import RESTART, held, later, well_again
from tests.scenario.node_run.test_node_run import LIMITS, Story, story


def log_of(it: Story, attempt: int | None = None) -> PurePosixPath:
    web = next(it.plan.baseline.running())
    of_pod = PurePosixPath(it.plan.logs) / f"{web.pod.namespace}_{web.pod.name}_{web.pod.uid}"
    return of_pod / web.name / f"{web.attempt if attempt is None else attempt}.log"


def opens(it: Story, opened: Callable[[], None]) -> None:
    """Have something happen whenever the runtime opens the logs, after what happens to them right before it."""

    def restarted() -> None:
        opened()
        it.node.calls.before(RESTART, restarted)

    it.node.calls.before(RESTART, restarted)


def waits_for(it: Story, path: PurePosixPath, *, starts_in: float = 0.0) -> None:
    """The runtime waits for the reader of a FIFO whenever it starts; systemd, so long for its word that it has."""
    trouble = it.node.runtime.troubles

    def opened() -> None:
        trouble.hangs = str(path) in it.node.files.odd
        trouble.starts_in = starts_in if trouble.hangs else 0.0

    opens(it, opened)


def put(it: Story, path: PurePosixPath) -> Callable[[], None]:
    return lambda: it.node.files.odd.update({str(path): "it is a FIFO"})


def says(it: Story) -> str:
    return "".join(str(record.error) for record in held(it))


@pytest.mark.parametrize(
    ("logs", "expendable"), [("/var/log/pods", False), ("/data/logs", False), ("/data/logs", True)]
)
def test_a_fifo_that_is_there_before_the_restart_is_moved_aside(logs: str, *, expendable: bool) -> None:
    it = story()
    web = next(it.plan.baseline.running())
    planned = (replace(c, expendable=expendable and c.pod == web.pod) for c in it.plan.containers)
    it.plan = replace(it.plan, logs=logs, containers=tuple(planned))
    waits_for(it, log_of(it))
    it.node.calls.before("services.stop kubelet.service", put(it, log_of(it)))

    assert it.tell().outcome is Outcome.UPGRADED


@pytest.mark.parametrize("starts_in", [0.0, 90.0], ids=["1.6", "from 1.7 on"])
def test_a_fifo_that_is_put_there_at_the_restart_costs_no_more_than_the_budget(starts_in: float) -> None:
    """From 1.7 on, containerd tells systemd that it has started once it has opened the logs."""
    it = story()
    it.node.calls.before(RESTART, put(it, log_of(it)))
    waits_for(it, log_of(it), starts_in=starts_in)

    report = it.tell()

    assert well_again(it, report)
    assert "in the place of logs was moved aside" in says(it)
    assert report.down_seconds is not None
    assert report.down_seconds < LIMITS.kubelet_down + 10


@pytest.mark.parametrize(
    "up", [0, 1, 2, 3, 4], ids=["the log", "its directory", "that of the pod", "that of all", "above all"]
)
def test_a_log_that_cannot_be_opened_holds_no_way_back(up: int) -> None:
    """A runtime that starts answers then, but does not show the container as running."""
    it = story()
    it.plan = replace(it.plan, logs="/var/log/k8s/pods")
    web, log = next(it.plan.baseline.running()), log_of(it)
    path = (log, *log.parents)[up]
    hidden = it.node.runtime.troubles.overlooks
    it.node.calls.before(RESTART, put(it, path))
    opens(it, lambda: hidden.add(web.id) if str(path) in it.node.files.odd else hidden.clear())

    report = it.tell()

    assert well_again(it, report)
    assert "in the place of logs was moved aside" in says(it)


def test_no_runtime_is_restarted_beside_what_cannot_be_moved_aside(monkeypatch: pytest.MonkeyPatch) -> None:
    """As on a full disk, where the new name of it has no room."""
    it = story()

    def full(path: PurePosixPath, below: PurePosixPath, *, directory: bool = False) -> None:
        if it.node.files.misplaced(path, below, directory=directory) is not None:
            raise StepFailed(f"cannot clear the way to {path} because No space left on device")

    monkeypatch.setattr(it.node.files, "clear_way", full)
    waits_for(it, log_of(it))
    it.node.calls.before("services.stop kubelet.service", put(it, log_of(it)))

    report = it.tell()

    assert well_again(it, report)
    assert RESTART not in it.node.calls.effects
    assert "No space left" in report.message


def test_a_program_in_the_place_of_a_log_holds_no_way_back() -> None:
    """Nobody can write a program that runs, but it is a regular file."""
    it = story()
    web, log = next(it.plan.baseline.running()), str(log_of(it))
    hidden = it.node.runtime.troubles.overlooks

    def runs() -> None:
        it.node.disk[log] = b"a program"
        it.node.files.busy.add(log)

    it.node.calls.before(RESTART, runs)
    opens(it, lambda: hidden.add(web.id) if log in it.node.files.busy else hidden.clear())

    assert well_again(it, it.tell())
    assert log not in it.node.disk


def test_what_was_in_the_way_and_is_gone_holds_no_way_back() -> None:
    """A runtime that could not open a log when it started never tries again."""
    it = story()
    web = next(it.plan.baseline.running())
    hidden = it.node.runtime.troubles.overlooks
    starts = iter((True, False, False))
    opens(it, lambda: hidden.add(web.id) if next(starts) else hidden.clear())

    assert well_again(it, it.tell())
    assert it.node.calls.effects.count(RESTART) == 3, "forward, for the log, and for the hashes"


def test_a_runtime_that_goes_on_to_lose_containers_is_not_restarted_again_and_again() -> None:
    it = story()
    web = next(it.plan.baseline.running())
    it.node.calls.before(RESTART, lambda: setattr(it.node.runtime.troubles, "overlooks", {web.id}))
    later(it, 3600.0, lambda: setattr(it.node.runtime.troubles, "overlooks", set()))

    assert well_again(it, it.tell())
    assert it.node.calls.effects.count(RESTART) == 3, "forward, once for what was lost, and for the hashes"


@pytest.mark.parametrize("up", [0, 1])
def test_a_log_that_is_newer_than_the_plan_holds_no_way_back(up: int) -> None:
    it = story()
    it.node.kubelet.behaviour["v1.33.13"] = Behaviour.SICKENS
    web = next(it.plan.baseline.running())
    path = (log_of(it).parent.with_name("late") / "0.log", log_of(it).parent.with_name("late"))[up]
    waits_for(it, path)

    def comes() -> None:
        hashed = it.node.runtime.containers[web.id].hashes.container
        assert hashed
        it.node.runtime.create_container(it.node.runtime.sandboxes[web.sandbox_id], "late", hashed)
        put(it, path)()

    it.node.calls.failpoints[KUBELET_STARTED] = comes

    assert well_again(it, it.tell())
    assert it.node.files.odd, "it was put there"
    assert str(path) not in it.node.files.odd


def test_what_lies_there_is_moved_aside_before_a_runtime_starts_that_does_not_run() -> None:
    """As where systemd does not start it again, or has given up."""
    it = story()
    put(it, log_of(it))()
    it.node.runtime.stopped = True

    start_runtime(it.node.ports, it.plan)

    assert str(log_of(it)) not in it.node.files.odd
    assert not it.node.runtime.stopped


@pytest.mark.parametrize("directory", ["/var/log/crio", "/var/log/crio/pods"])
@pytest.mark.parametrize("kind", ["links", "odd", "disk"])
@pytest.mark.parametrize("when", ["services.stop kubelet.service", RESTART])
def test_what_lies_in_place_of_a_directory_that_a_starting_runtime_makes_holds_no_run(
    directory: str, kind: str, when: str
) -> None:
    """CRI-O exits without the directory for logs, which pods may write, whatever it has there."""
    it = story()
    it.node.runtime.kind = replace(it.node.runtime.kind, opens_logs=False, makes=(PurePosixPath("/var/log/crio/pods"),))
    files, trouble = it.node.files, it.node.runtime.troubles
    theirs: dict[str, Callable[[], None]] = {
        "links": lambda: files.links.update({directory: "/nowhere"}),
        "odd": lambda: files.odd.update({directory: "it is a FIFO"}),
        "disk": lambda: it.node.disk.update({directory: b"theirs"}),
    }
    it.node.calls.before(when, theirs[kind])
    opens(it, lambda: setattr(trouble, "hangs", directory in {*files.links, *files.odd, *it.node.disk}))

    report = it.tell()

    assert report.outcome is (Outcome.ROLLED_BACK if when == RESTART else Outcome.UPGRADED)
    assert it.nothing_restarted()


@pytest.mark.parametrize("since", [True, False])
def test_a_runtime_that_has_not_started_since_is_not_restarted_for_a_log(*, since: bool) -> None:
    """It may be busy, and waits for no log."""
    it = story()
    put(it, log_of(it))()
    it.node.timeline.advance(60.0)
    examined = MonotonicSeconds(it.node.timeline.monotonic)
    if since:
        it.node.timeline.advance(5.0)
        it.node.runtime.restart()
    it.node.timeline.advance(5.0)

    with contextlib.suppress(StepFailed):
        restart_for_logs(it.node.ports, replace(it.plan, examined=examined))

    assert (RESTART in it.node.calls.effects) is since


@pytest.mark.parametrize(
    ("opens", "started", "restarted"),
    [(True, True, True), (True, False, False), (False, True, False)],
    ids=["it opens logs", "it has not started since the examination", "it opens none"],
)
def test_only_a_runtime_that_opened_logs_since_the_examination_is_restarted_for_what_it_lost(
    *, opens: bool, started: bool, restarted: bool
) -> None:
    """Another one has lost containers for another reason, and would cost the node a restart for nothing."""
    it = story()
    it.node.runtime.kind = replace(it.node.runtime.kind, opens_logs=opens)
    it.node.timeline.advance(60.0)
    examined = MonotonicSeconds(it.node.timeline.monotonic)
    if started:
        it.node.timeline.advance(5.0)
        it.node.runtime.restart()
    it.node.timeline.advance(5.0)
    told = it.node.timeline.monotonic

    assert restart_for_lost(it.node.ports, replace(it.plan, examined=examined), told) is restarted
    assert (RESTART in it.node.calls.effects) is restarted
