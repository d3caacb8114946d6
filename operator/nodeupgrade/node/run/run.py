"""The loop of one node's run: observe, decide, record, act, until the journal has a FINISHED record.

Starting it again after any interruption continues where the journal ends. There is no separate recovery path.
"""

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import PurePosixPath
from typing import assert_never

from nodeupgrade.api.json import JsonValue, from_json, to_json
from nodeupgrade.api.limits import shorten
from nodeupgrade.api.reasons import Reason
from nodeupgrade.api.task.step import Step
from nodeupgrade.errors import Inconsistent, NodeUpgradeError, StepFailed, Transient
from nodeupgrade.node.failpoints.failpoints import When, at
from nodeupgrade.node.journal.journal import CHANGED, DOUBTFUL, Journal, Mark, Outcome, Record
from nodeupgrade.node.journal.plan_in_effect import plan_in_effect
from nodeupgrade.node.journal.run_store import JournalStore, volatile_files
from nodeupgrade.node.node import DEAD_MAN_TIMER, KUBELET_ENVIRONMENT, Node
from nodeupgrade.node.plan.plan import RunPlan
from nodeupgrade.node.rescue import script
from nodeupgrade.node.run import (
    before_images,
    kernel_settings,
    kubelet_ports,
    lease_keeping,
    own_files,
    progress_deadline,
    reload_look,
    restart_tuning,
    shield_use,
    shown_containers,
    start_preconditions,
)
from nodeupgrade.node.run.container_watch import glance
from nodeupgrade.node.run.report import RunReport
from nodeupgrade.node.run.state_machine import (
    Do,
    Finish,
    HoldRollback,
    Observation,
    Undo,
    Wait,
    committed,
    decide,
    needs_ports,
    needs_quiet,
    needs_runtime,
)
from nodeupgrade.node.run.steps.actions import Unreversed
from nodeupgrade.node.run.steps.order import STEPS
from nodeupgrade.node.run.summary import has_one_kubelet, sum_up
from nodeupgrade.node.verification.hidden_containers import Obstacle

