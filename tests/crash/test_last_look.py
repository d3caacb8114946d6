"""Somebody changes what a start would read while a run goes on: noticed before the start, or right after it."""

from collections.abc import Callable
from functools import partial

import pytest

from nodeupgrade.api.reasons import Reason
from nodeupgrade.node.journal.journal import Outcome
from nodeupgrade.node.run import start_preconditions
from nodeupgrade.node.run.started_program import ProgramWatch
from tests.crash.harness import CONFIG, LIMITS, NEW, OLD, PACKAGE, World, back, forward, node_of, stopping_back, wrongs
from tests.doubles.node import Behaviour, Moment, SimulatedNode
from tests.doubles.node.containers.runtime_restart import RUNTIME_CONFIG, RUNTIME_PROGRAM, RUNTIME_UNIT
from tests.doubles.node.kubelet import PROGRAM, program
from tests.doubles.node.planning import plan_for
from tests.doubles.node.services import KUBELET_UNIT

SAME_MINOR = "v1.17.16"
START = f"services.start {KUBELET_UNIT}"
RESTART = f"services.restart {RUNTIME_UNIT}"
STARTING = "journal.append start-kubelet doing"
RESTARTING = "journal.append restart-runtime doing"
STARTING_AGAIN = "journal.append stop-kubelet undoing"
VERIFYING = "journal.append verify doing"
RESTORING = "journal.append rewrite-hashes undoing"
ELSEWHERE = "/opt/another/kubelet"
STRANGER = program("v1.31.1")
KUBELET_DROP_IN = f"/etc/systemd/system/{KUBELET_UNIT}.d/zzz-site.conf"
RUNTIME_DROP_IN = f"/etc/systemd/system/{RUNTIME_UNIT}.d/zzz-site.conf"

Change = Callable[[SimulatedNode], None]


def written(path: str, data: bytes, node: SimulatedNode) -> None:
    node.disk[path] = data
    node.files.touched[path] = node.timeline.wall.timestamp()


def loaded(path: str, lines: str, node: SimulatedNode) -> None:
    node.disk[ELSEWHERE] = STRANGER
    node.disk[path] = f"[Service]\n{lines}\n".encode()
    node.services.read_unit_files()


old_program = partial(written, PROGRAM, program(OLD))
stranger = partial(written, PROGRAM, STRANGER)
unread = partial(written, KUBELET_DROP_IN, b"[Service]\nLimitNOFILE=1\n")
variables = partial(written, "/etc/default/kubelet", b"KUBELET_FLAGS=--max-pods=3\n")
another_config = partial(written, CONFIG, b"maxPods: 3\n")
another_program = partial(loaded, KUBELET_DROP_IN, f"ExecStart=\nExecStart={ELSEWHERE}")
thief = partial(loaded, KUBELET_DROP_IN, f"ExecStartPre=/bin/cp {ELSEWHERE} {PROGRAM}")
broken_config = partial(written, RUNTIME_CONFIG, b"version = = 2\n")
another_runtime_config = partial(written, RUNTIME_CONFIG, b"version = 2\n")
another_runtime = partial(written, RUNTIME_PROGRAM, b"containerd 2.2.0")
runtime_drop_in = partial(loaded, RUNTIME_DROP_IN, "LimitNOFILE=1")


def changing(world: World, change: Change, name: str, *, nth: int = 0) -> World:
    """Let something change right before the nth effect of a name."""
    left = [None] * nth

    def interrupt(effect: str, _number: int, moment: Moment) -> None:
        if effect == name and moment is Moment.BEFORE:
            if not left:
                change(world.node)
            left[:] = left[1:] if left else [None] * 10**4

    return world.run(interrupt)


def theirs(found: list[str]) -> list[str]:
    """Without what somebody else put there, which is not ours to take away."""
    paths = (KUBELET_DROP_IN, RUNTIME_DROP_IN, ELSEWHERE, RUNTIME_CONFIG, RUNTIME_PROGRAM, "/etc/default/kubelet")
    return [wrong for wrong in found if wrong not in {f"{path} differs" for path in paths}]


@pytest.mark.parametrize(
    ("change", "moment", "reason", "told"),
    [
        (old_program, STARTING, Reason.DIGEST_MISMATCH, PROGRAM),
        (stranger, STARTING, Reason.DIGEST_MISMATCH, PROGRAM),
        (unread, STARTING, Reason.UNIT_CHANGED, KUBELET_UNIT),
        (variables, STARTING, Reason.UNIT_CHANGED, "/etc/default/kubelet"),
        (broken_config, RESTARTING, Reason.RUNTIME_CONFIGURATION_DRIFT, RUNTIME_CONFIG),
        (another_runtime, RESTARTING, Reason.RUNTIME_CONFIGURATION_DRIFT, RUNTIME_PROGRAM),
        (runtime_drop_in, RESTARTING, Reason.RUNTIME_CONFIGURATION_DRIFT, RUNTIME_DROP_IN),
    ],
)
def test_what_differs_before_a_start_turns_the_run_back(change: Change, moment: str, reason: Reason, told: str) -> None:
    after = changing(forward(), change, moment)

    assert after.report is not None
    assert (after.report.outcome, after.report.reason) == (Outcome.ROLLED_BACK, reason), after.report.message
    assert told in after.report.message
    assert theirs(wrongs(after, restarts_allowed=False)) == []
    assert after.effects.count(START) == 1, "only the old one was started"
    assert after.effects.count(RESTART) == (0 if moment == RESTARTING else 2)


