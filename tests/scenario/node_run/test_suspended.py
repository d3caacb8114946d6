"""A node that was ever suspended has two clocks: what is measured by one must not be compared with the other."""

from functools import partial

from nodeupgrade.api.reasons import Reason
from nodeupgrade.api.task.step import Step
from nodeupgrade.node.facts import runtime
from nodeupgrade.node.journal.journal import Mark, Outcome
from nodeupgrade.node.plan.plan import Limits
from tests.doubles.node import Behaviour, plan_for
from tests.doubles.node.containers.runtime_restart import RUNTIME_UNIT
from tests.doubles.node.kubelet import SICKENS_SECONDS
from tests.scenario.node_run.test_node_run import LIMITS, Story, story
from tests.scenario.node_run.test_shield import journal_of, old_kubelet_is_not_quiet

HOUR = 3600.0


def suspended() -> Story:
    """A node that was suspended for an hour after its kubelet and runtime were started, and the plan of its run."""
    node = story().node
    node.timeline.suspend(HOUR)
    return Story(node, plan_for(node, "v1.33.13", limits=LIMITS))


def test_the_shield_stays_up_for_an_old_kubelet_that_is_not_quiet() -> None:
    it = suspended()
    old_kubelet_is_not_quiet(it)
    right = next(c.before.container for c in it.plan.containers if c.name == "nginx")
    assert right is not None
    repair = partial(it.node.runtime.serve, it.container("nginx"), right)
    it.node.calls.before("journal.append arm-dead-man held", lambda: it.node.timeline.after(60, repair))

    report = it.tell()

    assert report.outcome is Outcome.ROLLED_BACK
    assert it.node.kubelet.replaced == []
    held = journal_of(it).first(Step.ARM_DEAD_MAN, Mark.HELD)
    assert held is not None
    assert held.reason == Reason.SHIELD_REFUSED_CALL


def test_a_rollback_watches_the_old_kubelet_before_it_reports() -> None:
    it = suspended()
    it.node.kubelet.behaviour["v1.33.13"] = Behaviour.SICKENS

    report = it.tell()

    assert report.outcome is Outcome.ROLLED_BACK
    process = it.node.kubelet.process
    assert process is not None
    finished = journal_of(it).finished
    assert finished is not None
    assert finished.monotonic - process.started >= it.plan.limits.rollback_settle


def test_suspension_is_no_part_of_the_settle_period() -> None:
    """Nothing runs while the node is suspended, so nothing is proved by that time."""
    it = story(limits=Limits(settle=2 * SICKENS_SECONDS))
    it.node.kubelet.behaviour["v1.33.13"] = Behaviour.SICKENS
    suspend = it.node.timeline.suspend
    it.node.calls.before("journal.append verify doing", lambda: it.node.timeline.after(0.1, lambda: suspend(HOUR)))

    assert it.tell().outcome is Outcome.ROLLED_BACK


def test_suspension_counts_as_time_without_a_kubelet() -> None:
    it = story()
    it.node.calls.before("journal.append read-back doing", lambda: it.node.timeline.suspend(HOUR))

    report = it.tell()

    assert (report.outcome, report.reason) == (Outcome.ROLLED_BACK, Reason.KUBELET_DOWN_BUDGET_EXCEEDED)
    assert it.nothing_restarted()


def test_files_older_than_the_runtime_are_no_change_of_it() -> None:
    it = story()
    it.node.timeline.suspend(HOUR)
    it.node.files.touched["/etc/containerd/config.toml"] = it.node.timeline.wall.timestamp()
    it.node.timeline.advance(60)
    it.node.runtime.restart()
    it.node.timeline.advance(5)
    node = it.node.ports

    found, _ = runtime.examine_runtime(node, node.services.status(RUNTIME_UNIT), node.runtime.info())
    assert found.changed == ()

    it.node.timeline.advance(60)
    it.node.timeline.suspend(HOUR)
    it.node.files.touched[f"/lib/systemd/system/{RUNTIME_UNIT}"] = it.node.timeline.wall.timestamp() - HOUR - 30
    found, _ = runtime.examine_runtime(node, node.services.status(RUNTIME_UNIT), node.runtime.info())
    assert found.changed == (f"/lib/systemd/system/{RUNTIME_UNIT}",)
