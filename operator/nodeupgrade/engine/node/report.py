"""Sum up a run that ends."""

from nodeupgrade.api.limits import CONTAINERS_LISTED
from nodeupgrade.api.reasons import counted
from nodeupgrade.api.task.step import Step
from nodeupgrade.domain.node.evidence.verification import affected
from nodeupgrade.domain.node.plan import RunPlan
from nodeupgrade.domain.node.run.journal import Journal, Mark, Outcome
from nodeupgrade.domain.node.run.machine import Finish
from nodeupgrade.domain.node.run.report import RunReport
from nodeupgrade.domain.node.run.rescue_script import Rescue
from nodeupgrade.engine.node.evidence.recreated import replaced
from nodeupgrade.engine.node.evidence.watch import Look, last_look
from nodeupgrade.engine.node.evidence.with_runtime import recorded
from nodeupgrade.engine.node.node import Node


def report(node: Node, plan: RunPlan, journal: Journal, finish: Finish) -> RunReport:
    """Inspect the node a last time and return the run's report.

    After a rollback, wait a moment for what the old kubelet does to the containers that it finds, unless it was watched
    for that long with the shield up.
    """
    final = _settled(node, plan, finish.outcome)
    labels = affected(final.seen.damage)
    with_runtime = recorded(journal.payload(Step.START_KUBELET))
    return RunReport(
        outcome=finish.outcome,
        reason=finish.reason,
        message=finish.why + _told_of_runtime(node, plan),
        # The journal does not record when the rescue script started the kubelet.
        down_seconds=None if node.rescue() is Rescue.DONE else _down_seconds(journal),
        baseline=sum(1 for _ in plan.baseline.running()),
        rewritten=len(plan.rewrites()) if finish.outcome is Outcome.UPGRADED else 0,
        restarted=len(labels),
        listed=labels[:CONTAINERS_LISTED],
        ended=affected(final.seen.ended),
        with_runtime=affected(each for each in final.seen.ended if each.container in with_runtime),
        recreated=replaced(plan, final.inventory) if final.complete else (),
        looked=final.complete,
        rebooted=any(record.boot != node.clock.boot() for record in journal.records),
    )


def _settled(node: Node, plan: RunPlan, outcome: Outcome) -> Look:
    if outcome is Outcome.ROLLED_BACK:
        running = node.services.status(plan.swap.unit).started
        watched = 0.0 if running is None else node.clock.awake() - running
        node.clock.sleep(max(0.0, plan.limits.rollback_settle - watched))
    return last_look(node, plan, new_kubelet=outcome is Outcome.UPGRADED)


def _told_of_runtime(node: Node, plan: RunPlan) -> str:
    if plan.shield is None or not (times := node.shield.restarts()):
        return ""
    return f" (the runtime was restarted {counted(times, 'time')} under the shield, which was raised again)"


def _down_seconds(journal: Journal) -> float | None:
    """Return the seconds without a healthy kubelet, during the upgrade and during a later rollback."""
    there, back = journal.first(Step.START_KUBELET, Mark.DONE), journal.first(Step.STOP_KUBELET, Mark.UNDONE)
    windows = [(journal.first(Step.STOP_KUBELET, Mark.DOING), there or back)]
    if there is not None and (again := journal.first(Step.START_KUBELET, Mark.UNDOING)) is not None:
        windows.append((again, back))
    total = 0.0
    for stopping, started in windows:
        if stopping is None or started is None or started.boot != stopping.boot:
            return None
        total += started.monotonic - stopping.monotonic
    return round(total, 3)