def without_files() -> World:
    """The kubelet's configuration is none of the files that the run exchanges."""
    node = node_of(small=True)
    node.kubelet.reads = {}
    disk = dict(node.disk)
    plan = plan_for(node, NEW, limits=LIMITS, package=PACKAGE)
    node.shield.plan = plan
    return World(node, plan, disk)


def test_a_configuration_that_nobody_has_looked_at_is_not_what_the_new_kubelet_starts_with() -> None:
    """`kubeadm upgrade node`, in mid-run: with such a file the kubelet would kill the pods that exceed it."""
    after = changing(without_files(), another_config, STARTING)

    assert after.report is not None
    assert (after.report.outcome, after.report.reason) == (Outcome.ROLLED_BACK, Reason.UNIT_CHANGED)
    assert f"{CONFIG} was changed" in after.report.message
    assert after.effects.count(START) == 1, "only the old one was started"


def test_a_configuration_that_was_changed_before_the_kubelet_is_stopped_leaves_it_running() -> None:
    after = changing(without_files(), another_config, "journal.append confirm-binaries doing")

    assert after.report is not None
    assert (after.report.outcome, after.report.reason) == (Outcome.ROLLED_BACK, Reason.UNIT_CHANGED)
    assert after.effects.count(START) == 0
    assert f"services.stop {KUBELET_UNIT}" not in after.effects


@pytest.mark.parametrize("change", [another_program, thief, unread, variables])
@pytest.mark.parametrize("step", ["confirm-binaries", "arm-dead-man"])
def test_a_unit_that_was_changed_before_the_kubelet_is_stopped_leaves_it_running(change: Change, step: str) -> None:
    """Stopped, neither kubelet could be started by it: the node would wait for a person."""
    after = changing(forward(), change, f"journal.append {step} doing")

    assert after.report is not None
    assert (after.report.outcome, after.report.reason) == (Outcome.ROLLED_BACK, Reason.UNIT_CHANGED)
    assert f"services.stop {KUBELET_UNIT}" not in after.effects
    assert after.node.kubelet.process is not None
    assert theirs(wrongs(after, restarts_allowed=False)) == []


@pytest.mark.parametrize("change", [broken_config, another_runtime, runtime_drop_in])
def test_a_runtime_that_would_start_otherwise_is_seen_before_the_kubelet_is_stopped(change: Change) -> None:
    after = changing(forward(), change, "journal.append arm-dead-man doing")

    assert after.report is not None
    assert (after.report.outcome, after.report.reason) == (Outcome.ROLLED_BACK, Reason.RUNTIME_CONFIGURATION_DRIFT)
    assert f"services.stop {KUBELET_UNIT}" not in after.effects


def test_a_runtime_that_is_not_restarted_may_start_as_it_likes() -> None:
    node = node_of(small=True)
    node.kubelet.reads = {}
    disk = dict(node.disk)
    world = World(node, plan_for(node, SAME_MINOR, limits=LIMITS, package=PACKAGE), disk)
    assert not world.plan.rewrites()

    after = changing(world, broken_config, "journal.append arm-dead-man doing")

    assert after.report is not None
    assert after.report.outcome is Outcome.UPGRADED, after.report.message


def test_a_configuration_with_the_same_content_is_no_other_one() -> None:
    def again(node: SimulatedNode) -> None:
        written(CONFIG, bytes(node.disk[CONFIG]), node)

    after = changing(without_files(), again, STARTING)

    assert after.report is not None
    assert after.report.outcome is Outcome.UPGRADED, after.report.message


def test_another_name_for_the_old_program_is_no_other_program() -> None:
    """Such a unit turns the run back, and then starts what is to be started."""

    def renamed(node: SimulatedNode) -> None:
        another_program(node)
        node.disk[ELSEWHERE] = program(OLD)

    after = changing(forward(), renamed, STARTING)

    assert after.report is not None
    assert (after.report.outcome, after.report.reason) == (Outcome.ROLLED_BACK, Reason.UNIT_CHANGED)
    assert theirs(wrongs(after, restarts_allowed=False)) == []


@pytest.mark.parametrize("change", [another_program, thief])
@pytest.mark.parametrize("moment", [STARTING, STARTING_AGAIN])
def test_a_unit_that_would_start_another_program_starts_nothing_any_more(change: Change, moment: str) -> None:
    """Neither is ours to mend: the kubelet stays fenced, and the message says what stands in the way."""
    after = changing(forward() if moment == STARTING else back(), change, moment)

    assert after.report is not None
    assert after.report.outcome is Outcome.DEGRADED
    assert ELSEWHERE in after.report.message
    assert after.node.kubelet.process is None
    assert after.node.services.unit.fenced
    assert (after.node.kubelet.replaced, after.node.kubelet.violations) == ([], [])


