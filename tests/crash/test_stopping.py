"""A runtime that has to be stopped for its hashes to be written, such as Docker: what it would start with, and when."""

from nodeupgrade.api.reasons import Reason
from nodeupgrade.node.failpoints.failpoints import FIRST_REWRITTEN
from nodeupgrade.node.journal.journal import Outcome
from tests.crash.harness import World, stopping, stopping_back, wrongs
from tests.doubles.node.containers.runtime_restart import RUNTIME_CONFIG, RUNTIME_UNIT

RESTART = f"services.restart {RUNTIME_UNIT}"
HELD_SECONDS = 100.0


def of_runtime(made: World) -> list[str]:
    return [effect for effect in made.effects if effect.startswith("runtime.") or effect == RESTART]


def test_it_is_stopped_once_and_started_by_the_restart() -> None:
    made = stopping().run()

    assert of_runtime(made) == ["runtime.stop", "runtime.rewrite", "runtime.rewrite", RESTART]
    assert made.report is not None
    assert made.report.outcome is Outcome.UPGRADED
    assert wrongs(made, restarts_allowed=False) == []


def test_on_the_way_back_it_is_stopped_once_more_and_answers_before_a_kubelet_starts() -> None:
    made = stopping_back().run()

    back = of_runtime(made)[4:]
    assert back[:4] == ["runtime.stop", "runtime.restore", "runtime.restore", "runtime.start"]
    assert wrongs(made, restarts_allowed=False) == []


def test_stopped_it_stays_while_its_next_start_is_not_the_planned_one() -> None:
    """It would come back without its containers, and the kubelet would make all of them a second time."""
    made = stopping()
    node = made.node
    found: list[tuple[bool, bool]] = []

    def put_back() -> None:
        found.append((node.runtime.stopped, node.kubelet.process is None))
        del node.disk[RUNTIME_CONFIG]

    def change() -> None:
        node.disk[RUNTIME_CONFIG] = b'root = "/elsewhere"\n'
        node.files.touched[RUNTIME_CONFIG] = node.timeline.wall.timestamp()
        node.timeline.after(HELD_SECONDS, put_back)

    node.calls.failpoints[FIRST_REWRITTEN] = change
    made.run()

    assert found == [(True, True)], "neither the runtime nor a kubelet was started meanwhile"
    assert made.report is not None
    assert (made.report.outcome, made.report.reason) == (Outcome.ROLLED_BACK, Reason.RUNTIME_CONFIGURATION_DRIFT)
    assert wrongs(made, restarts_allowed=False) == []


def test_a_change_that_is_seen_in_time_stops_nothing() -> None:
    made = stopping()
    change = {RUNTIME_CONFIG: b'root = "/elsewhere"\n'}
    made.node.calls.before("journal.append rewrite-hashes doing", lambda: made.node.disk.update(change))
    made.disk |= change
    made.run()

    assert "runtime.stop" not in made.effects
    assert wrongs(made, restarts_allowed=False) == []