HELD_AGAIN_SECONDS = 60.0
FINISH_TRIES = 12
FINISH_PAUSE = 5.0
"""Seconds between two tries to record the end. After the last one systemd starts the executor again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeRun:
    """One run, which carries out one plan."""

    node: Node
    plan: RunPlan
    store: JournalStore
    heartbeat: Callable[[], None] = lambda: None  # called before every decision, for a watchdog
    # called with the seconds that may pass from now on without any progress; waiting by the clock is progress
    allow: Callable[[float], None] = lambda _seconds: None

    def carry_out(self) -> RunReport:
        """Run to the end and return the report.

        Raises:
            Inconsistent: the journal cannot be trusted; the node is left as it is.
        """
        journal = self.store.load()
        while (finished := journal.finished) is None:
            self.allow(progress_deadline.longest_silence(self.plan.limits))
            self.heartbeat()
            own_files.make_again(replace(self.node, recorded=journal.payload), self._plan(journal), journal)
            journal = self._advance(journal)
        report = from_json(RunReport, finished.payload, strict=True)
        self.allow(progress_deadline.longest_silence(self.plan.limits))
        self._clean_up(self._plan(journal), report.outcome)
        return report

    def _advance(self, journal: Journal) -> Journal:
        clock = self.node.clock
        seen = Observation(
            monotonic=clock.monotonic(),
            boot=clock.boot(),
            abort=self.node.abort(),
            planned_boot=self.plan.boot,
            planned_at=self.plan.examined,
            rescue=self.node.rescue(),
            go_on=self.node.go_on(),
            end=self.node.end(),
        )
        decision = decide(journal, seen, self.plan.limits)
        if needs_runtime(decision):
            decision = decide(journal, replace(seen, obstacle=self._runtime_obstacle(journal)), self.plan.limits)
            if needs_ports(decision):
                decision = decide(journal, replace(seen, obstacle=self._port_obstacle()), self.plan.limits)
        elif needs_quiet(decision):
            decision = decide(journal, replace(seen, obstacle=self._shield_obstacle(journal)), self.plan.limits)
        match decision:
            case Do(step=step, seconds=seconds):
                return self._do(journal, step, seconds)
            case Undo(step=step) as undo:
                return self._undo(self._announce_again(self._announce(journal, undo), undo), step, undo)
            case HoldRollback() as hold:
                return self._hold(self._announce(journal, hold.undo), hold)
            case Wait(seconds=seconds):
                clock.sleep(seconds)
                return journal
            case Finish() as finish:
                return self._finish(journal, finish)
            case never:
                assert_never(never)

    def _plan(self, journal: Journal) -> RunPlan:
        return plan_in_effect(self.plan, journal)

    def _finish(self, journal: Journal, finish: Finish) -> Journal:
        """Record the end; if the disk cannot be written, wait until it can, since nothing is left to do."""
        with suppress(Exception):  # the end does not depend on it
            kernel_settings.restore(self.node, journal.payload(Step.STOP_KUBELET) or {})
        report = sum_up(replace(self.node, recorded=journal.payload), self.plan, journal, finish)
        why = ""
        for _ in range(FINISH_TRIES):
            try:
                return self._record(journal, Mark.FINISHED, payload=to_json(report, strict=True), reason=finish.reason)
            except StepFailed as error:
                why = str(error)
            self.heartbeat()
            self.node.clock.sleep(FINISH_PAUSE)
        raise StepFailed(f"the end of the run cannot be recorded: {why}")

    def _do(self, journal: Journal, step: Step, seconds: float) -> Journal:
        actions = STEPS[step]
        self.allow(progress_deadline.seconds_without_progress(step, self.plan.limits))
        try:
            payload = journal.payload(step)
            interrupted = payload is not None
            if payload is None:
                payload = actions.prepare(replace(self.node, recorded=journal.payload), self._plan(journal))
                journal = self._record(journal, Mark.DOING, step, payload=payload)
            self.node.failpoint(at(step, When.ANNOUNCED))
            if not (interrupted and actions.is_done(self.node, self._plan(journal), payload)):
                actions.do(replace(self.node, seconds=seconds, recorded=journal.payload), self._plan(journal), payload)
            self.node.failpoint(at(step, When.DONE))
        except Exception as error:  # noqa: BLE001 - even a bug must turn the run back, not strand the node
            changes: dict[str, JsonValue] | None = None
            if isinstance(error, StepFailed) and error.changed:
                changes = {CHANGED: list(error.changed)}
            return self._record(
                journal, Mark.FAILED, step, payload=changes, error=_sentence(error), reason=_reason(error)
            )
        return self._record(journal, Mark.DONE, step)

    def _undo(self, journal: Journal, step: Step, undo: Undo) -> Journal:
        payload = journal.payload(step)
        if payload is None:  # it failed in ``prepare``, before it could have any effect
            return self._record(journal, Mark.UNDONE, step, error=undo.why, reason=undo.reason)
        if hung := self._hung(journal, step):
            return self._record(journal, Mark.UNDO_FAILED, step, error=hung, reason=Reason.STEP_FAILED)
        try:
            self.node.failpoint(at(step, When.UNDOING))
            unreversed = STEPS[step].undo(replace(self.node, recorded=journal.payload), self._plan(journal), payload)
            self.node.failpoint(at(step, When.UNDONE))
        except Exception as error:  # noqa: BLE001 - retried and reported; a crash loop would be neither
            return self._record(journal, Mark.UNDO_FAILED, step, error=_sentence(error), reason=_reason(error))
        if isinstance(unreversed, Unreversed):
            doubtful: dict[str, JsonValue] = {str(each): label for each, label in unreversed.doubtful.items()}
            return self._record(journal, Mark.UNDONE, step, payload={DOUBTFUL: doubtful}, error=unreversed.why)
        return self._record(journal, Mark.UNDONE, step, error=unreversed)

    def _hung(self, journal: Journal, step: Step) -> str:
        """Return how long an undo lasted when the executor was killed for that; empty if it was not.

        A failure that nobody recorded: without this one, what hangs is repeated without end, and nobody learns of it.
        The last sign of progress is from before the runtime was looked at, and so from before the record.
        """
        last, clock = journal.records[-1], self.node.clock
        if (last.step, last.mark, last.boot) != (step, Mark.UNDOING, clock.boot()):
            return ""
        seconds = clock.monotonic() - last.monotonic
        if seconds < progress_deadline.longest_silence(self.plan.limits) - progress_deadline.CALLS_SECONDS:
            return ""
        return f"it was not over after {seconds:.0f} s, when the executor was started again"

    def _announce(self, journal: Journal, undo: Undo) -> Journal:
        """Record why a step is being undone, unless that is recorded or there is nothing to undo."""
        if journal.payload(undo.step) is None or journal.mark(undo.step) in {Mark.UNDOING, Mark.HELD}:
            return journal
        return self._record(journal, Mark.UNDOING, undo.step, error=undo.why, reason=undo.reason)

    def _announce_again(self, journal: Journal, undo: Undo) -> Journal:
        """Record when an undo begins that was held, so that it is known how long it lasts; no undo depends on it."""
        if journal.mark(undo.step) is Mark.HELD:
            with suppress(StepFailed):
                return self._record(journal, Mark.UNDOING, undo.step, error=undo.why, reason=undo.reason)
        return journal

    def _hold(self, journal: Journal, hold: HoldRollback) -> Journal:
        """Wait for runtime or kubelet. Record the obstacle at once, and another one at most once a minute."""
        if not needs_quiet(hold.undo):
            lease_keeping.keep_lease(self.node, self._plan(journal))
        obstacle, last = hold.obstacle, journal.records[-1]
        is_recorded = last.mark is Mark.HELD and (
            (last.reason, last.error) == (obstacle.reason, obstacle.why)
            or self.node.clock.monotonic() - last.monotonic < HELD_AGAIN_SECONDS
        )
        if not is_recorded:
            journal = self._record(journal, Mark.HELD, hold.undo.step, error=obstacle.why, reason=obstacle.reason)
        self.node.clock.sleep(hold.seconds)
        return journal

    def _runtime_obstacle(self, journal: Journal) -> Obstacle | None:
        stopping = journal.first(Step.STOP_KUBELET, Mark.DOING)
        rebooted = stopping is None or stopping.boot != self.node.clock.boot()
        try:
            obstacle = shown_containers.find_obstacle(self.node, self._plan(journal), rebooted=rebooted)
            if obstacle is None or obstacle.reason is not Reason.RUNTIME_LOST_PODS:
                return obstacle
            with suppress(StepFailed, Transient):  # the obstacle is known, and this is tried again
                if before_images.reinstate(replace(self.node, recorded=journal.payload), self._plan(journal)):
                    return shown_containers.find_obstacle(self.node, self._plan(journal), rebooted=rebooted)
                told = journal.first(Step.REWRITE_HASHES, Mark.UNDOING)
                if told is not None and start_preconditions.restart_for_lost(
                    self.node, self._plan(journal), told.monotonic
                ):
                    return shown_containers.find_obstacle(self.node, self._plan(journal), rebooted=rebooted)
            return obstacle
        except Exception as error:  # noqa: BLE001 - an error does not prove that the runtime is fit
            why = f"{_sentence(error)} {shown_containers.how_to_go_on(self.plan)}"
            return Obstacle(reason=_reason(error), why=why)

    def _shield_obstacle(self, journal: Journal) -> Obstacle | None:
        plan, one_kubelet = self._plan(journal), has_one_kubelet(journal)
        try:
            return shield_use.find_obstacle(
                self.node, plan, meanwhile=lambda: glance(self.node, plan, one_kubelet=one_kubelet)
            )
        except Exception as error:  # noqa: BLE001 - an error does not prove that the kubelet is quiet
            return shield_use.unknown_obstacle(plan, _sentence(error))

    def _port_obstacle(self) -> Obstacle | None:
        with suppress(Exception):  # whatever it fails on: whether the kubelet gets its ports shows when it starts
            return kubelet_ports.find_obstacle(self.node, self.plan)
        return None

    def _record(
        self,
        journal: Journal,
        mark: Mark,
        step: Step | None = None,
        *,
        payload: dict[str, JsonValue] | None = None,
        error: str | None = None,
        reason: Reason | None = None,
    ) -> Journal:
        record = Record(
            seq=len(journal.records) + 1,
            mark=mark,
            step=step,
            boot=self.node.clock.boot(),
            at=self.node.clock.now().isoformat(timespec="milliseconds"),
            monotonic=self.node.clock.monotonic(),
            payload=payload,
            error=None if error is None else shorten(error),
            reason=reason,
        )
        self.store.append(record)
        return journal.with_record(record)

    def _clean_up(self, plan: RunPlan, outcome: Outcome) -> None:
        """Clean up after the end. All of it can be repeated, and may fail without harm."""
        with suppress(StepFailed, Inconsistent):
            self.store.scrub()
        for timer in (DEAD_MAN_TIMER, script.TIMER):
            with suppress(StepFailed, Transient):
                self.node.services.stop(timer)
        lease_keeping.release_lease(self.node, plan)
        with suppress(StepFailed, Transient):
            shield_use.end(self.node, plan)
        with suppress(StepFailed):
            self.node.services.remove_mask(plan.swap.unit)
        with suppress(StepFailed, Transient):  # reloads, so systemd forgets the fence too; too slow without a kubelet
            restart_tuning.remove_tuning(self.node.files, self.node.services, self.node.runtime.kind)
        own = (
            *map(PurePosixPath, plan.temporary(keeping_old=outcome is Outcome.DEGRADED)),
            *script.IN_MEMORY,
            KUBELET_ENVIRONMENT,
            *volatile_files(plan.run_id),
        )
        for path in own:
            with suppress(StepFailed):
                self.node.files.remove(path)
        for name in plan.files():
            with suppress(StepFailed):
                self.node.files.tidy(PurePosixPath(name))


def fence_after_reboot(node: Node, plan: RunPlan, journal: Journal) -> str | None:
    """Keep systemd from starting the kubelet at boot while an interrupted run still has to be undone.

    A reboot removes the fence, and the kubelet's program, arguments and manifests may be half swapped.

    Returns:
        What that took from a container.
    """
    last = journal.last
    if last is None or journal.finished is not None or last.boot == node.clock.boot():
        return None
    if committed(journal, node.rescue()):  # nothing will be undone, so nothing would lift the fence
        return None
    if journal.mark(Step.STOP_KUBELET) in {None, Mark.UNDONE}:
        return None
    look = reload_look.unavoidable(node)
    node.services.mask(plan.swap.unit, look)
    node.services.stop(plan.swap.unit)
    return look.lost


def _reason(error: Exception) -> Reason:
    match error:
        case StepFailed(reason=reason):
            return reason
        case NodeUpgradeError():
            return Reason.STEP_FAILED
        case _:
            return Reason.INTERNAL_ERROR


def _sentence(error: Exception) -> str:
    return str(error) if isinstance(error, NodeUpgradeError) else f"unexpected {type(error).__name__}: {error}"