@pytest.mark.parametrize(
    ("make", "change", "nth", "outcome"),
    [
        (forward, old_program, 0, Outcome.ROLLED_BACK),
        (forward, stranger, 0, Outcome.ROLLED_BACK),
        (forward, another_program, 0, Outcome.DEGRADED),
        (back, stranger, 1, Outcome.ROLLED_BACK),
        (back, another_program, 1, Outcome.DEGRADED),
    ],
)
def test_what_differs_right_after_a_start_is_stopped_before_it_does_anything(
    make: Callable[[], World], change: Change, nth: int, outcome: Outcome
) -> None:
    """Changed between our look and our start, where nobody can look."""
    after = changing(make(), change, START, nth=nth)

    assert after.report is not None
    assert after.report.outcome is outcome, after.report.message
    assert after.node.kubelet.replaced == []
    assert after.report.restarted == 0
    if outcome is Outcome.DEGRADED:
        assert after.node.kubelet.process is None
        assert after.node.services.unit.fenced
    else:
        assert after.node.disk[PROGRAM] == program(OLD)


@pytest.mark.parametrize(
    ("behaviour", "outcome"),
    [(Behaviour.WELL, Outcome.UPGRADED), (Behaviour.EXITS_HEALTHY, Outcome.ROLLED_BACK)],
)
@pytest.mark.parametrize("seconds", [0.0, 0.05, 5.0])
def test_who_answers_in_place_of_a_kubelet_before_its_program_runs_keeps_none_from_running(
    behaviour: Behaviour, outcome: Outcome, seconds: float
) -> None:
    """Any user of the node can listen at its health endpoint, from its stop until it listens again."""
    world = forward()
    world.node.kubelet.behaviour[NEW] = behaviour
    world.node.kubelet.impersonated, world.node.kubelet.execs_after = True, seconds

    after = world.run()

    assert after.report is not None
    assert after.report.outcome is outcome, after.report.message
    assert wrongs(after, restarts_allowed=False) == []


def test_the_old_program_is_put_back_where_somebody_exchanged_it_on_the_way_back() -> None:
    after = changing(back(), stranger, STARTING_AGAIN)

    assert after.report is not None
    assert after.report.outcome is Outcome.ROLLED_BACK
    assert wrongs(after, restarts_allowed=False) == []


def test_a_runtime_that_could_not_come_back_is_not_restarted_on_the_way_back_either() -> None:
    """It serves the new kubelet's hashes, so that no old one may be started."""
    after = changing(back(), broken_config, RESTORING)

    assert after.report is not None
    assert after.report.outcome is Outcome.DEGRADED
    assert RUNTIME_CONFIG in after.report.message
    assert after.effects.count(RESTART) == 1
    assert not after.node.runtime.broken
    assert after.node.kubelet.process is None
    assert (after.node.kubelet.replaced, after.node.kubelet.violations) == ([], [])


def restarting(change: Change, node: SimulatedNode) -> None:
    """As a package upgrade does, or a DaemonSet that configures the runtime."""
    change(node)
    node.timeline.advance(0.1)
    node.runtime.restart(words=node.runtime.words)


@pytest.mark.parametrize("change", [another_runtime, another_runtime_config])
@pytest.mark.parametrize("make", [back, stopping_back])
def test_a_runtime_that_others_have_changed_and_restarted_comes_back_as_it_runs(
    make: Callable[[], World], change: Change
) -> None:
    after = changing(make(), partial(restarting, change), VERIFYING)

    assert after.report is not None
    assert after.report.outcome is Outcome.ROLLED_BACK, after.report.message
    assert theirs(wrongs(after, restarts_allowed=False)) == []


@pytest.mark.parametrize("change", [another_runtime, another_runtime_config, runtime_drop_in])
def test_what_others_change_once_it_was_restarted_no_runtime_has_started_with(change: Change) -> None:
    def late(node: SimulatedNode) -> None:
        restarting(lambda _node: None, node)
        node.timeline.advance(0.1)
        change(node)

    after = changing(back(), late, VERIFYING)

    assert after.report is not None
    assert after.report.outcome is Outcome.DEGRADED
    assert after.node.kubelet.process is None


def test_control_without_the_looks_the_old_program_runs_on_new_hashes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(start_preconditions, "require_new_program", lambda *_: None)
    monkeypatch.setattr(ProgramWatch, "_look", lambda _self, *, last: None)  # noqa: ARG005

    after = changing(forward(), old_program, STARTING)

    assert theirs(wrongs(after, restarts_allowed=False)) != []


def test_control_without_the_look_another_runtime_is_started(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(start_preconditions, "require_runtime_as_planned", lambda *_: None)

    after = changing(forward(), another_runtime, RESTARTING)

    assert after.report is not None
    assert after.report.outcome is Outcome.UPGRADED
    assert after.effects.count(RESTART) == 1
